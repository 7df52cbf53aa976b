"""The model of the life of memories: one namespace as a plain dict, and what each verb that forgets, archives,
summarises, merges or goes back does to it.

Which memories a policy or consolidation chooses the model is told; that they may go, and all that follows, it knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from hybridmem.types import SUMMARY_TYPE
from stateful.expected import Expected

#: In Chinese, in English and mixed; with a number in it no content is part of another.
TEXTS = ("发票「{}」不清晰，财务退回", "invoice [{}] was returned", "客户 {} prefers 短信 SMS")

SUMMED = -1


def text(number: int) -> str:
    return TEXTS[number % 3].format(f"{1000 + number * 7}")


@dataclass
class Lived(Expected):
    """``values["by"]``: the entry of the log by which a node was merged, SUMMED: it was consolidated; None: neither.
    ``gained``: the uses that a merge gave, by its entry."""

    gained: dict[int, int] = field(default_factory=dict)

    def put(self, id: str, parent: str, type: str, value: str, importance: float, confidence: float) -> dict[str, Any]:
        self.nodes[id] = {
            "parent": parent, "type": type, "value": value, "importance": importance, "confidence": confidence,
            "uses": 0, "pinned": False, "status": "open" if type == "task" else None, "state": "live",
            "replaced_by": None, "purged": False, "by": None, "mark": None, "version": 1,
        }  # fmt: skip
        return self.nodes[id]

    def confirm(self, id: str) -> None:
        values = self.nodes[id]
        values["confidence"] = 1 - (1 - values["confidence"]) / 2
        values["uses"] += 1
        self.node = id

    # What is protected (DESIGN, section 8)

    def ids(self, *states: str) -> list[str]:
        return [id for id in self.nodes if self.state(id) in states]

    def at_work(self) -> set[str]:
        """The active task and node and all above them."""
        return {one for point in (self.task, self.node) if point for one in (point, *self.chain(point))}

    def is_safe(self, id: str) -> bool:
        """Whether no policy and no consolidation may take it."""
        values = self.nodes[id]
        return values["pinned"] or values["status"] in ("open", "paused") or id in self.at_work()

    def is_held(self, id: str) -> bool:
        """Whether no policy may take it: as above, or it is a summary that stands for what is archived, itself or for
        one that it superseded."""
        return self.is_safe(id) or (self.nodes[id]["type"] == SUMMARY_TYPE and self.stands_for_archived(id))

    def stands_for_archived(self, id: str) -> bool:
        replaced = [one for one, values in self.nodes.items() if values["replaced_by"] == id]
        return any(
            self.state(one) == "archived"
            or (
                self.state(one) == "superseded"
                and self.nodes[one]["type"] == SUMMARY_TYPE
                and self.stands_for_archived(one)
            )
            for one in replaced
        )

    def is_summed_up(self, id: str, back: Sequence[str]) -> bool:
        """Whether a summary stands for it, or for one that does, that is live or comes back as well."""
        by, seen = self.nodes[id]["replaced_by"], {id}
        while by in self.nodes and self.nodes[by]["type"] == SUMMARY_TYPE and by not in seen:
            if self.state(by) == "live" or (self.state(by) == "archived" and by in back):
                return True
            if self.state(by) not in ("archived", "superseded"):
                return False
            seen.add(by)
            by = self.nodes[by]["replaced_by"]
        return False

    def there_below(self, id: str) -> list[str]:
        """What hangs right below and is not forgotten."""
        return self.children(id, "live", "archived", "superseded")

    def stays_in_branch(self, id: str, top: str) -> bool:
        """Whether consolidation of a branch must leave it alone: for itself, for a task above it that is not finished
        (inside of the branch), or for what it encloses."""
        below = self.branch(id, "live")
        return any(
            self.is_safe(one) or any(self.nodes[above]["status"] in ("open", "paused") for above in self.up(one, top))
            for one in below
        )

    def up(self, id: str, top: str) -> list[str]:
        """What is above it, as far as below ``top``."""
        above = self.chain(id)
        return above[: above.index(top)] if top in above else []

    # What happens

    def leave(self, ids: Iterable[str], state: str) -> None:
        """They go; an agent that stood at one stands at the nearest live node above."""
        gone = set(ids)
        for id in gone:
            self.give(id, state)
        if self.node in gone:
            self.node = next(one for one in self.chain(self.node) if self.state(one) == "live")

    def replace(self, id: str, by: str) -> None:
        """Superseded: a pin and an agent go over."""
        self.nodes[id].update(state="superseded", replaced_by=by, pinned=False, by=None)
        self.node = by if self.node == id else self.node

    def merge(self, keep: str, others: Sequence[str], sequence: int) -> None:
        values = self.nodes[keep]
        gained = sum(1 + self.nodes[one]["uses"] for one in others)
        values["uses"] += gained
        values["confidence"] = 1 - (1 - values["confidence"]) * 0.5 ** len(others)
        self.gained[sequence] = gained
        for one in others:
            self.take_mark(one, "superseded", keep, sequence)
        self.node = keep if self.node in others else self.node

    def take_mark(self, id: str, state: str, by: str, how: Any) -> None:
        """Another stands for it; what contradicted it is known again when that is undone."""
        values = self.nodes[id]
        values.update(state=state, mark=values["replaced_by"], replaced_by=by, by=how)

    def give_mark_back(self, id: str) -> None:
        values = self.nodes[id]
        values.update(state="live", replaced_by=values["mark"], mark=None, by=None)

    def last_merged(self, keep: str) -> list[str]:
        """What the last merge into it that is not undone has merged, as far as it is merged still."""
        found = [
            one
            for one in self.ids("superseded")
            if self.nodes[one]["replaced_by"] == keep and self.nodes[one]["by"] not in (None, SUMMED)
        ]
        last = max((self.nodes[one]["by"] for one in found), default=None)
        return [one for one in found if self.nodes[one]["by"] == last]

    def sources(self, summary: str) -> list[str]:
        return [one for one, values in self.nodes.items() if (values["by"], values["replaced_by"]) == (SUMMED, summary)]

    def purge(self, ids: Iterable[str]) -> None:
        for one in ids:
            self.nodes[one].update(purged=True, value="")

    # Going back

    def copy(self) -> Lived:
        return deepcopy(self)

    def restore(self, then: Lived) -> None:
        """As it was, but for what is purged: that stays, and what hung under it hangs under the nearest that is not.
        What was not there is forgotten."""
        purged = {one for one, values in self.nodes.items() if values["purged"]}
        for id, values in self.nodes.items():
            old = then.nodes.get(id)
            state = "forgotten" if old is None else old["state"]
            if id in purged and old is not None:
                values["parent"] = old["parent"]
                continue
            if state == "forgotten" and values["state"] != "forgotten":
                self.before[id] = values["state"] if old is None else then.before[id]
            if old is None:
                values["state"] = "forgotten"
                continue
            values.update({**old, "version": values["version"]})
            while state != "forgotten" and values["parent"] in purged:
                values["parent"] = then.parent_of(values["parent"])
        self.gained |= then.gained
        self.task = self._standing(then, then.task, purged, tasks=True)
        self.node = self._standing(then, then.node, purged)

    def _standing(self, then: Lived, id: str | None, purged: set[str], *, tasks: bool = False) -> str | None:
        if id is None or (not tasks and id == self.root):
            return id
        above = [one for one in (id, *then.chain(id)) if one not in purged]
        above = [one for one in above if not tasks or (one != self.root and then.nodes[one]["type"] == "task")]
        return above[0] if above else None

    def counts(self) -> dict[str, int]:
        """As ``stats().by_state`` has them."""
        found: dict[str, int] = {}
        for values in self.nodes.values():
            found[values["state"]] = found.get(values["state"], 0) + 1
        return found

"""One agent in a process of its own: it opens the store, goes on from resume(), and works until it is killed or done.

Everything it does is decided by its seed and by what it finds in the store. It notes every call that writes before it
makes it, and what came of it after it returned and before the next one.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from eval.durability.expected import Expected, here, resumed
from eval.durability.journal import Journal
from eval.durability.trajectories import Beat, Trajectory
from hybridmem import Conflict, Memory, StoreBusy
from hybridmem.index import chroma

#: Who makes the nodes that all agents change.
FOUNDER = "founder"
SHARED = ("shared-0", "shared-1", "shared-2")
#: Chroma writes its files every 50 vectors instead of every 1,000: that is when a kill can tear them.
HNSW = {**chroma.HNSW, "batch_size": 25, "sync_threshold": 50}
#: Every vector search goes through Chroma instead of only those among 10,000 nodes and more.
CONFIG: dict[str, Any] = {
    "embedding": {"provider": "hashing", "dimension": 32},
    "index": {"exact_limit": 0, "batch_size": 10},
    "checkpoint": {"every_operations": 25},
    # What is known of every field of every memory would depend on which searches a kill has left uncounted.
    "weights": {"count_uses": False},
}
#: How often each thing is done; ``go_on`` is the next beat of the trajectory, which makes most of the memories.
CHANCES = {
    "go_on": 45, "decide": 6, "update": 9, "update_shared": 5, "move": 8, "pin": 3, "confirm": 5, "start_task": 2,
    "update_task": 8, "switch_task": 3, "finish_task": 2, "checkpoint": 3, "import_": 2, "search": 4,
    "forget": 5, "restore_forgotten": 3, "archive": 2, "unarchive": 2,
}  # fmt: skip
#: Verbs that change the states of whole branches.
STATES = ("forget", "restore_forgotten", "archive", "unarchive")
_BATCH = 8
_MARK = re.compile(r"marke\w+")
#: A process that nobody kills ends by itself.
MOST_SECONDS = 20.0


class Agent:
    """See :func:`live`."""

    def __init__(self, memory: Memory, journal: Journal, trajectory: Trajectory, run: int, scratch: Path) -> None:
        """
        :param run: a number that no other process on this store has: part of every id and text that is made.
        :param scratch: a folder for the files that are imported.
        """
        self.memory = memory
        self.name = memory.agent
        self._journal = journal
        self._trajectory = trajectory
        self._run = run
        self._scratch = scratch
        self._random = Random(f"{self.name}/{run}")
        self._number = 0
        self.expected: Expected = here(memory)
        own = [node for node in self.expected.nodes.values() if node["agent"] == self.name]
        self._beat = 1 + max((node["beat"] for node in own if node["beat"] is not None), default=-1)

    def step(self, wants: Sequence[str] = ()) -> None:
        """Does one thing.

        :param wants: what to do rather than other things.
        """
        kinds = list(CHANCES)
        if wants and self._random.random() < 0.5:
            kind = self._random.choice(list(wants))
        else:
            kind = self._random.choices(kinds, [CHANCES[one] for one in kinds])[0]
        if kind == "search":
            self._search()
            return
        call = getattr(self, f"_{kind}")()
        if call is not None:
            self._call(*call)

    def _call(self, verb: str, given: dict[str, Any]) -> None:
        self._journal.note({"verb": verb, "given": given})
        try:
            made, version, more = self._do(verb, given)
        except (StoreBusy, Conflict) as error:
            self._journal.note({"refused": type(error).__name__})
            return
        self._journal.note({"made": made, "version": version, "more": more})
        self.expected.apply(self.name, verb, given, made)
        if verb in STATES:  # what a branch was before it was forgotten is known to the store alone
            self.expected = here(self.memory)

    def _do(self, verb: str, given: dict[str, Any]) -> tuple[str | None, int | None, Any]:
        memory = self.memory
        if verb == "add_many":
            return None, None, [node.id for node in memory.add_many(given["items"])]
        if verb == "checkpoint":
            return None, None, list(memory.checkpoint(given["label"]).decision_path)
        if verb in STATES:
            return None, None, list(getattr(memory, verb)(**given).ids)
        if verb == "import_":
            return None, None, memory.import_(given["file"]).added
        if verb == "confirm":
            node = self.expected.nodes[given["id"]]
            made = memory.add(node["content"], parent=node["parent"], type="preference")
        else:
            made = getattr(memory, "update" if verb == "update_shared" else verb)(**given)
        return made.id, made.version, None

    # What to do next: a verb with its arguments, or None if it cannot be done now

    def _go_on(self) -> tuple[str, dict[str, Any]]:
        number, beat = self._next()
        if beat.kind == "start":
            return "start_task", self._start(beat, number)
        task = self._task_of(beat, number)
        if beat.kind == "finish" and task is not None:
            return "finish_task", {"id": task, "status": self._random.choice(("done", "failed"))}
        if beat.kind != "note":
            return "add", self._memory("结束了 done", "event", number)
        if self._random.random() < 0.3:
            return "add_many", {"items": self._several(beat, number)}
        return "add", self._memory(beat.text, beat.type, number)

    def _next(self) -> tuple[int, Beat]:
        number = self._beat
        self._beat += 1
        return number, self._trajectory[number % len(self._trajectory)]

    def _several(self, beat: Beat, number: int) -> list[dict[str, Any]]:
        items = [self._memory(beat.text, beat.type, number)]
        while len(items) < _BATCH and self._trajectory[self._beat % len(self._trajectory)].kind == "note":
            number, beat = self._next()
            item = self._memory(beat.text, beat.type, number)
            if self._random.random() < 0.4:
                item["parent"] = self._random.randrange(len(items))
            items.append(item)
        return items

    def _memory(self, text: str, kind: str, beat: int | None = None) -> dict[str, Any]:
        content = self._text(text)
        metadata = {} if beat is None else {"beat": beat}
        parent = self._random.choice(("task", "task", "node", "root", self._one("note", "event", "fact") or "task"))
        if parent == "task" and self.expected.agent(self.name).task and self._random.random() < 0.2:
            parent = "decision"
        return {"content": content, "id": self._id(), "type": kind, "parent": parent, "metadata": metadata}

    def _start(self, beat: Beat, number: int) -> dict[str, Any]:
        """The title names the task of the trajectory, by which :meth:`_task_of` finds it again."""
        title = f"{self._text(beat.text)} {self._key(beat, number)}"
        parent = "active" if beat.parent else None
        step = self._random.choice((None, f"先联系财务 then go on with {beat.task}"))
        return {"title": title, "next_step": step, "parent": parent, "metadata": {"beat": number}}

    def _key(self, beat: Beat, number: int) -> str:
        return f"[{number // len(self._trajectory)}/{beat.task}]"

    def _task_of(self, beat: Beat, number: int) -> str | None:
        """The task of a beat, if it was started and is not finished."""
        key = self._key(beat, number)
        return next((id for id in self._tasks() if self.expected.nodes[id]["content"].endswith(key)), None)

    def _text(self, text: str) -> str:
        """A text with a mark that no other text has."""
        self._number += 1
        return f"{text} marke{self.name}r{self._run}n{self._number}"

    def _id(self) -> str:
        return f"{self.name}-{self._run}-{self._number}"

    def _own(self, *types: str) -> list[str]:
        return [
            id
            for id, node in self.expected.nodes.items()
            if node["agent"] == self.name and node["type"] in types and node["state"] == "live"
        ]

    def _one(self, *types: str) -> str | None:
        found = self._own(*types)
        return self._random.choice(found[-60:]) if found else None

    def _tasks(self) -> list[str]:
        return [id for id in self._own("task") if self.expected.nodes[id]["status"] == "open"]

    def _decide(self) -> tuple[str, dict[str, Any]]:
        return "add", self._memory("决定：改用电子发票 decided to go on by e-mail", "decision")

    def _update(self) -> tuple[str, dict[str, Any]] | None:
        one = self._one("event", "fact", "note", "decision", "preference")
        if one is None:
            return None
        given: dict[str, Any] = {"id": one, "content": self._text("更正 corrected")}
        if self._random.random() < 0.3:
            given = {"id": one, "importance": round(self._random.random(), 3)}
        if self._random.random() < 0.3:
            given["expected_version"] = self.expected.nodes[one]["version"]
        return "update", given

    def _update_shared(self) -> tuple[str, dict[str, Any]]:
        one = self._random.choice(SHARED)
        given: dict[str, Any] = {"id": one, "content": self._text("大家的 shared by all")}
        if self._random.random() < 0.5:
            given["expected_version"] = self.memory.get(one).version
        return "update_shared", given

    def _move(self) -> tuple[str, dict[str, Any]] | None:
        """Leaves, branches, and whole open tasks; under anything of its own, a shared node, or the root."""
        one = self._one("event", "fact", "note", "task")
        targets = [*self._own("event", "note", "task")[-60:], *SHARED, self.expected.root]
        target = self._random.choice(targets)
        if one is None or self.expected.below(target, one):
            return None
        return "move", {"id": one, "parent": target}

    def _pin(self) -> tuple[str, dict[str, Any]] | None:
        one = self._one("fact", "decision")
        return None if one is None else ("pin", {"id": one, "pinned": self._random.random() < 0.7})

    def _confirm(self) -> tuple[str, dict[str, Any]] | None:
        """Repeats a preference, or makes one to repeat."""
        one = self._one("preference")
        if one is None:
            return "add", self._memory("用户更喜欢短信 prefers text messages", "preference")
        return "confirm", {"id": one}

    def _start_task(self) -> tuple[str, dict[str, Any]]:
        number, beat = self._next()
        return "start_task", self._start(Beat("start", f"extra-{number}", beat.text[:60] or "临时任务 extra"), number)

    def _update_task(self) -> tuple[str, dict[str, Any]] | None:
        task = self.expected.agent(self.name).task
        others = self._tasks()
        if others and (task is None or self._random.random() < 0.2):
            task = self._random.choice(others)
        return None if task is None else ("update_task", {"id": task, "next_step": self._text("下一步 next")})

    def _switch_task(self) -> tuple[str, dict[str, Any]] | None:
        found = self._tasks()
        return ("switch_task", {"id": self._random.choice(found)}) if found else None

    def _finish_task(self) -> tuple[str, dict[str, Any]] | None:
        found = self._tasks()
        return ("finish_task", {"id": self._random.choice(found), "status": "done"}) if len(found) > 2 else None

    def _checkpoint(self) -> tuple[str, dict[str, Any]]:
        return "checkpoint", {"label": self._text("检查点")}

    def _import_(self) -> tuple[str, dict[str, Any]]:
        records: list[dict[str, Any]] = []
        for _ in range(self._random.randint(3, 12)):
            # Each below the last one or at the top: they are stored in this order then.
            above = self._random.choice((None, records[-1]["id"] if records else None))
            content = self._text("导入的 imported")
            records.append({"id": self._id(), "parent_id": above, "type": "event", "content": content})
        file = self._scratch / f"{self._id()}.jsonl"
        lines = [{"kind": "hybridmem", "version": 1}, *({"kind": "node", **record} for record in records)]
        file.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
        return "import_", {"file": str(file), "records": records}

    def _forget(self) -> tuple[str, dict[str, Any]] | None:
        found = [id for id in self._in_state("live", "archived") if self._may_go(id, pinned=False)]
        if not found:
            return None
        one = self._random.choice(found)
        return "forget", {"id": one, "subtree": len(self.expected.branch(one, "live", "archived")) > 1}

    def _archive(self) -> tuple[str, dict[str, Any]] | None:
        found = [id for id in self._in_state("live") if self._may_go(id, pinned=True)]
        return ("archive", {"id": self._random.choice(found)}) if found else None

    def _restore_forgotten(self) -> tuple[str, dict[str, Any]] | None:
        found = [id for id in self._in_state("forgotten") if not self._is_below_forgotten(id)]
        if not found:
            return None
        return "restore_forgotten", {"id": self._random.choice(found), "subtree": self._random.random() < 0.6}

    def _unarchive(self) -> tuple[str, dict[str, Any]] | None:
        found = [id for id in self._in_state("archived") if not self._is_below_forgotten(id)]
        return ("unarchive", {"id": self._random.choice(found)}) if found else None

    def _in_state(self, *states: str) -> list[str]:
        """The newest of its own nodes in these states; the root and open tasks are not among them."""
        nodes = self.expected.nodes.items()
        return [
            id
            for id, node in nodes
            if node["agent"] == self.name
            and node["state"] in states
            and node["type"] != "root"
            and node["status"] != "open"
        ][-30:]

    def _may_go(self, id: str, *, pinned: bool) -> bool:
        """Whether nothing in a branch is protected from being hidden."""
        agent, nodes = self.expected.agent(self.name), self.expected.nodes
        going = self.expected.branch(id, "live", "archived")
        return agent.task not in going and all(
            (pinned or not nodes[one]["pinned"])
            and nodes[one]["status"] != "open"
            and (agent.node is None or agent.node == one or not self.expected.below(agent.node, one))
            for one in going
        )

    def _is_below_forgotten(self, id: str) -> bool:
        while id != self.expected.root:
            id = self.expected.nodes[id]["parent"]
            if self.expected.nodes[id]["state"] == "forgotten":
                return True
        return False

    def _search(self) -> None:
        """What this agent wrote is found as it is now, whoever indexes it; what it has forgotten is not."""
        one = self._random.choice(self._in_state("live", "forgotten") or [self.expected.root])
        mark = _MARK.search(self.expected.nodes[one]["content"])
        if mark is None:
            return
        found = {hit.id: hit.content for hit in self.memory.search(mark.group(), k=30)}
        wanted = self.expected.nodes[one]["content"] if self.expected.nodes[one]["state"] == "live" else None
        if found.get(one) != wanted:
            self._journal.note({"failed": f"{self.name} asks for {mark.group()}, {one} is {wanted}: {found}"})


def live(order: dict[str, Any], trajectory: Trajectory) -> None:
    """A whole life: ``store``, ``journal`` and ``scratch`` (paths), ``agent``, ``run``, ``steps``, ``wants``."""
    journal = Journal(Path(order["journal"]))
    memory = Memory.open(order["store"], agent=order["agent"], config=CONFIG)
    journal.note({"resumed": resumed(memory.resume())})
    agent = Agent(memory, journal, trajectory, order["run"], Path(order["scratch"]))
    end = time.monotonic() + MOST_SECONDS
    for _ in range(order["steps"]):
        agent.step(order["wants"])
        if time.monotonic() > end:
            break
    journal.note({"closing": True})
    memory.close()
    journal.note({"closed": True})


def found(store: str) -> None:
    """Makes the nodes that all agents change, and an index to begin with."""
    with Memory.open(store, agent=FOUNDER, config=CONFIG) as memory:
        memory.add_many([{"content": first_content(id), "id": id, "parent": "root"} for id in SHARED])
        memory.flush()


def first_content(id: str) -> str:
    """What a shared node says until an agent changes it."""
    return f"大家的 shared {id}"

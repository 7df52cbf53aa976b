"""What a store must hold after a sequence of acknowledged calls: plain dicts beside the real thing."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hybridmem import Memory, Node, ResumePoint
from hybridmem.config import WeightConfig

_Tree = TypeVar("_Tree", bound="Tree")
_WEIGHTS = WeightConfig()


@dataclass
class Agent:
    """Where an agent stands, and what it has in the log: (kind, id of the node or None), oldest first."""

    task: str | None = None
    node: str | None = None
    labels: list[str] = field(default_factory=list)
    log: list[tuple[str, str | None]] = field(default_factory=list)


@dataclass
class Tree:
    """``nodes``: id → its fields, ``parent`` and ``status`` among them; the root included."""

    root: str
    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)

    def copy(self: _Tree) -> _Tree:
        return copy.deepcopy(self)

    def below(self, one: str, other: str) -> bool:
        """Whether ``one`` is ``other`` or hangs below it."""
        while one != other:
            if one == self.root:
                return False
            one = self.nodes[one]["parent"]
        return True

    def open_above(self, id: str) -> str | None:
        """The nearest open task above a node: which is active once that one is finished."""
        while (id := self.nodes[id]["parent"]) != self.root:
            if self.nodes[id]["status"] == "open":
                return id
        return None


@dataclass
class Expected(Tree):
    """``nodes``: see :func:`describe`; those of one agent in the order they were made. Each node is changed by the
    agent that made it alone, but for those of ``FOUNDER``."""

    agents: dict[str, Agent] = field(default_factory=dict)
    #: The state of each node before it was last forgotten.
    before: dict[str, str] = field(default_factory=dict)

    def agent(self, name: str) -> Agent:
        return self.agents.setdefault(name, Agent())

    def branch(self, top: str, *states: str) -> list[str]:
        """A node and all below it, as far as they are in any of these states, in the order they were made."""
        return [id for id, node in self.nodes.items() if node["state"] in states and self.below(id, top)]

    def decisions(self, name: str) -> list[str]:
        """The live decisions of an agent below its active task (all of its own if there is none), oldest first."""
        task = self.agent(name).task
        return [
            id
            for id, node in self.nodes.items()
            if (node["type"], node["agent"], node["state"]) == ("decision", name, "live")
            and (task is None or self.below(id, task))
        ]

    def apply(self, name: str, verb: str, given: Mapping[str, Any], made: str | None) -> None:
        """A call of an agent; ``made`` is the id of the node that it returned."""
        getattr(self, f"_{verb}")(name, made=made, **given)

    def _place(self, name: str, parent: Any, batch: list[str]) -> str:
        """The id that a ``parent`` argument means."""
        agent = self.agent(name)
        task = agent.task or self.root
        if isinstance(parent, int):
            return batch[parent]
        words = {"task": task, "active": task, "root": self.root, None: self.root, "node": agent.node or task}
        if parent == "decision":
            return (self.decisions(name) or [task])[-1]
        return str(words.get(parent, parent))

    def _new(self, name: str, id: str, content: str, parent: str, type: str, beat: int | None, **more: Any) -> None:
        self.nodes[id] = {
            "content": content, "parent": parent, "version": 1, "type": type, "agent": name, "state": "live",
            "importance": _WEIGHTS.default_importance.get(type, _WEIGHTS.other_importance),
            "confidence": _WEIGHTS.default_confidence, "uses": 0, "pinned": False, "status": None, "next_step": None,
            "beat": beat, **more,
        }  # fmt: skip
        self.agent(name).log.append(("add", id))

    def _change(self, name: str, kind: str, id: str, **values: Any) -> None:
        self.nodes[id].update(values)
        self.nodes[id]["version"] += 1
        self.agent(name).log.append((kind, id))

    def _add(
        self, name: str, made: str | None, content: str, id: str, parent: str, type: str, metadata: dict[str, int]
    ) -> None:
        self._new(name, id, content, self._place(name, parent, []), type, metadata.get("beat"))
        self.agent(name).node = id

    def _add_many(self, name: str, made: str | None, items: list[dict[str, Any]]) -> None:
        batch: list[str] = []
        for item in items:
            place = self._place(name, item["parent"], batch)
            self._new(name, item["id"], item["content"], place, item["type"], item["metadata"].get("beat"))
            batch.append(item["id"])
            self.agent(name).node = item["id"]

    def _import_(self, name: str, made: str | None, file: str, records: list[dict[str, Any]]) -> None:
        for record in records:
            self._new(name, record["id"], record["content"], record["parent_id"] or self.root, record["type"], None)
        self.agent(name).log.append(("import", None))

    def _confirm(self, name: str, made: str | None, id: str) -> None:
        """An exact repeat of a preference: half of the doubt about it goes."""
        node = self.nodes[id]
        self._change(
            name, "confirm", id, confidence=1.0 - (1.0 - node["confidence"]) / 2.0, uses=node["uses"] + 1
        )  # fmt: skip
        self.agent(name).node = id

    def _update(self, name: str, made: str | None, id: str, **values: Any) -> None:
        self._change(name, "update", id, **{key: value for key, value in values.items() if key != "expected_version"})

    def _update_shared(self, name: str, made: str | None, id: str, **values: Any) -> None:
        """The fields of a shared node are not in here: several agents change them, see verdict.Shared."""
        self.agent(name).log.append(("update", id))

    def _move(self, name: str, made: str | None, id: str, parent: str) -> None:
        self._change(name, "move", id, parent=parent)

    def _pin(self, name: str, made: str | None, id: str, pinned: bool) -> None:
        self._change(name, "pin", id, pinned=pinned)

    def _forget(self, name: str, made: str | None, id: str, subtree: bool) -> None:
        going = self.branch(id, "live", "archived", "superseded") if subtree else [id]
        self.before |= {one: self.nodes[one]["state"] for one in going}
        self._states(name, "forget", id, dict.fromkeys(going, "forgotten"))

    def _archive(self, name: str, made: str | None, id: str) -> None:
        self._states(name, "archive", id, dict.fromkeys(self.branch(id, "live"), "archived"))

    def _restore_forgotten(self, name: str, made: str | None, id: str, subtree: bool) -> None:
        coming = self.branch(id, "forgotten") if subtree else [id]
        self._states(name, "restore_forgotten", id, {one: self.before.get(one, "live") for one in coming})

    def _unarchive(self, name: str, made: str | None, id: str) -> None:
        self._states(name, "unarchive", id, dict.fromkeys(self.branch(id, "archived"), "live"))

    def _states(self, name: str, kind: str, id: str, states: Mapping[str, str]) -> None:
        """Every node gets its new state; an agent whose active node goes stands at the nearest live one above."""
        for one, state in states.items():
            self.nodes[one]["state"] = state
            self.nodes[one]["version"] += 1
        agent = self.agent(name)
        agent.log.append((kind, id))
        if kind in ("forget", "archive") and agent.node is not None and agent.node in states:
            agent.node = self._live_above(agent.node)

    def _live_above(self, id: str) -> str:
        while (id := self.nodes[id]["parent"]) != self.root and self.nodes[id]["state"] != "live":
            pass
        return id

    def _start_task(
        self, name: str, made: str | None, title: str, next_step: str | None, parent: Any, metadata: dict[str, Any]
    ) -> None:
        assert made is not None
        place = self._place(name, parent, [])
        self._new(name, made, title, place, "task", metadata["beat"], status="open", next_step=next_step)
        agent = self.agent(name)
        agent.log.append(("task.start", made))
        agent.task = agent.node = made

    def _update_task(self, name: str, made: str | None, id: str, next_step: str) -> None:
        self._change(name, "task.update", id, next_step=next_step)

    def _switch_task(self, name: str, made: str | None, id: str) -> None:
        self.nodes[id]["status"] = "open"
        agent = self.agent(name)
        agent.log.append(("task.switch", id))
        agent.task = agent.node = id

    def _finish_task(self, name: str, made: str | None, id: str, status: str) -> None:
        self._change(name, "task.finish", id, status=status, next_step=None)
        agent = self.agent(name)
        if agent.task == id:
            agent.node, agent.task = id, self.open_above(id)

    def _checkpoint(self, name: str, made: str | None, label: str) -> None:
        self.agent(name).labels.append(label)


def describe(node: Node) -> dict[str, Any]:
    """Everything of a node that a call decides; times are not."""
    return {
        "content": node.content,
        "parent": node.parent_id,
        "version": node.version,
        "type": node.type,
        "agent": node.agent,
        "state": node.state,
        "importance": node.importance,
        "confidence": node.confidence,
        "uses": node.uses,
        "pinned": node.pinned,
        "status": node.task.status if node.task else None,
        "next_step": node.task.next_step if node.task else None,
        "beat": node.metadata.get("beat"),
    }


def described(memory: Memory) -> dict[str, dict[str, Any]]:
    """What is really there, in the order it was made."""
    nodes = sorted(memory.walk(), key=lambda node: (node.created_at, node.depth))
    return {node.id: describe(node) for node in nodes}


def standing(point: ResumePoint) -> tuple[str | None, str | None]:
    """The active task and node."""
    task, node = point.active_task, point.active_node
    return task.id if task else None, node.id if node else None


def resumed(point: ResumePoint) -> dict[str, Any]:
    """What resume() said, as far as calls decide it."""
    task, node = standing(point)
    return {
        "task": task,
        "node": node,
        "next_step": point.next_step,
        "decisions": [node.id for node in point.decisions],
        "path": [node.id for node in point.path],
        "interrupted": point.interrupted,
    }


def here(memory: Memory) -> Expected:
    """What is really there, as far as one agent has to know it to go on; nodes in the order they were made."""
    found = Expected(memory.root().id, described(memory))
    agent = found.agent(memory.agent)
    agent.task, agent.node = standing(memory.resume())
    return found

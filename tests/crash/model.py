"""What a store must hold after a sequence of operations: a plain dict beside the real thing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from eval.durability.expected import Tree, described, standing
from hybridmem import Memory

#: What operations decide of a node here.
FIELDS = ("content", "parent", "version", "type", "status", "next_step", "pinned", "state")


@dataclass
class Expected(Tree):
    """``nodes``: id → FIELDS; in insertion order. ``before``: the state of what is forgotten now before it was."""

    task: str | None = None
    node: str | None = None
    labels: list[str] = field(default_factory=list)
    before: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, memory: Memory) -> Expected:
        """What is really there."""
        task, node = standing(memory.resume())
        return cls(
            root=memory.root().id,
            nodes={one: {name: values[name] for name in FIELDS} for one, values in described(memory).items()},
            task=task,
            node=node,
            labels=[found.label for found in reversed(memory.checkpoints()) if found.label],
            before={
                one: before
                for operation in memory.operations()
                if operation.kind == "forget"
                for one, before, *_ in operation.payload["states"]
            },
        )

    def branch(self, one: str) -> list[str]:
        return [other for other in self.nodes if self.below(other, one)]

    def may_go(self, one: str) -> bool:
        """Whether nothing at or below a node is protected from being forgotten."""
        branch = [other for other in self.branch(one) if self.nodes[other]["state"] != "forgotten"]
        if self.task in branch or any(self.nodes[other]["pinned"] for other in branch):
            return False
        if any(self.nodes[other]["status"] in ("open", "paused") for other in branch):
            return False
        return self.node is None or self.node == one or not self.below(self.node, one)

    def changing(self, operation: str, id: str, subtree: bool) -> list[str]:
        """Whose state an operation changes, in insertion order."""
        takes = {"forget": ("live", "archived"), "archive": ("live",), "restore_forgotten": ("forgotten",)}
        states = takes.get(operation, ("archived",))
        return [one for one in (self.branch(id) if subtree else [id]) if self.nodes[one]["state"] in states]

    def place(self, parent: Any, batch: list[str] | None = None) -> str:
        """The id that a ``parent`` argument means."""
        task = self.task or self.root
        if isinstance(parent, int):
            return (batch or [])[parent]
        if parent in ("task", "active"):
            return task
        if parent in ("root", None):
            return self.root
        if parent == "node":
            return self.node or task
        return str(parent)

    def apply(self, operation: str, given: dict[str, Any], made: str | None) -> None:
        """One operation; ``made`` is the id that the store gave to a node it made."""
        getattr(self, f"_{operation}")(made=made, **given)

    def differences(self, real: Expected) -> list[str]:
        found = (
            [f"active: {self.task} {self.node} != {real.task} {real.node}"] if self._active() != real._active() else []
        )
        if self.labels != real.labels:
            found.append(f"checkpoints: {self.labels[-3:]} != {real.labels[-3:]}")
        found += [
            f"{one}: expected {self.nodes.get(one)}, there is {real.nodes.get(one)}"
            for one in {**self.nodes, **real.nodes}
            if self.nodes.get(one) != real.nodes.get(one)
        ]
        return found

    def _active(self) -> tuple[str | None, str | None]:
        return self.task, self.node

    def _new(self, one: str, content: str, parent: str, type: str, **more: Any) -> None:
        self.nodes[one] = {
            "content": content, "parent": parent, "version": 1, "type": type, "status": None, "next_step": None,
            "pinned": False, "state": "live", **more,
        }  # fmt: skip

    def _change(self, one: str, **values: Any) -> None:
        self.nodes[one].update(values)
        self.nodes[one]["version"] += 1

    def _add(self, made: str | None, content: str, id: str, parent: str = "task", type: str = "note") -> None:
        self._new(id, content, self.place(parent), type)
        self.node = id

    def _add_many(self, made: str | None, items: list[dict[str, Any]]) -> None:
        batch: list[str] = []
        for item in items:
            self._new(item["id"], item["content"], self.place(item.get("parent", "task"), batch), item["type"])
            batch.append(item["id"])
            self.node = item["id"]

    def _confirm(self, made: str | None, content: str, parent: str) -> None:
        """An exact repeat of a preference."""
        for one, node in self.nodes.items():
            same = (node["content"], node["parent"], node["type"]) == (content, parent, "preference")
            if same and node["state"] == "live":
                self._change(one)
                self.node = one
                return
        raise AssertionError(content)

    def _update(self, made: str | None, id: str, content: str) -> None:
        self._change(id, content=content)

    def _move(self, made: str | None, id: str, parent: str) -> None:
        self._change(id, parent=parent)

    def _pin(self, made: str | None, id: str, pinned: bool) -> None:
        self._change(id, pinned=pinned)

    def _start_task(self, made: str | None, title: str, next_step: str | None, parent: str | None) -> None:
        assert made is not None
        self._new(made, title, self.place(parent), "task", status="open", next_step=next_step)
        self.task = self.node = made

    def _update_task(self, made: str | None, id: str, next_step: str) -> None:
        self._change(id, next_step=next_step)

    def _switch_task(self, made: str | None, id: str) -> None:
        self.nodes[id]["status"] = "open"
        self.task = self.node = id

    def _finish_task(self, made: str | None, id: str, status: str) -> None:
        self._change(id, status=status, next_step=None)
        if self.task == id:
            self.node, self.task = id, self.open_above(id)

    def _forget(self, made: str | None, id: str, subtree: bool) -> None:
        changed = self.changing("forget", id, subtree)
        self.before.update((one, self.nodes[one]["state"]) for one in changed)
        self._hide(changed, "forgotten")

    def _archive(self, made: str | None, id: str, subtree: bool) -> None:
        self._hide(self.changing("archive", id, subtree), "archived")

    def _hide(self, changed: list[str], state: str) -> None:
        for one in changed:
            self._change(one, state=state)
        if self.node in changed:
            while self.nodes[str(self.node)]["state"] != "live":
                self.node = self.nodes[str(self.node)]["parent"]

    def _restore_forgotten(self, made: str | None, id: str, subtree: bool) -> None:
        for one in self.changing("restore_forgotten", id, subtree):
            self._change(one, state=self.before[one])

    def _unarchive(self, made: str | None, id: str, subtree: bool) -> None:
        for one in self.changing("unarchive", id, subtree):
            self._change(one, state="live")

    def _checkpoint(self, made: str | None, label: str) -> None:
        self.labels.append(label)

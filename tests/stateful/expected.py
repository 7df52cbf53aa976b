"""The model: one namespace as a plain dict."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hybridmem.types import MERGED_TYPES


@dataclass
class Expected:
    """One namespace as it must be: nodes in order of insertion, the pointers, what each node says."""

    root: str
    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    task: str | None = None
    node: str | None = None
    #: The state that a forgotten node had before.
    before: dict[str, str] = field(default_factory=dict)

    def state(self, id: str) -> str:
        return "live" if id == self.root else str(self.nodes[id]["state"])

    def parent_of(self, id: str) -> str:
        return str(self.nodes[id]["parent"])

    def chain(self, id: str) -> list[str]:
        found = []
        while id != self.root:
            id = self.parent_of(id)
            found.append(id)
        return found

    def children(self, id: str, *states: str) -> list[str]:
        """In any of these states; none named: in all."""
        found = [one for one, values in self.nodes.items() if values["parent"] == id]
        return [one for one in found if not states or self.state(one) in states]

    def branch(self, id: str, *states: str) -> list[str]:
        """The node and all below it, in order of insertion, as far as they are in these states."""
        return [one for one in self.nodes if id in (one, *self.chain(one)) and self.state(one) in states]

    def is_protected(self, id: str, kind: str) -> bool:
        values = self.nodes[id]
        busy = {one for point in (self.task, self.node) if point is not None for one in self.chain(point)}
        is_busy = id in busy or id == self.task or values["status"] in ("open", "paused")
        return is_busy or (kind == "forget" and values["pinned"])

    def give(self, id: str, state: str) -> None:
        if state == "forgotten":
            self.before[id] = self.state(id)
        self.nodes[id]["state"] = state
        self.nodes[id]["version"] += 1

    def preorder(self) -> list[str]:
        order, todo = [], [self.root]
        while todo:
            id = todo.pop()
            order.append(id)
            todo += reversed(self.children(id))
        return order

    def repeat(self, parent: str, type: str, content: Any) -> str | None:
        if type not in MERGED_TYPES:
            return None
        for id, values in self.nodes.items():
            same = (values["parent"], values["type"], values["state"]) == (parent, type, "live")
            if same and values["value"] == content and isinstance(values["value"], str) == isinstance(content, str):
                return id
        return None

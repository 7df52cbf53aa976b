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

    def parent_of(self, id: str) -> str:
        return str(self.nodes[id]["parent"])

    def chain(self, id: str) -> list[str]:
        found = []
        while id != self.root:
            id = self.parent_of(id)
            found.append(id)
        return found

    def children(self, id: str) -> list[str]:
        return [one for one, values in self.nodes.items() if values["parent"] == id]

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
            same = (values["parent"], values["type"]) == (parent, type)
            if same and values["value"] == content and isinstance(values["value"], str) == isinstance(content, str):
                return id
        return None

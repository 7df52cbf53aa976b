"""The store beside its model: what the rules of test_model act on."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis.stateful import RuleBasedStateMachine, initialize
from verified import assert_verified

from hybridmem import InvalidInput, Memory
from hybridmem.embed.hashing import HashingEmbedder
from stateful.clock import Steps
from stateful.expected import Expected

SPACES = (("acme",), ("acme", "张三"))


class Machine(RuleBasedStateMachine):
    """Opens and closes it, and knows the model; the rules are in test_model."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="hybridmem-"))
        self.store = self.folder / "store"
        self.clock = Steps()
        self.embedder = HashingEmbedder(16)
        self.models: list[Expected] = []
        self.opened: list[Memory] = []

    def open(self) -> None:
        self.opened = [
            Memory.open(
                self.store, namespace=space, agent="bot", embedder=self.embedder, clock=self.clock,
                config={"index": {"background": False}, "checkpoint": {"every_operations": 7},
                    "weights": {"count_uses": False}},
            )
            for space in SPACES
        ]  # fmt: skip

    @initialize()
    def begin(self) -> None:
        self.open()
        self.models = [Expected(memory.root().id) for memory in self.opened]

    def teardown(self) -> None:
        """What verify() recomputes agrees at the end of every run; it takes too long for every step."""
        try:
            for memory in self.opened:
                assert_verified(memory)
        finally:
            self.close()

    def close(self) -> None:
        for memory in self.opened:
            memory.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def pick(self, space: int, position: int, *, tasks: bool = False) -> str | None:
        model = self.models[space]
        ids = [id for id, values in model.nodes.items() if not tasks or values["type"] == "task"]
        return ids[position % len(ids)] if ids else None

    def placed(self, space: int, parent: Any) -> tuple[Any, str]:
        """(what to pass as ``parent``, the id it means)."""
        model = self.models[space]
        task = model.task or model.root
        if isinstance(parent, int):
            id = self.pick(space, parent) or model.root
            return id, id
        if parent == "decision":
            decisions = [id for id, v in model.nodes.items() if (v["type"], v["state"]) == ("decision", "live")]
            below = [id for id in decisions if task in model.chain(id)]
            return parent, below[-1] if below else task
        return parent, {"task": task, "root": model.root, "node": model.node or task}[parent]

    def stored(self, space: int, node: Any, parent: str, given: dict[str, Any]) -> None:
        model = self.models[space]
        content, type = given["content"], given["type"]
        old = model.repeat(parent, type, content)
        if old is not None:
            assert (node.id, node.created) == (old, False)
            values = model.nodes[old]
            values["confidence"] = 1 - (1 - values["confidence"]) / 2
            values["uses"] += 1
            values["version"] += 1
        else:
            assert node.created
            assert node.id not in model.nodes
            model.nodes[node.id] = {
                "parent": parent, "type": type, "value": content, "importance": given["importance"],
                "confidence": given["confidence"], "metadata": given["metadata"], "pinned": False, "uses": 0,
                "version": 1, "status": None, "step": None, "state": "live",
            }  # fmt: skip
        model.node = node.id

    def is_refused(self, space: int, id: str, verb: str, *given: Any, **named: Any) -> bool:
        """Whether a node is forgotten; then the verb must refuse to change it."""
        if self.models[space].state(id) != "forgotten":
            return False
        with pytest.raises(InvalidInput, match=r"id: .* is forgotten"):
            getattr(self.opened[space], verb)(id, *given, **named)
        return True

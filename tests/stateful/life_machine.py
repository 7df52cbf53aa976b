"""The store beside the model of its life: what the rules of test_life act on, and what always holds."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant
from verified import assert_verified

from hybridmem import Checkpoint, InvalidInput, Memory
from hybridmem.embed.hashing import HashingEmbedder
from hybridmem.ports import Passage
from hybridmem.tokens import token_counter
from stateful.clock import Steps
from stateful.life import Lived, text

# Loaded here, where pytest's filters hold: its first import warns, which hypothesis would take for a failure.
token_counter()

CONFIG = {
    "index": {"background": False},
    "weights": {"count_uses": False},
    "consolidation": {"min_tokens": 1},
    "forgetting": {"batch": 3},
    "checkpoint": {"every_operations": 11},
}


class Numbered:
    """A summariser whose summaries share no word with what they stand for."""

    number = 0

    def summarize(self, passages: Sequence[Passage], budget: int) -> str:
        self.number += 1
        return f"汇总 S{self.number:03}"


class LifeMachine(RuleBasedStateMachine):
    """Opens and closes it, knows the model, and compares the two; the rules are in test_life."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="hybridmem-"))
        self.clock = Steps()
        self.summarizer = Numbered()
        self.embedder = HashingEmbedder(16)
        self.texts = 0
        self.points: list[tuple[Checkpoint, Lived]] = []
        #: To be searched for after the step, whatever their state.
        self.touched: set[str] = set()

    def open(self) -> None:
        self.memory = Memory.open(
            self.folder / "store", embedder=self.embedder, clock=self.clock, config=CONFIG, summarizer=self.summarizer
        )

    @initialize()
    def begin(self) -> None:
        """With facts under no task, a finished task and an active one, so that every verb has something to do."""
        self.open()
        self.model = Lived(self.memory.root().id)
        for types, is_done in ((("fact", "fact"), False), (("fact", "event", "fact"), True), (("fact", "note"), False)):
            if types != ("fact", "fact"):
                self.start(below=False)
            for type in types:
                self.put(self.new_text(), type, self.model.task or self.model.root)
            if is_done:
                self.finish()

    def teardown(self) -> None:
        try:
            for id in self.model.nodes:
                self.is_found_if_live(id)
            for point, then in self.points[-1:]:
                self.restored(point, then)
                self.all_is_as_the_model_says()
            assert_verified(self.memory, replay=True)
        finally:
            self.memory.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    # What the rules share

    def pick(self, which: int, *states: str, task: bool | None = None) -> str | None:
        """Any node in these states (none named: in any), that is a task, is none, or either. Where there is none in
        them, and now and then even so, one in any: it must be refused."""
        found = self.model.ids(*states) if which % 8 else []
        found = found or list(self.model.nodes)
        found = [id for id in found if task is None or (self.model.nodes[id]["type"] == "task") == task]
        return found[which % len(found)] if found else None

    def new_text(self) -> str:
        self.texts += 1
        return text(self.texts)

    def refused(self, verb: str, *given: Any, **named: Any) -> None:
        """And nothing is changed, which the invariants see."""
        with pytest.raises(InvalidInput):
            getattr(self.memory, verb)(*given, **named)

    def put(self, value: str, type: str, parent: str) -> None:
        self.took(self.memory.add(value, type=type, parent=parent, importance=0.5), parent, value)

    def start(self, *, below: bool) -> None:
        model, value = self.model, self.new_text()
        node = self.memory.start_task(value, parent="active" if below else None)
        model.put(node.id, (below and model.task) or model.root, "task", value, node.importance, node.confidence)
        model.task = model.node = node.id

    def finish(self) -> None:
        model, id = self.model, self.model.task
        assert id is not None
        self.memory.finish_task()
        model.nodes[id]["status"] = "done"
        above = [one for one in model.chain(id) if one != model.root and model.nodes[one]["status"] == "open"]
        model.task, model.node = (above[0] if above else None), id

    def took(self, node: Any, parent: str, value: str) -> None:
        """What add() gave, or supersede() in the place of another."""
        values = (value, node.importance, node.confidence)
        old = self.model.repeat(parent, node.type, value)
        assert node.created == (old is None)
        if old is None:
            self.model.put(node.id, parent, node.type, *values)
            self.model.node = node.id
        else:
            assert node.id == old
            self.model.confirm(old)

    def restored(self, point: Checkpoint, then: Lived) -> None:
        before = {id: values["state"] for id, values in self.model.nodes.items()}
        self.memory.restore(checkpoint=point)
        self.model.restore(then)
        self.touched |= {id for id, values in self.model.nodes.items() if values["state"] != before[id]}

    # What always holds

    @invariant()
    def all_is_as_the_model_says(self) -> None:
        memory, model = self.memory, self.model
        nodes = list(memory.walk())
        assert [node.id for node in nodes] == model.preorder(), "no orphan, and none lost"
        for node in nodes[1:]:
            values = model.nodes[node.id]
            assert {
                "parent": node.parent_id, "type": node.type, "value": node.content, "state": node.state,
                "replaced_by": node.replaced_by, "pinned": node.pinned, "uses": node.uses, "purged": node.is_purged,
                "status": node.task.status if node.task else None,
                "importance": pytest.approx(node.importance), "confidence": pytest.approx(node.confidence),
            } == {name: value for name, value in values.items() if name not in ("by", "mark", "version")}  # fmt: skip
            if values["state"] != "forgotten":
                assert all(model.state(above) != "forgotten" for above in model.chain(node.id))
        stats = memory.stats()
        assert (stats.nodes, stats.by_state) == (len(model.nodes), model.counts())
        task, point = memory.active_task(), memory.resume()
        assert (task.id if task else None, point.active_node.id if point.active_node else None) == (
            model.task, model.node
        )  # fmt: skip

    @invariant()
    def what_the_step_touched_is_found_if_it_is_live(self) -> None:
        for id in self.touched:
            self.is_found_if_live(id)
        self.touched = set()

    def is_found_if_live(self, id: str) -> None:
        """By exactly what it says or, if that is gone for good, said."""
        model, memory = self.model, self.memory
        value = model.nodes[id]["value"] or "发票 invoice 客户"
        live = set(model.ids("live"))
        hits = {hit.id for hit in memory.search(value, 10)}
        assert hits <= live, "what is not live is never found"
        assert id in hits or id not in live or sum(model.nodes[one]["value"] == value for one in live) > 10
        shown = memory.context(value, token_budget=2000)
        assert {hit.id for hit in shown.hits} <= live
        # What encloses something live is told as the place of that, whatever its own state.
        said = {model.nodes[one]["value"] for id in live for one in (id, *model.chain(id)) if one != model.root}
        gone = {values["value"] for one, values in model.nodes.items() if one not in live} - said - {""}
        assert [one for one in gone if one in shown.text] == []

"""What a restore says of itself: in its report, in a dry run, in the log; and which points may be named."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from hybridmem import Change, Conflict, InvalidInput, Memory, NotFound
from tests.conftest import SteerableClock
from tests.restored import head

OpenMemory = Callable[..., Memory]


class TestTheReport:
    def test_a_dry_run_says_what_a_restore_does_and_changes_nothing(self, memory: OpenMemory, rows: Any) -> None:
        m = memory()
        a = m.add("first 一", parent="root", importance=0.5)
        m.add("second", parent="root", id="b")
        before = head(m)
        m.update(a.id, content="other 二", importance=0.6)
        m.move("b", a)
        m.add("new 新", id="c")
        state = rows(m)
        dry = m.restore(sequence=before, dry_run=True)
        assert rows(m) == state
        assert (dry.dry_run, dry.sequence, dry.checkpoint, dry.to) == (True, None, None, before)
        assert [(one.id, one.title, one.changes) for one in dry.removed] == [
            ("c", "new 新", {"state": Change("live", "forgotten")})
        ]
        assert [(one.id, one.changes) for one in dry.moved] == [("b", {"parent_id": Change(a.id, m.root().id)})]
        [changed] = [one for one in dry.changed if one.id == a.id]
        assert changed.changes["content"] == Change("other 二", "first 一")
        assert changed.changes["importance"] == Change(0.6, 0.5)
        done = m.restore(sequence=before)
        assert (done.added, done.removed, done.moved, done.changed) == (dry.added, dry.removed, dry.moved, dry.changed)
        assert done.active == dry.active
        assert done.sequence == head(m)
        assert json.loads(json.dumps(done.to_dict()))["removed"][0]["id"] == "c"

    def test_onto_itself_it_does_nothing_and_says_so(self, memory: OpenMemory, rows: Any) -> None:
        m = memory()
        m.start_task("任务")
        point = m.checkpoint("here")
        state = rows(m)
        report = m.restore(checkpoint="here")
        assert report.note == f"nothing to restore: the memory is as it was after operation {point.sequence}"
        assert (report.is_empty, report.dry_run, report.sequence) == (True, False, None)
        assert rows(m) == state

    def test_there_and_back_is_no_change_though_the_revision_is_another(self, memory: OpenMemory) -> None:
        m = memory()
        node = m.add("发票 a", parent="root")
        before = head(m)
        m.update(node.id, content="b")
        m.update(node.id, content="发票 a")
        assert m.restore(sequence=before, dry_run=True).is_empty
        m.add("late 晚", id="late")
        m.restore(sequence=before)
        assert node.id not in dict(m.operations()[-1].payload["nodes"])


class TestTheLog:
    def test_history_is_never_rewritten_and_a_checkpoint_is_written(self, memory: OpenMemory) -> None:
        m = memory(agent="bot")
        before = head(m)
        node = m.add("发票")
        old = m.operations()
        report = m.restore(sequence=before)
        assert m.operations()[:-1] == old
        last = m.operations()[-1]
        assert (last.kind, last.node_id, last.agent, last.payload["to"]) == ("restore", None, "bot", before)
        assert m.checkpoints()[0].id == report.checkpoint
        assert (m.checkpoints()[0].reason, m.checkpoints()[0].sequence) == ("restore", last.sequence)
        assert [entry.kind for entry in m.history(node.id)] == ["add", "restore"]

    def test_versions_rise_so_that_an_old_reader_is_refused(self, memory: OpenMemory) -> None:
        m = memory()
        node = m.add("发票", parent="root")
        before = head(m)
        read = m.update(node.id, importance=0.9)
        m.restore(sequence=before)
        assert m.get(node.id).version == 3
        with pytest.raises(Conflict):
            m.update(node.id, importance=0.1, expected_version=read.version)

    def test_reading_as_of_sees_the_memory_before_and_after_a_restore(
        self, memory: OpenMemory, clock: SteerableClock
    ) -> None:
        m = memory()
        m.add("发票 first", id="a", parent="root")
        before, morning = head(m), clock.time
        clock.advance(hours=1)
        m.update("a", content="发票 second")
        m.add("发票 late", id="b", parent="root")
        noon = clock.time
        clock.advance(hours=1)
        m.restore(sequence=before)
        evening = clock.time
        clock.advance(hours=1)
        m.update("a", content="third")
        for moment, expected in (
            (morning, {"发票 first"}),
            (noon, {"发票 second", "发票 late"}),
            (evening, {"发票 first"}),
        ):
            assert {hit.content for hit in m.search("发票", as_of=moment)} == expected


class TestWhatIsMeant:
    def test_a_checkpoint_by_itself_its_number_or_its_label_the_newest_of_that_name(self, memory: OpenMemory) -> None:
        m = memory()
        first = m.checkpoint("同名")
        m.add("发票")
        second = m.checkpoint("同名")
        m.add("more")
        for meant, sequence in ((first, 1), (first.id, 1), ("同名", 2), (second, 2)):
            assert m.restore(checkpoint=meant, dry_run=True).to == sequence

    def test_anything_else_is_refused(self, memory: OpenMemory, refused: Any) -> None:
        m, other = memory(), memory("other")
        m.add("发票")
        strange = other.checkpoint("elsewhere")
        m.checkpoint("here")
        for error, match, meant in (
            (InvalidInput, "either checkpoint= .* or sequence=", {}),
            (InvalidInput, "either checkpoint= .* or sequence=", {"checkpoint": 1, "sequence": 1}),
            (InvalidInput, "sequence: must be a whole number", {"sequence": "1"}),
            (InvalidInput, "sequence: must be a whole number", {"sequence": True}),
            (NotFound, "sequence: there is no operation 0; the log has those from 1", {"sequence": 0}),
            (NotFound, "sequence: there is no operation 99", {"sequence": 99}),
            (NotFound, "there is no checkpoint 77", {"checkpoint": 77}),
            (NotFound, "there is no checkpoint '没有'", {"checkpoint": "没有"}),
            (NotFound, "there is no checkpoint 1 ", {"checkpoint": strange}),
            (InvalidInput, "checkpoint: must be a whole number", {"checkpoint": 1.5}),
            (InvalidInput, "dry_run: must be True or False", {"sequence": 1, "dry_run": "no"}),
        ):
            with refused(m, error, match):
                m.restore(**meant)

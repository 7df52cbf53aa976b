"""What was forgotten for longer than its retention is gone for good: from rows, log, replays, restores and imports."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from crash.helpers import QUIET, chroma_vectors
from verified import assert_verified

from hybridmem import InvalidInput, Memory, PurgeReport, restore_backup, verify
from hybridmem.store.rebuild import rebuild

OpenMemory = Callable[..., Memory]
#: In everything that is to go, and in nothing else: Chinese, English and mixed.
MARK = "zqx秘密"


def told(store: Path) -> list[str]:
    """Every row of every table of a database that says something with the mark, its index included."""
    with closing(sqlite3.connect(store / "tree.db")) as conn:
        return [line for line in conn.iterdump() if "zqx" in line]


def kinds(store: Path, *, replay: bool = False) -> set[str]:
    """What is wrong with a database that was made or copied without Chroma's files."""
    return {one.kind for one in verify(store, replay=replay).findings} - {"chroma_missing"}


def fill(m: Memory) -> None:
    """A finished task with all that can be said of it and below it, and one elsewhere that stays."""
    m.start_task(f"报销 {MARK} claim", next_step=f"下一步 next {MARK}", parent="root")
    task = m.active_task()
    assert task is not None
    fact = m.add(f"用户张三 {MARK}", type="fact", metadata={"who": MARK}, id="fact")
    m.update(fact.id, content=f"the user is {MARK} 李四")
    m.feedback(fact.id, helpful=True, note=f"说得对 right {MARK}")
    m.add({"结构 structured": [MARK]}, id="structured")
    m.update_task(task.id, next_step=f"最后 last {MARK}")
    m.move("structured", fact.id)
    m.finish_task(task.id)
    m.checkpoint("before")
    m.start_task("别处 elsewhere", parent="root")
    m.add("留下 stays", id="stays")
    m.flush()


def forget_all(m: Memory) -> list[str]:
    gone = [node.id for node in m.walk() if "zqx" in node.content]
    m.forget(gone[0], subtree=True)
    return gone


class TestWhatGoes:
    def test_all_that_was_said_goes_and_the_structure_stays(self, memory: OpenMemory, clock: Any) -> None:
        m = memory()
        fill(m)
        gone = forget_all(m)
        assert len(gone) == 3
        before = {node.id: node for node in m.walk()}
        clock.advance(days=31)
        assert set(m.purge_forgotten(dry_run=True).ids) == set(gone)
        assert told(m.path), "a dry run takes nothing"
        report = m.purge_forgotten()
        assert (set(report.ids), report.kept, report.dry_run) == (set(gone), 0, False)
        assert told(m.path) == []
        for id in gone:
            node, old = m.get(id), before[id]
            assert node.is_purged
            assert (node.content, node.metadata, node.structured) == ("", {}, False)
            assert (node.parent_id, node.type, node.created_at, node.updated_at, node.importance, node.version) == (
                old.parent_id, old.type, old.created_at, old.updated_at, old.importance, old.version,
            )  # fmt: skip
        assert not m.get("stays").is_purged
        assert m.stats().by_state["forgotten"] == 3
        assert_verified(m)
        assert m.purge_forgotten().ids == ()
        assert m.history("fact")[-1].kind == "purge"
        assert MARK not in str(m.history("fact"))

    def test_its_vectors_leave_chroma_also_if_it_was_behind(self, tmp_path: Path) -> None:
        with Memory.open(tmp_path, config=QUIET) as m:
            fill(m)
            forget_all(m)
            m.purge_forgotten(0)
            assert m.flush() == 0
        with closing(sqlite3.connect(tmp_path / "tree.db")) as conn:
            assert conn.execute("SELECT count(*) FROM embedding e JOIN node n ON n.id = e.node_id "
                                "WHERE n.state = 'forgotten'").fetchone() == (0,)  # fmt: skip
            kept = {row[0] for row in conn.execute("SELECT id FROM node WHERE state = 'live'")}
        assert {node_id for node_id, _ in chroma_vectors(tmp_path)} <= kept

    def test_it_is_found_by_nobody_who_asks_for_what_is_forgotten(self, memory: OpenMemory) -> None:
        m = memory()
        fill(m)
        forget_all(m)
        asked = {"states": ["forgotten"], "k": 10}
        assert len(m.search(f"用户 user {MARK}", **asked)) == 3  # type: ignore[arg-type]
        m.purge_forgotten(0)
        assert m.search(f"用户 user {MARK}", **asked).hits == ()  # type: ignore[arg-type]
        assert m.context("用户", states=["forgotten"]).hits == ()


class TestWhen:
    def test_nothing_before_its_time_and_older_ones_first(self, memory: OpenMemory, clock: Any) -> None:
        m = memory(forgetting={"batch": 2})
        m.add_many({"content": f"条 item {n}", "parent": "root", "id": f"i{n}"} for n in range(5))
        m.add("末 last", parent="root")
        for n in (3, 1, 4, 0, 2):
            m.forget(f"i{n}")
            clock.advance(days=1)
        clock.advance(days=25)  # so the first was forgotten 30 days ago, and the last 26
        assert m.purge_forgotten(timedelta(days=27.5), dry_run=True).ids == ("i3", "i1", "i4")
        assert m.purge_forgotten(28, limit=1).ids == ("i3",)
        assert m.purge_forgotten().ids == ()
        report = m.purge_forgotten(0)
        assert (report.ids, len(report.sequences)) == (("i1", "i4", "i0", "i2"), 2)

    def test_its_time_begins_anew_when_it_is_forgotten_again(self, memory: OpenMemory, clock: Any) -> None:
        m = memory()
        m.add("来去 to and fro", parent="root", id="one")
        m.add("末 last", parent="root")
        m.forget("one")
        clock.advance(days=29)
        m.restore_forgotten("one")
        m.forget("one")
        clock.advance(days=29)
        assert m.purge_forgotten() == PurgeReport((), 1, 0, False, (), "nothing purged: nothing has been forgotten for "
                                                  "so long")  # fmt: skip
        assert m.restore_forgotten("one").ids == ("one",)

    def test_a_clock_that_was_wrong_ends_no_retention_early(self, memory: OpenMemory, clock: Any) -> None:
        """Behind while it was forgotten: what the log noted before counts. Ahead: it waits."""
        m = memory()
        m.add_many({"content": f"钟 clock {n}", "parent": "root", "id": f"i{n}"} for n in range(2))
        m.add("末 last", parent="root")
        clock.advance(days=-2000)
        m.forget("i0")
        clock.advance(days=4000)
        m.forget("i1")
        clock.advance(days=-2000)
        assert m.purge_forgotten().ids == ()
        clock.advance(days=31)
        assert m.purge_forgotten().ids == ("i0",)
        clock.advance(days=2000)
        assert m.purge_forgotten().ids == ("i1",)

    def test_an_entry_of_a_clock_that_was_ahead_holds_up_nothing_else(self, memory: OpenMemory, clock: Any) -> None:
        m = memory()
        clock.advance(days=4000)
        m.add("那时 then", parent="root", id="one")
        clock.advance(days=-4000)
        m.add("末 last", parent="root")
        m.forget("one")
        clock.advance(days=31)
        assert m.purge_forgotten().ids == ("one",)

    def test_the_next_step_of_a_task_that_a_restore_has_forgotten_goes_too(self, memory: OpenMemory) -> None:
        """It was open, and so its row has one still."""
        m = memory()
        m.checkpoint("empty")
        m.start_task(f"开着 open {MARK}", next_step=f"下一步 next {MARK}")
        m.restore(checkpoint="empty")
        assert len(m.purge_forgotten(0).ids) == 1
        assert told(m.path) == []
        assert_verified(m)

    def test_never_is_said_by_null(self, memory: OpenMemory, clock: Any, refused: Any) -> None:
        m = memory(forgetting={"retention_days": None})
        fill(m)
        forget_all(m)
        clock.advance(days=10_000)
        with refused(m, InvalidInput, "retention_days is null"):
            m.purge_forgotten()
        for wrong in (-1, "30", True, float("nan"), 1e300):
            with refused(m, InvalidInput, "older_than"):
                m.purge_forgotten(wrong)  # type: ignore[arg-type]
        assert len(m.purge_forgotten(1).ids) == 3

    def test_what_is_pinned_stays_and_is_counted(self, memory: OpenMemory) -> None:
        """Only a restore forgets it, and it was pinned so that it lasts."""
        m = memory()
        m.checkpoint("empty")
        m.pin(m.add("钉 pinned", id="pin").id)
        m.restore(checkpoint="empty")
        assert m.get("pin").state == "forgotten"
        report = m.purge_forgotten(0)
        assert (report.ids, report.kept, report.pinned) == ((), 1, 1)
        assert m.get("pin").content == "钉 pinned"

    def test_what_was_brought_back_meanwhile_stays(self, memory: OpenMemory, monkeypatch: Any) -> None:
        """Between the choice and the transaction others may do anything."""
        m = memory(forgetting={"batch": 1})
        m.add_many({"content": f"条 item {n}", "parent": "root", "id": f"i{n}"} for n in range(3))
        m.add("末 last", parent="root")
        for n in range(3):
            m.forget(f"i{n}")
        other = memory(agent="李四")
        monkeypatch.setattr("hybridmem.purge.let_others_write", lambda: other.restore_forgotten("i2", subtree=True))
        assert m.purge_forgotten(0).ids == ("i0", "i1")
        assert m.get("i2").content == "条 item 2"
        assert_verified(m)


class TestWhatMeetsIt:
    @pytest.fixture
    def m(self, memory: OpenMemory) -> Memory:
        m = memory()
        fill(m)
        self.gone = forget_all(m)
        m.purge_forgotten(0)
        return m

    def test_it_cannot_be_brought_back(self, m: Memory, refused: Any) -> None:
        for id, subtree in ((self.gone[0], True), (self.gone[0], False)):
            with refused(m, InvalidInput, "its content was purged"):
                m.restore_forgotten(id, subtree=subtree)
        assert m.forget(self.gone[0], subtree=True).ids == ()
        with refused(m, InvalidInput, "forgotten"):
            m.update("fact", content="x")

    def test_what_was_forgotten_with_it_later_comes_back_without_it(self, memory: OpenMemory, clock: Any) -> None:
        m = memory("other")
        m.add("上 above", parent="root", id="above")
        m.add("下 below", parent="above", id="below")
        m.add("旁 beside", parent="above", id="beside")
        m.add("末 last", parent="root")
        m.forget("below")
        clock.advance(days=20)
        m.forget("above", subtree=True)
        clock.advance(days=15)
        assert m.purge_forgotten().ids == ("below",)
        dry = m.restore_forgotten("above", subtree=True, dry_run=True)
        found = m.restore_forgotten("above", subtree=True)
        assert found.ids == dry.ids == ("above", "beside")
        assert found.note == "1 purged memory stays forgotten"
        assert_verified(m)

    def test_a_restore_holds_it_back_and_says_so(self, m: Memory) -> None:
        dry = m.restore(checkpoint="before", dry_run=True)
        report = m.restore(checkpoint="before")
        assert report.held_back == dry.held_back == tuple(self.gone)
        assert [one.id for one in report.removed] == [node.id for node in m.walk() if node.state == "forgotten"][3:]
        assert all(m.get(id).is_purged for id in self.gone)
        assert_verified(m)
        again = m.restore(checkpoint="before")
        assert again.sequence is None
        assert "but for the 3 that are purged" in again.note

    def test_what_hung_under_it_hangs_above_it_after_a_restore(self, memory: OpenMemory) -> None:
        """Nothing may hang below what is forgotten, nor may anything make a loop."""
        m = memory("moved")
        for name, parent in (("a", "root"), ("b", "a"), ("c", "b"), ("q", "root")):
            m.add(f"节点 node {name}", parent=parent, id=name)
        m.checkpoint("chain")
        m.move("c", "q")
        m.move("q", "root")
        m.add("末 last", parent="root")
        m.move("b", "q")
        m.forget("b")
        m.purge_forgotten(0)
        m.move("a", "c")  # what enclosed it lies elsewhere now
        report = m.restore(checkpoint="chain")
        assert report.held_back == ("b",)
        assert [m.get(id).parent_id for id in ("a", "b", "c", "q")] == [m.root().id, "a", "a", m.root().id]
        assert {id: m.get(id).state for id in "abcq"} == {"a": "live", "b": "forgotten", "c": "live", "q": "live"}
        assert_verified(m)

    def test_an_agent_does_not_stand_on_it_after_a_restore(self, memory: OpenMemory) -> None:
        m = memory("agents")
        fill(m)
        task = m.tasks(["done"])[0]
        sequence = next(one.sequence for one in m.operations() if one.kind == "task.update")
        m.forget(task.id, subtree=True)
        m.purge_forgotten(0)
        m.restore(sequence=sequence)
        assert m.active_task() is None
        assert m.resume().active_node is None or not m.resume().active_node.is_purged  # type: ignore[union-attr]
        assert_verified(m)
        m.add("接着 goes on")

    def test_the_past_does_not_show_it_and_says_so(self, memory: OpenMemory, clock: Any) -> None:
        m = memory("past")
        m.add(f"那时 then {MARK}", parent="root", id="then")
        m.add("也 also 那时", parent="root", id="also")
        then = clock.now()
        clock.advance(days=1)
        m.forget("then")
        m.purge_forgotten(0)
        found = m.search("那时 then", as_of=then)
        assert [hit.id for hit in found] == ["also"]
        assert "1 memories of that time are purged" in " ".join(found.warnings)
        assert [node.id for node in m.children(as_of=then)] == ["also"]
        assert m.get("then", as_of=then).content == ""
        assert "then" not in {hit.id for hit in m.context("那时", as_of=then).hits}

    def test_an_import_holds_it_back_and_counts_it(self, memory: OpenMemory, tmp_path: Path, clock: Any) -> None:
        m = memory("imported")
        m.add(f"旧 old {MARK}", parent="root", id="old")
        m.add(f"下面 below {MARK}", parent="old", id="below")
        m.add("末 last", parent="root")
        m.export(tmp_path / "with.jsonl")
        m.forget("old", subtree=True)
        m.purge_forgotten(0)
        report = m.import_(tmp_path / "with.jsonl")
        assert (report.added, report.skipped, report.held_back) == (0, 1, 2)
        lines = (tmp_path / "with.jsonl").read_text("utf-8").replace('"below"', '"unknown"')
        (tmp_path / "new.jsonl").write_text(lines, "utf-8")
        report = m.import_(tmp_path / "new.jsonl")
        assert (report.added, report.held_back) == (1, 1)
        assert m.get("unknown").parent_id == m.root().id, "nothing can be below what is forgotten"
        assert_verified(m)

    @pytest.mark.parametrize("format", ["jsonl", "tree"])
    def test_an_export_of_it_can_be_imported(self, m: Memory, memory: OpenMemory, tmp_path: Path, format: str) -> None:
        m.export(tmp_path / "out", format=format)
        assert MARK not in (tmp_path / "out").read_text("utf-8")
        other = memory("other")
        other.import_(tmp_path / "out", format=format)
        assert {node.id for node in other.walk() if node.is_purged} == set(self.gone)
        assert_verified(other)
        m.import_(tmp_path / "out", format=format)  # and where it is known already, nothing happens


class TestReplay:
    @pytest.mark.parametrize("when", ["live", "forgotten", "never"])
    def test_from_an_older_backup_it_ends_empty_too(
        self, memory: OpenMemory, tmp_path: Path, clock: Any, when: str
    ) -> None:
        """Contents, old revisions, words, vectors and the payloads that the backup's own log has of it."""
        m, backup = memory(), None
        fill(m)
        if when == "live":
            backup = m.backup(tmp_path / "b.db").path
        forget_all(m)
        if when == "forgotten":
            backup = m.backup(tmp_path / "b.db").path
        m.purge_forgotten(0)
        if backup is not None:
            restore_backup(backup, tmp_path / "as it was")
            assert told(tmp_path / "as it was"), "a backup has what it had"
        done = rebuild(m.path, backup, tmp_path / "new", searchable=True)
        assert done.agree, done.differences
        assert done.problems == ()
        assert told(tmp_path / "new") == []
        assert kinds(tmp_path / "new", replay=True) == set()

    def test_a_blanked_entry_is_right_only_as_the_purge_says_it(self, memory: OpenMemory, tmp_path: Path) -> None:
        """The chain still shows that somebody edited the log, blanked entries included."""
        m = memory()
        fill(m)
        forget_all(m)
        m.purge_forgotten(0)
        assert m.verify().ok
        noted = m.operations()[-1].payload["blanked"]
        assert noted
        m.close()
        for sequence in noted:
            copy = tmp_path / f"copy{sequence}"
            copy.mkdir()
            with closing(sqlite3.connect(m.path / "tree.db")) as source:
                source.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                source.execute("VACUUM INTO ?", (str(copy / "tree.db"),))
            with closing(sqlite3.connect(copy / "tree.db")) as conn:
                conn.execute("UPDATE operation SET payload = json_set(payload, '$.note', 'x') WHERE sequence = ?",
                             (sequence,))  # fmt: skip
                conn.commit()
            assert kinds(copy) == {"log"}, sequence

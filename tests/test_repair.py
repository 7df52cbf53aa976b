"""repair mends what verify reports, and loses nothing on the way."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from crash.helpers import Child, damaged
from damages import ACME, CONFIG, DAMAGES, ZHANG, Damage, edit, open_
from verified import assert_verified

from hybridmem import Memory, NotFound, StoreBusy, repair, verify
from hybridmem.findings import KINDS
from hybridmem.index import ChromaIndex
from hybridmem.index.projection import DIRECTORY
from hybridmem.store import log, mends
from hybridmem.store.mender import Mender
from tests.conftest import read_rows


def memories(store: Path) -> list[dict[str, Any]]:
    """Every memory of both namespaces in the order of the tree, and what is active."""
    found = []
    for namespace in (ACME, ZHANG):
        with open_(store, namespace) as memory:
            found += [node.to_dict() for node in memory.walk()]
            point = memory.resume()
            found.append({"task": point.active_task and point.active_task.id, "step": point.next_step})
    return found


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_what_was_damaged_by_hand_is_found_by_its_kind_and_mended(
    damage: Damage, store: Path, ids: dict[str, str]
) -> None:
    """Found, mended or named as beyond repair, and found no more; what was intact is as it was."""
    before = memories(store) if damage.restored and not damage.left else None
    edit(store, damage.sql, ids)
    found = {one.kind for one in verify(store).findings}
    assert found == damage.kinds
    report = repair(store, config=CONFIG, replay=damage.agrees and not damage.left)
    assert {one.kind for one in report.findings} == damage.left, report.findings
    assert {one.kind for one in report.mended} == damage.kinds - damage.left
    assert all(not KINDS[one.kind].repairable for one in report.findings)
    if before is not None:
        assert memories(store) == before


class TestRepair:
    #: Those that can be together, and leave nothing that cannot be mended.
    TOGETHER = (
        "a node that is its own parent", "a second node of type root", "a task with an unknown status",
        "an importance above 1", "a wrong speaker", "a lexical entry of no node", "a lexical entry without postings",
        "a node without a vector", "a piece that is missing", "a request about nothing", "a node put in by hand",
        "an active node that is gone", "a wrong counter",
    )  # fmt: skip

    def test_everything_at_once_is_mended_at_once_and_again_there_is_nothing_to_do(
        self, store: Path, ids: dict[str, str]
    ) -> None:
        for name in self.TOGETHER:
            edit(store, DAMAGES[name].sql, ids)
        assert repair(store, config=CONFIG, replay=True).ok
        before = read_rows(store)
        again = repair(store, config=CONFIG)
        assert again.ok
        assert again.mended == ()
        # The note of what the files of the index look like is written whenever they are closed.
        assert {**read_rows(store), "setting": []} == {**before, "setting": []}

    def test_what_it_did_is_in_the_log_and_the_log_still_holds(self, store: Path, ids: dict[str, str]) -> None:
        edit(store, DAMAGES["a loop of three"].sql + ";" + DAMAGES["a wrong counter"].sql, ids)
        with open_(store) as memory:
            last = memory.operations()[-1].sequence
            assert memory.repair().ok
            (entry,) = memory.operations(last)
            assert (entry.kind, entry.agent) == ("repair", "bot")
            assert entry.payload["mended"] == {"counter": 1, "loop": 3}
            with memory._workspace.read() as tx:
                assert log.broken_at(tx, memory._workspace.id) is None
        edit(store, DAMAGES["a wrong depth"].sql, ids)
        repair(store, config=CONFIG)
        with open_(store) as memory:
            assert memory.operations()[-1].agent == "repair", "nobody's handle was open"

    def test_the_past_is_still_there(self, store: Path, ids: dict[str, str]) -> None:
        """as_of answers as before from what was mended."""
        with open_(store) as memory:
            moment = memory.get(ids["last"]).created_at
            before = [hit.id for hit in memory.search("发票 invoice", 20, as_of=moment)]
        edit(store, DAMAGES["a branch that is gone"].sql + ";" + DAMAGES["an importance above 1"].sql, ids)
        repair(store, config=CONFIG)
        with open_(store) as memory:
            assert [hit.id for hit in memory.search("发票 invoice", 20, as_of=moment)] == before

    def test_a_branch_whose_place_the_log_does_not_know_hangs_under_the_root(
        self, store: Path, ids: dict[str, str]
    ) -> None:
        """What was hung there by hand, and then lost its parent, is not lost; and what moved says so in the log."""
        edit(store, DAMAGES["a node put in by hand"].sql, ids)
        edit(store, "UPDATE node SET parent_id = 77777 WHERE uid = 'byhand'", ids)
        assert repair(store, config=CONFIG, replay=True).ok
        with open_(store) as memory:
            assert memory.get("byhand").parent_id == ids["root"]
            assert memory.search("手写的 by hand", 1)[0].id == "byhand"

    def test_a_loop_that_the_log_agrees_with_is_broken_at_one_place(self, memory: Any) -> None:
        """Even if the log was forged too, the walk ends, and no memory is lost."""
        m = memory()
        nodes = [m.add(f"记忆 memory {number}", parent="root") for number in range(3)]
        edit(
            m.path,
            "UPDATE operation SET payload = json_set(payload, '$.parent', {2.uid}) WHERE node_uid = {1.uid};"
            "UPDATE operation SET payload = json_set(payload, '$.parent', {1.uid}) WHERE node_uid = {2.uid};"
            "UPDATE node SET parent_id = {2} WHERE id = {1}; UPDATE node SET parent_id = {1} WHERE id = {2}",
            {"1": nodes[1].id, "2": nodes[2].id},
        )
        report = m.repair()
        assert [one.kind for one in report.findings] == ["log"]
        assert {node.id for node in m.walk()} == {m.root().id, *(node.id for node in nodes)}
        assert m.get(nodes[1].id).parent_id == m.root().id
        assert m.get(nodes[2].id).parent_id == nodes[1].id
        assert m.operations()[-2].payload["nodes"] == [[nodes[1].id, {"version": 2, "parent": m.root().id}]]

    def test_memories_of_another_handle_are_right_at_once(self, memory: Any) -> None:
        """What a handle keeps in memory of a subtree is read again after a repair by another one."""
        m, other = memory(), memory(agent="other")
        task = m.start_task("报销 expense")
        nodes = [m.add(f"第{number}张发票 invoice {number}") for number in range(5)]
        m.flush()
        edit(m.path, "UPDATE node SET parent_id = id WHERE id = {1}", {"1": nodes[1].id})
        other.search("发票 invoice", scope=task.id)
        assert m.repair().ok
        found = other.search("第1张发票 invoice 1", scope=task.id)
        assert found[0].id == nodes[1].id
        assert other.get(nodes[1].id).parent_id == task.id

    def test_without_a_model_the_tree_is_mended_and_the_vectors_wait(self, store: Path, ids: dict[str, str]) -> None:
        edit(store, DAMAGES["a node without a vector"].sql + ";" + DAMAGES["a wrong depth"].sql, ids)
        nowhere = {"embedding": {"provider": "sentence-transformers", "model": "/no/such/model"}}
        report = repair(store, config=nowhere)
        assert {one.kind for one in report.mended} >= {"unembedded", "path"}
        assert report.counts["pending"] == 1, "it waits, which is no fault"
        assert report.ok
        assert repair(store, config=CONFIG).counts["pending"] == 0

    def test_it_needs_the_store_for_itself_only_for_a_moment_and_says_when_it_cannot_have_it(
        self, store: Path, ids: dict[str, str]
    ) -> None:
        edit(store, DAMAGES["a wrong depth"].sql, ids)
        config = {**CONFIG, "store": {"busy_timeout_seconds": 0.1}}
        with contextlib.closing(sqlite3.connect(store / "tree.db", isolation_level=None)) as conn:
            conn.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreBusy):
                repair(store, config=config)
            conn.execute("ROLLBACK")
        assert repair(store, config=config).ok

    def test_a_mend_that_fails_is_undone_alone(
        self, store: Path, ids: dict[str, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """One thing that cannot be mended does not keep the rest from it, and leaves nothing half done."""

        def fails(mender: Mender, faults: Any) -> None:
            mender.tx.execute("UPDATE node SET speaker = 'half done'")
            raise RuntimeError("不行 no")

        edit(store, DAMAGES["a wrong speaker"].sql + ";" + DAMAGES["a wrong counter"].sql, ids)
        stage = next(one for one in mends.STAGES if "derived" in one)
        monkeypatch.setitem(stage, "derived", fails)
        report = repair(store, config=CONFIG)
        assert [(one.kind, one.count) for one in report.findings] == [("derived", 1)]
        assert [one.kind for one in report.mended] == ["counter"]
        assert "不行 no" in caplog.text


class TestChroma:
    def torn(self, store: Path) -> None:
        (store / DIRECTORY / "chroma.sqlite3").write_bytes(b"torn" * 500)

    def test_a_torn_index_is_made_anew_and_the_old_files_are_moved_aside(self, store: Path) -> None:
        self.torn(store)
        report = repair(store, config={**CONFIG, "embedding": {"provider": "sentence-transformers", "model": "/none"}})
        assert report.ok, "no model is needed for it"
        assert [one.kind for one in report.mended] == ["chroma_files"]
        assert report.aside == (str(store / "vectors.damaged-1"),)
        assert (store / "vectors.damaged-1" / "chroma.sqlite3").read_bytes() == b"torn" * 500
        assert report.counts["vectors"] == verify(store).counts["vectors"] > report.counts["nodes"]
        assert not (store / "vectors.new").exists()

    def test_a_build_that_was_killed_before_is_begun_again(self, store: Path) -> None:
        self.torn(store)
        (store / "vectors.new").mkdir()
        (store / "vectors.new" / "half").write_text("half", "utf-8")
        assert repair(store, config=CONFIG).ok
        assert not (store / "vectors.new").exists()
        assert not (store / DIRECTORY / "half").exists()

    def test_one_that_does_not_hold_what_it_should_never_takes_the_place(
        self, store: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It is counted before the old one goes."""
        self.torn(store)
        upsert = ChromaIndex.upsert
        monkeypatch.setattr(ChromaIndex, "upsert", lambda self, ids, rows: upsert(self, ids[1:], rows[1:]))
        report = repair(store, config=CONFIG)
        monkeypatch.undo()
        assert any("instead of" in note for note in report.notes)
        assert [one.kind for one in report.findings] == ["chroma_files"]
        assert damaged(store) == []
        assert repair(store, config=CONFIG).ok

    def test_another_process_that_has_it_open_keeps_it(self, store: Path, ids: dict[str, str]) -> None:
        edit(store, DAMAGES["a wrong depth"].sql, ids)
        with Child(
            """
            memory = Memory.open(sys.argv[1], namespace=("acme",), config=QUIET)
            memory.add("正在写 at work")
            memory.flush()
            say("open")
            wait()
            memory.add("还在 still")
            memory.close()
            """,
            store,
        ) as child:
            child.hear()
            report = repair(store, config=CONFIG)
            assert report.ok
            assert [one.kind for one in report.mended] == ["path"]
            child.go()
            child.end()
        assert damaged(store) == []
        assert repair(store, config=CONFIG).ok

    def test_a_handle_that_has_it_open_goes_on_with_the_new_one(self, store: Path) -> None:
        with open_(store) as memory:
            memory.add("新的 new")
            memory.flush()
            index = open_chroma_of(memory)
            index.delete(sorted(index.ids())[:2])
            assert "chroma_missing" in {one.kind for one in memory.verify().findings}
            report = memory.repair()
            assert report.ok
            assert len(report.aside) == 1
            memory.add("更新的 newer")
            assert memory.flush() == 0
            assert_verified(memory)
        assert_verified_closed(store)


def open_chroma_of(memory: Memory) -> ChromaIndex:
    """The collection that a handle has open."""
    shared = memory._indexer._shared
    assert shared is not None
    return next(iter(shared._indexes.values()))._index


def assert_verified_closed(store: Path) -> None:
    report = verify(store, replay=True)
    assert report.ok, report.findings


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no store"):
        repair(tmp_path / "none")
    assert list(tmp_path.iterdir()) == []

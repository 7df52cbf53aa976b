"""verify says whether a store is what it should be: nothing of a sound one, everything of a damaged one, and it never
changes it."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from crash.helpers import Child, damaged, fill, run
from damages import ACME, CONFIG, LONG, ZHANG, edit, open_
from verified import assert_verified

from hybridmem import Memory, NotFound, StoreClosed, repair, verify
from hybridmem.config import EmbeddingConfig
from hybridmem.findings import KINDS, SHOWN_IDS
from hybridmem.index import census
from hybridmem.index.projection import DIRECTORY
from hybridmem.pieces import pieces
from hybridmem.store import checks, mends, snapshot

OpenMemory = Callable[..., Memory]

TEXTS = {
    "Chinese": ("财务退回，原因是发票信息不清晰", "用户张三，部门研发部", "停机窗口是周六凌晨" * 60),
    "English": ("the invoice was returned since it is blurred", "Bob works in research", "a maintenance window " * 90),
    "mixed": ("发票 invoice 退回 returned", "张三 works in 研发部", LONG),
}


def contents(store: Path) -> dict[str, bytes]:
    """Every byte below a directory. An empty WAL and the memory that SQLite shares beside it say nothing."""
    files = {file.relative_to(store).as_posix(): file.read_bytes() for file in store.rglob("*") if file.is_file()}
    return {name: data for name, data in files.items() if not name.endswith("-shm") and (data or "-wal" not in name)}


class TestASoundStore:
    @pytest.mark.parametrize("texts", TEXTS.values(), ids=TEXTS)
    def test_nothing_is_said_of_it_whatever_was_done_to_it(self, memory: OpenMemory, texts: tuple[str, ...]) -> None:
        """Writes, repeats, updates, moves, pins, tasks, imports; with work pending, embedded, indexed, and reopened."""
        m = memory()
        assert_verified(m)
        task = m.start_task(texts[0], next_step=texts[1])
        nodes = [m.add(text, type=kind) for text in texts for kind in ("fact", "event", "decision")]
        m.add(texts[0], type="fact")
        m.add({"键 key": [texts[0], 1.5]})
        m.update(nodes[0].id, content=texts[1], metadata={"speaker": "李四"})
        m.update(nodes[1].id, type="custom", metadata={"n": None, "k": [1]})
        m.move(nodes[2].id, nodes[0].id)
        m.move(nodes[0].id, "root")
        m.pin(nodes[3].id)
        m.start_task(texts[2], parent="active")
        m.finish_task(status="failed", outcome=texts[1])
        m.checkpoint(texts[1])
        report = m.verify()
        assert report.ok
        assert report.counts["pending"] == report.counts["nodes"] == m.stats().nodes, "waiting is no fault"
        m.search(texts[0])
        assert_verified(m)
        m.flush()
        assert_verified(m)
        m.update(nodes[4].id, content=texts[2])
        m.switch_task(task.id)
        assert_verified(m)
        m.export(m.path / "out.jsonl")
        other = memory("other", namespace=("新的", "new"))
        other.import_(m.path / "out.jsonl")
        assert_verified(other)
        other.flush()
        m.close()
        assert_verified(memory())
        assert_verified(memory("other", namespace=("another",)))

    def test_its_vectors_are_counted_in_both_places(self, store: Path) -> None:
        report = verify(store)
        assert report.ok
        assert report.counts["embedded"] == report.counts["nodes"]
        more = len(pieces(LONG, EmbeddingConfig().piece_tokens, EmbeddingConfig().piece_overlap)) - 1
        assert more > 0
        assert report.counts["vectors"] == report.counts["nodes"] + more
        assert report.counts["namespaces"] == 2
        assert report.notes == ()

    def test_nothing_is_said_while_others_write_to_it(self, memory: OpenMemory) -> None:
        """A look is at one state: nothing that changes meanwhile is half in it."""
        m = memory(index={"background": True})
        failed: list[BaseException] = []
        stop = threading.Event()

        def write() -> None:
            try:
                with memory(agent="other") as mine:
                    while not stop.is_set():
                        node = mine.add("记忆 memory")
                        mine.update(node.id, content="改过的 changed", metadata={"n": 1})
                        mine.start_task("任务 task", parent="active")
                        mine.finish_task(outcome="好了 done")
                        mine.move(node.id, "root")
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=write)
        thread.start()
        try:
            for _ in range(8):
                report = m.verify()
                assert report.ok, report.findings
        finally:
            stop.set()
            thread.join()
        assert failed == []
        m.flush()
        assert_verified(m)

    def test_a_look_is_at_the_state_of_its_beginning(self, memory: OpenMemory) -> None:
        """However long its checks take, and whatever is written between two of them."""
        m = memory()
        m.add("之前 before")
        with contextlib.closing(snapshot.take(m.path)) as tx:
            first = checks.counts(tx, None)
            m.add("之后 after")
            assert checks.counts(tx, None) == first
            assert list(checks.faults(tx, None)) == []
        assert m.verify().counts["nodes"] == 2

    def test_a_store_of_an_older_version_is_told_as_that(self, tmp_path: Path) -> None:
        import gzip

        store = tmp_path / "old"
        store.mkdir()
        packed = (Path(__file__).parent / "store" / "schema_1.db.gz").read_bytes()
        (store / "tree.db").write_bytes(gzip.decompress(packed))
        before = contents(store)
        assert [(one.kind, one.severity) for one in verify(store).findings] == [("schema", "warning")]
        assert contents(store) == before
        report = repair(store, config={"embedding": {"provider": "hashing"}})
        assert report.ok, report.findings
        assert verify(store).counts["vectors"] > 0

    def test_what_a_killed_writer_left_in_the_wal_is_seen_and_stays_there(self, tmp_path: Path) -> None:
        store = tmp_path / "store"
        run(
            """
            memory = Memory.open(sys.argv[1], config=QUIET)
            memory.add_many([{"content": f"记忆 memory {n}"} for n in range(20)])
            memory.flush()
            memory.add("最后 last")
            os.kill(os.getpid(), signal.SIGKILL)
            """,
            store,
        )
        assert (store / "tree.db-wal").stat().st_size > 0
        before = contents(store)
        report = verify(store)
        assert report.ok, report.findings
        assert (report.counts["nodes"], report.counts["pending"], report.counts["vectors"]) == (21, 1, 20)
        assert contents(store) == before


class TestADamagedStore:
    def test_looking_changes_no_byte(self, store: Path, ids: dict[str, str]) -> None:
        edit(
            store,
            "UPDATE node SET parent_id = id WHERE id = {event}; DELETE FROM embedding WHERE node_id = {fact}",
            ids,
        )
        next((store / DIRECTORY).glob("*/header.bin"), store / DIRECTORY / "chroma.sqlite3").write_bytes(b"torn")
        before = contents(store)
        assert len(verify(store).findings) == 4
        assert contents(store) == before

    def test_it_is_told_how_many_and_which(self, store: Path, ids: dict[str, str]) -> None:
        edit(store, "UPDATE node SET content_key = 'x' WHERE namespace_id = 1", ids)
        (found,) = verify(store).findings
        with open_(store) as memory:
            here = {node.id for node in memory.walk()}
        assert (found.kind, found.severity, found.namespace) == ("derived", "error", ACME)
        assert found.count == len(here)
        assert set(found.ids) == here
        assert str(len(here)) in found.message
        assert found.repairable
        assert found.fix

    def test_a_thousand_faults_make_one_finding_with_the_first_ids(self, memory: OpenMemory) -> None:
        m = memory()
        m.add_many([{"content": f"记忆 memory {number}"} for number in range(1100)])
        edit(m.path, "UPDATE node SET depth = 9 WHERE parent_id IS NOT NULL; UPDATE namespace SET nodes = 0", {})
        report = m.verify()
        assert [(one.kind, one.count, len(one.ids)) for one in report.findings] == [
            ("path", 1100, SHOWN_IDS),
            ("counter", 1, 0),
        ]
        assert "1100" in report.findings[1].message

    def test_a_handle_is_told_of_its_own_namespace_only(self, store: Path, ids: dict[str, str]) -> None:
        """One namespace never learns of another, not even that it is damaged; the command line looks at all."""
        edit(
            store,
            "UPDATE node SET parent_id = id WHERE id = {event}; UPDATE node SET importance = 7 WHERE id = {fact};"
            "DELETE FROM lexical WHERE rowid = {note}; DELETE FROM embedding WHERE node_id = {last};"
            "INSERT INTO lexical (rowid, terms) VALUES (4242, '1:foo');"
            "UPDATE operation SET payload = '{}' WHERE namespace_id = 1 AND sequence = 3;"
            "INSERT INTO outbox (namespace_id, node_id, reason) VALUES (1, {note}, '秘密 secret');"
            "DELETE FROM node WHERE id = {decision}",
            ids,
        )
        kinds = {one.kind for one in verify(store).findings}
        assert kinds > {"loop", "values", "lexical", "unembedded", "log", "stuck", "lost", "embedding", "reference"}
        with open_(store, ZHANG) as memory:
            report = memory.verify()
            assert report.ok, report.findings
            assert report.counts["nodes"] == 1
        with open_(store) as memory:
            own = {one.kind for one in memory.verify().findings}
            assert own == kinds - {"reference", "embedding"}, "the rows of no node are nobody's"
        with open_(store, ZHANG) as memory:
            assert memory.repair().mended == ()
        left = {one.kind for one in verify(store).findings}
        assert left == kinds - {"stuck", "chroma_extra"}, "the queue and Chroma are of the store as a whole"
        with open_(store) as memory:
            assert {one.kind for one in memory.repair().findings} == {"log"}
        assert {one.kind for one in verify(store).findings} == {"log"}

    def test_nothing_of_a_look_through_a_handle_is_about_another(self, store: Path, ids: dict[str, str]) -> None:
        """The faults of the store as a whole name no id, no content and no number of another namespace."""
        edit(store, "UPDATE setting SET value = '{' WHERE key = 'embedding'", ids)
        next((store / DIRECTORY).glob("*/header.bin"), store / DIRECTORY / "chroma.sqlite3").write_bytes(b"torn")
        with open_(store, ZHANG) as memory:
            report = memory.verify()
        assert {one.kind for one in report.findings} == {"settings"}
        assert all(one.ids == () for one in report.findings)

    def test_each_kind_says_what_to_do_and_whether_repair_does_it(self) -> None:
        mended_elsewhere = {"restore", "schema", "chroma_files", "chroma_missing", "chroma_extra"}
        for kind, known in KINDS.items():
            assert known.fix
            assert known.says
            assert known.repairable == (kind in mends.KINDS | mended_elsewhere), kind

    def test_rows_that_stop_a_check_are_a_finding_and_the_other_checks_go_on(
        self, store: Path, ids: dict[str, str]
    ) -> None:
        edit(
            store,
            "UPDATE revision SET content = CAST(x'ff00fe' AS TEXT) WHERE node_id = {event};"
            "UPDATE namespace SET nodes = 0 WHERE id = 1",
            ids,
        )
        kinds = [one.kind for one in verify(store).findings]
        assert "unreadable" in kinds
        assert "counter" in kinds
        report = repair(store, config=CONFIG)
        assert [one.kind for one in report.mended] == ["counter"]
        assert {one.kind for one in report.findings} == {"unreadable"}


def overwritten(database: Path, start: int, data: bytes) -> None:
    with database.open("r+b") as file:
        file.seek(start)
        file.write(data)


def foreign(database: Path) -> None:
    database.unlink()
    with contextlib.closing(sqlite3.connect(database)) as conn:
        conn.execute("CREATE TABLE t (x)")


def of_the_future(database: Path) -> None:
    with contextlib.closing(sqlite3.connect(database)) as conn:
        conn.execute("PRAGMA user_version = 99")


REFUSED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "truncated to a half": (lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]), "database"),
    "truncated to a page": (lambda file: file.write_bytes(file.read_bytes()[:4096]), "database"),
    "truncated in its header": (lambda file: file.write_bytes(file.read_bytes()[:50]), "database"),
    "emptied": (lambda file: file.write_bytes(b""), "database"),
    "gone": (lambda file: file.unlink(), "database"),
    "some text": (lambda file: file.write_text("这不是数据库 this is no database " * 200, "utf-8"), "database"),
    "pages of zeros": (lambda file: overwritten(file, 8192, bytes(40_000)), "integrity"),
    "pages of noise": (lambda file: overwritten(file, 4096 * 3, bytes(range(256)) * 64), "integrity"),
    "a store of something else": (foreign, "database"),
    "of a later version": (of_the_future, "database"),
}


@pytest.mark.parametrize(("harm", "kind"), REFUSED.values(), ids=REFUSED)
def test_a_database_that_cannot_be_opened_is_reported_and_never_touched(
    store: Path, harm: Callable[[Path], Any], kind: str
) -> None:
    """There is one file with all memories in it: what SQLite cannot vouch for is for a backup to replace."""
    harm(store / "tree.db")
    before = contents(store)
    report = verify(store)
    assert {one.kind for one in report.findings} == {kind}
    assert not report.findings[0].repairable
    assert "backup" in report.findings[0].fix
    assert repair(store, config=CONFIG).findings == report.findings
    assert contents(store) == before


class TestWhereThereIsNone:
    def test_a_store_that_is_not_there_is_not_made(self, tmp_path: Path) -> None:
        for call in (verify, repair):
            with pytest.raises(NotFound, match="no store"):
                call(tmp_path / "nothing")
        assert list(tmp_path.iterdir()) == []

    def test_a_namespace_that_is_not_there(self, store: Path) -> None:
        with pytest.raises(NotFound, match="nobody"):
            verify(store, namespace=("nobody",))

    def test_a_closed_handle(self, store: Path) -> None:
        memory = open_(store)
        memory.close()
        for call in (memory.verify, memory.repair):
            with pytest.raises(StoreClosed):
                call()


class TestChroma:
    def test_while_another_process_has_it_open_its_ids_are_left_alone(self, store: Path) -> None:
        with Child(
            """
            memory = Memory.open(sys.argv[1], namespace=("acme",), config=QUIET)
            memory.add("正在写 at work")
            memory.flush()
            say("open")
            wait()
            """,
            store,
        ) as child:
            child.hear()
            report = verify(store)
            assert report.ok
            assert "another process" in report.notes[0]
            assert "vectors" not in report.counts

    def test_while_this_process_has_it_open_it_is_compared_all_the_same(self, store: Path, ids: dict[str, str]) -> None:
        with open_(store) as memory:
            memory.add("新的 new")
            memory.flush()
            assert memory.stats().index == "ready"
            assert_verified(memory)
            edit(store, "DELETE FROM embedding WHERE node_id = {fact}", ids)
            assert {one.kind for one in memory.verify().findings} == {"unembedded", "chroma_extra"}
            assert memory.repair().ok
            memory.add("更新的 newer")
            assert memory.flush() == 0
            assert_verified(memory)

    def test_a_torn_file_with_its_old_size_and_time_is_seen_by_its_structure(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A bad disk changes no time, so nothing gives reason to let Chroma open a copy, which would see it too."""
        store = tmp_path / "store"
        fill(store, 1_200)
        (file,) = (store / DIRECTORY).rglob("link_lists.bin")
        before = file.stat()
        file.write_bytes(b"\xff" * before.st_size)
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        monkeypatch.setattr(census, "_opens", lambda directory: pytest.fail("there was no reason"))
        assert [one.kind for one in verify(store).findings] == ["chroma_files"]

    def test_a_lost_index_is_no_error_and_is_told(self, store: Path) -> None:
        shutil.rmtree(store / DIRECTORY)
        report = verify(store)
        assert [(one.kind, one.severity) for one in report.findings] == [("chroma_missing", "warning")] * 2
        assert "Chroma 0" in report.findings[0].message
        assert damaged(store) == []

"""Transactions and files: all or nothing, one writer at a time, and a clear word for every failure."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hybridmem.errors import InvalidInput, StoreBusy, StoreClosed, StoreDamaged, StoreFull, StoreTooNew
from hybridmem.store import points
from hybridmem.store.connect import Connections
from hybridmem.store.migrations import APPLICATION_ID, SCHEMA_VERSION

ROOT = Path(__file__).parents[2]


@pytest.fixture
def connections(tmp_path: Path) -> Iterator[Connections]:
    opened = Connections(tmp_path / "store", busy_timeout=0.3)
    yield opened
    opened.close()


def value(connections: Connections, key: str = "键") -> object:
    with connections.read() as tx:
        return points.setting(tx, key)


class TestWriting:
    def test_an_error_takes_everything_back_and_the_next_write_works(self, connections: Connections) -> None:
        with pytest.raises(RuntimeError, match="怎么了"), connections.write() as tx:  # noqa: PT012 a write and then the error
            points.set_setting(tx, "键", "一半")
            raise RuntimeError("怎么了")
        assert value(connections) is None
        with connections.write() as tx:
            points.set_setting(tx, "键", "完整 whole")
        assert value(connections) == "完整 whole"

    def test_a_write_is_seen_by_others_only_when_it_is_done(self, connections: Connections) -> None:
        other = Connections(connections.directory)
        with connections.write() as tx:
            points.set_setting(tx, "键", 1)
            assert value(other) is None
            assert value(connections) == 1, "a read of the same thread joins the write"
        assert value(other) == 1
        other.close()

    def test_a_read_sees_one_state_throughout(self, connections: Connections) -> None:
        other = Connections(connections.directory)
        with other.read() as tx:
            assert points.setting(tx, "键") is None
            with connections.write() as writing:
                points.set_setting(writing, "键", 1)
            assert points.setting(tx, "键") is None
        assert value(other) == 1
        other.close()

    @pytest.mark.parametrize("same_process", [True, False])
    def test_waiting_ends_with_busy_and_nothing_written(self, connections: Connections, same_process: bool) -> None:
        holder = connections if same_process else Connections(connections.directory)
        inside, leave = threading.Event(), threading.Event()

        def hold() -> None:
            with holder.write():
                inside.set()
                leave.wait(10)

        thread = threading.Thread(target=hold)
        thread.start()
        assert inside.wait(5)
        try:
            with (
                pytest.raises(StoreBusy, match=r"for more than 0\.3 s .*nothing was written"),
                connections.write() as tx,
            ):
                points.set_setting(tx, "键", 1)
        finally:
            leave.set()
            thread.join()
        assert value(connections) is None
        with connections.write() as tx:
            points.set_setting(tx, "键", 2)
        assert value(connections) == 2
        if holder is not connections:
            holder.close()

    def test_threads_that_read_and_then_write_never_lose_an_update(self, connections: Connections) -> None:
        def count() -> None:
            for _ in range(25):
                with connections.write() as tx:
                    points.set_setting(tx, "计数", (points.setting(tx, "计数") or 0) + 1)

        threads = [threading.Thread(target=count) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert value(connections, "计数") == 100

    def test_a_full_disk_is_said_and_nothing_is_half_done(self, connections: Connections) -> None:
        conn = connections._mine().conn
        pages = conn.execute("PRAGMA page_count").fetchone()[0]
        conn.execute(f"PRAGMA max_page_count = {pages + 1}")
        with pytest.raises(StoreFull, match="nothing was stored"), connections.write() as tx:
            points.set_setting(tx, "键", "x" * 1_000_000)
        conn.execute("PRAGMA max_page_count = 1000000")
        assert value(connections) is None
        with connections.write() as tx:
            points.set_setting(tx, "键", "x" * 1_000_000)


class TestSettings:
    @pytest.mark.parametrize(("durability", "level"), [("full", 2), ("process", 1)])
    def test_each_connection_is_set_up_as_promised(self, tmp_path: Path, durability: str, level: int) -> None:
        connections = Connections(tmp_path / durability, durability=durability)
        found = []

        def look() -> None:
            conn = connections._mine().conn
            names = ("journal_mode", "synchronous", "foreign_keys", "secure_delete", "application_id", "user_version")
            found.append(tuple(conn.execute(f"PRAGMA {name}").fetchone()[0] for name in names))

        look()
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        assert found == [("wal", level, 1, 1, APPLICATION_ID, SCHEMA_VERSION)] * 2
        connections.close()

    def test_every_table_is_strict(self, connections: Connections) -> None:
        rows = connections._mine().conn.execute("PRAGMA table_list").fetchall()
        ours = {row[1]: row[5] for row in rows if row[2] == "table" and not row[1].startswith(("sqlite_", "_sqlite"))}
        assert {name for name, strict in ours.items() if not strict} <= {"_sqlite_migrations"}
        assert {"node", "revision", "operation", "outbox", "embedding", "checkpoint"} <= set(ours)

    def test_migrating_twice_changes_nothing(self, connections: Connections) -> None:
        before = connections._mine().conn.execute("SELECT sql FROM sqlite_master").fetchall()
        again = Connections(connections.directory)
        assert again._mine().conn.execute("SELECT sql FROM sqlite_master").fetchall() == before
        again.close()


class TestOpening:
    def test_a_newer_store_is_refused_untouched(self, connections: Connections) -> None:
        connections._mine().conn.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
        with pytest.raises(StoreTooNew, match="upgrade it"):
            Connections(connections.directory)

    def test_a_foreign_database_is_refused_untouched(self, tmp_path: Path) -> None:
        conn = sqlite3.connect(tmp_path / "tree.db")
        conn.execute("CREATE TABLE 别人的 (a)")
        conn.commit()
        conn.close()
        before = (tmp_path / "tree.db").read_bytes()
        with pytest.raises(StoreDamaged, match="not a hybridmem store"):
            Connections(tmp_path)
        assert (tmp_path / "tree.db").read_bytes() == before

    def test_a_truncated_store_is_refused(self, connections: Connections) -> None:
        connections.close()
        data = connections.database.read_bytes()
        for name in ("tree.db-wal", "tree.db-shm"):
            (connections.directory / name).unlink(missing_ok=True)
        connections.database.write_bytes(data[: len(data) // 3])

        def read_everything() -> None:
            with Connections(connections.directory).read() as tx:
                for table in ("namespace", "node", "revision", "operation", "session"):
                    tx.execute(f"SELECT * FROM {table}").fetchall()

        with pytest.raises(StoreDamaged, match=r"tree\.db"):
            read_everything()

    def test_two_that_open_a_new_store_at_once_both_succeed(self, tmp_path: Path) -> None:
        code = (
            "import sys\nfrom pathlib import Path\nfrom hybridmem.store.connect import Connections\n"
            "sys.stdin.readline()\nConnections(Path(sys.argv[1])).close()"
        )
        for attempt in range(3):
            children = [
                subprocess.Popen(
                    [sys.executable, "-c", code, str(tmp_path / f"新 {attempt}")],
                    env={**os.environ, "PYTHONPATH": str(ROOT)}, stdin=subprocess.PIPE, stderr=subprocess.PIPE,
                    text=True,
                )
                for _ in range(3)
            ]  # fmt: skip
            for child in children:
                assert child.stdin is not None
                child.stdin.write("go\n")
                child.stdin.flush()
            for child in children:
                _, errors = child.communicate(timeout=60)
                assert child.returncode == 0, errors

    def test_a_file_in_its_place_and_a_place_that_cannot_be_made(self, tmp_path: Path) -> None:
        (tmp_path / "文件").write_text("x")
        with pytest.raises(InvalidInput, match="is a file"):
            Connections(tmp_path / "文件")
        with pytest.raises((StoreFull, InvalidInput), match="文件"):
            Connections(tmp_path / "文件" / "store")

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
    def test_a_read_only_directory_is_said(self, connections: Connections) -> None:
        connections.close()
        connections.directory.chmod(stat.S_IRUSR | stat.S_IXUSR)
        try:
            with pytest.raises(StoreFull, match="cannot be written"), Connections(connections.directory).write() as tx:
                points.set_setting(tx, "键", 1)
        finally:
            connections.directory.chmod(0o700)


class TestClosing:
    def test_a_closed_handle_says_so(self, connections: Connections) -> None:
        connections.close()
        connections.close()
        for enter in (connections.read, connections.write):
            with pytest.raises(StoreClosed, match="open the store again"), enter():
                pass

    def test_a_forked_child_is_told_and_the_parent_goes_on(self, tmp_path: Path) -> None:
        code = (
            "import os, sys\nfrom hybridmem import Memory, StoreClosed\n"
            f"m = Memory.open({str(tmp_path / 's')!r}, config={{'index': {{'background': False}}}})\n"
            "m.add('之前 before')\npid = os.fork()\n"
            "if pid == 0:\n"
            "    try:\n        m.add('子进程 child')\n        os._exit(1)\n"
            "    except StoreClosed as error:\n        os._exit(42 if 'fork' in str(error) else 2)\n"
            "status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])\n"
            "m.add('之后 after')\nprint(status, m.stats().nodes)\nm.close()"
        )
        result = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
            timeout=60,
        )  # fmt: skip
        assert result.stdout.split() == ["42", "2"], result.stderr


def test_an_emptied_database_of_a_store_in_use_is_not_taken_for_a_new_one(tmp_path: Path) -> None:
    (tmp_path / "vectors").mkdir()
    (tmp_path / "tree.db").write_bytes(b"")
    with pytest.raises(StoreDamaged, match="is empty"):
        Connections(tmp_path)
    assert (tmp_path / "tree.db").read_bytes() == b""


@pytest.mark.parametrize("statement", range(1, 9))
def test_a_store_that_another_process_makes_in_the_middle_of_opening_it_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: int
) -> None:
    """Whichever statement of ours it comes before: several agents that start at once all get the store."""
    passed = 0
    connect = Connections._connect

    def traced(self: Connections) -> sqlite3.Connection:
        conn = connect(self)

        def before(sql: str) -> None:
            nonlocal passed
            passed += 1
            if passed == statement:
                monkeypatch.setattr(Connections, "_connect", connect)
                Connections(tmp_path / "store").close()

        conn.set_trace_callback(before)
        return conn

    monkeypatch.setattr(Connections, "_connect", traced)
    late = Connections(tmp_path / "store")
    with late.read() as tx:
        assert tx.execute("SELECT count(*) FROM node").fetchone() == (0,)
    late.close()


def test_a_store_that_others_make_and_go_on_writing_to_is_opened_without_waiting_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who found no store yet when he looked, and then never got a turn to make it, has nothing left to make."""
    held: list[sqlite3.Connection] = []
    connect = Connections._connect

    def traced(self: Connections) -> sqlite3.Connection:
        conn = connect(self)

        def before(sql: str) -> None:
            if sql.startswith("BEGIN IMMEDIATE") and not held:
                monkeypatch.setattr(Connections, "_connect", connect)
                Connections(tmp_path / "store").close()
                held.append(sqlite3.connect(tmp_path / "store" / "tree.db", isolation_level=None))
                held[0].execute("BEGIN IMMEDIATE")

        conn.set_trace_callback(before)
        return conn

    monkeypatch.setattr(Connections, "_connect", traced)
    late = Connections(tmp_path / "store", busy_timeout=0.1)
    with late.read() as tx:
        assert tx.execute("SELECT count(*) FROM node").fetchone() == (0,)
    held[0].close()
    late.close()

"""Who waits for another writer looks often enough to get in between two transactions of a call that makes many."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hybridmem import Memory, StoreBusy, faults
from hybridmem.store.directory import REWRITING
from hybridmem.store.lock import FileLock, is_held
from hybridmem.store.waiting import LOOK_MILLISECONDS, PAUSE_SECONDS, Patience, begin_immediate

#: Milliseconds between the first looks of SQLite's own wait (sqliteDefaultBusyCallback in its main.c), up to their sum.
SQLITE_LOOKS = (1, 2, 5, 10)


class Watched(sqlite3.Connection):
    """Notes what it is asked for."""

    asked: tuple[str, ...] = ()

    def execute(self, sql: str, *values: Any) -> Any:
        self.asked += (sql,)
        return super().execute(sql, *values)


@pytest.fixture
def conn(tmp_path: Path) -> Any:
    with closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None, factory=Watched)) as found:
        found.execute("PRAGMA journal_mode = WAL")
        found.execute("CREATE TABLE t (x)")
        yield found


def test_the_pause_is_longer_than_any_between_two_looks() -> None:
    assert sum(SQLITE_LOOKS) <= LOOK_MILLISECONDS < sum(SQLITE_LOOKS) + 15, "SQLite's next wait would be of 15 ms"
    assert max(SQLITE_LOOKS) < 1000 * PAUSE_SECONDS


def test_it_waits_in_many_short_looks_and_gives_up_in_time(conn: Any, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            begin_immediate(conn, Patience(tmp_path, 0.5))
        assert time.monotonic() - began >= 0.5
        assert conn.asked.count("BEGIN IMMEDIATE") > 1, "in one wait SQLite would look every 100 ms at last"
        assert not conn.in_transaction
        other.execute("ROLLBACK")
    begin_immediate(conn, Patience(tmp_path, 0.0))
    assert conn.in_transaction
    conn.execute("COMMIT")


@pytest.mark.parametrize("seconds", [0.0, 0.005, 5.0])
def test_the_timeout_of_the_connection_is_what_it_was_to_be(conn: Any, tmp_path: Path, seconds: float) -> None:
    """Reading waits with it, where it has to wait at all; also after a failure, and after another error."""
    begin_immediate(conn, Patience(tmp_path, seconds))
    assert conn.execute("PRAGMA busy_timeout").fetchone() == (int(1000 * seconds),)
    with pytest.raises(sqlite3.OperationalError, match="within a transaction"):
        begin_immediate(conn, Patience(tmp_path, seconds))
    assert conn.execute("PRAGMA busy_timeout").fetchone() == (int(1000 * seconds),)


def hold(database: Path, seconds: float, *, rewriting: bool) -> threading.Thread:
    """Somebody who writes for so long, and says or does not say that the whole file is rewritten."""
    begun = threading.Event()

    def work() -> None:
        lock = FileLock(database.with_name(REWRITING))
        with closing(sqlite3.connect(database, isolation_level=None)) as conn:
            assert not rewriting or lock.acquire(0.0)
            conn.execute("BEGIN IMMEDIATE")
            begun.set()
            time.sleep(seconds)
            conn.execute("ROLLBACK")
            lock.release()

    thread = threading.Thread(target=work)
    thread.start()
    assert begun.wait(10.0)
    return thread


def test_whoever_writes_waits_as_long_as_the_file_is_rewritten(memory: Callable[..., Memory]) -> None:
    m = memory(store={"busy_timeout_seconds": 1.0})
    m.add("以前 before", parent="root")
    thread = hold(m.path / "tree.db", 2.5, rewriting=True)
    found: list[object] = []
    others = [threading.Thread(target=lambda: found.append(m.add("同时 beside it", parent="root"))) for _ in range(3)]
    for other in others:
        other.start()
    m.add("后来 later", parent="root")
    for other in (*others, thread):
        other.join()
    assert len(found) == 3, "threads that queue for the one that waits wait as well"
    thread = hold(m.path / "tree.db", 2.5, rewriting=False)
    with pytest.raises(StoreBusy):
        m.add("太久 too long", parent="root")
    thread.join()


def test_whoever_is_stopped_while_rewriting_is_not_waited_for_for_ever(
    memory: Callable[..., Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hybridmem.store.waiting.MOST_PATIENCE", 0.3)
    m = memory(store={"busy_timeout_seconds": 0.1})
    m.add("以前 before", parent="root")
    thread = hold(m.path / "tree.db", 2.0, rewriting=True)
    with pytest.raises(StoreBusy):
        m.add("太久 too long", parent="root")
    assert thread.is_alive()
    thread.join()


def test_erasing_says_that_it_rewrites_the_file(memory: Callable[..., Memory], monkeypatch: pytest.MonkeyPatch) -> None:
    """Looked at when the file is rewritten and the write-ahead log is not emptied yet; afterwards nobody has it."""
    m = memory()
    m.add("秘密 secret", id="secret", parent="root")
    held: dict[str, bool] = {}
    monkeypatch.setattr(faults, "point", lambda name: held.update({name: is_held(m.path / REWRITING)}))
    m.erase("secret")
    assert held["erase.after_vacuum"]
    assert not held["erase.before_receipt"]


def test_a_call_of_many_transactions_pauses_between_them(
    memory: Callable[..., Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forgetting by policy and purging: outside of every transaction, so that another one gets in there."""
    m, other = memory(forgetting={"batch": 3}), memory(agent="李四")
    m.add_many({"content": f"条 item {n}", "parent": "root", "id": f"i{n}"} for n in range(10))
    m.add("末 last", parent="root")
    for name in ("prune", "purge"):
        monkeypatch.setattr(f"hybridmem.{name}.let_others_write", lambda: other.add("插入 in between", parent="root"))
    before = m.operations()[-1].sequence
    assert len(m.forget(policy={"policy": "newest", "max_nodes": 1, "types": ["note"]}).sequences) == 4
    assert len(m.purge_forgotten(0).sequences) == 4
    kinds = [one.kind for one in m.operations(before)]
    assert kinds == [*["forget", "add"] * 3, "forget", *["purge", "add"] * 3, "purge"]

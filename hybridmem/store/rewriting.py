"""The database is written anew: without free pages, and with an empty write-ahead log.

SQLite does that in one transaction of some seconds, for which everybody who writes waits, see hybridmem.store.waiting.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from hybridmem import faults
from hybridmem.store.directory import REWRITING
from hybridmem.store.lock import FileLock

#: Seconds between two tries for what others hold.
POLL_SECONDS = 0.05


def rewrite(database: Path, wait_seconds: float) -> str | None:
    """Leaves nothing in the file, and in its write-ahead log, but what is in the rows.

    :param wait_seconds: for others who write, or read an old state. :return: why it is not clean yet, or None.
    """
    deadline = time.monotonic() + wait_seconds
    lock = FileLock(database.with_name(REWRITING))
    try:
        if not lock.acquire(wait_seconds):
            return f"{database.name}: is being rewritten by somebody else"
        with _connection(database) as conn:
            why = _until(deadline, lambda: _tried(conn, "VACUUM"))
            if why is not None:
                return f"{database.name}: its free pages are not rewritten ({why})"
            faults.point("erase.after_vacuum")
            return _emptied(conn, database, deadline)
    finally:
        lock.release()


def empty_log(database: Path, wait_seconds: float) -> str | None:
    """Takes over what is in the write-ahead log and cuts it off, where nothing has to be rewritten.

    :return: why it is not empty yet, or None.
    """
    with _connection(database) as conn:
        return _emptied(conn, database, time.monotonic() + wait_seconds)


def _connection(database: Path) -> closing[sqlite3.Connection]:
    """One of its own that opens nothing that is sealed, see unlocking.uninstall()."""
    conn = sqlite3.connect(database, timeout=1.0, isolation_level=None)
    conn.execute("PRAGMA secure_delete = ON")
    return closing(conn)


def _emptied(conn: sqlite3.Connection, database: Path, deadline: float) -> str | None:
    why = _until(deadline, lambda: _truncated(conn))
    return None if why is None else f"{database.name}-wal: is not emptied ({why})"


def _until(deadline: float, attempt: Callable[[], str | None]) -> str | None:
    while True:
        why = attempt()
        if why is None or time.monotonic() >= deadline:
            return why
        time.sleep(POLL_SECONDS)


def _tried(conn: sqlite3.Connection, sql: str) -> str | None:
    try:
        conn.execute(sql).fetchall()
        return None
    except sqlite3.OperationalError as error:
        return str(error)


def _truncated(conn: sqlite3.Connection) -> str | None:
    try:
        busy, _, _ = conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.OperationalError as error:
        return str(error)
    return "somebody reads an old state of the store" if busy else None

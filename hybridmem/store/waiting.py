"""How writers wait for each other, so that one who writes again and again lets the others in.

SQLite has no queue: whoever waits looks now and then whether the store is free, at last only every 100 ms. A call of
many transactions, one right after the other, leaves no gap that is as long, and the others may wait until it is done.
So whoever waits here looks every 10 ms at least, and a call of many transactions pauses for longer than that between
two of them.
"""

from __future__ import annotations

import sqlite3
import time

#: Milliseconds after which SQLite's own wait begins anew, with looks that are 1, 2, 5 and 10 ms apart.
LOOK_MILLISECONDS = 20
#: Seconds between two transactions of one call: longer than any pause between two looks.
PAUSE_SECONDS = 0.015
#: Seconds between two looks whether another process has let go.
LOOK_SECONDS = 0.05


def let_others_write() -> None:
    """To be called between two transactions of a call that makes many, outside of both."""
    time.sleep(PAUSE_SECONDS)


def pause() -> float:
    """Waits a moment for what another process does about once a second; returns how long, in seconds."""
    time.sleep(LOOK_SECONDS)
    return LOOK_SECONDS


def begin_immediate(conn: sqlite3.Connection, timeout: float) -> None:
    """Begins a transaction that writes, as soon as nobody else has one.

    :param timeout: seconds to wait at most. :raises sqlite3.OperationalError: somebody had one for longer.
    """
    whole = int(1000 * timeout)
    deadline = time.monotonic() + timeout
    conn.execute(f"PRAGMA busy_timeout = {min(LOOK_MILLISECONDS, whole)}").fetchone()
    try:
        while True:
            try:
                conn.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() >= deadline:
                    raise
    finally:
        conn.execute(f"PRAGMA busy_timeout = {whole}").fetchone()

"""How writers wait for each other, so that one who writes again and again lets the others in.

SQLite has no queue: whoever waits looks now and then whether the store is free, at last only every 100 ms. A call of
many transactions, one right after the other, leaves no gap that is as long, and the others may wait until it is done.
So whoever waits here looks every 10 ms at least, and a call of many transactions pauses for longer than that between
two of them.

One thing cannot pause: SQLite rewrites a whole file in a single transaction, some seconds for 100,000 memories. Whoever
does that holds the lock REWRITING, and those who wait are patient as long as it is held.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from pathlib import Path

from hybridmem.store.directory import REWRITING
from hybridmem.store.lock import is_held

#: Milliseconds after which SQLite's own wait begins anew, with looks that are 1, 2, 5 and 10 ms apart.
LOOK_MILLISECONDS = 20
#: Seconds between two transactions of one call: longer than any pause between two looks.
PAUSE_SECONDS = 0.015
#: Seconds between two looks whether another process has let go.
LOOK_SECONDS = 0.05
#: Seconds that somebody waits at most while a file is rewritten: whoever rewrites it may have been stopped.
MOST_PATIENCE = 300.0


def let_others_write() -> None:
    """To be called between two transactions of a call that makes many, outside of both."""
    time.sleep(PAUSE_SECONDS)


def pause() -> float:
    """Waits a moment for what another process does about once a second; returns how long, in seconds."""
    time.sleep(LOOK_SECONDS)
    return LOOK_SECONDS


class Patience:
    """How long a writer waits for others: ``timeout`` seconds, which begin anew while the database is rewritten.

    :param directory: the store.
    """

    def __init__(self, directory: Path, timeout: float) -> None:
        self._rewriting = directory / REWRITING
        self.timeout = timeout
        begun = time.monotonic()
        self._deadline, self._last = begun + timeout, begun + MOST_PATIENCE

    @property
    def rest(self) -> float:
        """Seconds that are left, never below 0."""
        return max(0.0, self._deadline - time.monotonic())

    def is_over(self) -> bool:
        now = time.monotonic()
        if now >= self._deadline and now < self._last and is_held(self._rewriting):
            # A moment at least: with a timeout of 0 nobody looks twice.
            self._deadline = now + max(self.timeout, LOOK_SECONDS)
        return now >= self._deadline


def acquire(lock: threading.RLock, patience: Patience) -> bool:
    """Takes what the threads of one process queue at; False: somebody had it for longer."""
    while not lock.acquire(timeout=max(patience.rest, 0.001)):
        if patience.is_over():
            return False
    return True


def begin_immediate(conn: sqlite3.Connection, patience: Patience) -> None:
    """Begins a transaction that writes, as soon as nobody else has one.

    :raises sqlite3.OperationalError: somebody had one for longer.
    """
    whole = int(1000 * patience.timeout)
    conn.execute(f"PRAGMA busy_timeout = {min(LOOK_MILLISECONDS, whole)}").fetchone()
    try:
        while True:
            try:
                conn.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or patience.is_over():
                    raise
    finally:
        conn.execute(f"PRAGMA busy_timeout = {whole}").fetchone()

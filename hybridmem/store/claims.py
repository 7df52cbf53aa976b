"""Claims: which run of which agent has a task to itself, and until when."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Held:
    """A claim as it is stored. ``process`` is that of the run that made it; ``closed`` whether that run has ended in
    order; ``until`` in microseconds since 1970 UTC; ``outlives``: ends by time alone."""

    token: int
    session: int
    agent: str
    outlives: bool
    until: int
    process: str
    closed: bool


def of(tx: sqlite3.Connection, node_id: int) -> Held | None:
    """The claim on a task, whether it still holds or not."""
    row = tx.execute(
        """SELECT c.token, c.session_id, s.agent, c.outlives, c.until, s.process, s.closed_at IS NOT NULL
        FROM claim c JOIN session s ON s.id = c.session_id WHERE c.node_id = ?""",
        (node_id,),
    ).fetchone()
    return None if row is None else Held(row[0], row[1], row[2], bool(row[3]), row[4], row[5], bool(row[6]))


def take(tx: sqlite3.Connection, node_id: int, session: int, *, outlives: bool, until: int) -> int:
    """Gives the task to this run in the place of whoever had it; returns the token, higher than every one before."""
    drop(tx, node_id)
    token = tx.execute(
        "INSERT INTO claim (node_id, session_id, outlives, until) VALUES (?, ?, ?, ?)",
        (node_id, session, int(outlives), until),
    ).lastrowid
    assert token is not None
    return token


def extend(tx: sqlite3.Connection, token: int, session: int, *, outlives: bool, until: int) -> None:
    """The holder keeps it for longer, in this run."""
    tx.execute(
        "UPDATE claim SET session_id = ?, outlives = ?, until = ? WHERE token = ?",
        (session, int(outlives), until, token),
    )


def drop(tx: sqlite3.Connection, node_id: int) -> None:
    tx.execute("DELETE FROM claim WHERE node_id = ?", (node_id,))

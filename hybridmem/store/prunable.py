"""What forgetting by policy reads: every memory of a namespace with all that a policy weighs."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hybridmem.store.rows import dump
from hybridmem.types import SUMMARY_TYPE, State, TaskStatus

#: Contents that are read at a time.
PAGE = 1000


@dataclass(frozen=True, slots=True)
class Row:
    """A memory as a policy sees it; times in microseconds since 1970 UTC. ``status`` None: it is no task."""

    id: int
    uid: str
    parent_id: int
    type: str
    importance: float
    confidence: float
    uses: int
    created_at: int
    active_at: int
    state: State
    pinned: int
    version: int
    status: TaskStatus | None
    path: str
    updated_at: int

    def moment(self, said: int, now: int) -> int:
        """A time of it that the store did not give itself: one that lies ahead counts as when it was last written, so
        that no date keeps a memory for ever."""
        return said if said <= now else min(self.updated_at, now)


def rows(tx: sqlite3.Connection, namespace: int) -> list[Row]:
    """All of a namespace but its root, in whatever state, in preorder."""
    found = tx.execute(
        """SELECT n.id, n.uid, n.parent_id, n.type, n.importance, n.confidence, n.uses, n.created_at, n.active_at,
            n.state, n.pinned, n.version, t.status, n.path, n.updated_at
        FROM node n LEFT JOIN task t ON t.node_id = n.id
        WHERE n.namespace_id = ? AND n.parent_id IS NOT NULL ORDER BY n.path""",
        (namespace,),
    ).fetchall()
    return [Row(*row) for row in found]


def contents(tx: sqlite3.Connection, ids: Sequence[int]) -> Iterator[tuple[int, str]]:
    """(internal id, content) of each of these nodes."""
    for start in range(0, len(ids), PAGE):
        yield from tx.execute(
            """SELECT n.id, r.content FROM node n JOIN revision r ON r.id = n.revision_id
            WHERE n.id IN (SELECT value FROM json_each(?))""",
            (dump(list(ids[start : start + PAGE])),),
        ).fetchall()


def claimed(tx: sqlite3.Connection, namespace: int, now: int) -> set[int]:
    """The tasks that somebody has claimed for longer than ``now``; also those whose claimer may have died."""
    found = tx.execute(
        "SELECT c.node_id FROM claim c JOIN node n ON n.id = c.node_id WHERE n.namespace_id = ? AND c.until > ?",
        (namespace, now),
    ).fetchall()
    return {row[0] for row in found}


def stand_ins(tx: sqlite3.Connection, namespace: int, uids: Sequence[str]) -> dict[str, tuple[str, int]]:
    """Of these public ids of summaries those that stand for something that is archived, themselves or for a summary
    that they superseded, however often: whose summary it is, and of how much."""
    found = tx.execute(
        f"""WITH RECURSIVE stood(uid, now) AS (
            SELECT value, value FROM json_each(?)
            UNION
            SELECT n.uid, s.now FROM stood s JOIN node n ON n.namespace_id = ? AND n.replaced_by = s.uid
            WHERE n.replaced_by != '' AND n.state = 'superseded' AND n.type = '{SUMMARY_TYPE}')
        SELECT s.now, s.uid, count(*) FROM stood s JOIN node n ON n.namespace_id = ? AND n.replaced_by = s.uid
        WHERE n.replaced_by != '' AND n.state = 'archived' GROUP BY s.now, s.uid""",
        (dump(list(uids)), namespace, namespace),
    ).fetchall()
    return {now: (uid, count) for now, uid, count in found}


def live(tx: sqlite3.Connection, namespace: int) -> int:
    """How many memories are live, the root left out."""
    row = tx.execute(
        "SELECT count(*) FROM node WHERE namespace_id = ? AND state = 'live' AND parent_id IS NOT NULL", (namespace,)
    ).fetchone()
    return int(row[0])

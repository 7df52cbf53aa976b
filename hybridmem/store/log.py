"""The operation log: append-only, numbered per namespace, hash-chained. Order is by sequence, never by clock."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable
from typing import Any

from hybridmem.store.rows import dump, from_micros, subtree_range
from hybridmem.types import Operation, State

START = "sha256:" + "0" * 64
#: Operations that change the node they name, where it hangs, and of its ancestors the time of the last activity.
LOCAL = (
    "namespace", "add", "confirm", "update", "pin",
    "task.claim", "task.release", "task.start", "task.switch", "task.update", "task.finish", "task.import",
)  # fmt: skip
#: Operations that change the states of the node they name and of nodes below it, and nothing else of any node. Their
#: payload says of each node, in insertion order: ``"states": [[id, state before, state after, version after], …]``.
STATE_CHANGES = ("forget", "restore_forgotten", "archive", "unarchive")
#: Entries that are read at a time when one looks back.
PAGE = 100
_COLUMNS = "sequence, kind, node_uid, agent, at, payload, hash"


def append(
    tx: sqlite3.Connection,
    namespace: int,
    *,
    kind: str,
    node_uid: str | None,
    agent: str,
    at: int,
    payload: dict[str, Any],
) -> int:
    """Adds one entry and returns its sequence number. Contents are referenced by revision, never copied in."""
    last, previous = head(tx, namespace)
    sequence = last + 1
    body = dump(payload)
    payload_hash = _sha256(body)
    entry_hash = chained(previous, sequence, kind, node_uid, agent, at, payload_hash)
    tx.execute(
        """INSERT INTO operation (namespace_id, sequence, kind, node_uid, agent, at, payload, payload_hash, hash)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        (namespace, sequence, kind, node_uid, agent, at, body, payload_hash, entry_hash),
    )
    return sequence


def head(tx: sqlite3.Connection, namespace: int) -> tuple[int, str]:
    """The last sequence number and its hash; (0, START) for an empty log."""
    row = tx.execute(
        "SELECT sequence, hash FROM operation WHERE namespace_id = ? ORDER BY sequence DESC LIMIT 1", (namespace,)
    ).fetchone()
    return (row[0], row[1]) if row else (0, START)


def since(tx: sqlite3.Connection, namespace: int, sequence: int, limit: int | None = None) -> list[Operation]:
    """Entries after ``sequence``, oldest first."""
    rows = tx.execute(
        f"SELECT {_COLUMNS} FROM operation WHERE namespace_id = ? AND sequence > ? ORDER BY sequence LIMIT ?",
        (namespace, sequence, -1 if limit is None else limit),
    ).fetchall()
    return [_operation(row) for row in rows]


def touched(tx: sqlite3.Connection, namespace: int, after: int, path: str) -> bool:
    """Whether an entry after ``after`` may have changed a node at or below a path. Of an operation that is not among
    LOCAL or STATE_CHANGES that is not known: it may have taken a node away from there."""
    known = (*LOCAL, *STATE_CHANGES)
    row = tx.execute(
        f"""SELECT 1 FROM operation o LEFT JOIN node n ON n.namespace_id = o.namespace_id AND n.uid = o.node_uid
        WHERE o.namespace_id = ? AND o.sequence > ? AND (
            n.id IS NULL OR o.kind NOT IN ({", ".join("?" * len(known))}) OR (n.path >= ? AND n.path < ?)
            OR (o.kind IN ({", ".join("?" * len(STATE_CHANGES))}) AND substr(?, 1, length(n.path)) = n.path)
        ) LIMIT 1""",
        (namespace, after, *known, *subtree_range(path), *STATE_CHANGES, path),
    ).fetchone()
    return row is not None


def states_before(tx: sqlite3.Connection, namespace: int, uids: Iterable[str]) -> dict[str, State]:
    """The state of each of these nodes before it was last forgotten; those that were imported as forgotten are left
    out. Looks back from the newest entry until all are found."""
    wanted, found, below = set(uids), {}, head(tx, namespace)[0] + 1
    while wanted:
        rows = tx.execute(
            """SELECT sequence, payload FROM operation WHERE namespace_id = ? AND sequence < ? AND kind = 'forget'
            ORDER BY sequence DESC LIMIT ?""",
            (namespace, below, PAGE),
        ).fetchall()
        if not rows:
            break
        for _, payload in rows:
            for uid, before, _, _ in json.loads(payload)["states"]:
                if uid in wanted:
                    found[uid] = before
                    wanted.discard(uid)
        below = rows[-1][0]
    return found


def sequence_at(tx: sqlite3.Connection, namespace: int, moment: int) -> int:
    """The number of the last entry before the first one that is later than a moment; 0 if all are."""
    row = tx.execute(
        "SELECT min(sequence) - 1 FROM operation WHERE namespace_id = ? AND at > ?", (namespace, moment)
    ).fetchone()
    return head(tx, namespace)[0] if row[0] is None else int(row[0])


def last_of(tx: sqlite3.Connection, namespace: int, agent: str) -> Operation | None:
    """The last entry of one agent."""
    row = tx.execute(
        f"SELECT {_COLUMNS} FROM operation WHERE namespace_id = ? AND agent = ? ORDER BY sequence DESC LIMIT 1",
        (namespace, agent),
    ).fetchone()
    return _operation(row) if row else None


def broken_at(tx: sqlite3.Connection, namespace: int) -> int | None:
    """The first sequence number whose entry was edited, removed or reordered; None if the chain holds."""
    previous, expected = START, 1
    rows = tx.execute(
        """SELECT sequence, kind, node_uid, agent, at, payload, payload_hash, hash FROM operation
        WHERE namespace_id = ? ORDER BY sequence""",
        (namespace,),
    ).fetchall()
    for sequence, kind, node_uid, agent, at, payload, payload_hash, entry_hash in rows:
        right = chained(previous, sequence, kind, node_uid, agent, at, payload_hash)
        if sequence != expected or _sha256(payload) != payload_hash or right != entry_hash:
            return expected
        previous, expected = entry_hash, sequence + 1
    return None


def chained(
    previous: str, sequence: int, kind: str, node_uid: str | None, agent: str, at: int, payload_hash: str
) -> str:
    """The hash of an entry: over the one before it and every field, the payload by its own hash."""
    return _sha256(dump([previous, sequence, kind, node_uid, agent, at, payload_hash]))


def _sha256(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode("utf-8")).hexdigest()


def _operation(row: tuple[Any, ...]) -> Operation:
    return Operation(row[0], row[1], row[2], row[3], from_micros(row[4]), json.loads(row[5]), row[6])

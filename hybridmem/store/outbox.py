"""The outbox and the embeddings: what still has to reach the model and the vector index, and what has been made.

A row of the outbox means: bring this node up to date in the vector index (and embed it first if its current content
has no embedding). It goes when that is done, so work is done at least once, whatever dies in between.

The embedding of a node is one row per piece of its content (hybridmem.pieces), numbered from 0 and always written
together: where piece 0 is, all are.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hybridmem.ports import Vectors
from hybridmem.store import sealing
from hybridmem.store.rows import PURGED_KEY, dump, subtree_range


@dataclass(frozen=True, slots=True)
class Pending:
    """One node that waits. ``live`` False: it is to be taken out of the index."""

    entry: int
    namespace: int
    node_id: int
    revision: int
    content: str
    live: bool


def queue(tx: sqlite3.Connection, namespace: int, node_id: int) -> None:
    """Asks for a node to be brought up to date; an older request that failed is replaced."""
    tx.execute("DELETE FROM outbox WHERE node_id = ?", (node_id,))
    tx.execute("INSERT INTO outbox (namespace_id, node_id) VALUES (?, ?)", (namespace, node_id))


def queue_all(tx: sqlite3.Connection, namespace: int, ids: Sequence[int]) -> None:
    """The same for many nodes."""
    tx.execute("DELETE FROM outbox WHERE node_id IN (SELECT value FROM json_each(?))", (dump(list(ids)),))
    tx.execute(
        "INSERT INTO outbox (namespace_id, node_id) SELECT ?, value FROM json_each(?)", (namespace, dump(list(ids)))
    )


def unembedded(tx: sqlite3.Connection, limit: int, *, namespace: int | None = None) -> list[Pending]:
    """What has to be embedded, oldest first; in one namespace or (None) in all. What failed before is left out."""
    return _pending(tx, limit, "e.id IS NULL AND n.state = 'live'", namespace)


def ready(tx: sqlite3.Connection, limit: int) -> list[Pending]:
    """What can go to the vector index, or out of it, oldest first."""
    return _pending(tx, limit, "(e.id IS NOT NULL OR n.state != 'live')", None)


def _pending(tx: sqlite3.Connection, limit: int, condition: str, namespace: int | None) -> list[Pending]:
    rows = tx.execute(
        f"""SELECT o.id, o.namespace_id, o.node_id, n.revision_id, r.content, n.state = 'live'
            FROM outbox o JOIN node n ON n.id = o.node_id JOIN revision r ON r.id = n.revision_id
            LEFT JOIN embedding e ON e.node_id = n.id AND e.piece = 0 AND e.revision_id = n.revision_id
            WHERE o.reason IS NULL AND {condition} AND (? IS NULL OR o.namespace_id = ?) ORDER BY o.id LIMIT ?""",
        (namespace, namespace, limit),
    ).fetchall()
    return [Pending(row[0], row[1], row[2], row[3], row[4], bool(row[5])) for row in rows]


def retry(tx: sqlite3.Connection) -> None:
    """Forgets that anything failed, so that it is tried again."""
    tx.execute("UPDATE outbox SET reason = NULL WHERE reason IS NOT NULL")


def save(tx: sqlite3.Connection, item: Pending, vectors: Vectors) -> None:
    """Keeps an embedding, one row of ``vectors`` (p, d) per piece, unless the content has changed since it was read."""
    # Purged or erased since: the revision is the same, and says nothing any more.
    current = tx.execute(
        "SELECT revision_id FROM node WHERE id = ? AND content_key != ?", (item.node_id, PURGED_KEY)
    ).fetchone()
    if current is None or current[0] != item.revision:
        return
    tx.execute("DELETE FROM embedding WHERE node_id = ?", (item.node_id,))
    # New rows have new, higher ids: views see them as new.
    tx.executemany(
        "INSERT INTO embedding (namespace_id, node_id, piece, revision_id, vector) VALUES (?, ?, ?, ?, ?)",
        [
            (item.namespace, item.node_id, piece, item.revision, row.tobytes())
            for piece, row in enumerate(rows_of(tx, item.namespace, vectors))
        ],
    )


def rows_of(tx: sqlite3.Connection, namespace: int, vectors: Vectors) -> Vectors:
    """Vectors (p, d) as they are kept."""
    return np.ascontiguousarray(sealing.turned(tx, namespace, vectors), dtype="<f4")


def drop_embedding(tx: sqlite3.Connection, node_id: int) -> None:
    """Takes away the embedding of a content that is no longer current, all pieces of it."""
    tx.execute("DELETE FROM embedding WHERE node_id = ?", (node_id,))
    tx.execute("DELETE FROM embedding_next WHERE node_id = ?", (node_id,))  # see hybridmem.store.models


def keep_embedding(tx: sqlite3.Connection, node_id: int, revision: int) -> None:
    """Lets the embedding stand for a new revision whose content is the same (only metadata changed)."""
    tx.execute(
        """INSERT OR REPLACE INTO embedding (namespace_id, node_id, piece, revision_id, vector)
        SELECT namespace_id, node_id, piece, ?, vector FROM embedding WHERE node_id = ? ORDER BY piece""",
        (revision, node_id),
    )
    tx.execute("UPDATE embedding_next SET revision_id = ? WHERE node_id = ?", (revision, node_id))


def done(tx: sqlite3.Connection, entries: Iterable[int]) -> None:
    tx.executemany("DELETE FROM outbox WHERE id = ?", [(entry,) for entry in entries])


def failed(tx: sqlite3.Connection, item: Pending, reason: str) -> None:
    """Leaves an entry where it is with the reason; it is tried again at the next flush()."""
    told = sealing.reason(tx, item.node_id, reason)
    tx.execute("UPDATE outbox SET attempts = attempts + 1, reason = ? WHERE id = ?", (told, item.entry))


def waiting(tx: sqlite3.Connection, namespace: int | None = None) -> int:
    row = tx.execute(
        "SELECT count(*) FROM outbox WHERE ? IS NULL OR namespace_id = ?", (namespace, namespace)
    ).fetchone()
    return int(row[0])


def without_vector(tx: sqlite3.Connection, namespace: int, most: int) -> int:
    """How many live nodes of a namespace wait for their vector, not counting those that failed, nor further than
    ``most``: a search asks this each time, and after an import very many wait."""
    row = tx.execute(
        """SELECT count(*) FROM (
            SELECT 1 FROM outbox o JOIN node n ON n.id = o.node_id
            LEFT JOIN embedding e ON e.node_id = n.id AND e.revision_id = n.revision_id
            WHERE o.namespace_id = ? AND o.reason IS NULL AND n.state = 'live' AND e.id IS NULL LIMIT ?
        )""",
        (namespace, most),
    ).fetchone()
    return int(row[0])


def drop_unneeded(tx: sqlite3.Connection) -> None:
    """Drops what asks for nodes that are not live to be taken out of the vector index: nothing was ever put in."""
    tx.execute("DELETE FROM outbox WHERE node_id IN (SELECT id FROM node WHERE state != 'live')")


def stuck(tx: sqlite3.Connection, namespace: int) -> list[tuple[str, str]]:
    """(public id, reason) of what failed."""
    rows = tx.execute(
        """SELECT n.uid, n.id, o.reason FROM outbox o JOIN node n ON n.id = o.node_id
        WHERE o.namespace_id = ? AND o.reason IS NOT NULL ORDER BY o.id""",
        (namespace,),
    ).fetchall()
    return [(uid, sealing.opened_reason(tx, node_id, reason)) for uid, node_id, reason in rows]


def requeue_all(tx: sqlite3.Connection) -> None:
    """Asks for every live node of the store to be indexed again: the vector index was lost or cannot be trusted."""
    tx.execute(
        """INSERT INTO outbox (namespace_id, node_id) SELECT namespace_id, id FROM node
        WHERE state = 'live' AND parent_id IS NOT NULL AND id NOT IN (SELECT node_id FROM outbox)"""
    )


def queue_unembedded(tx: sqlite3.Connection) -> None:
    """Asks for every live node that has no embedding."""
    tx.execute(
        """INSERT INTO outbox (namespace_id, node_id) SELECT namespace_id, id FROM node n
        WHERE state = 'live' AND parent_id IS NOT NULL AND id NOT IN (SELECT node_id FROM outbox)
        AND NOT EXISTS (SELECT 1 FROM embedding e WHERE e.node_id = n.id AND e.revision_id = n.revision_id)"""
    )


def failed_content(tx: sqlite3.Connection, node_id: int, revision: int, reason: str) -> None:
    """As :func:`failed`, for a content that waits, if it is still the current one."""
    tx.execute(
        """UPDATE outbox SET attempts = attempts + 1, reason = ? WHERE node_id = ?
        AND node_id IN (SELECT id FROM node WHERE id = ? AND revision_id = ?)""",
        (sealing.reason(tx, node_id, reason), node_id, node_id, revision),
    )


def last_embedding(tx: sqlite3.Connection, namespace: int) -> int:
    """The highest id of an embedding; 0 if there is none. A later one has a higher id."""
    row = tx.execute("SELECT max(id) FROM embedding WHERE namespace_id = ?", (namespace,)).fetchone()
    return int(row[0] or 0)


def embedded_since(tx: sqlite3.Connection, namespace: int, after: int) -> list[int]:
    """The nodes embedded after the embedding with id ``after``; one with several pieces comes as often."""
    rows = tx.execute(
        "SELECT node_id FROM embedding WHERE namespace_id = ? AND id > ? ORDER BY id", (namespace, after)
    ).fetchall()
    return [row[0] for row in rows]


def embedded_below(tx: sqlite3.Connection, namespace: int, after: int, path: str) -> bool:
    """Whether a node at or below a path was embedded after the embedding with id ``after``."""
    row = tx.execute(
        """SELECT 1 FROM embedding e JOIN node n ON n.id = e.node_id
        WHERE e.namespace_id = ? AND e.id > ? AND n.path >= ? AND n.path < ? LIMIT 1""",
        (namespace, after, *subtree_range(path)),
    ).fetchone()
    return row is not None


def vector_bytes(tx: sqlite3.Connection, namespace: int) -> int:
    """How long the newest vector of a namespace is; 0 if there is none."""
    row = tx.execute(
        "SELECT length(vector) FROM embedding WHERE namespace_id = ? ORDER BY id DESC LIMIT 1", (namespace,)
    ).fetchone()
    return int(row[0]) if row else 0


def pieces_of(tx: sqlite3.Connection, namespace: int, ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], Vectors]:
    """The embeddings of these nodes, where there are any, as one matrix (p, d): by node, its pieces in order; and (p,)
    the node of each row. Vectors of another width than the newest are of another model, and left out."""
    width = vector_bytes(tx, namespace)
    found: list[tuple[int, bytes]] = []
    if width and len(ids):
        found = tx.execute(
            """SELECT node_id, vector FROM embedding WHERE node_id IN (SELECT value FROM json_each(?))
            ORDER BY node_id, piece""",
            (dump(ids.tolist()),),
        ).fetchall()
        if any(len(row[1]) != width for row in found):
            found = [row for row in found if len(row[1]) == width]
    owners = np.array([row[0] for row in found], dtype=np.int64)
    matrix: Vectors = np.frombuffer(b"".join([row[1] for row in found]), dtype="<f4").reshape(len(found), width // 4)
    return owners, matrix


def vectors_of(tx: sqlite3.Connection, ids: Sequence[int]) -> dict[int, Vectors]:
    """The embeddings of these nodes, where there are any: shape (p, d), one row per piece."""
    rows = tx.execute(
        """SELECT node_id, vector FROM embedding WHERE node_id IN (SELECT value FROM json_each(?))
        ORDER BY node_id, piece""",
        (dump(list(ids)),),
    ).fetchall()
    found: dict[int, list[bytes]] = {}
    for node_id, vector in rows:
        found.setdefault(node_id, []).append(vector)
    return {
        node_id: np.frombuffer(b"".join(vectors), dtype="<f4").reshape(len(vectors), -1)
        for node_id, vectors in found.items()
    }


def piece_counts(tx: sqlite3.Connection, ids: Sequence[int]) -> dict[int, int]:
    """How many pieces each of these nodes has an embedding of, where it has one."""
    rows = tx.execute(
        """SELECT node_id, count(*) FROM embedding WHERE node_id IN (SELECT value FROM json_each(?))
        GROUP BY node_id""",
        (dump(list(ids)),),
    ).fetchall()
    return dict(rows)


def indexed(tx: sqlite3.Connection, namespace: int) -> dict[int, int]:
    """How many pieces the vector index must hold of each node: of those live, embedded, and not waiting."""
    # The cross join makes SQLite go by node id, through the pages in order. By the index of a namespace it would jump
    # about, which takes half a minute for 100,000 nodes that the system has not read before.
    rows = tx.execute(
        """SELECT e.node_id, count(*) FROM embedding e CROSS JOIN node n ON n.id = e.node_id
        WHERE n.namespace_id = ? AND n.state = 'live' AND e.node_id NOT IN (SELECT node_id FROM outbox)
        GROUP BY e.node_id""",
        (namespace,),
    ).fetchall()
    return dict(rows)


def pending_ids(tx: sqlite3.Connection, namespace: int) -> set[int]:
    """The nodes that wait, for whatever reason."""
    return {row[0] for row in tx.execute("SELECT node_id FROM outbox WHERE namespace_id = ?", (namespace,)).fetchall()}


def embedded(tx: sqlite3.Connection, namespace: int) -> int:
    """How many nodes have an embedding."""
    row = tx.execute("SELECT count(*) FROM embedding WHERE namespace_id = ? AND piece = 0", (namespace,)).fetchone()
    return int(row[0])


def last(tx: sqlite3.Connection) -> int:
    """The newest entry; 0 if there is none."""
    return int(tx.execute("SELECT coalesce(max(id), 0) FROM outbox").fetchone()[0])


def waits_up_to(tx: sqlite3.Connection, entry: int) -> bool:
    """Whether any entry up to this one has not been done yet, those that failed not counted."""
    row = tx.execute("SELECT 1 FROM outbox WHERE id <= ? AND reason IS NULL LIMIT 1", (entry,)).fetchone()
    return row is not None

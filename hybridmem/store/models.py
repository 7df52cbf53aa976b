"""Which embedding model a store has, and the vectors of the next one while it is being changed.

The model is a setting: its identity, what tells it from others, and a ``number`` that rises with each change, so that
whoever still holds vectors, or an embedder, of an earlier one can tell. The next model has its own setting and its own
table, which nothing but this file reads: no answer ever mixes the two.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from hybridmem.ports import Vectors
from hybridmem.store import outbox, points
from hybridmem.store.outbox import Pending
from hybridmem.store.rows import PURGED_KEY, dump

#: Store settings: the model of the store (none before the first embedding), and the one that it is to have.
CURRENT, NEXT = "embedding", "embedding_next"

#: What the change has to take along: every live content, and of the others those that are found by vector as well.
_WANTED = """node n JOIN revision r ON r.id = n.revision_id
    LEFT JOIN embedding_next x ON x.node_id = n.id AND x.piece = 0 AND x.revision_id = n.revision_id
    WHERE n.parent_id IS NOT NULL
    AND (n.state = 'live' OR EXISTS (SELECT 1 FROM embedding e WHERE e.node_id = n.id AND e.piece = 0))"""


def current(tx: sqlite3.Connection) -> dict[str, Any] | None:
    """What the store knows of its model; None before the first embedding."""
    text = points.setting_text(tx, CURRENT)
    return None if text is None else _read(text)


@lru_cache(maxsize=4)
def _read(text: str) -> dict[str, Any]:
    """Every search asks several times, and there is a vector in it. Whoever gets it must not change it."""
    found: dict[str, Any] = json.loads(text)
    return found


def number(model: Mapping[str, Any] | None) -> int:
    """How often the model had been changed when this one came; 0: it is the first."""
    return 0 if model is None else int(model.get("number", 0))


def key(model: Mapping[str, Any]) -> str:
    """Names a model in the vector index: another one after each change."""
    identity = dict(model["identity"])
    return dump({**identity, "number": number(model)} if number(model) else identity)


def current_key(tx: sqlite3.Connection) -> str | None:
    model = current(tx)
    return None if model is None else key(model)


def is_model(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Whether both are of one change, with the vectors of one model."""
    return number(a) == number(b) and bool(a["fingerprint"] == b["fingerprint"])


def is_current(tx: sqlite3.Connection, model: Mapping[str, Any]) -> bool:
    """Whether the store has this model, in the state that a transaction sees."""
    found = current(tx)
    return found is not None and is_model(found, model)


def rename(tx: sqlite3.Connection, model: Mapping[str, Any]) -> None:
    """The same model under another identity: the vectors stay."""
    points.set_setting(tx, CURRENT, dict(model))


def following(tx: sqlite3.Connection) -> dict[str, Any] | None:
    """The model that a change which has begun is about; None: none has."""
    found: dict[str, Any] | None = points.setting(tx, NEXT)
    return found


def begin(tx: sqlite3.Connection, model: Mapping[str, Any]) -> None:
    """Begins a change, from nothing."""
    give_up(tx)
    points.set_setting(tx, NEXT, dict(model))


def give_up(tx: sqlite3.Connection) -> None:
    """Forgets a change that was begun, and its vectors."""
    tx.execute("DELETE FROM embedding_next")
    points.drop_setting(tx, NEXT)


def progress(tx: sqlite3.Connection) -> tuple[int, int]:
    """(how many contents have their new vectors, how many there are to take along)."""
    done, total = tx.execute(f"SELECT count(x.node_id), count(*) FROM {_WANTED}").fetchone()
    return int(done), int(total)


def unembedded(tx: sqlite3.Connection, limit: int, *, after: int) -> list[Pending]:
    """Contents without new vectors, of nodes with higher internal ids than ``after``, in order."""
    rows = tx.execute(
        f"""SELECT n.namespace_id, n.id, n.revision_id, r.content, n.state = 'live' FROM {_WANTED}
            AND x.node_id IS NULL AND n.id > ? ORDER BY n.id LIMIT ?""",
        (after, limit),
    ).fetchall()
    return [Pending(0, row[0], row[1], row[2], row[3], bool(row[4])) for row in rows]


def save(tx: sqlite3.Connection, item: Pending, vectors: Vectors) -> None:
    """Keeps the new vectors (p, d) of a content, unless it has changed since it was read."""
    revision = tx.execute(
        "SELECT revision_id FROM node WHERE id = ? AND content_key != ?", (item.node_id, PURGED_KEY)
    ).fetchone()
    if revision is None or revision[0] != item.revision:
        return
    tx.execute("DELETE FROM embedding_next WHERE node_id = ?", (item.node_id,))
    tx.executemany(
        "INSERT INTO embedding_next (node_id, piece, revision_id, vector) VALUES (?, ?, ?, ?)",
        [
            (item.node_id, piece, item.revision, row.tobytes())
            for piece, row in enumerate(outbox.rows_of(tx, item.namespace, vectors))
        ],
    )


def switch(tx: sqlite3.Connection, failed: Mapping[tuple[int, int], str]) -> None:
    """Makes the next model that of the store: its vectors take the place of all others. Where they were gathered they
    are no more use, see :func:`clean_up`.

    Contents that have none, since they were written last or failed, wait for it.

    :param failed: (node, revision) → why it has no vector; they wait with that reason.
    """
    tx.execute("DELETE FROM embedding")
    # In a new order of ids, all of them higher: views see that everything is new.
    tx.execute(
        """INSERT INTO embedding (namespace_id, node_id, piece, revision_id, vector)
        SELECT n.namespace_id, x.node_id, x.piece, x.revision_id, x.vector FROM embedding_next x
        JOIN node n ON n.id = x.node_id AND n.revision_id = x.revision_id ORDER BY x.node_id, x.piece"""
    )
    points.set_setting(tx, CURRENT, following(tx))
    points.drop_setting(tx, NEXT)
    outbox.queue_unembedded(tx)
    for (node_id, revision), reason in failed.items():
        outbox.failed_content(tx, node_id, revision, reason)


def clean_up(tx: sqlite3.Connection) -> None:
    """After a switch, in a transaction of its own, since others wait for the one of the switch."""
    if following(tx) is None:
        tx.execute("DELETE FROM embedding_next")

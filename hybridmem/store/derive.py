"""What follows from the tree and is kept beside it, brought in order after nodes were written without it: the lexical
index, the speakers, the embeddings that are still right, and the outbox."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from itertools import islice

from hybridmem.speakers import speaker
from hybridmem.store import lexical, models, outbox, sealing
from hybridmem.store.rows import dump
from hybridmem.text import terms

#: Nodes that are read at a time.
PAGE = 1000
#: What is noted about a store besides its tree and its log, and does not follow from them.
_BESIDE = ("setting", "checkpoint", "session")


def derive(source: sqlite3.Connection, tx: sqlite3.Connection, ids: Iterable[int]) -> None:
    """Makes these nodes of ``tx`` (internal ids) findable, and copies the settings, checkpoints and sessions that it
    lacks.

    :param source: a store with the same internal ids; its embeddings are taken where they are of the same revision.
    """
    waiting = tx.execute("SELECT node_id FROM outbox").fetchall()  # the source may have embedded them since
    left = iter(sorted({*ids, *(row[0] for row in waiting)}))
    while page := list(islice(left, PAGE)):
        _index(tx, page)
        _embed(source, tx, page)
    for table in _BESIDE:
        rows = source.execute(f"SELECT * FROM main.{table}").fetchall()
        if rows:
            marks = ", ".join("?" * len(rows[0]))
            tx.executemany(f"INSERT OR IGNORE INTO main.{table} VALUES ({marks})", rows)


def _index(tx: sqlite3.Connection, ids: list[int]) -> None:
    rows = tx.execute(
        """SELECT n.id, n.namespace_id, r.content, r.metadata FROM node n JOIN revision r ON r.id = n.revision_id
        WHERE n.id IN (SELECT value FROM json_each(?)) AND n.parent_id IS NOT NULL""",
        (dump(ids),),
    ).fetchall()
    lengths = []
    for node_id, namespace, content, metadata in rows:
        found, key = terms(content), sealing.writing(tx, namespace)
        lexical.index(tx, namespace, node_id, found)
        lengths.append((len(found), sealing.voice(key, speaker(content, json.loads(metadata))), node_id))
        outbox.queue(tx, namespace, node_id)
    tx.executemany("UPDATE node SET terms = ?, speaker = ? WHERE id = ?", lengths)


def _embed(source: sqlite3.Connection, tx: sqlite3.Connection, ids: list[int]) -> None:
    wanted = dump(ids)
    revisions = dict(
        tx.execute(
            "SELECT id, revision_id FROM node WHERE id IN (SELECT value FROM json_each(?))", (wanted,)
        ).fetchall()
    )
    rows = source.execute(
        """SELECT namespace_id, node_id, piece, revision_id, vector FROM embedding
        WHERE node_id IN (SELECT value FROM json_each(?))""",
        (wanted,),
    ).fetchall()
    if models.current_key(tx) not in (None, models.current_key(source)):
        rows = []  # of another model than all that is there: these are embedded again, by the one that it has
    tx.execute("DELETE FROM embedding WHERE node_id IN (SELECT value FROM json_each(?))", (wanted,))
    tx.executemany(
        "INSERT INTO embedding (namespace_id, node_id, piece, revision_id, vector) VALUES (?, ?, ?, ?, ?)",
        [row for row in rows if revisions.get(row[1]) == row[3]],
    )

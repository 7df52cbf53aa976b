"""Whether what a receipt says is gone is gone from the rows of a database."""

from __future__ import annotations

import sqlite3
from typing import Protocol

from hybridmem.store import points, tombstones
from hybridmem.store.rows import dump


class Told(Protocol):
    """What a receipt says: hashes of public ids and of names."""

    @property
    def ids(self) -> tuple[str, ...]: ...

    @property
    def namespaces(self) -> tuple[str, ...]: ...

    def hashed(self, text: str) -> str: ...


def left_of(tx: sqlite3.Connection, receipt: Told) -> list[str]:
    """What is left of the memories and namespaces in a receipt, told by their hashes."""
    ids, names = frozenset(receipt.ids), frozenset(receipt.namespaces)
    found = []
    if names:
        spaces = points.namespaces(tx).values()
        rows = tx.execute("SELECT key FROM tombstone t JOIN namespace n ON n.id = t.namespace_id GROUP BY 1").fetchall()
        closed = {row[0].split(";")[1] for row in rows if row[0].startswith(tombstones.ERASED)}
        # One of the same name that was made since is another: it has none of the ids.
        found += [
            "a namespace that was erased is there"
            for space in spaces
            if receipt.hashed(dump(list(space))) in names and tombstones.names_hash(space) not in closed
        ]
    if not ids:
        return found
    rows = tx.execute("SELECT id, uid FROM node").fetchall()
    hit = {node_id: receipt.hashed(uid) for node_id, uid in rows if receipt.hashed(uid) in ids}
    marked = dump(sorted(hit))
    for what, sql in _LEFT.items():
        rows = tx.execute(f"{sql} (SELECT value FROM json_each(?))", (marked,)).fetchall()
        found += [f"{hit[node_id][:16]}: has {what} still" for node_id in sorted({row[0] for row in rows})]
    return found


#: What an erased node must not have, and how to ask for it.
_LEFT = {
    "a state other than forgotten": "SELECT id FROM node WHERE state != 'forgotten' AND id IN",
    "a speaker": "SELECT id FROM node WHERE speaker != '' AND id IN",
    "content": "SELECT node_id FROM revision WHERE (content != '' OR metadata != '{}') AND node_id IN",
    "a next step": "SELECT node_id FROM task WHERE next_step IS NOT NULL AND node_id IN",
    "words": "SELECT rowid FROM lexical WHERE rowid IN",
    "postings": "SELECT doc FROM lexical_instance WHERE doc IN",
    "a vector": "SELECT node_id FROM embedding WHERE node_id IN",
    "a vector of the next model": "SELECT node_id FROM embedding_next WHERE node_id IN",
}

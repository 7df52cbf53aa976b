"""What a store holds about a user, as rows."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from hybridmem.store import log, tree
from hybridmem.store.rows import PURGED_KEY, dump
from hybridmem.types import jsonable

_TABLES = {
    "checkpoints": "SELECT * FROM checkpoint WHERE namespace_id = ? ORDER BY id",
    "sessions": "SELECT * FROM session WHERE namespace_id = ? ORDER BY id",
    "active": "SELECT * FROM active WHERE namespace_id = ? ORDER BY agent",
}


def said_by(tx: sqlite3.Connection, namespace: int, user: str) -> list[str]:
    """The public ids of the memories of a user in a namespace, the root and what is purged left out."""
    rows = tx.execute(
        """SELECT n.uid FROM node n WHERE n.namespace_id = ?1 AND n.parent_id IS NOT NULL AND n.content_key != ?4
        AND (n.speaker = ?3 OR EXISTS (SELECT 1 FROM revision r WHERE r.node_id = n.id AND (
            json_extract(r.metadata, '$.speaker') = ?2 OR json_extract(r.metadata, '$.user') = ?2)))
        ORDER BY n.id""",
        (namespace, user, user.casefold(), PURGED_KEY),
    ).fetchall()
    return [row[0] for row in rows]


def about(tx: sqlite3.Connection, namespace: int, uids: Sequence[str] | None) -> dict[str, Any]:
    """All rows of a namespace, or (``uids``) of some of its memories, as JSON can have them."""
    rows = tx.execute(
        """SELECT id FROM node WHERE namespace_id = ? AND parent_id IS NOT NULL AND content_key != ?
        AND (? IS NULL OR uid IN (SELECT value FROM json_each(?))) ORDER BY id""",
        (namespace, PURGED_KEY, None if uids is None else "", dump(list(uids or ()))),
    ).fetchall()
    nodes = tree.nodes(tx, [row[0] for row in rows])
    found: dict[str, Any] = {"memories": [{**jsonable(_values(nodes[row[0]])), **_more(tx, namespace, row[0], nodes)}
                                          for row in rows]}  # fmt: skip
    if uids is None:
        for name, sql in _TABLES.items():
            cursor = tx.execute(sql, (namespace,))
            titles = [column[0] for column in cursor.description]
            found[name] = [dict(zip(titles, values, strict=True)) for values in cursor.fetchall()]
        found["operations"] = [_entry(one) for one in log.since(tx, namespace, 0)]
    return found


def _values(node: Any) -> dict[str, Any]:
    return asdict(node)


def _more(tx: sqlite3.Connection, namespace: int, node_id: int, nodes: dict[int, Any]) -> dict[str, Any]:
    rows = tx.execute(
        "SELECT version, content, metadata FROM revision WHERE node_id = ? ORDER BY id", (node_id,)
    ).fetchall()
    revisions = [{"version": row[0], "content": row[1], "metadata": json.loads(row[2])} for row in rows]
    entries = [_entry(one) for one in log.about(tx, namespace, nodes[node_id].id)]
    return {"revisions": revisions, "operations": entries}


def _entry(one: Any) -> dict[str, Any]:
    return {
        "sequence": one.sequence, "kind": one.kind, "node_id": one.node_id, "agent": one.agent,
        "at": one.at.isoformat(), "payload": one.payload,
    }  # fmt: skip

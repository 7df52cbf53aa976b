"""Uses of memories, in the store: counted up by what was delivered, and when each was used last."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

from hybridmem.inputs import MAX_COUNT
from hybridmem.store.rows import dump

#: The kind of the operation: ``"nodes": [[id, {"uses": after it, "version": unchanged}], …]``.
USE = "use"


def add(tx: sqlite3.Connection, namespace: int, counts: Mapping[str, int]) -> list[list[Any]]:
    """Counts uses of nodes, by public id, on top of those that the rows have; ids that are not here are left out.

    It is no change of a node: version, ``updated_at`` and ``active_at`` stay. Returns what the log is to say of it.
    """
    rows = tx.execute(
        """SELECT id, uid, uses, version FROM node
        WHERE namespace_id = ? AND uid IN (SELECT value FROM json_each(?)) ORDER BY id""",
        (namespace, dump(sorted(counts))),
    ).fetchall()
    after = [min(uses + counts[uid], MAX_COUNT) for _, uid, uses, _ in rows]
    tx.executemany("UPDATE node SET uses = ? WHERE id = ?", zip(after, (row[0] for row in rows), strict=True))
    return [[row[1], {"uses": uses, "version": row[3]}] for row, uses in zip(rows, after, strict=True)]


def last_used(tx: sqlite3.Connection, namespace: int) -> dict[str, int]:
    """When each node that was ever delivered was so last, by public id, in microseconds since 1970 UTC: the time of the
    write that took the count along. Costs one reading of the entries of this kind."""
    rows = tx.execute(
        """SELECT json_extract(n.value, '$[0]'), max(o.at) FROM operation o, json_each(o.payload, '$.nodes') n
        WHERE o.namespace_id = ? AND o.kind = ? GROUP BY 1""",
        (namespace, USE),
    ).fetchall()
    return dict(rows)

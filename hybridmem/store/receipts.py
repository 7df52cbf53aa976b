"""The receipts of erasures, in the table ``erasure``; those that are not complete are jobs for whoever comes next."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from hybridmem.store import points
from hybridmem.store.rows import dump

#: Store setting: how many erasures there have been. Whoever has the vector index open starts it over when it rises.
GENERATION = "erasures"


def begin(tx: sqlite3.Connection, namespace: int | None, at: int, receipt: dict[str, Any]) -> int:
    """Notes an erasure whose rows are gone, and whose files are not clean yet."""
    points.set_setting(tx, GENERATION, generation(tx) + 1)
    row = tx.execute(
        "INSERT INTO erasure (namespace_id, at, complete, receipt) VALUES (?, ?, 0, ?)",
        (namespace, at, dump(receipt)),
    ).lastrowid
    assert row is not None
    return row


def again(tx: sqlite3.Connection) -> int:
    """The files are to be cleaned once more: by whoever has them."""
    points.set_setting(tx, GENERATION, generation(tx) + 1)
    return generation(tx)


def generation(tx: sqlite3.Connection) -> int:
    return int(points.setting(tx, GENERATION) or 0)


def update(tx: sqlite3.Connection, row: int, receipt: dict[str, Any], *, complete: bool) -> None:
    tx.execute("UPDATE erasure SET receipt = ?, complete = ? WHERE id = ?", (dump(receipt), complete, row))


def incomplete(tx: sqlite3.Connection) -> dict[int, dict[str, Any]]:
    """What is not finished, oldest first."""
    rows = tx.execute("SELECT id, receipt FROM erasure WHERE complete = 0 ORDER BY id").fetchall()
    return {row[0]: json.loads(row[1]) for row in rows}


def all_of(tx: sqlite3.Connection, namespace: int | None) -> list[dict[str, Any]]:
    """The receipts of a namespace, or (None) of the whole store, oldest first."""
    rows = tx.execute(
        "SELECT receipt FROM erasure WHERE ? IS NULL OR namespace_id = ? ORDER BY id", (namespace, namespace)
    ).fetchall()
    return [json.loads(row[0]) for row in rows]


def one(tx: sqlite3.Connection, row: int) -> dict[str, Any]:
    """The receipt in this row."""
    found: dict[str, Any] = json.loads(tx.execute("SELECT receipt FROM erasure WHERE id = ?", (row,)).fetchone()[0])
    return found

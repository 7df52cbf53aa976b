"""What has been erased, told without telling what it was: hashes of public ids. Nothing that has one may come back.

A namespace that was erased as a whole keeps its row, so that its number is never given out again; the key of the row
is then no list of names that anybody could open, but a hash of them.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Mapping

from hybridmem.errors import InvalidInput
from hybridmem.store import points
from hybridmem.store.rows import dump
from hybridmem.types import Namespace

#: How the key of an erased namespace begins.
ERASED = "erased:"
REASON = "erased"

#: By hash of the names of a namespace: hash of a public id → when it was erased (microseconds since 1970 UTC).
Tombstones = Mapping[str, Mapping[str, int]]


def hashed(text: str) -> str:
    """A public id as a tombstone names it."""
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def names_hash(namespace: Namespace) -> str:
    """The names of a namespace as the key of an erased one has them."""
    return hashed(dump(list(namespace)))


def add(tx: sqlite3.Connection, namespace: int, uids: Iterable[str], at: int) -> None:
    """Notes that these public ids are erased. What is noted already stays as it is."""
    tx.executemany(
        "INSERT OR IGNORE INTO tombstone (namespace_id, uid_hash, at, reason) VALUES (?, ?, ?, ?)",
        [(namespace, hashed(uid), at, REASON) for uid in uids],
    )


def add_hashes(tx: sqlite3.Connection, namespace: int, hashes: Mapping[str, int]) -> None:
    """The same by hash, each with its time."""
    tx.executemany(
        "INSERT OR IGNORE INTO tombstone (namespace_id, uid_hash, at, reason) VALUES (?, ?, ?, ?)",
        [(namespace, one, at, REASON) for one, at in hashes.items()],
    )


def has(tx: sqlite3.Connection, namespace: int, names: Namespace, uid: str) -> bool:
    """Whether a public id was erased in this namespace, or in an earlier one of the same name that was erased whole."""
    rows = tx.execute("SELECT namespace_id FROM tombstone WHERE uid_hash = ?", (hashed(uid),)).fetchall()
    if not rows:
        return False
    same = {one for one, key in erased_spaces(tx).items() if key == names_hash(names)} | {namespace}
    return any(one in same for (one,) in rows)


def refuse(tx: sqlite3.Connection, namespace: int, names: Namespace, uid: str | None) -> None:
    """:raises InvalidInput: a caller gives a new memory an id that was erased here: a backup would lose it again."""
    if uid is not None and has(tx, namespace, names, uid):
        raise InvalidInput(f"id: {uid!r} was erased, and what has that id stays erased; give another one")


def everything(tx: sqlite3.Connection) -> dict[str, dict[str, int]]:
    """All tombstones of a store."""
    spaces = {namespace: names_hash(names) for namespace, names in points.namespaces(tx).items()}
    spaces |= erased_spaces(tx)
    found: dict[str, dict[str, int]] = {}
    for namespace, key in spaces.items():
        rows = tx.execute("SELECT uid_hash, at FROM tombstone WHERE namespace_id = ?", (namespace,)).fetchall()
        if rows:
            found.setdefault(key, {}).update(rows)
    return found


def erased_spaces(tx: sqlite3.Connection) -> dict[int, str]:
    """Every namespace that was erased as a whole: its internal id, and the hash of the names that it had."""
    rows = tx.execute("SELECT id, key FROM namespace WHERE substr(key, 1, ?) = ?", (len(ERASED), ERASED)).fetchall()
    return {row[0]: row[1].split(";")[1] for row in rows}


def close_space(tx: sqlite3.Connection, namespace: int, names: Namespace) -> None:
    """Gives the row of a namespace a key that nobody can open."""
    key = f"{ERASED}{namespace};{names_hash(names)}"
    tx.execute("UPDATE namespace SET key = ?, nodes = 0 WHERE id = ?", (key, namespace))


def make_closed_space(tx: sqlite3.Connection, key: str) -> int:
    """A row for the tombstones of a namespace that is not here, by the hash of its names."""
    for namespace, one in erased_spaces(tx).items():
        if one == key:
            return namespace
    row = tx.execute("SELECT coalesce(max(id), 0) + 1 FROM namespace").fetchone()
    tx.execute("INSERT INTO namespace (id, key, created_at) VALUES (?, ?, 0)", (row[0], f"{ERASED}{row[0]};{key}"))
    return int(row[0])

"""One hash for the state of a tree, so that a replayed one can be compared with the one that is there.

It covers every field of every node, its content and metadata included, the tasks, the active pointers of all agents,
and the order of the nodes; not internal ids, nor what is derived from contents (terms, paths, vectors).
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from typing import Any

from hybridmem.store import points
from hybridmem.store.rows import NODE_COLUMNS, NODE_TABLES, dump
from hybridmem.types import Namespace

#: Nodes that are read at a time.
PAGE = 1000
#: What the columns of NODE_COLUMNS are called, in their order.
NAMES = (
    "id", "parent", "type", "content", "importance", "confidence", "metadata", "state", "pinned", "uses", "version",
    "depth", "agent", "created_at", "updated_at", "active_at", "structured", "status", "next_step", "started_at",
    "finished_at", "replaced_by",
)  # fmt: skip


def digest(tx: sqlite3.Connection) -> str:
    """The digest of all namespaces of a store, tagged with its algorithm."""
    whole = hashlib.sha256()
    for names, one in sorted(digests(tx).items()):
        whole.update(dump([list(names), one]).encode("utf-8"))
    return "sha256:" + whole.hexdigest()


def digests(tx: sqlite3.Connection) -> dict[Namespace, str]:
    """The digest of each namespace."""
    names = points.namespaces(tx)
    hashes = {number: hashlib.sha256() for number in names}
    for number, row in _nodes(tx):
        hashes[number].update(dump(row).encode("utf-8"))
    for number, one in hashes.items():
        one.update(dump(points.agents(tx, number)).encode("utf-8"))
    return {names[number]: "sha256:" + one.hexdigest() for number, one in hashes.items()}


def differences(
    live: sqlite3.Connection, replayed: sqlite3.Connection, limit: int = 20, *, only: Namespace | None = None
) -> list[str]:
    """What two stores disagree on, in words, at most ``limit`` of them: which node, which field, from what to what.

    :param only: look at this namespace alone.
    """
    here, there = (
        {names: rows for names, rows in covered(tx).items() if only in (None, names)} for tx in (live, replayed)
    )
    found = [
        f"{'/'.join(names)}: the log has this namespace, the store does not" for names in there if names not in here
    ]
    for names, rows in here.items():
        found += _compare("/".join(names), rows, there.get(names, {}), limit - len(found))
    return found[:limit]


def _nodes(tx: sqlite3.Connection) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """(namespace, NODE_COLUMNS) of every node of the store, in the order they were added."""
    after = 0
    while page := tx.execute(
        f"SELECT n.id, n.namespace_id, {NODE_COLUMNS} FROM {NODE_TABLES} WHERE n.id > ? ORDER BY n.id LIMIT {PAGE}",
        (after,),
    ).fetchall():
        after = page[-1][0]
        yield from ((row[1], row[2:]) for row in page)


def covered(tx: sqlite3.Connection) -> dict[Namespace, dict[str, dict[str, Any]]]:
    """What a digest covers: for each namespace what each node and each agent has."""
    names = points.namespaces(tx)
    rows: dict[Namespace, dict[str, dict[str, Any]]] = {one: {} for one in names.values()}
    for number, row in _nodes(tx):
        values = dict(zip(NAMES, row, strict=True))
        rows[names[number]][f"node {values['id']}"] = values
    for number, one in names.items():
        for agent, task, node in points.agents(tx, number):
            rows[one][f"agent {agent!r}"] = {"active task": task, "active node": node}
    return rows


def _compare(where: str, here: dict[str, dict[str, Any]], there: dict[str, dict[str, Any]], limit: int) -> list[str]:
    found: list[str] = []
    for name in [*here, *(name for name in there if name not in here)]:
        if len(found) >= limit:
            break
        if name not in there:
            found.append(f"{where}: {name} is in the store, but not in the log")
        elif name not in here:
            found.append(f"{where}: {name} is in the log, but not in the store")
        else:
            found += [
                f"{where}: {name}: {field} is {value!r} in the store and {there[name][field]!r} by the log"
                for field, value in here[name].items()
                if value != there[name][field]
            ]
    if not found and list(here) != list(there):
        found.append(f"{where}: the order of the nodes in the store is not that of the log")
    return found[: max(limit, 0)]

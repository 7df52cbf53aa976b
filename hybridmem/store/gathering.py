"""Branches that become one memory, and back: what a branch holds, which branches there are, and the change itself."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hybridmem.store import tree
from hybridmem.store.rows import Key, dump, subtree_range
from hybridmem.types import State, TaskStatus

_COLUMNS = """n.id, n.uid, n.parent_id, n.path, n.type, n.state, n.version, n.pinned, t.status, r.content, n.importance,
    n.confidence, n.created_at, n.revision_id, n.replaced_by"""
_TABLES = "node n JOIN revision r ON r.id = n.revision_id LEFT JOIN task t ON t.node_id = n.id"


@dataclass(frozen=True, slots=True)
class Part:
    """A live node of a branch, or a task of it in whatever state. ``status`` None: it is no task; ``created_at`` in
    microseconds since 1970 UTC."""

    id: int
    uid: str
    parent_id: int
    path: str
    type: str
    state: State
    version: int
    pinned: int
    status: TaskStatus | None
    content: str
    importance: float
    confidence: float
    created_at: int
    revision_id: int
    replaced_by: str


def parts(tx: sqlite3.Connection, paths: Sequence[str]) -> list[Part]:
    """What is live at and below these paths, none of which lies below another, and their tasks in whatever state; in
    the order in which things happened."""
    found: list[Part] = []
    for path in paths:
        rows = tx.execute(
            f"""SELECT {_COLUMNS} FROM {_TABLES} WHERE n.path >= ? AND n.path < ?
            AND (n.state = 'live' OR n.type = 'task')""",
            subtree_range(path),
        ).fetchall()
        found += [Part(*row) for row in rows]
    return sorted(found, key=lambda part: (part.created_at, part.id))


def child_paths(tx: sqlite3.Connection, key: Key, *, before: int | None = None) -> list[str]:
    """The paths of the live children of a node, in insertion order.

    :param before: only those that are no tasks and were last active, with all below them, before this moment.
    """
    rows = tx.execute(
        """SELECT path FROM node WHERE parent_id = ? AND state = 'live'
        AND (? IS NULL OR (type != 'task' AND active_at < ?)) ORDER BY id""",
        (key.id, before, before),
    ).fetchall()
    return [row[0] for row in rows]


def finished_tasks(tx: sqlite3.Connection, namespace: int) -> list[Key]:
    """The live tasks that are done or failed and lie below no other such task, in the order they were added."""
    rows = tx.execute(
        """SELECT n.id, n.path FROM node n JOIN task t ON t.node_id = n.id
        WHERE n.namespace_id = ? AND n.type = 'task' AND n.state = 'live' AND t.status IN ('done', 'failed')
        ORDER BY n.path""",
        (namespace,),
    ).fetchall()
    tops: list[tuple[int, str]] = []
    for node_id, path in rows:
        if not tops or not path.startswith(tops[-1][1]):
            tops.append((node_id, path))
    return sorted(tree.keys(tx, [node_id for node_id, _ in tops]), key=lambda key: key.id)


def with_old_children(tx: sqlite3.Connection, namespace: int, before: int) -> list[Key]:
    """The root and the unfinished live tasks right below which something live, and no task, was last active before a
    moment (microseconds since 1970 UTC), in the order they were added."""
    rows = tx.execute(
        """SELECT DISTINCT p.id FROM node n JOIN node p ON p.id = n.parent_id LEFT JOIN task t ON t.node_id = p.id
        WHERE n.namespace_id = ? AND n.state = 'live' AND n.type != 'task' AND n.active_at < ?
        AND p.state = 'live' AND (p.parent_id IS NULL OR t.status IN ('open', 'paused'))""",
        (namespace, before),
    ).fetchall()
    return sorted(tree.keys(tx, [row[0] for row in rows]), key=lambda key: key.id)


def replaced(tx: sqlite3.Connection, namespace: int, uid: str) -> list[tuple[int, str, State, int]]:
    """(id, public id, state, version) of what a node stands for, in the order they were added."""
    return tx.execute(
        """SELECT id, uid, state, version FROM node WHERE namespace_id = ? AND replaced_by = ? AND replaced_by != ''
        ORDER BY id""",
        (namespace, uid),
    ).fetchall()


def change(tx: sqlite3.Connection, changes: Mapping[int, tuple[State, str]], at: int) -> None:
    """Gives nodes, by internal id, another state and what stands for them ('': nothing); the version of each rises by
    one. It is no activity of theirs."""
    alike: dict[tuple[State, str], list[int]] = {}
    for node_id, given in changes.items():
        alike.setdefault(given, []).append(node_id)
    for (state, replaced_by), ids in alike.items():
        tx.execute(
            """UPDATE node SET state = ?, replaced_by = ?, version = version + 1, updated_at = max(updated_at, ?)
            WHERE id IN (SELECT value FROM json_each(?))""",
            (state, replaced_by, at, dump(ids)),
        )

"""The states of many nodes at once: what a branch holds, what stands in the way, and the change itself.

Everything here takes one statement or one per state, whatever the number of nodes and however deep they hang.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hybridmem.store import tree
from hybridmem.store.paths import path_ids
from hybridmem.store.rows import PURGED_KEY, Key, dump, subtree_range
from hybridmem.types import SUMMARY_TYPE, State, TaskStatus

_COLUMNS = f"""n.id, n.uid, n.state, n.version, n.type, n.pinned, t.status, n.path,
    n.state = 'forgotten' AND n.content_key = '{PURGED_KEY}'"""
_TABLES = "node n LEFT JOIN task t ON t.node_id = n.id"


@dataclass(frozen=True, slots=True)
class Member:
    """A node of a branch; ``status`` None: it is no task. ``purged``: what it said is gone for good."""

    id: int
    uid: str
    state: State
    version: int
    type: str
    pinned: bool
    status: TaskStatus | None
    path: str
    purged: bool


def members(tx: sqlite3.Connection, key: Key, states: Sequence[State], *, subtree: bool) -> list[Member]:
    """The node, and with ``subtree`` all below it, as far as they are in any of these states; in insertion order."""
    low, high = subtree_range(key.path)
    where, place = ("n.path >= ? AND n.path < ?", (low, high)) if subtree else ("n.id = ?", (key.id,))
    rows = tx.execute(
        f"""SELECT {_COLUMNS} FROM {_TABLES} WHERE {where} AND n.state IN ({", ".join("?" * len(states))})
        ORDER BY n.id""",
        (*place, *states),
    ).fetchall()
    return [_member(row) for row in rows]


def by_ids(tx: sqlite3.Connection, ids: Sequence[int]) -> dict[int, Member]:
    """Nodes by internal id, in whatever state."""
    rows = tx.execute(
        f"SELECT {_COLUMNS} FROM {_TABLES} WHERE n.id IN (SELECT value FROM json_each(?))", (dump(list(ids)),)
    ).fetchall()
    return {row[0]: _member(row) for row in rows}


def children_there(tx: sqlite3.Connection, ids: Sequence[int]) -> list[tuple[int, int]]:
    """(parent, child), internal ids, of every child of these nodes that is not forgotten."""
    return tx.execute(
        """SELECT parent_id, id FROM node WHERE parent_id IN (SELECT value FROM json_each(?))
        AND state != 'forgotten'""",
        (dump(list(ids)),),
    ).fetchall()


def nearest_common(tx: sqlite3.Connection, paths: Sequence[str]) -> Key:
    """The nearest node at or above all of these paths."""
    first, last = min(paths), max(paths)
    shared = 0
    while shared < len(first) and first[shared] == last[shared : shared + 1]:
        shared += 1
    return tree.by_id(tx, path_ids(first[: first.rindex("/", 0, shared) + 1])[-1])


def count_below(tx: sqlite3.Connection, key: Key, states: Sequence[State]) -> int:
    """How many nodes below one, itself not counted, are in any of these states."""
    low, high = subtree_range(key.path)
    row = tx.execute(
        f"""SELECT count(*) FROM node WHERE path > ? AND path < ?
        AND state IN ({", ".join("?" * len(states))})""",
        (low, high, *states),
    ).fetchone()
    return int(row[0])


def highest_forgotten_above(tx: sqlite3.Connection, key: Key) -> str | None:
    """The public id of the topmost forgotten ancestor of a node; None: none of them is forgotten."""
    row = tx.execute(
        """SELECT uid FROM node WHERE id IN (SELECT value FROM json_each(?)) AND state = 'forgotten'
        ORDER BY depth LIMIT 1""",
        (dump(path_ids(key.path)[:-1]),),
    ).fetchone()
    return None if row is None else str(row[0])


def replacements(tx: sqlite3.Connection, ids: Sequence[int]) -> list[int]:
    """The live nodes that stand for one of these, each once, in the order in which they were added."""
    rows = tx.execute(
        """SELECT DISTINCT r.id FROM node n JOIN node r ON r.namespace_id = n.namespace_id AND r.uid = n.replaced_by
        WHERE n.id IN (SELECT value FROM json_each(?)) AND n.replaced_by != '' AND r.state = 'live' ORDER BY r.id""",
        (dump(list(ids)),),
    ).fetchall()
    return [row[0] for row in rows]


def summed_up(tx: sqlite3.Connection, ids: Sequence[int]) -> set[int]:
    """Which of these archived nodes a summary stands for that is live or one of them, itself or by another summary."""
    rows = tx.execute(
        """WITH RECURSIVE stands (source, id, namespace_id, state, replaced_by) AS (
            SELECT n.id, r.id, r.namespace_id, r.state, r.replaced_by FROM node n
            JOIN node r ON r.namespace_id = n.namespace_id AND r.uid = n.replaced_by AND r.type = ?
            WHERE n.id IN (SELECT value FROM json_each(?)) AND n.replaced_by != ''
            UNION
            SELECT s.source, r.id, r.namespace_id, r.state, r.replaced_by FROM stands s
            JOIN node r ON r.namespace_id = s.namespace_id AND r.uid = s.replaced_by AND r.type = ?
            WHERE s.state IN ('archived', 'superseded'))
        SELECT DISTINCT source FROM stands
        WHERE state = 'live' OR (state = 'archived' AND id IN (SELECT value FROM json_each(?)))""",
        (SUMMARY_TYPE, dump(list(ids)), SUMMARY_TYPE, dump(list(ids))),
    ).fetchall()
    return {row[0] for row in rows}


def nearest_live_above(tx: sqlite3.Connection, key: Key, without: Sequence[int]) -> Key:
    """The nearest live ancestor that is none of ``without``; at the latest the root of the namespace."""
    row = tx.execute(
        """SELECT id FROM node WHERE id IN (SELECT value FROM json_each(?)) AND (state = 'live' OR parent_id IS NULL)
        AND id NOT IN (SELECT value FROM json_each(?)) ORDER BY depth DESC LIMIT 1""",
        (dump(path_ids(key.path)[:-1]), dump(list(without))),
    ).fetchone()
    return tree.by_id(tx, row[0])


def change(tx: sqlite3.Connection, states: Mapping[int, State], at: int) -> None:
    """Gives nodes, by internal id, another state; the version of each rises by one. It is no activity of theirs."""
    by_state: dict[State, list[int]] = {}
    for node_id, state in states.items():
        by_state.setdefault(state, []).append(node_id)
    for state, ids in by_state.items():
        tx.execute(
            """UPDATE node SET state = ?, version = version + 1, updated_at = max(updated_at, ?)
            WHERE id IN (SELECT value FROM json_each(?))""",
            (state, at, dump(ids)),
        )


def _member(row: tuple[Any, ...]) -> Member:
    return Member(row[0], row[1], row[2], row[3], row[4], bool(row[5]), row[6], row[7], bool(row[8]))

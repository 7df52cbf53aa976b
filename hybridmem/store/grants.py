"""Grants: which subtree of which namespace is shared with whom; and the groups that a namespace has defined.

A principal is stored as JSON: ``["user", [names]]``, ``["agent", [names], agent]`` or ``["group", name]``. A grant that
is revoked is gone, and with it those that were given by virtue of it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from hybridmem.store.rows import Key, dump
from hybridmem.types import Namespace

_COLUMNS = """g.id, g.uid, g.namespace_id, s.key, g.principal, g.rights, g.expires_at, g.created_at, g.agent,
    g.sequence, g.via, n.id, n.uid, n.parent_id, n.path, n.depth, n.type, n.version, n.state"""
_TABLES = "grants g JOIN node n ON n.id = g.node_id JOIN namespace s ON s.id = g.namespace_id"


@dataclass(frozen=True, slots=True)
class Granted:
    """A grant as it is stored, with the node at the top of its subtree as that is now. ``sequence`` is the entry of the
    owner's log that gave it; times in microseconds since 1970 UTC; ``via``: the grant by virtue of which it was given.
    """

    id: int
    uid: str
    namespace: int
    owner: Namespace
    principal: str
    rights: str
    expires_at: int | None
    created_at: int
    agent: str
    sequence: int
    via: int | None
    top: Key


def given_to(tx: sqlite3.Connection, principals: Sequence[str], besides: int) -> list[Granted]:
    """All that other namespaces than ``besides`` have given to any of these principals, or to groups of theirs that
    have one of them as a member; the oldest first."""
    asked = dump(list(principals))
    rows = tx.execute(
        f"""SELECT {_COLUMNS} FROM {_TABLES} WHERE g.namespace_id != ? AND g.id IN (
            SELECT id FROM grants WHERE principal IN (SELECT value FROM json_each(?))
            UNION ALL
            SELECT o.id FROM grant_member m
                JOIN grants o ON o.principal = m.team AND o.namespace_id = m.namespace_id
                WHERE m.principal IN (SELECT value FROM json_each(?))
        ) ORDER BY g.id""",
        (besides, asked, asked),
    ).fetchall()
    return [_granted(row) for row in rows]


def given_by(tx: sqlite3.Connection, namespace: int) -> list[Granted]:
    """All that a namespace has given, the oldest first."""
    rows = tx.execute(
        f"SELECT {_COLUMNS} FROM {_TABLES} WHERE g.namespace_id = ? ORDER BY g.id", (namespace,)
    ).fetchall()
    return [_granted(row) for row in rows]


def find(tx: sqlite3.Connection, uid: str) -> Granted | None:
    row = tx.execute(f"SELECT {_COLUMNS} FROM {_TABLES} WHERE g.uid = ?", (uid,)).fetchone()
    return None if row is None else _granted(row)


def give(
    tx: sqlite3.Connection,
    namespace: int,
    *,
    uid: str,
    node: int,
    principal: str,
    rights: str,
    expires_at: int | None,
    at: int,
    agent: str,
    sequence: int,
    via: int | None,
) -> None:
    """Adds a grant."""
    tx.execute(
        """INSERT INTO grants
            (uid, namespace_id, node_id, principal, rights, expires_at, created_at, agent, sequence, via)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        (uid, namespace, node, principal, rights, expires_at, at, agent, sequence, via),
    )


def same(tx: sqlite3.Connection, namespace: int, node: int, principal: str, via: int | None) -> list[int]:
    """The numbers of the grants of just this node to just this principal."""
    rows = tx.execute(
        "SELECT id FROM grants WHERE namespace_id = ? AND node_id = ? AND principal = ? AND via IS ?",
        (namespace, node, principal, via),
    ).fetchall()
    return [row[0] for row in rows]


def revoke(tx: sqlite3.Connection, grants: Iterable[int]) -> None:
    """Takes grants away, and by their foreign key with them all that were given by virtue of them."""
    tx.execute("DELETE FROM grants WHERE id IN (SELECT value FROM json_each(?))", (dump(list(grants)),))


def follow(tx: sqlite3.Connection, old: int, new: int) -> None:
    """Of what was shared, another node is the top now: by internal ids."""
    tx.execute("UPDATE grants SET node_id = ? WHERE node_id = ?", (new, old))


def latest(tx: sqlite3.Connection, namespace: int, after: int) -> tuple[int, int]:
    """(sequence, time) of the newest entry, and the latest time, that a log notes after an entry; (after, 0): none."""
    row = tx.execute(
        "SELECT max(sequence), max(at) FROM operation WHERE namespace_id = ? AND sequence > ?", (namespace, after)
    ).fetchone()
    return (after, 0) if row[0] is None else (row[0], row[1])


def set_members(tx: sqlite3.Connection, namespace: int, team: str, members: Iterable[str]) -> None:
    """Makes these the members of a group, and nobody else; none: there is no such group any more."""
    tx.execute("DELETE FROM grant_member WHERE namespace_id = ? AND team = ?", (namespace, team))
    tx.executemany(
        "INSERT INTO grant_member (namespace_id, team, principal) VALUES (?, ?, ?)",
        [(namespace, team, member) for member in members],
    )


def members(tx: sqlite3.Connection, namespace: int) -> list[tuple[str, str]]:
    """(group, member) of all groups that a namespace has defined."""
    rows = tx.execute(
        "SELECT team, principal FROM grant_member WHERE namespace_id = ? ORDER BY team, id", (namespace,)
    ).fetchall()
    return [(team, member) for team, member in rows]


def places(tx: sqlite3.Connection, ids: Sequence[int]) -> dict[int, tuple[int, str, str]]:
    """Namespace, path and state of nodes, by internal id."""
    rows = tx.execute(
        "SELECT id, namespace_id, path, state FROM node WHERE id IN (SELECT value FROM json_each(?))",
        (dump(list(ids)),),
    ).fetchall()
    return {row[0]: (row[1], row[2], row[3]) for row in rows}


def carry(old: sqlite3.Connection, new: sqlite3.Connection) -> None:
    """Makes the grants and groups of ``new``, a restored copy of a store, those that ``old``, the store as it is, has:
    what was revoked since the copy was made stays revoked. A grant is left out, with those that were given by virtue
    of it, if its namespace or its node is not in the copy, or if it is over by the log of ``old``, which the copy does
    not have. To be called in a transaction of ``new``."""
    new.execute("DELETE FROM grants")
    new.execute("DELETE FROM grant_member")
    if old.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'grants'").fetchone() is None:
        return
    rows = old.execute(
        """SELECT g.id, g.uid, s.key, n.uid, g.principal, g.rights, g.expires_at, g.created_at, g.agent, g.sequence,
            g.via FROM grants g JOIN node n ON n.id = g.node_id JOIN namespace s ON s.id = g.namespace_id
        WHERE NOT EXISTS (SELECT 1 FROM operation o WHERE o.namespace_id = g.namespace_id AND o.sequence > g.sequence
            AND o.at >= g.expires_at)
        ORDER BY g.id"""
    ).fetchall()
    kept: set[int] = set()
    for number, uid, owner, node, *values, sequence, via in rows:
        if via is not None and via not in kept:
            continue
        place = new.execute(
            """SELECT n.namespace_id, n.id, min(?, coalesce((SELECT max(o.sequence) FROM operation o
                WHERE o.namespace_id = n.namespace_id), 0))
            FROM node n JOIN namespace s ON s.id = n.namespace_id WHERE s.key = ? AND n.uid = ?""",
            (sequence, owner, node),
        ).fetchone()
        if place is not None:
            new.execute(
                """INSERT INTO grants (id, uid, namespace_id, node_id, principal, rights, expires_at, created_at, agent,
                sequence, via) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
                (number, uid, *place[:2], *values, place[2], via),
            )
            kept.add(number)
    teams = old.execute(
        """SELECT s.key, m.team, m.principal FROM grant_member m JOIN namespace s ON s.id = m.namespace_id
        ORDER BY m.id"""
    ).fetchall()
    new.executemany(
        "INSERT INTO grant_member (namespace_id, team, principal) SELECT id, ?, ? FROM namespace WHERE key = ?",
        [(team, member, owner) for owner, team, member in teams],
    )


def _granted(row: tuple[Any, ...]) -> Granted:
    id, uid, namespace, owner, principal, rights, until, made, agent, sequence, via, *top = row
    names = tuple(json.loads(owner))
    return Granted(id, uid, namespace, names, principal, rights, until, made, agent, sequence, via, Key(*top))

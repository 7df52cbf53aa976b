"""The tree: nodes and their revisions. ``parent_id`` is the truth; ``path`` follows it in the same transaction.

Every function takes ``tx``, the connection of a transaction opened by :class:`hybridmem.store.connect.Connections`,
and addresses nodes of one namespace only: ``namespace`` is part of every lookup by public id.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hybridmem import faults
from hybridmem.errors import Conflict, InvalidInput, NotFound, StoreDamaged, shown
from hybridmem.store import sealing
from hybridmem.store.paths import path_below, path_end, path_ids
from hybridmem.store.rows import NODE_COLUMNS, NODE_TABLES, PURGED_KEY, Key, Part, dump, subtree_range, to_node
from hybridmem.store.unlocking import ring
from hybridmem.tokens import MARK, whole_end
from hybridmem.types import Node, State

_SPEAKER = 11  # where it stands in SCAN_COLUMNS
_KEY_COLUMNS = "id, uid, parent_id, path, depth, type, version, state"

# Writing


def insert(
    tx: sqlite3.Connection,
    namespace: int,
    parent: Key | None,
    *,
    uid: str,
    type: str,
    content: str,
    structured: bool,
    metadata: dict[str, Any],
    importance: float,
    confidence: float,
    agent: str,
    terms: int,
    speaker: str,
    at: int,
    created_at: int | None = None,
    uses: int = 0,
    pinned: bool = False,
    state: State = "live",
    replaced_by: str = "",
) -> tuple[Key, int]:
    """Adds a node below ``parent`` (None: the root) with its first revision; returns its key and the revision's id.
    ``at`` is now, ``created_at`` when it happened (default: now)."""
    created_at = at if created_at is None else created_at
    # Inside an immediate transaction nobody else can take the next id, and the path needs it before the insert.
    row = tx.execute("SELECT seq FROM sqlite_sequence WHERE name = 'node'").fetchone()
    node_id = (row[0] if row else 0) + 1
    data_key = sealing.writing(tx, namespace)
    revision = sealing.add_revision(tx, data_key, node_id, 1, content, structured, dump(metadata))
    path = path_below(parent.path if parent else "/", node_id)
    depth = parent.depth + 1 if parent else 0
    tx.execute(
        """INSERT INTO node (id, namespace_id, uid, parent_id, path, depth, type, revision_id, content_key, importance,
            confidence, uses, pinned, state, replaced_by, agent, terms, speaker, created_at, updated_at, active_at)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        (
            node_id, namespace, uid, parent.id if parent else None, path, depth, type, revision,
            sealing.content_key(data_key, content), importance, confidence, uses, pinned, state, replaced_by, agent,
            terms, sealing.voice(data_key, speaker), created_at, at, created_at,
        ),
    )  # fmt: skip
    if parent:
        tx.execute("UPDATE namespace SET nodes = nodes + 1 WHERE id = ?", (namespace,))
    return Key(node_id, uid, parent.id if parent else None, path, depth, type, 1, state), revision


def revise(
    tx: sqlite3.Connection,
    key: Key,
    *,
    content: str,
    structured: bool,
    metadata: dict[str, Any],
    terms: int,
    speaker: str,
) -> int:
    """Gives a node another content or metadata as a new revision; the old one stays. Returns the revision's id."""
    data_key = sealing.writing_to(tx, key.id)
    revision = sealing.add_revision(tx, data_key, key.id, key.version + 1, content, structured, dump(metadata))
    values = (revision, sealing.content_key(data_key, content), terms, sealing.voice(data_key, speaker), key.id)
    tx.execute("UPDATE node SET revision_id = ?, content_key = ?, terms = ?, speaker = ? WHERE id = ?", values)
    return revision


def adopt_root(tx: sqlite3.Connection, root: Key, *, uid: str, content: str, metadata: dict[str, Any]) -> int:
    """Gives the root of an empty namespace the id, content and metadata of an imported one; returns the revision."""
    revision = revise(tx, root, content=content, structured=False, metadata=metadata, terms=0, speaker="")
    tx.execute("UPDATE node SET uid = ?, revision_id = ? WHERE id = ?", (uid, revision, root.id))
    return revision


def set_history(
    tx: sqlite3.Connection,
    key: Key,
    *,
    version: int,
    created_at: int,
    updated_at: int,
    active_at: int,
    agent: str,
) -> None:
    """What an imported node brings along of its past."""
    tx.execute(
        "UPDATE node SET version = ?, created_at = ?, updated_at = ?, active_at = ?, agent = ? WHERE id = ?",
        (version, created_at, updated_at, active_at, agent, key.id),
    )


def change(tx: sqlite3.Connection, key: Key, at: int, **columns: Any) -> None:
    """Sets columns of a node, raises its version by one and marks it updated."""
    assignments = "".join(f"{name} = ?, " for name in columns)
    tx.execute(
        f"UPDATE node SET {assignments}version = version + 1, updated_at = max(updated_at, ?) WHERE id = ?",
        (*columns.values(), at, key.id),
    )


def touch(tx: sqlite3.Connection, moments: Mapping[str, int]) -> None:
    """Marks the nodes on these paths (each node and all its ancestors) active at the path's moment; never earlier."""
    latest: dict[int, int] = {}
    # Newest and deepest first: whoever is reached again later has all its ancestors up to date already.
    for path, at in sorted(moments.items(), key=lambda item: (item[1], len(item[0])), reverse=True):
        if path_end(path) not in latest:
            for node_id in path_ids(path):
                latest.setdefault(node_id, at)
    tx.executemany(
        "UPDATE node SET active_at = ? WHERE id = ? AND active_at < ?",
        [(at, node_id, at) for node_id, at in latest.items()],
    )


def move(tx: sqlite3.Connection, key: Key, parent: Key, at: int) -> None:
    """Hangs a node with all below it under another parent and rewrites the paths of the whole branch.

    :raises InvalidInput: the root cannot move; a node cannot hang below itself.
    """
    if key.parent_id is None:
        raise InvalidInput("id: the root of a namespace cannot be moved")
    if parent.path.startswith(key.path):
        raise InvalidInput(f"parent: {parent.uid} is {key.uid} itself or lies below it; that would make a loop")
    low, high = subtree_range(key.path)
    path = path_below(parent.path, key.id)
    tx.execute("UPDATE node SET parent_id = ? WHERE id = ?", (parent.id, key.id))
    faults.point("move.before_paths")
    tx.execute(
        "UPDATE node SET path = ? || substr(path, ?), depth = depth + ? WHERE path >= ? AND path < ?",
        (path, len(key.path) + 1, parent.depth + 1 - key.depth, low, high),
    )
    faults.point("move.after_paths")
    change(tx, key, at)


# Reading


def find(tx: sqlite3.Connection, namespace: int, uid: str) -> Key | None:
    if not isinstance(uid, str):
        raise InvalidInput(f"id: must be the text of an id, not {shown(uid)}")
    if any("\ud800" <= character <= "\udfff" for character in uid):  # SQLite cannot even compare half a character
        return None
    row = tx.execute(f"SELECT {_KEY_COLUMNS} FROM node WHERE namespace_id = ? AND uid = ?", (namespace, uid)).fetchone()
    found = Key(*row) if row else None
    return None if found and isinstance(namespace, Part) and not namespace.reaches(found.path, found.state) else found


def key(
    tx: sqlite3.Connection, namespace: int, uid: str, *, expected_version: int | None = None, field: str = "id"
) -> Key:
    """The key of a node; ``field`` is what the caller calls the id, for the message.

    :raises NotFound: there is no such node in this namespace. Conflict: it is not at ``expected_version``."""
    found = find(tx, namespace, uid)
    if found is None:
        raise NotFound(f"{field}: there is no node {shown(uid)} in this namespace")
    if expected_version is not None and found.version != expected_version:
        raise Conflict(
            f"{uid}: is at version {found.version}, not {expected_version}; read it again and repeat the change",
            expected=expected_version,
            actual=found.version,
        )
    return found


def by_id(tx: sqlite3.Connection, node_id: int) -> Key:
    return Key(*tx.execute(f"SELECT {_KEY_COLUMNS} FROM node WHERE id = ?", (node_id,)).fetchone())


def root(tx: sqlite3.Connection, namespace: int) -> Key:
    row = tx.execute(
        f"SELECT {_KEY_COLUMNS} FROM node WHERE namespace_id = ? AND parent_id IS NULL ORDER BY id LIMIT 1",
        (namespace,),
    ).fetchone()
    return Key(*row)


def repeat(
    tx: sqlite3.Connection, namespace: int, parent: Key, type: str, content: str, structured: bool
) -> Key | None:
    """The live node under ``parent`` with exactly this type and content, if there is one; of several the oldest."""
    same = sealing.content_keys(tx, namespace, content)
    row = tx.execute(
        f"""SELECT {_KEY_COLUMNS} FROM node WHERE parent_id = ? AND content_key IN ({", ".join("?" * len(same))})
            AND type IN ('fact', 'preference', 'decision') AND type = ? AND state = 'live'
            AND (SELECT structured FROM revision WHERE id = revision_id) = ? ORDER BY id LIMIT 1""",
        (parent.id, *same, type, structured),
    ).fetchone()
    return Key(*row) if row else None


def node(tx: sqlite3.Connection, key: Key) -> Node:
    """:raises StoreDamaged: its content is gone."""
    row = tx.execute(f"SELECT {NODE_COLUMNS} FROM {NODE_TABLES} WHERE n.id = ?", (key.id,)).fetchone()
    if row is None:
        raise StoreDamaged(f"{key.uid}: its content is not in the database; hybridmem doctor says what can be done")
    return to_node(row)


def nodes(tx: sqlite3.Connection, ids: Sequence[int]) -> dict[int, Node]:
    """Nodes by internal id; unknown ids are left out."""
    rows = tx.execute(
        f"SELECT n.id, {NODE_COLUMNS} FROM {NODE_TABLES} WHERE n.id IN (SELECT value FROM json_each(?))",
        (dump(list(ids)),),
    ).fetchall()
    return {row[0]: to_node(row[1:]) for row in rows}


def openings(tx: sqlite3.Connection, ids: Sequence[int], characters: int) -> dict[int, str]:
    """The first characters of the contents of nodes, by internal id."""
    rows = tx.execute(
        """SELECT n.id, substr(r.content, 1, ?) FROM node n JOIN revision r ON r.id = n.revision_id
        WHERE n.id IN (SELECT value FROM json_each(?))""",
        (characters, dump(list(ids))),
    ).fetchall()
    return dict(rows)


def metadata(tx: sqlite3.Connection, ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    """The metadata of nodes that have any, by internal id."""
    rows = tx.execute(
        """SELECT n.id, r.metadata FROM node n JOIN revision r ON r.id = n.revision_id
        WHERE n.id IN (SELECT value FROM json_each(?)) AND r.metadata != '{}'""",
        (dump(list(ids)),),
    ).fetchall()
    return {row[0]: json.loads(row[1]) for row in rows}


def not_live(tx: sqlite3.Connection, ids: Sequence[int]) -> dict[int, str]:
    """The state of those of these nodes that are not live, by internal id."""
    rows = tx.execute(
        "SELECT id, state FROM node WHERE id IN (SELECT value FROM json_each(?)) AND state != 'live'",
        (dump(list(ids)),),
    ).fetchall()
    return dict(rows)


def children(tx: sqlite3.Connection, key: Key, *, offset: int = 0, limit: int | None = None) -> list[Node]:
    """Direct children in insertion order."""
    rows = tx.execute(
        f"""SELECT {NODE_COLUMNS} FROM {NODE_TABLES} WHERE n.parent_id = ? AND n.state = 'live'
            ORDER BY n.id LIMIT ? OFFSET ?""",
        (key.id, -1 if limit is None else limit, offset),
    ).fetchall()
    return [to_node(row) for row in rows]


def newest_below(tx: sqlite3.Connection, key: Key, limit: int) -> list[int]:
    """The internal ids of the live children of a node that were added last, newest first."""
    rows = tx.execute(
        "SELECT id FROM node WHERE parent_id = ? AND state = 'live' ORDER BY id DESC LIMIT ?", (key.id, limit)
    ).fetchall()
    return [row[0] for row in rows]


def ancestors(tx: sqlite3.Connection, key: Key) -> list[Node]:
    """The chain root → parent; without what is missing in a damaged store."""
    ids = path_ids(key.path)[:-1]
    found = nodes(tx, ids)
    return [found[id_] for id_ in ids if id_ in found]


def walk(tx: sqlite3.Connection, key: Key, *, after: str = "", limit: int = 500) -> list[tuple[str, Node]]:
    """One page of the subtree in preorder (parents first, siblings in insertion order) with the path to go on from."""
    low, high = subtree_range(key.path)
    rows = tx.execute(
        f"""SELECT n.path, {NODE_COLUMNS} FROM {NODE_TABLES} WHERE n.path >= ? AND n.path > ? AND n.path < ?
            ORDER BY n.path LIMIT ?""",
        (low, after, high, limit),
    ).fetchall()
    return [(row[0], to_node(row[1:])) for row in rows]


#: What :func:`scan` yields for every node, in this order: all that locating and ranking need besides the vectors.
SCAN_COLUMNS = (
    "id, parent_id, depth, type, importance, confidence, uses, active_at, terms, path, revision_id, speaker, created_at"
)


def scan(
    tx: sqlite3.Connection,
    namespace: int,
    paths: Sequence[str] = (),
    ids: Sequence[int] = (),
    states: Sequence[State] = ("live",),
) -> list[tuple[Any, ...]]:
    """SCAN_COLUMNS of the nodes in any of these states that lie below any of these paths or have any of these ids,
    once each, by path. What is purged says nothing, and is left out."""
    # The plus keeps SQLite from reading the whole namespace by its index: paths and ids are the narrower way.
    within = f"+namespace_id = ? AND state IN ({', '.join('?' * len(states))})"
    if "forgotten" in states:
        within += f" AND content_key != '{PURGED_KEY}'"
    rows: dict[str, tuple[Any, ...]] = {}
    for path in paths:
        low, high = subtree_range(path)
        found = tx.execute(
            f"SELECT {SCAN_COLUMNS} FROM node WHERE path >= ? AND path < ? AND {within} ORDER BY path",
            (low, high, namespace, *states),
        ).fetchall()
        if len(paths) == 1 and not ids:
            return _voiced(tx, found)
        rows.update((row[9], row) for row in found)
    loose = tx.execute(
        f"SELECT {SCAN_COLUMNS} FROM node WHERE id IN (SELECT value FROM json_each(?)) AND {within}",
        (dump(list(ids)), namespace, *states),
    ).fetchall()
    rows.update((row[9], row) for row in loose)
    return _voiced(tx, [rows[path] for path in sorted(rows)])


def _voiced(tx: sqlite3.Connection, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows of SCAN_COLUMNS with the names of the speakers."""
    if ring(tx) is None:
        return rows
    names = sealing.voices(tx, [row[_SPEAKER] for row in rows])
    return [(*row[:_SPEAKER], name, *row[_SPEAKER + 1 :]) for row, name in zip(rows, names, strict=True)]


def keys(tx: sqlite3.Connection, ids: Sequence[int]) -> list[Key]:
    rows = tx.execute(
        f"SELECT {_KEY_COLUMNS} FROM node WHERE id IN (SELECT value FROM json_each(?))", (dump(list(ids)),)
    ).fetchall()
    return [Key(*row) for row in rows]


def child_keys(tx: sqlite3.Connection, key: Key) -> list[Key]:
    """Direct children in every state, in insertion order."""
    found = tx.execute(f"SELECT {_KEY_COLUMNS} FROM node WHERE parent_id = ? ORDER BY id", (key.id,)).fetchall()
    return [Key(*row) for row in found]


def parents(tx: sqlite3.Connection, ids: Sequence[int]) -> dict[int, Key]:
    """The parent of each of these nodes; the root has none."""
    above = {key.id: key.parent_id for key in keys(tx, ids) if key.parent_id is not None}
    found = {key.id: key for key in keys(tx, sorted(set(above.values())))}
    return {node_id: found[parent_id] for node_id, parent_id in above.items() if parent_id in found}


def titles(tx: sqlite3.Connection, ids: Sequence[int]) -> dict[int, tuple[str, ...]]:
    """For each node the titles of what encloses it, from the root's child down to its parent."""
    chains = {key.id: path_ids(key.path)[1:-1] for key in keys(tx, ids)}
    rows = tx.execute(
        """SELECT n.id, substr(r.content, 1, 200) FROM node n JOIN revision r ON r.id = n.revision_id
        WHERE n.id IN (SELECT value FROM json_each(?))""",
        (dump(sorted({one for chain in chains.values() for one in chain})),),
    ).fetchall()
    named = {row[0]: title(row[1]) for row in rows}
    return {node_id: tuple(named[one] for one in chain if one in named) for node_id, chain in chains.items()}


def title(content: str) -> str:
    """The first line that is not blank, cut at 120 characters: a content's name in a path."""
    line = next((line.strip() for line in content.splitlines() if line.strip()), content.strip())
    return line if len(line) <= 120 else line[: whole_end(line, 119) or 119] + MARK


def count_below(tx: sqlite3.Connection, path: str, limit: int) -> int:
    """Nodes at or below a path, counting no further than ``limit``."""
    low, high = subtree_range(path)
    row = tx.execute(
        "SELECT count(*) FROM (SELECT 1 FROM node WHERE path >= ? AND path < ? LIMIT ?)", (low, high, limit)
    ).fetchone()
    return int(row[0])


def pages(tx: sqlite3.Connection, key: Key) -> Iterator[Node]:
    after = ""  # in preorder, within one snapshot
    while page := walk(tx, key, after=after):
        after = page[-1][0]
        yield from (found for _, found in page)

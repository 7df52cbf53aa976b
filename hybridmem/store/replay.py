"""The tree rebuilt from the log: operations are applied to the state of another database, a backup or an empty one.

Operations say what they set, so that applying one is setting values; contents come from the revisions they name.
Everything is done in memory for some thousand operations at a time: the nodes they name and all that enclose those are
read at once and written at once, so that the cost follows the log and not the size of the tree.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hybridmem.errors import StoreDamaged
from hybridmem.store import branches, log, points, purged, sealing
from hybridmem.store.activity import settle
from hybridmem.store.paths import ids_on_paths, path_below
from hybridmem.store.rows import dump
from hybridmem.store.unsaid import Unsaid
from hybridmem.types import ROOT_TYPE

#: Operations that are applied at a time.
CHUNK = 5000
_OPERATION_COLUMNS = "id, namespace_id, sequence, kind, node_uid, agent, at, payload, payload_hash, hash"
_NODE_COLUMNS = (
    "id", "namespace_id", "uid", "parent_id", "path", "depth", "type", "revision_id", "importance", "confidence",
    "uses", "pinned", "state", "version", "agent", "created_at", "updated_at", "active_at", "replaced_by",
)  # fmt: skip
#: What an operation may set of its node under the same name.
_PLAIN = (
    "type", "importance", "confidence", "uses", "pinned", "state", "version", "agent", "created_at",
    "updated_at", "replaced_by",
)  # fmt: skip
_TASK = ("status", "next_step", "started_at", "finished_at")


@dataclass(frozen=True, slots=True)
class Replayed:
    """What :func:`replay` did: how many operations it applied, what the log of which namespace could not say, and the
    internal ids of the nodes that are new or have another content or metadata."""

    operations: int
    unsaid: Mapping[int, tuple[str, ...]]
    changed: frozenset[int]

    @property
    def problems(self) -> tuple[str, ...]:
        """What could not be said of any namespace."""
        return tuple(one for told in self.unsaid.values() for one in told)


def replay(source: sqlite3.Connection, tx: sqlite3.Connection, *, only: int | None = None) -> Replayed:
    """Applies what the log of ``source`` has beyond that of ``tx`` to the tree of ``tx``, log and revisions included.

    :param source: a reading transaction of the store with the longer log.
    :param tx: a writing transaction of another one: new, or a copy of an earlier state of the same store.
    :param only: the namespace to replay, into a new one; None: all of them.
    :raises StoreDamaged: ``tx`` is not an earlier state of ``source``.
    """
    _must_be_earlier(source, tx)
    tx.execute("PRAGMA defer_foreign_keys = ON")  # a node may have moved below one that was added after it
    sealing.adopt(source, tx, only=only)
    row = tx.execute("SELECT coalesce(max(id), 0) FROM operation").fetchone()
    last, count, changed, unsaid = int(row[0]), 0, set[int](), Unsaid(points.namespaces(source))
    while entries := _entries(source, last, only):
        changed |= _Chunk(source, tx, unsaid).apply(entries)
        tx.executemany(
            f"INSERT INTO main.operation ({_OPERATION_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", entries
        )
        last, count = entries[-1][0], count + len(entries)
    return Replayed(count, unsaid.problems(), frozenset(changed))


@dataclass(slots=True)
class _Node:
    """A node of the target; ``revision`` and ``task`` as they are to be. ``is_new``: it has no row yet."""

    id: int
    namespace_id: int
    uid: str
    parent_id: int | None
    path: str
    depth: int
    type: str
    revision_id: int
    importance: float
    confidence: float
    uses: int
    pinned: int
    state: str
    version: int
    agent: str
    created_at: int
    updated_at: int
    active_at: int
    replaced_by: str = ""
    task: dict[str, Any] = field(default_factory=dict)
    is_new: bool = False
    is_moved: bool = False
    is_revised: bool = False


class _Chunk:
    """Some operations, applied in memory and then written."""

    def __init__(self, source: sqlite3.Connection, tx: sqlite3.Connection, unsaid: Unsaid) -> None:
        self._source = source
        self._tx = tx
        self._unsaid = unsaid
        self._by_id: dict[int, _Node] = {}
        self._by_uid: dict[tuple[int, str], _Node] = {}
        self._active: dict[tuple[int, str], Sequence[str | None]] = {}
        self._touched: dict[int, int] = {}
        self._changed: dict[int, _Node] = {}
        #: Revision → the node it belongs to.
        self._revisions: dict[int, int] = {}
        #: Nodes that lose their content; and the entries that were blanked with them, of each namespace.
        self._purged: set[int] = set()
        self._blanked: dict[int, list[int]] = {}
        row = tx.execute("SELECT seq FROM sqlite_sequence WHERE name = 'node'").fetchone()
        self._last_id = int(row[0]) if row else 0

    def apply(self, entries: Sequence[tuple[Any, ...]]) -> set[int]:
        """Applies them; returns the nodes that are new or revised."""
        read = [
            (*entry[1:7], json.loads(sealing.opened_payload(self._source, entry[7], entry[2]))) for entry in entries
        ]
        self._load(read)
        for entry in read:
            self._apply(*entry)
        self._settle()
        self._write()
        return {node.id for node in self._changed.values() if node.is_new or node.is_revised}

    # Reading

    def _load(self, entries: Iterable[tuple[Any, ...]]) -> None:
        """Reads the nodes that are named, and what encloses them."""
        named: dict[int, set[str]] = {}
        for namespace, _, kind, uid, _, _, payload in entries:
            pointers = (one for pair in payload.get("active", {}).values() for one in pair)
            found = {uid, payload.get("was"), *pointers}
            for one, values in log.effects(kind, uid, payload):
                found |= {one, values.get("parent")}
            named.setdefault(namespace, set()).update(one for one in found if one is not None)
        ids: set[int] = set()
        for namespace, uids in named.items():
            rows = self._tx.execute(
                "SELECT path FROM node WHERE namespace_id = ? AND uid IN (SELECT value FROM json_each(?))",
                (namespace, dump(sorted(uids))),
            ).fetchall()
            ids |= ids_on_paths(row[0] for row in rows)
        rows = self._tx.execute(
            f"""SELECT {", ".join(_NODE_COLUMNS)}, {", ".join(_TASK)} FROM node LEFT JOIN task ON node_id = id
            WHERE id IN (SELECT value FROM json_each(?))""",
            (dump(sorted(ids)),),
        ).fetchall()
        for row in rows:
            values, task = row[: len(_NODE_COLUMNS)], row[len(_NODE_COLUMNS) :]
            node = _Node(*values)
            node.task = dict(zip(_TASK, task, strict=True)) if task[0] is not None else {}
            self._keep(node)

    def _keep(self, node: _Node) -> None:
        self._by_id[node.id] = node
        self._by_uid[node.namespace_id, node.uid] = node

    # Applying

    def _apply(
        self, namespace: int, sequence: int, kind: str, uid: str | None, agent: str, at: int, payload: dict[str, Any]
    ) -> None:
        self._unsaid.note(namespace, sequence, kind, agent, payload)
        self._active.update({(namespace, who): pair for who, pair in payload.get("active", {}).items()})
        if uid is not None:
            self._make(namespace, kind, uid, agent, at, payload)
        for one, values in log.effects(kind, uid, payload):
            node = self._by_uid.get((namespace, one))
            if node is None:
                self._unsaid.add(
                    namespace, f"operation {sequence} ({kind}) is about {one}, which no operation has made"
                )
                continue
            self._set(node, kind, at, values)
            if kind == log.PURGE:
                self._purge(node)
            elif kind == "move":
                self._touch(node.parent_id or node.id, at)
            elif kind not in log.QUIET:
                self._touch(node.id, log.moment(at, payload))

        if kind in (log.PURGE, log.RESEAL):
            self._blanked.setdefault(namespace, []).extend(int(entry) for entry in payload["blanked"])

    def _purge(self, node: _Node) -> None:
        """Its content is empty in the source already; what is here of it must not stay either."""
        node.is_revised = True
        self._purged.add(node.id)
        self._revisions.setdefault(node.revision_id, node.id)
        node.task.update(dict.fromkeys(node.task.keys() & {"next_step"}))

    def _make(self, namespace: int, kind: str, uid: str, agent: str, at: int, payload: dict[str, Any]) -> None:
        """What an operation makes or names before it sets anything."""
        if kind == "namespace":
            self._make_namespace(namespace, payload, at)
        if kind in ("namespace", "add"):
            self._add(namespace, uid, agent, at, payload)
        elif kind == "root" and (namespace, payload["was"]) in self._by_uid:
            self._by_uid[namespace, uid] = self._by_uid.pop((namespace, payload["was"]))
            self._by_uid[namespace, uid].uid = uid

    def _make_namespace(self, namespace: int, payload: dict[str, Any], at: int) -> None:
        """Entries of an earlier version did not say the name, which is a number's in the source then."""
        names = payload.get("namespace") or points.namespaces(self._source).get(namespace, ())
        self._tx.execute(
            "INSERT INTO namespace (id, key, created_at) VALUES (?, ?, ?)", (namespace, dump(list(names)), at)
        )

    def _add(self, namespace: int, uid: str, agent: str, at: int, payload: dict[str, Any]) -> None:
        self._last_id += 1
        created = at if payload.get("created_at") is None else payload["created_at"]
        self._keep(
            _Node(
                self._last_id, namespace, uid, None, "", 0, payload.get("type", ROOT_TYPE), payload["revision"],
                0.5, 1.0, 0, 0, "live", 1, agent, created, at, log.moment(at, payload), is_new=True,
            )
        )  # fmt: skip

    def _set(self, node: _Node, kind: str, at: int, values: dict[str, Any]) -> None:
        self._changed[node.id] = node
        # What was active below the old place tells its ancestors there; what is new encloses nothing yet.
        if kind != "add" and not values.keys().isdisjoint(("parent", "active_at")):
            self._settle()
        if kind not in log.KEEPS_VERSION:
            node.version += 1
            node.updated_at = max(node.updated_at, at)
        for name in _PLAIN:
            if values.get(name) is not None:
                setattr(node, name, values[name])
        if values.get("parent") is not None:
            self._hang(node, values["parent"])
        if values.get("active_at") is not None:
            node.active_at = values["active_at"]
        if values.get("revision") is not None:
            node.revision_id, node.is_revised = values["revision"], True
            self._revisions.setdefault(values["revision"], node.id)
        node.task.update({name: values[name] for name in _TASK if name in values})

    def _hang(self, node: _Node, parent: str) -> None:
        above = self._by_uid.get((node.namespace_id, parent))
        if above is None:
            self._unsaid.add(node.namespace_id, f"{node.uid} hangs under {parent}, which no operation has made")
        elif node.parent_id != above.id:
            node.parent_id, node.is_moved = above.id, not node.is_new

    def _touch(self, node_id: int, at: int) -> None:
        """Never back: what happens later may be told with an earlier time."""
        self._touched[node_id] = max(at, self._touched.get(node_id, at))

    def _settle(self) -> None:
        settle(self._touched, lambda node_id: self._by_id[node_id].parent_id, self._tell)

    def _tell(self, node_id: int, at: int) -> None:
        node = self._by_id[node_id]
        if node.active_at < at:
            node.active_at, self._changed[node_id] = at, node

    # Writing

    def _write(self) -> None:
        contents = self._copy_revisions()
        self._place()
        changed = list(self._changed.values())
        marks = ", ".join("?" * (len(_NODE_COLUMNS) + 1))
        self._tx.executemany(
            f"INSERT INTO node ({', '.join(_NODE_COLUMNS)}, content_key) VALUES ({marks})",
            [(*_values(node), contents.get(node.revision_id, "")) for node in changed if node.is_new],
        )
        self._tx.executemany(
            f"UPDATE node SET {', '.join(f'{name} = ?' for name in _NODE_COLUMNS)} WHERE id = ?",
            [(*_values(node), node.id) for node in changed if not node.is_new],
        )
        self._tx.executemany(
            "UPDATE node SET content_key = ? WHERE id = ?",
            [(contents[node.revision_id], node.id) for node in changed if node.is_revised and not node.is_new],
        )
        self._tx.executemany(
            f"INSERT OR REPLACE INTO main.task (node_id, {', '.join(_TASK)}, key_id) VALUES (?, ?, ?, ?, ?, ?)",
            [self._task(node) for node in changed if node.task],
        )
        branches.rehang(self._tx, [node.id for node in changed if node.is_moved])
        for namespace in {node.namespace_id for node in changed if node.is_new}:
            self._tx.execute(
                """UPDATE namespace SET nodes = (SELECT count(*) FROM node WHERE namespace_id = ?
                AND parent_id IS NOT NULL) WHERE id = ?""",
                (namespace, namespace),
            )
        for (namespace, agent), pair in self._active.items():
            keys = [self._by_uid.get((namespace, uid)) if uid is not None else None for uid in pair]
            points.set_active(self._tx, namespace, agent, *(key.id if key else None for key in keys))
        purged.blank_revisions(self._tx, self._purged)
        for namespace, sequences in self._blanked.items():
            purged.copy_entries(self._source, self._tx, namespace, sequences)

    def _task(self, node: _Node) -> tuple[Any, ...]:
        key = sealing.writing(self._tx, node.namespace_id)
        step, key_id = sealing.text(key, node.task.get("next_step"), node.id, "next_step")
        values = {**node.task, "next_step": step}
        return (node.id, *(values.get(name) for name in _TASK), key_id)

    def _place(self) -> None:
        """The paths of new nodes, from above; what has moved is placed by branches.rehang()."""
        for node in self._changed.values():
            if not node.is_new:
                continue
            chain = [node]
            while chain[-1].is_new and chain[-1].parent_id is not None and not self._by_id[chain[-1].parent_id].path:
                chain.append(self._by_id[chain[-1].parent_id])
            for one in reversed(chain):
                above = None if one.parent_id is None else self._by_id[one.parent_id]
                one.path = path_below(above.path if above else "/", one.id)
                one.depth = above.depth + 1 if above else 0

    def _copy_revisions(self) -> dict[int, str]:
        """Brings the revisions over; returns the content keys of all that are named."""
        wanted = dump(sorted(self._revisions))
        rows = self._source.execute(
            """SELECT id, version, content, structured, metadata FROM revision
            WHERE id IN (SELECT value FROM json_each(?))""",
            (wanted,),
        ).fetchall()
        contents: dict[int, str] = {}
        copies = []
        for revision, version, content, structured, metadata in rows:
            node_id = self._revisions[revision]
            key = sealing.writing(self._tx, self._by_id[node_id].namespace_id)
            said, more, key_id = sealing.revision(key, node_id, version, content, metadata)
            copies.append((revision, node_id, version, said, structured, more, key_id))
            contents[revision] = sealing.content_key(key, content)
        self._tx.executemany(
            """INSERT OR IGNORE INTO main.revision (id, node_id, version, content, structured, metadata, key_id)
            VALUES (?, ?, ?, ?, ?, ?, ?)""",
            copies,
        )
        for gone in sorted(self._revisions.keys() - {row[0] for row in rows}):
            node = self._by_id[self._revisions[gone]]
            self._unsaid.add(node.namespace_id, f"the content of {node.uid} (revision {gone}) is not there any more")
        return contents


def _entries(source: sqlite3.Connection, after: int, only: int | None) -> list[tuple[Any, ...]]:
    return source.execute(
        f"""SELECT {_OPERATION_COLUMNS} FROM main.operation WHERE id > ? AND (? IS NULL OR namespace_id = ?)
        ORDER BY id LIMIT {CHUNK}""",
        (after, only, only),
    ).fetchall()


def _must_be_earlier(source: sqlite3.Connection, tx: sqlite3.Connection) -> None:
    for namespace, names in points.namespaces(tx).items():
        last, known = log.head(tx, namespace)
        row = source.execute(
            "SELECT hash FROM operation WHERE namespace_id = ? AND sequence = ?", (namespace, last)
        ).fetchone()
        if row is None or row[0] != known:
            raise StoreDamaged(
                f"backup: is not an earlier state of this store: operation {last} of {'/'.join(names)} is another one"
            )


def _values(node: _Node) -> tuple[Any, ...]:
    return tuple(getattr(node, name) for name in _NODE_COLUMNS)

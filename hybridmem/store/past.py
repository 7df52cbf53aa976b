"""The nodes of a namespace as they were at a moment in the past, read off the present rows and the log.

What operations after the moment have set is set back to what those before it had set; what they made is not there. So
an operation must say in its payload what it sets, under the names of :data:`SET_BACK`. Contents come from revisions,
which are never changed.
"""

from __future__ import annotations

import bisect
import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hybridmem.speakers import speaker
from hybridmem.store import log, points, tree
from hybridmem.store.rows import Key, dump, from_micros, subtree_range
from hybridmem.text import terms
from hybridmem.types import TASK_TYPE, Node, State, Task

#: Names in payloads, and what a node has where no operation before the moment has set one.
SET_BACK: dict[str, Any] = {
    "type": "note", "importance": 0.5, "confidence": 0.5, "uses": 0, "pinned": 0, "state": "live", "parent": None,
    "revision": None, "status": "open", "next_step": None, "finished_at": None,
}  # fmt: skip
#: Operations that raise the version of their node.
_RAISING = frozenset({"update", "confirm", "pin", "move", "task.update", "task.finish", *log.STATE_CHANGES})
#: Operations that are no activity of their node.
_QUIET = frozenset({"move", "task.switch", "task.import", "root", *log.STATE_CHANGES})
#: What an operation sets without saying so.
_IMPLIED: dict[str, dict[str, Any]] = {"task.start": {"status": "open"}, "task.finish": {"next_step": None}}
_EXTRA_COLUMNS = "uid, pinned, state, version, updated_at"
#: A log entry: kind, node, time, what it sets.
_Entry = tuple[str, str, int, dict[str, Any]]


@dataclass(slots=True)
class _Row:
    """A node: tree.SCAN_COLUMNS, then _EXTRA_COLUMNS."""

    id: int
    parent_id: int | None
    depth: int
    type: str
    importance: float
    confidence: float
    uses: int
    active_at: int
    terms: int
    path: str
    revision_id: int
    speaker: str
    created_at: int
    uid: str
    pinned: int
    state: State
    version: int
    updated_at: int

    def scanned(self) -> tuple[Any, ...]:
        """As tree.scan() gives it."""
        return (
            self.id, self.parent_id, self.depth, self.type, self.importance, self.confidence, self.uses,
            self.active_at, self.terms, self.path, self.revision_id, self.speaker, self.created_at,
        )  # fmt: skip


class Past:
    """One namespace as it was at a moment, see :func:`at`. Like the functions of hybridmem.store.tree, its methods take
    internal ids and leave out those of nodes that were not there.

    ``rewritten`` holds the nodes whose content was another one than it is now: no vector of it is kept.
    """

    def __init__(
        self,
        rows: Sequence[_Row],
        revisions: Mapping[int, tuple[str, bool, dict[str, Any]]],
        rewritten: Iterable[int],
        tasks: Mapping[int, Mapping[str, Any]],
        active_task: str | None,
    ) -> None:
        self._ordered = sorted(rows, key=lambda row: row.path)
        self._paths = [row.path for row in self._ordered]
        self._by_id = {row.id: row for row in rows}
        self._by_uid = {row.uid: row for row in rows}
        self._revisions = revisions
        self._tasks = tasks
        self._active_task = active_task
        self._words = {one: Counter(terms(revisions[self._by_id[one].revision_id][0])) for one in rewritten}
        self.rewritten = frozenset(self._words)

    def find(self, uid: str) -> Key | None:
        """The key of a node; None: it was not there."""
        row = self._by_uid.get(uid)
        return None if row is None else _key(row)

    def active_task(self) -> Key | None:
        """The task that was active for the agent asked for."""
        return None if self._active_task is None else self.find(self._active_task)

    def next_steps(self, tx: sqlite3.Connection) -> dict[int, str]:
        """As hybridmem.store.points.next_steps() gives them."""
        tasks = self.nodes(tx, [row.id for row in self._ordered if row.type == TASK_TYPE and row.state == "live"])
        return {one: node.task.next_step for one, node in tasks.items() if node.task and node.task.next_step}

    def scan(self, path: str, states: Sequence[State]) -> list[tuple[Any, ...]]:
        """tree.SCAN_COLUMNS of the nodes at and below a path that were in any of these states, by path."""
        low, high = (bisect.bisect_left(self._paths, bound) for bound in subtree_range(path))
        return [row.scanned() for row in self._ordered[low:high] if row.state in states]

    def postings(self, found: Mapping[str, list[tuple[int, int]]], asked: Sequence[str]) -> dict[str, Any]:
        """Postings of today (lexical.postings) as those of then; ``asked`` are the terms that were looked up."""
        then = {term: [row for row in rows if row[0] not in self.rewritten] for term, rows in found.items()}
        for node_id, words in self._words.items():
            for term in asked:
                if words[term]:
                    then.setdefault(term, []).append((node_id, words[term]))
        return {term: sorted(then[term]) for term in asked if then.get(term)}

    def nodes(self, tx: sqlite3.Connection, ids: Sequence[int]) -> dict[int, Node]:
        found = tree.nodes(tx, [one for one in ids if one in self._by_id])
        return {node_id: self._node(self._by_id[node_id], node) for node_id, node in found.items()}

    def openings(self, tx: sqlite3.Connection, ids: Sequence[int], characters: int) -> dict[int, str]:
        return {one: node.content[:characters] for one, node in self.nodes(tx, ids).items()}

    def titles(self, tx: sqlite3.Connection, ids: Sequence[int]) -> dict[int, tuple[str, ...]]:
        chains = {one: tree.path_ids(self._by_id[one].path)[1:-1] for one in ids if one in self._by_id}
        named = self.nodes(tx, sorted({one for chain in chains.values() for one in chain}))
        return {one: tuple(tree.title(named[above].content) for above in chain) for one, chain in chains.items()}

    def metadata(self, tx: sqlite3.Connection, ids: Sequence[int]) -> dict[int, dict[str, Any]]:
        changed = {one: self._revisions.get(self._by_id[one].revision_id) for one in ids if one in self._by_id}
        now = tree.metadata(tx, [one for one, revision in changed.items() if revision is None])
        return now | {one: revision[2] for one, revision in changed.items() if revision is not None and revision[2]}

    def not_live(self, tx: sqlite3.Connection, ids: Sequence[int]) -> dict[int, str]:
        rows = (self._by_id[one] for one in ids if one in self._by_id)
        return {row.id: row.state for row in rows if row.state != "live"}

    def _node(self, row: _Row, now: Node) -> Node:
        content, structured, metadata = self._revisions.get(
            row.revision_id, (now.content, now.structured, now.metadata)
        )
        return replace(
            now,
            parent_id=None if row.parent_id is None else self._by_id[row.parent_id].uid,
            type=row.type,
            content=content,
            structured=structured,
            metadata=metadata,
            importance=row.importance,
            confidence=row.confidence,
            state=row.state,
            pinned=bool(row.pinned),
            uses=row.uses,
            version=row.version,
            depth=row.depth,
            updated_at=from_micros(row.updated_at),
            active_at=from_micros(row.active_at),
            task=None if now.task is None else _task(now.task, self._tasks.get(row.id, {})),
        )


def at(tx: sqlite3.Connection, namespace: int, moment: int, agent: str) -> Past:
    """A namespace as it was at a moment (microseconds since 1970 UTC), the moment included.

    That is the log up to the first entry that is later: order is by sequence, and nothing written after the moment may
    be seen, whatever a clock that went back has noted beside it. Costs one reading of the nodes' rows, and of what the
    log says of those that have changed since.

    :param agent: whose active task counts.
    """
    last = log.sequence_at(tx, namespace, moment)
    later = _entries(tx, "sequence > ?", namespace, last)
    rows = _rows(tx, namespace)
    stirred = _above(rows, later)
    for kind, uid, _, _ in later:
        if kind == "add":
            rows.pop(uid, None)
    changed = _changed(rows, later)
    before = _before(tx, namespace, last, changed)
    for uid, names in changed.items():
        _set_back(rows[uid], names, before.get(uid, {}), rows)
    if any("parent" in names for names in changed.values()):
        _hang(rows.values())
    stirred |= _above(rows, later) | {uid for uid, row in rows.items() if row.active_at > moment}
    _calm(rows, stirred & rows.keys(), _activity(tx, namespace, last, stirred))
    revisions, rewritten = _contents(tx, rows, [uid for uid, names in changed.items() if "revision" in names])
    tasks = {rows[uid].id: _task_values(names, before.get(uid, {})) for uid, names in changed.items()}
    active = points.active_task_at(tx, namespace, agent, last)
    return Past(list(rows.values()), revisions, rewritten, tasks, active)


def _rows(tx: sqlite3.Connection, namespace: int) -> dict[str, _Row]:
    found = tx.execute(
        f"SELECT {tree.SCAN_COLUMNS}, {_EXTRA_COLUMNS} FROM node WHERE namespace_id = ?", (namespace,)
    ).fetchall()
    return {row.uid: row for row in (_Row(*values) for values in found)}


def _entries(tx: sqlite3.Connection, condition: str, *values: Any) -> list[_Entry]:
    """(kind, node, time, what it sets) of log entries about a node, oldest first; of one about many nodes, for each."""
    found = tx.execute(
        f"""SELECT kind, node_uid, at, payload FROM operation
        WHERE namespace_id = ? AND {condition} AND node_uid IS NOT NULL ORDER BY sequence""",
        values,
    ).fetchall()
    entries: list[_Entry] = []
    for kind, uid, time, text in found:
        payload: dict[str, Any] = json.loads(text)
        if kind in log.STATE_CHANGES:
            entries += ((kind, one, time, {"state": after}) for one, _, after, _ in payload["states"])
        else:
            entries.append((kind, uid, time, _IMPLIED.get(kind, {}) | payload))
    return entries


def _above(rows: Mapping[str, _Row], later: Sequence[_Entry]) -> set[str]:
    """What was written, and all that encloses it: the nodes whose last activity may be after the moment."""
    uids = {row.id: uid for uid, row in rows.items()}
    written = {uid for kind, uid, _, _ in later if kind not in log.STATE_CHANGES}
    written |= {payload["parent"] for _, _, _, payload in later if "parent" in payload}
    above = {one for uid in written & rows.keys() for one in tree.path_ids(rows[uid].path)}
    return {uids[one] for one in above if one in uids}


def _changed(rows: Mapping[str, _Row], later: Sequence[_Entry]) -> dict[str, set[str]]:
    """Which of SET_BACK has been set of which node; their versions are counted back at once."""
    changed: dict[str, set[str]] = {}
    for kind, uid, _, payload in later:
        if uid in rows:
            changed.setdefault(uid, set()).update(payload.keys() & SET_BACK.keys())
            if kind in _RAISING:
                rows[uid].version -= 1
                changed[uid].add("updated_at")
    return changed


def _before(
    tx: sqlite3.Connection, namespace: int, last: int, changed: Mapping[str, set[str]]
) -> dict[str, dict[str, Any]]:
    """What the log up to entry ``last`` has set of these nodes, and ``updated_at``."""
    before: dict[str, dict[str, Any]] = {}
    # A change of states is noted under the node that was named, and may be about others as well.
    kinds = ", ".join(f"'{kind}'" for kind in log.STATE_CHANGES)
    condition = f"sequence <= ? AND (kind IN ({kinds}) OR node_uid IN (SELECT value FROM json_each(?)))"
    for kind, uid, time, payload in _entries(tx, condition, namespace, last, dump(sorted(changed))):
        if uid not in changed:
            continue
        values = before.setdefault(uid, {})
        values.update(payload)
        if kind == "add" or kind in _RAISING:
            values["updated_at"] = time
    return before


def _activity(tx: sqlite3.Connection, namespace: int, last: int, uids: Iterable[str]) -> dict[str, int]:
    """When these nodes themselves were last written or confirmed, up to entry ``last`` of the log."""
    activity: dict[str, int] = {}
    condition = "sequence <= ? AND (kind = 'move' OR node_uid IN (SELECT value FROM json_each(?)))"
    for kind, uid, time, payload in _entries(tx, condition, namespace, last, dump(sorted(uids))):
        # What happened before it was written was active then, and a move is activity of where it leads.
        moment = time if payload.get("created_at") is None else payload["created_at"]
        for active in [payload["parent"]] if kind == "move" else [] if kind in _QUIET else [uid]:
            activity[active] = max(moment, activity.get(active, moment))
    return activity


def _set_back(row: _Row, names: set[str], before: Mapping[str, Any], rows: Mapping[str, _Row]) -> None:
    values = {name: before.get(name, SET_BACK.get(name)) for name in names}
    for name in ("type", "importance", "confidence", "uses", "pinned", "state", "updated_at"):
        if values.get(name) is not None:
            setattr(row, name, values[name])
    if values.get("parent") is not None:
        row.parent_id = rows[values["parent"]].id
    if values.get("revision") is not None:
        row.revision_id = values["revision"]


def _hang(rows: Iterable[_Row]) -> None:
    """Paths and depths by the parents, after some have been set back."""
    below: dict[int | None, list[_Row]] = {}
    for row in rows:
        below.setdefault(row.parent_id, []).append(row)
    todo = list(below[None])
    while todo:
        above = todo.pop()
        for row in below.get(above.id, ()):
            row.path, row.depth = above.path + row.path[row.path.rfind("/", 0, -1) + 1 :], above.depth + 1
            todo.append(row)


def _calm(rows: Mapping[str, _Row], stirred: Iterable[str], activity: Mapping[str, int]) -> None:
    """The last activity at the moment: a node's own or that of what was below it; what had been moved away is not
    counted."""
    waiting = {rows[uid].id: rows[uid] for uid in stirred}
    for row in waiting.values():
        row.active_at = min(row.active_at, max(row.created_at, activity.get(row.uid, row.created_at)))
    by_id = {row.id: row for row in rows.values()}
    for row in sorted(rows.values(), key=lambda row: -row.depth):  # from below, so that it reaches the root
        if row.parent_id in waiting:
            above = by_id[row.parent_id]
            above.active_at = max(above.active_at, row.active_at)


def _contents(
    tx: sqlite3.Connection, rows: Mapping[str, _Row], revised: Sequence[str]
) -> tuple[dict[int, tuple[str, bool, dict[str, Any]]], list[int]]:
    """The revisions that were current then and are not now; and the nodes whose very content differs."""
    found = tx.execute(
        """SELECT r.node_id, r.id, r.content, r.structured, r.metadata, r.content != now.content
        FROM revision r JOIN node n ON n.id = r.node_id JOIN revision now ON now.id = n.revision_id
        WHERE r.id IN (SELECT value FROM json_each(?))""",
        (dump([rows[uid].revision_id for uid in revised]),),
    ).fetchall()
    revisions, rewritten = {}, []
    by_id = {rows[uid].id: rows[uid] for uid in revised}
    for node_id, revision, content, structured, metadata, differs in found:
        revisions[revision] = (content, bool(structured), json.loads(metadata))
        by_id[node_id].speaker = speaker(content, revisions[revision][2])
        if differs:
            rewritten.append(node_id)
            by_id[node_id].terms = len(terms(content))
    return revisions, rewritten


def _task_values(names: set[str], before: Mapping[str, Any]) -> dict[str, Any]:
    named = names & {"status", "next_step", "finished_at"}
    return {name: before.get(name, SET_BACK[name]) for name in named}


def _task(now: Task, then: Mapping[str, Any]) -> Task:
    values = dict(then)
    if values.get("finished_at") is not None:
        values["finished_at"] = from_micros(values["finished_at"])
    task = replace(now, **values)
    return task if task.status in ("done", "failed") else replace(task, finished_at=None)


def _key(row: _Row) -> Key:
    return Key(row.id, row.uid, row.parent_id, row.path, row.depth, row.type, row.version, row.state)

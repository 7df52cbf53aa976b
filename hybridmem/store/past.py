"""A namespace as it was at a moment in the past, to be read like the present one; hybridmem.store.rewind makes it."""

from __future__ import annotations

import bisect
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hybridmem.store import tree
from hybridmem.store.paths import path_ids
from hybridmem.store.rows import Key, from_micros, subtree_range
from hybridmem.text import terms
from hybridmem.types import TASK_TYPE, Node, State, Task

#: What a :class:`Row` has of a node after tree.SCAN_COLUMNS.
EXTRA_COLUMNS = "uid, pinned, state, version, updated_at, replaced_by"
LIVE: tuple[State, ...] = ("live",)


@dataclass(slots=True)
class Row:
    """A node: tree.SCAN_COLUMNS, then EXTRA_COLUMNS."""

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
    replaced_by: str

    def scanned(self) -> tuple[Any, ...]:
        """As tree.scan() gives it."""
        return (
            self.id, self.parent_id, self.depth, self.type, self.importance, self.confidence, self.uses,
            self.active_at, self.terms, self.path, self.revision_id, self.speaker, self.created_at,
        )  # fmt: skip


class Past:
    """One namespace as it was at a moment. Like the functions of hybridmem.store.tree, its methods take internal ids
    and leave out those of nodes that were not there.

    ``rewritten`` holds the nodes whose content was another one than it is now: no vector of it is kept. ``purged``
    holds those whose content is gone for good since: their rows are here, but no list or search has them.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        revisions: Mapping[int, tuple[str, bool, dict[str, Any]]],
        rewritten: Iterable[int],
        tasks: Mapping[int, Mapping[str, Any]],
        active_task: str | None,
        purged: frozenset[int] = frozenset(),
    ) -> None:
        self.purged = purged & {row.id for row in rows}
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

    def row(self, uid: str) -> Row | None:
        """The row of a node; None: it was not there."""
        return self._by_uid.get(uid)

    def held_back(self) -> tuple[str, ...]:
        """The public ids of those that were not forgotten then, and are purged now; in the order they were added."""
        rows = (self._by_id[one] for one in sorted(self.purged))
        return tuple(row.uid for row in rows if row.state != "forgotten")

    def above(self, row: Row) -> int | None:
        """The node that a row hung under; for one that is to be there, the nearest that is not purged since."""
        found = row.parent_id
        while row.state != "forgotten" and row.id not in self.purged and found in self.purged:
            found = self._by_id[found].parent_id
        return found

    def standing(self, uid: str | None, type: str | None = None) -> str | None:
        """The nearest node at or above one that is not purged since, and is of this type; None: there is none."""
        row = None if uid is None else self._by_uid.get(uid)
        while row is not None and (row.id in self.purged or type not in (None, row.type)):
            row = None if row.parent_id is None else self._by_id.get(row.parent_id)
        return None if row is None else row.uid

    def children(self, node_id: int) -> list[int]:
        """The live nodes right below one, in the order they were added."""
        return sorted(row.id for row in self._ordered if row.parent_id == node_id and self._shows(row, LIVE))

    def task_values(self, node_id: int) -> Mapping[str, Any]:
        """What a task had of status, next step and end, as far as that may be other than it is now; times in
        microseconds."""
        return self._tasks.get(node_id, {})

    def active_task(self) -> Key | None:
        """The task that was active for the agent asked for."""
        found = self.standing(self._active_task, TASK_TYPE)
        return None if found is None else self.find(found)

    def next_steps(self, tx: sqlite3.Connection) -> dict[int, str]:
        """As hybridmem.store.points.next_steps() gives them."""
        tasks = self.nodes(tx, [row.id for row in self._ordered if row.type == TASK_TYPE and self._shows(row, LIVE)])
        return {one: node.task.next_step for one, node in tasks.items() if node.task and node.task.next_step}

    def scan(self, path: str, states: Sequence[State]) -> list[tuple[Any, ...]]:
        """tree.SCAN_COLUMNS of the nodes at and below a path that were in any of these states, by path."""
        low, high = (bisect.bisect_left(self._paths, bound) for bound in subtree_range(path))
        return [row.scanned() for row in self._ordered[low:high] if self._shows(row, states)]

    def _shows(self, row: Row, states: Sequence[State]) -> bool:
        return row.state in states and row.id not in self.purged

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
        chains = {one: path_ids(self._by_id[one].path)[1:-1] for one in ids if one in self._by_id}
        named = self.nodes(tx, sorted({one for chain in chains.values() for one in chain}))
        return {
            one: tuple(tree.title(named[above].content) for above in chain if above in named)
            for one, chain in chains.items()
        }

    def metadata(self, tx: sqlite3.Connection, ids: Sequence[int]) -> dict[int, dict[str, Any]]:
        changed = {one: self._revisions.get(self._by_id[one].revision_id) for one in ids if one in self._by_id}
        now = tree.metadata(tx, [one for one, revision in changed.items() if revision is None])
        return now | {one: revision[2] for one, revision in changed.items() if revision is not None and revision[2]}

    def not_live(self, tx: sqlite3.Connection, ids: Sequence[int]) -> dict[int, str]:
        rows = (self._by_id[one] for one in ids if one in self._by_id)
        return {row.id: row.state for row in rows if row.state != "live"}

    def _node(self, row: Row, now: Node) -> Node:
        content, structured, metadata = self._revisions.get(
            row.revision_id, (now.content, now.structured, now.metadata)
        )
        above = None if row.parent_id is None else self._by_id.get(row.parent_id)  # put there by hand, it may be later
        return replace(
            now,
            parent_id=above.uid if above else None,
            type=row.type,
            content=content,
            structured=structured,
            metadata=metadata,
            importance=row.importance,
            confidence=row.confidence,
            state=row.state,
            replaced_by=row.replaced_by or None,
            pinned=bool(row.pinned),
            uses=row.uses,
            version=row.version,
            depth=row.depth,
            updated_at=from_micros(row.updated_at),
            active_at=from_micros(row.active_at),
            task=None if now.task is None else _task(now.task, self._tasks.get(row.id, {})),
        )


def _task(now: Task, then: Mapping[str, Any]) -> Task:
    values = dict(then)
    if values.get("finished_at") is not None:
        values["finished_at"] = from_micros(values["finished_at"])
    return replace(now, **values)


def _key(row: Row) -> Key:
    return Key(row.id, row.uid, row.parent_id, row.path, row.depth, row.type, row.version, row.state)

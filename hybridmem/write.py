"""Where memory is written: add, add_many, update, move, pin.

Every verb checks its input first and then does all of its work in one transaction: node, revision, lexical index,
outbox, activity of the ancestors, active pointers, log, and a checkpoint if one is due. When it returns, the memory is
durable and every read path finds it; when it raises, nothing happened. Embedding and indexing follow behind, from the
outbox.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hybridmem import faults, inputs, scoring
from hybridmem.errors import InvalidInput, NotFound, shown
from hybridmem.estimating import Estimating, chosen
from hybridmem.ports import ImportanceEstimator
from hybridmem.speakers import speaker
from hybridmem.store import lexical, outbox, points, tombstones, tree
from hybridmem.store.rows import Key, new_uid, to_micros
from hybridmem.store.workspace import Workspace
from hybridmem.text import terms
from hybridmem.types import MERGED_TYPES, ROOT_TYPE, TASK_TYPE, Node

#: What ``parent`` may name besides a node or an id.
PARENT_WORDS = ("task", "decision", "node", "root")
_PARENT = f"must be a node, an id, or one of {', '.join(PARENT_WORDS)}"

#: Words that stand for places and scopes, so that a node of that id could not be named.
RESERVED_IDS = frozenset({*PARENT_WORDS, "active", "auto", "namespace"})

Parent = Node | str | int


@dataclass(frozen=True, slots=True)
class Draft:
    """A checked node that is not stored yet. ``parent`` as an int is the position of an earlier item of the batch.
    ``estimate``: nobody has said how important it is, so that an estimator may."""

    content: str
    structured: bool
    type: str
    parent: Parent
    importance: float
    confidence: float
    metadata: dict[str, Any]
    created_at: int | None
    uid: str | None
    estimate: bool


_ITEM_KEYS = ("content", "type", "parent", "importance", "confidence", "metadata", "occurred_at", "id")


class Writer:
    """The write verbs of one workspace; see :class:`hybridmem.Memory` for what each promises."""

    def __init__(self, workspace: Workspace, estimator: ImportanceEstimator | None = None) -> None:
        self._workspace = workspace
        self._estimating = Estimating(workspace, chosen(workspace.config.weights, estimator))

    def add(self, content: Any, **given: Any) -> Node:
        draft = self.draft(content, **given)
        if isinstance(draft.parent, int):
            raise InvalidInput(f"parent: {_PARENT}, not {shown(draft.parent)}")
        drafts = self._estimating.filled([_plain(draft)], self.parent_key)
        with self._workspace.write() as tx:
            return self._store(tx, drafts)[0]

    def add_many(self, items: Iterable[Mapping[str, Any]]) -> list[Node]:
        drafts = [self._draft(position, item) for position, item in enumerate(inputs.batch("items", items))]
        if not drafts:
            return []
        drafts = self._estimating.filled(drafts, self.parent_key)
        with self._workspace.write() as tx:
            return self._store(tx, drafts)

    def update(
        self,
        id: str,
        *,
        content: Any = None,
        type: str | None = None,
        importance: float | None = None,
        confidence: float | None = None,
        metadata: Mapping[str, Any] | None = None,
        expected_version: int | None = None,
    ) -> Node:
        if content is None and type is None and importance is None and confidence is None and metadata is None:
            raise InvalidInput("update: nothing to change; give content, type, importance, confidence or metadata")
        columns: dict[str, Any] = {}
        if importance is not None:
            columns["importance"] = inputs.unit("importance", importance)
        if confidence is not None:
            columns["confidence"] = inputs.unit("confidence", confidence)
        if type is not None:
            columns["type"] = plain_type(type)
        text = inputs.content(content) if content is not None else None
        changes = inputs.metadata(metadata)
        with self._workspace.write() as tx:
            key = self.key(tx, id, expected_version)
            if key.type == ROOT_TYPE:
                raise InvalidInput("id: the root of a namespace cannot be updated")
            if type is not None and key.type == TASK_TYPE:
                raise InvalidInput("type: a task stays a task; finish it or move its children instead")
            payload: dict[str, Any] = dict(columns)
            if text is not None or metadata is not None:
                payload["revision"] = self.revise(tx, key, text, changes)
            self.changed(tx, key, "update", payload, **columns)
            return tree.node(tx, key)

    def move(self, id: str, parent: Parent, *, expected_version: int | None = None) -> Node:
        with self._workspace.write() as tx:
            key = self.key(tx, id, expected_version)
            target = self.parent_key(tx, parent)
            for above in tree.parents(tx, [key.id]).values():
                self._workspace.reachable(above, "move")
            tree.move(tx, key, target, self._workspace.now())
            tree.touch(tx, {target.path: self._workspace.now()})
            self._workspace.record(tx, "move", key.uid, {"version": key.version + 1, "parent": target.uid})
            self._workspace.checkpoint_if_due(tx)
            return tree.node(tx, key)

    def pin(self, id: str, pinned: bool) -> Node:
        checked = inputs.flag("pinned", pinned)
        with self._workspace.write() as tx:
            key = self.key(tx, id)
            self.changed(tx, key, "pin", {"pinned": checked}, pinned=int(checked))
            return tree.node(tx, key)

    # Shared with the task verbs

    def draft(
        self,
        content: Any,
        *,
        type: str = "note",
        parent: Parent = "task",
        importance: float | None = None,
        confidence: float | None = None,
        metadata: Mapping[str, Any] | None = None,
        occurred_at: Any = None,
        id: str | None = None,
    ) -> Draft:
        """Checks what a caller gave and fills in the defaults of the configuration."""
        weights = self._workspace.config.weights
        text, structured = inputs.content(content)
        kind = inputs.node_type(type)
        estimate = importance is None
        if importance is None:
            importance = weights.default_importance.get(kind, weights.other_importance)
        if confidence is None:
            confidence = weights.default_confidence
        return Draft(
            content=text,
            structured=structured,
            type=kind,
            parent=parent,
            importance=inputs.unit("importance", importance),
            confidence=inputs.unit("confidence", confidence),
            metadata=inputs.metadata(metadata),
            created_at=None if occurred_at is None else to_micros(inputs.moment("occurred_at", occurred_at)),
            uid=None if id is None else inputs.name("id", id),
            estimate=estimate,
        )

    def insert(
        self,
        tx: sqlite3.Connection,
        draft: Draft,
        parent: Key,
        *,
        activate: bool = False,
        history: Mapping[str, Any] | None = None,
        **extra: Any,
    ) -> Key:
        """Stores one node with everything that belongs to it but the activity of its ancestors.

        :param activate: make it the active node of this agent.
        :param history: what an imported node brings along of its past, see tree.set_history().
        """
        workspace = self._workspace
        uid = draft.uid or new_uid()
        if draft.uid is not None and tree.find(tx, workspace.id, uid) is not None:
            raise InvalidInput(f"id: there is already a node {uid!r} in this namespace")
        tombstones.refuse(tx, workspace.id, workspace.namespace, draft.uid)
        found = terms(draft.content)
        key, revision = tree.insert(
            tx,
            workspace.id,
            parent,
            uid=uid,
            type=draft.type,
            content=draft.content,
            structured=draft.structured,
            metadata=draft.metadata,
            importance=draft.importance,
            confidence=draft.confidence,
            agent=workspace.agent,
            terms=len(found),
            speaker=speaker(draft.content, draft.metadata),
            at=workspace.now(),
            created_at=draft.created_at,
            **extra,
        )
        faults.point("node.after_row")
        lexical.index(tx, workspace.id, key.id, found)
        faults.point("node.after_lexical")
        outbox.queue(tx, workspace.id, key.id)
        faults.point("node.after_outbox")
        payload = {
            "version": 1,
            "revision": revision,
            "parent": parent.uid,
            "type": draft.type,
            "importance": draft.importance,
            "confidence": draft.confidence,
            "created_at": workspace.now() if draft.created_at is None else draft.created_at,
            **extra,
        }
        if history is not None:
            tree.set_history(tx, key, **history)
            payload |= history
        if activate:
            payload["active"] = self._point_at(tx, key)
        workspace.record(tx, "add", key.uid, payload)
        return key

    def changed(self, tx: sqlite3.Connection, key: Key, kind: str, payload: dict[str, Any], **columns: Any) -> None:
        """Sets columns of a node and does what follows every change: version, activity, log, checkpoint.

        :param payload: what the log says of it; an ``active_at`` in it is when the node was active, else that is now.
        """
        now = self._workspace.now()
        tree.change(tx, key, now, **columns)
        tree.touch(tx, {key.path: payload.get("active_at", now)})
        self._workspace.record(tx, kind, key.uid, {"version": key.version + 1, **payload})
        self._workspace.checkpoint_if_due(tx)

    def key(self, tx: sqlite3.Connection, id: str, expected_version: int | None = None) -> Key:
        """:raises NotFound: there is none here. Conflict: it is at another version. InvalidInput: it is forgotten."""
        version = None if expected_version is None else inputs.count("expected_version", expected_version)
        key = tree.key(tx, self._workspace.id, id, expected_version=version)
        return refuse_forgotten("id", key)

    def parent_key(self, tx: sqlite3.Connection, parent: Parent) -> Key:
        """The node that a ``parent`` argument means.

        :raises NotFound: an id that does not exist here.
        :raises InvalidInput: neither a node, an id, nor one of PARENT_WORDS; or the node is forgotten.
        """
        return refuse_forgotten("parent", self._meant(tx, parent))

    def _meant(self, tx: sqlite3.Connection, parent: Parent) -> Key:
        namespace = self._workspace.id
        if isinstance(parent, Node):
            return tree.key(tx, namespace, parent.id)
        if not isinstance(parent, str):
            raise InvalidInput(f"parent: {_PARENT}, not {shown(parent)}")
        if parent not in PARENT_WORDS:
            return self._named(tx, parent)
        root = self._workspace.root(tx)
        task_id, node_id = points.active(tx, namespace, self._workspace.agent)
        task = tree.by_id(tx, task_id) if task_id else root
        if parent == "root":
            return root
        if parent == "task":
            return task
        if parent == "node":
            return tree.by_id(tx, node_id) if node_id else task
        decisions = points.below(tx, namespace, task, "decision", limit=1)
        return tree.key(tx, namespace, decisions[0].id) if decisions else task

    def _named(self, tx: sqlite3.Connection, parent: str) -> Key:
        found = tree.find(tx, self._workspace.id, parent)
        if found is None:
            words = ", ".join(PARENT_WORDS)
            raise NotFound(f"parent: there is no node {shown(parent)} in this namespace; accepted are ids, and {words}")
        return found

    def confirm(self, tx: sqlite3.Connection, key: Key, occurred_at: int | None = None) -> None:
        """An exact repeat: the existing node is used once more and half of the doubt about it goes. When it happened is
        in the log, since the node was active then, and keeps its own time."""
        node = tree.node(tx, key)
        columns = {"confidence": scoring.confirmed(node.confidence), "uses": min(node.uses + 1, inputs.MAX_COUNT)}
        tree.change(tx, key, self._workspace.now(), **columns)
        payload = {"version": key.version + 1, **columns, "active": self._point_at(tx, key)}
        if occurred_at is not None:
            payload["occurred_at"] = occurred_at
        self._workspace.record(tx, "confirm", key.uid, payload)

    def rename(self, tx: sqlite3.Connection, key: Key, content: str) -> int:
        return self.revise(tx, key, inputs.content(content), {})

    def _draft(self, position: int, item: Mapping[str, Any]) -> Draft:
        if not isinstance(item, Mapping) or "content" not in item:
            raise InvalidInput(f"item {position}: must be a mapping with at least 'content', not {shown(item)}")
        unknown = [key for key in item if key not in _ITEM_KEYS]
        if unknown:
            raise InvalidInput(f"item {position}: unknown key {unknown[0]!r}; accepted are {', '.join(_ITEM_KEYS)}")
        parent = item.get("parent", "task")
        if isinstance(parent, int) and (isinstance(parent, bool) or not 0 <= parent < position):
            raise InvalidInput(f"item {position}: parent {parent} must be the position of an earlier item")
        try:
            return _plain(self.draft(**item))
        except InvalidInput as error:
            raise InvalidInput(f"item {position}: {error}") from error

    def _store(self, tx: sqlite3.Connection, drafts: Sequence[Draft]) -> list[Node]:
        keys: list[Key] = []
        made: list[bool] = []
        moments: dict[str, int] = {}
        for position, draft in enumerate(drafts):
            try:
                key, same = self._store_one(tx, draft, keys)
            except (InvalidInput, NotFound) as error:
                raise type(error)(f"item {position}: {error}" if len(drafts) > 1 else str(error)) from error
            keys.append(key)
            made.append(not same)
            # What happened in the past was active then: recency must not take an import for news.
            at = self._workspace.now() if draft.created_at is None else draft.created_at
            moments[keys[-1].path] = max(at, moments.get(keys[-1].path, at))
        tree.touch(tx, moments)
        self._workspace.checkpoint_if_due(tx)
        found = tree.nodes(tx, [key.id for key in keys])
        return [replace(found[key.id], created=new) for key, new in zip(keys, made, strict=True)]

    def _store_one(self, tx: sqlite3.Connection, draft: Draft, keys: Sequence[Key]) -> tuple[Key, bool]:
        """The key of the stored node, and whether it was there already and is only confirmed."""
        parent = keys[draft.parent] if isinstance(draft.parent, int) else self.parent_key(tx, draft.parent)
        if draft.type in MERGED_TYPES and draft.uid is None:
            same = tree.repeat(tx, self._workspace.id, parent, draft.type, draft.content, draft.structured)
            if same is not None:
                self.confirm(tx, same, draft.created_at)
                return same, True
        return self.insert(tx, draft, parent, activate=True), False

    def _point_at(self, tx: sqlite3.Connection, key: Key) -> dict[str, list[str | None]]:
        """Makes a node the active one, under the task that is active already; returns what the log is to say of it."""
        task_id, _ = points.active(tx, self._workspace.id, self._workspace.agent)
        return self._workspace.point(tx, tree.by_id(tx, task_id) if task_id else None, key)

    def revise(self, tx: sqlite3.Connection, key: Key, text: tuple[str, bool] | None, changes: dict[str, Any]) -> int:
        """A new revision with the given content and the merged metadata; whatever is not given stays."""
        node = tree.node(tx, key)
        content, structured = text if text is not None else (node.content, node.structured)
        metadata = merged(node.metadata, changes)
        found = terms(content)
        revision = tree.revise(
            tx,
            key,
            content=content,
            structured=structured,
            metadata=metadata,
            terms=len(found),
            speaker=speaker(content, metadata),
        )
        faults.point("revise.after_revision")
        if content == node.content:
            outbox.keep_embedding(tx, key.id, revision)
        else:
            # The old content must not be found any more, from this moment on.
            lexical.index(tx, self._workspace.id, key.id, found)
            outbox.drop_embedding(tx, key.id)
            outbox.queue(tx, self._workspace.id, key.id)
        return revision


def merged(metadata: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata with changes: a value of None takes its name away, if it is among the changes."""
    return {name: value for name, value in {**metadata, **changes}.items() if value is not None or name not in changes}


def refuse_forgotten(field: str, key: Key) -> Key:
    """The key itself. :raises InvalidInput: the node is forgotten: nobody would find what is written to it or there."""
    if key.state == "forgotten":
        raise InvalidInput(f"{field}: {key.uid!r} is forgotten; call restore_forgotten({key.uid!r}) first")
    return key


def _plain(draft: Draft) -> Draft:
    """A draft that add and add_many accept."""
    plain_type(draft.type)
    if draft.uid in RESERVED_IDS:
        raise InvalidInput(f"id: {draft.uid!r} means something else where ids are given; choose another")
    return draft


def plain_type(value: Any) -> str:
    """A type that add and update accept: tasks have verbs of their own, and a root is made with its namespace."""
    found = inputs.node_type(value)
    if found == TASK_TYPE:
        raise InvalidInput("type: tasks are made with start_task()")
    if found == ROOT_TYPE:
        raise InvalidInput("type: 'root' is made with its namespace")
    return found

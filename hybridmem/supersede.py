"""Where a memory is superseded: the new one is written beside it, and the old one leaves every search, but not history.

The old one stays as it was said, in the state ``superseded`` and with ``replaced_by``, so that what was believed when
can always be told; :meth:`hybridmem.Memory.update` writes over a content that was wrong from the start. What hangs
below moves to the new one: its path would else go on telling what does not hold any more.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hybridmem import inputs
from hybridmem.errors import InvalidInput
from hybridmem.store import grants, outbox, points, tree
from hybridmem.store.rows import Key
from hybridmem.store.workspace import Workspace
from hybridmem.types import MERGED_TYPES, ROOT_TYPE, TASK_TYPE, Node
from hybridmem.write import Draft, Writer, merged, plain_type


class Superseding:
    """The supersede of one workspace; see :meth:`hybridmem.Memory.supersede` for what it promises."""

    def __init__(self, workspace: Workspace, writer: Writer) -> None:
        self._workspace = workspace
        self._writer = writer

    def supersede(
        self,
        id: str,
        content: Any,
        *,
        type: str | None = None,
        importance: float | None = None,
        confidence: float | None = None,
        metadata: Mapping[str, Any] | None = None,
        expected_version: int | None = None,
    ) -> Node:
        kind = None if type is None else plain_type(type)
        changes = inputs.metadata(metadata)
        with self._workspace.write() as tx:
            key = _refuse_odd(self._writer.key(tx, id, expected_version), tx)
            old = tree.node(tx, key)
            draft = self._writer.draft(
                content,
                type=kind or old.type,
                importance=old.importance if importance is None else importance,
                confidence=confidence,
                metadata=merged(old.metadata, changes),
            )
            if (draft.content, draft.structured) == (old.content, old.structured):
                raise InvalidInput(
                    f"content: is what {key.uid!r} says already; use update() for the rest of it, or "
                    "feedback(confirmed=True) if it holds still"
                )
            new, created = self._stored(tx, draft, key, pinned=old.pinned)
            self._move_children(tx, key, new)
            self._retire(tx, key, new)
            if created:  # what was there before is not to be shared by being found again
                grants.follow(tx, key.id, new.id)
            tree.touch(tx, {new.path: self._workspace.now()})
            self._workspace.checkpoint_if_due(tx)
            found = tree.nodes(tx, [new.id])[new.id]
        return replace(found, created=created)

    def _stored(self, tx: sqlite3.Connection, draft: Draft, old: Key, *, pinned: bool) -> tuple[Key, bool]:
        """The new memory under the parent of the old one, and whether it was not there before. A pin goes along."""
        assert old.parent_id is not None
        parent = self._workspace.reachable(tree.by_id(tx, old.parent_id), "supersede")
        same = None
        if draft.type in MERGED_TYPES:
            same = tree.repeat(tx, self._workspace.id, parent, draft.type, draft.content, draft.structured)
        if same is None:
            extra: dict[str, Any] = {"pinned": True} if pinned else {}
            return self._writer.insert(tx, draft, parent, activate=True, **extra), True
        self._writer.confirm(tx, same)
        if pinned and not tree.node(tx, same).pinned:
            self._writer.changed(tx, tree.by_id(tx, same.id), "pin", {"pinned": True}, pinned=1)
        return same, False

    def _move_children(self, tx: sqlite3.Connection, old: Key, new: Key) -> None:
        """All of them, in every state, so that the old one is a leaf that may be forgotten one day."""
        now = self._workspace.now()
        for child in tree.child_keys(tx, old):
            tree.move(tx, child, new, now)
            self._workspace.record(tx, "move", child.uid, {"version": child.version + 1, "parent": new.uid})

    def _retire(self, tx: sqlite3.Connection, old: Key, new: Key) -> None:
        workspace = self._workspace
        columns = {"state": "superseded", "replaced_by": new.uid, "pinned": 0}
        tree.change(tx, old, workspace.now(), **columns)
        outbox.queue(tx, workspace.id, old.id)
        active: dict[str, list[str | None]] = {}
        for agent, task_uid, node_uid in points.agents(tx, workspace.id):
            if node_uid == old.uid:
                task = None if task_uid is None else tree.find(tx, workspace.id, task_uid)
                active |= workspace.point(tx, task, new, agent=agent)
        payload: dict[str, Any] = {"version": old.version + 1, **columns}
        workspace.record(tx, "supersede", old.uid, payload | ({"active": active} if active else {}))


def _refuse_odd(key: Key, tx: sqlite3.Connection) -> Key:
    """The key itself. :raises InvalidInput: it is of a node that nothing can stand for, or that says nothing now."""
    if key.type == ROOT_TYPE:
        raise InvalidInput("id: the root of a namespace cannot be superseded")
    if key.type == TASK_TYPE:
        raise InvalidInput(
            f"id: {key.uid!r} is a task, which cannot be superseded; give it another title with "
            "update_task(title=…), or finish it and start another"
        )
    if key.state == "superseded":
        by = tree.node(tx, key).replaced_by
        raise InvalidInput(f"id: {key.uid!r} is superseded already, by {by!r}; supersede that one")
    if key.state == "archived":
        raise InvalidInput(f"id: {key.uid!r} is archived; call unarchive({key.uid!r}) first")
    return key

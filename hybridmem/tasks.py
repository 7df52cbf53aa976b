"""Where tasks are started, switched, updated and finished: the task tree and the active pointer.

Every change of the active task writes a checkpoint in the same transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from hybridmem import inputs
from hybridmem.claims import Claims
from hybridmem.errors import InvalidInput
from hybridmem.store import claims, points, tree
from hybridmem.store.paths import path_ids
from hybridmem.store.rows import Key
from hybridmem.store.workspace import Workspace
from hybridmem.text import clean_text
from hybridmem.types import TASK_TYPE, Node
from hybridmem.write import Parent, Writer


class Tasks:
    """The task verbs of one workspace; see :class:`hybridmem.Memory` for what each promises."""

    def __init__(self, workspace: Workspace, writer: Writer, claims: Claims) -> None:
        self._workspace = workspace
        self._claims = claims
        self._writer = writer

    def start(
        self,
        title: str,
        *,
        next_step: str | None = None,
        parent: Parent | None = None,
        importance: float | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Node:
        draft = self._writer.draft(clean_text("title", title), type=TASK_TYPE, importance=importance, metadata=metadata)
        step = inputs.optional_text("next_step", next_step)
        with self._workspace.write() as tx:
            place = "root" if parent is None else ("task" if parent == "active" else parent)
            key = self._writer.insert(tx, draft, self._writer.parent_key(tx, place))
            now = self._workspace.now()
            points.set_task(tx, key, status="open", next_step=step, started_at=now, finished_at=None)
            payload = {
                "version": key.version, "status": "open", "next_step": step, "started_at": now, "finished_at": None,
                "active": self._workspace.point(tx, key, key),
            }  # fmt: skip
            self._log(tx, "task.start", key, payload)
            tree.touch(tx, {key.path: now})
            return tree.node(tx, key)

    def switch(self, id: str) -> Node:
        with self._workspace.write() as tx:
            key = self._claims.task_key(tx, id)
            status, step, started, finished = self._task(tx, key)
            if status in ("done", "failed"):
                raise InvalidInput(f"id: the task {key.uid!r} is {status}; set status='open' with update_task() first")
            points.set_task(tx, key, status="open", next_step=step, started_at=started, finished_at=finished)
            active = self._workspace.point(tx, key, key)
            self._log(tx, "task.switch", key, {"version": key.version, "status": "open", "active": active})
            return tree.node(tx, key)

    def update(
        self,
        id: str | None,
        *,
        title: str | None = None,
        next_step: str | None = None,
        status: str | None = None,
        token: int | None = None,
    ) -> Node:
        if title is None and next_step is None and status is None:
            raise InvalidInput("update_task: nothing to change; give title, next_step or status")
        if status is not None:
            inputs.one_of("status", status, ("open", "paused"))
        text = clean_text("title", title) if title is not None else None
        step = inputs.optional_text("next_step", next_step)
        with self._workspace.write() as tx:
            key = self._claims.task_key(tx, id)
            self._claims.must_be_free(tx, key, token)
            old_status, old_step, started, finished = self._task(tx, key)
            values = {"status": status or old_status, "next_step": old_step if next_step is None else step}
            # Opening a finished task again takes its end away.
            ended = None if status is not None else finished
            points.set_task(tx, key, **values, started_at=started, finished_at=ended)  # type: ignore[arg-type]
            payload: dict[str, Any] = {**values, "finished_at": ended}
            if text is not None:
                payload["revision"] = self._writer.rename(tx, key, text)
            self._writer.changed(tx, key, "task.update", payload)
            return tree.node(tx, key)

    def finish(
        self, id: str | None, *, status: str = "done", outcome: str | None = None, token: int | None = None
    ) -> Node:
        inputs.one_of("status", status, ("done", "failed"))
        draft = None if outcome is None else self._writer.draft(clean_text("outcome", outcome), type="event")
        with self._workspace.write() as tx:
            key = self._claims.task_key(tx, id)
            self._claims.must_be_free(tx, key, token)
            old_status, step, started, _ = self._task(tx, key)
            if old_status in ("done", "failed"):
                raise InvalidInput(f"id: the task {key.uid!r} is already {old_status}")
            now = self._workspace.now()
            if draft is not None:
                self._writer.insert(tx, draft, key)
            points.set_task(tx, key, status=status, next_step=None, started_at=started, finished_at=now)
            claims.drop(tx, key.id)
            tree.change(tx, key, now)
            task_id, _ = points.active(tx, self._workspace.id, self._workspace.agent)
            payload: dict[str, Any] = {
                "version": key.version + 1, "status": status, "next_step": None, "finished_at": now, "last_step": step,
            }  # fmt: skip
            if task_id == key.id:
                payload["active"] = self._workspace.point(tx, self._next(tx, key), key)
            self._log(tx, "task.finish", key, payload)
            tree.touch(tx, {key.path: now})
            return tree.node(tx, key)

    def list(self, status: Sequence[str]) -> list[Node]:
        known = ("open", "paused", "done", "failed")
        wanted = {inputs.one_of("status", one, known) for one in inputs.listed("status", status)}
        with self._workspace.read() as tx:
            found = points.below(tx, self._workspace.id, self._workspace.root(tx), "task")
        return [node for node in reversed(found) if node.task and node.task.status in wanted]

    def active(self) -> Node | None:
        with self._workspace.read() as tx:
            task_id, _ = points.active(tx, self._workspace.id, self._workspace.agent)
            return tree.node(tx, tree.by_id(tx, task_id)) if task_id else None

    def _next(self, tx: sqlite3.Connection, key: Key) -> Key | None:
        """The nearest ancestor task that is still open."""
        for node_id in reversed(path_ids(key.path)[:-1]):
            found = tree.by_id(tx, node_id)
            task = points.task(tx, found)
            if task is not None and task[0] == "open":
                return found
        return None

    def _log(self, tx: sqlite3.Connection, kind: str, key: Key, payload: dict[str, Any]) -> None:
        self._workspace.record(tx, kind, key.uid, payload)
        self._workspace.checkpoint(tx, kind)

    def _task(self, tx: sqlite3.Connection, key: Key) -> tuple[str, str | None, int, int | None]:
        found = points.task(tx, key)
        assert found is not None  # every node of this type has one
        return found

"""Where an agent finds its way back: checkpoints, the log, and resume.

Every acknowledged write is already durable when the process dies, so recovery is reading: the active pointers, the
task's next step, the decisions, and what happened since the last checkpoint.
"""

from __future__ import annotations

import sqlite3
from typing import Literal

from hybridmem import inputs
from hybridmem.claims import Claims
from hybridmem.store import log, points, tree
from hybridmem.store.processes import is_running
from hybridmem.store.rows import Key
from hybridmem.store.workspace import Workspace
from hybridmem.types import Checkpoint, Node, Operation, ResumePoint

#: How many of the newest decisions and open sub-tasks resume() tells of.
SHOWN = 10


class Recovery:
    """The recovery verbs of one workspace; see :class:`hybridmem.Memory` for what each promises."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def checkpoint(self, label: str | None) -> Checkpoint:
        checked = None if label is None else inputs.name("label", label)
        with self._workspace.write() as tx:
            self._workspace.checkpoint(tx, "named" if checked else "asked", checked)
            return points.checkpoints(tx, self._workspace.id, limit=1)[0]

    def checkpoints(self) -> list[Checkpoint]:
        with self._workspace.read() as tx:
            return points.checkpoints(tx, self._workspace.id)

    def operations(self, since: int) -> list[Operation]:
        sequence = inputs.count("since", since)
        with self._workspace.read() as tx:
            return log.since(tx, self._workspace.id, sequence)

    def resume(self) -> ResumePoint:
        workspace = self._workspace
        with workspace.read() as tx:
            task_id, node_id = points.active(tx, workspace.id, workspace.agent)
            task = tree.by_id(tx, task_id) if task_id else None
            node = tree.by_id(tx, node_id) if node_id else None
            active_task = tree.node(tx, task) if task else None
            active_node = tree.node(tx, node) if node else None
            newest = points.checkpoints(tx, workspace.id, limit=1)
            return ResumePoint(
                active_task=active_task,
                active_node=active_node,
                path=self._path(tx, task, node),
                next_step=active_task.task.next_step if active_task and active_task.task else None,
                decisions=self._below(tx, task, "decision"),
                open_subtasks=self._below(tx, task, "task"),
                checkpoint=newest[0] if newest else None,
                operations_since=tuple(log.since(tx, workspace.id, newest[0].sequence if newest else 0)),
                interrupted=self._interrupted(tx),
                last_operation=log.last_of(tx, workspace.id, workspace.agent),
                claim=Claims(workspace).of(tx, task) if task else None,
            )

    def _path(self, tx: sqlite3.Connection, task: Key | None, node: Key | None) -> tuple[Node, ...]:
        """root → active task → active node; just the task's path if the node was written elsewhere."""
        end = node if node is not None and (task is None or node.path.startswith(task.path)) else task
        if end is None:
            return (tree.node(tx, self._workspace.root(tx)),)
        return (*tree.ancestors(tx, end), tree.node(tx, end))

    def _below(self, tx: sqlite3.Connection, task: Key | None, type: Literal["decision", "task"]) -> tuple[Node, ...]:
        """The newest of a kind under the active task (under the root if there is none), oldest of them first."""
        key = task or self._workspace.root(tx)
        found = points.below(tx, self._workspace.id, key, type, limit=SHOWN, open_only=type == "task")
        return tuple(reversed(found))

    def _interrupted(self, tx: sqlite3.Connection) -> bool:
        """Whether a run of this agent before this one neither closed nor is still running, and nobody took it up."""
        workspace = self._workspace
        left = points.unclosed_sessions(tx, workspace.id, workspace.agent, before=workspace.session)
        interrupted = any(not is_running(process) for process in left)
        workspace.resumed = workspace.resumed or interrupted
        return interrupted

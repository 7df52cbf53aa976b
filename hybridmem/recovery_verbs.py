"""The verbs of Memory that recover. Like :mod:`hybridmem.verbs`, each hands the call to the file of its verb."""

from __future__ import annotations

from hybridmem.changes import HistoryEntry, RestoreReport
from hybridmem.history import history
from hybridmem.indexing import Indexer
from hybridmem.recover import Recovery
from hybridmem.restore import Restoring
from hybridmem.store.workspace import Workspace
from hybridmem.types import Checkpoint, Operation, ResumePoint


class RecoveryVerbs:
    """See :class:`hybridmem.Memory`."""

    def __init__(self, workspace: Workspace, indexer: Indexer) -> None:
        self._workspace = workspace
        self._indexer = indexer
        self._recovery = Recovery(workspace)
        self._restoring = Restoring(workspace)

    def checkpoint(self, label: str | None = None) -> Checkpoint:
        """Marks this point in the log. Task changes, every N operations and every M seconds do so by themselves."""
        return self._recovery.checkpoint(label)

    def checkpoints(self) -> list[Checkpoint]:
        """All of them, newest first."""
        return self._recovery.checkpoints()

    def resume(self) -> ResumePoint:
        """Everything to go on with: active task and path, next step, decisions, what happened since the last
        checkpoint, and whether the last run of this agent was interrupted."""
        return self._recovery.resume()

    def operations(self, since: int = 0) -> list[Operation]:
        """The log after sequence number ``since``, oldest first."""
        return self._recovery.operations(since)

    def history(self, id: str) -> list[HistoryEntry]:
        """Everything that was ever done to a memory, oldest first: when, by whom, and what it changed from what to
        what (content, metadata, type, importance, confidence, uses, pin, state, parent; of a task status, next step
        and end).

        :raises NotFound: there is no such node here.
        """
        return history(self._workspace, id)

    def restore(
        self,
        *,
        checkpoint: Checkpoint | str | int | None = None,
        sequence: int | None = None,
        dry_run: bool = False,
    ) -> RestoreReport:
        """Brings all memories of this namespace back to how they were: contents, metadata, weights, times of activity,
        parents, pins, states, task status and next step, and the active task and node of every agent.

        What was added since is forgotten, pinned or not, and can be had back. It is done by one new operation, whole or
        not at all, with a checkpoint; the log before it stays as it is, versions rise, and another restore undoes it:
        to undo a forget, restore to the entry before it. Vectors of contents that come back are made again.

        :param checkpoint: one of :meth:`checkpoints`, its label (of several the newest), or its number.
        :param sequence: the number of an operation: the memory as it was after it. The first one made the namespace.
        :param dry_run: only say what would change.
        :return: what was added, removed, moved and changed, from what to what; ``note`` says if nothing differs.
        :raises NotFound: no such checkpoint or operation. InvalidInput: both or neither are given.
        """
        report = self._restoring.restore(checkpoint, sequence, dry_run=dry_run)
        if report.sequence is not None and self._workspace.config.index.background:
            self._indexer.start()
            self._indexer.notify()
        return report

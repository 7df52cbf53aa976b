"""The verbs of Memory that recover. Like :mod:`hybridmem.verbs`, each hands the call to the file of its verb."""

from __future__ import annotations

from hybridmem.recover import Recovery
from hybridmem.store.workspace import Workspace
from hybridmem.types import Checkpoint, Operation, ResumePoint


class RecoveryVerbs:
    """See :class:`hybridmem.Memory`."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._recovery = Recovery(workspace)

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

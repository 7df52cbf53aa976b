"""What the thread behind the writes does when nothing waits for its vector: uses, forgetting by schedule, erasures
that were cut off, backups, the end of old audit entries."""

from __future__ import annotations

from collections.abc import Callable

from hybridmem.backup import Backups
from hybridmem.cleanse import Cleansing
from hybridmem.store.workspace import Workspace
from hybridmem.tending import Tending
from hybridmem.trail import AuditTrail


class Chores:
    """The chores of one workspace. They know no handle: one that nobody holds any more must be gone at once, with its
    lock on the store, though the thread still knows what it had to do."""

    def __init__(
        self, workspace: Workspace, tending: Tending, backups: Backups, trail: AuditTrail, cleansing: Cleansing
    ) -> None:
        self._workspace = workspace
        self._tending = tending
        self._backups = backups
        self._trail = trail
        self._cleansing = cleansing

    def run(self, is_stopping: Callable[[], bool]) -> None:
        """Whatever is due.

        :param is_stopping: whether the handle is being closed, so that nothing long is begun.
        """
        if self._workspace.uses.is_due:
            self._workspace.flush_uses()
        self._tending.run_if_due()
        self._cleansing.finish_if_due(is_stopping)
        self._trail.prune_if_due()
        self._backups.make_if_due(is_stopping)

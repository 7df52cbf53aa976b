"""Where forgetting happens by itself: the configured policies and the purge, after so many operations or seconds.

When a namespace was last tended is in the store, and whoever finds it due notes it there first, in a transaction that
writes: so of several processes one does it, and one that dies leaves the rest to the next time.
"""

from __future__ import annotations

import logging
import sqlite3
import threading

from hybridmem.audit import called
from hybridmem.config import ForgettingConfig
from hybridmem.prune import CONFIGURED, Pruning
from hybridmem.purge import Purging
from hybridmem.store import log, points
from hybridmem.store.workspace import Workspace

logger = logging.getLogger("hybridmem")


class Tending:
    """The schedule of one workspace. ``failures``: how often it could not be done, ``problem``: why, the last time."""

    def __init__(self, workspace: Workspace, pruning: Pruning, purging: Purging) -> None:
        self._workspace = workspace
        self._pruning = pruning
        self._purging = purging
        self._doing = threading.Lock()
        self.failures = 0
        self.problem: str | None = None

    @property
    def is_on(self) -> bool:
        """Whether anything is configured to happen by itself."""
        rule = self._workspace.config.forgetting
        has_work = bool(rule.policies) or rule.retention_days is not None
        return has_work and (rule.every_operations is not None or rule.every_seconds is not None)

    def run_if_due(self) -> None:
        """Forgets and purges at most forgetting.limit memories, if it is time. Never raises but for an interrupt: what
        keeps it from being done is logged and counted, and is no matter of the write that it follows."""
        if not self.is_on or not self._doing.acquire(blocking=False):
            return
        try:
            with self._workspace.read() as tx:
                is_due = self._is_due(tx)
            if is_due:
                called(self._workspace, "tend", self._tend, scheduled=True)
        except Exception as error:
            self.failures += 1
            self.problem = str(error) or repr(error)
            logger.warning("forgetting by schedule failed, and is tried again when it is due: %s", self.problem)
        finally:
            self._doing.release()

    def _tend(self) -> None:
        if self._claim():
            self._run(self._workspace.config.forgetting)

    def _is_due(self, tx: sqlite3.Connection) -> bool:
        workspace, rule = self._workspace, self._workspace.config.forgetting
        sequence, at = points.tended(tx, workspace.id)
        done = abs(log.head(tx, workspace.id)[0] - sequence)
        waited = abs(workspace.now() - at)  # ahead of now: the clock has been set back since
        by_count = rule.every_operations is not None and done >= rule.every_operations
        return by_count or (rule.every_seconds is not None and waited >= rule.every_seconds * 1_000_000)

    def _claim(self) -> bool:
        """Notes that it is done now, unless somebody else has done so meanwhile."""
        with self._workspace.write() as tx:
            if not self._is_due(tx):
                return False
            points.set_tended(tx, self._workspace.id, log.head(tx, self._workspace.id)[0], self._workspace.now())
            return True

    def _run(self, rule: ForgettingConfig) -> None:
        left = rule.limit
        if rule.policies:
            left -= len(self._pruning.forget(CONFIGURED, None, left, dry_run=False).pruned)
        if rule.retention_days is not None and left:
            self._purging.purge(None, left, dry_run=False)

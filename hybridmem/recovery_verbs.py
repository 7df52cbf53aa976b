"""The verbs of Memory that recover. Like :mod:`hybridmem.verbs`, each hands the call to the file of its verb."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from hybridmem import doctor
from hybridmem.audit import audited
from hybridmem.backup import Backups
from hybridmem.changes import HistoryEntry, RestoreReport
from hybridmem.findings import Report
from hybridmem.history import history
from hybridmem.indexing import Indexer
from hybridmem.recover import Recovery
from hybridmem.restore import Restoring
from hybridmem.store.workspace import Workspace
from hybridmem.types import Backup, Checkpoint, Operation, ResumePoint


class RecoveryVerbs:
    """See :class:`hybridmem.Memory`."""

    def __init__(self, workspace: Workspace, indexer: Indexer) -> None:
        self._workspace = workspace
        self._indexer = indexer
        self._recovery = Recovery(workspace)
        self._restoring = Restoring(workspace)
        self._backups = Backups(workspace)

    @audited(keep=("backup",))
    def checkpoint(self, label: str | None = None, *, backup: bool = False) -> Checkpoint:
        """Marks this point in the log. Task changes, every N operations and every M seconds do so by themselves.

        :param backup: also make a backup file in ``checkpoints/``, with the label, as :meth:`backup` does; the
            checkpoint is in it. If that fails, the checkpoint is there without one, and the error says why.
        """
        made = self._recovery.checkpoint(label)
        return replace(made, backup=self._backups.make(None, label, checkpoint=made).path) if backup else made

    @audited(reads=True)
    def checkpoints(self) -> list[Checkpoint]:
        """All of them, newest first."""
        return self._backups.attached(self._recovery.checkpoints())

    @audited()
    def backup(
        self,
        file: str | Path | None = None,
        *,
        label: str | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> Backup:
        """Copies the whole store, every namespace of it, into one file, as it is at this moment.

        Others may go on writing: nobody waits for it, and it waits for nobody. The file is on disk, was opened, read
        whole and compared with what was copied before it gets its name; restore_backup() makes a store of it again.
        Vectors are in it, Chroma's files are not: they are rebuilt. Mode 0600; as plain or as encrypted as the
        store.

        :param file: where to; replaced if it is there. None: a new file in ``checkpoints/`` of the store, named by
            number and time; of those without a label the newest checkpoint.keep_backups are kept.
        :param label: says what it is good for, and keeps it until you remove it.
        :param progress: called now and then with the pages copied and the pages in all; to raise in it ends the backup.
        :raises StoreFull: no room, or the place cannot be written. StoreDamaged: the copy is not sound, which means
            that the store is not either. StoreBusy: another backup is being made. No file is left then, and earlier
            backups are as they were. InvalidInput: the file is a database in use, or a bad label.
        """
        return self._backups.make(file, label, progress)

    @audited(reads=True, keep=("verify",))
    def backups(self, *, verify: bool = False) -> list[Backup]:
        """The backup files in ``checkpoints/`` of the store, newest first. A damaged one is listed with its problem.

        :param verify: read each one whole and check it, about a second for every 300 MB; else only what is at its
            head, which finds a file that is cut off or not ours, but not a few wrong bytes.
        """
        return self._backups.listed(verify=verify)

    @audited(reads=True)
    def resume(self) -> ResumePoint:
        """Everything to go on with: active task and path, next step, decisions, what happened since the last
        checkpoint, and whether the last run of this agent was interrupted."""
        return self._recovery.resume()

    @audited(reads=True, keep=("replay",))
    def verify(self, *, replay: bool = False) -> Report:
        """Recomputes all that can be recomputed about this namespace, and compares; changes nothing.

        The tree (root, parents, loops, paths, counter), the log (chain, checkpoints, every memory in it), what is
        derived from contents (lexical index, hashes), tasks and active pointers, vectors in SQLite and in Chroma, both
        ways; and SQLite's own check of the file. Nothing is told of other namespaces: ``hybridmem.verify(path)`` and
        ``hybridmem doctor`` look at all of a store, also at one that cannot be opened.

        :param replay: also rebuild the tree from the log and compare every field; see :func:`hybridmem.verify`.
        :return: ``report.ok``, ``report.findings`` (each with the number, the first ids and what to do) and counts.
            Memories that wait for their vector are counted as pending, and are no fault.
        """
        self._workspace.connections.check()
        workspace = self._workspace
        return doctor.verify(
            workspace.directory, namespace=workspace.namespace, replay=replay, master_key=workspace.connections.keys
        )

    @audited()
    def repair(self) -> Report:
        """Mends what :meth:`verify` finds in this namespace; see :func:`hybridmem.repair` for all of a store.

        :return: ``mended`` says what it found and mended, ``findings`` what is left and what to do about it; ``aside``
            where damaged files of the vector index are now: nothing is deleted.
        """
        before = self.verify()
        workspace = self._workspace
        workspace.trail.say({"found": {one.kind: one.count for one in before.findings}})
        return doctor.mend(
            workspace.write, self._indexer, workspace.agent, workspace.now(), before,
            provider=workspace.connections.keys,
        )  # fmt: skip

    @audited(reads=True, keep=("since",))
    def operations(self, since: int = 0) -> list[Operation]:
        """The log after sequence number ``since``, oldest first."""
        return self._recovery.operations(since)

    @audited("id", reads=True)
    def history(self, id: str) -> list[HistoryEntry]:
        """Everything that was ever done to a memory, oldest first: when, by whom, and what it changed from what to
        what (content, metadata, type, importance, confidence, uses, pin, state, parent; of a task status, next step
        and end).

        :raises NotFound: there is no such node here.
        """
        return history(self._workspace, id)

    @audited(keep=("checkpoint", "sequence", "dry_run"))
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

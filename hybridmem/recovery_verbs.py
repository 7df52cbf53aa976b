"""The verbs of Memory that recover. Like :mod:`hybridmem.verbs`, each hands the call to the file of its verb."""

from __future__ import annotations

from hybridmem import doctor
from hybridmem.findings import Report
from hybridmem.indexing import Indexer
from hybridmem.recover import Recovery
from hybridmem.store.workspace import Workspace
from hybridmem.types import Checkpoint, Operation, ResumePoint


class RecoveryVerbs:
    """See :class:`hybridmem.Memory`."""

    def __init__(self, workspace: Workspace, indexer: Indexer) -> None:
        self._workspace = workspace
        self._indexer = indexer
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
        return doctor.verify(self._workspace.directory, namespace=self._workspace.namespace, replay=replay)

    def repair(self) -> Report:
        """Mends what :meth:`verify` finds in this namespace; see :func:`hybridmem.repair` for all of a store.

        :return: ``mended`` says what it found and mended, ``findings`` what is left and what to do about it; ``aside``
            where damaged files of the vector index are now: nothing is deleted.
        """
        before = self.verify()
        workspace = self._workspace
        return doctor.mend(workspace.write, self._indexer, workspace.agent, workspace.now(), before)

    def operations(self, since: int = 0) -> list[Operation]:
        """The log after sequence number ``since``, oldest first."""
        return self._recovery.operations(since)

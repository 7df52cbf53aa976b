"""The verbs of Memory that erase for good. Each hands the call to the file of its verb."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hybridmem.audit import audited
from hybridmem.cleanse import Cleansing, Progress
from hybridmem.erase import Erasing, Receipts
from hybridmem.erased import ErasureReceipt
from hybridmem.indexing import Indexer
from hybridmem.ports import Summarizer
from hybridmem.store.workspace import Workspace
from hybridmem.write import Writer


class EraseVerbs:
    """See :class:`hybridmem.Memory`."""

    if TYPE_CHECKING:  # of SummaryVerbs

        def _wake(self) -> None: ...

    def __init__(
        self, workspace: Workspace, indexer: Indexer, writer: Writer, summarizer: Callable[[], Summarizer]
    ) -> None:
        self._cleansing = Cleansing(workspace.connections, indexer, workspace.config.erasure, workspace.now)
        told = Receipts(workspace.connections, self._cleansing, workspace.now)
        self._erasing = Erasing(workspace, writer, summarizer, told)

    @audited("id", keep=("subtree", "dry_run"))
    def erase(
        self, id: str, *, subtree: bool = False, dry_run: bool = False, progress: Progress | None = None
    ) -> ErasureReceipt:
        """Erases a memory for good, in whatever state: contents and metadata of every revision, words, vectors, what
        the log and the labels of checkpoints tell of it, and summaries that quote it (``erasure.summaries``); also in
        the numbered backups of the store, in its free pages and its write-ahead log, and in what was set aside. Pinned
        memories, tasks that are not finished or are claimed, and where agents are at work go as well: the agents stand
        at the nearest place above then.

        What stays is the empty row with its id, so that the tree and the log hold together, and a tombstone, so that no
        restore, backup, import or new memory brings the id back. Backups and exports in other places are not reached;
        a backup from elsewhere that is restored over this store loses it on the way. The vector index is made anew
        behind the writes, and until then searches are exact. Nothing is half done: the rows go in one transaction; if
        the rest is cut off, whoever has the store open next goes on with it, and so does the same call.

        :param subtree: with all below it; needed if there is anything.
        :param dry_run: change nothing; the counts are those that the call would have.
        :param progress: called now and then with (what is being done, steps done, steps in all).
        :return: an :class:`hybridmem.ErasureReceipt`, which is kept in the store. If it is not ``complete``, ``left``
            says what may still hold something, and why.
        :raises InvalidInput: it is the root; or it has memories below it and ``subtree`` is False.
        :raises NotFound: there is no such node in this namespace.
        """
        return self._erased(self._erasing.erase(id, subtree=subtree, dry_run=dry_run, progress=progress))

    @audited(keep=("everything", "dry_run"))
    def erase_namespace(
        self, *, everything: bool = False, dry_run: bool = False, progress: Progress | None = None
    ) -> ErasureReceipt:
        """Erases this namespace, and no other: every row of it, and the files as in :meth:`erase`. Every handle of it
        that is open anywhere fails from then on with NotFound; opening the same names again gives an empty one.

        Of an encrypted store the data keys of the namespace are destroyed, in backups too. That is the fast path:
        what free pages of the database hold was sealed by them, and is not rewritten; all else goes as ever.

        :param everything: must be True: there is no way to erase a namespace by leaving something out.
        :param dry_run: this, ``progress`` and the result as in :meth:`erase`.
        :raises InvalidInput: ``everything`` is not True.
        """
        return self._erased(self._erasing.namespace(everything=everything, dry_run=dry_run, progress=progress))

    def _erased(self, receipt: ErasureReceipt) -> ErasureReceipt:
        if not receipt.dry_run:
            self._wake()
        return receipt

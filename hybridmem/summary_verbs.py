"""The verbs of Memory that turn branches into summaries and back. Each hands the call to the file of its verb."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import cache

from hybridmem.audit import audited
from hybridmem.claims import Claims
from hybridmem.consolidate import Consolidation
from hybridmem.consolidated import ConsolidationReport
from hybridmem.indexing import Indexer
from hybridmem.ports import Summarizer
from hybridmem.store.workspace import Workspace
from hybridmem.summarize import create
from hybridmem.types import StateChange
from hybridmem.write import Writer


class SummaryVerbs:
    """See :class:`hybridmem.Memory`."""

    def __init__(
        self,
        workspace: Workspace,
        indexer: Indexer,
        writer: Writer,
        claims: Claims,
        summarizer: Summarizer | None,
    ) -> None:
        self._workspace = workspace
        self._indexer = indexer
        made = cache(lambda: create(workspace.config.consolidation))
        # No method of the handle, which nobody could let go of then: its lock on the store would stay.
        self._summarizer: Callable[[], Summarizer] = made if summarizer is None else lambda: summarizer
        self._consolidation = Consolidation(workspace, writer, claims, self._summarizer)

    @audited("id", keep=("older_than", "dry_run"))
    def consolidate(
        self,
        id: str | None = None,
        *,
        older_than: timedelta | float | None = None,
        dry_run: bool = False,
        progress: Callable[[int, int], object] | None = None,
    ) -> ConsolidationReport:
        """Makes a summary (type ``summary``) of each finished task, and of old memories; archives what it stands for.

        The summary hangs right below the task and is searched like any memory; its sources are there by their ids,
        with ``replaced_by``, are found with ``states=["archived"]`` and come back with :meth:`unconsolidate`. Left
        alone are pinned memories, tasks that are not finished with all below them, where any agent is at work, and
        what encloses those. A task that has a summary and new memories gets one of both. Each branch is one
        transaction. What the summariser (``consolidation.summarizer``) cannot make shorter, or fails on, stays as it
        is, and so does what is changed while it works.

        :param id: only this one: a finished task; or a memory that is no task, which is summarised with all below it;
            or with ``older_than`` the root or a task that is not finished, of which what is old right below it is.
            None: all finished tasks, those below another one with it.
        :param older_than: days or a timedelta, ≥ 0: only tasks without activity for so long; and of the root and of
            each task that is not finished the memories, with all below them, without activity for so long, in one
            summary.
        :param dry_run: write nothing; say what would be done. The summariser is asked all the same.
        :param progress: called now and then with (branches done, branches in all).
        :return: of each branch the summary, sources, what was left alone and why, tokens before and after, and how many
            details (numbers, dates, codes, paths …) are kept; ``skipped`` with the reason of each.
        :raises InvalidInput: ``id`` cannot be summarised; the message says why. NotFound: it is not in this namespace.
        """
        found = self._consolidation.consolidate(id, older_than=older_than, dry_run=dry_run, progress=progress)
        if any(one.summary_id for one in found.branches):
            self._wake()
        return found

    @audited("id", keep=("dry_run",))
    def unconsolidate(self, id: str, *, dry_run: bool = False) -> StateChange:
        """Undoes :meth:`consolidate` for one summary: its sources are live again, and it is forgotten.

        :param dry_run: change nothing and say what would come back, or raise what would be raised.
        :raises InvalidInput: it is no such summary; it is part of another one (undo that first); it is pinned, has live
            memories below it, or an agent is at work there. NotFound: there is no such node in this namespace.
        """
        found = self._consolidation.undo(id, dry_run=dry_run)
        if found.sequence is not None:
            self._wake()
        return found

    def _wake(self) -> None:
        if self._workspace.config.index.background:
            self._indexer.start()
            self._indexer.notify()

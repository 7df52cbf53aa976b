"""The verbs of Memory that forget. Like :mod:`hybridmem.verbs`, each hands the call to the file of its verb."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar, overload

from hybridmem.audit import audited
from hybridmem.changes import PruneReport, PurgeReport
from hybridmem.errors import InvalidInput
from hybridmem.forget import Forgetting
from hybridmem.prune import Policies, Pruning
from hybridmem.purge import Purging
from hybridmem.store.workspace import Workspace
from hybridmem.tending import Tending
from hybridmem.types import StateChange

T = TypeVar("T")


class ForgetVerbs:
    """See :class:`hybridmem.Memory`."""

    if TYPE_CHECKING:  # of TreeVerbs

        def _written(self, result: T) -> T: ...

    def __init__(self, workspace: Workspace) -> None:
        self._forgets = Forgetting(workspace)
        self._pruning = Pruning(workspace)
        self._purging = Purging(workspace)
        self._tending = Tending(workspace, self._pruning, self._purging)

    @overload
    def forget(self, id: str, *, subtree: bool = False, dry_run: bool = False) -> StateChange: ...

    @overload
    def forget(
        self, *, policy: Policies, within: str | None = None, limit: int | None = None, dry_run: bool = False
    ) -> PruneReport: ...

    @audited("id", "within", keep=("subtree", "policy", "limit", "dry_run"))
    def forget(
        self,
        id: str | None = None,
        *,
        subtree: bool = False,
        policy: Policies | None = None,
        within: str | None = None,
        limit: int | None = None,
        dry_run: bool = False,
    ) -> StateChange | PruneReport:
        """Forgets a memory, or whatever policies choose: it leaves every search, context and list at once, in every
        process, and can be brought back with :meth:`restore_forgotten`. ``get``, ``walk`` and
        ``export`` still have it, and ``search`` if asked for ``states=["forgotten"]``. An exact repeat of a forgotten
        fact is stored as a new one.

        By id:

        :param id: a live, archived or superseded memory. Of one that is forgotten already nothing changes.
        :param subtree: with all below it. Needed if there is anything below it that is not forgotten yet.
        :param dry_run: change nothing and say what would go, or raise what would be raised.
        :return: the ids of all that went. An agent whose active node went stands at the nearest live node above it.
        :raises InvalidInput: it is the root; it has memories below it, and ``subtree`` is False; or one of those that
            would go is protected: pinned, a task that is not finished, the active task of an agent, or an ancestor of
            an agent's active task or node. The message names it and the way out.
        :raises NotFound: there is no such node in this namespace.

        By policy, live memories alone: leaves first, and what has become a leaf then, until the policy's target holds.
        What is protected stays, and the reply says what that was: as above, and a claimed task, the active node of any
        agent, and whatever has something below it that stays. In transactions of forgetting.batch nodes, so that others
        can write meanwhile; if one raises, those before it stay done, and the same call goes on from there.

        :param policy: the name of a policy (see hybridmem.policies), a mapping with ``policy`` and its parameters, a
            :class:`hybridmem.Policy`, a list of these, done in order, or ``"configured"``: forgetting.policies.
        :param within: only below the node of this id; None: in all of the namespace. Refused where a policy says it.
        :param limit: how many go at most; None: as many as it takes.
        :return: a :class:`hybridmem.PruneReport`: what went and why, what is left, and what was held back.
        :raises InvalidInput: an id and a policy, neither, or a parameter that does not belong to what is given.
        :raises NotFound: there is no node ``within``.
        """
        if id is None and policy is not None:
            if subtree is not False:
                raise InvalidInput("subtree: belongs to an id; within= limits a policy to what is below a node")
            report = self._pruning.forget(policy, within, limit, dry_run=dry_run)
            return self._written(report) if report.sequences else report
        if id is None or policy is not None:
            raise InvalidInput("forget: give either an id or policy=, and not both")
        for name, value in (("within", within), ("limit", limit)):
            if value is not None:
                raise InvalidInput(f"{name}: belongs to policy=, not to an id")
        change = self._forgets.change("forget", id, subtree=subtree, dry_run=dry_run)
        return change if change.sequence is None else self._written(change)

    @audited(keep=("older_than", "limit", "dry_run"))
    def purge_forgotten(
        self, older_than: timedelta | float | None = None, *, limit: int | None = None, dry_run: bool = False
    ) -> PurgeReport:
        """Takes away for good what forgotten memories said, once the time to bring them back is over: contents and
        metadata of every revision, words, vectors, and what the log tells of them in words (a next step, a note).

        Their rows stay, with id, parent, type, weights and times, so that the tree and the log hold together;
        ``node.is_purged`` says it. restore_forgotten() of one is refused; restore(), import_() and ``as_of`` hold them
        back, and say how many. Backups and exports made before have them still, and so may the free pages of the
        database file. In transactions of forgetting.batch memories, between which others can write; if one raises,
        those before it stay done, and the same call goes on from there.

        :param older_than: purge what has been forgotten for at least this time: a timedelta, or days, ≥ 0. None:
            forgetting.retention_days.
        :param limit: how many at most, the longest forgotten first; None: all.
        :param dry_run: change nothing and say what would go.
        :return: a :class:`hybridmem.PurgeReport`. What is pinned stays, and is counted.
        :raises InvalidInput: neither is given, and forgetting.retention_days is null.
        """
        report = self._purging.purge(older_than, limit, dry_run=dry_run)
        return self._written(report) if report.sequences else report

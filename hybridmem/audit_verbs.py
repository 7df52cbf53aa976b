"""The verbs of Memory about the audit trail. Like in :mod:`hybridmem.verbs`, each hands the call to its own file."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from hybridmem import inputs
from hybridmem.audit import audited
from hybridmem.store.workspace import Workspace
from hybridmem.trail import AuditTrail
from hybridmem.types import AuditEntry, AuditPruned


class AuditVerbs:
    """See :class:`hybridmem.Memory`."""

    def __init__(self, workspace: Workspace) -> None:
        self._audit = AuditTrail(workspace)

    @audited(keep=("limit", "after"))
    def audit(
        self,
        verb: str | None = None,
        agent: str | None = None,
        node: str | None = None,
        since: Any = None,
        until: Any = None,
        outcome: str | None = None,
        limit: int | None = 100,
        after: int | None = None,
    ) -> list[AuditEntry]:
        """Who did what in this namespace, in the order in which it was written: every call of every agent, also those
        that failed; never what a memory says. :meth:`verify` tells whether anybody has edited, removed or reordered
        entries.

        The entry of a call that writes is written with it, whole or not at all. Those of calls that only read wait in
        memory, for audit.flush_seconds at most where index.background allows a thread, else for the next write, flush,
        close or audit of their handle: a process that is killed loses those that wait.

        :param verb: only calls of this method, e.g. ``"search"``; also ``open`` and ``close`` of a handle that did
            something, ``tend`` (forgetting by schedule), ``restore_backup``, and ``dropped``: reads that could not be
            written, and were too many to wait.
        :param agent: only calls of this agent. :param node: only those about the node with this id, as far as one was
            named or made; what was changed with others is in :meth:`history`.
        :param since: only from this moment on; a datetime (naive means UTC) or ISO 8601 text. :param until: only
            before it.
        :param outcome: ``"ok"``, the name of an error, or ``"failed"``: any error.
        :param limit: how many at most, the newest; None: all. :param after: only entries with a higher number, and of
            these the first ``limit``: to read on.
        """
        return self._audit.entries(
            limit=limit, after=after, verb=verb, agent=agent, node=node, since=since, until=until, outcome=outcome
        )

    @audited()
    def export_audit(
        self,
        file: str | Path,
        *,
        verb: str | None = None,
        agent: str | None = None,
        node: str | None = None,
        since: Any = None,
        until: Any = None,
        outcome: str | None = None,
    ) -> int:
        """Writes the audit trail to a file as JSON lines, whole or not at all; returns how many entries it has.

        The first line has the number and hash of the newest entry and of the one that the trail goes on from: kept
        where nobody can reach both, they show later whether the trail was made anew.

        :param file: replaced if it is there. :param verb: this and the others: as for :meth:`audit`.
        :raises InvalidInput: the file is part of a store. StoreFull: it cannot be written.
        """
        return self._audit.export(
            inputs.path("file", file), verb=verb, agent=agent, node=node, since=since, until=until, outcome=outcome
        )

    @audited(keep=("older_than", "dry_run"))
    def prune_audit(self, older_than: timedelta | float | None = None, *, dry_run: bool = False) -> AuditPruned:
        """Removes the oldest entries of the audit trail. The removal is an entry itself, and the chain goes on from
        where it is now: removed in any other way, they are missed by :meth:`verify`.

        :param older_than: a timedelta, or days, ≥ 0; None: audit.retention_days. An entry goes once all before it do.
        :param dry_run: change nothing and say how many would go.
        :raises InvalidInput: neither is given; or audit.enabled is false.
        """
        return self._audit.prune(older_than, dry_run=dry_run)

"""Reading the audit trail, writing it to a file, and removing what is older than it is kept, by itself or asked."""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from hybridmem import inputs
from hybridmem.audit import called
from hybridmem.errors import HybridMemError, InvalidInput
from hybridmem.replacing import replace_file
from hybridmem.store import audit
from hybridmem.store.directory import refuse_own
from hybridmem.store.rows import dump, to_micros
from hybridmem.store.workspace import Workspace
from hybridmem.types import AuditEntry, AuditPruned

logger = logging.getLogger("hybridmem")

#: Of the header of an exported trail.
FORMAT, VERSION = "hybridmem-audit", 1
MICROS_PER_DAY = 86_400_000_000
#: By itself it is done once the oldest entry is older than it is kept by this share, so that it is not done, and told
#: of, all the time.
LATE = 1.1
#: Seconds between two looks whether it is time.
LOOK_SECONDS = 60.0


class AuditTrail:
    """The trail of one workspace; see :class:`hybridmem.Memory` for what each verb promises."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._next_look = 0.0

    def entries(self, *, limit: int | None, after: int | None, **filters: Any) -> list[AuditEntry]:
        most = None if limit is None else inputs.count("limit", limit)
        start = None if after is None else inputs.count("after", after)
        checked = _checked(**filters)
        self._workspace.flush_trail()
        with self._workspace.read() as tx:
            return audit.entries(tx, self._workspace.id, limit=most, after=start, **checked)

    def export(self, file: Path, **filters: Any) -> int:
        checked = _checked(**filters)
        refuse_own(file)
        self._workspace.flush_trail()
        with self._workspace.read() as tx:
            found = audit.entries(tx, self._workspace.id, after=0, **checked)
            header = {
                "format": FORMAT,
                "version": VERSION,
                "namespace": list(self._workspace.namespace),
                "entries": len(found),
                "filters": {name: str(value) for name, value in filters.items() if value is not None},
                "anchor": list(audit.anchor(tx, self._workspace.id)),
                "newest": list(audit.head(tx, self._workspace.id)),
            }
        lines = (header, *(one.to_dict() for one in found))
        replace_file(file, lambda path: path.write_text("".join(dump(one) + "\n" for one in lines), encoding="utf-8"))
        return len(found)

    def prune(self, older_than: timedelta | float | None, *, dry_run: bool) -> AuditPruned:
        dry_run = inputs.flag("dry_run", dry_run)
        days = self._workspace.config.audit.retention_days if older_than is None else older_than
        if days is None:
            raise InvalidInput("older_than: give days, since audit.retention_days is null: entries are kept for ever")
        if not self._workspace.config.audit.enabled:
            raise InvalidInput("audit.enabled: is false, so that nothing would tell of the removal; set it to true")
        before = self._workspace.now() - inputs.age("older_than", days)
        namespace = self._workspace.id
        self._workspace.flush_trail()
        if dry_run:
            with self._workspace.read() as tx:
                return _told(audit.older(tx, namespace, before), audit.counted(tx, namespace), dry_run=True)
        with self._workspace.write() as tx:
            found, there = audit.older(tx, namespace, before), audit.counted(tx, namespace)
            if found is not None:
                sequence, hashed, count = found
                wrong = audit.broken(tx, namespace)
                audit.prune(tx, namespace, sequence, hashed)
                self._workspace.trail.say(audit.removal(sequence, hashed, count, wrong))
        return _told(found, there, dry_run=False)

    def prune_if_due(self) -> None:
        """Removes what is older than it is to be kept, if it is time. A failure is logged, and is nobody else's."""
        workspace, days = self._workspace, self._workspace.config.audit.retention_days
        if days is None or not workspace.config.audit.enabled or time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + LOOK_SECONDS
        try:
            with workspace.read() as tx:
                oldest = audit.oldest(tx, workspace.id)
            if oldest is not None and workspace.now() - oldest > LATE * days * MICROS_PER_DAY:
                called(workspace, audit.PRUNED, lambda: self.prune(None, dry_run=False), scheduled=True)
        except HybridMemError as error:
            logger.warning("old entries of the audit trail are not removed yet: %s", error)


def _told(found: tuple[int, str, int] | None, there: int, *, dry_run: bool) -> AuditPruned:
    if found is None:
        return AuditPruned(0, there, None, dry_run)
    sequence, _, count = found
    return AuditPruned(count, there - count, sequence, dry_run)


def _checked(
    *, verb: Any = None, agent: Any = None, node: Any = None, since: Any = None, until: Any = None, outcome: Any = None
) -> dict[str, Any]:
    """What the filters mean in the store."""
    names = {
        name: None if value is None else inputs.name(name, value)
        for name, value in (("verb", verb), ("agent", agent), ("node", node), ("outcome", outcome))
    }
    moments = {
        name: None if value is None else to_micros(inputs.moment(name, value))
        for name, value in (("since", since), ("until", until))
    }
    return {**names, **moments}

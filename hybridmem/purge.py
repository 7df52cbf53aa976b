"""Where forgotten memories lose their content for good, once the time to bring them back is over.

Like forgetting by policy, in transactions of forgetting.batch memories, between which others can write: killed in the
middle, some batches are done and the rest is not, and the same call goes on from there. What was brought back since it
was chosen stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from hybridmem import inputs
from hybridmem.changes import PurgeReport
from hybridmem.errors import InvalidInput
from hybridmem.store import log, purged, states
from hybridmem.store.purged import Forgotten
from hybridmem.store.waiting import let_others_write
from hybridmem.store.workspace import Workspace


class Purging:
    """The purge of one workspace; see :meth:`hybridmem.Memory.purge_forgotten` for what it promises."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def purge(self, older_than: timedelta | float | None, limit: int | None, *, dry_run: bool) -> PurgeReport:
        dry_run = inputs.flag("dry_run", dry_run)
        most = None if limit is None else inputs.count("limit", limit)
        age, now = self._retention(older_than), self._workspace.now()
        with self._workspace.read() as tx:
            found = purged.forgotten(tx, self._workspace.id, now)
            over = [one for one in found if one.since <= now - age]
            going = [one for one in over if not one.pinned][:most]
            entries = purged.telling(tx, self._workspace.id, {one.uid for one in going}) if going else {}
        gone, sequences = [one.uid for one in going] if dry_run else [], list[int]()
        size = self._workspace.config.forgetting.batch
        for start in range(0, 0 if dry_run else len(going), size):
            if start:
                let_others_write()
            ids, sequence = self._take(going[start : start + size], entries)
            gone += ids
            sequences += [sequence] if sequence is not None else []
        note = "" if gone else "nothing purged: nothing has been forgotten for so long"
        pinned = sum(one.pinned for one in over)
        return PurgeReport(tuple(gone), len(found) - len(gone), pinned, dry_run, tuple(sequences), note)

    def _retention(self, older_than: timedelta | float | None) -> int:
        """In microseconds."""
        days = self._workspace.config.forgetting.retention_days
        if older_than is not None:
            return inputs.age("older_than", older_than)
        if days is None:
            raise InvalidInput("older_than: forgetting.retention_days is null, which means never; say how old")
        return inputs.age("forgetting.retention_days", days)

    def _take(self, batch: Sequence[Forgotten], entries: Mapping[str, Sequence[int]]) -> tuple[list[str], int | None]:
        """One transaction: those of the batch that are still as they were when they were chosen."""
        workspace = self._workspace
        with workspace.write() as tx:
            members = states.by_ids(tx, [one.id for one in batch])
            nodes: dict[int, str] = {}
            for one in batch:
                member = members.get(one.id)
                is_same = member is not None and (member.version, member.purged) == (one.version, False)
                if is_same and member is not None and member.state == "forgotten":
                    nodes[one.id] = one.uid
            if not nodes:
                return [], None
            blanked = purged.blank(tx, workspace.id, nodes, entries)
            payload: dict[str, object] = {"nodes": [[uid, {}] for uid in nodes.values()], "blanked": blanked}
            sequence = workspace.record(tx, log.PURGE, None, payload)
            workspace.checkpoint_if_due(tx)
        return list(nodes.values()), sequence

"""Where the memory is brought back to how it was: by new operations, so that history is never rewritten and every
restore can be undone by another one."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from hybridmem import inputs
from hybridmem.changes import Change, NodeChange, RestoreReport
from hybridmem.errors import InvalidInput, NotFound, shown
from hybridmem.store import log, points, restoring, rewind, tree
from hybridmem.store.past import Past
from hybridmem.store.restoring import Difference
from hybridmem.store.rows import Key, from_micros
from hybridmem.store.workspace import Workspace
from hybridmem.types import TASK_TYPE, Checkpoint

_TIMES = ("active_at", "started_at", "finished_at")
#: What a log calls otherwise than Node does.
_NAMES = {"parent": "parent_id"}

Pointers = dict[str, tuple[tuple[str | None, str | None], tuple[str | None, str | None]]]


class Restoring:
    """The restore of one workspace; see :meth:`hybridmem.Memory.restore` for what it promises."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def restore(
        self, checkpoint: Checkpoint | str | int | None, sequence: int | None, *, dry_run: bool
    ) -> RestoreReport:
        checked = inputs.flag("dry_run", dry_run)
        if (checkpoint is None) == (sequence is None):
            raise InvalidInput("restore: give either checkpoint= (a checkpoint, its label or number) or sequence=")
        if sequence is not None:
            inputs.count("sequence", sequence)
        if checked:
            with self._workspace.read() as tx:
                return self._plan(tx, self._sequence(tx, checkpoint, sequence))[0]
        with self._workspace.write() as tx:
            report, found, pointers = self._plan(tx, self._sequence(tx, checkpoint, sequence))
            report = replace(report, dry_run=False)
            return report if report.is_empty else self._carry_out(tx, report, found, pointers)

    def _sequence(self, tx: sqlite3.Connection, checkpoint: Checkpoint | str | int | None, sequence: int | None) -> int:
        """The entry of the log that is meant."""
        if sequence is not None:
            head, _ = log.head(tx, self._workspace.id)
            if not 1 <= sequence <= head:
                raise NotFound(f"sequence: there is no operation {sequence}; the log has those from 1 to {head}")
            return sequence
        known = points.checkpoints(tx, self._workspace.id)  # newest first
        if isinstance(checkpoint, Checkpoint):
            same = [one for one in known if (one.id, one.digest) == (checkpoint.id, checkpoint.digest)]
        elif isinstance(checkpoint, str):
            same = [one for one in known if one.label == checkpoint]
        else:
            number = inputs.count("checkpoint", checkpoint)
            same = [one for one in known if one.id == number]
        if not same:
            named = checkpoint.id if isinstance(checkpoint, Checkpoint) else checkpoint
            raise NotFound(f"checkpoint: there is no checkpoint {shown(named)} in this namespace; see checkpoints()")
        return same[0].sequence

    def _plan(self, tx: sqlite3.Connection, to: int) -> tuple[RestoreReport, list[Difference], Pointers]:
        """The report of a dry run, and what it takes to carry it out."""
        workspace = self._workspace
        then = rewind.after(tx, workspace.id, to, workspace.agent)
        found = restoring.differences(tx, workspace.id, then)
        gone = {one.row.uid for one in found if one.values.get("state", ("", ""))[1] == "forgotten"}
        pointers, unsaid = self._pointers(tx, to, gone, then)
        told = _told(tx, found)
        report = RestoreReport(
            to=to,
            dry_run=True,
            added=_pick(told, "state", lambda change: change.before == "forgotten"),
            removed=_pick(told, "state", lambda change: change.after == "forgotten"),
            moved=_pick(told, "parent_id", lambda change: True),
            changed=_rest(told),
            active={agent: Change(*pair) for agent, pair in pointers.items()},
            unsaid=tuple(unsaid),
            held_back=then.held_back(),
        )
        if report.is_empty:
            but = f", but for the {len(report.held_back)} that are purged" if report.held_back else ""
            report = replace(report, note=f"nothing to restore: the memory is as it was after operation {to}{but}")
        return report, found, pointers

    def _pointers(self, tx: sqlite3.Connection, to: int, gone: set[str], past: Past) -> tuple[Pointers, list[str]]:
        """Where each agent stands and stood, if that differs; and what the log does not say of it."""
        pointers: Pointers = {}
        unsaid = []
        for agent, task, node in points.agents(tx, self._workspace.id):
            then = points.active_after(tx, self._workspace.id, agent, to)
            place = (None, None) if then is None else then[:2]
            if then is not None and not then[2]:
                unsaid.append(
                    f"where the agent {agent!r} stood after operation {to} is not in the log, which an earlier version "
                    "wrote; it stays where it is, unless that was added since"
                )
                place = (None if task in gone else task, None if node in gone else node)
            place = (past.standing(place[0], TASK_TYPE), past.standing(place[1])) if past.purged else place
            if place != (task, node):
                pointers[agent] = ((task, node), place)
        return pointers, unsaid

    def _carry_out(
        self, tx: sqlite3.Connection, report: RestoreReport, found: Sequence[Difference], pointers: Pointers
    ) -> RestoreReport:
        workspace = self._workspace
        restoring.apply(tx, workspace.id, found, workspace.now())
        active: dict[str, Any] = {}
        for agent, (_, (task, node)) in pointers.items():
            active |= workspace.point(tx, self._key(tx, task), self._key(tx, node), agent=agent)
        gone = [one.row.uid for one in found if one.values.get("state", ("", ""))[1] == "forgotten"]
        before = log.states_before(tx, workspace.id, gone, until=report.to)
        nodes = [[one.row.uid, one.set(one.row.version + 1, before)] for one in found]
        payload: dict[str, object] = {"to": report.to, "nodes": nodes, "active": active}
        sequence = workspace.record(tx, log.RESTORE, None, payload)
        return replace(report, sequence=sequence, checkpoint=workspace.checkpoint(tx, log.RESTORE))

    def _key(self, tx: sqlite3.Connection, uid: str | None) -> Key | None:
        return None if uid is None else tree.find(tx, self._workspace.id, uid)


def _told(tx: sqlite3.Connection, found: Sequence[Difference]) -> list[NodeChange]:
    """The differences in the words of Node and Task."""
    nodes = tree.nodes(tx, [one.row.id for one in found])
    return [NodeChange(one.row.uid, tree.title(nodes[one.row.id].content), _changes(one)) for one in found]


def _changes(one: Difference) -> dict[str, Change]:
    changes = {}
    for name, pair in one.values.items():
        if name != "revision":
            changes[_NAMES.get(name, name)] = Change(*(_readable(name, value) for value in pair))
    if one.revisions is not None:
        (content_now, _, metadata_now), (content, _, metadata) = one.revisions
        for name, before, after in (
            ("content", content_now, content),
            ("metadata", json.loads(metadata_now), json.loads(metadata)),
        ):
            if before != after:
                changes[name] = Change(before, after)
    return changes


def _readable(name: str, value: Any) -> Any:
    if value is None:
        return None
    return from_micros(value) if name in _TIMES else bool(value) if name == "pinned" else value


def _pick(told: Iterable[NodeChange], name: str, wanted: Callable[[Change], bool]) -> tuple[NodeChange, ...]:
    """The nodes whose field ``name`` changes as wanted, with that alone."""
    return tuple(
        replace(one, changes={name: one.changes[name]})
        for one in told
        if name in one.changes and wanted(one.changes[name])
    )


def _rest(told: Iterable[NodeChange]) -> tuple[NodeChange, ...]:
    """What is neither added nor removed nor moved."""

    def is_elsewhere(name: str, change: Change) -> bool:
        return name == "parent_id" or (name == "state" and "forgotten" in (change.before, change.after))

    left = [
        replace(one, changes={name: change for name, change in one.changes.items() if not is_elsewhere(name, change)})
        for one in told
    ]
    return tuple(one for one in left if one.changes)

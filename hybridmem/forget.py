"""Where memories are forgotten and archived, one branch at a time, and brought back.

A forgotten memory is not erased: its row, content and embedding stay, so that it can be brought back as it was, without
the model. It leaves every search, context and list at once, in every process, since the state is in the row that they
all read. What hangs below a forgotten node is forgotten too: nothing can be written there until it is brought back.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hybridmem import faults, inputs
from hybridmem.errors import InvalidInput
from hybridmem.store import log, outbox, points, states, tree
from hybridmem.store.paths import path_ids
from hybridmem.store.prunable import Row
from hybridmem.store.rows import Key
from hybridmem.store.states import Member
from hybridmem.store.workspace import Workspace
from hybridmem.types import ROOT_TYPE, State, StateChange


@dataclass(frozen=True, slots=True)
class _Verb:
    """What a verb does: to nodes in which states, and which state it gives (None: the one before it was forgotten).

    ``hides``: what it takes away is not found any more, so that some nodes are protected from it.
    """

    takes: tuple[State, ...]
    gives: State | None
    hides: bool
    done: str


_VERBS = {
    "forget": _Verb(("live", "archived", "superseded"), "forgotten", True, "forgotten"),
    "archive": _Verb(("live",), "archived", True, "archived"),
    "restore_forgotten": _Verb(("forgotten",), None, False, "brought back"),
    "unarchive": _Verb(("archived",), "live", False, "brought back"),
}


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a call would do: the nodes in insertion order, each with its new state; and for every agent whose active
    node goes its active task, and the node where it stands then. ``held``: how many cannot come back any more;
    ``summed``: how many do not, since a summary stands for them."""

    key: Key
    changes: Sequence[tuple[Member, State]]
    active: Mapping[str, tuple[Key | None, Key]]
    held: int = 0
    summed: int = 0


class Forgetting:
    """The verbs of one workspace that change states; see :class:`hybridmem.Memory` for what each promises."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def change(self, kind: str, id: str, *, subtree: bool, dry_run: bool) -> StateChange:
        """:param kind: ``"forget"``, ``"restore_forgotten"``, ``"archive"`` or ``"unarchive"``."""
        subtree, dry_run = inputs.flag("subtree", subtree), inputs.flag("dry_run", dry_run)
        if dry_run:
            with self._workspace.read() as tx:
                plan = self._plan(tx, kind, id, subtree)
                return _told(kind, plan, subtree, None, dry_run=True)
        with self._workspace.write() as tx:
            plan = self._plan(tx, kind, id, subtree)
            sequence = self._carry_out(tx, kind, plan, subtree) if plan.changes else None
            return _told(kind, plan, subtree, sequence, dry_run=False)

    def _plan(self, tx: sqlite3.Connection, kind: str, id: str, subtree: bool) -> _Plan:
        verb = _VERBS[kind]
        key = tree.key(tx, self._workspace.id, id)
        if verb.hides:
            self._refuse_half(tx, kind, key, subtree)
        else:
            self._refuse_below_forgotten(tx, kind, key)
        nodes = states.members(tx, key, verb.takes, subtree=subtree)
        active = self._refuse_protected(tx, kind, nodes) if verb.hides and nodes else {}
        if verb.gives is not None:
            # What is named comes back; below it not the sources of a summary, which would say everything twice.
            summed = states.summed_up(tx, [node.id for node in nodes]) - {key.id} if kind == "unarchive" else set()
            changes = [(node, verb.gives) for node in nodes if node.id not in summed]
            return _Plan(key, changes, active, summed=len(summed))
        found, nodes = nodes, self._left(key, nodes)
        before = log.states_before(tx, self._workspace.id, [node.uid for node in nodes])
        changes = [(node, before.get(node.uid, "live")) for node in nodes]
        return _Plan(key, changes, active, held=len(found) - len(nodes))

    def _left(self, key: Key, nodes: Sequence[Member]) -> list[Member]:
        """Those that can be brought back: not what is purged, nor what hangs below that."""
        if any(node.purged and node.id == key.id for node in nodes):
            raise InvalidInput(
                f"id: {key.uid!r} cannot be brought back: its content was purged; it was erased, or forgotten for "
                "longer than its retention (forgetting.retention_days)"
            )
        left: list[Member] = []
        top: str | None = None
        for node in sorted(nodes, key=lambda node: node.path):  # whatever hangs below one comes right after it
            if top is not None and node.path.startswith(top):
                continue
            if node.purged:
                top = node.path
            else:
                left.append(node)
        return sorted(left, key=lambda node: node.id)

    def _carry_out(self, tx: sqlite3.Connection, kind: str, plan: _Plan, subtree: bool) -> int:
        return carry_out(tx, self._workspace, kind, plan.key, plan.changes, {"subtree": subtree}, plan.active)

    # What is refused

    def _refuse_half(self, tx: sqlite3.Connection, kind: str, key: Key, subtree: bool) -> None:
        """Without ``subtree`` nothing may be left behind below a node that goes; the root never goes."""
        verb = _VERBS[kind]
        if key.type == ROOT_TYPE:
            raise InvalidInput(f"id: the root of a namespace cannot be {verb.done}")
        if subtree or key.state not in verb.takes:
            return
        below = states.count_below(tx, key, verb.takes)
        if below:
            raise InvalidInput(
                f"subtree: {key.uid!r} has {below} memories below it that are {' or '.join(verb.takes)}; "
                f"say subtree=True (--subtree) to {kind} them all"
            )

    def _refuse_below_forgotten(self, tx: sqlite3.Connection, kind: str, key: Key) -> None:
        """What is brought back must hang under something that is there."""
        above = states.highest_forgotten_above(tx, key)
        if above is not None:
            raise InvalidInput(
                f"id: {key.uid!r} hangs below {above!r}, which is forgotten; call restore_forgotten({above!r}) first, "
                "or with subtree=True to bring back everything below it"
            )

    def _refuse_protected(
        self, tx: sqlite3.Connection, kind: str, nodes: Sequence[Member]
    ) -> dict[str, tuple[Key | None, Key]]:
        """Raises if one of the nodes may not go. What an agent wrote last may, if nothing hangs between: returns where
        the active node of that agent moves then, with its active task."""
        tasks, enclosing, active = in_use(tx, self._workspace.id)
        for node in nodes:
            why = protected(kind, node, tasks.get(node.id), enclosing.get(node.id))
            if why:
                raise InvalidInput(f"id: {node.uid!r} {why}; nothing was {_VERBS[kind].done}")
        going = {node.id for node in nodes}
        return {
            agent: (task, states.nearest_live_above(tx, key, list(going)))
            for agent, (task, key) in active.items()
            if key.id in going
        }


def carry_out(
    tx: sqlite3.Connection,
    workspace: Workspace,
    kind: str,
    key: Key,
    changes: Sequence[tuple[Member, State]],
    said: Mapping[str, object],
    active: Mapping[str, tuple[Key | None, Key]],
) -> int:
    """Gives nodes other states, with all that follows; returns the number of the log entry.

    :param key: the node at or below which all of them hang. :param said: what the log says besides.
    :param active: agents whose place changes, with their task and node then.
    """
    states.change(tx, {node.id: after for node, after in changes}, workspace.now())
    faults.point("states.after_rows")
    outbox.queue_all(tx, workspace.id, [node.id for node, _ in changes])
    faults.point("states.after_outbox")
    payload: dict[str, object] = {
        **said,
        "states": [[node.uid, node.state, after, node.version + 1] for node, after in changes],
    }
    places: dict[str, list[str | None]] = {}
    for agent, (task, node) in active.items():
        places |= workspace.point(tx, task, node, agent=agent)
    if places:
        payload["active"] = places
    sequence = workspace.record(tx, kind, key.uid, payload)
    workspace.checkpoint_if_due(tx)
    return sequence


def in_use(
    tx: sqlite3.Connection, namespace: int
) -> tuple[dict[int, str], dict[int, str], dict[str, tuple[Key | None, Key]]]:
    """By internal id whose active task a node is, and whose active task or node it encloses; and the active task and
    node of every agent that has a node."""
    tasks: dict[int, str] = {}
    enclosing: dict[int, str] = {}
    active: dict[str, tuple[Key | None, Key]] = {}
    for agent, task_uid, node_uid in points.agents(tx, namespace):
        task, node = (None if uid is None else tree.find(tx, namespace, uid) for uid in (task_uid, node_uid))
        if task is not None:
            tasks.setdefault(task.id, agent)
        for key in (task, node):
            for node_id in [] if key is None else path_ids(key.path)[:-1]:
                enclosing.setdefault(node_id, agent)
        if node is not None:
            active[agent] = (task, node)
    return tasks, enclosing, active


def protected(kind: str, node: Member | Row, active_for: str | None, holds_for: str | None) -> str:
    """Why a node may not go, and the way out; '' if it may. Being pinned protects from being forgotten only."""
    if node.pinned and kind == "forget":
        return f"is pinned; call pin({node.uid!r}, False) first"
    if active_for is not None:
        return f"is the active task of agent {active_for!r}; finish it, or let that agent switch to another task first"
    if node.status in ("open", "paused"):
        return f"is a task that is not finished ({node.status}); call finish_task({node.uid!r}) first"
    if holds_for is not None:
        return f"encloses where agent {holds_for!r} is at work; let it switch to a task elsewhere and write there first"
    return ""


def _told(kind: str, plan: _Plan, subtree: bool, sequence: int | None, *, dry_run: bool) -> StateChange:
    notes = []
    if not plan.changes:
        takes = " or ".join(_VERBS[kind].takes)
        rest = f", and nothing below it is {takes}" if subtree else f", not {takes}"
        notes.append(f"nothing changed: {plan.key.uid!r} is {plan.key.state}{'' if plan.summed else rest}")
    if plan.held:
        notes.append(f"{plan.held} purged {'memory stays' if plan.held == 1 else 'memories stay'} forgotten")
    if plan.summed:
        stay = "memory stays" if plan.summed == 1 else "memories stay"
        notes.append(f"{plan.summed} {stay} archived, as a summary stands for them; unconsolidate() brings them back")
    note = "; ".join(notes)
    ids = tuple(node.uid for node, _ in plan.changes)
    return StateChange(kind, plan.key.uid, ids, subtree, dry_run, sequence, note)

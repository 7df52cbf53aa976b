"""Where memories are forgotten by policy: what hybridmem.policies chooses, some hundred at a time.

What goes is chosen from one state of the store, outside of any transaction that writes. Each batch then looks again at
its own nodes before it takes them: whoever was changed, pinned, built upon or moved into use meanwhile stays. So other
writers get in between, and nobody's work is lost to a choice that was made before it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hybridmem import config as configuration
from hybridmem import inputs, policies
from hybridmem.changes import Pruned, PruneReport
from hybridmem.config import Policy
from hybridmem.errors import InvalidInput
from hybridmem.forget import carry_out, in_use, protected
from hybridmem.store import prunable, states, tree, uses
from hybridmem.store.prunable import Row
from hybridmem.store.rows import from_micros, subtree_range
from hybridmem.store.states import Member
from hybridmem.store.waiting import let_others_write
from hybridmem.store.workspace import Workspace
from hybridmem.tokens import token_counter
from hybridmem.types import SUMMARY_TYPE, State

#: Means the policies of the configuration.
CONFIGURED = "configured"
#: How often a policy is asked again when others have changed what it had chosen.
ROUNDS = 5

#: What names policies: the name of one, a mapping with its parameters, a Policy, a list of these, or "configured".
Policies = Policy | Mapping[str, Any] | str | Sequence[Policy | Mapping[str, Any] | str]


@dataclass(slots=True)
class _Done:
    """What a call has done so far; in a dry run, would have."""

    pruned: list[Pruned] = field(default_factory=list)
    held: dict[str, Pruned] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)
    sequences: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What one policy would take now, in its order, each with why; and what it would take but must not."""

    going: Sequence[tuple[Row, Pruned]]
    held: Sequence[Pruned]


class Pruning:
    """Forgetting by policy in one workspace; see :meth:`hybridmem.Memory.forget` for what it promises."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def forget(self, policy: Policies, within: str | None, limit: int | None, *, dry_run: bool) -> PruneReport:
        dry_run = inputs.flag("dry_run", dry_run)
        most = None if limit is None else inputs.count("limit", limit)
        chosen = [_narrowed(one, within) for one in self._named(policy)]
        with self._workspace.read() as tx:  # all of them are right before any of them does anything
            for one in chosen:
                if one.within is not None:
                    tree.key(tx, self._workspace.id, one.within, field="within")
        done = _Done()
        for one in chosen:
            self._run(one, done, most, dry_run=dry_run)
        with self._workspace.read() as tx:
            left = prunable.live(tx, self._workspace.id) - (len(done.gone) if dry_run else 0)
        note = "" if done.pruned else "nothing changed: the policies take nothing"
        held = tuple(done.held.values())
        return PruneReport(tuple(done.pruned), held, left, dry_run, tuple(done.sequences), note)

    def _named(self, value: Policies) -> list[Policy]:
        if isinstance(value, str) and value == CONFIGURED:
            found = self._workspace.config.forgetting.policies
            if not found:
                raise InvalidInput("policy: 'configured' means forgetting.policies, and there are none; name one")
            return list(found)
        if isinstance(value, (str, Mapping, Policy)) or not isinstance(value, Sequence):
            return [configuration.policy(value)]
        if not value:
            raise InvalidInput("policy: the list is empty; name at least one")
        return [configuration.policy(one) for one in value]

    def _run(self, policy: Policy, done: _Done, limit: int | None, *, dry_run: bool) -> None:
        """One policy, again and again until it takes no more."""
        for _ in range(ROUNDS):
            room = None if limit is None else limit - len(done.pruned)
            if room == 0:
                return
            with self._workspace.read() as tx:
                if policy.max_share is not None:  # of what there was at first, not of what is left
                    policy = self._fixed(tx, policy, done.gone)
                plan = self._plan(tx, policy, done.gone, room)
            done.held.update((one.id, one) for one in plan.held)
            if dry_run:
                done.pruned += [why for _, why in plan.going]
                done.gone |= {row.id for row, _ in plan.going}
                return
            before = len(done.pruned)
            size = self._workspace.config.forgetting.batch
            for start in range(0, len(plan.going), size):
                if start:
                    let_others_write()
                self._take(policy, plan.going[start : start + size], done)
            if len(done.pruned) - before == len(plan.going):
                return

    # Choosing

    def _fixed(self, tx: sqlite3.Connection, policy: Policy, gone: set[int]) -> Policy:
        counted = sum(
            self._counts(policy, row, self._range(tx, policy)) and row.id not in gone for row in self._rows(tx, policy)
        )
        return policy.model_copy(update={"max_nodes": policies.cap(policy, counted), "max_share": None})

    def _rows(self, tx: sqlite3.Connection, policy: Policy) -> list[Row]:
        """All memories; for ``least_recently_used`` with the last time that they were delivered as their activity."""
        rows = prunable.rows(tx, self._workspace.id)
        if policy.policy != "least_recently_used":
            return rows
        used = uses.last_used(tx, self._workspace.id)
        used.update(dict.fromkeys(self._workspace.uses.waiting(), self._workspace.now()))
        return [replace(row, active_at=max(row.active_at, used.get(row.uid, 0))) for row in rows]

    def _range(self, tx: sqlite3.Connection, policy: Policy) -> tuple[str, str]:
        top = self._workspace.start(tx, policy.within, "within")
        return subtree_range(top.path)

    def _counts(self, policy: Policy, row: Row, within: tuple[str, str]) -> bool:
        low, high = within
        return row.state == "live" and low < row.path < high and (policy.types is None or row.type in policy.types)

    def _plan(self, tx: sqlite3.Connection, policy: Policy, gone: set[int], limit: int | None) -> _Plan:
        rows, within = self._rows(tx, policy), self._range(tx, policy)
        counted = [row.id not in gone and self._counts(policy, row, within) for row in rows]
        reasons = _Protection(tx, self._workspace, rows)
        why = {i: said for i, row in enumerate(rows) if counted[i] and (said := reasons.of(row))}
        nodes = self._nodes(tx, policy, rows, np.array(counted, dtype=np.bool_), why, gone)
        now = self._workspace.now()
        chosen = policies.choose(nodes, policy, self._workspace.config.forgetting, now, limit)

        def told(i: int, reason: str) -> Pruned:
            return Pruned(rows[i].uid, policy.policy, float(chosen.retention[i]), reason)

        going = [
            (rows[i], told(i, _reason(policy, rows[i], float(chosen.retention[i]), bool(chosen.loose[i]))))
            for i in chosen.going
        ]
        return _Plan(going, [told(i, why[i]) for i in chosen.held])

    def _nodes(
        self,
        tx: sqlite3.Connection,
        policy: Policy,
        rows: Sequence[Row],
        counted: policies.Bools,
        why: Mapping[int, str],
        gone: set[int],
    ) -> policies.Nodes:
        now = self._workspace.now()
        places = {row.id: i for i, row in enumerate(rows)}
        weights = self._workspace.config.weights
        tokens = np.zeros(len(rows), dtype=np.int64)
        if policy.max_tokens is not None:
            counter = token_counter()
            for id, content in prunable.contents(tx, [rows[i].id for i in np.flatnonzero(counted).tolist()]):
                tokens[places[id]] = counter.count(content)
        may_go = counted.copy()
        may_go[list(why)] = False
        # Multiplied here, since of a half-life without end it makes infinity without a warning.
        half_lives = [86_400.0 * weights.half_life_days_by_type.get(row.type, weights.half_life_days) for row in rows]
        return policies.Nodes(
            parent=np.array([places.get(row.parent_id, -1) for row in rows], dtype=np.int64),
            order=np.array([row.id for row in rows], dtype=np.int64),
            is_task=np.array([row.status is not None for row in rows], dtype=np.bool_),
            importance=np.array([row.importance for row in rows], dtype=np.float64),
            confidence=np.array([row.confidence for row in rows], dtype=np.float64),
            uses=np.array([row.uses for row in rows], dtype=np.int64),
            created_at=np.array([row.moment(row.created_at, now) for row in rows], dtype=np.int64),
            active_at=np.array([row.moment(row.active_at, now) for row in rows], dtype=np.int64),
            half_life=np.array(half_lives, dtype=np.float64),
            tokens=tokens,
            forgotten=np.array([row.state == "forgotten" or row.id in gone for row in rows], dtype=np.bool_),
            counted=counted,
            may_go=may_go,
        )

    # Doing it

    def _take(self, policy: Policy, batch: Sequence[tuple[Row, Pruned]], done: _Done) -> None:
        """One transaction: those of the batch that are still as they were when they were chosen."""
        workspace = self._workspace
        with workspace.write() as tx:
            members = states.by_ids(tx, [row.id for row, _ in batch])
            reasons = _Protection(tx, workspace, [row for row, _ in batch])
            staying: dict[int, set[int]] = {}
            for above, below in states.children_there(tx, [row.id for row, _ in batch]):
                staying.setdefault(above, set()).add(below)
            changes: list[tuple[Member, State]] = []
            going: set[int] = set()
            for row, _ in batch:
                member = members.get(row.id)
                is_same = member is not None and (member.version, member.path) == (row.version, row.path)
                if member is None or not is_same or reasons.of(row) or staying.get(row.id, set()) - going:
                    continue
                going.add(row.id)
                changes.append((member, "forgotten"))
            if not changes:
                return
            changes.sort(key=lambda change: change[0].id)
            key = states.nearest_common(tx, [member.path for member, _ in changes])
            said = {"subtree": True, "policy": policy.model_dump(exclude_none=True, mode="json")}
            sequence = carry_out(tx, workspace, "forget", key, changes, said, {})
        done.sequences.append(sequence)
        done.gone |= going
        done.pruned += [why for row, why in batch if row.id in going]


class _Protection:
    """Who is protected in one state of the store (DESIGN, section 8); nodes with something below them are not among
    them: for those it depends on what goes."""

    def __init__(self, tx: sqlite3.Connection, workspace: Workspace, rows: Sequence[Row]) -> None:
        """:param rows: those that may be asked about."""
        self._tasks, self._enclosing, active = in_use(tx, workspace.id)
        self._active = {node.id: agent for agent, (_, node) in active.items()}
        self._claimed = prunable.claimed(tx, workspace.id, workspace.now())
        summaries = [row.uid for row in rows if row.type == SUMMARY_TYPE and row.state == "live"]
        self._stand_ins = prunable.stand_ins(tx, workspace.id, summaries)

    def of(self, row: Row) -> str:
        """Why a memory may not go, and the way out; '' if it may."""
        if row.id in self._active:
            return (
                f"is where agent {self._active[row.id]!r} wrote last; it may go once that agent has written elsewhere"
            )
        if row.id in self._claimed:
            return "is a task that somebody has claimed; it may go once it is released"
        if row.uid in self._stand_ins:  # else both it and what it stands for would be out of sight
            uid, count = self._stand_ins[row.uid]
            return (
                f"is the summary of {count} archived memories; call unconsolidate({uid!r}) first, or forget them and "
                "then it"
            )
        return protected("forget", row, self._tasks.get(row.id), self._enclosing.get(row.id))


def _narrowed(policy: Policy, within: str | None) -> Policy:
    if within is None:
        return policy
    if policy.within is not None:
        raise InvalidInput(f"within: the policy {policy.policy!r} has its own ({policy.within!r}); give one of the two")
    return policy.model_copy(update={"within": inputs.name("within", within)})


def _reason(policy: Policy, row: Row, retention: float, loose: bool) -> str:
    """Why a memory goes."""
    if policy.policy == "decay":
        threshold = policies.THRESHOLD if policy.threshold is None else policy.threshold
        return f"its retention has fallen to {retention:.3f}, below {threshold:g}"
    last = from_micros(row.active_at).date().isoformat()
    if policy.policy == "age":
        return f"no activity for more than {policy.days:g} days (last {last})"
    first = {
        "least_weight": f"least retention ({retention:.3f}{', under no task' if loose else ''})",
        "least_recently_used": f"longest without any use or activity (last {last})",
        "newest": f"not among the newest (of {from_micros(row.created_at).date().isoformat()})",
        "random": f"drawn by lot (seed {policy.seed or 0})",
    }[policy.policy]
    return f"{first}, with more than {_cap(policy)} left"


def _cap(policy: Policy) -> str:
    caps = {"memories": policy.max_nodes, "tokens": policy.max_tokens}
    return " or ".join(f"{most} {name}" for name, most in caps.items() if most is not None)

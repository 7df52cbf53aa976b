"""Which memories go first: the forgetting policies as a table. Pure: numpy in and out, no clock, no I/O.

``decay``: retention, by the calendar, is below ``threshold``. ``age``: no activity for more than ``days``.
``least_weight``: the least retention, by the place in the task, until no more than the cap is left.
``least_recently_used``: the longest without activity, which here is also to be delivered by search() or context();
``newest``: all but the newest; ``random``: drawn with ``seed``; each until no more than the cap is left.

Leaves go first, and what has become a leaf then, again and again: a memory goes only after everything below it.

Retention was chosen on RealMem's development people, whose sessions hang under projects, among sessions that hang
nowhere. Mis-forgetting in a prototype, at 40 and at 50 % forgotten: the newest kept 20.3 and 25.5 %, the least recently
used 14.9 and 19.5 %, retention by place 3.4 and 5.3 %. All sessions are equally important there; the coefficient of
importance is such that, of memories that were not used, one of 0.9 in no task outlives one of 0.1 anywhere but at the
opening of a task.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from hybridmem import scoring
from hybridmem.config import ForgettingConfig, Policy
from hybridmem.scoring import Floats, Ints

Bools = NDArray[np.bool_]

#: Retention below which ``decay`` takes a memory, where no threshold is given. An event of importance 0.5 and of
#: confidence 0.7 that was never used has fallen to it after 2.5 half-lives, a note of 0.4 after one. A fact, a
#: decision, a preference and what opened a task never do by age alone; contradicted, they may.
THRESHOLD = 0.35
MICROS_PER_DAY = 86_400 * 1_000_000


@dataclass(frozen=True, slots=True)
class Nodes:
    """The memories of a namespace in preorder, the root left out; (n,) each.

    ``parent``: the position of the parent; -1: the root. ``order``: rises with insertion. ``created_at`` and
    ``active_at`` in microseconds since 1970 UTC, ``half_life`` in seconds. ``tokens`` of the content; zeros where
    nobody asks for them. ``forgotten``: are so already. ``counted``: those that the policy is about.
    ``may_go``: those of them that nothing protects.
    """

    parent: Ints
    order: Ints
    is_task: Bools
    importance: Floats
    confidence: Floats
    uses: Ints
    created_at: Ints
    active_at: Ints
    half_life: Floats
    tokens: Ints
    forgotten: Bools
    counted: Bools
    may_go: Bools


@dataclass(frozen=True, slots=True)
class Chosen:
    """What goes, in this order, children before their parents; what would have gone with it, but for being protected;
    and of every memory its ``retention`` and whether it is ``loose`` (hangs under no task)."""

    going: list[int]
    held: list[int]
    retention: Floats
    loose: Bools


# What the tree says


def tasks(parent: Ints, is_task: Bools) -> Ints:
    """(n,) the position of the nearest task at or above each node, -1: there is none. Preorder: parents come first."""
    found = np.full(len(parent), -1, dtype=np.int64)
    for i, above in enumerate(parent.tolist()):
        found[i] = i if is_task[i] else (found[above] if above >= 0 else -1)
    return found


def places(task: Ints, created_at: Ints, order: Ints, counts: Bools) -> Ints:
    """(n,) how many memories of the same task are newer, of those that count; those under no task are one group. 0: it
    is the newest. -1: it does not count."""
    found = np.full(len(task), -1, dtype=np.int64)
    inside = np.flatnonzero(counts)
    by_task = inside[np.lexsort((-order[inside], -created_at[inside], task[inside]))]
    starts = np.flatnonzero(np.diff(task[by_task], prepend=-2))
    lengths = np.diff(np.append(starts, len(by_task)))
    found[by_task] = np.arange(len(by_task)) - np.repeat(starts, lengths)
    return found


def openings(task: Ints, created_at: Ints, order: Ints, is_task: Bools) -> Bools:
    """(n,) whether it is the first memory of its task, forgotten ones included: what is second never becomes it."""
    found = np.zeros(len(task), dtype=np.bool_)
    inside = np.flatnonzero((task >= 0) & ~is_task)
    by_task = inside[np.lexsort((order[inside], created_at[inside], task[inside]))]
    found[by_task[np.diff(task[by_task], prepend=-1) != 0]] = True
    return found


# Retention


def place_recency(place: Ints, half_place: float) -> Floats:
    """``2^(-place / half_place)``: 1 for the newest of its task, 1/2 after ``half_place`` newer ones; 0 for place -1.

    By place and not by the calendar, so that a task that rests does not lose everything while another goes on.
    """
    return np.where(place >= 0, np.exp2(-place / half_place), 0.0)


@dataclass(frozen=True, slots=True)
class Parts:
    """What is to be said for keeping each of n memories, (n,) each, in [0, 1]; by the names of the coefficients.

    ``task``: whether it hangs under one, 0 or 1. ``opening``: whether it is the first of its task, 0 or 1.
    """

    recency: Floats
    task: Floats
    opening: Floats
    frequency: Floats
    importance: Floats
    confidence: Floats


def retention(parts: Parts, rule: ForgettingConfig) -> Floats:
    """(n,) in [0, 1]: the mean of the parts by the coefficients of the configuration. Rises with each part. Parts that
    are alike for all change no order. An own formula: additive, so that no part alone decides."""
    names = [one.name for one in fields(Parts)]
    coefficients = np.array([getattr(rule, name) for name in names], dtype=np.float64)
    coefficients /= coefficients.max()  # so that no size of them overflows
    values: Floats = np.stack([getattr(parts, name) for name in names])
    total: Floats = coefficients @ values / coefficients.sum()
    return np.clip(total, 0.0, 1.0)


# The table


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a policy decides by. ``age`` in days since the last activity; times in the future count as now."""

    nodes: Nodes
    created_at: Ints
    active_at: Ints
    age: Floats
    loose: Bools
    retention: Floats


@dataclass(frozen=True, slots=True)
class _Rule:
    """A policy: ``keys``, the first decides, the lowest goes first; ``takes``: whom it would take at all."""

    keys: Callable[[_Seen, Policy, ForgettingConfig], tuple[NDArray[np.generic], ...]]
    takes: Callable[[_Seen, Policy], Bools] | None = None
    by_calendar: bool = False


def _least_kept(seen: _Seen, policy: Policy, rule: ForgettingConfig) -> tuple[NDArray[np.generic], ...]:
    return seen.retention, seen.active_at, seen.nodes.order


def _drawn(seen: _Seen, policy: Policy, rule: ForgettingConfig) -> tuple[NDArray[np.generic], ...]:
    """By insertion order, so that what is drawn does not depend on how the tree hangs."""
    lots = np.random.default_rng(policy.seed or 0).permutation(len(seen.age))
    drawn = np.empty_like(lots)
    drawn[np.argsort(seen.nodes.order)] = lots
    return (drawn,)


RULES: dict[str, _Rule] = {
    "decay": _Rule(
        _least_kept,
        lambda seen, policy: seen.retention < (THRESHOLD if policy.threshold is None else policy.threshold),
        by_calendar=True,
    ),
    "least_weight": _Rule(_least_kept),
    "age": _Rule(
        lambda seen, policy, rule: (seen.active_at, seen.nodes.order),
        lambda seen, policy: seen.age > (policy.days or 0.0),
    ),
    "least_recently_used": _Rule(lambda seen, policy, rule: (seen.active_at, seen.nodes.order)),
    "newest": _Rule(lambda seen, policy, rule: (seen.created_at, seen.nodes.order)),
    "random": _Rule(_drawn),
}


def choose(nodes: Nodes, policy: Policy, rule: ForgettingConfig, now: int, limit: int | None = None) -> Chosen:
    """What a policy takes.

    :param rule: the coefficients. :param now: microseconds since 1970 UTC.
    :param limit: memories that go at most; None: as many as the policy wants.
    """
    seen = _look(nodes, RULES[policy.policy], rule, now)
    table = RULES[policy.policy]
    keys = table.keys(seen, policy, rule)
    rank = np.empty(len(nodes.parent), dtype=np.int64)
    rank[np.lexsort(keys[::-1])] = np.arange(len(rank))
    wanted = nodes.counted & (table.takes(seen, policy) if table.takes is not None else True)
    going, is_reached = _take(nodes, wanted & nodes.may_go, rank, policy, limit)
    last = int(rank[going].max()) if going else -1
    held = wanted & ~nodes.may_go & ((rank < last) if is_reached else True)
    return Chosen(going, np.flatnonzero(held).tolist(), seen.retention, seen.loose)


def cap(policy: Policy, counted: int) -> int | None:
    """How many memories may be left, where that is a number of memories; the share is of ``counted``."""
    given = [policy.max_nodes, None if policy.max_share is None else int(policy.max_share * counted + 1e-9)]
    return min((one for one in given if one is not None), default=None)


def _look(nodes: Nodes, table: _Rule, rule: ForgettingConfig, now: int) -> _Seen:
    created, active = np.minimum(nodes.created_at, now), np.minimum(nodes.active_at, now)
    seconds = (now - active) / 1e6
    task = tasks(nodes.parent, nodes.is_task)
    if table.by_calendar:
        recency = scoring.recency(seconds, nodes.half_life)
    else:
        recency = place_recency(places(task, created, nodes.order, ~nodes.forgotten), rule.half_place)
    parts = Parts(
        recency,
        # By the calendar everything ages alike, wherever it hangs.
        np.zeros(len(task)) if table.by_calendar else (task >= 0).astype(np.float64),
        openings(task, created, nodes.order, nodes.is_task).astype(np.float64),
        scoring.frequency(nodes.uses),
        nodes.importance,
        nodes.confidence,
    )
    return _Seen(nodes, created, active, seconds / 86_400.0, task < 0, retention(parts, rule))


def _take(nodes: Nodes, takes: Bools, rank: Ints, policy: Policy, limit: int | None) -> tuple[list[int], bool]:
    """Leaves first, the lowest rank first, while more than the cap is left. Also says whether the cap was reached."""
    left, tokens = int(nodes.counted.sum()), int(nodes.tokens[nodes.counted].sum())
    most, most_tokens = cap(policy, left), policy.max_tokens

    def is_over() -> bool:
        if not policy.has_cap:
            return True
        return (most is not None and left > most) or (most_tokens is not None and tokens > most_tokens)

    below = np.bincount(nodes.parent[~nodes.forgotten & (nodes.parent >= 0)], minlength=len(rank))
    ready = [(int(rank[i]), int(i)) for i in np.flatnonzero(takes & (below == 0))]
    heapq.heapify(ready)
    going: list[int] = []
    while ready and is_over() and (limit is None or len(going) < limit):
        _, i = heapq.heappop(ready)
        going.append(i)
        left, tokens = left - 1, tokens - int(nodes.tokens[i])
        above = int(nodes.parent[i])
        if above >= 0:
            below[above] -= 1
            if below[above] == 0 and takes[above]:
                heapq.heappush(ready, (int(rank[above]), above))
    return going, not is_over()

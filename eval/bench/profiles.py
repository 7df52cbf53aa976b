"""Which functions the time of a search and of an open goes to; under the profiler, which makes all of it slower."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from eval.bench.planted import Asked, uid
from eval.bench.searching import PROJECT, Rounds, knowing, search
from eval.bench.stores import Store
from hybridmem import Memory

ROWS = 14


def of(store: Store, rounds: Rounds) -> dict[str, list[dict[str, Any]]]:
    """The dearest functions of ``search`` (of a subtree searched before), ``search_everywhere``,
    ``search_first`` (on a new handle) and ``open``; ms and calls per search or open."""
    asked = store.planted.questions(PROJECT, rounds.cold * 2)
    embedder = knowing(store, asked)
    scope = uid(store.planted.project(PROJECT).start)

    def first() -> None:
        with store.open(embedder) as memory:
            search(memory, asked[0], scope)

    def opened() -> None:
        for _ in range(rounds.opens):
            store.open(embedder).close()

    with store.open(embedder) as memory:
        found = {}
        for name, below in (("search", scope), ("search_everywhere", "namespace")):
            search(memory, asked[0], below)
            found[name] = _profiled(_each(memory, asked, below), len(asked))
    return {**found, "search_first": _profiled(first, 1), "open": _profiled(opened, rounds.opens)}


def _each(memory: Memory, asked: Sequence[Asked], scope: str) -> Callable[[], object]:
    return lambda: [search(memory, question, scope) for question in asked]


def _profiled(work: Callable[[], object], times: int) -> list[dict[str, Any]]:
    profile = cProfile.Profile()
    profile.runcall(work)
    stats: dict[tuple[str, int, str], tuple[int, int, float, float, Any]] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    rows: list[dict[str, Any]] = [
        {
            "function": _name(file, name),
            "calls": round(calls / times, 2),
            "own_ms": round(1000.0 * own / times, 3),
            "ms": round(1000.0 * cumulative / times, 3),
        }
        for (file, _, name), (_, calls, own, cumulative, _) in stats.items()
        if "eval/bench" not in file and not name.startswith("<method 'disable'")
    ]
    # By what a function costs itself; of ours also those whose parts cost the most.
    dearest = sorted(rows, key=lambda row: -row["own_ms"])[:ROWS]
    ours = sorted((row for row in rows if row["function"].startswith("hybridmem/")), key=lambda row: -row["ms"])
    chosen = [*dearest, *[row for row in ours[:ROWS] if row not in dearest]]
    return sorted(chosen, key=lambda row: -row["ms"])


def _name(file: str, name: str) -> str:
    """Without the place on this machine."""
    path = Path(file).as_posix()
    if "/hybridmem/" in path:
        return f"hybridmem/{path.rpartition('/hybridmem/')[2]}:{name}"
    return name if file == "~" else f"{path.rpartition('/')[2]}:{name}"

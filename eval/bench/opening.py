"""How long opening takes against an empty store, and how much memory searching many subtrees takes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eval import results
from eval.bench.searching import Rounds
from eval.bench.stores import Store
from eval.bench.timing import Times, ratio, summary
from hybridmem import Memory
from hybridmem.errors import HybridMemError

EMPTY = "empty"


def opens(stores: Mapping[int, Store], empty: Path, rounds: Rounds) -> dict[str, Any]:
    """ms of ``Memory.open`` of each store and of an empty one, all in turns: in this process, and as the first thing
    that a new process does (without its imports).

    :param empty: a folder for the empty store.
    """
    with Memory.open(empty):
        pass
    places: dict[str, Path] = {EMPTY: empty, **{str(nodes): store.directory for nodes, store in stores.items()}}
    here = {name: Times() for name in places}
    for _ in range(rounds.opens):
        for name, place in places.items():
            memory = here[name].of(_open, place)
            memory.close()
    fresh: dict[str, list[float]] = {name: [] for name in places}
    imports = []
    for _ in range(rounds.processes):
        for name, place in places.items():
            found = child("open", str(place))
            fresh[name].append(found["open"])
            imports.append(found["import"])
    same = {name: times.summary() for name, times in here.items()}
    new = {name: summary(ms) for name, ms in fresh.items()}
    return {
        "same_process": same,
        "new_process": new,
        "import": summary(imports),
        "of_empty": {
            name: {"same_process": ratio(same[name], same[EMPTY]), "new_process": ratio(new[name], new[EMPTY])}
            for name in places
            if name != EMPTY
        },
    }


def resident(store: Store, subtrees: int) -> dict[str, Any] | None:
    """How far resident memory grows while many subtrees of a store are searched twice in turns; None where the system
    does not tell. MB; ``cache_mb`` is what the configuration allows, None if it has no such key."""
    planted = store.planted
    found = child("memory", str(store.directory), str(planted.nodes), str(planted.seed), str(subtrees))
    if found["first_search"] is None:
        return None
    after, half = found["after"], found["subtrees"]
    return {
        "subtrees": half,
        "after_open": round(found["opened"], 1),
        "after_first_search": round(found["first_search"], 1),
        "most_in_first_round": round(max(after[:half]), 1),
        "most_in_second_round": round(max(after[half:]), 1),
        "growth": round(max(after) - found["opened"], 1),
        "cache_mb": found["cache_mb"],
        "all_vectors": round(planted.count * 384 * 4 / 1e6, 1),
    }


def _open(directory: Path) -> Memory:
    return Memory.open(directory, create=False)


def child(*arguments: str) -> dict[str, Any]:
    """Has something measured in a new process, see eval.bench.child: what it printed; nothing if it was to be killed.

    :raises HybridMemError: it failed.
    """
    done = subprocess.run(
        [sys.executable, "-m", "eval.bench.child", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=results.ROOT,
        env={**os.environ, "PYTHONPATH": str(results.ROOT)},
    )
    if done.returncode != (-signal.SIGKILL if arguments[-1] == "killed" else 0):
        raise HybridMemError(f"the process that measures {arguments[0]} failed: {done.stderr.strip()[-500:]}")
    found: dict[str, Any] = json.loads((done.stdout.splitlines() or ["{}"])[-1])
    return found

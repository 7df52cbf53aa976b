"""What is measured in a process of its own: opening a store, and how much memory searching takes.

``python -m eval.bench.child open DIRECTORY`` or ``… memory DIRECTORY NODES SEED SEARCHES``; or ``… answer DIRECTORY``
of a store that was made by ``… fill DIRECTORY COUNT clean`` or ``killed``; or ``… beside write`` or ``search``, see
eval.bench.forgetting; prints one JSON document.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any


def resident_mb() -> float | None:
    """Memory that this process holds at the moment, in MB of 1,000,000 bytes; None where that cannot be read."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def opening(directory: str) -> dict[str, Any]:
    """ms that ``import hybridmem`` and the first open of the process take."""
    began = time.perf_counter()
    from hybridmem import Memory

    imported = time.perf_counter()
    memory = Memory.open(directory, create=False)
    opened = time.perf_counter()
    memory.close()
    return {"import": 1000.0 * (imported - began), "open": 1000.0 * (opened - imported)}


def memory(directory: str, nodes: int, seed: int, searches: int) -> dict[str, Any]:
    """Resident memory after open, after each first search of a subtree, and at the end of two rounds through all."""
    from eval.bench.planted import PROJECTS, Planted, PlantedEmbedder, uid
    from hybridmem import Memory

    planted = Planted(nodes, seed)
    # Whole projects, which are big, and sessions, which are many; by turns, so that no order is a good one.
    spans = [planted.project(project) for project in range(PROJECTS)]
    inner = [session for project in range(PROJECTS) for session in planted.sessions(project)]
    scopes = [uid(span.start) for span in [*spans, *inner[:: max(1, len(inner) // max(1, searches))][:searches]]]
    embedder = PlantedEmbedder(planted)
    config = {"index": {"background": False}}
    # What any search of a process loads once is no part of the cache: so one of a store with a single node comes first.
    with (
        tempfile.TemporaryDirectory() as empty,
        Memory.open(Path(empty) / "store", embedder=embedder, config=config) as one,
    ):
        one.add("warm up 预热")
        one.search("warm up 预热", 1)
    with Memory.open(directory, embedder=embedder, config=config, create=False) as handle:
        opened = resident_mb()
        handle.search("first 第一", 1, scope=scopes[-1])
        first = resident_mb()
        held = []
        for place, scope in enumerate([*scopes, *scopes]):
            handle.search(f"question 问题 {place}", 10, scope=scope)
            held.append(resident_mb())
        limit = getattr(handle.config.index, "cache_mb", None)
    return {"opened": opened, "first_search": first, "after": held, "subtrees": len(scopes), "cache_mb": limit}


def answer(directory: str) -> dict[str, Any]:
    """ms until the store is open, has told where the agent stood, and has answered a search; and how much waited."""
    from eval.bench.planted import Planted, PlantedEmbedder
    from hybridmem import Memory

    embedder = PlantedEmbedder(Planted(1_000, 0))
    began = time.perf_counter()
    memory = Memory.open(directory, embedder=embedder, config={"index": {"background": False}}, create=False)
    opened = time.perf_counter()
    point = memory.resume()
    told = time.perf_counter()
    waiting, inside = memory.pending(), embedder.spent()
    asked = time.perf_counter()
    found = memory.search("退回的发票 refunded order 17", 10)
    ended = time.perf_counter()
    memory.close()
    assert point.next_step
    assert found.hits
    search = ended - asked - (embedder.spent() - inside)
    steps = {"open": opened - began, "resume": told - opened, "search": search, "all": told - began + search}
    return {**{name: 1000.0 * seconds for name, seconds in steps.items()}, "waiting": waiting}


def main(arguments: list[str]) -> None:
    """Does what the first argument names."""
    if arguments[0] == "open":
        print(json.dumps(opening(arguments[1])))
    elif arguments[0] == "answer":
        print(json.dumps(answer(arguments[1])))
    elif arguments[0] == "beside":
        from eval.bench.forgetting import beside

        role, directory, nodes, seed, count, stop = arguments[1:7]
        beside(role, directory, int(nodes), int(seed), int(count), stop)
    elif arguments[0] == "fill":
        from eval.bench.recovery import fill

        fill(arguments[1], int(arguments[2]), arguments[3])
    else:
        print(json.dumps(memory(arguments[1], *map(int, arguments[2:5]))))


if __name__ == "__main__":
    main(sys.argv[1:])

"""Half of a store forgotten at once: how long that takes, how long others wait meanwhile, and what they find.

Two processes work beside the one that forgets: one writes, a memory per transaction, and one searches a subtree and
looks at every hit. They stop when it is done.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from eval import results
from eval.bench.planted import Asked, Planted, PlantedEmbedder, uid
from eval.bench.searching import PROJECT, Rounds, knowing
from eval.bench.stores import Store
from eval.bench.timing import Times, ratio
from hybridmem import Memory
from hybridmem.errors import HybridMemError

#: The share of the memories that is left.
LEFT = 0.5
#: Hits that are asked for.
K = 10
_PAUSE_SECONDS = 0.005
_CONFIG = {"index": {"background": False}}
_READY = "ready"


def forgetting(store: Store, rounds: Rounds) -> dict[str, Any]:
    """In a copy of a store, whose ``seconds`` are those of the one call; ``add`` of another process before and
    meanwhile, in ms; and of the searches meanwhile how many found what was forgotten already (``ghosts``), missed the
    pinned memory that they asked for (``missed``), or returned fewer than ten (``short``)."""
    planted = store.planted
    asked = planted.questions(PROJECT, rounds.searches)
    with tempfile.TemporaryDirectory(dir=store.directory.parent) as folder:
        copy, stop = store.copy(Path(folder) / "store"), Path(folder) / "stop"
        with Memory.open(copy, embedder=knowing(store, asked), config=_CONFIG) as memory:
            for question in asked:  # so that what is asked for is there at the end as well
                memory.pin(uid(question.target))
            live = memory.stats().by_state["live"]
            others = [begin(role, copy, planted, rounds, stop) for role in ("search", "write")]
            try:
                began = time.perf_counter()
                report = memory.forget(policy={"policy": "least_weight", "max_share": LEFT})
                seconds = time.perf_counter() - began
                stop.touch()
                searched, wrote = (end(other) for other in others)
            finally:
                for other in others:
                    other.kill()
                    other.wait()
            gone = {
                id: one.sequence
                for one in memory.operations()
                if one.kind == "forget"
                for id, *_ in one.payload["states"]
            }
            timeout = memory.config.store.busy_timeout_seconds
    return {
        "live": live,
        "forgotten": len(report.pruned),
        "seconds": round(seconds, 3),
        "transactions": len(report.sequences),
        "busy_timeout_ms": 1000.0 * timeout,
        "times": {"before": wrote["before"], "meanwhile": wrote["meanwhile"], "search": searched["times"]},
        "longest_ms": round(wrote["longest"], 1),
        "failed": wrote["failed"],
        "meanwhile_of_before": ratio(wrote["meanwhile"], wrote["before"]),
        "searches": len(searched["found"]),
        "ghosts": sum(any(gone.get(id, head + 1) <= head for id in ids) for head, ids, _ in searched["found"]),
        "missed": sum(not is_there for _, _, is_there in searched["found"]),
        "short": sum(len(ids) < K for _, ids, _ in searched["found"]),
    }


def beside(role: str, directory: str, nodes: int, seed: int, count: int, stop: str) -> None:
    """What the processes beside do, until the file ``stop`` is there; prints one JSON document at its end."""
    planted = Planted(nodes, seed)
    asked = planted.questions(PROJECT, count)
    embedder = PlantedEmbedder(planted)
    embedder.learn([question.text for question in asked], np.stack([question.vector for question in asked]))
    with Memory.open(directory, agent=role, embedder=embedder, config=_CONFIG, create=False) as memory:
        scope, end = uid(planted.project(PROJECT).start), Path(stop)
        print(json.dumps(_write(memory, count, end) if role == "write" else _search(memory, asked, scope, end)))


def _write(memory: Memory, count: int, stop: Path) -> dict[str, Any]:
    before, meanwhile, failed = Times(), Times(), 0
    parent = uid(0)
    memory.add("第一 first", parent=parent)
    for number in range(count):
        before.of(lambda n: memory.add(f"之前 before {n}", parent=parent), number)
        time.sleep(_PAUSE_SECONDS)
    print(_READY, flush=True)
    number = 0
    while number == 0 or not stop.exists():
        try:
            meanwhile.of(lambda n: memory.add(f"同时 meanwhile {n}", parent=parent), number)
        except HybridMemError:
            failed += 1
        number += 1
        time.sleep(_PAUSE_SECONDS)
    return {
        "before": before.summary(),
        "meanwhile": meanwhile.summary(),
        "longest": max(meanwhile.ms),
        "failed": failed,
    }


def _search(memory: Memory, asked: Sequence[Asked], scope: str, stop: Path) -> dict[str, Any]:
    """Of every search: the last entry of the log before it began, the ids it found, and whether its target is there."""
    times = Times()
    found: list[tuple[int, list[str], bool]] = []
    memory.search(asked[0].text, K, scope=scope)
    print(_READY, flush=True)
    last = memory.stats().operations
    while not found or not stop.exists():
        question = asked[len(found) % len(asked)]
        last = next((one.sequence for one in reversed(memory.operations(last))), last)
        ids = [hit.id for hit in times.of(lambda q: memory.search(q, K, scope=scope), question.text)]
        found.append((last, ids, uid(question.target) in ids))
    return {"times": times.summary(), "found": found}


def begin(role: str, copy: Path, planted: Planted, rounds: Rounds, stop: Path) -> subprocess.Popen[str]:
    """Starts a process and waits until it is at work."""
    arguments = ("beside", role, str(copy), str(planted.nodes), str(planted.seed), str(rounds.searches), str(stop))
    found = subprocess.Popen(
        [sys.executable, "-m", "eval.bench.child", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        cwd=results.ROOT,
        env={**os.environ, "PYTHONPATH": str(results.ROOT)},
    )
    assert found.stdout is not None
    if found.stdout.readline().strip() != _READY:
        found.kill()
        raise HybridMemError(f"the process that was to {role} beside did not begin")
    return found


def end(process: subprocess.Popen[str]) -> dict[str, Any]:
    said, _ = process.communicate()
    if process.returncode != 0:
        raise HybridMemError(f"a process beside failed with {process.returncode}")
    found: dict[str, Any] = json.loads(said)
    return found

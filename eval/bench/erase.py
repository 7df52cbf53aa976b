"""1,000 memories of a store erased in one call: how long that takes, each part of it, and how long others wait.

As in eval.bench.forgetting two processes work beside it, of which one writes and one searches. By itself, also of an
encrypted store: ``python -m eval.bench.erase FOLDER NODES [--encrypted]``; prints one JSON document.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from eval.bench import forgetting, stores
from eval.bench.planted import PlantedEmbedder
from eval.bench.searching import Rounds
from eval.bench.stores import Store
from eval.bench.timing import ratio
from hybridmem import Memory, encrypt, verify_erasure

#: How many memories are erased, at the most.
COUNT = 1_000
_CONFIG = {"index": {"background": False}}
#: Where the processes beside look for the key, and one that is good enough for planted texts.
_VARIABLE, _KEY = "HYBRIDMEM_KEY", "00" * 32


def erasing(store: Store, rounds: Rounds, *, encrypted: bool = False) -> dict[str, Any]:
    """In a copy of a store with its vectors and one backup: ``seconds`` of the one call and its ``parts``; ``add`` of
    another process before and meanwhile, in ms; and how many of its searches found what was erased (``ghosts``)."""
    embedder = PlantedEmbedder(store.planted)
    with _key_at_hand(encrypted), tempfile.TemporaryDirectory(dir=store.directory.parent) as folder:
        copy, stop = Path(folder) / "store", Path(folder) / "stop"
        shutil.copytree(store.directory, copy)
        if encrypted:
            encrypt(copy, embedder=embedder)
        with Memory.open(copy, embedder=embedder, config=_CONFIG) as memory:
            group, erased = _gather(memory)
            memory.flush()
            memory.backup()
            live = memory.stats().by_state["live"]
            others = [forgetting.begin(role, copy, store.planted, rounds, stop) for role in ("search", "write")]
            try:
                parts = _Parts()
                receipt = memory.erase(group, subtree=True, progress=parts)
                seconds = parts.end()
                stop.touch()
                searched, wrote = (forgetting.end(other) for other in others)
            finally:
                for other in others:
                    other.kill()
                    other.wait()
            gone = max(one.sequence for one in memory.operations() if one.kind == "purge")
            timeout = memory.config.store.busy_timeout_seconds
        check = verify_erasure(copy)
    return {
        "live": live,
        "encrypted": encrypted,
        "erased": receipt.counts["memories"],
        "seconds": round(seconds, 3),
        "parts": {name: round(one, 3) for name, one in parts.found.items()},
        "left": [*receipt.left, *check.found],
        "busy_timeout_ms": 1000.0 * timeout,
        "times": {"before": wrote["before"], "meanwhile": wrote["meanwhile"], "search": searched["times"]},
        "meanwhile_of_before": ratio(wrote["meanwhile"], wrote["before"]),
        "longest_ms": round(wrote["longest"], 1),
        "failed": wrote["failed"],
        "searches": len(searched["found"]),
        "ghosts": sum(head >= gone and not erased.isdisjoint(ids) for head, ids, _ in searched["found"]),
    }


@contextlib.contextmanager
def _key_at_hand(encrypted: bool) -> Iterator[None]:
    """For the processes beside as well."""
    before = os.environ.get(_VARIABLE)
    if encrypted:
        os.environ[_VARIABLE] = _KEY
    try:
        yield
    finally:
        os.environ.pop(_VARIABLE, None)
        if before is not None:
            os.environ[_VARIABLE] = before


class _Parts:
    """Hears of the progress of one call; ``found``: the seconds of each part."""

    def __init__(self) -> None:
        self.found: dict[str, float] = {}
        self._began = self._since = time.perf_counter()
        self._what = "rows"

    def __call__(self, what: str, done: int, total: int) -> None:
        now = time.perf_counter()
        self.found[self._what] = self.found.get(self._what, 0.0) + now - self._since
        self._what, self._since = what, now

    def end(self) -> float:
        """Seconds in all."""
        self(self._what, 0, 0)
        return time.perf_counter() - self._began


def _gather(memory: Memory) -> tuple[str, set[str]]:
    """Moves memories below one node, from all over the store; their ids with that of the node."""
    group = memory.add("to be erased 要删除", type="event", parent="root")
    leaves = [node.id for node in memory.walk() if node.type == "event" and node.id != group.id]
    chosen = leaves[:: max(1, len(leaves) // COUNT)][: COUNT - 1]
    for id in chosen:
        memory.move(id, group.id)
    return group.id, {group.id, *chosen}


if __name__ == "__main__":
    place, size = Path(sys.argv[1]), int(sys.argv[2])
    made = stores.get(size, 0, place, lambda what, count: None)
    print(json.dumps(erasing(made, Rounds(), encrypted="--encrypted" in sys.argv), indent=1))

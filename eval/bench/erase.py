"""How long erasing 1,000 of the memories of a store takes, and each part of it: ``python -m eval.bench.erase STORE``.

The store is a copy that may be changed. Prints JSON: seconds by step, in all, and what the receipt says.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from hybridmem import Memory, verify_erasure


def run(store: Path, count: int = 1_000, config: dict[str, Any] | None = None) -> dict[str, Any]:
    """Erases ``count`` memories below one node in one call."""
    steps: dict[str, float] = {}
    began = time.perf_counter()
    last, since = "rows", began

    def progress(what: str, done: int, total: int) -> None:
        nonlocal last, since
        now = time.perf_counter()
        steps[last] = steps.get(last, 0.0) + now - since
        last, since = what, now

    with Memory.open(store, config=config or {"index": {"background": False}}) as memory:
        nodes = memory.stats().nodes
        group = memory.add("to be erased", type="event", parent="root")
        chosen = [node for node in memory.walk() if node.type == "event" and node.id != group.id][: count - 1]
        for node in chosen:
            memory.move(node.id, group.id)
        began = since = time.perf_counter()
        receipt = memory.erase(group.id, subtree=True, progress=progress)
        seconds = time.perf_counter() - began
        size = (store / "tree.db").stat().st_size
    check = verify_erasure(store)
    return {
        "nodes": nodes, "erased": receipt.counts["memories"], "seconds": round(seconds, 2),
        "parts": {name: round(one, 2) for name, one in steps.items()},
        "complete": receipt.complete, "left": receipt.left, "found": check.found, "database_bytes": size,
    }  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(run(Path(sys.argv[1])), indent=1))

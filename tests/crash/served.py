"""What the tests of a Chroma server share."""

from __future__ import annotations

from typing import Any

from hybridmem import Memory

from .helpers import (
    CONFIG,
    QUIET,
    TEXTS,
    TIMEOUT,
)


def quiet(url: str, **index: Any) -> dict[str, Any]:
    """Nothing happens behind the back of a test; searching always asks Chroma."""
    return {**QUIET, "index": {**QUIET["index"], "url": url, "timeout_seconds": TIMEOUT, **index}}


def busy(url: str, **index: Any) -> dict[str, Any]:
    """With a thread behind the writes."""
    return {**CONFIG, "index": {**CONFIG["index"], "url": url, "timeout_seconds": TIMEOUT, **index}}


def add(memory: Memory, first: int, count: int) -> None:
    numbers = range(first, first + count)
    memory.add_many(
        [{"content": TEXTS[one % 3].format(one), "id": f"n{one}", "type": "event", "parent": "root"} for one in numbers]
    )


def by_vector(memory: Memory, number: int) -> bool:
    """Whether the server names a memory first when it is asked for its very text. Raises if it does not answer."""
    embedder, _ = memory._model.get()
    found = memory._indexer.query(memory._workspace.id, embedder.embed_query(TEXTS[number % 3].format(number)), 1)
    with memory._workspace.read() as tx:
        return tx.execute("SELECT uid FROM node WHERE id = ?", (found[0],)).fetchone()[0] == f"n{number}"

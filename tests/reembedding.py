"""What the tests of changing the embedding model share: another model, a store, and a look at all of its vectors."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import numpy as np
from verified import assert_verified

from hybridmem import Memory
from hybridmem.config import EmbeddingConfig
from hybridmem.embed.hashing import HashingEmbedder
from hybridmem.pieces import pieces
from hybridmem.ports import EmbedderIdentity, Vectors

TEXTS = (
    "财务退回第{0}号报销单，原因是发票信息不清晰",
    "order {0} was shipped late and the customer asks for a refund",
    "数据库 migration {0} 停机窗口是 Saturday 凌晨",
)
RULE = EmbeddingConfig()
SEARCHED = {"exact_limit": 0, "batch_size": 7}


class Turned:
    """The hashing embedder's vectors, mirrored by a fixed permutation: another model of the same width."""

    def __init__(self, dimension: int = 32, name: str = "turned", seed: int = 7) -> None:
        self._inner = HashingEmbedder(dimension)
        self._order = np.random.default_rng(seed).permutation(dimension)
        self._identity = EmbedderIdentity("tests", name, "1", dimension)
        self.calls = 0
        #: Called before every batch.
        self.hook: Callable[[Sequence[str]], None] = lambda texts: None

    @property
    def identity(self) -> EmbedderIdentity:
        return self._identity

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        self.calls += 1
        self.hook(texts)
        return -self._inner.embed_documents(texts)[:, self._order]

    def embed_query(self, text: str) -> Vectors:
        return -self._inner.embed_query(text)[self._order]


def fill(memory: Memory, count: int = 60) -> None:
    memory.add_many([{"content": TEXTS[one % 3].format(one), "id": f"n{one}", "type": "event"} for one in range(count)])
    memory.add("很长的内容 a long content。" * 120, id="long")
    assert memory.flush() == 0


def vectors(memory: Memory) -> dict[str, Any]:
    """uid → (p, d), as SQLite has them."""
    with closing(sqlite3.connect(memory.path / "tree.db")) as database:
        rows = database.execute(
            """SELECT n.uid, e.vector FROM embedding e JOIN node n ON n.id = e.node_id
            WHERE n.namespace_id = ? AND n.state = 'live' ORDER BY n.id, e.piece""",
            (memory._workspace.id,),
        ).fetchall()
    found: dict[str, list[Any]] = {}
    for uid, vector in rows:
        found.setdefault(uid, []).append(np.frombuffer(vector, dtype="<f4"))
    return found


def check(memory: Memory, embedder: Any, *, has_begun: bool = False) -> None:
    """Every live content has the vectors of this model, in SQLite and in the index, and nothing else is there, but for
    those of a change that ``has_begun``."""
    assert memory.pending() == 0
    held = vectors(memory)
    nodes = {node.id: node for node in memory.walk() if node.parent_id is not None and node.state == "live"}
    assert set(held) == set(nodes)
    for id, node in nodes.items():
        expected = embedder.embed_documents(pieces(node.content, RULE.piece_tokens, RULE.piece_overlap))
        np.testing.assert_allclose(np.stack(held[id]), expected, atol=1e-6)
    some = next(iter(nodes.values()))
    found = memory._indexer.query(memory._workspace.id, embedder.embed_query(some.content), 1)
    with memory._workspace.read() as tx:
        assert tx.execute("SELECT uid FROM node WHERE id = ?", (found[0],)).fetchone()[0] == some.id
        assert bool(tx.execute("SELECT count(*) FROM embedding_next").fetchone()[0]) == has_begun
    assert memory.search(some.content, k=3)[0].score_details.vector is not None
    assert memory.search(some.content, k=3).warnings == ()
    assert_verified(memory)


def interrupt_at(wanted: int) -> Callable[[int, int], None]:
    def progress(done: int, total: int) -> None:
        if done >= wanted:
            raise KeyboardInterrupt

    return progress

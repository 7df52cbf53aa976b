"""A memory whose embeddings are made by hand, and what arithmetic says of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridmem import Memory
from hybridmem.index.pool import Pool
from hybridmem.index.view import Views
from hybridmem.ports import Vectors
from hybridmem.store import outbox

DIMENSION = 8
PRIOR = 20.0
random = np.random.default_rng(5)


def units(count: int) -> Vectors:
    rows = random.normal(size=(count, DIMENSION)).astype(np.float32) + 1.0  # in a cone, as real ones are
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


MEAN = units(50).mean(axis=0)


class Filled:
    """A memory whose embeddings are made by hand: content → its vectors, (p, d)."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.vectors: dict[int, Vectors] = {}

    def add(self, *counts: int, parent: str = "root") -> list[str]:
        """One node for each number of pieces; 0: it waits for its embedding."""
        items = [{"content": f"记忆 memory {random.random()}", "parent": parent} for _ in counts]
        nodes = self.memory.add_many(items)
        self.embed(*counts)
        return [node.id for node in nodes]

    def embed(self, *counts: int) -> None:
        """Gives the nodes that wait, oldest first, so many pieces each."""
        with self.memory._workspace.write() as tx:
            for item, count in zip(outbox.unembedded(tx, 10_000), counts, strict=True):
                if count:
                    self.vectors[item.node_id] = units(count)
                    outbox.save(tx, item, self.vectors[item.node_id])

    def pool(self, views: Views, id: str | None = None) -> Pool:
        with self.memory._workspace.read() as tx:
            return views.subtree(tx, self.path(id))

    def path(self, id: str | None = None) -> str:
        node = self.memory.root() if id is None else self.memory.get(id)
        with self.memory._workspace.read() as tx:
            found = tx.execute("SELECT path FROM node WHERE uid = ?", (node.id,)).fetchone()[0]
        return str(found)

    def expected(self, pool: Pool, query: Vectors) -> tuple[list[float], list[float]]:
        """By the plain formula, node by node."""
        known = {
            node_id: self.vectors[node_id].astype(np.float64)
            for node_id in pool.ids.tolist()
            if node_id in self.vectors
        }
        total = sum((rows.mean(axis=0) for rows in known.values()), PRIOR * MEAN.astype(np.float64))
        mean = total / (len(known) + PRIOR)
        raw, centred = [], []
        for node_id in pool.ids.tolist():
            rows = known.get(node_id)
            raw.append(0.0 if rows is None else max(float(row @ query) for row in rows))
            centred.append(0.0 if rows is None else max(cosine(row - mean, query - mean) for row in rows))
        return raw, centred

    def check(self, pool: Pool) -> None:
        for query in units(3):
            raw, centred = pool.similarity(query, MEAN, PRIOR)
            expected_raw, expected_centred = self.expected(pool, query)
            np.testing.assert_allclose(raw, expected_raw, atol=1e-5)
            np.testing.assert_allclose(centred, expected_centred, atol=1e-5)
        assert pool.embedded.tolist() == [node_id in self.vectors for node_id in pool.ids.tolist()]


def cosine(a: Any, b: Any) -> float:
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def views_of(filled: Filled, **limits: Any) -> Views:
    return Views(filled.memory._workspace.id, **limits)

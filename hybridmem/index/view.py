"""What a search ranks, in memory: the structure, weights and vectors of a subtree as arrays, followed by sequence.

A view belongs to one handle. It is rebuilt when the operation log of its namespace has moved on, and takes over only
the embeddings that are new; vectors of a namespace stay in one growing matrix.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridmem.ports import Vectors
from hybridmem.scoring import Floats, Ints
from hybridmem.store import log, outbox, tree


@dataclass(frozen=True, slots=True)
class Pool:
    """n nodes in preorder, as hybridmem.scoring wants them.

    ``ids`` (n,) internal ids; ``types`` (n,) words; ``active_at`` (n,) microseconds; ``vectors`` (n, d) with zero rows
    where ``embedded`` (n,) is False; ``mean`` (d,) of the embedded ones.
    """

    ids: Ints
    parent: Ints
    end: Ints
    depth: Ints
    types: NDArray[np.str_]
    importance: Floats
    confidence: Floats
    uses: Ints
    active_at: Ints
    lengths: Ints
    speakers: NDArray[np.str_]
    created_at: Ints
    embedded: NDArray[np.bool_]
    vectors: Vectors
    mean: Vectors

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def subtree(self) -> NDArray[np.bool_]:
        """(n,) which nodes count as subtrees: those with something below them, the root of the namespace excepted."""
        return (self.end > np.arange(len(self)) + 1) & (self.depth > 0)

    def positions(self, ids: Sequence[int]) -> Ints:
        """The position of each internal id in the pool; -1 for those that are not in it."""
        if not len(self.ids):
            return np.full(len(ids), -1, dtype=np.int64)
        wanted = np.asarray(ids, dtype=np.int64)
        order = np.argsort(self.ids)
        place = np.minimum(np.searchsorted(self.ids, wanted, sorter=order), len(self.ids) - 1)
        found = order[place]
        return np.asarray(np.where(self.ids[found] == wanted, found, -1), dtype=np.int64)


class Views:
    """The pools of one namespace. Not thread-safe: the handle locks around it."""

    def __init__(self, namespace: int) -> None:
        self._namespace = namespace
        # internal id → (row of the matrix, revision it was made from)
        self._rows: dict[int, tuple[int, int]] = {}
        self._matrix: Vectors = np.zeros((0, 0), dtype=np.float32)
        self._last_embedding = 0
        self._cached: tuple[tuple[int, int, str], Pool] | None = None

    def subtree(self, tx: sqlite3.Connection, path: str) -> Pool:
        """Everything live at and below a path, with all its vectors; kept until the log or the embeddings move on."""
        sequence, _ = log.head(tx, self._namespace)
        self._follow(tx)
        key = (sequence, self._last_embedding, path)
        if self._cached is None or self._cached[0] != key:
            self._cached = (key, self._with_known_vectors(tree.scan(tx, self._namespace, [path])))
        return self._cached[1]

    def selection(self, tx: sqlite3.Connection, paths: Sequence[str], ids: Sequence[int]) -> Pool:
        """The subtrees at these paths and these single nodes; reads just their vectors and keeps nothing."""
        return self.of(tx, tree.scan(tx, self._namespace, paths, ids))

    def of(
        self, tx: sqlite3.Connection, rows: Sequence[tuple[Any, ...]], without: frozenset[int] = frozenset()
    ) -> Pool:
        """These rows of tree.scan(), with the vectors of all but the nodes ``without``; keeps nothing."""
        found = outbox.vectors_of(tx, [row[0] for row in rows if row[0] not in without])
        width = len(next(iter(found.values()))) if found else 0
        vectors = np.zeros((len(rows), width), dtype=np.float32)
        for position, row in enumerate(rows):
            vector = found.get(row[0])
            if vector is not None and len(vector) == width:
                vectors[position] = vector
        return _pool(rows, vectors)

    def _follow(self, tx: sqlite3.Connection) -> None:
        """Takes over the embeddings made since the last time."""
        new = outbox.embedded_since(tx, self._namespace, self._last_embedding)
        if not new:
            return
        vectors = [np.frombuffer(blob, dtype="<f4") for _, _, _, blob in new]
        width = len(vectors[-1])
        if self._matrix.shape[1] != width:
            self._matrix, self._rows = np.zeros((0, width), dtype=np.float32), {}
        start = len(self._matrix)
        self._matrix = np.concatenate([self._matrix, np.stack(vectors)])
        self._rows.update({node: (start + place, revision) for place, (_, node, revision, _) in enumerate(new)})
        self._last_embedding = new[-1][0]

    def _with_known_vectors(self, rows: Sequence[tuple[Any, ...]]) -> Pool:
        """An embedding of an older content does not count: it is compared by revision."""
        nothing = (-1, -1)
        found = ((self._rows.get(row[0], nothing), row[10]) for row in rows)
        places = np.array([place if made == revision else -1 for (place, made), revision in found], dtype=np.int64)
        vectors = np.zeros((len(rows), self._matrix.shape[1]), dtype=np.float32)
        known = places >= 0
        vectors[known] = self._matrix[places[known]]
        return _pool(rows, vectors)


def _pool(rows: Sequence[tuple[Any, ...]], vectors: Vectors) -> Pool:
    columns = list(zip(*rows, strict=True)) if rows else [()] * 13
    parent, end = _ranges(columns[9])
    embedded = np.any(vectors != 0, axis=1) if vectors.shape[1] else np.zeros(len(rows), dtype=np.bool_)
    mean = vectors[embedded].mean(axis=0) if embedded.any() else np.zeros(vectors.shape[1], dtype=np.float32)
    return Pool(
        ids=np.array(columns[0], dtype=np.int64),
        parent=parent,
        end=end,
        depth=np.array(columns[2], dtype=np.int64),
        types=np.array(columns[3], dtype=np.str_),
        importance=np.array(columns[4], dtype=np.float64),
        confidence=np.array(columns[5], dtype=np.float64),
        uses=np.array(columns[6], dtype=np.int64),
        active_at=np.array(columns[7], dtype=np.int64),
        lengths=np.array(columns[8], dtype=np.int64),
        speakers=np.array(columns[11], dtype=np.str_),
        created_at=np.array(columns[12], dtype=np.int64),
        embedded=embedded,
        vectors=vectors,
        mean=mean,
    )


def _ranges(paths: Sequence[str]) -> tuple[Ints, Ints]:
    """For paths in order: the position of the nearest ancestor among them (-1: none) and the end of each subtree."""
    parent = np.full(len(paths), -1, dtype=np.int64)
    end = np.full(len(paths), len(paths), dtype=np.int64)
    open_: list[int] = []
    for position, path in enumerate(paths):
        while open_ and not path.startswith(paths[open_[-1]]):
            end[open_.pop()] = position
        if open_:
            parent[position] = open_[-1]
        open_.append(position)
    return parent, end

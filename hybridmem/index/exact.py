"""Exact nearest neighbours in numpy: ranking inside a subtree, and the oracle that tests hold Chroma against. Pure."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hybridmem.errors import IndexUnavailable
from hybridmem.ports import Vectors


def cosine(matrix: Vectors, vector: Vectors) -> Vectors:
    """Cosine similarities in [-1, 1].

    :param matrix: shape (n, d), rows L2-normalised.
    :param vector: shape (d,), L2-normalised.
    :return: shape (n,), float32.
    """
    if not len(matrix):
        return np.zeros(0, dtype=np.float32)
    result: Vectors = np.clip(matrix @ vector, -1.0, 1.0).astype(np.float32, copy=False)
    return result


def top_k(scores: NDArray[np.floating], k: int) -> NDArray[np.intp]:
    """Positions of the ``k`` highest scores, highest first; of equal ones the lower position first.

    :param scores: shape (n,), without NaN.
    :param k: how many, ≥ 0; more than n gives all n.
    """
    n = len(scores)
    k = min(k, n)
    if k <= 0:
        return np.zeros(0, dtype=np.intp)
    if k < n:
        # Every position that could win, ties at the border included; the partition alone would pick among those freely.
        border = np.partition(scores, n - k)[n - k]
        candidates = np.flatnonzero(scores >= border)
    else:
        candidates = np.arange(n)
    order = np.argsort(-scores[candidates], kind="stable")
    return candidates[order][:k]


class ExactIndex:
    """A ``VectorIndex`` in memory. Safe to share between threads; gone with the process."""

    def __init__(self, dimension: int) -> None:
        """:param dimension: width of every vector, ≥ 1."""
        self._dimension = dimension
        self._vectors: dict[int, Vectors] = {}
        self._stacked: tuple[list[int], Vectors] | None = None
        self._lock = threading.Lock()

    def upsert(self, ids: Sequence[int], vectors: Vectors) -> None:
        """Adds or replaces; ``vectors`` has shape (n, d).

        :raises IndexUnavailable: wrong shape, NaN, infinity or a zero vector; nothing is stored then.
        """
        rows = checked_vectors(ids, vectors, self._dimension)
        with self._lock:
            self._vectors.update((int(one), rows[position].copy()) for position, one in enumerate(ids))
            self._stacked = None

    def delete(self, ids: Sequence[int]) -> None:
        """Removes; unknown ids are ignored."""
        with self._lock:
            for one in ids:
                self._vectors.pop(int(one), None)
            self._stacked = None

    def query(self, vector: Vectors, k: int) -> tuple[list[int], list[float]]:
        """The ``k`` nearest ids with their cosine similarity in [-1, 1], nearest first; ties by lower id.

        :raises IndexUnavailable: the vector has the wrong length, or holds NaN or infinity.
        """
        query = checked_query(vector, self._dimension)
        with self._lock:
            if self._stacked is None:
                ids = sorted(self._vectors)
                empty = np.zeros((0, self._dimension), dtype=np.float32)
                self._stacked = ids, np.stack([self._vectors[one] for one in ids]) if ids else empty
            ids, matrix = self._stacked
        scores = cosine(matrix, query)
        best = top_k(scores, k)
        return [ids[position] for position in best], [float(scores[position]) for position in best]

    def ids(self) -> set[int]:
        """Every id in the index."""
        with self._lock:
            return set(self._vectors)


def checked_vectors(ids: Sequence[int], vectors: Vectors, dimension: int) -> Vectors:
    """The vectors as float32 of shape (n, dimension).

    :raises IndexUnavailable: another shape, NaN, infinity or a zero vector, which has no direction.
    """
    rows: Vectors = np.asarray(vectors, dtype=np.float32)
    if len(ids) == 0 and rows.size == 0:
        return rows.reshape(0, dimension)
    if rows.shape != (len(ids), dimension):
        raise IndexUnavailable(f"vectors have shape {rows.shape}, not ({len(ids)}, {dimension})")
    if not np.isfinite(rows).all():
        raise IndexUnavailable("a vector holds NaN or infinity")
    if not rows.any(axis=1).all():
        raise IndexUnavailable("a vector is all zero")
    return rows


def checked_query(vector: Vectors, dimension: int) -> Vectors:
    """The query vector as float32 of shape (dimension,).

    :raises IndexUnavailable: another shape, NaN or infinity: those would give an arbitrary order.
    """
    query: Vectors = np.asarray(vector, dtype=np.float32)
    if query.shape != (dimension,):
        raise IndexUnavailable(f"the query vector has shape {query.shape}, not ({dimension},)")
    if not np.isfinite(query).all():
        raise IndexUnavailable("the query vector holds NaN or infinity")
    return query

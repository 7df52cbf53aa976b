"""What a search ranks, in memory: the structure, weights and vectors of a subtree as arrays, followed by sequence.

A view belongs to one handle. It is rebuilt when the operation log of its namespace has moved on, and takes over only
the embeddings that are new; vectors of a namespace stay in one growing matrix, a row per piece (hybridmem.pieces), as
long as they fit into the memory that they are given.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridmem.config import IndexConfig
from hybridmem.ports import Vectors
from hybridmem.scoring import Floats, Ints
from hybridmem.store import log, outbox, tree

DEFAULTS = IndexConfig()
MEGABYTE = 1_000_000
#: Rows read at a time.
PAGE = 10_000
#: What is shorter has no direction.
SMALLEST = 1e-9
#: The span of a node without vectors.
NOTHING = (0, 0)


@dataclass(frozen=True, slots=True)
class Pool:
    """n nodes in preorder, as hybridmem.scoring wants them.

    ``ids`` (n,) internal ids; ``types`` (n,) words; ``active_at`` (n,) microseconds; ``embedded`` (n,) which have
    vectors, and ``pieces`` those vectors.
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
    pieces: Pieces

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

    def similarity(self, vector: Vectors, prior_mean: Vectors, prior_count: float) -> tuple[Floats, Floats]:
        """(cosine, centred cosine) of each node to a query, (n,) each, in [-1, 1]: of its best piece; 0 without one.

        Centred: after the mean of the pool's vectors, every node counting the same, is taken out of both sides.

        :param vector: (d,) the query, L2-normalised.
        :param prior_mean: (d,) a mean that is known beforehand.
        :param prior_count: how many nodes it counts for, > 0.
        """
        raw, centred = np.zeros(len(self)), np.zeros(len(self))
        if self.embedded.any():
            raw[self.embedded], centred[self.embedded] = self.pieces.similarity(vector, prior_mean, prior_count)
        return raw, centred


class Pieces:
    """The vectors of e nodes, one or more each: ``spans`` (e, 2) says in which row of ``matrix`` those of a node begin
    and how many they are.
    """

    def __init__(self, matrix: Vectors, spans: Ints) -> None:
        self._matrix = matrix
        self._spans = spans
        self._centred: _Centred | None = None

    def similarity(self, vector: Vectors, prior_mean: Vectors, prior_count: float) -> tuple[Floats, Floats]:
        """(cosine, centred cosine) of the best row of each node, (e,) each."""
        known = self._centred
        if known is None or known.prior_count != prior_count or not np.array_equal(known.prior_mean, prior_mean):
            known = self._centred = self._centre(prior_mean, prior_count)
        # One product with the matrix gives both cosines: a row is norm · (centred row) + mean.
        product = (known.rows @ vector).astype(np.float64)
        raw = known.norms * product + float(known.mean @ vector)
        query_norm = float(np.linalg.norm(vector - known.mean))
        centred = (product - known.offsets) / query_norm if query_norm > SMALLEST else np.zeros(len(product))
        return self._best(raw), self._best(centred)

    def first(self, embedded: NDArray[np.bool_], places: Sequence[int]) -> Vectors:
        """(c, d) the first row of each of these nodes of a pool, zero where ``embedded`` (n,) says that it has none."""
        at = np.asarray(places, dtype=np.int64)
        found = np.zeros((len(at), self._matrix.shape[1]), dtype=np.float32)
        known = embedded[at]
        found[known] = self._matrix[self._spans[(np.cumsum(embedded) - 1)[at[known]], 0]]
        return found

    def _best(self, cosines: Floats) -> Floats:
        counts = self._spans[:, 1]
        if len(cosines) != len(counts):
            cosines = np.maximum.reduceat(cosines, np.cumsum(counts) - counts)
        return np.clip(cosines, -1.0, 1.0)

    def _centre(self, prior_mean: Vectors, prior_count: float) -> _Centred:
        """What does not depend on the query."""
        rows = self._matrix[_rows_of(self._spans)]  # a copy, centred in place
        counts = self._spans[:, 1]
        share = np.repeat(1.0 / counts, counts).astype(np.float32)
        total = float(len(counts)) + prior_count
        mean: Vectors = ((share @ rows + prior_count * prior_mean) / total).astype(np.float32)
        rows -= mean
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        rows /= np.maximum(norms, SMALLEST)[:, None]
        return _Centred(rows, norms.astype(np.float64), (rows @ mean).astype(np.float64), mean, prior_mean, prior_count)


@dataclass(frozen=True, slots=True)
class _Centred:
    """``rows`` (m, d) without ``mean`` (d,), at length 1; ``norms`` (m,) before; ``offsets`` (m,) their product with
    the mean."""

    rows: Vectors
    norms: Floats
    offsets: Floats
    mean: Vectors
    prior_mean: Vectors
    prior_count: float


class Views:
    """The pools of one namespace. Not thread-safe: the handle locks around it.

    :param cache_mb: megabytes of vectors to keep at most, the copy that a pool prepares for comparison included. Of a
        namespace with more none are kept: every search reads those in scope.
    """

    def __init__(self, namespace: int, cache_mb: int = DEFAULTS.cache_mb) -> None:
        self._namespace = namespace
        self._most_bytes = cache_mb * MEGABYTE
        self._cached: tuple[tuple[int, int, str], Pool] | None = None
        self._forget()

    def subtree(self, tx: sqlite3.Connection, path: str) -> Pool:
        """Everything live at and below a path, with all its vectors; kept until the log or the embeddings move on."""
        if not self._follow(tx):
            return self.selection(tx, [path], [])
        sequence, _ = log.head(tx, self._namespace)
        key = (sequence, self._last_embedding, path)
        if self._cached is None or self._cached[0] != key:
            self._cached = None  # two pools at once are not what the limit allows
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
        matrix = np.concatenate(list(found.values())) if found else np.zeros((0, 0), dtype=np.float32)
        spans, start = {}, 0
        for node_id, vectors in found.items():
            spans[node_id] = (start, len(vectors))
            start += len(vectors)
        return _pool(rows, matrix, [spans.get(row[0], NOTHING) for row in rows])

    def _forget(self) -> None:
        # The first ``_used`` rows are filled and never change, since pools refer to them; the rest is room to grow.
        self._matrix: Vectors = np.zeros((0, 0), dtype=np.float32)
        self._used = 0
        self._last_embedding = 0
        # internal id → (its first row of the matrix, how many it has, revision they were made from)
        self._spans: dict[int, tuple[int, int, int]] = {}
        self._cached = None

    def _follow(self, tx: sqlite3.Connection) -> bool:
        """Takes over the embeddings made since the last time. False: there are too many to keep, so none are kept."""
        new, width = outbox.size_since(tx, self._namespace, self._last_embedding)
        if not new:
            return True
        if self._matrix.shape[1] != width:
            self._forget()
            new, _ = outbox.size_since(tx, self._namespace, 0)
        stale = self._used - sum(count for _, count, _ in self._spans.values())
        needed = self._used - stale + new
        most = self._most_bytes // (2 * 4 * width)  # rows of float32, each once more in the pool
        if needed > most:
            if not self._used:
                return False
            self._forget()  # the new rows may be of the same nodes as rows that are here: count from the start
            return self._follow(tx)
        if self._used + new > len(self._matrix) or 2 * stale > self._used:
            self._move(min(most, needed + needed // 8), width)
        while rows := outbox.embedded_since(tx, self._namespace, self._last_embedding, PAGE):
            self._take(rows, width)
        return True

    def _move(self, capacity: int, width: int) -> None:
        """Into a new matrix, without the rows of contents that have been replaced; pools keep the old one."""
        matrix = np.empty((capacity, width), dtype=np.float32)
        spans = list(self._spans.items())
        if spans:
            places = _rows_of(np.array([span[:2] for _, span in spans], dtype=np.int64))
            matrix[: len(places)] = self._matrix[places]
        start = 0
        for node_id, (_, count, revision) in spans:
            self._spans[node_id] = (start, count, revision)
            start += count
        self._matrix, self._used = matrix, start

    def _take(self, rows: Sequence[tuple[int, int, int, int, bytes]], width: int) -> None:
        """Adds a page of outbox.embedded_since to the matrix."""
        self._last_embedding = rows[-1][0]
        rows = [row for row in rows if len(row[4]) == 4 * width]  # another width is of another model
        start, end = self._used, self._used + len(rows)
        self._matrix[start:end] = np.frombuffer(b"".join(row[4] for row in rows), dtype="<f4").reshape(-1, width)
        for place, (_, node_id, piece, revision, _) in enumerate(rows, start):
            first = place if piece == 0 else self._spans[node_id][0]
            self._spans[node_id] = (first, place - first + 1, revision)
        self._used = end

    def _with_known_vectors(self, rows: Sequence[tuple[Any, ...]]) -> Pool:
        """An embedding of an older content does not count: it is compared by revision."""
        found = ((self._spans.get(row[0], (*NOTHING, -1)), row[10]) for row in rows)
        spans = [(start, count if made == revision else 0) for (start, count, made), revision in found]
        return _pool(rows, self._matrix, spans)


def _pool(rows: Sequence[tuple[Any, ...]], matrix: Vectors, spans: Sequence[tuple[int, int]]) -> Pool:
    """``spans``: for each node its first row in the matrix, and how many it has."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * 13
    parent, end = _ranges(columns[9])
    places = np.array(spans, dtype=np.int64).reshape(-1, 2)
    embedded = places[:, 1] > 0
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
        pieces=Pieces(matrix, places[embedded]),
    )


def _rows_of(spans: Ints) -> Ints:
    """For spans (s, 2) of first row and number of rows: all their rows, one span after the other."""
    first, counts = spans.T
    return np.repeat(first - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())


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

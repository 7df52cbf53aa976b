"""What a search ranks, in memory: the structure, weights and vectors of some nodes as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridmem.ports import Vectors
from hybridmem.scoring import SMALLEST, Floats, Ints, siblings

#: Numbers for each node that a pool adds to its columns at the first search, at the most.
DERIVED = 8


@dataclass(frozen=True, eq=False)
class Pool:
    """n nodes in preorder, as hybridmem.scoring wants them. Nothing in it changes, so that what follows from it
    alone is computed once, at the first search.

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
    def size(self) -> int:
        """Bytes of memory, with all that will be prepared for searches."""
        columns = (value for value in vars(self).values() if isinstance(value, np.ndarray))
        return 2 * self.pieces.nbytes + DERIVED * 8 * len(self) + sum(column.nbytes for column in columns)

    @cached_property
    def subtree(self) -> NDArray[np.bool_]:
        """(n,) which nodes count as subtrees: those with something below them, the root of the namespace excepted."""
        return (self.end > np.arange(len(self)) + 1) & (self.depth > 0)

    @cached_property
    def siblings(self) -> tuple[Ints, Ints]:
        """See hybridmem.scoring.siblings."""
        return siblings(self.parent, self.created_at)

    @cached_property
    def kinds(self) -> tuple[list[str], Ints]:
        """The types that occur, and (n,) which of them each node has."""
        kinds, places = np.unique(self.types, return_inverse=True)
        return kinds.tolist(), places

    @cached_property
    def voices(self) -> frozenset[str]:
        """Who said something here."""
        return frozenset(np.unique(self.speakers).tolist()) - {""}

    def positions(self, ids: Sequence[int] | Ints) -> Ints:
        """The position of each internal id in the pool; -1 for those that are not in it."""
        if not len(self.ids):
            return np.full(len(ids), -1, dtype=np.int64)
        wanted = np.asarray(ids, dtype=np.int64)
        ordered, order = self._by_id
        place = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
        return np.where(ordered[place] == wanted, order[place], -1)

    @cached_property
    def _by_id(self) -> tuple[Ints, Ints]:
        order = np.argsort(self.ids, kind="stable")
        return self.ids[order], order

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

    @property
    def width(self) -> int:
        """Numbers in a vector; 0 if there is none."""
        return int(self._matrix.shape[1])

    @property
    def nbytes(self) -> int:
        """Of the vectors as they are; prepared for comparison, each is kept a second time."""
        return self._matrix.nbytes

    def rows(self, places: Ints) -> tuple[Vectors, Ints]:
        """All vectors of some of the e nodes, and how many each has."""
        spans = self._spans[places]
        return self._matrix[rows_of(spans)], spans[:, 1]

    def similarity(self, vector: Vectors, prior_mean: Vectors, prior_count: float) -> tuple[Floats, Floats]:
        """(cosine, centred cosine) of the best row of each node, (e,) each."""
        known = self._centred
        if known is None or known.prior_count != prior_count or not np.array_equal(known.prior_mean, prior_mean):
            known = self._centred = self._centre(prior_mean, prior_count)
        # One product with the matrix gives both cosines: a row is norm · (centred row) + mean.
        # Not by ``@``, which wakes a thread on every core: for one vector that costs more than it saves, and on a busy
        # machine many times as much.
        product = np.einsum("ij,j->i", known.rows, vector).astype(np.float64)
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
        rows = self._matrix[rows_of(self._spans)]  # a copy, centred in place
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


def pool_of(rows: Sequence[tuple[Any, ...]], matrix: Vectors, spans: Ints) -> Pool:
    """A pool of rows of tree.scan().

    :param matrix: (m, d) the vectors. :param spans: (n, 2) for each row of ``rows`` the first of its vectors in the
        matrix, and how many it has.
    """
    columns = list(zip(*rows, strict=True)) if rows else [()] * 13
    parent, end = _ranges(columns[9])
    embedded = spans[:, 1] > 0
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
        pieces=Pieces(matrix, spans[embedded]),
    )


def rows_of(spans: Ints) -> Ints:
    """For spans (s, 2) of first row and number of rows: all their rows, one span after the other."""
    first, counts = spans.T
    return np.asarray(np.repeat(first - np.cumsum(counts) + counts, counts) + np.arange(counts.sum()), dtype=np.int64)


def _ranges(paths: Sequence[str]) -> tuple[Ints, Ints]:
    """For paths in order: the position of the nearest ancestor among them (-1: none) and the end of each subtree."""
    position = {path: place for place, path in enumerate(paths)}
    parent = [-1] * len(paths)
    for place, path in enumerate(paths):
        above = path
        while found := above[: above.rfind("/", 0, -1) + 1]:  # the next one up may not be among them
            if found in position:
                parent[place] = position[found]
                break
            above = found
    sizes = [1] * len(paths)
    for place in range(len(paths) - 1, 0, -1):
        if parent[place] >= 0:
            sizes[parent[place]] += sizes[place]
    return np.array(parent, dtype=np.int64), np.arange(len(paths)) + np.array(sizes, dtype=np.int64)

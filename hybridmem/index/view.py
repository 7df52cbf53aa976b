"""The subtrees that a handle has searched, kept in memory and followed by sequence.

A pool is used again as long as the operation log says that nothing at or below its path has changed and nothing there
has been embedded, by whatever process; else it is read again, without the vectors that it has already. All of them
together, with what they prepare for comparison, stay within the memory that they are given; what was used least
recently goes first.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hybridmem.config import IndexConfig
from hybridmem.index.pool import Pool, pool_of
from hybridmem.index.words import Words
from hybridmem.ports import Vectors
from hybridmem.scoring import Ints
from hybridmem.store import log, outbox, tree

DEFAULTS = IndexConfig()
MEGABYTE = 1_000_000
#: With more operations or embeddings than this to look through, reading a subtree anew is quicker.
MOST_NEWS = 5_000
#: From this search of an unchanged subtree on its terms are kept in memory. That takes as long as some look-ups in
#: the store, which a subtree that is written to between searches would never earn.
OFTEN = 4


@dataclass(slots=True)
class _Kept:
    """A pool with what it is up to date with: a sequence of the log and an embedding id. ``revisions`` (n,): of which
    content."""

    pool: Pool
    revisions: Ints
    sequence: int
    embedding: int
    size: int
    searches: int = 0
    words: Words | None = None


class Views:
    """The pools of one namespace. Not thread-safe: the handle locks around it.

    :param cache_mb: megabytes that the kept pools may take together, the copy of the vectors that a pool prepares for
        comparison included. A pool that is bigger is read at every search.
    """

    def __init__(self, namespace: int, cache_mb: int = DEFAULTS.cache_mb) -> None:
        self._namespace = namespace
        self._most_bytes = cache_mb * MEGABYTE
        self._kept: dict[str, _Kept] = {}  # by path, the least recently used first

    @property
    def size(self) -> int:
        """Bytes of the kept pools."""
        return sum(kept.size for kept in self._kept.values())

    def subtree(self, tx: sqlite3.Connection, path: str) -> Pool:
        """Everything live at and below a path, with all its vectors."""
        sequence, _ = log.head(tx, self._namespace)
        embedding = outbox.last_embedding(tx, self._namespace)
        kept = self._kept.pop(path, None)
        if kept is None or self._is_outdated(tx, path, kept, sequence, embedding):
            kept = self._load(tx, path, kept, sequence, embedding)
        kept.sequence, kept.embedding, kept.searches = sequence, embedding, kept.searches + 1
        if self._make_room(kept.size):
            self._kept[path] = kept
        return kept.pool

    def words(self, tx: sqlite3.Connection, path: str) -> Words | None:
        """The terms of the pool that :meth:`subtree` gave for this path just now; None: it is not searched that often,
        or there is no memory for them."""
        kept = self._kept.get(path)
        if kept is None or kept.searches < OFTEN or kept.words is not None:
            return None if kept is None else kept.words
        words = Words(tx, self._namespace, kept.pool)
        del self._kept[path]
        if self._make_room(kept.size + words.size):
            kept.words, kept.size = words, kept.size + words.size
        else:
            kept.searches = 0
        self._kept[path] = kept
        return words

    def selection(self, tx: sqlite3.Connection, paths: Sequence[str], ids: Sequence[int]) -> Pool:
        """The subtrees at these paths and these single nodes; reads just their vectors and keeps nothing."""
        return self.of(tx, tree.scan(tx, self._namespace, paths, ids))

    def of(
        self, tx: sqlite3.Connection, rows: Sequence[tuple[Any, ...]], without: frozenset[int] = frozenset()
    ) -> Pool:
        """These rows of tree.scan(), with the vectors of all but the nodes ``without``; keeps nothing."""
        ids = _column(rows, 0)
        wanted = ids if not without else ids[~np.isin(ids, sorted(without))]
        owners, matrix = outbox.pieces_of(tx, self._namespace, wanted)
        return pool_of(rows, matrix, _spans(ids, owners))

    def _is_outdated(self, tx: sqlite3.Connection, path: str, kept: _Kept, sequence: int, embedding: int) -> bool:
        if sequence != kept.sequence and (
            sequence - kept.sequence > MOST_NEWS or log.touched(tx, self._namespace, kept.sequence, path)
        ):
            return True
        return embedding != kept.embedding and (
            embedding - kept.embedding > MOST_NEWS or outbox.embedded_below(tx, self._namespace, kept.embedding, path)
        )

    def _make_room(self, size: int) -> bool:
        """Gives up what was used least recently. False: nothing would be room enough."""
        if size > self._most_bytes:
            return False
        room = self._most_bytes - self.size
        while room < size:
            room += self._kept.pop(next(iter(self._kept))).size
        return True

    def _load(self, tx: sqlite3.Connection, path: str, old: _Kept | None, sequence: int, embedding: int) -> _Kept:
        rows = tree.scan(tx, self._namespace, [path])
        ids, revisions = _column(rows, 0), _column(rows, 10)
        known = np.full(len(ids), False)
        owners, matrix = np.zeros(0, dtype=np.int64), np.zeros((0, 0), dtype=np.float32)
        width = outbox.vector_bytes(tx, self._namespace)
        # A pool may be empty: of a branch that was forgotten, and has come back.
        if (
            old is not None
            and len(old.pool)
            and old.pool.pieces.width * 4 == width
            and embedding - old.embedding <= MOST_NEWS
        ):
            fresh = outbox.embedded_since(tx, self._namespace, old.embedding)
            known, owners, matrix = _known(old, ids, revisions, fresh)
        # As far as can be told before they are read: what has to go should not be in memory besides them.
        self._make_room(2 * width * len(ids))
        read, more = outbox.pieces_of(tx, self._namespace, ids[~known])
        if len(read):
            owners, matrix = np.concatenate((owners, read)), np.concatenate((matrix, more)) if len(matrix) else more
        pool = pool_of(rows, matrix, _spans(ids, owners))
        return _Kept(pool, revisions, sequence, embedding, pool.size)


def _known(old: _Kept, ids: Ints, revisions: Ints, fresh: Sequence[int]) -> tuple[Any, Ints, Vectors]:
    """Which of these nodes need not be read, since a pool has the vectors of just this content; the node of each of
    those vectors, and the vectors."""
    pool = old.pool
    places = pool.positions(ids)
    known = (places >= 0) & pool.embedded[places] & (old.revisions[places] == revisions)
    if len(fresh):
        known &= ~np.isin(ids, fresh)
    vectors, counts = pool.pieces.rows((np.cumsum(pool.embedded) - 1)[places[known]])
    return known, np.repeat(ids[known], counts), vectors


def _spans(ids: Ints, owners: Ints) -> Ints:
    """(n, 2) for each id the first row that it owns, and how many: those of one stand together. (…, 0): none."""
    spans = np.zeros((len(ids), 2), dtype=np.int64)
    if not len(owners):
        return spans
    starts = np.flatnonzero(np.concatenate(([True], owners[1:] != owners[:-1])))
    counts = np.diff(np.concatenate((starts, [len(owners)])))
    order = np.argsort(owners[starts])
    named = owners[starts][order]
    place = np.minimum(np.searchsorted(named, ids), len(named) - 1)
    has = named[place] == ids
    spans[has] = np.stack((starts, counts), axis=1)[order][place[has]]
    return spans


def _column(rows: Sequence[tuple[Any, ...]], number: int) -> Ints:
    return np.array([row[number] for row in rows], dtype=np.int64)

"""Which terms the nodes of a pool have, in memory: for subtrees that are searched again and again."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Sequence

import numpy as np

from hybridmem.index.pool import Pool
from hybridmem.scoring import Ints
from hybridmem.store import lexical

#: Nodes whose terms are read at a time.
PAGE = 1_000


class Words:
    """The postings of a pool by position: as lexical.postings gives them by internal id.

    :param namespace: the pool's.
    """

    def __init__(self, tx: sqlite3.Connection, namespace: int, pool: Pool) -> None:
        self._codes: dict[str, int] = {}
        self._forms = lexical.coder(tx, namespace)
        keys = [np.zeros(0, dtype=np.int64)]
        for start in range(0, len(pool), PAGE):
            part = pool.ids[start : start + PAGE]
            rows = lexical.terms_of(tx, namespace, part.tolist())
            codes = [self._codes.setdefault(term, len(self._codes)) for _, terms in rows for term in terms]
            places = np.repeat(pool.positions([row[0] for row in rows]), [len(row[1]) for row in rows])
            keys.append(np.array(codes, dtype=np.int64) * len(pool) + places)
        found, counts = np.unique(np.concatenate(keys), return_counts=True)
        terms_of_found, positions = np.divmod(found, max(1, len(pool)))
        self._starts = np.searchsorted(terms_of_found, np.arange(len(self._codes) + 1))
        self._positions = positions.astype(np.int32)
        self._counts = counts.astype(np.int32)

    @property
    def size(self) -> int:
        """Bytes of memory."""
        words = sys.getsizeof(self._codes) + sum(sys.getsizeof(word) + sys.getsizeof(0) for word in self._codes)
        return words + self._starts.nbytes + self._positions.nbytes + self._counts.nbytes

    def postings(self, terms: Sequence[str]) -> dict[str, tuple[Ints, Ints]]:
        """For each of these terms that occurs: (positions in the pool, term frequencies)."""
        found = {}
        for term in terms:
            codes = [self._codes[form] for form in self._forms(term) if form in self._codes]
            if codes:
                spans = [slice(self._starts[code], self._starts[code + 1]) for code in codes]
                positions = np.concatenate([self._positions[span] for span in spans]).astype(np.int64)
                counts = np.concatenate([self._counts[span] for span in spans]).astype(np.int64)
                order = np.argsort(positions) if len(codes) > 1 else slice(None)
                found[term] = (positions[order], counts[order])
        return found

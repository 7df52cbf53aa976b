"""Flat BM25 over every item, on the terms of hybridmem's own lexical index: stems, Chinese uni- and bigrams."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
from numpy.typing import NDArray

from eval.systems.base import Setup, fill, lines_of
from eval.types import Corpus, Moment
from hybridmem.text import query_terms, terms

#: Saturation of a word's frequency, and how far long items are discounted: the usual values (Robertson & Zaragoza
#: 2009 give 1.2 to 2 and 0.75), not tuned on anything here.
K1 = 1.5
B = 0.75


class BM25:
    """Okapi BM25 with the idf that is never negative, ln(1 + (N - n + 0.5) / (n + 0.5)). Ties: the earlier item."""

    def __init__(self, setup: Setup) -> None:
        self._counter = setup.counter

    def load(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._lengths: list[int] = []
        self._postings: dict[str, tuple[list[int], list[int]]] = {}
        self._take(corpus.start)

    def advance(self, moment: Moment) -> None:
        self._take(moment.items)

    def search(self, question: str, k: int) -> list[str]:
        """Items that share no word with the question are not returned."""
        scores = np.zeros(len(self._lengths))
        lengths = np.array(self._lengths, dtype=np.float64)
        norms = K1 * (1.0 - B + B * lengths / max(lengths.mean(), 1.0)) if len(lengths) else lengths
        for term in query_terms(question):
            if term in self._postings:
                rows, weights = _weights(self._postings[term], norms)
                scores[rows] += weights
        order = np.argsort(-scores, kind="stable")[:k]
        return [self._corpus.items[row].id for row in order if scores[row] > 0.0]

    def context(self, question: str, token_budget: int) -> tuple[str, list[str]]:
        ranked = self.search(question, len(self._lengths))
        return fill(lines_of(self._corpus.items, ranked), token_budget, self._counter)

    def close(self) -> None:
        """Holds nothing."""

    def _take(self, items: int) -> None:
        for row in range(len(self._lengths), items):
            bag = Counter(terms(self._corpus.items[row].content))
            self._lengths.append(bag.total())
            for term, count in bag.items():
                rows, counts = self._postings.setdefault(term, ([], []))
                rows.append(row)
                counts.append(count)


def _weights(
    entries: tuple[list[int], list[int]], norms: NDArray[np.float64]
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """What a word of the question adds to each item that has it: (rows, scores)."""
    rows = np.array(entries[0], dtype=np.intp)
    counts = np.array(entries[1], dtype=np.float64)
    idf = math.log(1.0 + (len(norms) - len(rows) + 0.5) / (len(rows) + 0.5))
    return rows, idf * counts * (K1 + 1.0) / (counts + norms[rows])

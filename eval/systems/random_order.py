"""A random order: what every figure has to be held against, since it shows what the sizes alone give."""

from __future__ import annotations

import random

from eval.systems.base import Setup, fill, lines_of
from eval.types import Corpus, Moment


class RandomOrder:
    """The items in memory in an order drawn from the seed, the history and the question; the same however often."""

    def __init__(self, setup: Setup) -> None:
        self._counter = setup.counter
        self._seed = setup.seed

    def load(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._have = corpus.start

    def advance(self, moment: Moment) -> None:
        self._have = moment.items

    def search(self, question: str, k: int) -> list[str]:
        return self._order(question)[:k]

    def context(self, question: str, token_budget: int) -> tuple[str, list[str]]:
        return fill(lines_of(self._corpus.items, self._order(question)), token_budget, self._counter)

    def close(self) -> None:
        """Holds nothing."""

    def _order(self, question: str) -> list[str]:
        ids = [item.id for item in self._corpus.items[: self._have]]
        random.Random(f"{self._seed} {self._corpus.id} {question}").shuffle(ids)
        return ids

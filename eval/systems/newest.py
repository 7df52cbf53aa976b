"""The newest window: what an agent has that keeps its last messages and reads nothing."""

from __future__ import annotations

from eval.systems.base import Setup, fill
from eval.types import Corpus, Moment


class NewestWindow:
    """The last ``k`` items, newest first, whatever the question."""

    def __init__(self, setup: Setup) -> None:
        self._counter = setup.counter

    def load(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._have = corpus.start

    def advance(self, moment: Moment) -> None:
        self._have = moment.items

    def search(self, question: str, k: int) -> list[str]:
        return [item.id for item in reversed(self._corpus.items[max(0, self._have - k) : self._have])]

    def context(self, question: str, token_budget: int) -> tuple[str, list[str]]:
        newest_first = ((item.id, item.content) for item in reversed(self._corpus.items[: self._have]))
        return fill(newest_first, token_budget, self._counter)

    def close(self) -> None:
        """Holds nothing."""

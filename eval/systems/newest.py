"""The newest window: what an agent has that keeps its last messages and reads nothing."""

from __future__ import annotations

from eval.systems.base import Setup, fill, lines_of
from eval.types import Corpus


class NewestWindow:
    """The last ``k`` items, newest first, whatever the question."""

    def __init__(self, setup: Setup) -> None:
        self._counter = setup.counter

    def load(self, corpus: Corpus) -> None:
        self._lines = lines_of(corpus, [item.id for item in reversed(corpus.items)])

    def search(self, question: str, k: int) -> list[str]:
        return [id_ for id_, _ in self._lines[:k]]

    def context(self, question: str, token_budget: int) -> tuple[str, list[str]]:
        return fill(self._lines, token_budget, self._counter)

    def close(self) -> None:
        """Holds nothing."""

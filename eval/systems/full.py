"""The full history in every prompt: nothing is missed and nothing is saved. What compression is measured against."""

from __future__ import annotations

from eval.systems.base import Setup
from eval.types import Corpus, Moment


class FullHistory:
    """All items in memory, oldest first, whatever the question and the budget. It has no ranking."""

    ranks = False

    def __init__(self, setup: Setup) -> None:
        pass

    def load(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._have = corpus.start

    def advance(self, moment: Moment) -> None:
        self._have = moment.items

    def search(self, question: str, k: int) -> list[str]:
        """The oldest ``k``."""
        return [item.id for item in self._corpus.items[: min(k, self._have)]]

    def context(self, question: str, token_budget: int) -> tuple[str, list[str]]:
        shown = self._corpus.items[: self._have]
        return "\n".join(item.content for item in shown), [item.id for item in shown]

    def close(self) -> None:
        """Holds nothing."""

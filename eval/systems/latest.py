"""The newest sessions of the project that a question is asked in: how far one gets without reading a word."""

from __future__ import annotations

from eval.systems.base import Setup, fill
from eval.types import Corpus, Item, Moment


class LatestOfProject:
    """The newest group below ``asked_in`` first, then the one before it, and so on; behind them all others likewise.

    Within a group the newest item comes first. A question that is asked in no group gets the newest of all.
    """

    def __init__(self, setup: Setup) -> None:
        self._counter = setup.counter

    def load(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._parents = {group.id: group.parent for group in corpus.groups}
        self._moment = Moment(corpus.start)

    def advance(self, moment: Moment) -> None:
        self._moment = moment

    def search(self, question: str, k: int) -> list[str]:
        return [item.id for item in self._ranked()[:k]]

    def context(self, question: str, token_budget: int) -> tuple[str, list[str]]:
        return fill(((item.id, item.content) for item in self._ranked()), token_budget, self._counter)

    def close(self) -> None:
        """Holds nothing."""

    def _ranked(self) -> list[Item]:
        newest_first: dict[str, list[Item]] = {}
        for item in reversed(self._corpus.items[: self._moment.items]):
            newest_first.setdefault(item.group, []).append(item)
        # Sorting is stable: false, of this project, comes before true.
        groups = sorted(newest_first, key=lambda group: not self._below(group))
        return [item for group in groups for item in newest_first[group]]

    def _below(self, group: str) -> bool:
        while group and group != self._moment.group:
            group = self._parents[group]
        return bool(group)

"""What a system is: something that loads a history, and returns its items for a question."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from eval.embedding import SharedEmbedder
from eval.types import Corpus, Item, Moment
from hybridmem.config import Config
from hybridmem.ports import TokenCounter


@dataclass(frozen=True, slots=True)
class Setup:
    """What a system is made from. ``directory`` is its own, empty, and removed after the run."""

    directory: Path
    config: Config
    embedder: SharedEmbedder
    counter: TokenCounter
    seed: int = 0


class System(Protocol):
    """One way to remember. A failure inside (embedder, index) is raised, never returned as a miss."""

    def load(self, corpus: Corpus) -> None:
        """Takes in the start of one history, ``corpus.items[: corpus.start]``, in place of the one before.

        The questions of the corpus are there for ``start`` alone: neither their words nor their gold are in them.
        """
        ...

    def advance(self, moment: Moment) -> None:
        """Brings the memory to the moment of the next question: takes in what ``corpus.items[: moment.items]`` has
        more. Called before each question; ``moment.items`` never falls within a history."""
        ...

    def search(self, question: str, k: int) -> list[str]:
        """The ids of at most ``k`` items in memory, best first, none twice."""
        ...

    def context(self, question: str, token_budget: int) -> tuple[str, list[str]]:
        """The text that would go into a prompt, within the budget, and the ids of the items shown in it."""
        ...

    def close(self) -> None:
        """Gives back files and threads."""
        ...


Factory = Callable[[Setup], System]


def ranks(system: System) -> bool:
    """Whether a system has an order to measure. One that shows all it has whatever the budget says ``ranks = False``:
    it is never searched, and asked for one context only."""
    return bool(getattr(system, "ranks", True))


def fill(lines: Iterable[tuple[str, str]], token_budget: int, counter: TokenCounter) -> tuple[str, list[str]]:
    """The context of a baseline: ranked (id, line) pairs, best first, line by line until the budget is full.

    A line that does not fit is passed over for a shorter one further down, which is the best that can be done here.
    """
    ids: list[str] = []
    shown: list[str] = []
    used = 0
    for id_, line in lines:
        cost = _cost(counter, line)
        if used + cost <= token_budget:
            ids.append(id_)
            shown.append(line)
            used += cost
    # Tokens of lines need not add up to the tokens of the text; the budget is about the text.
    while ids and counter.count("\n".join(shown)) > token_budget:
        ids.pop()
        shown.pop()
    return "\n".join(shown), ids


def lines_of(items: Iterable[Item], ids: Sequence[str]) -> list[tuple[str, str]]:
    """(id, content) of these items, in the order of ``ids``."""
    contents = {item.id: item.content for item in items}
    return [(id_, contents[id_]) for id_ in ids]


def _cost(counter: TokenCounter, line: str) -> int:
    """Tokens of a line; the same lines are asked for at every question and budget, so each is counted once."""
    key = (counter.name, line)
    if key not in _COSTS:
        _COSTS[key] = counter.count(line + "\n")
    return _COSTS[key]


_COSTS: dict[tuple[str, str], int] = {}

"""Retrieval metrics, pure: ids as a system returned them, best first, and gold ids of the question -> [0, 1].

Only the first ``k`` returned ids count, and an id returned twice counts once, at its first place. Averages are over
questions, each question weighing the same. The ids are those of items, or of groups after :func:`group_ranking`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence

from hybridmem.errors import InvalidInput

Metric = Callable[[Sequence[str], Collection[str], int], float]


def recall(retrieved: Sequence[str], gold: Collection[str], k: int) -> float:
    """Found evidence / all evidence."""
    wanted, found = _places(retrieved, gold, k)
    return len(found) / len(wanted)


def hit(retrieved: Sequence[str], gold: Collection[str], k: int) -> float:
    """1 if at least one piece of evidence was found, else 0."""
    _, found = _places(retrieved, gold, k)
    return float(bool(found))


def all_found(retrieved: Sequence[str], gold: Collection[str], k: int) -> float:
    """1 if every piece of evidence was found, else 0."""
    wanted, found = _places(retrieved, gold, k)
    return float(len(found) == len(wanted))


def ndcg(retrieved: Sequence[str], gold: Collection[str], k: int) -> float:
    """Normalised discounted cumulative gain with binary gains (Järvelin & Kekäläinen 2002).

    A piece of evidence at place p (from 1) gives 1 / log2(p + 1); the ideal has all evidence first, cut at ``k``.
    """
    wanted, found = _places(retrieved, gold, k)
    ideal = sum(1.0 / math.log2(place + 1) for place in range(1, min(len(wanted), k) + 1))
    return sum(1.0 / math.log2(place + 1) for place in found) / ideal


#: Every metric reported at each k; a new one is one function and one entry.
METRICS: dict[str, Metric] = {"recall": recall, "hit": hit, "all": all_found, "ndcg": ndcg}


def group_ranking(retrieved: Sequence[str], group_of: Mapping[str, str]) -> list[str]:
    """The groups of ranked items, best first: a group stands where the first of its items stands, once."""
    return list(dict.fromkeys(group_of[item] for item in retrieved))


def check_k(k: int, candidates: int, where: str) -> None:
    """Refuses a ``k`` that measures nothing: with k ≥ candidates, returning everything is a perfect score.

    :param where: what holds the candidates, for the message.
    :raises InvalidInput: ``k`` is below 1, or not below ``candidates``.
    """
    if k < 1:
        raise InvalidInput(f"k must be at least 1, not {k}")
    if k >= candidates:
        raise InvalidInput(
            f"k={k} is not below the {candidates} candidates of {where}: returning everything would score 100 %, "
            "so this measures nothing. Use a smaller k or a larger history."
        )


def chance_recall(k: int, candidates: int) -> float:
    """The recall@k that a random order of the candidates is expected to get."""
    return min(1.0, k / candidates)


def compression(tokens: int, full_tokens: int) -> float:
    """1 − tokens(context) / tokens(full history); negative when the context is longer than the history itself."""
    if full_tokens < 1:
        raise InvalidInput(f"the full history must have tokens, not {full_tokens}")
    return 1.0 - tokens / full_tokens


def _places(retrieved: Sequence[str], gold: Collection[str], k: int) -> tuple[set[str], list[int]]:
    """The distinct gold ids, and the places (from 1) within the first ``k`` at which one was found first."""
    wanted = set(gold)
    if not wanted:
        raise InvalidInput("a question without gold ids cannot be scored")
    if k < 1:
        raise InvalidInput(f"k must be at least 1, not {k}")
    seen: set[str] = set()
    places: list[int] = []
    for place, item in enumerate(retrieved[:k], start=1):
        if item in wanted and item not in seen:
            places.append(place)
        seen.add(item)
    return wanted, places

"""Of a memory and a later one that takes it back, the later one first. Pure.

A correction is often worded so that nothing but its time and place says what it is about ("moved to Friday", 改为周五),
and it says less of what is asked than the memory that it corrects. So among the best candidates each one that announces
a change is paired with the earlier one that it is most alike to, and stands right before that.

On the synthetic set (thresholds chosen on seeds 0-2, measured on seeds 3-5, 540 questions) the correction stands before
what it corrects for 58 of 90 questions about what holds now, against 18 without this, and is among the first five for
28 against 3; of the 450 other questions 209 against 219 have all their answers among the first five.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hybridmem.ports import Vectors
from hybridmem.results import Hit
from hybridmem.scoring import SMALLEST
from hybridmem.text import term_weight, terms
from hybridmem.types import MERGED_TYPES

#: How many of the best are looked through for corrections.
CANDIDATES = 40
#: Characters at the beginning of a content that are looked at: who takes something back says so at once.
OPENING = 500
#: How alike a correction and what it corrects are at least. 0.35 tells reversals from other news
#: about the same person; what is written under one task is about the same thing anyway.
ALIKE = 0.35
ALIKE_IN_TASK = 0.2
#: What the terms alone count for where there are no vectors: such pairs share a quarter of their terms, not more.
BY_TERMS_ALONE = 1.5
#: What announces a change. What is changed is not read from it, so that there is no grammar here.
CHINESE = (
    "不再", "不用了", "不要了", "不是之前", "不对", "更正", "纠正", "修正", "改为", "改成", "改用", "改到", "改由",
    "改在", "改回", "改签", "换成", "换到", "换为", "换人", "换了", "换用", "变更", "变成", "有变", "推迟", "提前到",
    "挪到", "移到", "调整为", "转为", "搬到", "搬去", "作废", "撤回", "取消", "放弃", "停用", "弃用", "戒了", "其实",
    "原来", "重新", "而不是", "现在", "如今", "目前",
)  # fmt: skip
ENGLISH = (
    "no longer", "any longer", "anymore", "any more", "instead", "in place of", "rather than", "from now on",
    "as of now", "now", "correction", "corrected", "corrects", "changed", "changes", "moved", "moves", "switched",
    "switches", "replaced", "replaces", "postponed", "put off", "rescheduled", "revised", "updated", "canceled",
    "cancelled", "withdrawn", "void", "wrong", "actually", "turns out", "used to", "stopped", "quit", "gave up",
)  # fmt: skip
_WHOLE_WORDS = re.compile(r"\b(?:" + "|".join(ENGLISH) + r")\b")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a hit hangs. ``branch`` is the position in the pool of the root's child at or above it (-1: unknown),
    ``in_task`` whether that is a task and not the hit itself; ``vector`` (d,) is zeros where there is none.
    """

    branch: int
    in_task: bool
    vector: Vectors


def announces(*contents: str) -> bool:
    """Whether a content says that something is no longer as it was; of several, whether any does."""
    # All in one text, since what is short is looked up in it as quickly as in a single one; no word has a line break.
    text = "\n".join(content[:OPENING] for content in contents).casefold()
    # Looked up one by one first: that is a hundred times as fast as the expression, which finds whole words.
    return any(word in text for word in CHINESE) or (
        any(word in text for word in ENGLISH) and _WHOLE_WORDS.search(text) is not None
    )


def corrected(hits: Sequence[Hit], places: Mapping[str, Place], mean: Vectors | None) -> tuple[Hit, ...]:
    """The hits with each correction right before what it corrects, if it stood behind it; its score is raised to that
    one's, and ``score_details.corrects`` names it.

    What a feedback has named as contradicting another (``replaced_by``) corrects that. Else only what holds true until
    further notice (facts, preferences, decisions) is corrected: by one of its type that happened later and
    announces a change, in the same task; preferences are those of a person, wherever they are written. Not if the
    question names a code or number that only the earlier one has.

    :param hits: best first. :param places: of each hit, by its id.
    :param mean: (d,) what all vectors of the model share; None: there are none.
    """
    compare = _Comparison(hits, places, mean)
    targets = {hit.id: found.id for hit in hits if (found := _target(hit, hits, compare)) is not None}
    order = list(hits)
    # Oldest first, and before whatever corrects the same: of several corrections the latest comes to stand first.
    together: dict[str, set[str]] = {}
    for late in sorted((hit for hit in hits if hit.id in targets), key=lambda hit: hit.node.created_at):
        target = targets[late.id]
        others = together.setdefault(target, {target})
        here = next(place for place, one in enumerate(order) if one.id == late.id)
        # Never before one that the question names by a code or number which this one does not have.
        behind = (place for place, one in enumerate(order) if one.id in others and not _named(one) - _named(late))
        there = next(behind, here)
        others.add(late.id)
        if here > there:
            details = replace(late.score_details, corrects=target)
            order.insert(there, replace(order.pop(here), score=order[there].score, score_details=details))
    return tuple(order)


class _Comparison:
    """Compares some hits with each other; what it takes is made when it is asked for."""

    def __init__(self, hits: Sequence[Hit], places: Mapping[str, Place], mean: Vectors | None) -> None:
        self._content = {hit.id: hit.content for hit in hits}
        self._places = places
        self._mean = mean
        self._known: dict[str, tuple[frozenset[str], Vectors | None]] = {}

    def likeness(self, one: Hit, other: Hit) -> float:
        """In [-0.5, 1]: the mean of the cosine of the vectors and of the share of their terms that both have (Jaccard);
        without vectors BY_TERMS_ALONE times that share."""
        (a, first), (b, second) = self._of(one.id), self._of(other.id)
        shared = len(a & b) / len(a | b) if a | b else 0.0
        if first is None or second is None:
            return BY_TERMS_ALONE * shared
        return (float(first @ second) + shared) / 2.0

    def least(self, late: Hit, early: Hit) -> float:
        """How alike the two must be, by where they hang; infinite: one cannot be a correction of the other."""
        one, other = self._places[early.id], self._places[late.id]
        if one.in_task and other.in_task and one.branch == other.branch:
            return ALIKE_IN_TASK
        return ALIKE if late.node.type == "preference" or not (one.in_task or other.in_task) else math.inf

    def _of(self, id: str) -> tuple[frozenset[str], Vectors | None]:
        if id not in self._known:
            self._known[id] = frozenset(terms(self._content[id][:OPENING])), self._direction(self._places[id].vector)
        return self._known[id]

    def _direction(self, vector: Vectors) -> Vectors | None:
        """(d,) without what all texts share, at length 1."""
        if self._mean is None or not vector.any():
            return None
        left: Vectors = vector - self._mean
        norm = float(np.linalg.norm(left))
        return left / norm if norm > SMALLEST else None


def _target(late: Hit, hits: Sequence[Hit], compare: _Comparison) -> Hit | None:
    """The hit that this one is a correction of; None if it is none. What a feedback has said is not guessed at."""
    said = next((early for early in hits if early.node.replaced_by == late.id), None)
    if said is not None:
        return said
    if late.node.type not in MERGED_TYPES or not announces(late.content):
        return None
    alike = [
        (compare.likeness(late, early), early)
        for early in hits
        if early.node.type == late.node.type and early.node.created_at < late.node.created_at
    ]
    enough = [(much, early) for much, early in alike if much >= compare.least(late, early)]
    best = max(enough, key=lambda pair: pair[0])[1] if enough else None
    return None if best is None or _named(best) - _named(late) else best


def _named(hit: Hit) -> set[str]:
    """The codes, ids and long numbers of the question that a memory has: who asks by one of those means that one."""
    return {term for term in hit.matched_terms if term_weight(term) > 1.0}

"""Weights, relevance and their blend: pure functions of numpy arrays, one element per node. No clock, no I/O.

A pool is the set of nodes that one search ranks, in preorder: ``parent[i]`` is the position of the nearest ancestor of
node i within the pool (-1: none) and ``end[i]`` the position after its last descendant, so that a subtree is the range
``i:end[i]`` and sums over subtrees are differences of one running sum, at any depth.

Every signal, weight, relevance and score lies in [0, 1], and every function is monotone in each of its signals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: BM25 (Robertson and Zaragoza 2009, "The Probabilistic Relevance Framework"): saturation of the term frequency. 1.2 is
#: the customary value.
K1 = 1.2
#: BM25: how far a long text is discounted; 0 not at all, 1 fully. 0.5, below the customary 0.75, since memories are
#: short and of like length: LoCoMo development recall@10 74.3 against 74.0.
B = 0.5
#: What a term of the query that occurs nowhere counts towards the best possible match.
ABSENT = 0.5
#: Uses after which frequency has reached one half.
HALF_USES = 3.0
#: Recalls that make a memory more stable; further ones change nothing.
MOST_RECALLS = 12.0
#: Share of the doubt that a confirmation takes away, and of the confidence that a contradiction does. One half: from
#: the default of 0.7 one contradiction makes it doubtful (0.35), and two confirmations nearly certain (0.93).
BELIEF_STEP = 0.5
#: Share of the way to 1 (or 0) that one feedback moves importance. A tenth: about seven alike take it half of the way,
#: so that one mistake does little. It is the learning rate of Rescorla and Wagner (1972, "A theory of Pavlovian
#: conditioning"), for which 0.1 is customary.
IMPORTANCE_STEP = 0.1
#: Levels that a subtree's score reaches down and a hit's vote reaches up; beyond them the decay leaves nothing.
MAX_LEVELS = 8
#: A float32 vector that is shorter has no direction: it is what rounding leaves of nothing.
SMALLEST = 1e-6
#: Microseconds within which siblings belong together: half a day.
TOGETHER = 12 * 3_600 * 1_000_000
#: Up to this ``omega`` the weight counts in full everywhere; it is the default.
FULL_OMEGA = 0.1
#: A lead in relevance that no weight makes up for, at any ``omega``: 1/9, what all the difference in weight there can
#: be makes up for at FULL_OMEGA.
REACH = FULL_OMEGA / (1.0 - FULL_OMEGA)
#: How many of the best vector hits vote for the subtrees that enclose them.
VOTERS = 20


# Weight


def recency(age_seconds: Floats, half_life_seconds: Floats) -> Floats:
    """``exp(-ln 2 · age / half_life)``: 1 now, 1/2 after one half-life. A negative age (the future) counts as 0."""
    with _any_half_life():
        return np.asarray(np.exp2(-np.maximum(age_seconds, 0.0) / half_life_seconds), dtype=np.float64)


def stability(half_life_seconds: Floats, uses: NDArray[np.generic]) -> Floats:
    """In seconds: ``half_life / ln 2 · (1 + min(uses, 12))``. Each recall adds as much again as there was at first.

    So does MemoryBank (Zhong et al. 2023, "MemoryBank: Enhancing Large Language Models with Long-Term Memory"), which
    begins at 1 and adds 1 per recall, without a unit; here the unit is that of the half-life of the type, so that what
    was never recalled fades as by :func:`recency`. Bounded, since what is delivered by mistake over and over would
    never fade else: 12 recalls make a year of a month.
    """
    counted = np.minimum(np.asarray(uses, dtype=np.float64), MOST_RECALLS)
    with _any_half_life():
        return np.asarray(half_life_seconds / np.log(2.0) * (1.0 + counted), dtype=np.float64)


def retention(age_seconds: Floats, stability_seconds: Floats) -> Floats:
    """``exp(-age / stability)`` (Ebbinghaus 1885, in the form that MemoryBank uses): 1 now, 1/e after one stability.
    A negative age (the future) counts as 0."""
    with _any_half_life():
        return np.asarray(np.exp(-np.maximum(age_seconds, 0.0) / stability_seconds), dtype=np.float64)


def frequency(uses: NDArray[np.generic]) -> Floats:
    """``uses / (uses + 3)``: saturating, 0 for none."""
    counted = np.asarray(uses, dtype=np.float64)
    return counted / (counted + HALF_USES)


def weight(
    importance: Floats,
    recency: Floats,
    confidence: Floats,
    frequency: Floats,
    coefficients: tuple[float, float, float, float],
) -> Floats:
    """The mean of the four parts, weighted by ``coefficients`` in the order of the arguments (each ≥ 0, sum > 0)."""
    parts = (importance, recency, confidence, frequency)
    scaled = _scaled(coefficients)
    total = sum(c * part for c, part in zip(scaled, parts, strict=True))
    return np.asarray(total / sum(scaled), dtype=np.float64)


# Feedback: each takes and gives one number in [0, 1], never beyond the ends, however often it is applied


def confirmed(confidence: float) -> float:
    """``1 - (1 - confidence) / 2``: half of the doubt goes."""
    return 1.0 - (1.0 - confidence) * (1.0 - BELIEF_STEP)


def contradicted(confidence: float) -> float:
    """``confidence / 2``: half of the confidence goes."""
    return confidence * (1.0 - BELIEF_STEP)


def helped(importance: float) -> float:
    """``importance + 0.1 · (1 - importance)`` (Rescorla and Wagner 1972): a step towards 1."""
    return 1.0 - (1.0 - importance) * (1.0 - IMPORTANCE_STEP)


def misled(importance: float) -> float:
    """``importance - 0.1 · importance`` (Rescorla and Wagner 1972): a step towards 0."""
    return importance * (1.0 - IMPORTANCE_STEP)


# Relevance


def calibrated(cosine: Floats, floor: float, ceiling: float) -> Floats:
    """Cosine in [-1, 1] to [0, 1]: 0 up to ``floor`` (unrelated texts), 1 from ``ceiling`` (the same text) on."""
    return np.clip((cosine - floor) / (ceiling - floor), 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Lexical:
    """``nodes`` (n,): how much of the query each node's own text answers; ``subtrees`` (n,): the same for the text of
    everything at and below it, 0 where there is nothing below. Both in [0, 1]."""

    nodes: Floats
    subtrees: Floats


def lexical(
    postings: Mapping[str, tuple[Ints, Ints]],
    query: Mapping[str, float],
    lengths: Ints,
    end: Ints,
    subtree: NDArray[np.bool_],
    steps: Mapping[str, tuple[Ints, Ints]] | None = None,
) -> Lexical:
    """BM25 of nodes and of whole subtrees, each as a share of the best that a text could reach.

    :param postings: term → (ascending positions in the pool, term frequencies), for the terms of the query that occur.
    :param query: all terms of the query with the weight of each (1 for an ordinary word). One that occurs nowhere
        counts half towards what could be reached: it says that the match is not full, not which node is better.
    :param lengths: (n,) number of terms of each node.
    :param end: (n,) see the module.
    :param subtree: (n,) mask of the positions that count as subtrees.
    :param steps: like ``postings``, the terms of what comes next in a task: text of its subtree, of no node.
    """
    n = len(lengths)
    nodes, subtrees = np.zeros(n), np.zeros(n)
    if not n or not query:
        return Lexical(nodes, subtrees)
    starts = np.flatnonzero(subtree)
    stops = end[starts]
    below = _sums(lengths, starts, stops)
    node_norm = _length_norm(lengths)
    subtree_norm = _length_norm(below)
    best_node = best_subtree = 0.0
    for term, term_weight in query.items():
        positions, counts = postings.get(term, (np.zeros(0, np.int64), np.zeros(0, np.int64)))
        idf = term_weight * _idf(n, len(positions))
        reach = 1.0 if len(positions) else ABSENT
        best_node += reach * idf
        if len(positions):
            nodes[positions] += idf * _saturated(counts, node_norm[positions])
        if len(starts):
            inside, counted = _merged((positions, counts), (steps or {}).get(term))
            sums = _sums(counted, np.searchsorted(inside, starts), np.searchsorted(inside, stops))
            group_idf = term_weight * _idf(len(starts), int((sums > 0).sum()))
            best_subtree += reach * group_idf * (K1 + 1.0)
            subtrees[starts] += group_idf * _saturated(sums, subtree_norm)
    return Lexical(
        np.minimum(nodes / best_node, 1.0), np.minimum(subtrees / best_subtree, 1.0) if len(starts) else subtrees
    )


def votes(vector: Floats, parent: Ints, subtree: NDArray[np.bool_], decay: float) -> Floats:
    """(n,) for each subtree the best vector hit inside it, less by ``decay`` for every level in between. In [0, 1]."""
    found = np.zeros(len(vector))
    if not len(vector):
        return found
    count = min(VOTERS, len(vector))
    voters = np.argpartition(-vector, count - 1)[:count]
    strength, place = vector[voters].copy(), parent[voters].copy()
    for _ in range(MAX_LEVELS):
        alive = place >= 0
        if not alive.any():
            break
        place, strength = place[alive], strength[alive]
        np.maximum.at(found, place, strength)
        place, strength = parent[place], strength * decay
    return np.where(subtree, found, 0.0)


def located(lexical: Floats, votes: Floats, vote_share: float) -> Floats:
    """The score of each subtree: its text's match and the votes, mixed 1 : ``vote_share``."""
    return (lexical + vote_share * votes) / (1.0 + vote_share)


def tree_share(located: Floats, parent: Ints, subtree: NDArray[np.bool_], decay: float) -> Floats:
    """(n,) what each node gets from the subtrees that enclose it: their mean, each level up counting ``decay`` less."""
    n = len(parent)
    # The same for all children of a node, so it is computed once for each that has any. Place -1, the last, is nobody.
    is_parent = np.zeros(n + 1, dtype=np.bool_)
    is_parent[parent] = True
    above = np.flatnonzero(is_parent[:n])
    total, weights = np.zeros(len(above)), np.zeros(len(above))
    place, factor = above, 1.0
    for _ in range(MAX_LEVELS):
        inside = place >= 0
        if not inside.any() or factor <= 0.0:
            break
        counted = inside & subtree[place]
        total[counted] += factor * located[place[counted]]
        weights[counted] += factor
        place = np.where(inside, parent[place], -1)
        factor *= decay
    shares = np.zeros(n + 1)
    shares[above] = total / np.where(weights > 0, weights, 1.0)
    return np.asarray(shares[parent], dtype=np.float64)


def siblings(parent: Ints, created_at: Ints) -> tuple[Ints, Ints]:
    """(s,) each: all pairs of siblings of which the second comes just after the first and was written within TOGETHER
    of it.

    :param created_at: (n,) microseconds. What was written days apart is no conversation: with such siblings left out,
        recall@10 on MADial (development split) is 66.1 against 64.1 in Chinese, 59.0 against 57.6 in English.
    """
    order = np.argsort(parent, kind="stable")
    same = (parent[order][1:] == parent[order][:-1]) & (parent[order][1:] >= 0)
    same &= np.abs(np.diff(created_at[order])) <= TOGETHER
    return order[:-1][same], order[1:][same]


def neighbours(base: Floats, siblings: tuple[Ints, Ints]) -> Floats:
    """(n,) the mean of ``base`` over the siblings just before and just after; a missing one counts as 0."""
    found = np.zeros(len(base))
    left, right = siblings
    found[right] += base[left] / 2.0
    found[left] += base[right] / 2.0
    return found


def base_relevance(
    vector: Floats | None, embedded: NDArray[np.bool_], lexical: Floats, coefficients: tuple[float, float]
) -> Floats:
    """A node's own match: the mean of vector and lexical by ``coefficients``; lexical alone where there is no vector.

    :param vector: (n,), or None without a query vector. :param embedded: (n,) which nodes have a vector.
    """
    by_vector, by_lexical = _scaled(coefficients)
    if vector is None:
        return lexical
    both = (by_vector * vector + by_lexical * lexical) / (by_vector + by_lexical)
    return np.where(embedded, both, lexical)


def relevance(base: Floats, surroundings: Sequence[Floats], coefficients: Sequence[float]) -> Floats:
    """``base + (1 - base) · Σ coefficient·signal``: what surrounds a node can lift it, never lower it.

    A full match stays 1 wherever it hangs, and a node's own mismatch leaves room for at most the sum of the
    ``coefficients``, which is capped at 1.

    :param surroundings: (n,) each: the tree's share, the neighbours', the speaker's.
    """
    lift = sum((c * signal for c, signal in zip(coefficients, surroundings, strict=True)), np.zeros(len(base)))
    return base + (1.0 - base) * np.minimum(lift, 1.0)


def weight_share(relevance: Floats, best: float, omega: float) -> Floats:
    """(n,) the share of the weight in each score, in (0, ω] for ω > 0; the same for nodes of equal relevance.

    It is ω; but above FULL_OMEGA the whole of it only for the most relevant, and less for others, down to
    ``(1-ω)·REACH`` for what is less relevant by REACH or more. So a node that leads by REACH or more stays first,
    whatever the weights, by either blend: ``(1-ω)·lead ≥ (1-ω)·REACH``. An own formula.

    :param best: the highest relevance among the nodes that compete. :param omega: in [0, 1).
    """
    if omega <= FULL_OMEGA:
        return np.full(len(relevance), omega)
    least = (1.0 - omega) * REACH
    nearness = np.clip(1.0 - (best - relevance) / REACH, 0.0, 1.0)
    return np.asarray(least + (omega - least) * nearness, dtype=np.float64)


def blended(relevance: Floats, weight: Floats, share: Floats, omega: float, blend: str) -> Floats:
    """The score. ``linear``: ``(1-ω)·relevance + share·weight``. ``bounded``: ``relevance·(1-ω + share·weight)``.

    :param share: (n,) of :func:`weight_share`.
    """
    if blend == "bounded":
        return relevance * (1.0 - omega + share * weight)
    return (1.0 - omega) * relevance + share * weight


def _scaled(coefficients: Sequence[float]) -> list[float]:
    """The coefficients of a mean, the largest in [1/2, 1), so that no size of them overflows or vanishes; by a power of
    two, which rounds nothing."""
    _, exponent = math.frexp(max(coefficients))
    return [math.ldexp(c, -exponent) for c in coefficients]


def _any_half_life() -> np.errstate:
    """Too long a half-life or too short a one makes infinity of a quotient, and of that the right end of the curve."""
    return np.errstate(over="ignore", under="ignore")


def _idf(total: int, containing: int) -> float:
    return float(np.log1p((total - containing + 0.5) / (containing + 0.5)))


def _length_norm(lengths: Ints) -> Floats:
    mean = float(lengths.mean()) if len(lengths) else 0.0
    return np.asarray(1.0 - B + B * lengths / mean if mean > 0 else np.ones(len(lengths)), dtype=np.float64)


def _saturated(counts: Ints, norm: Floats) -> Floats:
    return counts * (K1 + 1.0) / (counts + K1 * norm)


def _merged(text: tuple[Ints, Ints], steps: tuple[Ints, Ints] | None) -> tuple[Ints, Ints]:
    """Both together, by position."""
    if steps is None or not len(steps[0]):  # nearly always
        return text
    positions, counts = np.concatenate((text[0], steps[0])), np.concatenate((text[1], steps[1]))
    order = np.argsort(positions)
    return positions[order], counts[order]


def _sums(values: Ints, starts: Ints, stops: Ints) -> Ints:
    """(s,) the sum of ``values[start:stop]`` for each of the ranges."""
    running = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(values)))
    return np.asarray(running[stops] - running[starts], dtype=np.int64)

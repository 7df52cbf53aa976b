"""From a pool of nodes and a question to scores: every signal of every node, by the formulas of hybridmem.scoring.

No I/O: the pool has been gathered (hybridmem.locate), the question embedded, the time passed in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hybridmem import scoring
from hybridmem.config import RetrievalConfig, WeightConfig
from hybridmem.dates import Interval, closeness
from hybridmem.index.exact import top_k
from hybridmem.index.pool import Pool
from hybridmem.ports import Calibration, Vectors
from hybridmem.scoring import Floats, Ints
from hybridmem.speakers import named
from hybridmem.text import term_weight

#: Weight of the model's own mean against the pool's, in nodes: a handful of memories has no mean worth the name.
MEAN_PRIOR = 20.0

#: Term → (ascending positions in the pool, term frequencies).
Postings = Mapping[str, tuple[Ints, Ints]]


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, as the ranking needs it.

    ``text`` None: nothing is asked, the weights alone rank. ``vector`` (d,) None: no model, or it failed.
    ``prior`` is the internal id of the active task, which is preferred; None: no preference. ``moments`` are the times
    that the question names.
    """

    text: str | None
    terms: Sequence[str]
    vector: Vectors | None
    prior: int | None
    moments: Sequence[Interval] = ()


@dataclass(frozen=True, slots=True)
class Signals:
    """All parts of the scores of a pool, (n,) each; ``vector`` and ``cosine`` are None without a query vector.

    ``located`` is the score of each subtree, 0 for what is none. ``share`` is that of the weight in the score.
    """

    score: Floats
    relevance: Floats
    weight: Floats
    share: Floats
    vector: Floats | None
    cosine: Floats | None
    lexical: Floats
    located: Floats
    tree: Floats
    neighbour: Floats
    speaker: Floats
    date: Floats
    recent: Floats
    recency: Floats
    frequency: Floats


def rank(
    pool: Pool,
    postings: Postings,
    steps: Postings,
    question: Question,
    calibration: Calibration | None,
    retrieval: RetrievalConfig,
    weights: WeightConfig,
    now: int,
    allowed: NDArray[np.bool_],
) -> Signals:
    """Every signal of every node in the pool.

    :param steps: the postings of what comes next in the tasks of the pool. :param now: microseconds since 1970 UTC.
    :param allowed: (n,) which nodes compete; the others lend what they match to those around them.
    """
    subtree = pool.subtree
    query = {term: term_weight(term) for term in question.terms}
    match = scoring.lexical(postings, query, pool.lengths, pool.end, subtree, steps)
    raw, vector = _vector(pool, question.vector, calibration)
    base = scoring.base_relevance(vector, pool.embedded, match.nodes, (retrieval.vector, retrieval.lexical))
    votes = scoring.votes(base if vector is None else vector, pool.parent, subtree, retrieval.tree_decay)
    located = scoring.located(match.subtrees, votes, retrieval.vote_share)
    if question.prior is not None:
        place = pool.positions([question.prior])[0]
        if place >= 0:
            located[place] = min(1.0, located[place] + retrieval.active_task_prior)
    share = scoring.tree_share(located, pool.parent, subtree, retrieval.tree_decay)
    said = _speaker(pool, question.text)
    beside = scoring.neighbours(base, pool.siblings)
    if said.any():  # beside a match only what was said by whom the question is about: answers echo questions
        beside = beside * said
    then = closeness(pool.created_at, question.moments)
    recency, frequency, weight = weigh(pool, weights, now)
    matched = np.maximum.reduce([base, share, beside, said, then]) > 0  # being recent alone answers nothing
    recent = np.where(matched & (question.prior is not None), recency, 0.0)
    surroundings = (share, beside, said, then, recent)
    coefficients = (retrieval.tree, retrieval.neighbour, retrieval.speaker, retrieval.date, retrieval.recent)
    relevance = scoring.relevance(base, surroundings, coefficients)
    score, counted = weight, np.ones(len(pool))
    if question.text is not None:
        best = float(relevance.max(initial=0.0, where=allowed))
        counted = scoring.weight_share(relevance, best, retrieval.omega)
        score = scoring.blended(relevance, weight, counted, retrieval.omega, retrieval.blend)
    return Signals(
        score=score,
        relevance=relevance,
        weight=weight,
        share=counted,
        vector=vector,
        cosine=raw,
        lexical=match.nodes,
        located=located,
        tree=share,
        neighbour=beside,
        speaker=said,
        date=then,
        recent=recent,
        recency=recency,
        frequency=frequency,
    )


def weigh(pool: Pool, weights: WeightConfig, now: int) -> tuple[Floats, Floats, Floats]:
    """(recency, frequency, weight) of each node at this moment; ``now`` in microseconds since 1970 UTC."""
    kinds, places = pool.kinds
    by_type = weights.half_life_days_by_type
    days = np.array([by_type.get(kind, weights.half_life_days) for kind in kinds], dtype=np.float64)
    age = (now - pool.active_at) / 1e6
    with np.errstate(over="ignore"):  # of a half-life without end: infinity is what it means
        half_life = days[places] * 86_400.0 if len(kinds) else np.zeros(0)
    if weights.curve == "ebbinghaus":
        recency = scoring.retention(age, scoring.stability(half_life, pool.uses))
    else:
        recency = scoring.recency(age, half_life)
    frequency = scoring.frequency(pool.uses)
    coefficients = (weights.importance, weights.recency, weights.confidence, weights.frequency)
    return recency, frequency, scoring.weight(pool.importance, recency, pool.confidence, frequency, coefficients)


def best(score: Floats, eligible: NDArray[np.bool_], k: int) -> list[int]:
    """The positions of the ``k`` best eligible nodes, best first; ties keep the order of the tree."""
    return [int(i) for i in top_k(np.where(eligible, score, -1.0), k) if eligible[i]]


def among(places: Sequence[int], positions: Ints) -> NDArray[np.bool_]:
    """(p,) which of the ``places`` are in the ascending ``positions``, of which there is at least one."""
    wanted = np.asarray(places, dtype=np.int64)
    return np.asarray(positions[np.searchsorted(positions, wanted).clip(max=len(positions) - 1)] == wanted)


def _vector(pool: Pool, vector: Vectors | None, calibration: Calibration | None) -> tuple[Floats | None, Floats | None]:
    """(cosine, calibrated) of each node to the query; calibrated after the common direction of the texts is taken out
    of both. Sentence models crowd all texts into one cone; what is left without it tells them apart (Mu and Viswanath
    2018, "All-but-the-Top"): LoCoMo development recall@10 by vectors alone 59.2 against 53.2.
    """
    if vector is None or calibration is None or not pool.embedded.any():
        return None, None
    raw, cosines = pool.similarity(vector, calibration.mean, MEAN_PRIOR)
    scaled = scoring.calibrated(cosines, calibration.floor, calibration.ceiling)
    # Rounded, since a row's place in the matrix changes the last bits, and equal texts must score alike.
    return raw, np.where(pool.embedded, np.round(scaled, 6), 0.0)


def _speaker(pool: Pool, text: str | None) -> Floats:
    """(n,) 1 for what was said by somebody whom the question names, unless it names everybody."""
    said = named(text, pool.voices) if text is not None else set()
    if not said or said == pool.voices:
        return np.zeros(len(pool))
    return np.isin(pool.speakers, sorted(said)).astype(np.float64)

"""What a search makes of what it has ranked: the terms it looks up, the parts of a score, where a hit hangs."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from hybridmem import corrections, diversity
from hybridmem.corrections import Place
from hybridmem.dates import Interval
from hybridmem.filters import Source
from hybridmem.index.pool import Pool
from hybridmem.ports import Calibration, Vectors
from hybridmem.ranking import Signals
from hybridmem.results import Hit, ScoreDetails
from hybridmem.store import states
from hybridmem.text import query_terms
from hybridmem.types import MERGED_TYPES, TASK_TYPE


def terms(query: str, named: Sequence[Interval]) -> list[str]:
    """The terms to look up; a day that the question names in any way is looked up as 2026-07-02 as well."""
    days = [start.date().isoformat() for start, end in named if end - start == timedelta(days=1)]
    return list(dict.fromkeys([*query_terms(query), *days]))


def details(pool: Pool, signals: Signals, i: int) -> ScoreDetails:
    known = signals.vector is not None and signals.cosine is not None and bool(pool.embedded[i])
    return ScoreDetails(
        relevance=float(signals.relevance[i]),
        weight=float(signals.weight[i]),
        vector=float(signals.vector[i]) if known else None,  # type: ignore[index]
        lexical=float(signals.lexical[i]),
        tree=float(signals.tree[i]),
        neighbour=float(signals.neighbour[i]),
        speaker=float(signals.speaker[i]),
        date=float(signals.date[i]),
        recent=float(signals.recent[i]),
        importance=float(pool.importance[i]),
        recency=float(signals.recency[i]),
        confidence=float(pool.confidence[i]),
        frequency=float(signals.frequency[i]),
        share=float(signals.share[i]),
        cosine=float(signals.cosine[i]) if known else None,  # type: ignore[index]
    )


def instead(tx: sqlite3.Connection, pool: Pool, positions: Sequence[int], allowed: NDArray[np.bool_]) -> list[int]:
    """Where the memories are that stand for one of these nodes by feedback, however little they match the question."""
    found = pool.positions(states.replacements(tx, [int(pool.ids[i]) for i in positions]))
    return [place for place in found.tolist() if place >= 0 and allowed[place]]


def announced(tx: sqlite3.Connection, pool: Pool, positions: Sequence[int], source: Source) -> bool:
    """Whether one of these nodes may correct another: only then it is worth reading them all."""
    ids = [int(pool.ids[i]) for i in positions if pool.types[i] in MERGED_TYPES]
    return corrections.announces(*source.openings(tx, ids, corrections.OPENING).values())


def places(pool: Pool, positions: Sequence[int], hits: Sequence[Hit]) -> dict[str, Place]:
    """Where each hit hangs, with its vector (of a long content that of its first piece)."""
    vectors = pool.pieces.first(pool.embedded, positions)
    found = {}
    for hit, position, vector in zip(hits, positions, vectors, strict=True):
        top = position
        while pool.parent[top] >= 0 and pool.depth[top] > 1:
            top = int(pool.parent[top])
        found[hit.id] = Place(top, top != position and pool.types[top] == TASK_TYPE, vector)
    return found


def diverse(hits: Sequence[Hit], vectors: Vectors, calibration: Calibration, share: float, k: int) -> tuple[Hit, ...]:
    """``k`` of the hits, so that they do not say the same again and again; each knows its redundancy."""
    score = np.array([hit.score for hit in hits], dtype=np.float64)
    order, redundancy = diversity.spread(score, vectors, calibration, share, k)
    return tuple(
        replace(hits[i], score_details=replace(hits[i].score_details, redundancy=similar))
        for i, similar in zip(order, redundancy, strict=True)
    )

"""Diversity: of hits that say the same, the second gives way to one that says something else. Pure.

Maximal marginal relevance (Carbonell and Goldstein 1998, "The Use of MMR, Diversity-Based Reranking for Reordering
Documents and Producing Summaries"): the next hit is always the one with the highest ``(1 - diversity)·score -
diversity·redundancy``, where redundancy is the similarity to the most similar hit placed before it.
"""

from __future__ import annotations

import numpy as np

from hybridmem.ports import Calibration, Vectors
from hybridmem.scoring import SMALLEST, Floats, calibrated


def spread(
    score: Floats, vectors: Vectors, calibration: Calibration, diversity: float, k: int
) -> tuple[list[int], list[float]]:
    """The positions of ``k`` candidates in their new order, and the redundancy in [0, 1] of each where it stands.

    No position comes twice. The best comes first, of equal ones that of the lower position. A candidate without a
    vector is like no other.

    :param score: (n,) in [0, 1].
    :param vectors: (n, d), L2-normalised; a zero row for a candidate without one.
    :param calibration: what cosines of the model mean: similarity is the calibrated cosine, in [0, 1].
    :param diversity: in [0, 1]; 0 is the order by score, 1 looks only at what has been placed already.
    :param k: how many, ≥ 0; more than n gives all n.
    """
    n = len(score)
    directions = _centred(vectors, calibration)
    known = np.any(directions != 0.0, axis=1)
    redundancy = np.zeros(n)
    left = np.ones(n, dtype=np.bool_)
    order: list[int] = []
    found: list[float] = []
    for _ in range(min(k, n)):
        gain = np.where(left, (1.0 - diversity) * score - diversity * redundancy, -np.inf)
        best = int(np.argmax(gain)) if order else int(np.argmax(score))
        order.append(best)
        found.append(float(redundancy[best]))
        left[best] = False
        if known[best]:
            similar = calibrated(
                (directions @ directions[best]).astype(np.float64), calibration.floor, calibration.ceiling
            )
            # Rounded, since a row's place in the matrix changes the last bits, and equal texts must be treated alike.
            redundancy = np.where(known, np.maximum(redundancy, np.round(similar, 6)), 0.0)
    return order, found


def _centred(vectors: Vectors, calibration: Calibration) -> Vectors:
    """Without the direction that all texts of the model share, at length 1; zero rows stay."""
    if not vectors.size:
        return np.zeros((len(vectors), 1), dtype=np.float32)
    known = np.any(vectors != 0.0, axis=1)
    rows: Vectors = np.where(known[:, None], vectors - calibration.mean, 0.0).astype(np.float32)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    result: Vectors = np.divide(rows, norms, out=np.zeros_like(rows), where=norms > SMALLEST)
    return result

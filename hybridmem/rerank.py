"""The last stage of a search, if there is one: a reranker reads the question and each of the best hits together. Pure
but for the reranker itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hybridmem import scoring
from hybridmem.ports import Reranker
from hybridmem.results import Hit


def reranked(reranker: Reranker, query: str, hits: Sequence[Hit], omega: float, blend: str) -> tuple[Hit, ...]:
    """The hits, best first by what the reranker says of them.

    The judgement of the reranker stands in the place of the relevance (which is kept in the details) and is blended
    with the weight as that was: see :func:`hybridmem.scoring.blended`. Ties keep their order.

    :raises ValueError: the reranker gave something else than one number in [0, 1] for each hit.
    """
    if not hits:
        return ()
    judged = np.asarray(reranker.scores(query, [hit.content for hit in hits]), dtype=np.float64)
    if judged.shape != (len(hits),) or not np.all((judged >= 0.0) & (judged <= 1.0)):  # NaN is neither
        raise ValueError(f"must give one number in [0, 1] for each of {len(hits)} contents, not {judged!r}")
    weight = np.array([hit.score_details.weight for hit in hits])
    share = scoring.weight_share(judged, float(judged.max()), omega)
    score = scoring.blended(judged, weight, share, omega, blend)

    def again(i: int) -> Hit:
        details = replace(hits[i].score_details, reranked=float(judged[i]), share=float(share[i]))
        return replace(hits[i], score=float(score[i]), score_details=details)

    return tuple(again(i) for i in np.argsort(-score, kind="stable"))

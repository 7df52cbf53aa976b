"""Embeds some texts such that one which cannot be embedded does not spoil the others."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from hybridmem.embed.vectors import Checked, checked
from hybridmem.errors import EmbeddingUnavailable
from hybridmem.ports import Embedder

logger = logging.getLogger("hybridmem")


def embed_texts(embedder: Embedder, texts: Sequence[str], dimension: int) -> Checked:
    """The vectors of some texts, and of each that has none the reason.

    :raises EmbeddingUnavailable: not even one text can be embedded now, so it is not the text's fault.
    """
    try:
        return checked(embedder.embed_documents(texts), len(texts), dimension)
    except Exception as error:  # an embedder is foreign code; find the text that it cannot take
        if len(texts) > 1:
            logger.info("the embedder failed on a batch of %d (%r); trying one by one", len(texts), error)
        return _one_by_one(embedder, texts, dimension)


def _one_by_one(embedder: Embedder, texts: Sequence[str], dimension: int) -> Checked:
    vectors = np.zeros((len(texts), dimension), dtype=np.float32)
    reasons: list[str | None] = []
    unavailable: EmbeddingUnavailable | None = None
    for position, text in enumerate(texts):
        try:
            found = checked(embedder.embed_documents([text]), 1, dimension)
            vectors[position], reason = found.vectors[0], found.reasons[0]
        except EmbeddingUnavailable as error:
            unavailable, reason = error, str(error)
        except Exception as error:
            reason = f"the embedder failed: {error!r}"
        reasons.append(reason)
    if unavailable is not None and all(reasons):
        raise unavailable
    return Checked(vectors, tuple(reasons))

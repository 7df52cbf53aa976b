"""Feature hashing of character n-grams: no model, no download, the same on every machine.

For tests and for trying things out. Texts that share character sequences are near each other, in any language; texts
that mean the same in other words are not.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from hybridmem.embed.vectors import safe_text
from hybridmem.ports import EmbedderIdentity, Vectors

MODEL = "character-1-3-grams"
DEFAULT_DIMENSION = 256
#: Long n-grams are many and few are shared, so each counts less; a single Latin letter says next to nothing.
WEIGHT_BY_LENGTH = {1: 1.5, 2: 1.0, 3: 0.5}
WEIGHT_OF_ASCII_LETTER = 0.1


class HashingEmbedder:
    """Embeds text by hashing its character 1- to 3-grams; documents and queries alike.

    Letters are compared without case and width (NFKC, case folded), runs of white space as one space. A text that is
    not blank never gives a zero vector; a blank one gives the vector of a single space.
    """

    def __init__(self, dimension: int = DEFAULT_DIMENSION) -> None:
        """:param dimension: width of the vectors, ≥ 1."""
        self._identity = EmbedderIdentity("hashing", MODEL, "1", dimension)

    @property
    def identity(self) -> EmbedderIdentity:
        """Provider ``hashing``; the revision changes when the vectors would."""
        return self._identity

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Shape (n, d), float32, L2-normalised."""
        result = np.zeros((len(texts), self._identity.dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            result[row] = self.embed_query(text)
        return result

    def embed_query(self, text: str) -> Vectors:
        """Shape (d,), float32, L2-normalised."""
        dimension = self._identity.dimension
        vector = np.zeros(dimension, dtype=np.float64)
        for gram, count in _grams(text).items():
            vector[_slot(gram, dimension)] += _weight(gram) * math.sqrt(count)
        unit: Vectors = (vector / np.linalg.norm(vector)).astype(np.float32)
        return unit


def _grams(text: str) -> Counter[str]:
    words = unicodedata.normalize("NFKC", safe_text(text)).casefold().split()
    padded = f" {' '.join(words)} "
    found: Counter[str] = Counter()
    for length in WEIGHT_BY_LENGTH:
        found.update(padded[start : start + length] for start in range(len(padded) - length + 1))
    if len(found) > 1:
        del found[" "]  # white space alone says nothing; it stays as part of longer n-grams, as the edge of a word
    return found


def _weight(gram: str) -> float:
    return WEIGHT_OF_ASCII_LETTER if len(gram) == 1 and gram.isascii() else WEIGHT_BY_LENGTH[len(gram)]


def _slot(gram: str, dimension: int) -> int:
    # Without a sign: collisions then only raise a cosine, so a shared n-gram always brings two texts nearer, and the
    # vector of a text is never zero.
    return int.from_bytes(blake2b(gram.encode("utf-8"), digest_size=8).digest(), "little") % dimension

"""The seams of hybridmem: small protocols with one implementation or more behind each.

Shapes: ``n`` texts or vectors, ``d`` dimensions of the embedding model. Vectors are float32 and L2-normalised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class EmbedderIdentity:
    """Which model made a vector. Two embedders with equal identities give interchangeable vectors.

    ``provider`` is the registry name, ``model`` the model's name or path, ``revision`` a version or '' if unknown.
    """

    provider: str
    model: str
    revision: str
    dimension: int

    def describe(self) -> str:
        return f"{self.model} ({self.provider}, {self.dimension} dimensions)"


@runtime_checkable
class Embedder(Protocol):
    """Turns text into vectors. Deterministic: the same text always gives the same vector."""

    @property
    def identity(self) -> EmbedderIdentity:
        """Stable for the life of the object; may load the model to learn the dimension."""
        ...

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Embeds contents to be found; shape (n, d).

        Raises EmbeddingUnavailable if the model cannot be loaded or reached.
        """
        ...

    def embed_query(self, text: str) -> Vectors:
        """Embeds a question; shape (d,)."""
        ...


class Reranker(Protocol):
    """Reads a question and a content together and says how well the one answers the other: finer than comparing
    vectors, and slower. Safe to share between threads.
    """

    def scores(self, query: str, contents: Sequence[str]) -> Sequence[float] | NDArray[np.floating]:
        """(n,) for each content a number in [0, 1], the higher the better; what it says of one does not depend on the
        others.
        """
        ...


class VectorIndex(Protocol):
    """Approximate nearest neighbours over one namespace. Disposable: always rebuilt from the store when in doubt.

    Every method raises IndexUnavailable when the engine fails, whatever the engine itself raised.
    """

    def upsert(self, ids: Sequence[int], vectors: Vectors) -> None:
        """Adds or replaces; ``vectors`` has shape (n, d)."""
        ...

    def delete(self, ids: Sequence[int]) -> None:
        """Removes; unknown ids are ignored."""
        ...

    def query(self, vector: Vectors, k: int) -> tuple[list[int], list[float]]:
        """The ``k`` nearest ids with their cosine similarity in [-1, 1], nearest first."""
        ...

    def ids(self) -> set[int]:
        """Every id in the index: what it is compared with when the store is opened after a crash."""
        ...


@dataclass(frozen=True, slots=True)
class Passage:
    """One memory of a branch that is to be summarised, in the words in which it was written.

    ``type`` is that of its node; "summary" is the summary of an earlier time. ``at`` is when it happened, aware UTC.
    ``title`` is that of the task right below the head of the branch which it was written in; '' if there is none.
    """

    text: str
    type: str
    at: datetime
    title: str = ""


class Summarizer(Protocol):
    """Says in few words what a branch holds. Safe to share between threads."""

    def summarize(self, passages: Sequence[Passage], budget: int) -> str:
        """The summary, in the language of the passages.

        ``passages`` are in the order in which they happened, never empty; ``budget`` is how many tokens it should have
        at most, ≥ 1: an aim, and what is as long as its sources or longer is not used. Whatever it raises is told in
        the reply of consolidate(), and nothing is changed.
        """
        ...


class TokenCounter(Protocol):
    """Counts tokens of a text as a language model would. ``name`` says which tokenizer."""

    @property
    def name(self) -> str: ...

    def count(self, text: str) -> int: ...


class Clock(Protocol):
    """Where the time comes from; tests pass their own."""

    def now(self) -> datetime:
        """The current time, timezone-aware UTC."""
        ...


class SystemClock:
    """The machine's clock in UTC."""

    def now(self) -> datetime:
        return datetime.now(timezone.utc)


@dataclass(frozen=True, slots=True)
class Calibration:
    """What a model's cosines mean, measured on a few fixed texts after their common direction ``mean`` (d,) is taken
    out: ``floor`` is the cosine of unrelated texts, ``ceiling`` that of a text with itself.
    """

    floor: float
    ceiling: float
    mean: Vectors

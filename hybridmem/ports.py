"""The seams of hybridmem: small protocols with one implementation or more behind each.

Shapes: ``n`` texts or vectors, ``d`` dimensions of the embedding model. Vectors are float32 and L2-normalised.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Protocol, runtime_checkable

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


class ImportanceEstimator(Protocol):
    """Says how much a new memory matters, where the caller has not. Called before the write, outside of every
    transaction, once for each memory; safe to share between threads.
    """

    def importance(self, content: str, *, type: str, default: float, novelty: float) -> float:
        """A number in [0, 1].

        If it raises or gives anything else, ``default`` stands and a warning in the log says so.

        :param type: of the memory; ``default`` is the importance that its type has by the configuration.
        :param novelty: the share in [0, 1] of its lexical terms that neither the parent nor the memories written last
            under it have; 1/2 where there is nothing to compare.
        """
        ...


@dataclass(frozen=True, slots=True)
class Turn:
    """One thing that an agent, its user or a tool said or did, out of raw output; see hybridmem.messages.

    ``position`` is the message it is from, counted from 0. ``kind``: ``"turn"`` (somebody spoke), ``"call"`` of a tool
    (``text`` its arguments), ``"result"`` of one, ``"log"``, ``"thought"`` or ``"other"`` (``text`` what it was).
    ``role`` and ``speaker`` (a name) may be empty; ``at`` None: no time is given; ``failed``: the tool said so.
    """

    position: int
    kind: str
    role: str
    text: str
    speaker: str = ""
    tool: str = ""
    at: datetime | None = None
    failed: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Extract:
    """A memory found in a turn. ``turn`` counts the turns given to the extractor from 0; ``importance`` None: the
    default."""

    turn: int
    type: str
    content: str
    importance: float | None = None


class Extractor(Protocol):
    """Finds what is worth more than an event in the turns that observe() keeps: decisions, preferences, facts. Called
    before the write, outside of every transaction, once for each call of observe(); safe to share between threads.
    """

    def extract(self, turns: Sequence[Turn]) -> Sequence[Extract]:
        """The memories found. One whose content is all that its turn says gives the turn its type; any other is stored
        beside its turn. If it raises, the turns are stored as events all the same, with a warning.
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


@runtime_checkable
class KeyProvider(Protocol):
    """A master key that may never leave its place, such as a key management service. Safe to share between threads."""

    @property
    def id(self) -> str:
        """Tells this key from others, and nothing of it; kept in the store and shown in messages. Stable."""
        ...

    def wrap(self, key: bytes) -> bytes:
        """A data key (32 bytes), encrypted and authenticated by the master key."""
        ...

    def unwrap(self, wrapped: bytes) -> bytes:
        """The opposite of :meth:`wrap`. Whatever it raises is told as EncryptionError: it was wrapped by another key,
        or the service cannot be reached. Called once for each namespace that a process uses."""
        ...


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

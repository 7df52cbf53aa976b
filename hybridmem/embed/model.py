"""The embedding model of a store: loaded when first needed, recorded once, and compared ever after."""

from __future__ import annotations

import base64
import sqlite3
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from hybridmem.config import EmbeddingConfig
from hybridmem.embed.probe import Probe, probe, same_model
from hybridmem.embed.registry import create, create_from_identity
from hybridmem.errors import EmbeddingMismatch, EmbeddingUnavailable
from hybridmem.ports import Calibration, Embedder, EmbedderIdentity, Vectors
from hybridmem.store import models, points, sealing
from hybridmem.store.connect import Connections

#: Loading a model that is not there can take seconds; it is not tried again sooner than this.
RETRY_SECONDS = 30.0
#: What to do about another model.
WAY_OUT = (
    "make the configured one the store's by reembed() (hybridmem reembed), which embeds every content anew. Until then "
    "writing, ids, tree and lexical search go on working"
)


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a store remembers of its model. ``number``: how often it had been changed when this one came."""

    identity: EmbedderIdentity
    fingerprint: str
    calibration: Calibration
    number: int = 0

    @property
    def key(self) -> str:
        """Names the model in the vector index."""
        return models.key({"identity": asdict(self.identity), "number": self.number})

    def is_same(self, other: Recorded) -> bool:
        """Whether the vectors of both can be compared: they decide, not the name. A model moved to another path is the
        same, one of the same name may not be."""
        return self.identity.dimension == other.identity.dimension and same_model(self.fingerprint, other.fingerprint)


class Model:
    """Hands out the embedder once it is known to be the one the store was built with.

    :param make: makes the configured embedder; given the recorded identity if there is one.
    """

    def __init__(self, connections: Connections, make: Callable[[EmbedderIdentity | None], Embedder]) -> None:
        self._connections = connections
        self._make = make
        self._guard = threading.RLock()  # a signal handler may search in the middle of a search
        self._embedder: Embedder | None = None
        self._recorded: Recorded | None = None
        self._refused: EmbeddingUnavailable | None = None
        self._failure: tuple[float, EmbeddingUnavailable] | None = None

    def recorded(self) -> Recorded | None:
        """What the store was built with; None before the first embedding. Loads no model. Read each time, since
        another process may have changed it: then the embedder has to be compared again."""
        with self._connections.read() as tx:
            value = models.current(tx)
        known = self._recorded
        if value is not None and (known is None or not models.is_model(value, _mark(known))):
            with self._guard:
                self._recorded = from_json(value)
                if known is not None:
                    self._embedder = self._refused = self._failure = None
        return self._recorded

    def is_current(self, tx: sqlite3.Connection, recorded: Recorded | None) -> bool:
        """Whether the store still has this model, in the state that a transaction sees."""
        return models.current(tx) is None if recorded is None else models.is_current(tx, _mark(recorded))

    def configured(self) -> tuple[Embedder, Recorded]:
        """The embedder that is configured, whatever the store was built with, and what a store would know of it.

        :raises EmbeddingUnavailable: it cannot be loaded.
        """
        embedder = self._make(None)
        found = probe(embedder)
        return embedder, Recorded(embedder.identity, found.fingerprint, found.calibration)

    def get(self) -> tuple[Embedder, Recorded]:
        """The embedder, and what the store knows of it; the first call ever records it.

        :raises EmbeddingUnavailable: it cannot be loaded; the message says what to install.
        :raises EmbeddingMismatch: it is another model than the store was built with.
        """
        with self._guard:
            self.recorded()
            if self._refused is not None:
                raise self._refused
            if self._embedder is None:
                if self._failure is not None and time.monotonic() - self._failure[0] < RETRY_SECONDS:
                    raise self._failure[1]
                try:
                    self._embedder, self._recorded = self._load()
                except EmbeddingMismatch as error:
                    self._refused = error  # this will not change while the handle is open
                    raise
                except EmbeddingUnavailable as error:
                    self._failure = (time.monotonic(), error)
                    raise
            assert self._recorded is not None
            return self._embedder, self._recorded

    def forget_failure(self) -> None:
        """Lets the next get() try to load a model that could not be loaded a moment ago."""
        self._failure = None

    def _load(self) -> tuple[Embedder, Recorded]:
        known = self.recorded()
        embedder = self._make(known.identity if known else None)
        if known is not None and embedder.identity.dimension != known.identity.dimension:
            raise _mismatch(known.identity, embedder.identity)
        found = probe(embedder)
        if known is None:
            known = self._record(embedder.identity, found)
        if not same_model(known.fingerprint, found.fingerprint):
            raise _mismatch(known.identity, embedder.identity)
        return embedder, known

    def _record(self, identity: EmbedderIdentity, found: Probe) -> Recorded:
        """Writes the choice down, unless another process was first: then that one's counts."""
        with self._connections.write() as tx:
            value = models.current(tx)
            if value is not None:
                return from_json(value)
            made = Recorded(identity, found.fingerprint, found.calibration)
            points.set_setting(tx, models.CURRENT, to_json(made))
            return made


def turned(tx: sqlite3.Connection, namespace: int, recorded: Recorded) -> Recorded:
    """The model as the vectors of an encrypted namespace have it, which are kept under a secret rotation."""
    mean = sealing.turned(tx, namespace, recorded.calibration.mean)
    return replace(recorded, calibration=replace(recorded.calibration, mean=mean))


def choose(known: EmbedderIdentity | None, settings: EmbeddingConfig, given: Embedder | None) -> Embedder:
    """The embedder object that was passed in; or the one the store recorded, unless the configuration names another; or
    the configured one.

    :raises EmbeddingMismatch: the store was built by another provider than the configured one.
    """
    if given is not None:
        return given
    if known is None:
        return create(settings)
    if settings.provider not in ("auto", known.provider):
        raise EmbeddingMismatch(
            f"this store was built with {known.describe()}, but embedding.provider is {settings.provider!r}; set it to "
            f"'auto' or {known.provider!r}, or {WAY_OUT}"
        )
    if settings.provider == known.provider and settings.model not in (None, known.model):
        return create(settings)  # it may be the same one at another path: its vectors will tell
    if settings.provider == "hashing" and settings.dimension not in (None, known.dimension):
        return create(settings)
    return create_from_identity(known, settings)


def _mark(recorded: Recorded) -> dict[str, Any]:
    """As much of it as tells it from others."""
    return {"number": recorded.number, "fingerprint": recorded.fingerprint}


def _mismatch(known: EmbedderIdentity, given: EmbedderIdentity) -> EmbeddingMismatch:
    same_name = " under the same name" if known == given else ""
    return EmbeddingMismatch(
        f"this store was built with {known.describe()}, but {given.describe()} gives other vectors{same_name}. "
        f"Configure the model it was built with, or {WAY_OUT}"
    )


def to_json(recorded: Recorded) -> dict[str, Any]:
    """As it is kept in the store's settings."""
    calibration = recorded.calibration
    return {
        "identity": asdict(recorded.identity),
        "fingerprint": recorded.fingerprint,
        "floor": calibration.floor,
        "ceiling": calibration.ceiling,
        "number": recorded.number,
        "mean": base64.b64encode(np.asarray(calibration.mean, dtype="<f4").tobytes()).decode("ascii"),
    }


def from_json(value: dict[str, Any]) -> Recorded:
    """The opposite of :func:`to_json`."""
    mean: Vectors = np.frombuffer(base64.b64decode(value["mean"]), dtype="<f4")
    return Recorded(
        EmbedderIdentity(**value["identity"]),
        value["fingerprint"],
        Calibration(value["floor"], value["ceiling"], mean),
        models.number(value),
    )

"""One embedding model for a whole run: every text is embedded once, and all systems share the vector.

So vector systems differ in what they do with the vectors and in nothing else, and a run takes the time of one. With a
cache on disk that holds for all runs together.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import numpy as np

from eval.cache import VectorCache
from hybridmem.ports import Embedder, EmbedderIdentity, Vectors

#: Texts handed to the model in one call, so that memory stays bounded whatever a system hands over at once; and what is
#: kept on disk at a time, so that an interrupted run has lost no more than this.
_BATCH = 64


class SharedEmbedder:
    """An Embedder that remembers, for the life of the object and, with a cache, beyond.

    ``seconds`` is the time spent in here: it costs every vector system the same, so it is no part of their times.
    ``query_seconds`` lists what each query cost that really went to the model. Safe to call from several threads.
    """

    def __init__(self, embedder: Embedder, cache: VectorCache | None = None) -> None:
        self._embedder = embedder
        self._cache = cache
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], Vectors] = {}
        self.seconds = 0.0
        self.query_seconds: list[float] = []

    @property
    def identity(self) -> EmbedderIdentity:
        return self._embedder.identity

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Shape (n, d)."""
        with self._lock:
            began = time.perf_counter()
            missing = self._missing("document", texts)
            for start in range(0, len(missing), _BATCH):
                batch = missing[start : start + _BATCH]
                self._remember("document", batch, self._embedder.embed_documents(batch))
            rows = [self._known["document", text] for text in texts]
            self.seconds += time.perf_counter() - began
        return np.stack(rows) if rows else np.empty((0, self.identity.dimension), dtype=np.float32)

    def embed_query(self, text: str) -> Vectors:
        """Shape (d,)."""
        with self._lock:
            began = time.perf_counter()
            if self._missing("query", [text]):
                asked = time.perf_counter()
                vector = self._embedder.embed_query(text)
                self.query_seconds.append(time.perf_counter() - asked)
                self._remember("query", [text], vector[None, :])
            self.seconds += time.perf_counter() - began
            return self._known["query", text]

    def _missing(self, kind: str, texts: Sequence[str]) -> list[str]:
        """What has to be asked of the model, each text once, after a look into the cache."""
        unknown = [text for text in dict.fromkeys(texts) if (kind, text) not in self._known]
        if self._cache is None or not unknown:
            return unknown
        found = self._cache.get(self.identity, kind, unknown)
        self._known.update(((kind, text), vector) for text, vector in found.items())
        return [text for text in unknown if text not in found]

    def _remember(self, kind: str, texts: Sequence[str], vectors: Vectors) -> None:
        rows = list(zip(texts, vectors, strict=True))
        self._known.update(((kind, text), vector) for text, vector in rows)
        if self._cache is not None:
            self._cache.put(self.identity, kind, rows)

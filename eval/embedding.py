"""One embedding model for a whole run: every text is embedded once, and all systems share the vector.

So vector systems differ in what they do with the vectors and in nothing else, and a run takes the time of one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import numpy as np

from hybridmem.ports import Embedder, EmbedderIdentity, Vectors

_CACHE: dict[tuple[EmbedderIdentity, str, str], Vectors] = {}
#: Texts handed to the model in one call, so that memory stays bounded whatever a system hands over at once.
_BATCH = 64


class SharedEmbedder:
    """An Embedder that remembers, for the life of the process. ``seconds`` is the time spent inside the real model.

    ``query_seconds`` lists what each query cost that really went to the model. Safe to call from several threads.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._lock = threading.Lock()
        self.seconds = 0.0
        self.query_seconds: list[float] = []

    @property
    def identity(self) -> EmbedderIdentity:
        return self._embedder.identity

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Shape (n, d)."""
        with self._lock:
            identity = self.identity
            missing = list(dict.fromkeys(text for text in texts if (identity, "document", text) not in _CACHE))
            for start in range(0, len(missing), _BATCH):
                batch = missing[start : start + _BATCH]
                began = time.perf_counter()
                vectors = self._embedder.embed_documents(batch)
                self.seconds += time.perf_counter() - began
                for text, vector in zip(batch, vectors, strict=True):
                    _CACHE[identity, "document", text] = vector
            rows = [_CACHE[identity, "document", text] for text in texts]
        return np.stack(rows) if rows else np.empty((0, identity.dimension), dtype=np.float32)

    def embed_query(self, text: str) -> Vectors:
        """Shape (d,)."""
        with self._lock:
            key = (self.identity, "query", text)
            if key not in _CACHE:
                began = time.perf_counter()
                _CACHE[key] = self._embedder.embed_query(text)
                self.query_seconds.append(time.perf_counter() - began)
                self.seconds += self.query_seconds[-1]
            return _CACHE[key]

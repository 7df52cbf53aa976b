"""Any endpoint with the OpenAI embeddings API: ``POST {base_url}/embeddings``.

The key is in no attribute, message or identity; see :mod:`hybridmem.endpoint`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hybridmem.config import EmbeddingConfig
from hybridmem.embed.vectors import safe_text, unit_rows
from hybridmem.endpoint import Endpoint, Failure
from hybridmem.errors import EmbeddingUnavailable
from hybridmem.ports import EmbedderIdentity, Vectors


class HttpEmbedder:
    """Embeddings from an OpenAI-compatible endpoint. Safe to share between threads."""

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key_env: str = "OPENAI_API_KEY",
        dimension: int | None = None,
        expected_dimension: int | None = None,
        batch_size: int = 64,
        timeout_seconds: float = 30.0,
        retries: int = 3,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """
        :param base_url: up to and including ``/v1``.
        :param api_key_env: environment variable with the key; unset or empty means no key is sent.
        :param dimension: width to ask the endpoint for (its parameter ``dimensions``); None: whatever the model has.
        :param expected_dimension: width that is known already, so that the endpoint need not be asked; None: unknown.
        :param batch_size: texts per request, ≥ 1.
        :param timeout_seconds: for one request.
        :param retries: how often a request is repeated after 429, 5xx, a time-out or a lost connection, ≥ 0.
        :param sleep: called with the seconds of each pause.
        """
        self._endpoint = Endpoint(
            base_url.rstrip("/") + "/embeddings",
            name="the embedding endpoint",
            api="the embeddings API",
            setting="embedding.base_url",
            error=EmbeddingUnavailable,
            api_key_env=api_key_env,
            timeout_seconds=timeout_seconds,
            retries=retries,
            sleep=sleep,
        )
        self._model = model
        self._asked_dimension = dimension
        self._dimension = dimension or expected_dimension
        self._batch_size = batch_size

    @classmethod
    def from_config(
        cls, config: EmbeddingConfig, *, model: str | None = None, expected_dimension: int | None = None
    ) -> HttpEmbedder:
        """As configured; ``model`` replaces the configured one.

        :raises EmbeddingUnavailable: no model or no base_url is given.
        """
        model = model or config.model
        if not model or not config.base_url:
            raise EmbeddingUnavailable("embedding.provider 'openai' needs embedding.model and embedding.base_url")
        return cls(
            config.base_url,
            model,
            api_key_env=config.api_key_env,
            dimension=config.dimension,
            expected_dimension=expected_dimension,
            batch_size=config.batch_size,
            timeout_seconds=config.timeout_seconds,
            retries=config.retries,
        )

    @property
    def identity(self) -> EmbedderIdentity:
        """Provider ``openai``; the address and the key are no part of it. Asks the endpoint once for the width.

        :raises EmbeddingUnavailable: the width is not known yet and the endpoint cannot be reached.
        """
        if self._dimension is None:
            self._request(["dimension"])
        assert self._dimension is not None
        return EmbedderIdentity("openai", self._model, "", self._dimension)

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Shape (n, d), float32, L2-normalised; a vector that cannot be used is a row of NaN.

        :raises EmbeddingUnavailable: the endpoint cannot be reached or refuses, after all repetitions.
        """
        parts = [
            self._request([safe_text(text) for text in texts[start : start + self._batch_size]])
            for start in range(0, len(texts), self._batch_size)
        ]
        return np.concatenate(parts) if parts else np.zeros((0, self.identity.dimension), dtype=np.float32)

    def embed_query(self, text: str) -> Vectors:
        """Shape (d,), float32, L2-normalised.

        :raises EmbeddingUnavailable: as embed_documents.
        """
        vector: Vectors = self._request([safe_text(text)])[0]
        return vector

    def _request(self, texts: list[str]) -> Vectors:
        """One batch; shape (n, d)."""
        body: dict[str, Any] = {"model": self._model, "input": texts, "encoding_format": "float"}
        if self._asked_dimension is not None:
            body["dimensions"] = self._asked_dimension
        return self._endpoint.ask(body, lambda reply: self._vectors(reply, len(texts)))

    def _vectors(self, reply: Any, count: int) -> Vectors | Failure:
        items = reply["data"]
        ordered = [item["embedding"] for item in sorted(items, key=lambda item: int(item["index"]))]
        positions = sorted(int(item["index"]) for item in items)
        if positions != list(range(count)):
            return Failure(f"{len(positions)} embeddings for {count} texts", again=False)
        if self._dimension is None:
            if not isinstance(ordered[0], list) or not ordered[0]:
                return Failure("the first embedding is empty or not a list", again=False)
            self._dimension = len(ordered[0])
        wrong = {len(row) for row in ordered if isinstance(row, list)} - {self._dimension}
        if wrong:
            return Failure(f"embeddings of {min(wrong)} numbers instead of {self._dimension}", again=False)
        return unit_rows(ordered, count, self._dimension)

"""Any endpoint with the OpenAI embeddings API: ``POST {base_url}/embeddings``.

The key is read from the environment at each request and goes into one header; it is in no attribute, message or
identity. httpx is imported at first use.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hybridmem.config import EmbeddingConfig
from hybridmem.embed.vectors import safe_text, unit_rows
from hybridmem.errors import EmbeddingUnavailable
from hybridmem.ports import EmbedderIdentity, Vectors

#: Pause before the first repetition in seconds; each further one is twice as long, up to LONGEST_PAUSE_SECONDS.
FIRST_PAUSE_SECONDS = 0.5
#: A longer Retry-After is not obeyed: the nodes stay pending and are tried again later anyway.
LONGEST_PAUSE_SECONDS = 30.0
#: Characters of the endpoint's own error message that are quoted.
QUOTED = 200


@dataclass(frozen=True, slots=True)
class Failure:
    """A request that gave no vectors. ``pause`` is how long the endpoint asked to wait in seconds, or None."""

    reason: str
    again: bool
    pause: float | None = None


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
        self._url = base_url.rstrip("/") + "/embeddings"
        self._model = model
        self._api_key_env = api_key_env
        self._asked_dimension = dimension
        self._dimension = dimension or expected_dimension
        self._batch_size = batch_size
        self._timeout_seconds = timeout_seconds
        self._retries = retries
        self._sleep = sleep

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
        """One batch, repeated as configured; shape (n, d)."""
        pause = FIRST_PAUSE_SECONDS
        tries = 0
        while True:
            result = self._attempt(texts)
            tries += 1
            if not isinstance(result, Failure):
                return result
            if not result.again or tries > self._retries or (result.pause or 0.0) > LONGEST_PAUSE_SECONDS:
                break
            self._sleep(max(pause, result.pause or 0.0))
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        tried = f" (tried {tries} times)" if tries > 1 else ""
        raise EmbeddingUnavailable(f"the embedding endpoint {self._url} failed: {result.reason}{tried}")

    def _attempt(self, texts: list[str]) -> Vectors | Failure:
        try:
            import httpx
        except ImportError as error:
            raise EmbeddingUnavailable("httpx is not installed; run: pip install httpx") from error
        body: dict[str, Any] = {"model": self._model, "input": texts, "encoding_format": "float"}
        if self._asked_dimension is not None:
            body["dimensions"] = self._asked_dimension
        key = os.environ.get(self._api_key_env, "").strip()
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        try:
            response = httpx.post(self._url, json=body, headers=headers, timeout=self._timeout_seconds)
        except httpx.TimeoutException:
            return Failure(f"no answer within {self._timeout_seconds:g} s", again=True)
        except (httpx.LocalProtocolError, httpx.UnsupportedProtocol, httpx.InvalidURL, ValueError) as error:
            # A key with a line break or a non-ASCII letter ends here, and the original message would quote it.
            raise EmbeddingUnavailable(
                f"the request to {self._url} cannot be made: check embedding.base_url and the value of "
                f"{self._api_key_env} ({type(error).__name__})"
            ) from None
        except httpx.HTTPError as error:
            return Failure(_without(key, str(error) or type(error).__name__), again=True)
        if response.status_code != 200:
            return self._refusal(response, key)
        return self._vectors(response, len(texts))

    def _refusal(self, response: Any, key: str) -> Failure:
        status = int(response.status_code)
        reason = f"HTTP {status}: {_without(key, response.text.strip())[:QUOTED]}"
        if status in (401, 403):
            reason += f" (the key is read from the environment variable {self._api_key_env})"
        again = status in (408, 429) or status >= 500
        return Failure(reason, again, _seconds(response.headers.get("retry-after")))

    def _vectors(self, response: Any, count: int) -> Vectors | Failure:
        try:
            items = response.json()["data"]
            ordered = [item["embedding"] for item in sorted(items, key=lambda item: int(item["index"]))]
            positions = sorted(int(item["index"]) for item in items)
        except (ValueError, KeyError, TypeError):
            return Failure("the reply is not what the embeddings API promises", again=False)
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


def _seconds(header: str | None) -> float | None:
    """Retry-After in seconds; its form as a date is left aside for our own pauses."""
    try:
        return max(0.0, float(header)) if header else None
    except ValueError:
        return None


def _without(key: str, text: str) -> str:
    """Some endpoints quote the key they refuse."""
    return text.replace(key, "***") if key else text

"""One way to ask an endpoint with an OpenAI-compatible API: time-outs, repetitions with growing pauses, and a key that
is read from the environment at each request, goes into one header, and is in no attribute and no message.

httpx is imported at first use.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from hybridmem.errors import HybridMemError

#: Pause before the first repetition in seconds; each further one is twice as long, up to LONGEST_PAUSE_SECONDS.
FIRST_PAUSE_SECONDS = 0.5
#: A longer Retry-After is not obeyed: what was wanted is tried again later anyway.
LONGEST_PAUSE_SECONDS = 30.0
#: Characters of the endpoint's own error message that are quoted.
QUOTED = 200

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Failure:
    """A request that gave nothing. ``pause`` is how long the endpoint asked to wait in seconds, or None."""

    reason: str
    again: bool
    pause: float | None = None


class Endpoint:
    """An address that JSON is posted to. Safe to share between threads."""

    def __init__(
        self,
        url: str,
        *,
        name: str,
        api: str,
        setting: str,
        error: type[HybridMemError],
        api_key_env: str = "OPENAI_API_KEY",
        timeout_seconds: float = 30.0,
        retries: int = 3,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """
        :param name: what it is in messages, e.g. "the embedding endpoint".
        :param api: what its replies are to be like, in messages, e.g. "the embeddings API".
        :param setting: the key of the configuration that the address comes from.
        :param error: what is raised when it fails.
        :param api_key_env: environment variable with the key; unset or empty means no key is sent.
        :param timeout_seconds: for one request.
        :param retries: how often a request is repeated after 429, 5xx, a time-out or a lost connection, ≥ 0.
        :param sleep: called with the seconds of each pause.
        """
        self.url = url
        self._name = name
        self._api = api
        self._setting = setting
        self._error = error
        self._api_key_env = api_key_env
        self._timeout_seconds = timeout_seconds
        self._retries = retries
        self._sleep = sleep

    def ask(self, body: Mapping[str, Any], read: Callable[[Any], T | Failure]) -> T:
        """Posts ``body``, repeated as configured.

        :param read: makes something of the parsed reply, or says what is wrong with it; ValueError, KeyError, TypeError
            and IndexError mean that it is not what the API promises.
        """
        pause = FIRST_PAUSE_SECONDS
        tries = 0
        while True:
            result = self._attempt(body, read)
            tries += 1
            if not isinstance(result, Failure):
                return result
            if not result.again or tries > self._retries or (result.pause or 0.0) > LONGEST_PAUSE_SECONDS:
                break
            self._sleep(max(pause, result.pause or 0.0))
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        tried = f" (tried {tries} times)" if tries > 1 else ""
        raise self._error(f"{self._name} {self.url} failed: {result.reason}{tried}")

    def _attempt(self, body: Mapping[str, Any], read: Callable[[Any], T | Failure]) -> T | Failure:
        try:
            import httpx
        except ImportError as error:
            raise self._error("httpx is not installed; run: pip install httpx") from error
        key = os.environ.get(self._api_key_env, "").strip()
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        try:
            response = httpx.post(self.url, json=body, headers=headers, timeout=self._timeout_seconds)
        except httpx.TimeoutException:
            return Failure(f"no answer within {self._timeout_seconds:g} s", again=True)
        except (httpx.LocalProtocolError, httpx.UnsupportedProtocol, httpx.InvalidURL, ValueError) as error:
            # A key with a line break or a non-ASCII letter ends here, and the original message would quote it.
            raise self._error(
                f"the request to {self.url} cannot be made: check {self._setting} and the value of "
                f"{self._api_key_env} ({type(error).__name__})"
            ) from None
        except httpx.HTTPError as error:
            return Failure(_without(key, str(error) or type(error).__name__), again=True)
        if response.status_code != 200:
            return self._refusal(response, key)
        try:
            return read(response.json())
        except (ValueError, KeyError, TypeError, IndexError):
            return Failure(f"the reply is not what {self._api} promises", again=False)

    def _refusal(self, response: Any, key: str) -> Failure:
        status = int(response.status_code)
        reason = f"HTTP {status}: {_without(key, response.text.strip())[:QUOTED]}"
        if status in (401, 403):
            reason += f" (the key is read from the environment variable {self._api_key_env})"
        again = status in (408, 429) or status >= 500
        return Failure(reason, again, _seconds(response.headers.get("retry-after")))


def _seconds(header: str | None) -> float | None:
    """Retry-After in seconds; its form as a date is left aside for our own pauses."""
    try:
        return max(0.0, float(header)) if header else None
    except ValueError:
        return None


def _without(key: str, text: str) -> str:
    """Some endpoints quote the key they refuse."""
    return text.replace(key, "***") if key else text

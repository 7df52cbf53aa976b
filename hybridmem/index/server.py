"""Where a Chroma server is, and how to speak to it: ``index.url`` and the keys beside it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from hybridmem.config import IndexConfig
from hybridmem.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Server:
    """``url``: http(s)://host[:port][/path]. ``timeout_seconds``: for each step of a request, > 0: to connect, and to
    wait for more of the answer. ``headers``: sent with every request; they may be secrets, so no repr shows them."""

    url: str
    timeout_seconds: float
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, config: IndexConfig) -> Server | None:
        """The configured server; None: Chroma runs in this process.

        :raises ConfigError: a variable of ``index.headers_env`` is not set.
        """
        if config.url is None:
            return None
        headers = []
        for name, variable in config.headers_env.items():
            value = os.environ.get(variable)
            if value is None:
                raise ConfigError(f"index.headers_env.{name}: the environment variable {variable} is not set")
            headers.append((name, value))
        return cls(config.url, config.timeout_seconds, tuple(headers))

"""The stores that examples happen in: a plain one, one that is encrypted, one with a directory for each namespace."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

#: A second master key; the environment has it as FUZZ_OTHER_KEY, and the file ``other.key``.
KEY, OTHER_KEY = bytes(range(32)), bytes(range(32, 64))
CONFIG: dict[str, Any] = {
    "embedding": {"provider": "hashing", "dimension": 32},
    "index": {"background": False},
    "store": {"durability": "process", "busy_timeout_seconds": 0.2},
    "weights": {"count_uses": False},
}


@dataclass(frozen=True)
class World:
    """A kind of store: how its namespaces lie, and its master key if it has one."""

    layout: str = "shared"
    key: bytes | None = None

    @property
    def config(self) -> dict[str, Any]:
        return {**CONFIG, "store": {**CONFIG["store"], "layout": self.layout}}

    @property
    def environment(self) -> dict[str, str]:
        """What the program is told beside its arguments."""
        key = {} if self.key is None else {"HYBRIDMEM_KEY": text_of(self.key)}
        return {
            "HYBRIDMEM_STORE": "store", "HYBRIDMEM_CONFIG": "config.yaml", "HYBRIDMEM_DEBUG": "1",
            "FUZZ_OTHER_KEY": text_of(OTHER_KEY), **key,
        }  # fmt: skip


WORLDS = {"plain": World(), "encrypted": World(key=KEY), "separate": World("separate")}


def text_of(key: bytes) -> str:
    """A key as the environment or a file has it."""
    return base64.b64encode(key).decode("ascii")


class Clock:
    """A second later at each look, so that examples are the same every time."""

    def __init__(self) -> None:
        self._time = datetime(2026, 7, 2, 8, 0, tzinfo=timezone.utc)

    def now(self) -> datetime:
        self._time += timedelta(seconds=1)
        return self._time

"""What searches and contexts have delivered, counted in memory until it can go to the store with a write. Pure.

Reading never writes: the counts wait here for the next write of the handle, for flush() or close(), or for the thread
behind the writes. A process that dies loses those that wait, and nothing else.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping

#: Memories that are counted at a time; beyond them, only those among them count on until they have been written.
MOST = 10_000
#: Seconds after which the thread behind the writes writes what no other write has taken along. Not shorter, since a
#: search after it has to read again what weighs how much.
PATIENCE_SECONDS = 60.0


class Uses:
    """How often each memory was delivered since the counts were last taken. Threads may share it."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._since = 0.0
        self._guard = threading.RLock()  # a signal handler may search in the middle of a search

    def __len__(self) -> int:
        """How many memories have a count."""
        return len(self._counts)

    @property
    def is_due(self) -> bool:
        """Whether the oldest count has waited for PATIENCE_SECONDS."""
        return bool(self._counts) and time.monotonic() - self._since >= PATIENCE_SECONDS

    def count(self, ids: Iterable[str]) -> None:
        """One more use of each of these memories."""
        self.put_back(dict.fromkeys(ids, 1))

    def waiting(self) -> list[str]:
        """The memories that have a count now."""
        with self._guard:
            return list(self._counts)

    def take(self) -> dict[str, int]:
        """All counts, which are gone from here."""
        with self._guard:
            taken, self._counts = self._counts, {}
        return taken

    def put_back(self, counts: Mapping[str, int]) -> None:
        """Adds counts, such as those that were taken and could not be written."""
        with self._guard:
            if not self._counts:
                self._since = time.monotonic()
            for id, count in counts.items():
                if id in self._counts or len(self._counts) < MOST:
                    self._counts[id] = self._counts.get(id, 0) + count

"""Milliseconds, and what is said of many of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

Result = TypeVar("Result")

#: Many times of one thing, as they are written down: {"median": ms, "p95": ms, "n": how many}.
Summary = dict[str, float]


class Times:
    """Collects the times of one thing, in ms.

    :param apart: a running count of seconds that are no part of it, e.g. those inside the embedder.
    """

    def __init__(self, apart: Callable[[], float] = float) -> None:
        self.ms: list[float] = []
        self._apart = apart

    def of(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Does the work and notes how long it took."""
        apart, began = self._apart(), time.perf_counter()
        result = work(*arguments)
        took = time.perf_counter() - began
        self.ms.append(1000.0 * (took - (self._apart() - apart)))
        return result

    def summary(self) -> Summary:
        return summary(self.ms)


def summary(ms: Sequence[float]) -> Summary:
    """Median, 95th percentile and number of some times in ms, at least one."""
    ordered = sorted(ms)
    p95 = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    return {"median": round(statistics.median(ordered), 4), "p95": round(p95, 4), "n": len(ordered)}


def ratio(one: dict[str, Any], other: dict[str, Any]) -> float:
    """How many times as long ``one`` takes as ``other``, by their medians."""
    return round(float(one["median"] / max(other["median"], 1e-6)), 3)

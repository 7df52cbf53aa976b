"""The kinds of results besides those of experiments with systems, and the tables of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from eval import results
from eval.bench import sheets as bench
from eval.consolidation import sheets as consolidation
from eval.durability import sheets as durability
from eval.forgetting import sheets as forgetting
from eval.sheet import Sheet
from eval.updates import sheets as updates

Result = Mapping[str, Any]

#: By the key that tells a result of the kind: what it is called in a report, and what makes its tables.
_KINDS = {
    results.BENCH: ("Latency and throughput", bench.of),
    results.DURABILITY: ("Durability", durability.of),
    results.FORGETTING: ("Forgetting", forgetting.of),
    results.UPDATES: ("What holds now", updates.of),
    results.CONSOLIDATION: ("Consolidation", consolidation.of),
}


def title(result: Result) -> str:
    """What a result is called: its kind, and the commit that it was made with, as several may stand beside each
    other."""
    name, kind = results.name(result), results.kind(result)
    return f"{_KINDS[kind][0]}: {results.commit(result)}" + (f" ({name})" if name != kind else "")


def sheets(result: Result) -> Iterable[Sheet]:
    """The tables of a result."""
    made: Iterable[Sheet] = _KINDS[results.kind(result)][1](result)
    return made

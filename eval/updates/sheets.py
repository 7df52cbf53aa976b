"""The table of what holds now, made from its result alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from eval.sheet import Cell, Sheet


def of(result: Mapping[str, Any]) -> Iterator[Sheet]:
    """A row for each way of writing a correction, with the weights on and off."""
    found = result["updates"]
    languages = sorted(found["found"][0]["by_language"])
    rows = [
        [
            Cell(one["way"]),
            Cell(one["weights"]),
            Cell(_percent(one["newer_first"])),
            *(Cell(_percent(one["by_language"][name])) for name in languages),
            Cell(_percent(one["newer_at_5"])),
            Cell(str(one["neither"])),
        ]
        for one in found["found"]
    ]
    pairs, seeds = found["found"][0]["pairs"], ", ".join(map(str, found["seeds"]))
    title = f"What holds now: {pairs} corrected notes of {found['runs']} synthetic runs (seeds {seeds})"
    columns = (
        "the correction is written as",
        "weights",
        "newer first, %",
        *languages,
        "newer in first 5, %",
        "neither",
    )
    yield Sheet(
        title, columns, rows, (f"Among {found['k']} hits; pairs of which neither is there are not counted.",), labels=2
    )


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100.0 * share:.1f}"

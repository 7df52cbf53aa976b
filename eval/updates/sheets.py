"""The tables of what holds now, made from its result alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from eval.sheet import Cell, Sheet

#: What was measured of one way of writing, with one setting of the weights.
Measured = Mapping[str, Any]


def of(result: Mapping[str, Any]) -> Iterator[Sheet]:
    """For each data set a row for each way of writing a change, with the weights on and off."""
    plan = result["updates"]["plan"]
    for data, found in by_data(result).items():
        kinds = sorted(found[0]["by_kind"])
        rows = [
            [
                Cell(one["way"]),
                Cell(one["weights"]),
                Cell(_percent(one["newer_first"])),
                *(Cell(_percent(one["by_kind"][kind])) for kind in kinds),
                Cell(_percent(one["newer_at_5"])),
                Cell(str(one["neither"])),
            ]
            for one in found
        ]
        columns = ("the change is written", "weights", "newer first, %", *kinds, "newer in first 5, %", "neither")
        label = data.partition(", ")[2]
        seeds = f" (seeds {', '.join(map(str, plan['seeds'][label]))})" if label in plan["seeds"] else ""
        title = f"What holds now: {data}{seeds}, {found[0]['pairs']} questions about something that has changed"
        notes = (
            f"Among {plan['k']} hits, with the 95 % interval (bootstrap over questions); questions of which neither "
            "the newer nor the older evidence is there are not counted in the first.",
        )
        yield Sheet(title, columns, rows, notes, labels=2)


def by_data(result: Mapping[str, Any]) -> dict[str, Sequence[Measured]]:
    """What was measured, by the data that was asked."""
    found: dict[str, list[Measured]] = {}
    for one in result["updates"]["found"]:
        found.setdefault(one["data"], []).append(one)
    return dict(found)


def _percent(share: Mapping[str, float] | None) -> str:
    if share is None:
        return "–"
    return f"{100.0 * share['mean']:.1f} ({100.0 * share['low']:.1f}–{100.0 * share['high']:.1f})"

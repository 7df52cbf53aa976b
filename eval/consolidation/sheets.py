"""The table of a consolidation experiment, made from its result alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from eval.sheet import Cell, Sheet

_COLUMNS = (
    "language", "pass", "tokens written", "live after", "down, %", "least of a run", "planted facts", "recall, %",
    "least of a run", "originals by id",
)  # fmt: skip


def of(result: Mapping[str, Any]) -> Iterator[Sheet]:
    """Of each group of seeds a row for each language and pass: ratio and recall of planted facts together."""
    found = result["consolidation"]
    plan = found["plan"]
    for label, languages in found["seeds"].items():
        rows = [
            [
                Cell(language),
                Cell(str(place)),
                Cell(f"{one['tokens_written']:,}"),
                Cell(f"{one['tokens_after']:,}"),
                Cell(f"{one['down']:.1f}"),
                Cell(f"{one['least_down']:.1f}"),
                Cell(f"{one['facts_kept']:,} of {one['facts']:,}"),
                Cell(f"{one['recall']:.1f}"),
                Cell(f"{one['least_recall']:.1f}"),
                Cell(f"{one['recoverable']:,} of {one['originals']:,}"),
            ]
            for language, passes in languages.items()
            for place, one in enumerate(passes, 1)
        ]
        seeds = ", ".join(map(str, plan["seeds"][label]))
        title = f"Consolidation: synthetic runs, seeds {label} ({seeds}), {plan['runs']} runs each"
        notes = (
            "Down: of the tokens of everything ever written, the share that is live no more. Recall: planted facts "
            "whose words stand in a live memory of their own task.",
            f"Before each further pass every task gets {plan['later_notes']} notes of chatter. "
            f"Tokens: {found['counter']}.",
        )
        yield Sheet(title, _COLUMNS, rows, notes)

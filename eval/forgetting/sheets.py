"""The tables of a forgetting experiment, made from its result alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from eval.sheet import Cell, Sheet

Result = Mapping[str, Any]


def of(result: Result) -> Iterator[Sheet]:
    """Mis-forgetting, then recall: a row for each policy, a column for each share forgotten."""
    found = result["forgetting"]
    data, plan = found["dataset"], found["plan"]
    where = f"{data['name']}, {data['questions']} questions of {data['corpora']} histories, asked online"
    yield _sheet(
        result,
        f"Mis-forgetting, %, by the share of sessions forgotten: {where}",
        lambda cell: cell["mis_forgetting"],
        min,
        ("Needed sessions that were forgotten when they were needed / needed sessions.",),
    )
    kept = found["nothing_forgotten"]["recall"]
    yield _sheet(
        result,
        f"Recall@{plan['k']} of sessions, %, by the share of sessions forgotten: {where}",
        lambda cell: cell["recall"]["mean"],
        max,
        (f"With nothing forgotten {_percent(kept['mean'])} ({_percent(kept['low'])}–{_percent(kept['high'])}).",),
    )


def shares(result: Result) -> list[float]:
    """The shares of a result, rising."""
    return sorted({cell["share"] for cell in result["forgetting"]["policies"]})


def rows(result: Result) -> dict[str, dict[float, Mapping[str, Any]]]:
    """By policy and share what was measured, in the order of the plan."""
    found: dict[str, dict[float, Mapping[str, Any]]] = {}
    for cell in result["forgetting"]["policies"]:
        found.setdefault(cell["policy"], {})[cell["share"]] = cell
    return found


def _sheet(result: Result, title: str, value: Any, best: Any, notes: tuple[str, ...]) -> Sheet:
    across, table = shares(result), rows(result)
    winners = {share: best(value(cells[share]) for cells in table.values()) for share in across}
    body = [
        [
            Cell(policy),
            *(Cell(_percent(value(cells[share])), value(cells[share]) == winners[share]) for share in across),
        ]
        for policy, cells in table.items()
    ]
    return Sheet(title, ("policy", *(f"{share:.0%}" for share in across)), body, notes)


def _percent(share: float) -> str:
    return f"{100.0 * share:.1f}"

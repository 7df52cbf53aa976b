"""The tables of a forgetting experiment, made from its result alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from eval.sheet import Cell, Sheet

Result = Mapping[str, Any]
#: What was measured of a policy at a share.
Measured = Mapping[str, Any]


def of(result: Result) -> Iterator[Sheet]:
    """Mis-forgetting, then recall, then what recall has lost: a row for each policy, a column for each share forgotten.
    Where variants of the first policy were lived, also what choosing among them is worth."""
    found = result["forgetting"]
    data, plan = found["dataset"], found["plan"]
    where = f"{data['name']}, {data['questions']} questions of {data['corpora']} histories, asked online"
    lead = next(iter(plan["policies"]))
    lives = max(cell["lives"] for cell in found["policies"])
    yield _sheet(
        result,
        f"Mis-forgetting, %, by the share of sessions forgotten: {where}",
        lambda cell: cell["mis_forgetting"],
        min,
        (
            "Needed sessions that were forgotten when they were needed / needed sessions; 95 % interval (bootstrap "
            "over questions).",
            f"= : not told apart from {lead} (paired permutation test, p ≥ 0.05)."
            + (f" What is drawn: mean of {lives} lives." if lives > 1 else ""),
        ),
    )
    kept = found["nothing_forgotten"]["recall"]
    before = f"With nothing forgotten {_percent(kept['mean'])} ({_ends(kept)})."
    yield _sheet(
        result,
        f"Recall@{plan['k']} of sessions, %, by the share of sessions forgotten: {where}",
        lambda cell: cell["recall"],
        max,
        (before,),
    )
    yield _sheet(
        result,
        f"Points of recall@{plan['k']} lost by forgetting: {where}",
        lambda cell: cell["recall_lost"],
        min,
        ("Mean of the difference question by question, with its 95 % interval; below 0: more was found.",),
    )
    if plan.get("variants"):
        yield _left_out(result)


def shares(result: Result) -> list[float]:
    """The shares of a result, rising."""
    return sorted({cell["share"] for cell in result["forgetting"]["policies"]})


def rows(result: Result) -> dict[str, dict[float, Measured]]:
    """By policy and share what was measured, in the order of the plan."""
    found: dict[str, dict[float, Measured]] = {}
    for cell in result["forgetting"]["policies"]:
        found.setdefault(cell["policy"], {})[cell["share"]] = cell
    return found


def _sheet(
    result: Result,
    title: str,
    value: Callable[[Measured], Mapping[str, float]],
    best: Callable[[Iterator[float]], float],
    notes: tuple[str, ...],
) -> Sheet:
    across, table = shares(result), rows(result)
    winners = {share: best(value(cells[share])["mean"] for cells in table.values()) for share in across}
    lead = next(iter(table))

    def cell(policy: str, share: float) -> Cell:
        one = value(table[policy][share])
        alike = " =" if best is min and policy != lead and table[policy][share]["p"] >= 0.05 else ""
        return Cell(f"{_percent(one['mean'])} ({_ends(one)}){alike}", one["mean"] == winners[share])

    body = [[Cell(policy), *(cell(policy, share) for share in across)] for policy in table]
    return Sheet(title, ("policy", *(f"{share:.0%}" for share in across)), body, notes)


def _left_out(result: Result) -> Sheet:
    """Each history, forgotten by what would have been chosen on the others."""
    across, table = shares(result), rows(result)
    plan = result["forgetting"]["plan"]
    choices = [next(iter(plan["policies"])), *plan["variants"]]
    histories = list(next(iter(table.values()))[across[0]]["histories"])
    body, chosen_of = [], {}
    for left in histories:
        others = [one for one in histories if one != left]
        chosen_of[left] = min(choices, key=lambda label: _missed(table[label], across, others))
        cells = (_percent(_ratio(table[chosen_of[left]][share], [left])) for share in across)
        body.append([Cell(left), Cell(chosen_of[left]), *map(Cell, cells)])
    together = [sum(table[chosen_of[one]][share]["histories"][one][0] for one in histories) for share in across]
    needed = [sum(table[chosen_of[one]][share]["histories"][one][1] for one in histories) for share in across]
    body.append(
        [Cell("all"), Cell(""), *(Cell(_percent(gone / all_)) for gone, all_ in zip(together, needed, strict=True))]
    )
    title = "Mis-forgetting, %, of each history by the variant that was best on the others"
    notes = ("Best: the least mis-forgetting, summed over the shares.",)
    return Sheet(title, ("left out", "chosen", *(f"{share:.0%}" for share in across)), body, notes, labels=2)


def _missed(cells: Mapping[float, Measured], across: Sequence[float], histories: Sequence[str]) -> float:
    return sum(_ratio(cells[share], histories) for share in across)


def _ratio(cell: Measured, histories: Sequence[str]) -> float:
    counts = [cell["histories"][one] for one in histories]
    return float(sum(gone for gone, _ in counts) / sum(needed for _, needed in counts))


def _ends(figure: Mapping[str, float]) -> str:
    return f"{_percent(figure['low'])}–{_percent(figure['high'])}"


def _percent(share: float) -> str:
    return f"{100.0 * share:.1f}".replace("-", "−")

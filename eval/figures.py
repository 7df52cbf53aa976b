"""From question logs to figures, pure: means with intervals, contexts, times, and the test against each other system.

A figure is named by its granularity, e.g. ``items recall@10``, ``groups all@5``, ``items recall in 1024 tokens``; what
the data set calls its items and groups is in the result's ``data.granularity``.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from eval import metrics, significance
from eval.experiment import Experiment
from eval.significance import Floats
from eval.types import Question

#: Both granularities, with the keys that a question's log has for each: (name, gold, ranking).
GRANULARITIES = (("items", "gold", "retrieved"), ("groups", "gold_groups", "retrieved_groups"))
#: Stands for the budget in the log of a system that shows everything.
ALL = "all"
#: The system that every other one is tested against.
REFERENCE = "hybridmem"

Entry = Mapping[str, Any]


def at_k(granularity: str, metric: str, k: int) -> str:
    """The name of a figure of a ranking."""
    return f"{granularity} {metric}@{k}"


def within(granularity: str, budget: int | str) -> str:
    """The name of a figure of a context."""
    return f"{granularity} recall in {budget} tokens"


def gold(question: Question, granularity: str) -> tuple[str, ...]:
    """The evidence of a question at one granularity; empty when the data set does not know it."""
    return question.gold if granularity == "items" else question.gold_groups


def of_run(logs: Mapping[str, Sequence[Entry]], experiment: Experiment, seed: int) -> dict[str, Any]:
    """``metrics`` per system, and ``tests``: hybridmem minus each other system, question by question."""
    columns = {name: _columns(log, experiment) for name, log in logs.items()}
    reference = columns.get(REFERENCE, {})
    return {
        "metrics": {
            name: {"figures": _figures(columns[name], seed), **_contexts(log), **_times(log)}
            for name, log in logs.items()
        },
        "tests": {name: _differences(reference, other, seed) for name, other in columns.items() if name != REFERENCE},
    }


def of_candidates(log: Sequence[Entry], experiment: Experiment) -> dict[str, Any]:
    """``chance``: what a random order is expected to get; ``too_few``: for how many questions of a growing history a k
    was not below the number of candidates, so that it measures nothing there and they are left out of that figure.

    At groups chance is that of groups drawn evenly; a random order of items prefers large groups. ``everything_fits``:
    for how many questions the full history is within a budget, so that showing all of it would score 100 %.
    """
    chance: dict[str, float] = {}
    too_few: dict[str, int] = {}
    for granularity, evidence, _ in GRANULARITIES:
        sizes = [entry["candidates"][granularity] for entry in log if entry[evidence]]
        for k in _ks(experiment, granularity) if sizes else ():
            usable = [size for size in sizes if size > k]
            name = at_k(granularity, "recall", k)
            chance[name] = statistics.fmean(metrics.chance_recall(k, size) for size in usable)
            if len(usable) < len(sizes):
                too_few[name] = len(sizes) - len(usable)
    fits = {str(budget): sum(entry["full_tokens"] <= budget for entry in log) for budget in experiment.budgets}
    return {
        "chance": chance,
        "too_few": too_few,
        "everything_fits": {budget: count for budget, count in fits.items() if count},
    }


def _columns(log: Sequence[Entry], experiment: Experiment) -> dict[str, Floats]:
    """One value per question and figure; NaN where a question says nothing about it. Without figures nobody has."""
    columns: dict[str, list[float]] = {}
    for granularity, evidence, ranking in GRANULARITIES:
        for k in _ks(experiment, granularity):
            for name, metric in metrics.METRICS.items():
                columns[at_k(granularity, name, k)] = [
                    metric(entry[ranking], entry[evidence], k)
                    if entry[evidence] and ranking in entry and entry["candidates"][granularity] > k
                    else np.nan
                    for entry in log
                ]
        for budget in log[0]["contexts"]:
            columns[within(granularity, budget)] = [
                entry["contexts"][budget]["recall"].get(granularity, np.nan) for entry in log
            ]
    arrays = {name: np.array(values, dtype=np.float64) for name, values in columns.items()}
    return {name: values for name, values in arrays.items() if not np.isnan(values).all()}


def _ks(experiment: Experiment, granularity: str) -> tuple[int, ...]:
    return experiment.ks if granularity == "items" else experiment.group_ks


def _figures(columns: Mapping[str, Floats], seed: int) -> dict[str, dict[str, float]]:
    if not columns:
        return {}
    ends = significance.intervals(np.column_stack(list(columns.values())), seed=seed)
    return {
        name: {
            "mean": float(np.nanmean(values)),
            "low": float(low),
            "high": float(high),
            "n": int(np.count_nonzero(~np.isnan(values))),
        }
        for (name, values), (low, high) in zip(columns.items(), ends, strict=True)
    }


def _differences(
    reference: Mapping[str, Floats], other: Mapping[str, Floats], seed: int
) -> dict[str, dict[str, float]]:
    names = [name for name in reference if name in other]
    if not names:
        return {}
    table = np.column_stack([reference[name] - other[name] for name in names])
    ends, p = significance.intervals(table, seed=seed), significance.p_values(table, seed=seed)
    return {
        name: {
            "difference": float(np.nanmean(table[:, place])),
            "low": float(ends[place, 0]),
            "high": float(ends[place, 1]),
            "p": float(p[place]),
        }
        for place, name in enumerate(names)
    }


def _contexts(log: Sequence[Entry]) -> dict[str, Any]:
    """Per budget: tokens of the contexts, what they save of the full history, and the time they took."""
    found = {}
    for budget in log[0]["contexts"]:
        entries = [(entry["contexts"][budget], entry["full_tokens"]) for entry in log]
        tokens = [context["tokens"] for context, _ in entries]
        found[budget] = {
            "tokens": statistics.median(tokens),
            "tokens_max": max(tokens),
            "compression": statistics.fmean(metrics.compression(context["tokens"], full) for context, full in entries),
            "ms": statistics.median(context["ms"] for context, _ in entries),
        }
    return {"contexts": found}


def _times(log: Sequence[Entry]) -> dict[str, Any]:
    """Milliseconds of one search, the embedding of the question not included; None for what is never searched."""
    times = [entry["ms"] for entry in log if "ms" in entry]
    if not times:
        return {"search_ms": None}
    median, late = np.quantile(times, [0.5, 0.95])
    return {"search_ms": {"median": float(median), "p95": float(late)}}

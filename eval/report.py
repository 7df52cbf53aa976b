"""The table of a run, made from its result alone (the dictionary or the file read back); measures nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

#: The cut-off whose interval is shown, when the experiment has it; otherwise its largest.
_HEADLINE_K = 10


def table(result: Mapping[str, Any]) -> Table:
    """One row per system: recall at each k, an interval, tokens of the context and its recall, time per query."""
    data, experiment = result["data"], result["experiment"]
    ks = experiment["ks"]
    headline = _HEADLINE_K if _HEADLINE_K in ks else ks[-1]
    shown = Table(title=_title(data), caption=_caption(result), title_justify="left", caption_justify="left")
    shown.add_column("system", no_wrap=True)
    for k in ks:
        shown.add_column(f"recall\n@{k}", justify="right")
    shown.add_column(f"95 % interval\nof @{headline}", justify="right", no_wrap=True)
    for column in ("context\ntokens", "recall in\ncontext", "compres-\nsion", "ms per\nquery"):
        shown.add_column(column, justify="right")
    best = {k: max(row[f"recall@{k}"] for row in result["metrics"].values()) for k in ks}
    for name, row in result["metrics"].items():
        low, high = row[f"recall@{headline}_interval"]
        shown.add_row(
            name,
            *[_marked(row[f"recall@{k}"], best[k]) for k in ks],
            f"{_percent(low)}–{_percent(high)}",
            f"{row['context_tokens']:,.0f}",
            _percent(row["context_recall"]),
            _percent(row["compression"]),
            f"{row['ms_per_query']:.1f}",
        )
    return shown


def _title(data: Mapping[str, Any]) -> str:
    return (
        f"{data['name']} ({data['source']}), {data['selection']}: evidence recall in %, {data['granularity']} level, "
        f"n = {data['questions']:,} questions"
    )


def _caption(result: Mapping[str, Any]) -> str:
    data, experiment = result["data"], result["experiment"]
    model = result["provenance"]["embedding_model"]
    chance = ", ".join(f"{_percent(value)} {key.removeprefix('recall')}" for key, value in data["chance"].items())
    embedding = result["embedding_ms_per_query"]
    cost = f" ({embedding:.0f} ms, the same for every vector system)" if embedding is not None else ""
    lines = [
        f"Histories: {data['corpora']}, {data['granularity']}s: {data['items']:,}. A random order would get {chance}.",
        f"Context: median tokens ({data['token_counter']}) at a budget of {experiment['token_budget']:,}, the evidence "
        f"recall within it, and 1 - tokens / full history ({data['full_history_tokens']:,.0f} tokens on average).",
        f"ms per query: median of search(), embedding the question{cost} not included.",
        f"Embedding model: {model['model']} ({model['provider']}, {model['dimension']} dimensions).",
    ]
    if data["dropped"]:
        lines.append("Left out: " + ", ".join(f"{reason}: {count}" for reason, count in data["dropped"].items()) + ".")
    return "\n".join(lines)


def _percent(share: float) -> str:
    return f"{100.0 * share:.1f}"


def _marked(value: float, best: float) -> str:
    return f"[bold]{_percent(value)}[/bold]" if value == best else _percent(value)

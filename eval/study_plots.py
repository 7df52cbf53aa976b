"""The plots of experiments of eval.studies, made from their results alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eval.forgetting import sheets as forgetting
from eval.paper import INK, OTHERS, STYLES, Axes, Figure, head, paper
from eval.updates import sheets as updates

Result = Mapping[str, Any]
_LOOKS = [*STYLES.values(), *OTHERS]
_ON, _OFF = "#0072B2", "#9CC3DC"


def mis_forgetting(result: Result) -> Figure:
    """One line per policy: of the needed sessions, those that were forgotten, against the share forgotten."""
    figure, axes = paper(6.4, 4.2)
    across, rows = forgetting.shares(result), forgetting.rows(result)
    percents = [100 * share for share in across]
    for place, (policy, cells) in enumerate(rows.items()):
        color, mark = _LOOKS[place % len(_LOOKS)]
        missed = [cells[share]["mis_forgetting"] for share in across]
        low, high = [[100 * one[end] for one in missed] for end in ("low", "high")]
        axes.fill_between(percents, low, high, color=color, alpha=0.15 if place == 0 else 0.07, linewidth=0)
        means, width = [100 * one["mean"] for one in missed], 2.4 if place == 0 else 1.4
        axes.plot(percents, means, color=color, marker=mark, linewidth=width, label=policy)
    axes.set_xlabel("sessions forgotten, %")
    axes.set_ylabel("needed sessions forgotten, %, with 95 % interval")
    axes.set_ylim(bottom=0)
    data = result["forgetting"]["dataset"]
    below = f"{data['name']}, {data['questions']:,} questions of {data['corpora']} histories, asked as they grow"
    head(axes, "Mis-forgetting", below)
    _legend(axes)
    return figure


def consolidation(result: Result) -> Figure:
    """One line per group of seeds and language: planted facts that are left, against the tokens that are left, after
    each pass."""
    figure, axes = paper(6.4, 4.2)
    found = result["consolidation"]
    lines = [(label, language, passes) for label, one in found["seeds"].items() for language, passes in one.items()]
    for place, (label, language, passes) in enumerate(line for line in lines if line[1] != "all"):
        color, mark = _LOOKS[place % len(_LOOKS)]
        down, recall = [[one[name] for one in passes] for name in ("down", "recall")]
        axes.plot(down, recall, color=color, marker=mark, linewidth=1.4, label=f"{language}, seeds {label}")
        for number, point in enumerate(zip(down, recall, strict=True), 1):
            axes.annotate(str(number), point, xytext=(4, 4), textcoords="offset points", fontsize=7, color=INK)
    axes.axvline(60, color="#999999", linewidth=0.8, linestyle=":")
    axes.axhline(95, color="#999999", linewidth=0.8, linestyle=":")
    axes.set_xlim(50, 100)
    axes.set_ylim(90, 101)
    axes.set_xlabel("tokens that are live no more, %")
    axes.set_ylabel("planted facts in live memories, %")
    head(axes, "Consolidation", "synthetic runs, after each pass (1, 2, …); dotted: what is promised")
    _legend(axes)
    return figure


def newer_first(result: Result) -> Figure:
    """A bar for each way of writing a change, for each setting of the weights: how often the newer one comes first."""
    rows = [(data, one) for data, found in updates.by_data(result).items() for one in found if one["newer_first"]]
    figure, axes = paper(7.2, 0.9 + 0.3 * len(rows))
    first = next(iter(result["updates"]["plan"]["weights"]))
    for place, (_, one) in enumerate(rows):
        share = {end: 100 * value for end, value in one["newer_first"].items()}
        spread = [[share["mean"] - share["low"]], [share["high"] - share["mean"]]]
        color = _ON if one["weights"] == first else _OFF
        axes.barh([place], [share["mean"]], xerr=spread, color=color, height=0.7, error_kw={"ecolor": INK})
        axes.text(
            1.02,
            place,
            f"{share['mean']:.1f}",
            transform=axes.get_yaxis_transform(),
            va="center",
            fontsize=8,
            color=INK,
        )
    axes.set_yticks(range(len(rows)), [f"{data}: {one['way']}, weights {one['weights']}" for data, one in rows])
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    axes.set_xlabel("newer before older, %, with 95 % interval")
    axes.grid(visible=False, axis="y")
    head(axes, "What holds now", "questions about something that has changed")
    return figure


def _legend(axes: Axes) -> None:
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0)

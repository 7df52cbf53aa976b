"""Plots of results, as PNG files; made from results alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from eval import figures, results, study_plots, tables
from eval.bench import sheets
from eval.paper import INK, OTHERS, STYLES, Axes, Figure, FuncFormatter, NullLocator, head, paper
from eval.tables import Result

_DPI = 160


def draw(found: Sequence[Result], out: Path, others: Sequence[Result] = ()) -> list[Path]:
    """Writes every plot that these results have the figures for: for each experiment and data set recall against
    tokens, what each ablation costs, and latency, of its first run; for a sweep of one number, recall against it; and
    for each of ``others``, results of the kinds of eval.kinds, what is drawn of its kind.

    :return: the files.
    :raises OSError: ``out`` cannot be written to.
    """
    out.mkdir(parents=True, exist_ok=True)
    files = []
    for group in tables.by_dataset(found):
        for kind, make in _KINDS.items():
            figure = make(group)
            if figure is not None:
                files.append(out / f"{name(group[0])}-{kind}.png")
                figure.savefig(files[-1], dpi=_DPI, facecolor="white")
    for other in others:
        if results.kind(other) in _OTHER_KINDS:
            files.append(out / f"{other_name(other)}.png")
            _OTHER_KINDS[results.kind(other)][1](other).savefig(files[-1], dpi=_DPI, facecolor="white")
    return files


def other_name(result: Result) -> str:
    """What the plot of a result of another kind is called: by its commit, as several may be drawn beside each other."""
    kind = results.kind(result)
    return f"{results.name(result)}-{results.commit(result)}-{_OTHER_KINDS[kind][0] if kind in _OTHER_KINDS else ''}"


def name(result: Result) -> str:
    """What the plots of an experiment on a data set are called."""
    experiment, dataset = result["experiment"]["name"], result["dataset"]
    part = f"-first{result['limit']}" if result["limit"] else ""
    return (experiment if dataset == experiment else f"{experiment}-{dataset}") + part


def recall_against_tokens(group: Sequence[Result]) -> Figure | None:
    """One line per system, through its contexts at every budget, if there are several; a star for the full history."""
    result = group[0]
    granularity = tables.measured(result)[0]
    budgets = [str(budget) for budget in result["experiment"]["budgets"]]
    systems = [system for system in _ranked(result) if ":" not in system]
    if len(budgets) < 2 or not systems:
        return None
    figure, axes = paper(6.4, 4.2)
    for system in systems:
        row = result["metrics"][system]
        tokens = [row["contexts"][budget]["tokens"] for budget in budgets]
        found = [row["figures"][figures.within(granularity, budget)] for budget in budgets]
        _line(axes, tokens, found, system, systems)
    full = result["data"]["full_history_tokens"]
    axes.plot(
        [full], [100], marker="*", markersize=12, color=INK, linestyle="none", label="full history", clip_on=False
    )
    axes.set_xscale("log", base=2)
    axes.set_xticks([*map(int, budgets), full] if full > 1.3 * int(budgets[-1]) else [*map(int, budgets)])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:,.0f}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_ylim(0, 104)
    axes.set_xlabel(f"tokens of the context, median ({result['data']['token_counter']})")
    axes.set_ylabel(f"{tables.unit(result, granularity)} evidence in it, %")
    _head(axes, result, "Evidence recall against tokens")
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0)
    return figure


def ablations(group: Sequence[Result]) -> Figure | None:
    """One bar per ablation, with the interval of its recall and what it costs against the whole."""
    result = group[0]
    systems = [system for system in _ranked(result) if system.split(":")[0] == figures.REFERENCE]
    if len(systems) < 2:
        return None
    lead = tables.headline(result)
    granularity, _, metric = lead.partition(" ")
    found = {system: result["metrics"][system]["figures"][lead] for system in systems}
    figure, axes = paper(6.4, 0.9 + 0.42 * len(systems))
    places = range(len(systems))
    means = [100 * found[system]["mean"] for system in systems]
    spread = [
        [100 * (found[system]["mean"] - found[system]["low"]) for system in systems],
        [100 * (found[system]["high"] - found[system]["mean"]) for system in systems],
    ]
    colors = [STYLES[figures.REFERENCE][0] if system == figures.REFERENCE else "#9CC3DC" for system in systems]
    axes.barh(
        places,
        means,
        xerr=spread,
        color=colors,
        height=0.68,
        error_kw={"ecolor": INK, "elinewidth": 1.0, "capsize": 2.5},
    )
    axes.set_yticks(list(places), [system.partition(":")[2] or system for system in systems])
    axes.invert_yaxis()
    # Bars begin at 0: their lengths are what is compared.
    axes.set_xlim(0, 100)
    # Beside the axes, in one column: an interval may reach up to 100.
    beside = axes.get_yaxis_transform()
    for place, system in enumerate(systems):
        test = result["tests"].get(system, {}).get(lead)
        text = f"{means[place]:.1f}"
        if test is not None:
            text += f"   {tables.signed(-test['difference'])}  (p {_equals(tables.p_value(test['p']))})"
        axes.text(1.02, place, text, transform=beside, va="center", color=INK, fontsize=8)
    axes.set_xlabel(f"{tables.unit(result, granularity)} {metric}, %, with 95 % interval")
    axes.grid(visible=False, axis="y")
    _head(axes, result, "What each signal gives")
    return figure


def latency(group: Sequence[Result]) -> Figure | None:
    """One dot per system, the median search, and a line to the 95th percentile."""
    result = group[0]
    systems = _ranked(result)
    times = [result["metrics"][system]["search_ms"] for system in systems]
    if not systems:
        return None
    figure, axes = paper(6.4, 0.9 + 0.34 * len(systems))
    for place, (system, time) in enumerate(zip(systems, times, strict=True)):
        color = _style(system, systems)[0] if ":" not in system else "#9CC3DC"
        axes.plot([time["median"], time["p95"]], [place, place], color=color, linewidth=2.0, solid_capstyle="round")
        axes.plot([time["median"]], [place], marker="o", markersize=6, color=color)
        axes.plot([time["p95"]], [place], marker="|", markersize=8, markeredgewidth=2, color=color)
        median = f"{time['median']:.2g}"
        beside: dict[str, Any] = {"xytext": (7, 0), "textcoords": "offset points", "va": "center"}
        axes.annotate(median, (time["p95"], place), fontsize=8, color=INK, **beside)
    axes.set_yticks(range(len(systems)), systems)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:g}"))
    axes.margins(x=0.12, y=0.08)
    axes.set_xlabel("ms per search, without embedding: median to 95th percentile")
    axes.grid(visible=False, axis="y")
    _head(axes, result, "Latency")
    return figure


def swept(group: Sequence[Result]) -> Figure | None:
    """Recall against the one number that a sweep varies, of every system that it changes."""
    points = {key: [result["point"][key] for result in group] for key in group[0]["point"]}
    varied = [key for key, values in points.items() if len(set(map(str, values))) > 1]
    if len(varied) != 1 or not all(isinstance(value, (int, float)) for value in points[varied[0]]):
        return None
    key, lead = varied[0], tables.headline(group[0])
    first_seed = [result for result in group if result["seed"] == group[0]["seed"]]
    ordered = sorted(first_seed, key=lambda result: float(result["point"][key]))
    values = [float(result["point"][key]) for result in ordered]
    figure, axes = paper(6.4, 3.6)
    systems = _ranked(ordered[0])
    for system in systems:
        found = [result["metrics"][system]["figures"][lead] for result in ordered]
        if system != figures.REFERENCE and len({each["mean"] for each in found}) == 1:
            continue
        _line(axes, values, found, system, systems)
    granularity, _, metric = lead.partition(" ")
    axes.set_xticks(values)
    axes.set_xlabel(key.removeprefix("memory."))
    axes.set_ylabel(f"{tables.unit(group[0], granularity)} {metric}, %")
    _head(axes, group[0], f"{metric} against {key.removeprefix('memory.')}")
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0)
    return figure


def bench_latency(bench: Result) -> Figure:
    """One line per thing that was timed, its median against the nodes of the store, both axes logarithmic."""
    sizes = [int(nodes) for nodes in bench["bench"]["stores"]]
    figure, axes = paper(6.4, 4.2)
    for place, (label, values) in enumerate(sheets.lines(bench)):
        own = label.startswith(figures.REFERENCE)
        color, mark = [*STYLES.values(), *OTHERS][place]
        style = "-" if own else "--"
        axes.plot(sizes, values, linestyle=style, linewidth=2.0, color=color, marker=mark, markersize=5, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(sizes)
    for axis, shape in ((axes.xaxis, "{:,.0f}"), (axes.yaxis, "{:g}")):
        axis.set_major_formatter(FuncFormatter(lambda value, place, shape=shape: shape.format(value)))
        axis.set_minor_locator(NullLocator())
    axes.set_xlabel("nodes in the store")
    axes.set_ylabel("ms, median, without embedding")
    below = f"subtree of a tenth of the store; planted vectors of {bench['bench']['dimension']} dimensions"
    head(axes, "Latency", below)
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0)
    return figure


#: Of a kind of eval.kinds: what its plot shows, for the name of the file, and what draws it.
_OTHER_KINDS: Mapping[str, tuple[str, Callable[[Result], Figure]]] = {
    results.BENCH: ("latency", bench_latency),
    results.FORGETTING: ("share", study_plots.mis_forgetting),
    results.CONSOLIDATION: ("passes", study_plots.consolidation),
    results.UPDATES: ("newer", study_plots.newer_first),
}
_KINDS: Mapping[str, Callable[[Sequence[Result]], Figure | None]] = {
    "recall": recall_against_tokens,
    "ablation": ablations,
    "latency": latency,
    "sweep": swept,
}


def _head(axes: Axes, result: Result, what: str) -> None:
    data = result["data"]
    below = f"{data['name']} ({result['dataset']}), {data['selection']}, n = {data['questions']:,}"
    head(axes, what, below)


def _line(
    axes: Axes, across: Sequence[float], found: Sequence[Mapping[str, float]], system: str, systems: Sequence[str]
) -> None:
    """The means of one system with their intervals; hybridmem's stand out."""
    color, mark = _style(system, systems)
    own = system == figures.REFERENCE
    low, high = [[100 * each[end] for each in found] for end in ("low", "high")]
    axes.fill_between(across, low, high, color=color, alpha=0.15 if own else 0.07, linewidth=0)
    width, above = (2.4, 4) if own else (1.4, 3)
    means = [100 * each["mean"] for each in found]
    (line,) = axes.plot(across, means, color=color, marker=mark, markersize=5, linewidth=width, zorder=above)
    line.set_label(system)
    line.set_clip_on(False)  # a mark at 0 is to be seen whole


def _style(system: str, systems: Sequence[str]) -> tuple[str, str]:
    if system in STYLES:
        return STYLES[system]
    others = [each for each in systems if each not in STYLES]
    return OTHERS[others.index(system) % len(OTHERS)]


def _ranked(result: Mapping[str, Any]) -> list[str]:
    return [system for system, row in result["metrics"].items() if row["search_ms"] is not None]


def _equals(p: str) -> str:
    return p if p.startswith("<") else f"= {p}"

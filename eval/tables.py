"""Tables of results; made from results alone, measures nothing."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from eval import figures
from eval.sheet import Cell, Sheet

Result = Mapping[str, Any]

#: The cut-off and the budget that stand for all others where there is room for one; else the largest there is.
_HEADLINE_K = 10
_HEADLINE_BUDGET = 1024
_NOTHING = "–"
#: Stands for every value of a swept key that makes no difference.
_ANY = "any"


def of_result(result: Result) -> list[Sheet]:
    """Everything of one run: a table per granularity, and one of the contexts."""
    sheets = [_ranking(result, granularity) for granularity in measured(result)]
    if any(set(row["contexts"]) - {figures.ALL} for row in result["metrics"].values()):
        sheets.append(_contexts(result))
    return [*sheets[:-1], replace(sheets[-1], notes=(*sheets[-1].notes, *_origin(result)))] if sheets else []


def of_points(results: Sequence[Result]) -> Sheet:
    """The runs of one experiment on one data set, which differ in seed or grid point: one row for each of them and
    system. A system that has the same figures in all of them has one row."""
    varied = [key for key in _point(results[0]) if len({_value(_point(result)[key]) for result in results}) > 1]
    names = list(dict.fromkeys(name for result in results for name in _table_figures(result)))
    keys, rows = _collapsed(
        varied,
        [
            (system, [_value(_point(result)[key]) for key in varied], _means(result, system))
            for system in dict.fromkeys(system for result in results for system in _ranked(result))
            for result in results
            if system in result["metrics"]
        ],
    )
    return Sheet(
        f"{_where(results[0])}: {results[0]['experiment']['name']}, {len(results)} runs, in %",
        ("system", *[key.removeprefix("memory.") for key in keys], *[_short(name, results[0]) for name in names]),
        _filled(rows, names),
        labels=1 + len(keys),
    )


def overview(results: Sequence[Result]) -> Sheet:
    """One row per system and grid point, one column per data set: the headline figure, averaged over seeds."""
    datasets = list(dict.fromkeys(result["dataset"] for result in results))
    columns = {dataset: next(result for result in results if result["dataset"] == dataset) for dataset in datasets}
    values: dict[tuple[str, ...], dict[str, list[float]]] = {}
    varied = _varied(results)
    for result in results:
        for system in _ranked(result):
            label = (system, *[_value(_origin_point(result).get(key, "")) for key in varied])
            mean = _means(result, system).get(headline(result))
            if mean is not None:
                values.setdefault(label, {}).setdefault(result["dataset"], []).append(mean)
    entries = []
    for (system, *point), by_dataset in values.items():
        means = {dataset: statistics.fmean(found) for dataset, found in by_dataset.items()}
        if len(datasets) > 1 and len(means) == len(datasets):
            means["mean"] = statistics.fmean(means.values())
        entries.append((system, point, means))
    keys, rows = _collapsed(varied, entries)
    shown = [*datasets, "mean"] if len(datasets) > 1 else datasets
    heads = [f"{dataset}\n{_short(headline(columns[dataset]), columns[dataset])}" for dataset in datasets]
    return Sheet(
        "All data sets, in %",
        ("system", *[key.removeprefix("memory.") for key in keys], *heads, *["mean"][: len(shown) - len(datasets)]),
        _filled(rows, shown),
        labels=1 + len(keys),
    )


def by_dataset(results: Iterable[Result]) -> list[list[Result]]:
    """Results of the same experiment on the same data set together, in the order of the first of each."""
    groups: dict[tuple[Any, ...], list[Result]] = {}
    for result in results:
        key = (result["experiment"]["name"], result["dataset"], result["data"]["sha256"], result["limit"])
        groups.setdefault(key, []).append(result)
    return list(groups.values())


def measured(result: Result) -> list[str]:
    """The granularities at which a result has rankings."""
    found = [name for row in result["metrics"].values() for name in row["figures"] if "@" in name]
    return [name for name, _, _ in figures.GRANULARITIES if any(figure.startswith(f"{name} ") for figure in found)]


def headline(result: Result) -> str:
    """The figure that stands for a result: recall@10 of its items, or of its groups when it has only those."""
    granularity = measured(result)[0]
    return figures.at_k(granularity, "recall", headline_k(result, granularity))


def headline_k(result: Result, granularity: str) -> int:
    """10 if that was measured, else the largest k."""
    ks = _ks(result, granularity)
    return _HEADLINE_K if _HEADLINE_K in ks else ks[-1]


def unit(result: Result, granularity: str) -> str:
    """What the data set calls its items or groups, e.g. turn."""
    return str(result["data"]["granularity"].get(granularity, granularity))


def percent(share: float) -> str:
    return f"{100.0 * share:.1f}"


def signed(share: float) -> str:
    """In points, with its sign; a difference that rounds to nothing has none."""
    text = f"{100.0 * share:+.1f}".replace("-", "−")
    return text[1:] if text[1:] == "0.0" else text


def p_value(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _ranking(result: Result, granularity: str) -> Sheet:
    ks, k = _ks(result, granularity), headline_k(result, granularity)
    # Whether every piece of evidence was found matters where several are needed: at groups, which have few.
    wanted = [("recall", each) for each in ks] + ([("all", each) for each in ks] if granularity == "groups" else [])
    wanted += [("ndcg", k)] if granularity == "items" else []
    names = [figures.at_k(granularity, metric, each) for metric, each in wanted]
    lead = figures.at_k(granularity, "recall", k)
    rows = []
    for system in _ranked(result):
        row = result["metrics"][system]
        found = row["figures"].get(lead)
        interval = f"{percent(found['low'])}–{percent(found['high'])}" if found else _NOTHING
        marked = _marked(result, system, names)
        rows.append([Cell(system), *marked, Cell(interval), *_lead(result, system, lead), Cell(_time(row))])
    heads = [f"{'nDCG' if metric == 'ndcg' else metric}\n@{each}" for metric, each in wanted]
    title = f"{_where(result)}: evidence found, in %, {unit(result, granularity)} level"
    chance = ", ".join(
        f"{percent(value)} {name.partition('recall')[2]}"
        for name, value in result["data"]["chance"].items()
        if name.startswith(f"{granularity} ")
    )
    notes = [f"Drawing {_plural(unit(result, granularity))} at random is expected to get recall {chance}."]
    few = {
        name.partition("recall")[2]: count
        for name, count in result["data"]["too_few"].items()
        if name.startswith(f"{granularity} ")
    }
    if few:
        counts = ", ".join(f"{count} {at}" for at, count in few.items())
        notes.append(f"Left out, since no more than k could be returned when they were asked: {counts}.")
    return Sheet(
        title,
        (
            "system",
            *heads,
            f"95 % interval\nof recall@{k}",
            f"behind {figures.REFERENCE}\nby (95 %)",
            "p",
            "ms per\nsearch",
        ),
        rows,
        tuple(notes),
    )


def _contexts(result: Result) -> Sheet:
    budgets = [str(budget) for budget in result["experiment"]["budgets"]]
    granularity = measured(result)[0]
    names = [figures.within(granularity, budget) for budget in budgets]
    lead = figures.within(granularity, _HEADLINE_BUDGET if str(_HEADLINE_BUDGET) in budgets else budgets[-1])
    rows = []
    for system in _ranked(result):
        saved = [result["metrics"][system]["contexts"][budget]["compression"] for budget in budgets]
        marked = _marked(result, system, names)
        cells = [Cell(f"{cell.text} ({percent(share)})", cell.best) for cell, share in zip(marked, saved, strict=True)]
        rows.append([Cell(system), *cells, *_lead(result, system, lead)])
    data = result["data"]
    notes = [
        f"In brackets compression: 1 - tokens of the context / tokens of the full history, which has "
        f"{data['full_history_tokens']:,.0f} tokens ({data['token_counter']}) on average at its end.",
    ]
    if data["everything_fits"]:
        counts = ", ".join(f"{count:,} at {int(budget):,}" for budget, count in data["everything_fits"].items())
        notes.append(f"Questions whose full history fits into the budget, which then measures nothing: {counts}.")
    return Sheet(
        f"{_where(result)}: {unit(result, granularity)} evidence shown within a token budget, in %",
        (
            "system",
            *[f"{int(budget):,}\ntokens" for budget in budgets],
            f"behind {figures.REFERENCE}\nat {int(lead.split()[-2]):,}",
            "p",
        ),
        rows,
        tuple(notes),
    )


def _origin(result: Result) -> list[str]:
    data, source = result["data"], result["provenance"]
    model = source["embedding_model"]
    cost = result["embedding_ms_per_query"]
    took = f" ({cost:.0f} ms)" if cost and cost >= 1 else ""
    git = source["git"]
    counts = {"history": data["corpora"], unit(result, "items"): data["items"], "question": data["questions"]}
    sizes = ", ".join(f"{count:,} {word if count == 1 else _plural(word)}" for word, count in counts.items())
    lines = [
        f"{sizes} ({data['source']}). p: paired sign-flip test over the questions; intervals: bootstrap.",
        f"ms per search: median of one search, without embedding the question{took}.",
        f"Embedding model: {model['model']} ({model['provider']}, {model['dimension']} dimensions). Commit "
        f"{(git['sha'] or 'none')[:10]}{' with changes' if git['dirty'] else ''}, seed {result['seed']}.",
    ]
    if data["dropped"]:
        lines.append(
            "Left out: " + ", ".join(f"{reason}: {count:,}" for reason, count in data["dropped"].items()) + "."
        )
    return lines


def _where(result: Result) -> str:
    data = result["data"]
    return f"{data['name']} ({result['dataset']}), {data['selection']}"


def _lead(result: Result, system: str, name: str) -> list[Cell]:
    """How far a system is behind the reference, and how sure that is."""
    test = result["tests"].get(system, {}).get(name)
    if test is None:
        return [Cell(""), Cell("")]
    interval = f"{signed(test['low'])} to {signed(test['high'])}"
    return [Cell(f"{signed(test['difference'])} ({interval})"), Cell(p_value(test["p"]))]


def _marked(result: Result, system: str, names: Sequence[str]) -> list[Cell]:
    cells = []
    for name in names:
        every = [found[name] for each in _ranked(result) if name in (found := _means(result, each))]
        mean = _means(result, system).get(name)
        cells.append(Cell(_NOTHING) if mean is None else Cell(percent(mean), mean == max(every)))
    return cells


_Entry = tuple[str, list[str], dict[str, float]]


def _collapsed(
    keys: Sequence[str], entries: Sequence[_Entry]
) -> tuple[list[str], list[tuple[list[str], dict[str, float]]]]:
    """The keys to show, and rows of labels and figures: a system (system, point, figures) that has the same figures at
    every point has one row, and a key that no row tells apart has no column."""
    rows: list[tuple[list[str], dict[str, float]]] = []
    for system in dict.fromkeys(system for system, _, _ in entries):
        own = [(point, means) for name, point, means in entries if name == system]
        alike = len(own) > 1 and all(means == own[0][1] for _, means in own)
        rows += (
            [([system, *[_ANY] * len(keys)], own[0][1])]
            if alike
            else [([system, *point], means) for point, means in own]
        )
    told = [place for place in range(len(keys)) if any(labels[1 + place] != _ANY for labels, _ in rows)]
    return [keys[place] for place in told], [
        ([labels[0], *[labels[1 + place] for place in told]], means) for labels, means in rows
    ]


def _filled(rows: Sequence[tuple[list[str], Mapping[str, float]]], names: Sequence[str]) -> list[list[Cell]]:
    best = {name: max((means[name] for _, means in rows if name in means), default=0.0) for name in names}
    return [
        [
            *[Cell(text) for text in labels],
            *[
                Cell(percent(means[name]), means[name] == best[name]) if name in means else Cell(_NOTHING)
                for name in names
            ],
        ]
        for labels, means in rows
    ]


def _table_figures(result: Result) -> list[str]:
    """The figures of a table of many runs: recall at every k, and within the headline budget."""
    names = [figures.at_k(part, "recall", k) for part in measured(result) for k in _ks(result, part)]
    budgets = result["experiment"]["budgets"]
    if budgets:
        budget = _HEADLINE_BUDGET if _HEADLINE_BUDGET in budgets else budgets[-1]
        names.append(figures.within(measured(result)[0], budget))
    return names


def _short(name: str, result: Result) -> str:
    granularity, _, rest = name.partition(" ")
    return f"{unit(result, granularity)}\n{rest}".replace(" tokens", "")


def _means(result: Result, system: str) -> dict[str, float]:
    return {name: found["mean"] for name, found in result["metrics"][system]["figures"].items()}


def _ranked(result: Result) -> list[str]:
    return [name for name, row in result["metrics"].items() if row["search_ms"] is not None]


def _ks(result: Result, granularity: str) -> list[int]:
    return list(result["experiment"]["ks" if granularity == "items" else "group_ks"])


def _point(result: Result) -> dict[str, Any]:
    return {**result["point"], "seed": result["seed"], "commit": (result["provenance"]["git"]["sha"] or "none")[:10]}


def _origin_point(result: Result) -> dict[str, Any]:
    """As ``_point``, without the seed, which is averaged over, and with what else tells runs of experiments apart:
    the changes to the memory's configuration that the point has not made, and the limit."""
    point = {key: value for key, value in _point(result).items() if key != "seed"}
    swept = [key.removeprefix("memory.") for key in result["point"] if key.startswith("memory.")]
    return {"memory": _without(result["experiment"]["memory"], swept), "limit": result["limit"] or "", **point}


def _without(section: Mapping[str, Any], dotted: Sequence[str], above: str = "") -> dict[str, Any]:
    """The section without these keys, and without what is empty then."""
    kept = {
        key: _without(value, dotted, f"{above}{key}.") if isinstance(value, Mapping) else value
        for key, value in section.items()
        if f"{above}{key}" not in dotted
    }
    return {key: value for key, value in kept.items() if value != {}}


def _varied(results: Sequence[Result]) -> list[str]:
    keys = list(dict.fromkeys(key for result in results for key in _origin_point(result)))
    return [key for key in keys if len({_value(_origin_point(result).get(key)) for result in results}) > 1]


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _plural(word: str) -> str:
    return f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"


def _time(row: Mapping[str, Any]) -> str:
    return f"{row['search_ms']['median']:.1f}"

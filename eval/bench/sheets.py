"""The tables of a benchmark, and the lines of its plot; made from its result alone, measures nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from eval.sheet import Cell, Sheet

Result = Mapping[str, Any]

_NOTHING = "–"
#: (label, part of a store's figures, name of the time) of what is shown of every size, in ms.
_TIMES = (
    ("hybridmem: search, subtree", "subtree", "search"),
    ("hybridmem: search, subtree, first of a handle", "subtree", "search_first"),
    ("hybridmem: search, subtree, after another one", "subtree", "search_other"),
    ("hybridmem: search, subtree, after an add", "writes", "search_after_add"),
    ("hybridmem: context, subtree", "subtree", "context"),
    ("Chroma: query, filtered to the subtree", "subtree", "chroma_where"),
    ("numpy: exact cosine, subtree in memory", "subtree", "numpy"),
    ("hybridmem: search, everywhere", "whole", "search"),
    ("hybridmem: search, everywhere, first of a handle", "whole", "search_first"),
    ("hybridmem: context, everywhere", "whole", "context"),
    ("Chroma: query, unfiltered", "whole", "chroma"),
    ("hybridmem: add, durable", "writes", "add"),
    ("SQLite: one-row INSERT, durable", "writes", "insert"),
)
#: (label, where) of the other figures of every size.
_FIGURES: tuple[tuple[str, Callable[[Result], str]], ...] = (
    ("nodes in the subtree", lambda store: f"{store['subtree']['nodes']:,}"),
    ("Chroma filtered / search in the subtree", lambda store: f"{store['subtree']['chroma_where_of_search']:.1f}"),
    ("Chroma filtered / first search of it", lambda store: f"{store['subtree']['chroma_where_of_search_first']:.2f}"),
    ("search in the subtree / numpy", lambda store: f"{store['subtree']['search_of_numpy']:.1f}"),
    ("search everywhere / Chroma unfiltered", lambda store: f"{store['whole']['search_of_chroma']:.1f}"),
    ("add / INSERT", lambda store: f"{store['writes']['add_of_insert']:.1f}"),
    ("same ten as brute force, vectors alone", lambda store: _of(store["identity"], "vectors", "asked")),
    ("same ten as all scored, subtree", lambda store: _of(store["identity"], "exhaustive", "asked")),
    ("same ten as all scored, everywhere", lambda store: _of(store["identity"], "whole", "whole_asked")),
    ("hits shared with all scored, everywhere, %", lambda store: f"{100 * store['identity']['whole_common']:.1f}"),
    (
        "Chroma filtered: recall of exact cosine, %",
        lambda store: f"{100 * store['subtree']['chroma_where_recall']:.1f}",
    ),
    ("add_many, nodes/s", lambda store: f"{store['built']['add_many_per_second']:,.0f}"),
    ("index (vectors and Chroma), nodes/s", lambda store: f"{store['built']['index_per_second']:,.0f}"),
    ("Chroma alone, nodes/s", lambda store: f"{store['built']['chroma_per_second']:,.0f}"),
    ("tree.db, MB", lambda store: f"{store['built']['tree_mb']:,.0f}"),
    ("vectors/, MB", lambda store: f"{store['built']['vectors_mb']:,.0f}"),
)
_LINES = (
    ("hybridmem: search, subtree", "subtree", "search"),
    ("hybridmem: first search of it", "subtree", "search_first"),
    ("hybridmem: context, subtree", "subtree", "context"),
    ("hybridmem: search, everywhere", "whole", "search"),
    ("hybridmem: add", "writes", "add"),
    ("Chroma, filtered to it", "subtree", "chroma_where"),
    ("Chroma, unfiltered", "whole", "chroma"),
    ("numpy, exact", "subtree", "numpy"),
    ("INSERT", "writes", "insert"),
)


def of(result: Result) -> list[Sheet]:
    """The promises, latency, all other figures, opening, memory and the profile."""
    bench = result["bench"]
    found = [_promises(bench), _latency(bench), _figures(result), _opening(bench)]
    if bench["memory"] is not None:
        found.append(_memory(bench))
    if "recovery" in bench:  # of a result file of before there was any
        found.append(_recovery(bench["recovery"]))
    if "forgetting" in bench:  # likewise
        found.append(_forgetting(bench["forgetting"]))
    if "erasing" in bench:  # likewise
        found.append(_erasing(bench["erasing"]))
    return [*found, *_profiles(bench)]


def lines(result: Result) -> Iterator[tuple[str, list[float]]]:
    """(label, median ms at every size) of what is drawn."""
    stores = result["bench"]["stores"].values()
    for label, part, name in _LINES:
        yield label, [store[part]["times"][name]["median"] for store in stores]


def _promises(bench: Result) -> Sheet:
    words = {True: "yes", False: "no", None: _NOTHING}
    rows = [[row["what"], row["measured"], row["limit"], words[row["holds"]]] for row in bench["promises"]]
    return Sheet("What was promised, at the largest size", ("", "measured", "limit", "holds"), _cells(rows))


def _latency(bench: Result) -> Sheet:
    rows = []
    for label, part, name in _TIMES:
        times = [store[part]["times"][name] for store in bench["stores"].values()]
        rows.append([label, *[f"{_ms(time['median'])} ({_ms(time['p95'])})" for time in times]])
    notes = (
        "The subtree is one project, a tenth of the store. Without the time inside the embedder; on a store that the "
        "system has in its file cache.",
    )
    return Sheet("Latency in ms: median (95th percentile)", ("", *_heads(bench)), _cells(rows), notes)


def _figures(result: Result) -> Sheet:
    bench, source = result["bench"], result["provenance"]
    rows = [[label, *[value(store) for store in bench["stores"].values()]] for label, value in _FIGURES]
    built = {(store["built"]["commit"] or "none")[:10] for store in bench["stores"].values()}
    versions = source["versions"]
    git = source["git"]
    commit = f"{(git['sha'] or 'none')[:10]}{' with changes' if git['dirty'] else ''}"
    notes = (
        f"Planted vectors of {bench['dimension']} dimensions, seed {bench['seed']}. Stores built at commit "
        f"{', '.join(sorted(built))}; measured at {commit}.",
        f"{source['cores']} cores, load {source['load']} before; Python {versions['python']}, SQLite "
        f"{versions['sqlite']}, chromadb {versions['chromadb']}, numpy {versions['numpy']}.",
    )
    return Sheet("Ratios, results and throughput", ("", *_heads(bench)), _cells(rows), notes)


def _opening(bench: Result) -> Sheet:
    opens = bench["open"]
    rows = []
    for name in opens["same_process"]:
        ratios = opens["of_empty"].get(name)
        label = f"{int(name):,} nodes" if name.isdigit() else name
        row = [label]
        for kind in ("new_process", "same_process"):
            row += [_ms(opens[kind][name]["median"]), f"{ratios[kind]:.2f}" if ratios else _NOTHING]
        rows.append(row)
    heads = ("store", "new process\nms", "of empty", "same process\nms", "of empty")
    notes = (f"Importing hybridmem in a new process: {_ms(opens['import']['median'])} ms, not counted.",)
    return Sheet("Opening", heads, _cells(rows), notes)


def _memory(bench: Result) -> Sheet:
    memory = bench["memory"]
    rows = [
        ["after open", _mb(memory["after_open"])],
        ["after a first search of a small subtree", _mb(memory["after_first_search"])],
        [f"most, while {memory['subtrees']} subtrees are searched", _mb(memory["most_in_first_round"])],
        ["most, while they are searched again", _mb(memory["most_in_second_round"])],
        ["growth from open on", _mb(memory["growth"])],
        ["index.cache_mb", _NOTHING if memory["cache_mb"] is None else _mb(memory["cache_mb"])],
        ["all vectors of the store would be", _mb(memory["all_vectors"])],
    ]
    return Sheet("Resident memory of a new process, MB", ("", "MB"), _cells(rows))


def _recovery(recovery: Result) -> Sheet:
    kept, answers = recovery["checkpoints"], recovery["answers"]
    labels = {"open": "open", "resume": "resume()", "search": "first search", "all": "all of it"}
    rows = [
        [f"checkpoint of {kept[name]:,} nodes, in turns", _ms(kept["times"][name]["median"])]
        for name in ("few", "many")
    ]
    for end, words in (("clean", "closed in order"), ("killed", f"killed, {answers['waiting']:,} waiting")):
        times = answers["times"][end]
        rows += [[f"{answers['nodes']:,} nodes, {words}: {labels[name]}", _ms(times[name]["median"])] for name in times]
    return Sheet("Checkpoints, and the first answer of a new process, ms", ("", "median"), _cells(rows))


def _forgetting(found: Result) -> Sheet:
    times = found["times"]
    rows = [
        ["the call", f"{1000.0 * found['seconds']:,.0f}"],
        ["each of its transactions, with the pause after it", _ms(1000.0 * found["seconds"] / found["transactions"])],
        ["add of another process, before: median", _ms(times["before"]["median"])],
        ["add of another process, meanwhile: median", _ms(times["meanwhile"]["median"])],
        ["add of another process, meanwhile: 95th percentile", _ms(times["meanwhile"]["p95"])],
        ["add of another process, meanwhile: longest", _ms(found["longest_ms"])],
        ["meanwhile / before", f"{found['meanwhile_of_before']:.1f}"],
        ["search of another process, meanwhile: median", _ms(times["search"]["median"])],
    ]
    return Sheet(f"{found['forgotten']:,} of {found['live']:,} memories forgotten, ms", ("", "ms"), _cells(rows))


def _erasing(found: Result) -> Sheet:
    times, parts = found["times"], found["parts"]
    rows = [
        ["the call", f"{1000.0 * found['seconds']:,.0f}"],
        *[[f"of it: {name}", f"{1000.0 * seconds:,.0f}"] for name, seconds in parts.items()],
        ["add of another process, before: median", _ms(times["before"]["median"])],
        ["add of another process, meanwhile: median", _ms(times["meanwhile"]["median"])],
        ["add of another process, meanwhile: longest", _ms(found["longest_ms"])],
        ["search of another process, meanwhile: median", _ms(times["search"]["median"])],
    ]
    return Sheet(f"{found['erased']:,} of {found['live']:,} memories erased, ms", ("", "ms"), _cells(rows))


def _profiles(bench: Result) -> Iterator[Sheet]:
    profile = bench["profile"]
    names = {
        "search": "Search in the subtree",
        "search_everywhere": "Search everywhere",
        "search_first": "First search of a handle",
        "open": "Open and close",
    }
    for kind, title in names.items():
        rows = [[row["function"], f"{row['calls']:,g}", _ms(row["own_ms"]), _ms(row["ms"])] for row in profile[kind]]
        yield Sheet(
            f"{title}, {profile['nodes']:,} nodes: where the time goes, under the profiler",
            ("function", "calls", "own ms", "ms with what it calls"),
            _cells(rows),
        )


def _heads(bench: Result) -> list[str]:
    return [f"{int(nodes):,}\nnodes" for nodes in bench["stores"]]


def _cells(rows: Sequence[Sequence[str]]) -> list[list[Cell]]:
    return [[Cell(text) for text in row] for row in rows]


def _of(found: Result, part: str, whole: str) -> str:
    return f"{found[part]} of {found[whole]}"


def _ms(value: float) -> str:
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _mb(value: float) -> str:
    return f"{value:,.0f}"

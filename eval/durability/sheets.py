"""The tables of a durability run, made from its result alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from eval.sheet import Cell, Sheet

Result = Mapping[str, Any]

_NOTHING = "–"
_TIMES = {
    "recover": "killed store answers its first search, all in all",
    "open": "of that, open",
    "resume": "of that, resume()",
    "first_search": "of that, the first search",
}


def of(result: Result) -> Iterator[Sheet]:
    """Totals; then a row for each fault point."""
    found = result["durability"]
    yield _totals(found)
    if found["points"]:
        yield _points(found)


def _totals(found: Result) -> Sheet:
    processes = ", ".join(f"{kills} with {count}" for count, kills in found["by_processes"].items())
    right, under_way = found["right"], found["under_way"]
    rows = [
        ("kills (SIGKILL)", f"{found['kills']:,}"),
        ("at random moments", f"{found['at_random_moments']:,}"),
        ("at fault points", f"{found['at_fault_points']:,}"),
        ("by processes at work on the store", processes),
        ("looks in a fresh process, stores", f"{found['looks']:,}, {found['stores']:,}"),
        ("calls acknowledged", f"{found['acknowledged']:,}"),
        ("of them recovered", f"{found['recovered']:,} ({_percent(found['recovered_share'])})"),
        ("lost, extra, wrong", f"{found['lost']}, {found['extra']}, {found['wrong']}"),
        ("tree, words and vectors in disagreement", str(found["disagree"])),
        ("of nodes asked for by their vectors, missed by Chroma's graph", _of(found["chroma"])),
        ("calls under way: whole, not at all", f"{under_way['whole']:,}, {under_way['not_at_all']:,}"),
        ("resume() asked, answers wrong", f"{found['resumes']:,}, {found['astray']}"),
        ("active task right", _percent(right["active_task"])),
        ("next step right", _percent(right["next_step"])),
        ("decisions complete", _percent(right["decisions"])),
        ("interruption told right", _percent(right["interrupted"])),
        ("decision paths of checkpoints complete", _percent(right["decision_path_of_checkpoints"])),
        ("indexes found torn and built again", str(found["indexes_moved_aside"])),
        *((f"ms: {label}", _ms(found["ms"].get(name))) for name, label in _TIMES.items()),
    ]
    notes = []
    if found["sabotage"]:
        notes.append(f"broken on purpose: {found['sabotage']}")
    if found["never_passed"]:
        notes.append(f"fault points that nobody died at: {', '.join(found['never_passed'])}")
    notes += found["problems"][:10]
    title = f"Durability: seed {found['seed']}, {'logs' if found['logs'] else 'synthetic trajectories'}"
    return Sheet(title, ("figure", "value"), [[Cell(label), Cell(value)] for label, value in rows], tuple(notes))


def _points(found: Result) -> Sheet:
    rows = [
        [
            Cell(name or "a random moment"),
            Cell(str(point["kills"])),
            Cell(str(point["problems"])),
            Cell(_ms(point["recover_ms"])),
        ]
        for name, point in found["points"].items()
    ]
    notes = ("Of a round in which processes died at several points, each of them is blamed.",)
    return Sheet("Kills by fault point", ("fault point", "kills", "problems", "ms to recover"), rows, notes)


def _ms(times: Result | None) -> str:
    """Median, and 95th percentile in brackets."""
    return _NOTHING if times is None else f"{times['median']:.1f} ({times['p95']:.1f})"


def _of(chroma: Result) -> str:
    return f"{chroma['missed']:,} of {chroma['asked']:,}"


def _percent(share: float | None) -> str:
    return _NOTHING if share is None else f"{share:g} %"

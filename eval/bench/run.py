"""The whole benchmark: every size, what was promised of the largest, and where it came from, in one document."""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eval import results
from eval.bench import erase, forgetting, opening, profiles, recovery, searching, stores, writing
from eval.bench.planted import DIMENSION, Planted, PlantedEmbedder
from eval.bench.searching import Rounds
from eval.bench.stores import Progress
from hybridmem import config
from hybridmem.errors import InvalidInput

#: What was promised: how many times as long Chroma's filtered query takes as the search of a subtree, at the least; how
#: many times as long opening takes as that of an empty store, at the most.
CHROMA_TIMES = 8.0
OPEN_TIMES = 2.0
#: And how many times as long, at the most: an add as a bare INSERT, a checkpoint as one in a store of 100 nodes, the
#: first answer of a store that was killed as that of one that was closed.
ADD_TIMES = 6.0
CHECKPOINT_TIMES = 2.0
KILLED_TIMES = 3.0
#: Seconds in which 1,000 of 100,000 memories are erased, at the most.
ERASE_SECONDS = 30.0
SMALLEST = 300
#: Sessions whose subtrees are searched to see how memory grows, besides the projects.
SUBTREES = 100
_PARTS = 4


def sizes(text: str) -> list[int]:
    """The sizes in ``"1000,10000"``, smallest first, each once.

    :raises InvalidInput: one is no number, or below 300.
    """
    try:
        found = sorted({int(part) for part in text.split(",")})
    except ValueError:
        raise InvalidInput(f"nodes: must be numbers with commas between them, not {text!r}") from None
    if found[0] < SMALLEST:
        raise InvalidInput(f"nodes: must be at least {SMALLEST}, not {found[0]}")
    return found


def steps(sizes: Sequence[int]) -> int:
    """How many steps :func:`run` tells of: those of building, and a tenth as many as nodes for all else."""
    return sum(stores.steps(nodes) + _PARTS * (nodes // 40) for nodes in sizes)


def run(
    sizes: Sequence[int],
    seed: int,
    folder: Path,
    progress: Progress,
    *,
    rounds: Rounds = Rounds(),  # noqa: B008 (frozen)
    subtrees: int = SUBTREES,
) -> dict[str, Any]:
    """Measures everything; a store that is not in ``folder`` is built first."""
    made = {nodes: stores.get(nodes, seed, folder, progress) for nodes in sizes}
    load = _load()
    measured = {}
    for nodes, store in made.items():
        found: dict[str, Any] = {"built": store.built}
        parts = (
            ("subtree", searching.subtree),
            ("whole", searching.whole),
            ("identity", searching.identity),
            ("writes", writing.writes),
        )
        for name, measure in parts:
            progress(f"{nodes:,} nodes: measuring ({name})", 0)
            found[name] = measure(store, rounds)
            progress(f"{nodes:,} nodes: measured ({name})", nodes // 40)
        measured[str(nodes)] = found
    largest = made[max(made)]
    progress("opening", 0)
    with tempfile.TemporaryDirectory(dir=folder) as empty:
        opens = opening.opens(made, Path(empty) / "store", rounds)
    progress("memory", 0)
    resident = opening.resident(largest, subtrees)
    progress("recovery", 0)
    recovered = {"checkpoints": recovery.checkpoints(largest, rounds), "answers": recovery.answers(folder, rounds)}
    progress("forgetting", 0)
    forgotten = forgetting.forgetting(largest, rounds)
    progress("erasing", 0)
    erased = erase.erasing(largest, rounds)
    progress("profiling", 0)
    origin = results.provenance(PlantedEmbedder(Planted(SMALLEST, seed)).identity)
    # Kernels and distributions say little of these figures, and much of whose machine it was.
    machine = {"platform": f"{platform.system()} {platform.machine()}", "cores": os.cpu_count(), "load": load}
    bench = {
        "dimension": DIMENSION,
        "seed": seed,
        "stores": measured,
        "open": opens,
        "memory": resident,
        "recovery": recovered,
        "forgetting": forgotten,
        "erasing": erased,
        "profile": {"nodes": largest.planted.nodes, **profiles.of(largest, rounds)},
    }
    return {
        "format": results.FORMAT,
        results.BENCH: {"promises": promises(bench), **bench},
        "config": config.load().model_dump(mode="json"),
        "provenance": {**origin, **machine},
    }


def promises(bench: dict[str, Any]) -> list[dict[str, Any]]:
    """What was promised of the largest store: {"what", "measured", "limit" (as text), "holds" (None: not known)}."""
    nodes = max(bench["stores"], key=int)
    found = bench["stores"][nodes]
    below, right, opened, memory = (
        found["subtree"],
        found["identity"],
        bench["open"]["of_empty"][nodes],
        bench["memory"],
    )
    where, size = f"{int(nodes):,}", f"{below['nodes']:,}"
    times = below["chroma_where_of_search"]
    rows = [
        _promise(
            f"Chroma's filtered query takes so many times as long as a search in {size} of {where} nodes",
            f"{times:.1f}",
            f"≥ {CHROMA_TIMES:g}",
            times >= CHROMA_TIMES,
        ),
        _promise(
            f"searches in {size} of {where} nodes that return the ten of brute force (vectors alone)",
            f"{right['vectors']} of {right['asked']}",
            "all",
            right["vectors"] == right["asked"],
        ),
        _promise(
            f"searches in {size} of {where} nodes that return the ten of scoring everything (default configuration)",
            f"{right['exhaustive']} of {right['asked']}",
            "all",
            right["exhaustive"] == right["asked"],
        ),
    ]
    for kind, label in (("new_process", "in a new process"), ("same_process", "in the same process")):
        what = f"opening {where} nodes takes so many times as long as opening an empty store, {label}"
        rows.append(_promise(what, f"{opened[kind]:.2f}", f"≤ {OPEN_TIMES:g}", opened[kind] <= OPEN_TIMES))
    rows += _costs(found["writes"]["add_of_insert"], bench["recovery"], where)
    rows += _forgetting(bench["forgetting"])
    rows += _erasing(bench["erasing"])
    if memory is not None:
        limit = memory["cache_mb"]
        rows.append(
            _promise(
                f"MB that memory grows from opening on, over searches in {memory['subtrees']} subtrees",
                f"{memory['growth']:.0f}",
                "–" if limit is None else f"≤ {limit:g} (index.cache_mb)",
                None if limit is None else memory["growth"] <= limit,
            )
        )
    return rows


def _costs(add: float, recovered: dict[str, Any], where: str) -> list[dict[str, Any]]:
    """What durability and recovery may cost."""
    kept, killed = recovered["checkpoints"], recovered["answers"]
    return [
        _promise(
            f"a durable add to {where} nodes takes so many times as long as a bare INSERT of one row",
            f"{add:.1f}",
            f"≤ {ADD_TIMES:g}",
            add <= ADD_TIMES,
        ),
        _promise(
            f"a checkpoint of {where} nodes takes so many times as long as one of {kept['few']:,}",
            f"{kept['many_of_few']:.2f}",
            f"≤ {CHECKPOINT_TIMES:g}",
            kept["many_of_few"] <= CHECKPOINT_TIMES,
        ),
        _promise(
            f"a store of {killed['nodes']:,} nodes, killed with {killed['unindexed']:,} not indexed, opens and answers "
            "its first search in so many times what it takes when closed in order",
            f"{killed['killed_of_clean']:.2f}",
            f"≤ {KILLED_TIMES:g}",
            killed["killed_of_clean"] <= KILLED_TIMES,
        ),
    ]


def _erasing(found: dict[str, Any]) -> list[dict[str, Any]]:
    """How long erasing takes, files and all, and that nobody fails meanwhile."""
    what = f"{found['erased']:,} of {found['live']:,} memories"
    return [
        _promise(
            f"seconds that erasing {what} takes, until no file of the store has them",
            f"{found['seconds']:.1f}",
            f"≤ {ERASE_SECONDS:g}, nothing left",
            found["seconds"] <= ERASE_SECONDS and not found["left"],
        ),
        _promise(
            f"durable adds of another process that fail while {what} are erased, and searches that find them since",
            f"{found['failed']} and {found['ghosts']}",
            "none",
            not found["failed"] and not found["ghosts"],
        ),
    ]


def _forgetting(found: dict[str, Any]) -> list[dict[str, Any]]:
    """What forgetting very many may cost others, and that they see nothing wrong meanwhile."""
    what = f"{found['forgotten']:,} of {found['live']:,} memories are forgotten"
    wrong, longest = found["ghosts"] + found["missed"] + found["short"], found["longest_ms"]
    return [
        _promise(
            f"ms that another process waits for one durable add while {what}, at the longest",
            f"{longest:.0f}",
            f"≤ {found['busy_timeout_ms']:g} (store.busy_timeout_seconds), none fails",
            longest <= found["busy_timeout_ms"] and not found["failed"],
        ),
        _promise(
            f"searches of another process meanwhile that find what is forgotten or miss what is not, of "
            f"{found['searches']}",
            f"{wrong}",
            "0",
            wrong == 0,
        ),
    ]


def file_name(result: dict[str, Any]) -> str:
    """``bench-<sizes>[-s<seed>]-<short sha>[-dirty].json``."""
    git, bench = result["provenance"]["git"], result[results.BENCH]
    parts = [
        "bench",
        "-".join(bench["stores"]),
        f"s{bench['seed']}" if bench["seed"] else "",
        git["sha"][:10] if git["sha"] else "uncommitted",
        "dirty" if git["sha"] and git["dirty"] else "",
    ]
    return "-".join(part for part in parts if part) + ".json"


def _promise(what: str, measured: str, limit: str, holds: bool | None) -> dict[str, Any]:
    return {"what": what, "measured": measured, "limit": limit, "holds": holds}


def _load() -> float | None:
    """How many processes wanted a core in the last minute, before anything is measured."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None

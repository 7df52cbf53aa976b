"""What recovery costs: a checkpoint in a big store and in a small one, and the first answer of one that was killed."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from eval.bench.opening import child
from eval.bench.planted import Planted, PlantedEmbedder
from eval.bench.searching import Rounds
from eval.bench.stores import Store
from eval.bench.timing import Times, ratio, summary
from hybridmem import Memory

#: Nodes of the small store.
FEW = 100
_DECISIONS = 5
_TYPES = ("event", "note", "fact", "event", "decision")
_CONFIG = {"index": {"background": False}}


def checkpoints(store: Store, rounds: Rounds) -> dict[str, Any]:
    """``checkpoint()`` in turns in a copy of a store and in one of FEW nodes, of the same types; in both an agent is at
    work on a task with a handful of decisions."""
    embedder = PlantedEmbedder(store.planted)
    many, few = Times(), Times()
    # Beside the store, since a folder for temporary files may lie in memory, where a durable write costs nothing.
    with tempfile.TemporaryDirectory(dir=store.directory.parent) as folder:
        copy = store.copy(Path(folder) / "many")
        with (
            Memory.open(copy, embedder=embedder, config=_CONFIG) as big,
            Memory.open(Path(folder) / "few", embedder=embedder, config=_CONFIG) as small,
        ):
            small.add_many(_items(0, FEW))
            for memory in (big, small):
                memory.start_task("报销任务 expense claim", next_step="提交 submit")
                for number in range(_DECISIONS):
                    memory.add(f"决定 decision {number}", type="decision")
            for number in range(rounds.checkpoints):
                many.of(big.checkpoint, f"检查点 {number}")
                few.of(small.checkpoint, f"检查点 {number}")
    times = {"many": many.summary(), "few": few.summary()}
    return {"few": FEW, "many": store.planted.nodes, "times": times, "many_of_few": ratio(times["many"], times["few"])}


def answers(folder: Path, rounds: Rounds) -> dict[str, Any]:
    """ms until a new process has opened a store and answered a search: one that was closed in order with everything
    indexed, and one whose process was killed with its last ``rounds.unindexed`` operations not indexed. Both hold
    twice as many nodes, the same ones. Imports are not counted, but for that of Chroma where a search takes it.

    :param folder: where the stores are made, and removed again.
    """
    ms: dict[str, dict[str, list[float]]] = {"clean": {}, "killed": {}}
    with tempfile.TemporaryDirectory(dir=folder) as place:
        for end in ms:
            child("fill", str(Path(place) / end), str(rounds.unindexed), end)
        for number in range(rounds.processes):
            for end, found in ms.items():
                # A search embeds some of what waits, so that each asks a copy.
                copy = shutil.copytree(Path(place) / end, Path(place) / f"{end}-{number}")
                for name, value in child("answer", str(copy)).items():
                    found.setdefault(name, []).append(value)
                shutil.rmtree(copy)
    times = {end: {name: summary(values) for name, values in found.items()} for end, found in ms.items()}
    return {
        "nodes": 2 * rounds.unindexed,
        "unindexed": rounds.unindexed,
        "waiting": int(times["killed"].pop("waiting")["median"]),
        "times": {end: {name: times[end][name] for name in ("open", "resume", "search", "all")} for end in times},
        "killed_of_clean": ratio(times["killed"]["all"], times["clean"]["all"]),
    }


def fill(directory: str, unindexed: int, end: str) -> None:
    """In a process of its own: as many nodes indexed, as many more, and the end: ``"clean"`` or ``"killed"``."""
    import os
    import signal

    memory = Memory.open(directory, embedder=PlantedEmbedder(Planted(10 * FEW, 0)), config=_CONFIG)
    memory.start_task("报销任务 expense claim", next_step="提交 submit")
    for start in (0, unindexed):
        items = _items(start, unindexed)
        for place in range(0, unindexed, 1_000):
            memory.add_many(items[place : place + 1_000])
        if end == "clean" or start == 0:
            while memory.flush():
                pass
    if end == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    memory.close()


def _items(start: int, count: int) -> list[dict[str, Any]]:
    """A hundred under each of the first, Chinese, English and mixed."""
    return [
        {
            "content": (f"发票第{n}号被退回", f"order {n} was refunded", f"会议 meeting {n} 取消 cancelled")[n % 3],
            "type": _TYPES[n % len(_TYPES)],
            "id": f"m{n}",
            "parent": "task" if n % FEW == 0 else f"m{n - n % FEW}",
        }
        for n in range(start, start + count)
    ]

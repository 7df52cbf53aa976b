"""Reads a store in a fresh process after a kill: how long until it answers, what is there, and whether it agrees."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from eval.durability import agreement
from eval.durability.agent import CONFIG
from eval.durability.expected import describe, resumed
from hybridmem import Memory, verify
from hybridmem.index import OwnerLock
from hybridmem.index.projection import DIRECTORY, LOCK
from hybridmem.store import log, points
from hybridmem.store.connect import Connections

#: As CONFIG, with no thread behind the calls.
QUIET: dict[str, Any] = {**CONFIG, "index": {**CONFIG["index"], "background": False, "batch_size": 500}}
#: As an agent would open it: a small subtree is ranked without Chroma.
PLAIN: dict[str, Any] = {**CONFIG, "index": {"background": False}}
_ALONE = dict.fromkeys(("tree", "neighbour", "speaker", "date", "recent", "active_task_prior", "omega"), 0.0)
#: Where only words count, or only vectors.
BY_WORDS: dict[str, Any] = {**QUIET, "retrieval": {**_ALONE, "vector": 0.0}}
BY_VECTOR: dict[str, Any] = {**PLAIN, "retrieval": {**_ALONE, "lexical": 0.0}}
#: Share of the nodes asked for in one look that Chroma may miss by their own vectors, and one more.
MISSED = 0.02
_PATIENCE = 60.0


def look(order: dict[str, Any]) -> None:
    """Writes what it saw as JSON to ``out``.

    ``store``; ``agents`` (names); ``known`` (ids that were looked for before); ``copy`` (a path, or None): where the
    vectors are looked at, so that the store itself stays as the kill left it; ``whole``: look for more of the nodes,
    and have hybridmem itself verify the store and rebuild its tree from the log.
    """
    store = Path(order["store"])
    with _alone(store):
        pass
    seen: dict[str, Any] = {"times": _recover(store, order["agents"][0])}
    seen["resumed"] = {}
    for name in order["agents"]:
        with Memory.open(store, agent=name, config=PLAIN) as memory:
            seen["resumed"][name] = resumed(memory.resume())
    with Memory.open(store, agent=order["agents"][0], config=PLAIN) as memory:
        seen["root"] = memory.root().id
        seen["nodes"] = {node.id: describe(node) for node in memory.walk()}
    connections = Connections(store)
    try:
        with connections.read() as tx:
            seen |= _written(tx, order["agents"])
            seen["problems"] = agreement.of_database(tx, store)
    finally:
        connections.close()
    live = [id for id, node in seen["nodes"].items() if node["state"] == "live" and id != seen["root"]]
    new = [id for id in live if id not in set(order["known"])]
    chance = Random(len(live))
    probes = _some(chance, live, 40) if order["whole"] else [*_some(chance, new, 6), *_some(chance, live, 2)]
    place = store if order["copy"] is None else Path(shutil.copytree(store, order["copy"]))
    seen |= _index(place, probes, live if order["whole"] else probes, seen["nodes"])
    seen["problems"] += seen.pop("of_index")
    if order["whole"]:  # takes as long as the rest
        report = verify(place, replay=True)
        seen["problems"] += [f"verify() finds {finding.kind}: {finding.message}" for finding in report.findings]
    seen["problems"] = list(dict.fromkeys(seen["problems"]))  # some are seen before and after the flush
    seen["damaged"] = len(list(store.glob(f"{DIRECTORY}.damaged-*")))
    Path(order["out"]).write_text(json.dumps(seen, ensure_ascii=False), encoding="utf-8")


@contextmanager
def _alone(store: Path) -> Iterator[None]:
    """Waits for whoever a killed process had started to look at the index; it holds the lock until it is done."""
    lock = OwnerLock(store / LOCK)
    deadline = time.monotonic() + _PATIENCE
    while store.exists() and not lock.acquire():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{store}: somebody still owns the index")
        time.sleep(0.005)
    try:
        yield
    finally:
        lock.release()


def _recover(store: Path, agent: str) -> dict[str, float]:
    """ms until the store is open, has told where the agent stood, and has answered a search."""
    began = time.perf_counter()
    with Memory.open(store, agent=agent, config=PLAIN) as memory:
        opened = time.perf_counter()
        memory.resume()
        told = time.perf_counter()
        memory.search("发票 invoice 退回", k=5)
        found = time.perf_counter()
    steps = {"open": opened - began, "resume": told - opened, "first_search": found - told, "recover": found - began}
    return {name: round(1000.0 * seconds, 3) for name, seconds in steps.items()}


def _written(tx: Any, agents: Sequence[str]) -> dict[str, Any]:
    """The log and the named checkpoints by agent, oldest first."""
    (namespace,) = points.namespaces(tx)
    logs: dict[str, list[list[Any]]] = {name: [] for name in agents}
    for entry in log.since(tx, namespace, 0):
        if entry.kind != "namespace":
            logs.setdefault(entry.agent, []).append([entry.kind, entry.node_id])
    labels: dict[str, list[str]] = {name: [] for name in agents}
    for point in reversed(points.checkpoints(tx, namespace)):
        if point.label is not None:
            labels.setdefault(point.agent, []).append(point.label)
    return {"log": logs, "labels": labels}


def _index(store: Path, probes: Sequence[str], nearest: Sequence[str], nodes: dict[str, Any]) -> dict[str, Any]:
    """Brings the index up to date and looks into it; searches for ``probes``, and asks Chroma alone for ``nearest``."""
    problems: list[str] = []
    with Memory.open(store, config=QUIET) as memory:
        deadline = time.monotonic() + _PATIENCE
        while (waiting := memory.flush()) and time.monotonic() < deadline:
            time.sleep(0.01)
        if waiting:
            problems = [f"{waiting} nodes still wait after a flush: {memory.stats()}"]
            return {"of_index": problems, "asked_of_chroma": 0, "missed_by_chroma": 0}
        connections = Connections(store)
        try:
            with connections.read() as tx:
                problems += agreement.of_database(tx, store)
                found, missed = agreement.of_chroma(memory, tx, nearest)
                problems += found
        finally:
            connections.close()
        for id in probes:
            problems += _search(memory, id, nodes[id]["content"])
        for how, config in (("its words", BY_WORDS), ("its vector", BY_VECTOR)):
            with Memory.open(store, config=config) as narrow:
                for id in probes:
                    if not _first(narrow, id, nodes[id]["content"]):
                        problems.append(f"{id} is not found by {how}")
    if len(missed) > max(1, MISSED * len(nearest)):
        problems.append(f"Chroma misses {len(missed)} of {len(nearest)}: {missed[:5]}")
    return {"of_index": problems, "asked_of_chroma": len(nearest), "missed_by_chroma": len(missed)}


def _search(memory: Memory, id: str, content: str) -> Iterator[str]:
    """By everything at once, and as it is now."""
    found = {hit.id: hit for hit in memory.search(content, k=10)}
    if id not in found or found[id].content != content or found[id].score_details.vector is None:
        yield f"{id} is not found by its content"


def _first(memory: Memory, id: str, content: str) -> bool:
    """Whether nothing is better than a node for its own content."""
    hits = memory.search(content, k=10)
    return id in [hit.id for hit in hits if hit.score == hits[0].score]


def _some(chance: Random, ids: Sequence[str], most: int) -> list[str]:
    return list(ids) if len(ids) <= most else chance.sample(list(ids), most)

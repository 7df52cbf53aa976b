"""Builds the stores, as fast as the public surface allows, and keeps them: one of 100,000 nodes takes minutes.

A store is a folder ``<nodes>-<checksum>`` with ``store/`` (hybridmem's), ``chroma/`` (the rival's) and ``built.json``,
which is written last: a folder without it is of an interrupted run and is built again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from eval import results
from eval.bench.planted import PROJECTS, VERSION, Planted, PlantedEmbedder
from eval.bench.rivals import FilteredChroma
from hybridmem import Memory
from hybridmem.errors import HybridMemError
from hybridmem.store.directory import DATABASE_NAME
from hybridmem.store.migrations import SCHEMA_VERSION

_BATCH = 1_000
_SLICE_SECONDS = 0.5

#: Hears what is being done and how many steps of it are finished.
Progress = Callable[[str, int], None]


@dataclass(frozen=True, slots=True)
class Store:
    """A store that is built. ``built`` says how long that took, and by which commit."""

    planted: Planted
    directory: Path
    rival: Path
    built: dict[str, Any]

    def open(self, embedder: PlantedEmbedder, **config: Any) -> Memory:
        """A handle without the background thread, which would compete for the cores with what is measured."""
        index = {"background": False, **config.pop("index", {})}
        return Memory.open(self.directory, embedder=embedder, config={"index": index, **config}, create=False)

    def copy(self, directory: Path) -> Path:
        """A copy of the database without the vector index, to write into."""
        directory.mkdir(mode=0o700)
        source = sqlite3.connect(self.directory / DATABASE_NAME)
        target = sqlite3.connect(directory / DATABASE_NAME)
        try:
            source.backup(target)
            target.execute("PRAGMA journal_mode = WAL")
        finally:
            source.close()
            target.close()
        return directory


def steps(nodes: int) -> int:
    """How many steps building takes: each node is added, indexed, and added to the rival."""
    return 3 * nodes


def get(nodes: int, seed: int, folder: Path, progress: Progress) -> Store:
    """The store of that size, built if it is not there.

    :param progress: hears ``steps(nodes)`` steps all in all.
    """
    planted = Planted(nodes, seed)
    home = folder / f"{nodes}-{_key(nodes, seed)}"
    file = home / "built.json"
    if file.exists():
        progress(f"{nodes:,} nodes: built before", steps(nodes))
        built = json.loads(file.read_text(encoding="utf-8"))
    else:
        if home.exists():
            shutil.rmtree(home)
        home.mkdir(parents=True)
        built = _build(planted, home, progress)
        file.write_text(json.dumps(built, indent=1), encoding="utf-8")
    return Store(planted, home / "store", home / "chroma", built)


def _build(planted: Planted, home: Path, progress: Progress) -> dict[str, Any]:
    told = 0

    def tell(what: str, count: int) -> None:
        nonlocal told
        told += count
        progress(f"{planted.nodes:,} nodes: {what}", count)

    embedder = PlantedEmbedder(planted)
    with Memory.open(home / "store", embedder=embedder, config={"index": {"background": False}}) as memory:
        began = time.perf_counter()
        for project in range(PROJECTS):
            items, vectors = list(planted.items(project)), planted.vectors(project)
            embedder.learn([item["content"] for item in items], vectors)
            for batch in _batches(items, _BATCH):
                memory.add_many(batch)
                tell("adding", len(batch))
        added = time.perf_counter()
        inside = embedder.spent()
        left = memory.pending()
        while left:
            before, left = left, memory.flush(_SLICE_SECONDS)
            if left == before:
                raise HybridMemError(f"the index does not get on: {left} nodes wait ({memory.stats()})")
            tell("indexing", before - left)
        indexed = time.perf_counter()
        inside = embedder.spent() - inside
    closed = time.perf_counter()
    rival = FilteredChroma(home / "chroma")
    rival.build(planted, lambda count: tell("adding to Chroma alone", count))
    rival.close()
    progress(f"{planted.nodes:,} nodes: built", steps(planted.nodes) - told)
    return {
        "commit": results.git_state(results.ROOT)["sha"],
        "add_many_seconds": round(added - began, 3),
        "index_seconds": round(indexed - added - inside, 3),
        "close_seconds": round(closed - indexed, 3),
        "chroma_seconds": round(time.perf_counter() - closed, 3),
        "add_many_per_second": round(planted.count / (added - began), 1),
        "index_per_second": round(planted.count / (indexed - added - inside), 1),
        "chroma_per_second": round(planted.count / (time.perf_counter() - closed), 1),
        "tree_mb": _megabytes(home / "store" / DATABASE_NAME),
        "vectors_mb": _megabytes(home / "store" / "vectors"),
    }


def _key(nodes: int, seed: int) -> str:
    """What the bytes of a store depend on; with the code of hybridmem only how fast it was built changes."""
    parts = [nodes, seed, VERSION, SCHEMA_VERSION, metadata.version("chromadb")]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:10]


def _batches(items: list[dict[str, Any]], size: int) -> Iterator[list[dict[str, Any]]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _megabytes(path: Path) -> float:
    files: Iterable[Path] = path.rglob("*") if path.is_dir() else [path]
    return round(sum(file.stat().st_size for file in files if file.is_file()) / 1e6, 1)

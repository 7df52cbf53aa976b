"""SIGKILL at any moment loses nothing that was acknowledged, and leaves nothing half done."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hybridmem import Memory
from hybridmem.index import chroma

from .helpers import TIMEOUT, check_database, check_vectors, damaged, environment, is_dirty, until
from .model import Expected
from .writer import CONFIG, HNSW

KILLS = 20
assert KILLS % 3 == 2  # the last one is looked at wholly


class Writers:
    """Makes processes that write, one after the other, and kills them."""

    def __init__(self) -> None:
        self.pid: int | None = None
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("writer.py"))],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, store: Path, notes: Path, seed: int, seconds: float) -> list[dict[str, Any]]:
        """Lets one open the store and write for a while; what it noted until it was killed."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([str(store), str(notes), seed]) + "\n")
        self.process.stdin.flush()
        first, second = self.line(), self.line()
        self.pid = int(first if first != "open" else second)
        time.sleep(seconds)
        os.kill(self.pid, signal.SIGKILL)
        assert self.line() == "gone", "the writer ended by itself"
        self.pid = None
        return [json.loads(line) for line in notes.read_text(encoding="utf-8").splitlines()]

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def close(self) -> None:
        if self.pid is not None:
            os.kill(self.pid, signal.SIGKILL)
        self.process.kill()
        self.process.communicate(timeout=TIMEOUT)


def follow(expected: Expected, notes: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Applies what was acknowledged; returns the operation that was under way when the child died, if any."""
    under_way = None
    for note in notes:
        if "operation" in note:
            under_way = note
            continue
        assert under_way is not None
        expected.apply(under_way["operation"], under_way["given"], note["made"])
        if note["version"] is not None:
            assert expected.nodes[note["made"]]["version"] == note["version"]
        under_way = None
    return under_way


def with_one_more(expected: Expected, under_way: dict[str, Any] | None, real: Expected) -> Expected | None:
    """What must be there if the operation that was never acknowledged became durable all the same."""
    if under_way is None:
        return None
    made = None
    if under_way["operation"] == "start_task":
        title = under_way["given"]["title"]
        made = next((one for one, node in real.nodes.items() if node["content"] == title), None)
        if made is None:
            return None
    result = expected.copy()
    result.apply(under_way["operation"], under_way["given"], made)
    return result


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """In memory where there is such a place: a killed process loses nothing of what the system has taken from it,
    wherever that is, and the disk of a busy machine makes it a test of patience."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path, prefix="hybridmem-") as made:
        yield Path(made)


def test_twenty_kills_lose_nothing_acknowledged(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}")
    chance = random.Random(seed)
    monkeypatch.setattr(chroma, "HNSW", HNSW)
    store = folder / "记忆 store"
    with Memory.open(store, config=CONFIG) as memory:
        expected = Expected.read(memory)
    operations = one_more = dirty = 0
    writers = Writers()
    try:
        for kill in range(KILLS):
            where = f"seed {seed}, kill {kill}"
            notes = writers.run(store, folder / f"notes-{kill}", seed + kill, chance.uniform(0.1, 0.7))
            operations += sum("operation" not in note for note in notes)
            dirty += is_dirty(store)
            # Every third time; else the next child finds the index as the kill left it.
            whole = kill % 3 == 1
            under_way = follow(expected, notes)
            check_database(store)
            with Memory.open(store, config={**CONFIG, "index": {**CONFIG["index"], "background": False}}) as memory:
                real = Expected.read(memory)
                extra = with_one_more(expected, under_way, real)
                if extra is not None and not extra.differences(real):
                    expected, one_more = extra, one_more + 1
                assert expected.differences(real) == [], where
                check_resume(memory, expected, any("operation" not in note for note in notes))
                if whole:
                    # For a moment the checker of the killed process may still hold the index.
                    until(lambda: memory.flush() == 0)
            if whole:
                check_vectors(store)
    finally:
        writers.close()
    print(
        f"{operations} operations acknowledged, {len(expected.nodes)} nodes; after {KILLS} kills {one_more} operations "
        f"were durable but not acknowledged, {dirty} indexes were left open, {len(damaged(store))} of them torn"
    )
    assert dirty >= 3, "too few kills hit the index while it was open; the test has lost its point"


def check_resume(memory: Memory, expected: Expected, wrote: bool) -> None:
    point = memory.resume()
    assert (point.active_task.id if point.active_task else None) == expected.task
    assert (memory.active_task() or memory.root()).id == (expected.task or expected.root)
    assert point.next_step == (expected.nodes[expected.task]["next_step"] if expected.task else None)
    assert point.interrupted or not wrote

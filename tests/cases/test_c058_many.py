"""C058: with 50,000 memories the first calls of a session read no more than with 1,000, but for what they are about.

Nothing here asserts a time. Work is counted in steps of SQLite's virtual machine, memory in what the process holds.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from crash.helpers import QUIET, environment, said

from hybridmem import Memory

from .processes import ROOT, document, program

MANY, FEW = 50_000, 1_000
#: Steps are counted by the hundred.
GRAIN = 100
CONFIG: dict[str, Any] = {**QUIET, "store": {"durability": "process"}, "index": {"background": False}}


def filled(store: Path, count: int) -> Path:
    """A hundred memories for every task; one task is active, with decisions in it."""
    texts = ("财务退回第{}号报销单", "order {} was shipped late", "会议 meeting {} on Friday")
    kinds = ("event", "note", "fact", "decision")
    with Memory.open(store, config=CONFIG) as memory:
        for start in range(0, count, 5_000):
            memory.add_many(
                {
                    "content": texts[n % 3].format(n),
                    "type": kinds[n % 4],
                    "id": f"m{n}",
                    "parent": "root" if n % 100 == 0 else f"m{n - n % 100}",
                }
                for n in range(start, min(count, start + 5_000))
            )
        memory.start_task("企业报销任务 expenses", next_step="提交 submit")
        for number in range(5):
            memory.add(f"决定 decision {number}", type="decision")
        memory.checkpoint("before 之前")
    return store


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    folder = tmp_path_factory.mktemp("c058")
    return {count: filled(folder / str(count), count) for count in (MANY, FEW)}


def steps(memory: Memory, call: Callable[[Memory], object]) -> int:
    """How many steps SQLite takes for a call."""
    counted = 0

    def count() -> int:
        nonlocal counted
        counted += 1
        return 0

    connection = memory._workspace.connections._mine().conn
    connection.set_progress_handler(count, GRAIN)
    try:
        call(memory)
    finally:
        connection.set_progress_handler(None, GRAIN)
    return counted * GRAIN


CALLS: dict[str, Callable[[Memory], object]] = {
    "resume": lambda memory: memory.resume(),
    "get": lambda memory: memory.get("m777"),
    "children": lambda memory: memory.children("m700", limit=20),
    "ancestors": lambda memory: memory.ancestors("m777"),
    "add": lambda memory: memory.add("新的 new"),
    "add a decision": lambda memory: memory.add("新的决定 a new decision", type="decision"),
    "update": lambda memory: memory.update("m777", content="改 changed"),
    "move": lambda memory: memory.move("m778", "m600"),
    "update_task": lambda memory: memory.update_task(next_step="下一步 next"),
    "start_task": lambda memory: memory.start_task("子任务 sub-task", parent="active"),
    "checkpoint": lambda memory: memory.checkpoint("现在 now"),
    "forget": lambda memory: memory.forget("m779"),
    "context of the task": lambda memory: memory.context("决定 decision", scope="task", token_budget=200),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_takes_as_much_work_in_a_big_store_as_in_a_small_one(stores: dict[int, Path], name: str) -> None:
    """C058: each as the first call of a session, the second time it is made, when SQLite knows the schema."""
    counted = {}
    for count, store in stores.items():
        with Memory.open(store, config=CONFIG, agent="default") as memory:
            memory.get("m1")
            counted[count] = steps(memory, CALLS[name])
    # Twice, and what a deeper B-tree and a longer page of the log may take.
    assert counted[MANY] <= 2 * counted[FEW] + 3_000, counted


MEASURE = """
import json, sys
from pathlib import Path
from hybridmem import Memory
def held():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6
with Memory.open(sys.argv[1], config=json.loads(sys.argv[2])) as memory:
    before = held()
    memory.resume(); memory.get("m777"); memory.children("m700"); memory.add("新的 new"); memory.context(scope="task")
    print(json.dumps([before, held(), sorted(set(sys.modules) & {"chromadb", "torch", "sentence_transformers"})]))
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not tell")
def test_the_first_calls_hold_no_more_memory_with_more_memories(stores: dict[int, Path]) -> None:
    """C058: and load neither Chroma nor a model."""
    grown = {}
    for count, store in stores.items():
        command = [sys.executable, "-c", MEASURE, str(store), json.dumps(CONFIG)]
        done = subprocess.run(
            command, env=environment(), capture_output=True, text=True, timeout=120, cwd=ROOT, check=True
        )
        before, after, heavy = json.loads(done.stdout)
        assert heavy == []
        grown[count] = after - before
    # The contents alone would be more; SQLite's page cache is at most 2 MB.
    assert grown[MANY] - grown[FEW] < 8.0, grown


def test_a_first_search_finds_the_one_in_fifty_thousand(stores: dict[int, Path]) -> None:
    """C058: in a fresh process, in a subtree and everywhere, by words, before anything is indexed."""
    found = said(
        """
        config = json.loads(sys.argv[2])
        with Memory.open(sys.argv[1], config=config) as memory:
            say([memory.search("财务退回第42021号报销单", k=1, scope="m42000")[0].id])
            say([memory.search("order 42022 shipped", k=1)[0].id])
        """,
        stores[MANY],
        json.dumps(CONFIG),
        timeout=300.0,
    )
    assert found == [["m42021"], ["m42022"]]


def test_the_program_reads_one_of_fifty_thousand(stores: dict[int, Path]) -> None:
    """C058"""
    code, answer = document(program(stores[MANY], "show", "m41000", "--json"))
    assert code == 0, answer
    assert "41000" in json.dumps(answer, ensure_ascii=False)

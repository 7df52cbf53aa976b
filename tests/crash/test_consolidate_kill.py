"""Killed at any step of consolidating or merging, or of undoing it: all is done, or nothing is."""

from __future__ import annotations

from pathlib import Path

import pytest

from hybridmem import Memory, faults

from .helpers import QUIET, check_database, check_vectors, run

CONFIG = {**QUIET, "consolidation": {"min_tokens": 20}}
CHILD = """
os.environ["HYBRIDMEM_FAULT"] = sys.argv[2]
import hybridmem.faults
hybridmem.faults.arm()
memory = Memory.open(sys.argv[1], config=QUIET | {"consolidation": {"min_tokens": 20}})
summaries = [node.id for node in memory.walk() if node.type == "summary"]
memory.unconsolidate(summaries[0]) if summaries else memory.consolidate()
"""
MERGE = """
os.environ["HYBRIDMEM_FAULT"] = sys.argv[2]
import hybridmem.faults
hybridmem.faults.arm()
memory = Memory.open(sys.argv[1], config=QUIET)
keep, *others = sys.argv[3:]
memory.merge_duplicates(keep, others) if others else memory.unmerge(keep)
"""
#: (verb, point): each point of the one that is passed by it.
POINTS = [
    *(("consolidate", point) for point in faults.CONSOLIDATION_POINTS if point.startswith("consolidate")),
    ("consolidate", "node.after_lexical"),
    ("unconsolidate", "unconsolidate.after_rows"),
    *(
        (verb, point)
        for verb in ("consolidate", "unconsolidate")
        for point in ("log.after_row", "write.before_commit", "write.after_commit")
    ),
]


def test_every_point_of_consolidating_and_merging_is_died_at() -> None:
    assert {point for _, point in POINTS} | {"merge.after_rows"} >= set(faults.CONSOLIDATION_POINTS)


@pytest.mark.parametrize(("verb", "point"), POINTS)
def test_all_or_nothing(tmp_path: Path, verb: str, point: str) -> None:
    undo = verb == "unconsolidate"
    store = tmp_path / "store"
    with Memory.open(store, config=CONFIG) as memory:
        memory.start_task("报销 claim")
        memory.add_many(
            [{"content": f"发票 INV-{number} 没人接 nobody answered", "type": "event"} for number in range(9)]
        )
        memory.add("决定：hand it in again", type="decision")
        memory.finish_task()
        memory.start_task("别处 elsewhere")
        if undo:
            memory.consolidate()
        memory.flush()
        before = {node.id: (node.state, node.replaced_by, node.version) for node in memory.walk()}
    assert run(CHILD, store, point).returncode == -9
    check_database(store)
    with Memory.open(store, config=CONFIG) as memory:
        after = {node.id: (node.state, node.replaced_by, node.version) for node in memory.walk()}
        if point == "write.after_commit":
            summary = next(node for node in memory.walk() if node.type == "summary")
            assert summary.state == ("forgotten" if undo else "live")
            assert sum(state == "archived" for state, _, _ in after.values()) == (0 if undo else 10)
        else:
            assert after == before
        assert memory.verify(replay=True).ok
        assert memory.flush() == 0
    check_vectors(store)


@pytest.mark.parametrize("undo", [False, True], ids=["merge", "unmerge"])
@pytest.mark.parametrize("point", ["merge.after_rows", "log.after_row", "write.before_commit", "write.after_commit"])
def test_a_merge_is_done_or_not(tmp_path: Path, point: str, undo: bool) -> None:
    store = tmp_path / "store"
    with Memory.open(store, config=QUIET) as memory:
        keep, *others = (memory.add(text, type="note").id for text in ("发票盖章", "发票盖章。", "Stamp invoices"))
        if undo:
            memory.merge_duplicates(keep, others)
        memory.flush()
        before = [(node.id, node.state, node.replaced_by, node.version) for node in memory.walk()]
    assert run(MERGE, store, point, keep, *([] if undo else others)).returncode == -9
    check_database(store)
    with Memory.open(store, config=QUIET) as memory:
        after = [(node.id, node.state, node.replaced_by, node.version) for node in memory.walk()]
        if point == "write.after_commit":
            assert [memory.get(one).state for one in others] == ["live" if undo else "superseded"] * 2
        else:
            assert after == before
        assert memory.verify(replay=True).ok
        assert memory.flush() == 0
    check_vectors(store)

"""C027: a chain of 5,000 goes through every verb, and a node that is its own parent is reported and skipped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from crash.helpers import QUIET
from damages import edit
from verified import assert_verified

from hybridmem import Memory, repair, verify

from .looped import read_all

DEPTH = 5_000


def text(number: int) -> str:
    return f"第{number}层的记忆 memory of level {number}"


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chain below an active task, in one batch; not to be written to by more than one test."""
    store = tmp_path_factory.mktemp("deep") / "store"
    with Memory.open(store, config=QUIET) as memory:
        task = memory.start_task("很深的任务 a deep task", next_step="往下 further down")
        items: list[dict[str, Any]] = [{"content": text(0), "parent": task.id, "id": "level0"}]
        items += [{"content": text(n), "parent": n - 1, "id": f"level{n}"} for n in range(1, DEPTH)]
        memory.add_many(items)
        assert memory.flush() == 0
    return store


def test_every_reading_verb_goes_to_the_bottom(deep: Path) -> None:
    with Memory.open(deep, config=QUIET) as memory:
        last = f"level{DEPTH - 1}"
        assert len(memory.ancestors(last)) == DEPTH + 1
        assert sum(1 for _ in memory.walk()) == DEPTH + 2
        assert memory.get(last).depth == DEPTH + 1
        assert memory.search(text(DEPTH - 1), 1)[0].id == last
        assert memory.search(text(DEPTH - 1), 1, scope="level100")[0].id == last
        context = memory.context(text(DEPTH - 1), token_budget=400)
        assert context.tokens <= 400
        assert context.hits
        assert memory.resume().path[-1].id == last
    assert read_all(deep, f"level{DEPTH - 1}", "level0") == []


def test_every_writing_verb_works_at_the_bottom_and_moves_the_whole_chain(deep: Path) -> None:
    with Memory.open(deep, config=QUIET) as memory:
        memory.update(f"level{DEPTH - 1}", content="最底下 at the very bottom")
        memory.pin(f"level{DEPTH - 2}")
        memory.add("再往下 deeper", parent=f"level{DEPTH - 1}", id="deeper")
        memory.start_task("子任务 sub-task", parent="deeper")
        memory.finish_task(outcome="到底了 the bottom")
        memory.move("level0", "root")
        assert memory.get("deeper").depth == DEPTH + 1
        memory.move("level2500", "root")
        assert memory.get("deeper").depth == DEPTH - 2500 + 1
        memory.move("level2500", "level2499")
        memory.checkpoint("很深 deep")
        memory.start_task("别处 elsewhere")
        memory.add("在别处 elsewhere")
        memory.pin(f"level{DEPTH - 2}", False)
        assert len(memory.forget("level1", subtree=True).ids) == DEPTH + 2
        assert memory.children("level0") == []
        memory.restore_forgotten("level1", subtree=True)
        out = deep.parent / "deep.jsonl"
        assert memory.export(out) == DEPTH + 6
        assert memory.flush() == 0
        assert_verified(memory)
    with Memory.open(deep.parent / "copy", config=QUIET) as copy:
        assert copy.import_(out).added == DEPTH + 6
        assert copy.get("deeper").depth == DEPTH + 1
        assert copy.verify(replay=True).ok


def test_the_doctor_mends_every_path_of_it(deep: Path) -> None:
    edit(deep, "UPDATE node SET path = '/' || id || '/', depth = 1 WHERE parent_id IS NOT NULL", {})
    report = verify(deep)
    assert [one.kind for one in report.findings] == ["path"]
    assert report.findings[0].count > DEPTH
    assert repair(deep, config=QUIET).ok
    with Memory.open(deep, config=QUIET) as memory:
        assert len(memory.ancestors(f"level{DEPTH - 1}")) >= DEPTH


def test_a_node_that_is_its_own_parent_is_reported_and_everything_ends(deep: Path) -> None:
    """C027: at the top and in the middle of the chain, so that what lies between is cut off at both ends."""
    looped = ("level0", "level2500")
    with Memory.open(deep, config=QUIET) as memory:
        above = [memory.get(where).parent_id for where in looped]
    for where in looped:
        edit(deep, "UPDATE node SET parent_id = id WHERE id = {x}", {"x": where})
    assert set(read_all(deep, "level2500", "level0")) == {"loop", "path"}
    (loop, _) = verify(deep).findings
    assert loop.ids == looped
    assert repair(deep, config=QUIET).ok
    with Memory.open(deep, config=QUIET) as memory:
        assert [memory.get(where).parent_id for where in looped] == above

"""The log tells of every operation what it has set: of a claim nothing, of a repeat when it happened; and the order in
which things were done counts, not the clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hybridmem import Memory

OpenMemory = Callable[..., Memory]


def test_a_claimed_task_has_a_history(memory: OpenMemory, clock: Any) -> None:
    """Claims are in it, with who and when; they change nothing, not even the version."""
    one, other = memory(), memory(agent="审核")
    task = one.start_task("企业报销 expense claim", next_step="提交 submit")
    one.claim_task(seconds=60)
    one.update_task(next_step="等待 wait")
    one.release_task()
    other.claim_task(task.id)
    found = one.history(task.id)
    assert [(entry.kind, entry.agent, entry.version) for entry in found] == [
        ("add", "default", 1), ("task.start", "default", 1), ("task.claim", "default", 1),
        ("task.update", "default", 2), ("task.release", "default", 2), ("task.claim", "审核", 2),
    ]  # fmt: skip
    assert [entry.changes for entry in found if entry.kind in ("task.claim", "task.release")] == [{}, {}, {}]


@pytest.mark.parametrize("when", ["2020-01-01", "2030-01-01", None])
def test_a_repeat_was_active_when_it_happened(memory: OpenMemory, clock: Any, when: str | None) -> None:
    """An old chat that is told again is no news, in the tree, by the log and for a restore alike."""
    one = memory()
    task = one.start_task("任务")
    fact = one.add("用户的部门是研发部", type="fact", occurred_at="2019-01-01")
    before = one.operations()[-1].sequence
    clock.advance(hours=1)
    again = one.add("用户的部门是研发部", type="fact", occurred_at=when)
    assert (again.id, again.created) == (fact.id, False)
    then = {node.id: node.active_at for node in one.walk()}
    assert one.verify(replay=True).findings == ()
    sequence = one.operations()[-1].sequence
    one.add("后来 later", parent=task)
    one.restore(sequence=sequence)
    assert {id: one.get(id).active_at for id in then} == then
    one.restore(sequence=before)
    assert one.get(fact.id).active_at == fact.active_at


def test_a_node_moved_to_where_it_hangs_when_the_clock_went_back(memory: OpenMemory, clock: Any) -> None:
    """The parent was active later already, and stays so by the log as well."""
    one = memory()
    task = one.start_task("任务")
    note = one.add("发票", parent=task)
    clock.advance(hours=2)
    one.update(task.id, importance=0.9)
    clock.advance(hours=-1)
    one.move(note.id, task)
    assert one.verify(replay=True).findings == ()

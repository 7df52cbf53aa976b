"""The history of a memory: every operation on it, from what to what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from hybridmem import Change, Memory, NotFound
from hybridmem.embed.hashing import HashingEmbedder
from tests.conftest import SteerableClock, configured
from tests.life import Life, Step, steps

OpenMemory = Callable[..., Memory]


def test_every_operation_is_told_with_who_when_and_from_what_to_what(memory: OpenMemory, clock: SteerableClock) -> None:
    one, other = memory(agent="bot"), memory(agent="审核")
    node = one.add("发票 first", type="fact", importance=0.5, metadata={"标签": 1})
    clock.advance(hours=1)
    other.update(node.id, content="发票 second", metadata={"标签": None, "role": "user"}, importance=0.9)
    other.pin(node.id)
    task = one.start_task("任务 task", next_step="一")
    one.move(node.id, task)
    one.archive(node.id)
    found = one.history(node.id)
    assert [(entry.kind, entry.agent, entry.version) for entry in found] == [
        ("add", "bot", 1), ("update", "审核", 2), ("pin", "审核", 3), ("move", "bot", 4), ("archive", "bot", 5),
    ]  # fmt: skip
    assert [entry.sequence for entry in found] == [2, 3, 4, 7, 8]
    assert (found[1].at - found[0].at).total_seconds() == 3600
    assert found[0].changes["content"] == Change(None, "发票 first")
    assert found[0].changes["state"] == Change(None, "live")
    assert found[1].changes == {
        "content": Change("发票 first", "发票 second"),
        "metadata": Change({"标签": 1}, {"role": "user"}),
        "importance": Change(0.5, 0.9),
    }
    assert found[2].changes == {"pinned": Change(False, True)}
    assert found[3].changes == {"parent_id": Change(one.root().id, task.id)}
    assert found[4].changes == {"state": Change("live", "archived")}


def test_a_task_tells_its_status_and_its_steps(memory: OpenMemory, clock: SteerableClock) -> None:
    one = memory()
    task = one.start_task("任务", next_step="一 one")
    one.update_task(next_step="二 two", status="paused")
    one.switch_task(task.id)
    clock.advance(minutes=1)
    one.finish_task(status="failed")
    found = one.history(task.id)
    assert [entry.kind for entry in found] == ["add", "task.start", "task.update", "task.switch", "task.finish"]
    assert found[1].changes == {"status": Change(None, "open"), "next_step": Change(None, "一 one")}
    assert found[2].changes == {"status": Change("open", "paused"), "next_step": Change("一 one", "二 two")}
    assert found[3].changes == {"status": Change("paused", "open")}
    assert found[4].changes == {
        "status": Change("open", "failed"),
        "next_step": Change("二 two", None),
        "finished_at": Change(None, clock.time),
    }


def test_what_was_done_to_a_whole_branch_is_in_the_history_of_each(memory: OpenMemory) -> None:
    """Forgetting and restoring are one operation for many memories."""
    one = memory()
    top = one.add("top 顶", parent="root")
    below = one.add("below 下", parent=top)
    aside = one.add("aside", parent="root")
    before = one.operations()[-1].sequence
    one.forget(top.id, subtree=True)
    one.restore(sequence=before)
    assert [entry.kind for entry in one.history(below.id)] == ["add", "forget", "restore"]
    assert one.history(below.id)[2].changes == {"state": Change("forgotten", "live")}
    assert [entry.kind for entry in one.history(aside.id)] == ["add"]


def test_a_root_that_was_imported_has_the_history_of_the_one_before(memory: OpenMemory, tmp_path: Any) -> None:
    one, two = memory(), memory(namespace=("b",))
    one.add("发票")
    one.export(tmp_path / "file.jsonl")
    two.import_(tmp_path / "file.jsonl")
    assert [entry.kind for entry in two.history(two.root().id)] == ["namespace", "root"]
    assert two.history(two.root().id)[1].changes["content"] == Change("b", "default")


def test_there_is_none_of_what_is_not_here(memory: OpenMemory) -> None:
    one, two = memory(), memory(namespace=("b",))
    node = one.add("发票")
    for wrong in ("nope", node.id):
        with pytest.raises(NotFound, match="there is no node"):
            two.history(wrong)


@given(life=steps(most=30))
@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
def test_all_changes_together_give_the_memory_as_it_is(
    tmp_path_factory: pytest.TempPathFactory, life: list[Step]
) -> None:
    """Nothing is left out, and each change goes on from the one before it."""
    directory, clock = tmp_path_factory.mktemp("life"), SteerableClock()
    given: dict[str, Any] = {"config": configured({}), "embedder": HashingEmbedder(), "clock": clock}
    with Memory.open(directory, **given) as one, Memory.open(directory, agent="other", **given) as other:
        lived = Life(one, other, clock)
        for step in life:
            lived.act(step)
        for node in one.walk():
            told: dict[str, Any] = {}
            for entry in one.history(node.id):
                for name, change in entry.changes.items():
                    assert told.get(name) == change.before
                    told[name] = change.after
            task = node.task
            expected = {
                "content": node.content, "metadata": node.metadata, "type": node.type, "importance": node.importance,
                "confidence": node.confidence, "uses": node.uses, "pinned": node.pinned, "state": node.state,
                "parent_id": node.parent_id, "status": task.status if task else None,
                "next_step": task.next_step if task else None, "finished_at": task.finished_at if task else None,
            }  # fmt: skip
            assert {name: told.get(name) for name in expected} == expected
            assert entry.version == node.version

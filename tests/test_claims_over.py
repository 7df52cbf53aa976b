"""A claim that is over gives no right any more, and none lasts for ever."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hybridmem import InvalidInput, Memory, TaskClaimed

OpenMemory = Callable[..., Memory]


@pytest.fixture
def task(memory: OpenMemory) -> str:
    return memory().start_task("企业报销 expense claim").id


class TestATokenOfAClaimThatIsOver:
    """Its holder slept, another one took the step meanwhile: that is what a fencing token is for."""

    @pytest.mark.parametrize("how", ["given back", "over as well", "finished and opened again"])
    def test_is_refused_also_when_nobody_has_the_task(
        self, memory: OpenMemory, clock: Any, refused: Any, task: str, how: str
    ) -> None:
        with memory(agent="killed") as first:
            token = first.claim_task(task, seconds=10).token
        clock.advance(seconds=20)
        second = memory(agent="second 二")
        second.claim_task(task, seconds=10)
        if how == "given back":
            second.release_task(task)
        elif how == "over as well":
            clock.advance(seconds=20)
        else:
            second.finish_task(task)
            second.update_task(task, status="open")
        late = memory()
        for call in (
            lambda: late.update_task(task, next_step="again 再来一次", token=token),
            lambda: late.finish_task(task, token=token),
            lambda: late.claim_task(task, token=token),
        ):
            with refused(late, InvalidInput, "is not that of the last claim"):
                call()
        assert late.claim_task(task).token > token

    def test_is_good_as_long_as_nobody_else_had_the_task(self, memory: OpenMemory, clock: Any, task: str) -> None:
        with memory(agent="killed") as first:
            claim = first.claim_task(task, seconds=10)
        clock.advance(seconds=20)
        late = memory()
        assert late.claim_task(task, token=claim.token).token == claim.token


@pytest.mark.parametrize("outlives", [True, False])
def test_a_clock_set_back_by_years_does_not_keep_a_task_for_years(
    memory: OpenMemory, clock: Any, task: str, outlives: bool
) -> None:
    mine, other = memory(), memory(agent="other")
    clock.advance(days=4000)
    first = mine.claim_task(task, seconds=86_400, outlives=outlives)
    clock.advance(hours=-20)
    with pytest.raises(TaskClaimed):
        other.claim_task(task)
    clock.advance(days=-4000)
    assert other.resume().claim is None
    assert other.claim_task(task).token > first.token
    with pytest.raises(TaskClaimed):
        mine.update_task(task, next_step="x")


@pytest.mark.parametrize("outlives", ["no", 2, None, 1])
def test_whether_it_outlives_its_run_is_yes_or_no(memory: OpenMemory, refused: Any, task: str, outlives: Any) -> None:
    one = memory()
    with refused(one, InvalidInput, "outlives: "):
        one.claim_task(task, outlives=outlives)


def test_checkpoints_and_backups_go_on_after_the_clock_was_set_back(memory: OpenMemory, clock: Any) -> None:
    """The newest ones lie years ahead then."""
    one = memory(checkpoint={"every_seconds": 60, "every_operations": 0, "backup_every_hours": 1})
    clock.advance(days=4000)
    one.checkpoint()
    one.backup()
    clock.advance(seconds=-5)
    one.add("发票 a")
    assert len(one.checkpoints()) == 1, "a second more or less is no reason"
    one._backups.make_if_due(lambda: False)
    assert len(one.backups()) == 1
    clock.advance(days=-4000)
    one.add("发票 b")
    assert [entry.reason for entry in one.checkpoints()] == ["time", "asked"]
    one._backups._next_look = 0.0
    one._backups.make_if_due(lambda: False)
    assert len(one.backups()) == 2
    one.add("发票 c")
    one._backups._next_look = 0.0
    one._backups.make_if_due(lambda: False)
    assert (len(one.checkpoints()), len(one.backups())) == (2, 2)

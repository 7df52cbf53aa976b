"""A claimed task is one run's alone until the claim ends: two agents that resume it do not take the same step twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from hybridmem import Claim, InvalidInput, Memory, NotFound, TaskClaimed

OpenMemory = Callable[..., Memory]


@pytest.fixture
def task(memory: OpenMemory) -> str:
    """An open task 报销 claim, active for the default agent."""
    return memory().start_task("企业报销 expense claim", next_step="submit 提交").id


class TestAClaim:
    def test_keeps_every_other_run_from_updating_finishing_and_claiming(
        self, memory: OpenMemory, refused: Any, task: str
    ) -> None:
        """Also one of the same agent: after a crash two processes may resume as the same one."""
        mine, other = memory(), memory()
        mine.claim_task()
        for call in (
            lambda: other.update_task(task, next_step="again 再次提交"),
            lambda: other.finish_task(task),
            lambda: other.claim_task(task),
            lambda: other.release_task(task),
        ):
            with refused(other, TaskClaimed, "claimed by another run of agent 'default' until 2026-07-02T"):
                call()
        assert mine.update_task(next_step="wait 等待").task.next_step == "wait 等待"  # type: ignore[union-attr]
        assert mine.finish_task().task.status == "done"  # type: ignore[union-attr]

    def test_lets_others_write_below_the_task_and_says_who_has_it(self, memory: OpenMemory, task: str) -> None:
        mine, other = memory(), memory(agent="helper")
        claim = mine.claim_task(task, seconds=60)
        assert other.add("note 备注", parent=task).parent_id == task
        other.switch_task(task)
        assert other.resume().claim == claim == mine.resume().claim

    def test_tells_when_it_ends_and_which_run_it_is(self, memory: OpenMemory, clock: Any, task: str) -> None:
        mine, other = memory(), memory(agent="helper")
        claim = mine.claim_task(task, seconds=90)
        assert claim == Claim(task, "default", claim.token, clock.now() + timedelta(seconds=90))
        with pytest.raises(TaskClaimed) as error:
            other.claim_task(task)
        assert (error.value.agent, error.value.until) == ("default", claim.until)

    def test_ends_by_itself(self, memory: OpenMemory, clock: Any, task: str) -> None:
        mine, other = memory(), memory()
        first = mine.claim_task(task, seconds=60)
        clock.advance(seconds=59)
        with pytest.raises(TaskClaimed):
            other.claim_task(task)
        clock.advance(seconds=1)
        assert other.resume().claim is None
        second = other.claim_task(task)
        assert second.token > first.token
        with pytest.raises(TaskClaimed):
            mine.finish_task(task, token=first.token)

    def test_lasts_longer_when_it_is_claimed_again(self, memory: OpenMemory, clock: Any, task: str) -> None:
        mine, other = memory(), memory()
        first = mine.claim_task(task, seconds=60)
        clock.advance(seconds=50)
        second = mine.claim_task(task, seconds=60)
        assert second.token == first.token
        clock.advance(seconds=50)
        with pytest.raises(TaskClaimed):
            other.claim_task(task)

    def test_ends_with_its_run_unless_it_is_to_outlive_it(self, memory: OpenMemory, task: str) -> None:
        other = memory()
        for outlives in (False, True):
            with memory() as mine:
                claim = mine.claim_task(task, outlives=outlives)
            if not outlives:
                assert other.claim_task(task).token > claim.token
                assert other.release_task(task)
        with pytest.raises(TaskClaimed):
            other.update_task(task, status="paused")
        assert other.update_task(task, status="paused", token=claim.token).id == task
        assert other.claim_task(task, token=claim.token).token == claim.token

    def test_is_given_back_by_release_and_by_finishing(self, memory: OpenMemory, task: str) -> None:
        mine, other = memory(), memory()
        assert mine.release_task(task) is False
        first = mine.claim_task(task)
        assert mine.release_task() is True
        second = other.claim_task(task)
        other.finish_task(task)
        mine.update_task(task, status="open")
        third = mine.claim_task(task)
        assert first.token < second.token < third.token

    def test_is_in_the_log_and_changes_no_version(self, memory: OpenMemory, task: str) -> None:
        m = memory()
        before, sequence = m.get(task), m.operations()[-1].sequence
        claim = m.claim_task(task)
        m.release_task(task)
        assert m.get(task) == before
        assert m.restore(sequence=sequence, dry_run=True).is_empty
        claimed, released = m.operations()[-2:]
        assert (claimed.kind, claimed.node_id, claimed.payload["token"]) == ("task.claim", task, claim.token)
        assert (released.kind, released.payload) == ("task.release", {"token": claim.token})


class TestWhatCannotBeClaimed:
    @pytest.mark.parametrize("seconds", [0, -1, 86_401, float("nan"), True, "60"])
    def test_a_bad_time_is_refused(self, memory: OpenMemory, refused: Any, task: str, seconds: Any) -> None:
        m = memory()
        with refused(m, InvalidInput, "^seconds: must be"):
            m.claim_task(task, seconds=seconds)

    def test_nothing_but_unfinished_tasks(self, memory: OpenMemory, refused: Any, task: str) -> None:
        m = memory()
        note = m.add("备注 note")
        with refused(m, InvalidInput, "is a note, not a task"):
            m.claim_task(note.id)
        with refused(m, NotFound, "there is no node 'nowhere'"):
            m.claim_task("nowhere")
        m.finish_task(task)
        with refused(m, InvalidInput, "is finished; there is nothing to claim"):
            m.claim_task(task)
        with refused(m, NotFound, "has no active task"):
            m.claim_task()


CLAIMING = """
import sys, time
from hybridmem import Memory
memory = Memory.open(sys.argv[1], config={"index": {"background": False}, "embedding": {"provider": "hashing"}})
print(memory.claim_task(seconds=3600).token, flush=True)
time.sleep(600)
"""


def test_a_claim_of_a_killed_process_holds_nobody_up(tmp_path: Path) -> None:
    """Alive it keeps the task, killed it has lost it: who resumes does not wait for the hour to pass."""
    settings = {"index": {"background": False}, "embedding": {"provider": "hashing"}}
    with Memory.open(tmp_path / "store", config=settings) as memory:
        task = memory.start_task("任务 task").id
        process = subprocess.Popen(
            [sys.executable, "-c", CLAIMING, str(tmp_path / "store")], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        token = int(process.stdout.readline())
        with pytest.raises(TaskClaimed):
            memory.claim_task(task)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        assert memory.claim_task(task).token > token

"""Checkpoints, the log and resume: where an agent stands after anything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hybridmem import InvalidInput, Memory

ROOT = Path(__file__).parents[1]
OpenMemory = Callable[..., Memory]
Refused = Callable[..., Any]


def contents(nodes: Any) -> list[str]:
    return [node.content for node in nodes]


class TestResume:
    def test_a_new_namespace_has_nothing_to_resume(self, memory: OpenMemory) -> None:
        m = memory()
        point = m.resume()
        assert (point.active_task, point.active_node, point.next_step, point.checkpoint) == (None, None, None, None)
        assert (point.decisions, point.open_subtasks, point.interrupted) == ((), (), False)
        assert contents(point.path) == ["default"]

    def test_it_tells_where_the_agent_stands(self, memory: OpenMemory) -> None:
        with memory() as m:
            task = m.start_task("企业报销任务", next_step="提交报销单")
            m.add("先垫付 pay first", type="decision")
            m.start_task("上传发票 upload", parent="active")
            m.finish_task()
            sub = m.start_task("等待审批 approval", parent="active")
            m.switch_task(task.id)
            m.checkpoint("之前 before")
            m.add("改用电子发票 e-invoice", type="decision")
            last = m.add("财务退回", type="event", parent="decision")
            m.update_task(next_step="重新上传")
        m = memory()
        point = m.resume()
        assert point.active_task == m.get(task.id)
        assert point.next_step == "重新上传"
        assert point.active_node == m.get(last.id)
        assert contents(point.path) == ["default", "企业报销任务", "改用电子发票 e-invoice", "财务退回"]
        assert contents(point.decisions) == ["先垫付 pay first", "改用电子发票 e-invoice"]
        assert [node.id for node in point.open_subtasks] == [sub.id]
        assert point.checkpoint is not None
        assert point.checkpoint.label == "之前 before"
        assert [op.kind for op in point.operations_since] == ["add", "add", "task.update"]
        assert point.last_operation == m.operations()[-1]
        assert not point.interrupted

    def test_the_ten_newest_decisions_are_told_oldest_first(self, memory: OpenMemory) -> None:
        m = memory()
        m.start_task("任务")
        for i in range(12):
            m.add(f"决定 {i}", type="decision")
        assert contents(m.resume().decisions) == [f"决定 {i}" for i in range(2, 12)]

    def test_what_was_written_elsewhere_is_not_on_the_path(self, memory: OpenMemory) -> None:
        m = memory()
        task = m.start_task("任务")
        away = m.add("别处 elsewhere", parent="root")
        point = m.resume()
        assert contents(point.path) == ["default", "任务"]
        assert point.active_node == away
        m.finish_task()
        assert contents(m.resume().path) == ["default", task.content]

    def test_the_path_follows_a_move(self, memory: OpenMemory) -> None:
        m = memory()
        folder = m.add("夹 folder")
        task = m.start_task("任务")
        m.move(task.id, folder)
        assert contents(m.resume().path) == ["default", "夹 folder", "任务"]

    def test_another_agent_changes_nothing_but_the_log(self, memory: OpenMemory) -> None:
        a, b = memory(agent="a"), memory(agent="b")
        task = a.start_task("甲的任务", next_step="一")
        b.start_task("乙的任务", next_step="二")
        b.add("乙写的")
        point = a.resume()
        assert (point.active_task, point.active_node, point.next_step) == (task, task, "一")
        assert point.last_operation is not None
        assert point.last_operation.agent == "a"


class TestInterrupted:
    def run(self, store: Path, end: str, work: str = "m.start_task('任务', next_step='下一步')") -> None:
        code = (
            "import os, signal\nfrom hybridmem import Memory\n"
            f"m = Memory.open({str(store)!r}, config={{'index': {{'background': False}}}})\n"
            f"{work}\n{end}"
        )
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=60)

    def test_a_killed_run_is_told_until_the_next_one_closes(self, memory: OpenMemory, tmp_path: Path) -> None:
        self.run(tmp_path / "store", "os.kill(os.getpid(), signal.SIGKILL)")
        for _ in range(2):
            with memory() as m:
                point = m.resume()
                assert point.interrupted
                assert point.next_step == "下一步"
        with memory() as m:
            m.add("继续 going on")
            assert m.resume().interrupted, "it is this run that follows the killed one"
        assert not memory().resume().interrupted

    def test_a_killed_run_whose_first_write_failed_is_told_too(self, memory: OpenMemory, tmp_path: Path) -> None:
        failing = "try: m.add('写不进去 not written', parent='nobody')\nexcept Exception: m.add('写进去了 written')"
        self.run(tmp_path / "store", "os.kill(os.getpid(), signal.SIGKILL)", failing)
        assert memory().resume().interrupted

    def test_a_closed_run_is_not(self, memory: OpenMemory, tmp_path: Path) -> None:
        self.run(tmp_path / "store", "m.close()")
        assert not memory().resume().interrupted
        assert memory().resume().next_step == "下一步"

    def test_a_run_that_still_lives_and_another_agent_are_not(self, memory: OpenMemory, tmp_path: Path) -> None:
        alive = memory()
        alive.add("还在运行 still running")
        assert not memory().resume().interrupted
        self.run(tmp_path / "other", "os.kill(os.getpid(), signal.SIGKILL)")
        assert not memory("other", agent="somebody").resume().interrupted


class TestCheckpoints:
    def test_one_says_what_it_marks(self, memory: OpenMemory, clock: Any) -> None:
        m = memory(agent="bot")
        task = m.start_task("任务")
        first = m.add("决定一", type="decision")
        second = m.add("决定二", type="decision")
        point = m.checkpoint("之前 before")
        assert m.checkpoints()[0] == point
        assert (point.label, point.reason, point.agent, point.at) == ("之前 before", "named", "bot", clock.time)
        assert (point.active_task_id, point.active_node_id) == (task.id, second.id)
        assert point.decision_path == (first.id, second.id)
        assert point.nodes == 3
        assert point.sequence == m.operations()[-1].sequence
        assert point.digest == m.operations()[-1].hash
        assert m.checkpoint().reason == "asked"
        assert [one.id for one in m.checkpoints()] == [3, 2, 1]

    def test_any_change_gives_another_digest(self, memory: OpenMemory) -> None:
        m = memory()
        node = m.add("甲")
        digests = [m.checkpoint().digest]
        assert m.checkpoint().digest == digests[0]
        for change in (lambda: m.pin(node.id), lambda: m.update(node.id, content="乙"), lambda: m.add("丙")):
            change()
            digests.append(m.checkpoint().digest)
        assert len(set(digests)) == 4

    @pytest.mark.parametrize("label", ["", " ", " a", "a\nb", "a\0", 5])
    def test_a_label_is_a_name(self, memory: OpenMemory, refused: Refused, label: Any) -> None:
        with refused(m := memory(), InvalidInput, "label"):
            m.checkpoint(label)

    def test_they_come_by_themselves_after_n_operations(self, memory: OpenMemory) -> None:
        m = memory(checkpoint={"every_operations": 5, "every_seconds": 0.0})
        for i in range(14):
            m.add(f"第 {i} 条")
        assert [point.sequence for point in m.checkpoints()] == [15, 10, 5]
        assert {point.reason for point in m.checkpoints()} == {"operations"}
        m.add_many({"content": f"批 {i}"} for i in range(20))
        assert m.checkpoints()[0].sequence == 35

    def test_they_come_by_themselves_after_m_seconds(self, memory: OpenMemory, clock: Any) -> None:
        m = memory(checkpoint={"every_operations": 0, "every_seconds": 60.0})
        m.checkpoint()
        m.add("一")
        clock.advance(seconds=61)
        m.add("二")
        assert [point.reason for point in m.checkpoints()] == ["time", "asked"]

    def test_never_means_never(self, memory: OpenMemory, clock: Any) -> None:
        m = memory(checkpoint={"every_operations": 0, "every_seconds": 0.0})
        for i in range(120):
            m.add(f"{i}")
        clock.advance(days=1)
        m.add("x")
        assert m.checkpoints() == []


class TestOperations:
    def test_every_write_is_logged_in_order_with_who_and_when(self, memory: OpenMemory, clock: Any) -> None:
        m = memory(agent="bot")
        node = m.add("内容 content", type="fact")
        m.add("内容 content", type="fact")
        m.update(node.id, metadata={"a": 1})
        m.pin(node.id)
        task = m.start_task("任务")
        m.move(node.id, task)
        m.update_task(next_step="一")
        m.finish_task()
        found = m.operations()
        assert [op.kind for op in found] == [
            "namespace", "add", "confirm", "update", "pin", "add", "task.start", "move", "task.update", "task.finish",
        ]  # fmt: skip
        assert [op.sequence for op in found] == list(range(1, 11))
        assert {(op.agent, op.at) for op in found} == {("bot", clock.time)}
        assert found[7].payload["parent"] == task.id
        assert m.operations(since=8) == found[8:]
        assert m.operations(since=99) == []
        for wrong in (-1, 1.5, True):
            with pytest.raises(InvalidInput, match="since"):
                m.operations(wrong)  # type: ignore[arg-type]

    def test_no_content_is_copied_into_the_log(self, memory: OpenMemory) -> None:
        m = memory()
        node = m.add("机密内容 secret", metadata={"k": "机密元数据"})
        m.update(node.id, content="新的机密")
        assert "机密" not in repr([op.to_dict() for op in m.operations()])

    def test_a_namespace_has_a_log_of_its_own(self, memory: OpenMemory) -> None:
        a, b = memory(), memory(namespace=("other",))
        a.add("甲")
        b.add("乙")
        a.add("丙")
        assert [op.sequence for op in a.operations()] == [1, 2, 3]
        assert [op.sequence for op in b.operations()] == [1, 2]


def test_an_interruption_is_told_until_a_run_that_knew_of_it_has_written_and_closed(
    memory: Any, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    code = (
        "import os, signal; from hybridmem import Memory\n"
        "config = {'embedding': {'provider': 'hashing'}, 'index': {'background': False}}\n"
        f"m = Memory.open({str(store)!r}, config=config)\n"
        "m.start_task('企业报销任务 claim', next_step='通知用户'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code], check=False, env={**os.environ, "PYTHONPATH": str(ROOT)})

    def run(*, resume: bool, write: bool) -> bool | None:
        with memory() as m:
            told = m.resume().interrupted if resume else None
            if write:
                m.add("继续 going on")
            return told

    run(resume=False, write=True)  # somebody's single command
    assert run(resume=True, write=False) is True  # somebody who only looks
    assert run(resume=True, write=True) is True
    assert run(resume=True, write=True) is False


def test_a_chat_that_is_imported_again_or_has_grown_adds_only_what_is_new(memory: Any, tmp_path: Path) -> None:
    m = memory()
    m.start_task("对话 chat")
    file = tmp_path / "chat.json"
    messages = [
        {"role": "user", "content": "你好 hello"},
        {"role": "assistant", "content": "好"},
        {"role": "user", "content": "好"},
    ]
    file.write_text(json.dumps(messages))
    assert m.import_(file).added == 3
    assert m.import_(file).added == 0
    file.write_text(json.dumps([*messages, {"role": "assistant", "content": "好"}]))
    assert m.import_(file).added == 1
    m.start_task("另一个 another")
    assert m.import_(file).added == 4, "under another task it is another chat"

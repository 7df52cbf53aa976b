"""The task tree and the active pointer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hybridmem import InvalidInput, Memory, Node, NotFound

OpenMemory = Callable[..., Memory]
Refused = Callable[..., Any]


def active_id(memory: Memory) -> str | None:
    task = memory.active_task()
    return task.id if task else None


class TestStart:
    def test_a_task_hangs_under_the_root_and_becomes_active(self, memory: OpenMemory, clock: Any) -> None:
        m = memory()
        assert m.active_task() is None
        task = m.start_task("企业报销任务 expense claim", next_step="提交报销单", metadata={"单号": 7})
        assert m.active_task() == task == m.get(task.id)
        assert (task.type, task.parent_id, task.importance, task.metadata) == ("task", m.root().id, 0.8, {"单号": 7})
        assert task.task is not None
        assert (task.task.status, task.task.next_step) == ("open", "提交报销单")
        assert (task.task.started_at, task.task.finished_at) == (clock.time, None)
        assert m.start_task("第二个 second", importance=0.1).parent_id == m.root().id

    def test_where_a_task_can_hang(self, memory: OpenMemory) -> None:
        m = memory()
        assert m.start_task("没有活动任务 none active", parent="active").parent_id == m.root().id
        top = m.start_task("上 top")
        sub = m.start_task("子 sub", parent="active")
        assert sub.parent_id == top.id
        assert m.start_task("子二 sub two", parent=top).parent_id == top.id
        assert m.start_task("子三 sub three", parent=top.id).parent_id == top.id
        assert m.start_task("孙 grandchild", parent=sub.id).depth == 3

    def test_tasks_of_the_same_title_are_different_tasks(self, memory: OpenMemory) -> None:
        m = memory()
        assert m.start_task("报销").id != m.start_task("报销").id

    @pytest.mark.parametrize(
        ("title", "given", "said"),
        [
            (" ", {}, "title is blank"),
            (None, {}, "title: must be text|title must be"),
            ({"a": 1}, {}, "title"),
            ("a\0", {}, "title contains a NUL"),
            ("x", {"next_step": 5}, "next_step: must be text|next_step must be"),
            ("x", {"next_step": "a\0b"}, "next_step contains a NUL"),
            ("x", {"importance": 2}, "importance: .*2"),
            ("x", {"metadata": "m"}, "metadata: must be a mapping"),
            ("x", {"parent": 5}, "parent: must be"),
        ],
    )
    def test_what_is_wrong_is_named_and_starts_nothing(
        self, memory: OpenMemory, refused: Refused, title: Any, given: dict[str, Any], said: str
    ) -> None:
        m = memory()
        before = m.start_task("正在做 under way")
        with refused(m, InvalidInput, said):
            m.start_task(title, **given)
        assert active_id(m) == before.id

    def test_a_parent_that_is_not_here(self, memory: OpenMemory, refused: Refused) -> None:
        with refused(m := memory(), NotFound, "没有"):
            m.start_task("x", parent="没有")
        assert m.active_task() is None

    @pytest.mark.parametrize("blank", [None, "", "  \n"])
    def test_no_next_step_is_none(self, memory: OpenMemory, blank: str | None) -> None:
        task = memory().start_task("任务", next_step=blank).task
        assert task is not None
        assert task.next_step is None


class TestSwitch:
    def test_it_moves_the_pointer_and_opens_what_was_paused(self, memory: OpenMemory) -> None:
        m = memory()
        a, b = m.start_task("甲", next_step="一"), m.start_task("乙")
        m.update_task(a.id, status="paused")
        switched = m.switch_task(a.id)
        assert active_id(m) == a.id
        assert switched.task is not None
        assert (switched.task.status, switched.task.next_step) == ("open", "一")
        assert m.add("挂在甲下").parent_id == a.id
        assert m.switch_task(b.id).id == active_id(m)

    def test_what_cannot_be_switched_to(self, memory: OpenMemory, refused: Refused) -> None:
        m = memory()
        done = m.start_task("做完了")
        m.finish_task()
        note = m.add("笔记")
        task = m.start_task("现在")
        with refused(m, InvalidInput, "is done; set status='open'"):
            m.switch_task(done.id)
        with refused(m, InvalidInput, f"{note.id!r} is a note, not a task"):
            m.switch_task(note.id)
        with refused(m, InvalidInput, "is a root, not a task"):
            m.switch_task(m.root().id)
        with refused(m, NotFound, "没有"):
            m.switch_task("没有")
        assert active_id(m) == task.id


class TestUpdate:
    def test_each_part_alone(self, memory: OpenMemory, clock: Any) -> None:
        m = memory()
        task = m.start_task("报销 claim", next_step="提交", metadata={"单号": 7})
        clock.advance(minutes=5)
        assert m.update_task(next_step="上传发票 upload").task.next_step == "上传发票 upload"  # type: ignore[union-attr]
        renamed = m.update_task(title="企业报销 expense")
        assert (renamed.content, renamed.metadata, renamed.version) == ("企业报销 expense", {"单号": 7}, 3)
        paused = m.update_task(task.id, status="paused")
        assert paused.task is not None
        assert (paused.task.status, paused.task.next_step) == ("paused", "上传发票 upload")
        assert m.update_task(next_step=" ").task.next_step is None  # type: ignore[union-attr]
        assert m.search("企业报销")[0].id == task.id
        assert renamed.active_at == clock.time

    def test_a_finished_task_can_be_opened_again(self, memory: OpenMemory) -> None:
        m = memory()
        task = m.start_task("任务")
        m.finish_task()
        again = m.update_task(task.id, status="open")
        assert again.task is not None
        assert (again.task.status, again.task.finished_at) == ("open", None)
        assert m.active_task() is None
        assert active_id(m) != m.switch_task(task.id).parent_id

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({}, "update_task: nothing to change"),
            ({"status": "done"}, "status: must be one of open, paused, not 'done'"),
            ({"title": " "}, "title is blank"),
            ({"title": 5}, "title"),
            ({"next_step": 5}, "next_step"),
            ({"next_step": "半\ud800"}, "next_step contains half of a surrogate pair"),
        ],
    )
    def test_a_wrong_value_changes_nothing(
        self, memory: OpenMemory, refused: Refused, given: dict[str, Any], said: str
    ) -> None:
        m = memory()
        m.start_task("任务", next_step="一")
        with refused(m, InvalidInput, said):
            m.update_task(**given)

    def test_without_an_active_task_one_must_be_named(self, memory: OpenMemory, refused: Refused) -> None:
        m = memory()
        note = m.add("笔记")
        for call in (lambda: m.update_task(next_step="x"), m.finish_task):
            with refused(m, NotFound, "no active task; name one"):
                call()
        with refused(m, InvalidInput, "is a note, not a task"):
            m.update_task(note.id, next_step="x")


class TestFinish:
    def test_the_nearest_open_ancestor_task_becomes_active(self, memory: OpenMemory, clock: Any) -> None:
        m = memory()
        top = m.start_task("上")
        middle = m.start_task("中", parent="active")
        between = m.add("夹在中间的笔记 a note between")
        low = m.start_task("下", parent=between, next_step="最后一步")
        m.update_task(middle.id, status="paused")
        clock.advance(hours=1)
        done = m.finish_task()
        assert done.task is not None
        assert (done.id, done.task.status, done.task.next_step) == (low.id, "done", None)
        assert done.task.finished_at == clock.time
        assert active_id(m) == top.id
        assert m.finish_task(status="failed").task.status == "failed"  # type: ignore[union-attr]
        assert m.active_task() is None
        assert m.add("回到根 back at the root").parent_id == m.root().id

    def test_the_outcome_is_an_event_under_the_task(self, memory: OpenMemory) -> None:
        m = memory()
        task = m.start_task("报销")
        m.finish_task(outcome="财务已付款 paid")
        [event] = m.children(task.id)
        assert (event.type, event.content) == ("event", "财务已付款 paid")
        assert m.search("已付款")[0].id == event.id

    def test_finishing_another_task_leaves_the_active_one(self, memory: OpenMemory) -> None:
        m = memory()
        other = m.start_task("另一个")
        here = m.start_task("这一个")
        m.finish_task(other.id)
        assert active_id(m) == here.id

    def test_what_cannot_be_finished(self, memory: OpenMemory, refused: Refused) -> None:
        m = memory()
        task = m.start_task("任务")
        with refused(m, InvalidInput, "status: must be one of done, failed, not 'open'"):
            m.finish_task(status="open")
        with refused(m, InvalidInput, "outcome is blank"):
            m.finish_task(outcome="\u200b")
        m.finish_task(task.id)
        with refused(m, InvalidInput, "is already done"):
            m.finish_task(task.id)


class TestAgents:
    def test_each_agent_has_its_own_active_task(self, memory: OpenMemory) -> None:
        a, b = memory(agent="a"), memory(agent="b")
        first = a.start_task("甲的任务")
        assert b.active_task() is None
        second = b.start_task("乙的任务")
        assert (active_id(a), active_id(b)) == (first.id, second.id)
        b.switch_task(first.id)
        b.finish_task()
        assert b.active_task() is None

    def test_the_pointer_survives_a_reopening_and_a_move(self, memory: OpenMemory) -> None:
        with memory() as m:
            folder = m.add("文件夹 folder")
            task = m.start_task("任务")
            m.move(task.id, folder)
        m = memory()
        found = m.active_task()
        assert isinstance(found, Node)
        assert (found.id, found.parent_id) == (task.id, folder.id)


def test_every_change_of_task_is_a_checkpoint_in_the_same_transaction(memory: OpenMemory) -> None:
    m = memory()
    a = m.start_task("甲")
    b = m.start_task("乙")
    m.switch_task(a.id)
    m.update_task(next_step="一步")
    m.finish_task()
    points = m.checkpoints()[::-1]
    assert [point.reason for point in points] == ["task.start", "task.start", "task.switch", "task.finish"]
    assert [point.active_task_id for point in points] == [a.id, b.id, a.id, None]
    kinds = {op.sequence: op.kind for op in m.operations()}
    assert [kinds[point.sequence] for point in points] == [point.reason for point in points]

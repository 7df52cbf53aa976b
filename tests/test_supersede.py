"""What is superseded leaves every search at once, and stays in history; what hangs on it goes over to the new one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hybridmem import Change, Conflict, InvalidInput, Memory, NotFound
from hybridmem.store import log
from tests.verified import assert_verified

OpenMemory = Callable[..., Memory]
ROOT = Path(__file__).resolve().parents[1]


def ids(found: Any) -> set[str]:
    return {hit.id for hit in found}


class TestTheNewOne:
    def test_takes_what_is_not_given_from_the_old_one(self, memory: OpenMemory, clock: Any) -> None:
        """Parent, type, importance and metadata stay; the doubts about the old content are none about the new."""
        m = memory()
        m.start_task("报销 claim")
        metadata = {"来源": "chat", "n": None, "list": [1, {"a": True}], "gone": 1}
        old = m.add("电话是 A", type="fact", importance=0.83, confidence=0.1, metadata=metadata)
        clock.advance(days=2)
        new = m.supersede(old.id, "电话是 B", metadata={"gone": None, "新": 2.5})
        assert (new.parent_id, new.type, new.importance, new.confidence) == (old.parent_id, "fact", 0.83, 0.7)
        assert new.metadata == {"来源": "chat", "n": None, "list": [1, {"a": True}], "新": 2.5}
        assert (new.created, new.created_at, new.version, new.state) == (True, clock.time, 1, "live")
        assert (m.get(old.id).created_at, m.get(old.id).metadata) == (old.created_at, metadata)

    def test_takes_what_is_given(self, memory: OpenMemory) -> None:
        m = memory()
        old = m.add("lives in Paris", type="note")
        new = m.supersede(old.id, {"城市": "Rome"}, type="preference", importance=0.2, confidence=0.9)
        assert (new.value, new.type, new.importance, new.confidence) == ({"城市": "Rome"}, "preference", 0.2, 0.9)

    def test_an_exact_repeat_is_confirmed_and_not_made_twice(self, memory: OpenMemory) -> None:
        """The new statement may be there already, written plainly; then that one stands for the old one."""
        m = memory()
        old, there = m.add("喝咖啡 coffee", type="preference"), m.add("喝茶 tea", type="preference")
        m.pin(old.id)
        new = m.supersede(old.id, "喝茶 tea")
        assert (new.id, new.created, new.uses, new.pinned) == (there.id, False, 1, True)
        assert (new.confidence, m.get(old.id).replaced_by) == (pytest.approx(0.85), there.id)
        assert_verified(m, replay=True)

    def test_an_event_is_never_merged(self, memory: OpenMemory) -> None:
        m = memory()
        old, there = m.add("会议 A", type="event"), m.add("会议 B", type="event")
        assert m.supersede(old.id, "会议 B").id != there.id


class TestTheOldOne:
    def test_is_marked_and_linked_and_its_history_says_when(self, memory: OpenMemory, clock: Any) -> None:
        m = memory(agent="bot")
        old = m.add("价格 100", type="fact")
        clock.advance(days=1)
        new = m.supersede(old.id, "价格 120")
        kept = m.get(old.id)
        assert (kept.state, kept.replaced_by, kept.content, kept.version) == ("superseded", new.id, "价格 100", 2)
        last = m.history(old.id)[-1]
        assert (last.kind, last.agent, last.at, last.version) == ("supersede", "bot", clock.time, 2)
        assert last.changes == {"state": Change("live", "superseded"), "replaced_by": Change(None, new.id)}

    def test_is_no_more_active_for_having_been_superseded(self, memory: OpenMemory, clock: Any) -> None:
        """Whoever searches what is superseded must not find it as fresh as what holds."""
        m = memory()
        old = m.add("价格 100", type="fact")
        clock.advance(days=9)
        new = m.supersede(old.id, "价格 120")
        assert m.get(old.id).active_at == old.active_at
        assert m.get(new.id).active_at == m.root().active_at == clock.time

    def test_a_chain_is_followed_step_by_step(self, memory: OpenMemory) -> None:
        m = memory()
        a = m.add("一 one", type="fact")
        b = m.supersede(a.id, "二 two")
        c = m.supersede(b.id, "三 three")
        assert [m.get(x.id).replaced_by for x in (a, b, c)] == [b.id, c.id, None]
        assert ids(m.search("一 one 二 two 三 three")) == {c.id}
        assert ids(m.search("一 one 二 two 三 three", states=["superseded"])) == {a.id, b.id}
        with m._workspace.read() as tx:
            assert log.broken_at(tx, m._workspace.id) is None

    def test_can_be_forgotten_and_brought_back_as_superseded(self, memory: OpenMemory) -> None:
        m = memory()
        old = m.add("旧 old", type="fact")
        m.supersede(old.id, "新 new")
        m.forget(old.id)
        assert m.search("旧 old", states=["superseded"]).hits == ()
        m.restore_forgotten(old.id)
        assert m.get(old.id).state == "superseded"


class TestWhatHangsOnIt:
    def test_all_children_move_so_that_no_path_tells_what_holds_no_more(self, memory: OpenMemory) -> None:
        """Also what is archived or forgotten below; the old one is a leaf then, which may be forgotten alone."""
        m = memory()
        old = m.add("方案 A plan", type="decision")
        live, away, gone = (m.add(f"理由 reason {n}", parent=old) for n in range(3))
        deep = m.add("细节 detail", parent=live)
        m.archive(away.id)
        m.forget(gone.id)
        new = m.supersede(old.id, "方案 B plan")
        assert [m.get(x.id).parent_id for x in (live, away, gone)] == [new.id] * 3
        assert [m.get(x.id).state for x in (live, away, gone)] == ["live", "archived", "forgotten"]
        assert [node.id for node in m.ancestors(deep.id)][1:] == [new.id, live.id]
        [hit] = [hit for hit in m.search("细节 detail") if hit.id == deep.id]
        assert hit.path == ("方案 B plan", "理由 reason 0")
        assert "方案 A" not in m.context("细节 detail").text
        assert m.history(live.id)[-1].changes == {"parent_id": Change(old.id, new.id)}
        m.forget(old.id)
        assert_verified(m, replay=True)

    def test_a_pin_goes_over(self, memory: OpenMemory) -> None:
        m = memory()
        old = m.pin(m.add("必须 must", type="fact").id)
        new = m.supersede(old.id, "必须 must not")
        assert (m.get(new.id).pinned, m.get(old.id).pinned) == (True, False)

    def test_every_agent_that_stood_there_stands_at_the_new_one(self, memory: OpenMemory) -> None:
        one, other = memory(agent="one"), memory(agent="other")
        task = other.start_task("任务 task")
        old = other.add("地址 A", type="fact")
        new = one.supersede(old.id, "地址 B")
        assert (one.resume().active_node or new).id == new.id
        point = other.resume()
        assert (point.active_task and point.active_task.id, point.active_node and point.active_node.id) == (
            task.id, new.id,
        )  # fmt: skip
        assert other.add("下面 below", parent="node").parent_id == new.id
        assert_verified(one, replay=True)


class TestRefused:
    @pytest.mark.parametrize(
        ("what", "message"),
        [
            ("task", r"is a task, which cannot be superseded; give it another title with update_task"),
            ("root", "the root of a namespace cannot be superseded"),
            ("superseded", r"is superseded already, by '\w+'; supersede that one"),
            ("archived", "is archived; call unarchive"),
            ("forgotten", "is forgotten; call restore_forgotten"),
            ("same", r"is what .* says already; use update\(\) .* or feedback\(confirmed=True\)"),
        ],
    )
    def test_what_cannot_be_superseded(self, memory: OpenMemory, refused: Any, what: str, message: str) -> None:
        m = memory()
        id = m.root().id if what == "root" else m.add("旧 old", type="fact").id
        if what == "task":
            id = m.start_task("旧 old").id
        elif what in ("superseded", "archived", "forgotten"):
            {"superseded": lambda: m.supersede(id, "x"), "archived": lambda: m.archive(id)}.get(
                what, lambda: m.forget(id)
            )()
        with refused(m, InvalidInput, message):
            m.supersede(id, "旧 old" if what == "same" else "新 new")

    def test_a_wrong_value_changes_nothing(self, memory: OpenMemory, refused: Any) -> None:
        m = memory()
        old = m.add("旧 old", type="fact")
        with refused(m, InvalidInput, "content"):
            m.supersede(old.id, "  ")
        for wrong in ({"importance": 2}, {"confidence": -0.1}, {"type": "task"}, {"metadata": "x"}):
            with refused(m, InvalidInput, next(iter(wrong))):
                m.supersede(old.id, "新 new", **wrong)
        with refused(m, NotFound, "there is no node"):
            m.supersede("nope", "新 new")

    def test_somebody_was_quicker(self, memory: OpenMemory, refused: Any) -> None:
        m = memory()
        old = m.add("旧 old", type="fact")
        m.update(old.id, importance=0.9)
        with refused(m, Conflict, "version 2"):
            m.supersede(old.id, "新 new", expected_version=1)
        assert m.supersede(old.id, "新 new", expected_version=2).state == "live"


class TestUndone:
    def test_restore_brings_the_old_one_back_with_all_below_it(self, memory: OpenMemory) -> None:
        m = memory()
        old = m.pin(m.add("旧 old", type="fact").id)
        child = m.add("下 below", parent=old)
        before = m.operations()[-1].sequence
        new = m.supersede(old.id, "新 new")
        m.restore(sequence=before)
        back = m.get(old.id)
        assert (back.state, back.replaced_by, back.pinned) == ("live", None, True)
        assert (m.get(child.id).parent_id, m.get(new.id).state) == (old.id, "forgotten")
        assert ids(m.search("旧 old 新 new")) >= {old.id}
        assert new.id not in ids(m.search("旧 old 新 new"))
        assert_verified(m, replay=True)

    @pytest.mark.parametrize(
        "point", ["node.after_row", "log.after_row:2", "move.before_paths", "write.before_commit", "write.after_commit"]
    )
    def test_a_kill_in_its_middle_leaves_all_or_nothing(self, memory: OpenMemory, point: str) -> None:
        m = memory("killed")
        old = m.add("旧 old", type="fact")
        child = m.add("下 below", parent=old)
        m.close()
        code = (
            "import sys; from hybridmem import Memory\n"
            "with Memory.open(sys.argv[1], config={'embedding': {'provider': 'hashing'}, 'index': {'background': False}"
            "}) as m: m.supersede(sys.argv[2], '新 new')"
        )
        ended = subprocess.run(
            [sys.executable, "-c", code, str(m.path), old.id],
            env={**os.environ, "HYBRIDMEM_FAULT": point}, cwd=ROOT, timeout=60, check=False,
        )  # fmt: skip
        assert ended.returncode == -signal.SIGKILL
        m = memory("killed")
        done = point == "write.after_commit"
        kept = m.get(old.id)
        assert kept.state == ("superseded" if done else "live")
        assert m.get(child.id).parent_id == (kept.replaced_by if done else old.id)
        assert_verified(m, replay=True)
        assert done or m.supersede(old.id, "新 new").content == "新 new"

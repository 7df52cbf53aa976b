"""Changing what is there: update, move, pin; and the times and the order of nodes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from hybridmem import Conflict, InvalidInput, Memory, Node, NotFound

OpenMemory = Callable[..., Memory]
Refused = Callable[..., Any]


def texts(nodes: list[Node]) -> list[str]:
    return [node.content for node in nodes]


def hits(memory: Memory, query: str) -> list[str]:
    return [hit.content for hit in memory.search(query)]


METADATA = {
    "嵌套 nested": {"列表": [1, 2.5, "三", None, True]}, "list": [], "none": None, "bool": False, "zero": 0,
    "float": 1.0, "text": "中文 value", "empty": "",
}  # fmt: skip


class TestUpdate:
    def test_a_new_content_leaves_everything_else(self, memory: OpenMemory, clock: Any) -> None:
        m = memory()
        parent = m.add("父 parent")
        old = m.add("旧 old", type="fact", parent=parent, metadata=METADATA, importance=0.33, confidence=0.44)
        clock.advance(hours=1)
        new = m.update(old.id, content="新 new")
        assert (new.content, new.version, new.updated_at) == ("新 new", 2, clock.time)
        for name in ("id", "parent_id", "type", "importance", "confidence", "metadata", "created_at", "agent", "depth"):
            assert getattr(new, name) == getattr(old, name), name
        assert {k: type(v) for k, v in new.metadata.items()} == {k: type(v) for k, v in METADATA.items()}
        assert m.get(parent.id).active_at == clock.time

    def test_metadata_is_merged_and_none_removes(self, memory: OpenMemory) -> None:
        m = memory()
        id = m.add("内容", metadata=METADATA).id
        new = m.update(id, metadata={"text": "改了", "list": None, "新键": [1], "gone": None})
        expected = {**METADATA, "text": "改了", "新键": [1]}
        del expected["list"]
        assert new.metadata == expected
        assert m.update(id, metadata={"none": None}).metadata == {k: v for k, v in expected.items() if k != "none"}
        assert new.content == "内容"

    def test_each_field_alone(self, memory: OpenMemory) -> None:
        m = memory()
        id = m.add("内容", metadata={"a": 1}).id
        assert m.update(id, importance=0.0).importance == 0.0
        assert m.update(id, confidence=1).confidence == 1.0
        assert m.update(id, type="fact").type == "fact"
        assert m.update(id, content={"结构": 1}).value == {"结构": 1}
        node = m.update(id, content="又是文字")
        assert (node.structured, node.version, node.metadata) == (False, 6, {"a": 1})

    def test_the_new_content_is_found_at_once_and_the_old_no_more(self, memory: OpenMemory) -> None:
        """Every leg alone and both, before and after a reopening (C013)."""
        shares = {"vector": {"lexical": 0.0}, "lexical": {"vector": 0.0}, "both": {}}
        with memory() as m:
            id = m.add("苹果种植技术").id
            m.add("毫不相干 nothing in common")
            m.flush()
            assert hits(m, "苹果种植")[0] == "苹果种植技术"
            m.update(id, content="quantum computing")
        alone = {"tree": 0.0, "neighbour": 0.0}
        for leg, share in shares.items():
            for _ in range(2):
                with memory(retrieval={**alone, **share}) as m:
                    best = m.search("quantum computing")[0]
                    assert (best.id, best.content) == (id, "quantum computing")
                    assert best.score_details.relevance > 0.8
                    old = [hit for hit in m.search("苹果种植技术") if hit.id == id]
                    assert all(hit.score_details.relevance < 0.2 for hit in old), leg
        m = memory()
        m.flush()
        assert m.stats().vectors == m.stats().nodes == 2

    def test_the_same_content_keeps_its_vector(self, memory: OpenMemory) -> None:
        m = memory()
        id = m.add("发票 invoice").id
        m.flush()
        m.update(id, metadata={"a": 1})
        m.update(id, content="发票 invoice")
        assert (m.stats().pending, m.stats().vectors) == (0, 1)
        assert m.search("发票")[0].score_details.vector is not None

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({}, "update: nothing to change"),
            ({"content": " "}, "content is blank"),
            ({"content": "a\0b"}, "content contains a NUL"),
            ({"type": "task"}, "type: tasks are made"),
            ({"type": "Fact"}, "type: "),
            ({"importance": -1}, "importance: .*-1"),
            ({"confidence": "高"}, "confidence: .*高"),
            ({"metadata": {1: 2}}, "metadata: keys must be text"),
        ],
    )
    def test_a_wrong_value_changes_nothing(
        self, memory: OpenMemory, refused: Refused, given: dict[str, Any], said: str
    ) -> None:
        m = memory()
        id = m.add("内容 content").id
        with refused(m, InvalidInput, said):
            m.update(id, **given)

    def test_the_root_and_the_type_of_a_task_stay(self, memory: OpenMemory, refused: Refused) -> None:
        m = memory()
        task = m.start_task("任务")
        with refused(m, InvalidInput, "the root of a namespace cannot be updated"):
            m.update(m.root().id, content="x")
        with refused(m, InvalidInput, "a task stays a task"):
            m.update(task.id, type="note")

    def test_an_outdated_version_is_refused_with_both_versions(self, memory: OpenMemory, refused: Refused) -> None:
        m = memory()
        id = m.add("甲").id
        m.update(id, content="乙", expected_version=1)
        with refused(m, Conflict, "at version 2, not 1"):
            m.update(id, content="丙", expected_version=1)
        with pytest.raises(Conflict) as caught:
            m.update(id, importance=0.5, expected_version=7)
        assert (caught.value.expected, caught.value.actual) == (7, 2)

    @pytest.mark.parametrize("id", ["没有", "", "\ud800"])
    def test_an_id_that_is_not_here(self, memory: OpenMemory, refused: Refused, id: str) -> None:
        with refused(m := memory(), (NotFound, InvalidInput), "id"):  # type: ignore[arg-type]
            m.update(id, content="x")

    def test_a_node_of_another_namespace_is_not_here(self, memory: OpenMemory, refused: Refused) -> None:
        m, other = memory(), memory(namespace=("其他",))
        foreign = other.add("别人的")
        for call in (m.get, m.ancestors, m.children, lambda id: m.move(id, "root"), m.pin, m.switch_task):
            with refused(m, NotFound, foreign.id):
                call(foreign.id)


class TestMove:
    def test_a_branch_moves_with_all_below_it(self, memory: OpenMemory) -> None:
        m = memory()
        a, b = m.add("甲 A"), m.add("乙 B")
        child = m.add("子 child", parent=a)
        leaf = m.add("叶 leaf", parent=child)
        moved = m.move(child.id, b)
        assert (moved.parent_id, moved.depth, moved.version) == (b.id, 2, 2)
        assert [node.id for node in m.ancestors(leaf.id)] == [m.root().id, b.id, child.id]
        assert m.children(a.id) == []
        assert m.get(leaf.id) == leaf
        assert m.move(child.id, "root").depth == 1
        assert m.get(leaf.id).depth == 2
        assert texts(list(m.walk(child.id))) == ["子 child", "叶 leaf"]

    def test_siblings_stay_in_the_order_they_were_added(self, memory: OpenMemory) -> None:
        m = memory()
        a, b = m.add("A"), m.add("B")
        early, late = m.add("早", parent=a), m.add("晚", parent=b)
        m.move(early.id, b.id)
        assert texts(m.children(b.id)) == ["早", "晚"]
        assert late.id in {node.id for node in m.walk(b.id)}

    def test_a_loop_is_refused(self, memory: OpenMemory, refused: Refused) -> None:
        m = memory()
        a = m.add("甲")
        b = m.add("乙", parent=a)
        c = m.add("丙", parent=b)
        for target in (c, b, a):
            with refused(m, InvalidInput, "that would make a loop"):
                m.move(a.id, target)
        assert [node.id for node in m.ancestors(c.id)] == [m.root().id, a.id, b.id]

    def test_what_else_cannot_move(self, memory: OpenMemory, refused: Refused) -> None:
        m = memory()
        node = m.add("节点")
        with refused(m, InvalidInput, "the root of a namespace cannot be moved"):
            m.move(m.root().id, node)
        with refused(m, NotFound, "没有"):
            m.move(node.id, "没有")
        with refused(m, InvalidInput, "parent: must be"):
            m.move(node.id, 5)
        with refused(m, Conflict, "at version 1, not 3"):
            m.move(node.id, "root", expected_version=3)


class TestPin:
    def test_it_is_set_and_lifted(self, memory: OpenMemory, refused: Refused) -> None:
        m = memory()
        id = m.add("别忘了 do not forget").id
        assert m.pin(id).pinned
        assert m.get(id).pinned
        assert not m.pin(id, False).pinned
        with refused(m, InvalidInput, "pinned: must be True or False, not 1"):
            m.pin(id, 1)  # type: ignore[arg-type]
        with refused(m, NotFound, "没有"):
            m.pin("没有")


class TestTimes:
    @pytest.fixture(params=["Asia/Shanghai", "America/New_York", "UTC"])
    def _zone(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        monkeypatch.setenv("TZ", request.param)
        time.tzset()
        yield
        monkeypatch.undo()
        time.tzset()

    @pytest.mark.usefixtures("_zone")
    def test_the_zone_of_the_machine_changes_nothing(self, memory: OpenMemory) -> None:
        m = memory()
        noon = datetime(2026, 7, 1, 12, 0, tzinfo=timezone.utc)
        eight = timezone(timedelta(hours=8))
        for given in (
            datetime(2026, 7, 1, 12, 0), "2026-07-01T12:00:00", "2026-07-01T12:00:00Z", "2026-07-01T20:00:00+08:00",
            datetime(2026, 7, 1, 20, 0, tzinfo=eight), "2026-07-01T08:00:00-04:00",
        ):  # fmt: skip
            node = m.add("中午发生的 at noon", type="event", occurred_at=given)
            assert m.get(node.id).created_at == noon
            assert m.get(node.id).to_dict()["created_at"] == "2026-07-01T12:00:00+00:00"
        recency = {hit.score_details.recency for hit in m.search("中午")}
        assert len(recency) == 1

    @pytest.mark.usefixtures("_zone")
    def test_now_is_now_by_the_real_clock(self, memory: OpenMemory) -> None:
        from hybridmem.ports import SystemClock

        node = memory("real", clock=SystemClock()).add("现在 now")
        assert abs(node.created_at - datetime.now(timezone.utc)) < timedelta(minutes=1)
        assert os.environ["TZ"]

    @pytest.mark.parametrize("year", [1, 1969, 2036, 9999])
    def test_any_year_is_kept_and_scores_stay_finite(self, memory: OpenMemory, year: int) -> None:
        m = memory()
        now = m.add("同样的事 the same thing", type="event")
        then = m.add("同样的事 the same thing", type="event", occurred_at=datetime(year, 6, 1))
        assert m.get(then.id).created_at.year == year
        found = {hit.id: hit for hit in m.search("同样的事")}
        assert 0.0 <= found[then.id].score_details.recency <= 1.0
        # The product of matrices in float32 leaves noise in the eighth digit.
        assert found[then.id].score <= found[now.id].score + 1e-6

    def test_the_past_is_no_news_for_its_ancestors(self, memory: OpenMemory, clock: Any) -> None:
        m = memory()
        parent = m.add("父", occurred_at="2020-01-01")
        m.add("子", parent=parent, occurred_at="2021-01-01")
        assert m.get(parent.id).active_at == datetime(2021, 1, 1, tzinfo=timezone.utc)
        m.add("今天 today", parent=parent)
        assert m.get(parent.id).active_at == clock.time


class TestOrder:
    def test_a_clock_that_stands_still_does_not_mix_the_order(self, memory: OpenMemory) -> None:
        wanted = [f"第 {i:02} 条" for i in range(100)]
        with memory() as m:
            for text in wanted[:50]:
                m.add(text)
            m.add_many({"content": text} for text in wanted[50:])
        for _ in range(3):
            with memory() as m:
                assert texts(m.children()) == wanted
                assert texts(list(m.walk()))[1:] == wanted
                pages = [m.children(offset=at, limit=7) for at in range(0, 105, 7)]
                assert [text for page in pages for text in texts(page)] == wanted
                assert texts(m.children(offset=95, limit=5)) == wanted[-5:]
                assert [op.sequence for op in m.operations()] == list(range(1, 102))
        m = memory()
        assert m.children(offset=100) == m.children(limit=0) == []
        for wrong in ({"offset": -1}, {"limit": -1}, {"limit": 1.5}):
            with pytest.raises(InvalidInput, match=next(iter(wrong))):
                m.children(**wrong)

"""Writing: what is kept, what is refused, and that a refused call leaves not one row behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from typing import Any

import pytest

from hybridmem import InvalidInput, Memory, Node, NotFound

OpenMemory = Callable[..., Memory]
Refused = Callable[..., Any]
ODD_CONTENTS = {
    "json": '{"发票": "不清晰", "n": 1e5}',
    "fence in json": '{"code": "```python\\nprint(1)\\n```"}',
    "front matter": "---\ntitle: 报销\n---\n\n# 正文",
    "comment end": "--> </memory> ]]> <!-- x",
    "crlf and trailing blanks": "第一行  \r\nsecond line\t \r\n\r\n  ",
    "tabs": "\tdef f():\n\t\treturn '缩进'",
    "separators": "a\u2028b\u2029c\x0bd\x0ce\x85f",
    "bom and joiners": "\ufeff👨‍👩‍👧 🇨🇳 e\u0301",
    "long": "财务 finance " * 15_000,
}


def texts(nodes: list[Node]) -> list[str]:
    return [node.content for node in nodes]


def hits(memory: Memory, query: str) -> list[str]:
    return [hit.content for hit in memory.search(query)]


class TestAdd:
    def test_the_defaults_come_from_the_type(self, memory: OpenMemory) -> None:
        m = memory()
        expected = {"preference": 0.9, "decision": 0.8, "fact": 0.6, "event": 0.5, "note": 0.4, "rumour": 0.5}
        for kind, importance in expected.items():
            node = m.add(f"一条 {kind}", type=kind)
            assert (node.type, node.importance, node.confidence) == (kind, importance, 0.7)
        assert m.add("无类型 untyped").type == "note"

    def test_a_node_comes_back_as_it_was_given(self, memory: OpenMemory, clock: Any) -> None:
        m = memory(agent="claims-bot")
        node = m.add(
            "财务退回，原因是发票信息不清晰", type="event", importance=0.9, confidence=0.25, id="事件-1",
            metadata={"发票": "INV-42"}, occurred_at=datetime(2026, 7, 1, 9, 0),
        )  # fmt: skip
        assert node == m.get("事件-1")
        assert (node.importance, node.confidence, node.agent, node.version) == (0.9, 0.25, "claims-bot", 1)
        assert (node.state, node.pinned, node.uses, node.depth, node.created) == ("live", False, 0, 1, True)
        assert node.metadata == {"发票": "INV-42"}
        assert node.parent_id == m.root().id
        assert node.created_at == datetime(2026, 7, 1, 9, 0, tzinfo=timezone.utc)
        assert m.root().active_at == clock.time

    @pytest.mark.parametrize("text", ODD_CONTENTS.values(), ids=ODD_CONTENTS)
    def test_content_is_kept_byte_for_byte_over_reopening(self, memory: OpenMemory, text: str) -> None:
        with memory() as m:
            id = m.add(text).id
            assert m.update(id, metadata={"a": 1}).content == text
        node = memory().get(id)
        assert node.content == text
        assert node.value == text
        assert not node.structured

    @pytest.mark.parametrize("value", [{"金额": 3500, "items": [1.5, None]}, [1, "二"], 0, 2.5, False])
    def test_a_structured_value_comes_back_as_it_was(self, memory: OpenMemory, value: Any) -> None:
        m = memory()
        node = m.get(m.add(value).id)
        assert node.structured
        assert node.value == value
        assert type(node.value) is type(value)

    @pytest.mark.parametrize(
        ("content", "given", "said"),
        [
            ("", {}, "content is blank"),
            (" \u200b\n", {}, "content is blank"),
            (None, {}, "content: must not be None"),
            ("中\0文", {}, "content contains a NUL"),
            ("半\ud83d", {}, "content contains half of a surrogate pair"),
            ({"a": float("nan")}, {}, "content: JSON has no nan"),
            ("x", {"type": "Fact"}, "type: .*'Fact'"),
            ("x", {"type": ["fact"]}, "type: "),
            ("x", {"type": "task"}, r"type: tasks are made with start_task\(\)"),
            ("x", {"type": "root"}, "type: 'root' is made with its namespace"),
            ("x", {"importance": 1.5}, "importance: .*1.5"),
            ("x", {"confidence": float("nan")}, "confidence: .*nan"),
            ("x", {"metadata": ["a"]}, "metadata: must be a mapping"),
            ("x", {"metadata": {"a": "\0"}}, "metadata contains a NUL"),
            ("x", {"metadata": {"时间": datetime(2026, 1, 1)}}, "metadata: datetime is not a JSON value"),
            ("x", {"occurred_at": "昨天"}, "occurred_at: .*昨天"),
            ("x", {"id": " "}, "id is blank"),
            ("x", {"id": 5}, "id: must be text, not 5"),
            ("x", {"id": "已有"}, "id: there is already a node '已有'"),
            ("x", {"parent": 0}, "parent: must be a node, an id, or one of task, decision, node, root, not 0"),
            ("x", {"parent": None}, "parent: must be a node"),
        ],
    )
    def test_what_is_wrong_is_named_and_nothing_is_stored(
        self, memory: OpenMemory, refused: Refused, content: Any, given: dict[str, Any], said: str
    ) -> None:
        m = memory()
        m.add("已有的 existing", id="已有")
        with refused(m, InvalidInput, said):
            m.add(content, **given)

    @pytest.mark.parametrize("parent", ["没有", "\ud800"])
    def test_a_parent_that_is_not_there_stores_nothing(self, memory: OpenMemory, refused: Refused, parent: str) -> None:
        with refused(m := memory(), (NotFound, InvalidInput), "parent"):  # type: ignore[arg-type]
            m.add("x", parent=parent)

    def test_a_node_of_another_namespace_is_no_parent(self, memory: OpenMemory, refused: Refused) -> None:
        m, other = memory(), memory(namespace=("other",))
        foreign = other.add("别人的 theirs")
        for parent in (foreign, foreign.id):
            with refused(m, NotFound, foreign.id):
                m.add("x", parent=parent)

    @pytest.mark.parametrize("word", ["task", "decision", "node", "root"])
    def test_an_own_id_cannot_be_a_word_that_parent_understands(self, memory: OpenMemory, word: str) -> None:
        with pytest.raises(InvalidInput, match="id: "):
            memory().add("x", id=word)


class TestParentWords:
    def test_each_word_means_what_it_says(self, memory: OpenMemory) -> None:
        m = memory()
        root = m.root().id
        for word in ("task", "decision", "node", "root"):
            if word != "node":
                assert m.add(f"没有任务 no task {word}", parent=word).parent_id == root
        last = m.add("最后写的 written last")
        assert m.add("挂在它下面 below it", parent="node").parent_id == last.id
        task = m.start_task("企业报销任务")
        assert m.add("事件", type="event").parent_id == task.id
        assert m.add("没有决定 no decision yet", parent="decision").parent_id == task.id
        first = m.add("决定甲 decide A", type="decision")
        below = m.add("理由 reason", parent="decision")
        assert below.parent_id == first.id
        second = m.add("决定乙 decide B", type="decision", parent=below)
        assert m.add("理由二", parent="decision").parent_id == second.id
        assert m.add("在根下", parent="root").parent_id == root
        assert m.add("按节点", parent=first).parent_id == first.id
        assert m.add("按编号", parent=first.id).parent_id == first.id

    def test_a_decision_of_another_task_does_not_count(self, memory: OpenMemory) -> None:
        m = memory()
        m.start_task("甲 A")
        m.add("甲的决定 decision of A", type="decision")
        other = m.start_task("乙 B")
        assert m.add("理由", parent="decision").parent_id == other.id

    def test_the_active_node_is_each_agents_own(self, memory: OpenMemory) -> None:
        a, b = memory(agent="a"), memory(agent="b")
        mine = a.add("甲写的 by a")
        theirs = b.add("乙写的 by b")
        assert a.add("x", parent="node").parent_id == mine.id
        assert b.add("y", parent="node").parent_id == theirs.id


class TestExactRepeats:
    @pytest.mark.parametrize("kind", ["fact", "preference", "decision"])
    def test_they_confirm_what_is_there(self, memory: OpenMemory, clock: Any, kind: str) -> None:
        m = memory()
        first = m.add("用户偏好：短信通知 SMS", type=kind, confidence=0.6)
        clock.advance(days=2)
        again = m.add("用户偏好：短信通知 SMS", type=kind)
        assert (again.id, again.created, first.created) == (first.id, False, True)
        assert again.confidence == pytest.approx(0.8)
        assert (again.uses, again.version) == (1, 2)
        assert again.active_at == clock.time
        assert m.add("用户偏好：短信通知 SMS", type=kind).confidence == pytest.approx(0.9)
        assert m.stats().nodes == 1
        assert [op.kind for op in m.operations()] == ["namespace", "add", "confirm", "confirm"]

    @pytest.mark.parametrize("kind", ["event", "note", "summary", "observation"])
    def test_other_types_are_never_merged(self, memory: OpenMemory, kind: str) -> None:
        m = memory()
        nodes = [m.add("又失败了 failed again", type=kind) for _ in range(3)]
        assert len({node.id for node in nodes}) == 3
        assert all(node.created for node in nodes)

    def test_near_repeats_other_parents_types_and_values_are_nodes_of_their_own(self, memory: OpenMemory) -> None:
        m = memory()
        one = m.add("限额 3500 元", type="fact")
        others = [
            m.add("限额 3501 元", type="fact"),
            m.add("限额 3500 元 ", type="fact"),
            m.add("限额 3500 元", type="preference"),
            m.add("限额 3500 元", type="fact", parent=one),
            m.add("限额 3500 元", type="fact", id="own"),
        ]
        assert len({node.id for node in (one, *others)}) == 6
        assert all(node.created for node in others)

    def test_a_number_is_no_repeat_of_its_text(self, memory: OpenMemory) -> None:
        m = memory()
        m.add("3500", type="fact")
        number = m.add(3500, type="fact")
        assert number.created
        assert number.value == 3500

    def test_a_repeat_is_the_active_node(self, memory: OpenMemory) -> None:
        m = memory()
        fact = m.add("部门：研发部 R&D", type="fact")
        m.add("别的 other")
        m.add("部门：研发部 R&D", type="fact")
        assert m.add("下面 below", parent="node").parent_id == fact.id

    def test_what_was_updated_is_compared_by_what_it_says_now(self, memory: OpenMemory) -> None:
        m = memory()
        old = m.add("住在上海 Shanghai", type="fact")
        m.update(old.id, content="住在北京 Beijing")
        assert m.add("住在上海 Shanghai", type="fact").created
        assert m.add("住在北京 Beijing", type="fact").id == old.id


class TestAddMany:
    def test_items_may_hang_below_earlier_ones(self, memory: OpenMemory) -> None:
        m = memory()
        made = m.add_many(
            [
                {"content": "对话 conversation", "type": "summary"},
                {"content": "第一轮 turn one", "parent": 0, "type": "event"},
                {"content": "第二轮 turn two", "parent": 0, "type": "event", "metadata": {"轮": 2}},
                {"content": "回复 reply", "parent": 2, "importance": 0.1, "id": "回复"},
                {"content": "接着上一条", "parent": "node"},
            ]
        )
        assert [node.parent_id for node in made] == [m.root().id, made[0].id, made[0].id, made[2].id, "回复"]
        assert list(m.walk())[1:] == made
        assert made[3].importance == 0.1
        assert texts(m.children(made[0].id)) == ["第一轮 turn one", "第二轮 turn two"]

    def test_a_generator_and_an_empty_batch(self, memory: OpenMemory, rows: Any) -> None:
        m = memory()
        assert len(m.add_many({"content": f"第 {i} 条"} for i in range(3))) == 3
        before = rows(m)
        assert m.add_many([]) == []
        assert rows(m) == before

    def test_repeats_inside_a_batch_and_of_what_is_there_are_confirmed(self, memory: OpenMemory) -> None:
        m = memory()
        old = m.add("甲", type="fact")
        made = m.add_many({"content": text, "type": "fact"} for text in ("甲", "乙", "乙"))
        assert [node.created for node in made] == [False, True, False]
        assert made[0].id == old.id
        assert made[1].id == made[2].id
        assert m.stats().nodes == 2

    @pytest.mark.parametrize(
        ("bad", "said"),
        [
            ({"content": ""}, "content"),
            ({"content": "\u200b"}, "content"),
            ({"content": None}, "content"),
            ({}, "must be a mapping with at least 'content'"),
            ("只有文字", "must be a mapping"),
            ({"content": "x", "importence": 1}, "unknown key 'importence'"),
            ({"content": "x", 1: 2, "zz": 3}, "unknown key"),
            ({"content": "x", "importance": 7}, "importance"),
            ({"content": "x", "type": "task"}, "type"),
            ({"content": "x", "parent": 9}, "parent 9 must be the position of an earlier item"),
            ({"content": "x", "parent": 10}, "parent 10 must be"),
            ({"content": "x", "parent": -1}, "parent -1 must be"),
            ({"content": "x", "parent": True}, "parent"),
            ({"content": "x", "parent": None}, "parent"),
            ({"content": "x", "parent": "没有"}, "parent"),
            ({"content": "x", "id": "已有"}, "id"),
            ({"content": "x", "id": "同一个"}, "id"),
        ],
    )
    def test_one_bad_item_of_ten_stores_nothing_and_is_named(
        self, memory: OpenMemory, refused: Refused, bad: Any, said: str
    ) -> None:
        m = memory()
        m.add("已有的", id="已有")
        good: list[Any] = [{"content": f"好的 good {i}"} for i in range(9)]
        good[3]["id"] = "同一个"
        with refused(m, (InvalidInput, NotFound), said):  # type: ignore[arg-type]
            m.add_many([*good, bad])
        with pytest.raises((InvalidInput, NotFound), match="item 9"):
            m.add_many([*good, bad])
        assert len(m.add_many(good)) == 9

    @pytest.mark.parametrize("items", [None, 5])
    def test_what_is_no_batch_is_refused(self, memory: OpenMemory, refused: Refused, items: Any) -> None:
        with refused(m := memory(), InvalidInput, "items"):
            m.add_many(items)

    def test_a_generator_that_raises_stores_nothing(self, memory: OpenMemory, refused: Refused) -> None:
        def broken() -> Iterator[dict[str, Any]]:
            yield {"content": "第一条 first"}
            raise RuntimeError("源头断了 the source broke")

        with refused(m := memory(), RuntimeError, "source broke"):
            m.add_many(broken())

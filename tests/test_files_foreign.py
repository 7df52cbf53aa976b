"""Files of others: the plain tree of simple implementations, and chat messages."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from hybridmem import InvalidInput, Memory, NotFound

OpenMemory = Callable[..., Memory]
Refused = Callable[..., Any]


def imported(memory: Memory, folder: Path, text: str, **given: Any) -> Any:
    file = folder / "import.json"
    file.write_text(text, encoding="utf-8")
    return memory.import_(file, **given)


def tree(*nodes: dict[str, Any], **more: Any) -> str:
    return json.dumps({"root_id": "r", "nodes": {str(node["id"]): node for node in nodes}, **more}, ensure_ascii=False)


ROOT = {"id": "r", "parent_id": None, "content": "根 root", "node_type": "root"}


class TestForeignTrees:
    def test_a_plain_tree_is_read_with_everything_it_has(self, memory: OpenMemory, tmp_path: Path) -> None:
        m = memory()
        text = tree(
            ROOT,
            {"id": "t", "parent_id": "r", "content": "企业报销", "node_type": "task", "weight": 0.9},
            {"id": "e", "parent_id": "t", "content": "财务退回", "node_type": "event", "weight": 0.7,
             "timestamp": "2026-07-01T09:00:00+08:00", "extra": {"发票": 1}, "metadata": {"m": [1]}},
            {"id": "n", "parent_id": "t", "content": "没有类型 untyped", "timestamp": 1751328000, "weight": 8},
            active_node_id="e",
        )  # fmt: skip
        report = imported(m, tmp_path, text)
        assert (report.format, report.added, report.root_id) == ("tree", 3, "r")
        event, note = m.get("e"), m.get("n")
        assert (event.type, event.importance, event.parent_id) == ("event", 0.7, "t")
        assert event.created_at == datetime(2026, 7, 1, 1, tzinfo=timezone.utc)
        assert event.metadata == {"extra": {"发票": 1}, "m": [1]}
        assert (note.type, note.importance) == ("note", 1.0)
        assert note.created_at == datetime(2025, 7, 1, tzinfo=timezone.utc)
        point = m.resume()
        assert (point.active_task, point.active_node) == (m.get("t"), event)
        assert m.search("财务退回")[0].id == "e"

    def test_without_an_active_node_nothing_is_active(self, memory: OpenMemory, tmp_path: Path) -> None:
        m = memory()
        imported(m, tmp_path, tree(ROOT, {"id": "x", "parent_id": "r", "content": "一"}))
        assert (m.active_task(), m.resume().active_node) == (None, None)

    def test_nodes_may_be_a_list_in_any_order_with_numbers_as_ids(self, memory: OpenMemory, tmp_path: Path) -> None:
        m = memory()
        document = {
            "root_id": 1,
            "active_node_id": 3,
            "nodes": [
                {"id": 3, "parent_id": 2, "content": "叶 leaf"},
                {"id": 2, "parent_id": 1, "content": "任务", "node_type": "task"},
                {"id": 1, "parent_id": None, "content": "根", "node_type": "root"},
            ],
        }
        assert imported(m, tmp_path, json.dumps(document)).added == 2
        assert [node.id for node in m.walk()] == ["1", "2", "3"]
        assert m.resume().active_node == m.get("3")
        assert m.active_task() == m.get("2")

    def test_a_root_that_is_a_task_stays_one_and_is_found(self, memory: OpenMemory, tmp_path: Path) -> None:
        nodes = (
            {**ROOT, "content": "企业报销任务", "node_type": "task"},
            {"id": "x", "parent_id": "r", "content": "一"},
        )
        empty, filled_ = memory("empty"), memory("filled")
        filled_.add("已有 existing")
        for m in (empty, filled_):
            imported(m, tmp_path, tree(*nodes))
            assert m.search("企业报销任务")[0].content == "企业报销任务"
            assert m.get("r").type == "task"
            assert m.get("x").parent_id == "r"

    def test_a_second_root_is_refused_or_kept_but_never_lost(self, memory: OpenMemory, tmp_path: Path) -> None:
        m = memory()
        text = tree(ROOT, {"id": "x", "parent_id": "r", "content": "别丢 do not lose", "node_type": "root"})
        try:
            imported(m, tmp_path, text)
        except InvalidInput:
            assert m.stats().nodes == 0
        else:
            assert {"根 root", "别丢 do not lose"} <= {node.content for node in m.walk()}

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            (tree(ROOT, {"id": "x", "parent_id": "y", "content": "一"}), "the parent 'y' is not in the file"),
            (tree(ROOT, {"id": "x", "parent_id": "r", "content": "一", "weight": -1}), "'weight'"),
            (tree(ROOT, {"id": "x", "parent_id": "r", "content": "一", "timestamp": "昨天"}), "node 2"),
            (tree(ROOT, {"id": "x", "parent_id": "r"}), "content"),
        ],
    )
    def test_a_bad_node_stores_nothing_and_is_named(
        self, memory: OpenMemory, tmp_path: Path, rows: Any, text: str, said: str
    ) -> None:
        m = memory()
        before = rows(m)
        with pytest.raises(InvalidInput, match=said):
            imported(m, tmp_path, text)
        assert rows(m) == before


class TestChat:
    MESSAGES = (
        {"role": "system", "content": "你是报销助手 claims assistant", "timestamp": "2026-07-01T00:00:00Z"},
        {"role": "user", "content": "发票为什么被退回？", "name": "张三"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "function": {"name": "查询"}}]},
        {"role": "tool", "content": "图片不清晰 blurred", "tool_call_id": "c1"},
        {"role": "assistant", "content": [{"type": "text", "text": "因为"}, {"type": "text", "text": "不清晰"}]},
        {"role": "user", "content": " "},
    )

    @pytest.mark.parametrize("form", ["list", "object", "lines"])
    def test_messages_become_events_in_order_with_their_roles(
        self, memory: OpenMemory, tmp_path: Path, form: str
    ) -> None:
        text = {
            "list": json.dumps(self.MESSAGES),
            "object": json.dumps({"model": "m", "messages": self.MESSAGES}),
            "lines": "\n".join(json.dumps(one) for one in self.MESSAGES),
        }[form]
        m = memory()
        task = m.start_task("对话 chat")
        report = imported(m, tmp_path, text)
        assert (report.format, report.added) == ("chat", 5)
        nodes = m.children(task.id)
        assert [node.content for node in nodes][:2] == [self.MESSAGES[0]["content"], self.MESSAGES[1]["content"]]
        assert [node.metadata["role"] for node in nodes] == ["system", "user", "assistant", "tool", "assistant"]
        assert {node.type for node in nodes} == {"event"}
        assert nodes[0].created_at == datetime(2026, 7, 1, tzinfo=timezone.utc)
        assert nodes[1].metadata["name"] == "张三"
        assert nodes[2].metadata["tool_calls"] == self.MESSAGES[2]["tool_calls"]
        assert "查询" in nodes[2].content
        assert nodes[4].content == "因为\n不清晰"
        assert m.search("图片不清晰")[0].id == nodes[3].id

    def test_it_hangs_where_it_is_told(self, memory: OpenMemory, tmp_path: Path) -> None:
        m = memory()
        box = m.add("箱子")
        imported(m, tmp_path, json.dumps(self.MESSAGES), parent=box.id)
        assert len(m.children(box.id)) == 5
        with pytest.raises(NotFound, match="没有"):
            imported(m, tmp_path, json.dumps(self.MESSAGES), parent="没有")

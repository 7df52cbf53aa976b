"""observe(): raw output becomes memories, whole or not at all, and the reply says what became of every message."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from hybridmem import InvalidInput, Memory, NotFound
from hybridmem.intake import MAX_MESSAGES
from hybridmem.messages import from_text
from hybridmem.ports import Extract, Turn

OpenMemory = Callable[..., Memory]

OPENAI = [
    {"role": "system", "content": "You are a claims agent. 你是报销助手。"},
    {"role": "user", "content": "发票被退回了，怎么办？", "name": "张三"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "get_claim", "arguments": '{"claim": "EXP-2291"}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": '{"state": "returned", "reason": "信息不清晰"}'},
    {"role": "tool", "tool_call_id": "c1", "content": "[]"},
    {"role": "assistant", "content": "好的"},
    {"role": "assistant", "content": [{"type": "text", "text": "The invoice is blurred."}, {"type": "image_url"}]},
]
ANTHROPIC = [
    {"role": "user", "content": [{"type": "text", "text": "Where is order 4711?"}]},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "private"},
            {"type": "text", "text": "I look it up."},
            {"type": "tool_use", "id": "t1", "name": "find_order", "input": {"number": 4711, "city": "上海"}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "shipped 已发货"}]},
            {"type": "tool_result", "tool_use_id": "t2", "content": "no such order", "is_error": True},
        ],
    },
]


def contents(m: Memory) -> list[str]:
    task = m.active_task()
    return [node.content for node in m.children(task.id if task else None)]


class TestShapes:
    def test_messages_of_openai(self, memory: OpenMemory) -> None:
        m = memory()
        task = m.start_task("报销 expense claim")
        found = m.observe(OPENAI)
        assert [(node.type, node.content) for node in found.nodes] == [
            ("note", "You are a claims agent. 你是报销助手。"),
            ("event", "发票被退回了，怎么办？"),
            ("event", 'get_claim({"claim": "EXP-2291"})'),
            ("event", 'get_claim: {"state": "returned", "reason": "信息不清晰"}'),
            ("event", "The invoice is blurred."),
        ]
        assert all(node.parent_id == task.id for node in found.nodes)
        assert found.nodes[1].metadata == {"role": "user", "speaker": "张三"}
        assert found.nodes[3].metadata == {"role": "tool", "tool": "get_claim"}
        assert [(one.position, one.reason.split(":")[0]) for one in found.dropped] == [
            (4, "empty tool result"), (5, "chatter"), (6, "no text"),
        ]  # fmt: skip
        assert found.messages == len(OPENAI)
        assert m.search("为什么退回 EXP-2291")[0].node.parent_id == task.id

    def test_messages_of_anthropic(self, memory: OpenMemory) -> None:
        m = memory()
        found = m.observe(ANTHROPIC)
        assert [(node.metadata.get("role"), node.content) for node in found.nodes] == [
            ("user", "Where is order 4711?"),
            ("assistant", "I look it up."),
            ("assistant", 'find_order({"number": 4711, "city": "上海"})'),
            ("tool", "find_order: shipped 已发货"),
            ("tool", "no such order"),
        ]
        assert found.nodes[4].metadata["failed"] is True
        assert [one.reason for one in found.dropped] == ["thinking: not part of what was said"]

    def test_items_without_messages(self, memory: OpenMemory) -> None:
        found = memory().observe(
            [
                {"type": "reasoning", "summary": []},
                {"type": "function_call", "name": "查询", "arguments": '{"a": 1}', "call_id": "x"},
                {"type": "function_call_output", "call_id": "x", "output": "三条记录"},
                {"role": "assistant", "content": None, "function_call": {"name": "old", "arguments": "{}"}},
                {
                    "type": "message",
                    "role": "assistant",
                    "content": {"type": "output_text", "text": "Three."},
                },
            ]
        )
        assert [node.content for node in found.nodes] == [
            '查询({"a": 1})', "查询: 三条记录", "old({})", "Three.",
        ]  # fmt: skip

    def test_lines_of_a_log_with_times_and_levels(self, memory: OpenMemory) -> None:
        text = (
            "2026-07-01T09:00:00Z INFO started 服务启动\n\n"
            "\x1b[31m[2026-07-01 09:00:01,250] ERROR - 连接失败: db-3\x1b[0m\n"
            "WARNING: disk almost full\nplain line without anything\n10%\r20%\r30%\n"
        )
        m = memory()
        found = m.observe(text)
        assert [(node.content, node.metadata) for node in found.nodes] == [
            ("started 服务启动", {"level": "info"}), ("连接失败: db-3", {"level": "error"}),
            ("disk almost full", {"level": "warning"}), ("plain line without anything", {}), ("30%", {}),
        ]  # fmt: skip
        start = datetime(2026, 7, 1, 9, tzinfo=timezone.utc)
        assert [node.created_at for node in found.nodes[:2]] == [start, start + timedelta(seconds=1.25)]

    def test_json_lines_of_messages_and_of_a_log(self, memory: OpenMemory) -> None:
        lines = [
            {"role": "user", "content": "你好，发票丢了", "timestamp": "2026-07-01T17:00:00+08:00"},
            {"ts": 1782896400, "level": "ERROR", "msg": "upload failed 上传失败", "worker": 3},
            {"time": 1782896400000, "severity": "info", "message": "retrying upload of scan.pdf"},
        ]
        found = memory().observe("\n".join(json.dumps(line) for line in lines), format="jsonl")
        assert [node.content for node in found.nodes] == [
            "你好，发票丢了", "upload failed 上传失败", "retrying upload of scan.pdf",
        ]  # fmt: skip
        assert {node.created_at for node in found.nodes} == {datetime(2026, 7, 1, 9, tzinfo=timezone.utc)}
        assert found.nodes[1].metadata == {"level": "error", "worker": 3}

    def test_a_text_is_read_as_what_it_looks_like(self) -> None:
        chat = json.dumps({"messages": OPENAI}, ensure_ascii=False)
        assert len(from_text(chat, "auto")) == len(OPENAI)
        assert len(from_text(json.dumps(OPENAI), "chat")) == len(OPENAI)
        assert from_text('{"a": 1}\n{"a": 2}', "auto") == [(0, {"a": 1}), (1, {"a": 2})]
        assert from_text("{ not json\nother", "auto") == [(0, "{ not json"), (1, "other")]
        assert from_text("42\n43", "auto") == [(0, "42"), (1, "43")]
        assert from_text("", "lines") == []


class TestKnowing:
    def test_decisions_preferences_and_facts_stand_beside_their_turn(self, memory: OpenMemory) -> None:
        m = memory()
        found = m.observe(
            [
                {"role": "user", "content": "我更喜欢靠窗的座位。另外今天下雨了。"},
                {"role": "assistant", "content": "We decided to use PostgreSQL 16."},
                {"role": "user", "content": "Please remember that my user ID is mia_3668. What is next?"},
                {"role": "user", "content": "Would you prefer tea? I'd like to change my flight."},
                {"role": "assistant", "content": "I love this question, I prefer to answer it."},
            ]
        )
        kinds = [(node.type, node.content) for node in found.nodes if node.type not in ("event", "note")]
        assert kinds == [
            ("preference", "我更喜欢靠窗的座位。"),
            ("decision", "We decided to use PostgreSQL 16."),
            ("fact", "Please remember that my user ID is mia_3668."),
        ]
        beside = {node.content: node for node in found.nodes}["我更喜欢靠窗的座位。"]
        assert m.get(beside.metadata["source"]).content.startswith("我更喜欢靠窗的座位。另外")
        assert [kept.position for kept in found.kept] == [0, 0, 1, 2, 2, 3, 4]

    def test_an_extractor_of_ones_own_is_one_function(self, memory: OpenMemory) -> None:
        class Model:
            def extract(self, turns: Sequence[Turn]) -> list[Extract]:
                return [Extract(len(turns) - 1, "fact", "用户住在上海", importance=0.95)]

        found = memory(extractor=Model()).observe([{"role": "user", "content": "我从浦东寄的 from Pudong"}])
        assert [(node.type, node.content, node.importance) for node in found.nodes][1] == ("fact", "用户住在上海", 0.95)
        assert found.warnings == ()

    @pytest.mark.parametrize(
        ("answer", "warnings"),
        [
            (RuntimeError("模型超时 timeout"), 1),
            ([Extract(9, "fact", "x")], 1),
            ([Extract(0, "task", "x"), Extract(0, "Fact", "x"), Extract(0, "fact", " \n")], 3),
            (["发票"], 1),
            (None, 1),
            ([Extract(0, "fact", "x", importance=7.0), Extract(0, "fact", "好的发票")], 1),
        ],
    )
    def test_an_extractor_that_fails_loses_no_memory_and_is_named(
        self, memory: OpenMemory, answer: Any, warnings: int
    ) -> None:
        class Broken:
            def extract(self, turns: Sequence[Turn]) -> Any:
                if isinstance(answer, Exception):
                    raise answer
                return answer

        m = memory(extractor=Broken())
        found = m.observe([{"role": "user", "content": "发票丢了 the invoice is lost"}])
        assert found.nodes[0].content == "发票丢了 the invoice is lost"
        assert len(found.warnings) == warnings
        assert all("Broken" in warning for warning in found.warnings)

    def test_no_other_writer_waits_for_an_extractor(self, memory: OpenMemory) -> None:
        other = memory(agent="other")

        class Writing:
            def extract(self, turns: Sequence[Turn]) -> list[Extract]:
                other.add("meanwhile 同时", parent="root")
                return []

        m = memory(extractor=Writing(), store={"busy_timeout_seconds": 0.1})
        assert len(m.observe(["发票已提交"]).nodes) == 1

    def test_what_is_no_extractor_is_refused_at_open(self, memory: OpenMemory) -> None:
        with pytest.raises(InvalidInput, match="extractor: must have extract"):
            memory(extractor=len)


class TestAgain:
    def test_a_conversation_that_has_grown_adds_what_is_new(self, memory: OpenMemory) -> None:
        m = memory()
        m.start_task("报销")
        m.observe(OPENAI[:4])
        before = contents(m)
        found = m.observe([*OPENAI, {"role": "user", "content": "谢谢你，我今天下午就补交发票"}])
        assert [node.content for node in found.nodes] == ["The invoice is blurred.", "谢谢你，我今天下午就补交发票"]
        assert contents(m) == before + [node.content for node in found.nodes]

    def test_with_times_the_same_answer_twice_is_two_events(self, memory: OpenMemory) -> None:
        m = memory()
        chat = [{"role": "user", "content": "同意 yes", "timestamp": f"2026-07-01T0{hour}:00:00Z"} for hour in (1, 2)]
        assert len(m.observe(chat).nodes) == 2
        assert [one.reason for one in m.observe(chat).dropped] == ["repeat: already stored here"] * 2

    def test_under_another_task_nothing_is_a_repeat(self, memory: OpenMemory) -> None:
        m = memory()
        m.start_task("一")
        first = m.observe(ANTHROPIC)
        m.start_task("two")
        assert len(m.observe(ANTHROPIC).nodes) == len(first.nodes)


class TestWhole:
    def test_a_dry_run_stores_nothing_and_says_the_same(
        self, memory: OpenMemory, rows: Callable[[Memory], Any]
    ) -> None:
        m = memory()
        before = rows(m)
        dry = m.observe(OPENAI, dry_run=True)
        assert rows(m) == before
        done = m.observe(OPENAI)
        assert (dry.kept, dry.dropped, dry.nodes) == (done.kept, done.dropped, ())
        assert [(kept.type, kept.content) for kept in done.kept] == [(n.type, n.content) for n in done.nodes]
        assert json.loads(json.dumps(done.to_dict()))["nodes"][0]["content"] == done.nodes[0].content

    @pytest.mark.parametrize(
        ("bad", "said"),
        [
            (7, r"messages\[2\]: must be text or an object, not int"),
            ({"role": 5, "content": "x"}, r"messages\[2\]\.role: must be text, not 5"),
            ({"role": "user", "content": 5}, r"messages\[2\]\.content: must be text, a list of parts or null"),
            ({"role": "user", "content": [5]}, r"messages\[2\]\.content\[0\]: must be text or an object"),
            ({"role": "user", "content": [{"type": "text", "text": 5}]}, r"messages\[2\]\.content\[0\]\.text"),
            ({"role": "assistant", "tool_calls": "x"}, r"messages\[2\]\.tool_calls: must be a list"),
            ({"role": "assistant", "tool_calls": [{"function": {}}]}, r"messages\[2\]\.tool_calls\[0\]\.name"),
            ({"role": "user", "content": "x", "timestamp": "昨天"}, r"messages\[2\]\.timestamp: is not a time"),
            ({"role": "user", "content": "a\0b"}, r"messages\[2\]\.content contains a NUL"),
            ({"role": "user", "content": "半\ud800"}, r"messages\[2\]\.content contains half of a surrogate pair"),
            ({"role": "user", "content": "x", "cost": float("nan")}, r"messages\[2\]\.metadata: JSON has no nan"),
            ({"note": 1}, r"messages\[2\]: has neither 'role' nor a text"),
        ],
    )
    def test_one_bad_message_and_nothing_is_stored(
        self, memory: OpenMemory, refused: Callable[..., Any], bad: Any, said: str
    ) -> None:
        m = memory()
        m.start_task("报销")
        with refused(m, InvalidInput, said):
            m.observe(["发票一", {"role": "user", "content": "invoice two"}, bad, "four"])

    @pytest.mark.parametrize(
        ("messages", "format", "said"),
        [
            (None, "auto", "messages: must be a list of messages, or text, not NoneType"),
            (b"x", "auto", "messages: must be a list of messages, or text, not bytes"),
            ("x", "xml", "format: must be one of auto, chat, lines, jsonl"),
            ("{broken", "chat", "messages: is not JSON"),
            ("42", "chat", "messages: must be a list of messages"),
            ('{"role": "user", "content": "x"}\n{broken', "jsonl", "line 2: is not JSON"),
            (["x"], "lines", "format: 'lines' says how to read a text"),
        ],
    )
    def test_what_cannot_be_read_is_named(
        self, memory: OpenMemory, refused: Callable[..., Any], messages: Any, format: str, said: str
    ) -> None:
        m = memory()
        with refused(m, InvalidInput, said):
            m.observe(messages, format=format)

    def test_more_messages_than_one_transaction_should_hold_are_refused(self, memory: OpenMemory) -> None:
        m = memory()
        with pytest.raises(InvalidInput, match="more than 10,000; observe them in several calls"):
            m.observe(str(number) for number in range(MAX_MESSAGES + 5))
        assert m.children() == []

    def test_nothing_but_noise_stores_nothing(self, memory: OpenMemory) -> None:
        m = memory()
        found = m.observe(["ok", "", "thinking…", "\u200b", "好的"])
        assert (found.nodes, len(found.dropped), m.children()) == ((), 5, [])

    def test_a_missing_parent_is_named(self, memory: OpenMemory) -> None:
        with pytest.raises(NotFound, match="parent: there is no node 'nowhere'"):
            memory().observe(["发票"], parent="nowhere")

    def test_under_the_active_node_all_hang_side_by_side(self, memory: OpenMemory) -> None:
        m = memory()
        node = m.add("日志 log of the run")
        assert {one.parent_id for one in m.observe(["第一行 one", "第二行 two"], parent="node").nodes} == {node.id}


def test_everything_that_happened_survives_reopening(memory: OpenMemory, tmp_path: Path) -> None:
    m = memory()
    ids = [node.id for node in m.observe(OPENAI).nodes]
    m.close()
    assert [node.id for node in memory().children()] == ids
    assert memory().verify(replay=True).ok

"""Narrowing a search by type, time and metadata; who said it; what was located; and exact tokens that win."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from hybridmem import InvalidInput, Memory

OpenMemory = Callable[..., Memory]


def contents(found: Any) -> list[str]:
    return [hit.content for hit in found]


class TestFilters:
    @pytest.fixture
    def dated(self, memory: OpenMemory) -> Memory:
        m = memory()
        for day, content in ((1, "发票 invoice one"), (2, "发票 invoice two"), (3, "发票 invoice three")):
            at = datetime(2026, 5, day, 12, tzinfo=timezone.utc)
            tags = {"标签": ["财务", day], "done": day == 2, "note": None}
            m.add(content, type="event", occurred_at=at, metadata=tags)
        return m

    def test_times_are_from_inclusive_until_exclusive(self, dated: Memory) -> None:
        since, until = datetime(2026, 5, 1, 12), datetime(2026, 5, 3, 12)  # naive means UTC
        assert sorted(contents(dated.search("发票 invoice", since=since, until=until))) == [
            "发票 invoice one",
            "发票 invoice two",
        ]
        shanghai = since.replace(tzinfo=timezone(timedelta(hours=8)))
        assert len(dated.search("发票", since=shanghai)) == 3, "the same clock time in Shanghai is eight hours earlier"
        assert contents(dated.search("invoice", since="2026-05-03")) == ["发票 invoice three"]

    @pytest.mark.parametrize(
        ("metadata", "found"),
        [
            ({"done": True}, ["发票 invoice two"]),
            ({"标签": ["财务", 3]}, ["发票 invoice three"]),
            ({"done": True, "标签": ["财务", 3]}, []),
            ({"done": 1.5}, []),
            ({"absent": None}, []),
        ],
    )
    def test_metadata_must_have_every_value(self, dated: Memory, metadata: dict[str, Any], found: list[str]) -> None:
        assert contents(dated.search("发票 invoice", metadata=metadata)) == found

    def test_filters_come_before_the_cut_to_k(self, memory: OpenMemory) -> None:
        m = memory()
        m.add_many([{"content": f"发票 invoice {n}", "type": "event"} for n in range(500)])
        m.add_many(
            [{"content": f"some 发票 {n} in a longer sentence about other things", "type": "fact"} for n in range(5)]
        )
        assert len(m.search("发票 invoice", k=5, types=["fact"])) == 5

    @pytest.mark.parametrize(
        ("given", "named"), [({"since": "soon"}, "since"), ({"until": 5}, "until"), ({"metadata": ["a"]}, "metadata")]
    )
    def test_a_wrong_filter_is_named(self, dated: Memory, given: dict[str, Any], named: str) -> None:
        with pytest.raises(InvalidInput, match=named):
            dated.search("发票", **given)


class TestSpeakers:
    def test_a_question_that_names_somebody_prefers_what_they_said(self, memory: OpenMemory) -> None:
        m = memory()
        m.add("张三：我喜欢游泳 swimming", type="event")
        m.add("李四：我喜欢游泳 swimming", type="event")
        assert contents(m.search("李四喜欢什么运动 swimming"))[0].startswith("李四")
        assert m.search("张三喜欢游泳吗")[0].score_details.speaker == 1.0
        assert {hit.score_details.speaker for hit in m.search("谁喜欢游泳 swimming")} == {0.0}

    def test_naming_everybody_prefers_nobody(self, memory: OpenMemory) -> None:
        m = memory()
        m.add("user: pay the invoice", type="event")
        m.add("noted", type="event", metadata={"role": "assistant"})
        found = m.search("did the user or the assistant mention the invoice?")
        assert {hit.score_details.speaker for hit in found} == {0.0}
        named = m.search("what did the assistant note about the invoice?", k=2)
        assert {hit.content: hit.score_details.speaker for hit in named}.get("noted", 1.0) == 1.0

    def test_an_update_changes_who_said_it(self, memory: OpenMemory) -> None:
        m = memory()
        node = m.add("Alice: the budget is 5,000 元", type="event")
        m.add("Carol: something else", type="event")
        m.update(node.id, content="Bob: the budget is 5,000 元")
        assert m.search("what did Bob say about the budget?")[0].score_details.speaker == 1.0
        assert m.search("what did Alice say about the budget?")[0].score_details.speaker == 0.0


def test_a_trace_tells_which_subtrees_were_located(memory: OpenMemory) -> None:
    m = memory()
    claim = m.start_task("企业报销任务 expense claim")
    m.add("财务退回发票 invoice returned", type="event")
    m.start_task("数据库迁移 migration")
    m.add("停机窗口 downtime on Saturday", type="event")
    found = m.search("发票 invoice", trace=True, scope="namespace")
    assert [one.id for one in found.located][:1] == [claim.id]
    assert found.located[0].nodes == 2
    assert 0.0 < found.located[0].score <= 1.0
    assert "(in 企业报销任务 expense claim)" in found[0].explain()
    assert found.to_dict()["located"][0]["title"] == "企业报销任务 expense claim"
    assert m.search("发票 invoice").located == ()


@pytest.mark.parametrize(
    ("template", "query"),
    [
        ("request failed with ERR_CONN_{:04} in the gateway", "ERR_CONN_2357"),
        ("ticket JIRA-{:04} was closed 已关闭", "JIRA-2357"),
        ("see the log /var/log/app/{:04}.log for 错误", "/var/log/app/2357.log"),
        ("升级到版本 v2.{:04}.1 后重启", "v2.2357.1"),
        ("产品云豹{:04}号已发货", "云豹2357号"),
        ("the meeting on 2026-07-02 has number {:04} 会议", "2357"),
    ],
)
def test_an_exact_token_puts_its_memory_first_among_5000_alike(memory: OpenMemory, template: str, query: str) -> None:
    m = memory()
    m.add_many([{"content": template.format(number), "type": "event"} for number in range(5000)])
    assert m.search(query, k=3)[0].content == template.format(2357)


def test_a_code_in_a_wordy_question_finds_its_memory_and_not_one_that_differs_by_a_digit(memory: OpenMemory) -> None:
    m = memory()
    for number in (47526, 47529, 47592):
        m.add(f"蓝海科技的工单号是 TCK-{number}。", type="event")
        m.add(f"The build {number} passed after the fix", type="event")
    assert m.search("哪条记录里有 TCK-47529？")[0].content == "蓝海科技的工单号是 TCK-47529。"
    assert m.search("please tell me what happened to build 47592, did it pass?")[0].content.startswith(
        "The build 47592"
    )


class TestDates:
    def test_a_time_in_the_question_prefers_what_happened_then(self, memory: OpenMemory) -> None:
        m = memory()
        for day in (1, 2, 3):
            m.add(
                "开会讨论预算 budget meeting", type="event", occurred_at=datetime(2026, 5, day, 10, tzinfo=timezone.utc)
            )
        best = m.search("2026年5月2日的会 budget meeting")[0]
        assert best.node.created_at.day == 2
        assert best.score_details.date == 1.0
        assert m.search("the budget meeting on 3 May 2026")[0].node.created_at.day == 3

    def test_a_day_in_words_finds_the_day_in_figures(self, memory: OpenMemory) -> None:
        m = memory()
        for day in range(10, 30):
            m.add(f"Maintenance on 2026-06-{day}. 维护", type="event")
        assert m.search("What happens on 13 June 2026?")[0].content.startswith("Maintenance on 2026-06-13")
        assert m.search("2026年6月24日有什么安排？")[0].content.startswith("Maintenance on 2026-06-24")


@pytest.mark.parametrize("shape", ["text", "markdown", "messages", "json"])
def test_a_context_comes_in_every_shape_within_its_budget(memory: OpenMemory, shape: str) -> None:
    m = memory()
    m.start_task("企业报销任务 claim", next_step="等待 wait")
    m.add_many([{"content": f"财务退回发票 invoice {n}", "type": "event"} for n in range(50)])
    found = m.context("发票 invoice", token_budget=150, format=shape)
    assert found.tokens <= 150
    assert found.hits
    assert found.hits[0].content in found.text
    assert bool(found.messages) == (shape == "messages")
    assert found.to_dict()["format"] == shape
    with pytest.raises(InvalidInput, match="format"):
        m.context("发票", format="xml")

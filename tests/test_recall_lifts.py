"""What lifts a memory beside its own words: who said it, and that it is recent while a task is active."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.parametrize(
    ("question", "first", "second"),
    [
        ("Where do I keep my sneakers?", "user: sneakers under the bed", "assistant: sneakers under the bed"),
        ("我的球鞋放在哪里", "user: 球鞋在床下", "assistant: 球鞋在床下"),
        ("Which sneakers did you recommend?", "assistant: sneakers by Nike", "user: sneakers by Nike"),
        ("你推荐的 sneakers 是哪双", "assistant: sneakers 耐克", "user: sneakers 耐克"),
    ],
)
def test_i_asks_for_what_the_user_said_and_you_for_what_the_assistant_said(
    memory: Any, question: str, first: str, second: str
) -> None:
    m = memory()
    for content in (second, "user: 无关 unrelated", "assistant: 别的 other things", first):
        m.add(content, type="event")
    found = [hit for hit in m.search(question) if hit.content in (first, second)]
    assert [hit.content for hit in found] == [first, second]
    assert [hit.score_details.speaker for hit in found] == [1.0, 0.0]


def test_siblings_lift_only_whom_the_question_is_about(memory: Any) -> None:
    m = memory()
    m.add_many(
        {"content": content, "type": "event"}
        for content in ("user: 你好 hello", "assistant: sneakers, 球鞋", "user: 谢谢 thanks", "assistant: 再见 bye")
    )
    beside = {hit.content: hit.score_details.neighbour for hit in m.search("where are my sneakers, 我的球鞋", 10)}
    assert beside["user: 谢谢 thanks"] > 0
    assert beside.get("assistant: 再见 bye", 0.0) == 0.0


def test_recency_lifts_while_a_task_is_active_and_only_what_answers_at_all(memory: Any, clock: Any) -> None:
    m = memory(embedding={"provider": "hashing"})
    old = m.add("发票 invoice 4711 was returned", type="event", parent="root")
    m.add("完全无关 zebra", type="event", parent="root", id="unrelated")
    clock.advance(days=30)
    new = m.add("发票 invoice 4711 was returned", type="event", parent="root")
    idle = {hit.id: hit.score_details.recent for hit in m.search("发票 invoice 4711")}
    assert idle[old.id] == idle[new.id] == 0.0
    m.start_task("报销 claim")
    found = m.search("发票 invoice 4711")
    busy = {hit.id: hit.score_details for hit in found}
    assert busy[new.id].recent > busy[old.id].recent > 0
    assert busy[new.id].relevance > busy[old.id].relevance
    assert "recent" in next(hit for hit in found if hit.id == new.id).explain()
    assert all(hit.score_details.recent == 0.0 for hit in m.search("发票 invoice 4711", scope="namespace"))


@pytest.mark.parametrize(
    ("step", "question"),
    [
        ("给供应商打电话确认运单", "供应商的运单"),
        ("call the supplier about the waybill", "what about the supplier's waybill?"),
        ("打电话 call DHL 确认 waybill", "DHL 的 waybill"),
    ],
)
def test_what_comes_next_in_a_task_says_what_its_subtree_is_about(
    memory: Any, clock: Any, step: str, question: str
) -> None:
    """No memory has a word of the question: the task that is about to do it is where to look, until it is finished."""
    m = memory(retrieval={"vector": 0.0}, embedding={"provider": "hashing"})
    task = m.start_task("任务一 first", next_step=step)
    m.add("甲 alpha", type="note", id="inside")
    m.add("乙 beta", type="note", id="deeper", parent="inside")
    m.start_task("任务二 second", next_step="别的 something else")
    m.add("丙 gamma", type="note", id="outside")
    before = clock.time

    def lift(**options: Any) -> dict[str, float]:
        found = m.search(question, scope="namespace", **options)
        assert all(hit.score_details.lexical == 0 for hit in found)
        return dict.fromkeys(("inside", "deeper", "outside"), 0.0) | {hit.id: hit.score_details.tree for hit in found}

    planned = lift()
    assert planned["inside"] > 0.3 > planned["outside"]
    assert planned["deeper"] > 0.1
    assert m.search(question, scope="namespace", trace=True).located[0].id == task.id
    clock.advance(minutes=1)
    m.finish_task(task.id)
    assert lift()["inside"] < planned["inside"] / 2
    assert lift(as_of=before) == planned

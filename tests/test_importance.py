"""Importance without a language model: bounded, monotone in each rule, and never the reason to lose a memory."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybridmem import ConfigError, InvalidInput, Memory
from hybridmem.config import load
from hybridmem.importance import RuleEstimator, Signals, combined, explicit, novelty, signals

OpenMemory = Callable[..., Memory]

unit = st.floats(0.0, 1.0)
signal_sets = st.builds(Signals, st.floats(-1.0, 1.0), unit, unit, unit)


def estimate(content: str, default: float = 0.5, new: float = 0.5) -> float:
    return RuleEstimator().importance(content, type="note", default=default, novelty=new)


class TestFormula:
    @given(unit, signal_sets)
    def test_it_never_leaves_the_bounds(self, default: float, given: Signals) -> None:
        assert 0.0 <= combined(default, given) <= 1.0

    @given(unit, signal_sets, st.sampled_from(["explicit", "specific", "novelty"]), unit)
    def test_more_of_a_signal_never_lowers_it(self, default: float, given: Signals, name: str, up: float) -> None:
        raised = replace(given, **{name: min(getattr(given, name) + up, 1.0)})
        assert combined(default, raised) >= combined(default, given)

    @given(unit, signal_sets, unit)
    def test_a_shorter_content_is_never_raised(self, default: float, given: Signals, up: float) -> None:
        shorter = replace(given, shortness=min(given.shortness + up, 1.0))
        assert combined(default, shorter) <= combined(default, given)

    @given(unit, unit, signal_sets)
    def test_of_two_types_the_more_important_stays_so(self, one: float, other: float, given: Signals) -> None:
        low, high = sorted((one, other))
        assert combined(low, given) <= combined(high, given)

    @given(st.text(max_size=300), unit, unit)
    def test_any_text_has_an_importance(self, text: str, default: float, new: float) -> None:
        found = signals(text, new)
        assert -1.0 <= found.explicit <= 1.0
        assert 0.0 <= found.specific <= 1.0
        assert 0.0 <= found.shortness <= 1.0
        assert 0.0 <= estimate(text, default, new) <= 1.0

    def test_nothing_said_and_nothing_known_leaves_the_default(self) -> None:
        plain = "we went for a walk along the river and talked about several things in the garden today"
        assert estimate(plain, 0.4) == 0.4


class TestWords:
    @pytest.mark.parametrize(
        "text",
        [
            "这一点很重要", "必须先审批", "千万不要删除", "请记住我的口味", "He must sign", "never deploy on Friday",
            "Please remember this", "I prefer tea", "务必 double-check", "This is IMPORTANT", "don't forget the keys",
        ],
    )  # fmt: skip
    def test_explicit_words_raise(self, text: str) -> None:
        assert explicit(text) > 0.0

    @pytest.mark.parametrize(
        "text",
        [
            "这个不重要", "没必要记", "无所谓，随便", "算了", "It is not important", "isn't really important",
            "never mind", "no need to remember", "you don't have to", "这件事不太重要 just testing",
        ],
    )  # fmt: skip
    def test_denied_words_lower(self, text: str) -> None:
        assert explicit(text) < 0.0

    @pytest.mark.parametrize("text", ["今天去散步了", "We walked home", "", "会议 meeting 在 room B"])
    def test_other_texts_are_left_alone(self, text: str) -> None:
        assert explicit(text) == 0.0

    @pytest.mark.parametrize(
        ("less", "more"),
        [
            ("预算已经由部门批准，下周开始执行项目", "预算 3500 元已经由张三经理批准，单号 EXP-2291"),
            (
                "the build broke again after somebody merged it",
                "the build broke again after Alice merged PR 4711 in src/main.py",
            ),
            ("好的", "好的，那我们就按照这个方案继续往下推进吧"),
            ("ok", "okay then we go on with the plan that we talked about yesterday"),
            ("我们讨论了很多事情然后回家吃饭", "必须记住：我们讨论了很多事情然后回家吃饭"),
        ],
    )
    def test_what_says_more_matters_more(self, less: str, more: str) -> None:
        assert estimate(less) < estimate(more)

    def test_what_is_new_matters_more_than_what_is_known(self) -> None:
        text = "the supplier moved its warehouse to another town without telling anybody"
        assert estimate(text, new=0.0) < estimate(text) < estimate(text, new=1.0)

    def test_novelty_is_the_share_of_terms_that_are_new(self) -> None:
        assert novelty(["发票", "invoice"], {"发票"}) == 0.5
        assert novelty(["发票"], {"发票"}) == 0.0
        assert novelty(["发票"], {"tax"}) == 1.0
        assert novelty([], {"tax"}) == novelty(["tax"], ()) == 0.5


class Fixed:
    """Says always the same; remembers what it was asked."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[tuple[str, str, float, float]] = []

    def importance(self, content: str, *, type: str, default: float, novelty: float) -> Any:
        self.asked.append((content, type, default, novelty))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class TestInMemory:
    def test_by_default_the_type_alone_decides(self, memory: OpenMemory) -> None:
        m = memory()
        assert m.add("必须记住 ALWAYS remember 4711", type="fact").importance == 0.6

    def test_rules_are_used_when_configured_and_only_where_nothing_is_given(self, memory: OpenMemory) -> None:
        m = memory(weights={"importance_estimator": "rules"})
        m.start_task("报销 expense claim")
        strong = m.add("必须在 2026-07-31 之前提交，单号 EXP-2291，千万不要忘记", type="fact")
        weak = m.add("嗯", type="fact")
        assert weak.importance < 0.6 < strong.importance
        assert m.add("必须 must", type="fact", importance=0.1).importance == 0.1
        assert m.add_many([{"content": "never delete 生产数据库", "type": "fact"}])[0].importance > 0.6

    def test_what_the_task_has_already_is_less_new(self, memory: OpenMemory) -> None:
        judge = Fixed(0.5)
        m = memory(importance_estimator=judge)
        m.start_task("发票 invoice")
        first, again, other = (
            m.add("the supplier sends invoices late"),
            m.add("invoices the supplier sends late", type="event"),
            m.add("完全不同的事情"),
        )
        assert {first.importance, again.importance, other.importance} == {0.5}
        assert [round(new, 2) for _, _, _, new in judge.asked[1:]] == [0.0, 1.0]

    def test_a_batch_knows_its_own_earlier_items(self, memory: OpenMemory) -> None:
        judge = Fixed(0.5)
        memory(importance_estimator=judge).add_many(
            [{"content": "发票丢了"}, {"content": "发票丢了"}, {"content": "发票", "parent": 0}]
        )
        assert [new for _, _, _, new in judge.asked][1:] == [0.0, 0.0]

    def test_the_estimator_sees_content_type_and_default(self, memory: OpenMemory) -> None:
        judge = Fixed(0.25)
        m = memory(importance_estimator=judge, weights={"importance_estimator": "rules"})
        assert m.add("发票 invoice", type="decision").importance == 0.25
        assert judge.asked[0][:3] == ("发票 invoice", "decision", 0.8)

    @pytest.mark.parametrize(
        "answer", [RuntimeError("模型挂了 the model is down"), 1.5, -0.1, math.nan, math.inf, None, "0.5", True, [0.5]]
    )
    def test_an_estimator_that_fails_loses_no_memory_and_is_named(
        self, memory: OpenMemory, answer: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        m = memory(importance_estimator=Fixed(answer))
        with caplog.at_level(logging.WARNING, "hybridmem"):
            nodes = m.add_many([{"content": "发票", "type": "fact"}, {"content": "given", "importance": 0.9}])
        assert [node.importance for node in nodes] == [0.6, 0.9]
        assert [node.content for node in m.children()] == ["发票", "given"]
        assert len(caplog.records) == 1
        assert "Fixed" in caplog.text
        assert "item 0" in caplog.text

    def test_no_other_writer_waits_for_an_estimator(self, memory: OpenMemory) -> None:
        """It may be a call to a language model: another process must be able to write meanwhile."""
        other = memory(agent="other")

        class Writing:
            def importance(self, content: str, *, type: str, default: float, novelty: float) -> float:
                other.add("meanwhile 同时", parent="root")
                return 0.7

        m = memory(importance_estimator=Writing(), store={"busy_timeout_seconds": 0.1})
        assert m.add("发票").importance == 0.7
        assert {node.content for node in m.children()} == {"meanwhile 同时", "发票"}

    def test_what_is_no_estimator_is_refused_at_open(self, memory: OpenMemory) -> None:
        with pytest.raises(InvalidInput, match="importance_estimator: must have importance"):
            memory(importance_estimator=object())
        with pytest.raises(ConfigError, match=r"weights\.importance_estimator"):
            load({"weights": {"importance_estimator": "llm"}})

    def test_a_wrong_parent_is_still_named(self, memory: OpenMemory) -> None:
        with pytest.raises(LookupError, match="parent: there is no node 'nowhere'"):
            memory(importance_estimator=Fixed(0.5)).add("发票", parent="nowhere")

"""What of the hits is shown: by rank, within the budget, everything accounted for."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest
from contexts import (
    CLAIM,
    COUNTERS,
    DETAILS,
    FORMATS,
    FOUND,
    HITS,
    NODES,
    REAL,
    REJECTED,
    ROOT,
    SEAT,
    hit,
    markers,
    node,
    packed,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from hybridmem.errors import InvalidInput
from hybridmem.packing import IN_CHAIN, NOT_RELEVANT, OVER_BUDGET, REPEATED, SHORTENED
from hybridmem.ports import TokenCounter
from hybridmem.results import Hit
from hybridmem.types import Format, Order


class JoiningCosts:
    """A counter for which lines cost more together than each alone, as no honest sum of prices foresees."""

    name = "joining"

    def count(self, text: str) -> int:
        lines = text.count("\n") + 1 if text else 0
        return len(text.split()) + lines**4


@pytest.mark.parametrize("budget", [5, 30, 60, 100, 200, 300, 1000])
def test_the_budget_holds_even_if_lines_cost_more_together_than_alone(budget: int) -> None:
    hits = [hit(f"财务退回 invoice {number} was returned") for number in range(40)]
    result = packed(hits, budget, counter=JoiningCosts())
    assert result.tokens == JoiningCosts().count(result.text) <= budget
    assert len(result.shown) + len(result.dropped) == 40


class TestSelection:
    def test_a_memory_of_the_chain_is_not_shown_twice(self) -> None:
        result = packed([Hit(CLAIM, 0.9, DETAILS, ()), REJECTED])
        assert result.dropped == ((CLAIM.id, IN_CHAIN),)
        assert result.text.count(CLAIM.content) == 1

    def test_the_same_memory_twice_among_the_hits_is_shown_once(self) -> None:
        assert packed([REJECTED, REJECTED]).dropped == ((REJECTED.id, REPEATED),)

    def test_smaller_ones_are_tried_after_a_big_one_failed(self) -> None:
        big = hit("Very long report. " * 100, id="big")
        result = packed([REJECTED, big, SEAT], 100)
        assert result.shown == (REJECTED, SEAT)
        assert result.dropped == (("big", OVER_BUDGET),)

    def test_the_first_hit_is_shortened_rather_than_dropped(self) -> None:
        big = hit("财务退回报销单。" * 100, id="big")
        result = packed([big, SEAT], 100)
        assert result.shown[0] == big
        assert "财务退回报销单。…" in result.text

    def test_the_next_step_of_the_active_task_is_kept_longest(self) -> None:
        chain = [ROOT, *(node(f"outer task number {i}", status="open") for i in range(5)), CLAIM]
        budgets = range(REAL.count(packed([], ancestors=chain).text), 0, -1)
        seen = [packed(HITS, budget, ancestors=chain) for budget in budgets]
        with_step = ["提交报销单" in result.text for result in seen]
        assert with_step == sorted(with_step, reverse=True)
        assert all("outer" not in result.text for result, step in zip(seen, with_step, strict=True) if not step)
        smallest = seen[with_step.index(False) - 1]
        assert smallest.text.splitlines()[1:-1] == ["next: 提交报销单"]
        assert smallest.ancestors == (CLAIM,)

    def test_outer_ancestors_go_first_and_leave_room_for_hits(self) -> None:
        chain = [ROOT, *(node(f"outer task number {i}", status="open", next_step="wait") for i in range(50)), CLAIM]
        result = packed(HITS, 120, ancestors=chain)
        assert result.ancestors == tuple(chain[-len(result.ancestors) :])
        assert 1 < len(result.ancestors) < 20
        assert REJECTED in result.shown

    @pytest.mark.parametrize("budget", [0, -1])
    def test_a_budget_below_one_is_refused(self, budget: int) -> None:
        with pytest.raises(InvalidInput, match="token_budget must be at least 1"):
            packed(HITS, budget)

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"order": "random"}, "order must be"),
            ({"format": "xml"}, "format must be"),
            ({"floor": 1.5}, "floor must lie"),
            ({"floor": float("nan")}, "floor must lie"),
        ],
    )
    def test_a_value_that_does_not_exist_is_refused(self, wrong: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidInput, match=message):
            packed(HITS, **wrong)

    def test_a_budget_too_small_for_anything_shows_nothing_and_drops_all(self) -> None:
        result = packed(HITS, 1)
        assert (result.text, result.tokens, result.shown, result.ancestors) == ("", 0, (), ())
        assert result.dropped == tuple((hit.id, OVER_BUDGET) for hit in HITS)


def relevant(content: str, relevance: float) -> Hit:
    return replace(hit(content), score_details=replace(DETAILS, relevance=relevance))


class TestFloor:
    HITS = (relevant("second by relevance", 0.5), relevant("最好的", 0.8), relevant("barely", 0.39))

    def test_hits_far_below_the_best_are_not_shown(self) -> None:
        result = packed(list(self.HITS), floor=0.5)
        assert result.shown == self.HITS[:2]
        assert result.dropped == (("barely", NOT_RELEVANT),)

    def test_without_a_floor_and_without_relevance_all_are(self) -> None:
        assert packed(list(self.HITS)).dropped == ()
        assert packed([relevant("a", 0.0), relevant("b", 0.0)], floor=1.0).dropped == ()

    def test_the_best_is_always_shown(self) -> None:
        assert packed(list(self.HITS), floor=1.0).shown == self.HITS[1:2]


LONG_EN = "The finance team returned the report. " * 60
LONG_ZH = "财务退回了报销单。" * 60


class TestShares:
    @pytest.mark.parametrize("content", [LONG_EN, LONG_ZH, LONG_EN + LONG_ZH])
    def test_a_long_content_leaves_room_for_the_others(self, content: str) -> None:
        short = [hit(f"短的 memory number {i}") for i in range(30)]
        result = packed([hit(content, id="long"), *short], 500, ancestors=[])
        assert result.shortened == (("long", SHORTENED),)
        assert len(result.shown) > 25

    def test_the_cut_is_at_the_end_of_a_sentence_with_a_mark(self) -> None:
        result = packed([hit(LONG_EN, id="en"), hit(LONG_ZH, id="zh"), *[hit(f"note {i}") for i in range(99)]], 400)
        lines = [line for line in result.text.splitlines() if line.endswith("…")]
        assert [line[-8:] for line in lines] == ["report.…", "退回了报销单。…"]
        assert [id for id, _ in result.shortened] == ["en", "zh"]

    def test_if_room_is_left_long_ones_are_shown_longer(self) -> None:
        assert packed([hit(LONG_EN)], 600, ancestors=[]).shortened == ()
        result = packed([hit(LONG_EN, id="en"), hit(LONG_ZH, id="zh")], 600, ancestors=[])
        assert len(result.shown) == len(result.shortened) == 2
        assert result.tokens > 500

    @pytest.mark.parametrize("format", FORMATS)
    def test_contents_of_two_million_characters_are_packed_quickly(self, format: Format) -> None:
        hits = [hit((LONG_EN + LONG_ZH)[:2500] * 800, id=str(i)) for i in range(5)]
        started = time.perf_counter()
        result = packed(hits, 1000, format=format)
        assert time.perf_counter() - started < 5.0
        assert len(result.shown) == len(result.shortened) == 5

    def test_a_beginning_is_not_shown_only_to_fill_the_last_room(self) -> None:
        last = hit("word " * 90, id="last")
        small = hit("small enough")
        result = packed([REJECTED, last, small], 100)
        assert (result.shown, result.dropped, result.shortened) == ((REJECTED, small), (("last", OVER_BUDGET),), ())


@pytest.mark.parametrize("counter", COUNTERS, ids=lambda counter: counter.name)
class TestBudget:
    @given(
        nodes=NODES,
        found=FOUND,
        budget=st.integers(1, 2000) | st.integers(1, 80),
        order=st.sampled_from(["tree", "time", "score"]),
        format=st.sampled_from(FORMATS),
        dates=st.sampled_from([None, True, False]),
        floor=st.sampled_from([0.0, 0.6]),
    )
    @settings(max_examples=400)
    def test_it_holds_and_every_hit_is_accounted_for_once(
        self,
        counter: TokenCounter,
        nodes: Any,
        found: Any,
        budget: int,
        order: Order,
        format: Format,
        dates: bool | None,
        floor: float,
    ) -> None:
        chain = [ROOT] + [
            node(content, id=f"a{i}", status=None if status == "none" else status, next_step=step)
            for i, (content, step, status) in enumerate(nodes)
        ]
        hits = [
            replace(
                hit(content, path=tuple(path), minutes=1000 * m, id=f"h{n}"),
                score_details=replace(DETAILS, relevance=0.1 * n),
            )
            for content, path, m, n in found
        ]
        options: dict[str, Any] = {"order": order, "format": format, "dates": dates, "floor": floor}
        result = packed(hits, budget, ancestors=chain, counter=counter, **options)
        handed_over = (
            [message["content"] for message in json.loads(result.text)] if format == "messages" else [result.text]
        )
        assert result.tokens == sum(map(counter.count, handed_over)) <= budget
        accounted = [h.id for h in result.shown] + [id_ for id_, _ in result.dropped]
        assert sorted(accounted) == sorted(h.id for h in hits)
        assert len({h.id for h in result.shown}) == len(result.shown)
        assert {id_ for id_, _ in result.shortened} <= {h.id for h in result.shown}
        ranks = {id(h): rank for rank, h in enumerate(hits)}
        assert [ranks[id(h)] for h in result.shown] == sorted(ranks[id(h)] for h in result.shown)
        if format == "json":
            assert markers(result.text) == 0
        else:
            assert markers(result.text) == (2 if result.tokens else 0)

    def test_most_of_the_budget_is_used_if_there_is_enough_to_show(self, counter: TokenCounter) -> None:
        hits = [hit(f"第{i}次提交被退回, reason {i}", path=(f"任务{i % 3}",), minutes=i) for i in range(300)]
        result = packed(hits, 1000, counter=counter)
        assert 950 <= result.tokens <= 1000

    def test_ten_thousand_hits_and_a_chain_of_five_thousand_are_packed_quickly(self, counter: TokenCounter) -> None:
        hits = [hit(f"memory number {i} 备注", path=(f"任务{i % 50}",)) for i in range(10_000)]
        chain = [node(f"level {i}", status="open") for i in range(5000)]
        hits += [hit(f"{LONG_EN} {i} {LONG_ZH}", path=("长",)) for i in range(1000)]
        started = time.perf_counter()
        packed(hits, 2000, ancestors=chain, counter=counter)
        assert time.perf_counter() - started < 10.0

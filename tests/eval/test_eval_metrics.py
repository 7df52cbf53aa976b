"""The metrics: worked by hand, then held to what must be true of any ranking."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval import metrics, significance
from hybridmem.errors import InvalidInput

GOLD = ["a", "b", "c"]


def test_recall_hit_and_all_by_hand() -> None:
    ranked = ["x", "b", "y", "a", "z", "c"]
    assert metrics.recall(ranked, GOLD, 1) == 0.0
    assert metrics.recall(ranked, GOLD, 4) == pytest.approx(2 / 3)
    assert metrics.hit(ranked, GOLD, 1) == 0.0
    assert metrics.hit(ranked, GOLD, 2) == 1.0
    assert metrics.all_found(ranked, GOLD, 5) == 0.0
    assert metrics.all_found(ranked, GOLD, 6) == 1.0


def test_ndcg_by_hand() -> None:
    # b at place 2, a at place 4; the ideal has three at places 1, 2, 3.
    gained = 1 / math.log2(3) + 1 / math.log2(5)
    ideal = 1 + 1 / math.log2(3) + 1 / math.log2(4)
    assert metrics.ndcg(["x", "b", "y", "a"], GOLD, 4) == pytest.approx(gained / ideal)
    # Cut at one place, the ideal has only one.
    assert metrics.ndcg(["a", "x"], GOLD, 1) == 1.0


def test_an_empty_result_scores_zero_everywhere() -> None:
    assert {metric([], GOLD, 10) for metric in metrics.METRICS.values()} == {0.0}


def test_an_item_returned_twice_counts_once() -> None:
    for metric in metrics.METRICS.values():
        assert metric(["a", "a", "a"], GOLD, 3) == metric(["a", "x", "y"], GOLD, 3)


def test_gold_named_twice_counts_once() -> None:
    assert metrics.recall(["a"], ["a", "a", "b"], 1) == 0.5


def test_a_question_without_gold_is_refused_rather_than_scored() -> None:
    for metric in metrics.METRICS.values():
        with pytest.raises(InvalidInput, match="without gold"):
            metric(["a"], [], 1)


rankings = st.permutations([str(number) for number in range(12)])
golds = st.sets(st.sampled_from([str(number) for number in range(12)]), min_size=1, max_size=5)


@given(ranked=rankings, gold=golds, k=st.integers(1, 12))
def test_bounds_and_order_of_the_metrics(ranked: list[str], gold: set[str], k: int) -> None:
    values = {name: metric(ranked, gold, k) for name, metric in metrics.METRICS.items()}
    assert all(0.0 <= value <= 1.0 + 1e-12 for value in values.values())
    assert values["all"] <= values["recall"] <= values["hit"]
    assert (values["ndcg"] > 0.0) == (values["hit"] == 1.0)


@given(ranked=rankings, gold=golds, k=st.integers(1, 11))
def test_a_larger_k_never_lowers_recall(ranked: list[str], gold: set[str], k: int) -> None:
    for metric in (metrics.recall, metrics.hit, metrics.all_found):
        assert metric(ranked, gold, k) <= metric(ranked, gold, k + 1)


@given(ranked=rankings, gold=golds, k=st.integers(1, 12))
def test_gold_first_is_perfect_ndcg_and_nothing_beats_it(ranked: list[str], gold: set[str], k: int) -> None:
    ideal = sorted(gold) + [item for item in ranked if item not in gold]
    assert metrics.ndcg(ideal, gold, k) == pytest.approx(1.0)
    assert metrics.ndcg(ranked, gold, k) <= metrics.ndcg(ideal, gold, k) + 1e-12


def test_a_random_ranker_scores_near_chance() -> None:
    generator = random.Random(3)
    items = [str(number) for number in range(200)]
    values = [
        metrics.recall(generator.sample(items, k=20), generator.sample(items, k=generator.randint(1, 4)), 10)
        for _ in range(4000)
    ]
    assert sum(values) / len(values) == pytest.approx(metrics.chance_recall(10, 200), abs=0.01)


def test_a_k_that_returns_everything_is_refused() -> None:
    metrics.check_k(9, 10, "conv-1")
    for k in (10, 11):
        with pytest.raises(InvalidInput, match=rf"k={k} is not below the 10 candidates of conv-1"):
            metrics.check_k(k, 10, "conv-1")
    with pytest.raises(InvalidInput, match="at least 1"):
        metrics.check_k(0, 10, "conv-1")


class TestGroups:
    def test_a_group_stands_where_its_best_item_stands_and_once(self) -> None:
        group_of = {"t1": "s1", "t2": "s1", "t3": "s2", "t4": "会话三"}
        assert metrics.group_ranking(["t3", "t2", "t4", "t1"], group_of) == ["s2", "s1", "会话三"]
        assert metrics.group_ranking([], group_of) == []

    def test_several_found_items_of_one_group_are_one_find(self) -> None:
        ranked = metrics.group_ranking(["t1", "t2", "t3"], {"t1": "s1", "t2": "s1", "t3": "s2"})
        assert metrics.recall(ranked, ["s1", "s2", "s3"], 2) == pytest.approx(2 / 3)
        assert metrics.all_found(ranked, ["s1"], 1) == 1.0


class TestIntervals:
    VALUES = np.array([0.0] * 40 + [1.0] * 60)

    def _interval(self, values: np.ndarray, seed: int) -> tuple[float, float]:
        ((low, high),) = significance.intervals(values[:, None], seed=seed)
        return float(low), float(high)

    def test_same_seed_same_interval_around_the_mean(self) -> None:
        low, high = self._interval(self.VALUES, 1)
        assert (low, high) == self._interval(self.VALUES, 1)
        assert low < 0.6 < high
        # The normal approximation: 1.96 * sqrt(0.6 * 0.4 / 100) = 0.096.
        assert (high - low) / 2 == pytest.approx(0.096, abs=0.015)

    def test_equal_values_have_no_width(self) -> None:
        low, high = self._interval(np.full(3, 0.5), 0)
        assert low == pytest.approx(0.5)
        assert high == pytest.approx(0.5)

    def test_questions_without_a_value_are_not_zeros(self) -> None:
        holes = np.concatenate([self.VALUES, np.full(100, np.nan)])
        low, high = self._interval(holes, 3)
        assert low < 0.6 < high
        assert low > 0.45
        assert np.isnan(significance.intervals(np.full((5, 1), np.nan), seed=0)).all()

    def test_nothing_has_no_interval(self) -> None:
        with pytest.raises(InvalidInput):
            significance.intervals(np.empty((0, 1)), seed=0)


class TestPairedTest:
    def _p(self, differences: list[float], seed: int = 0) -> float:
        return float(significance.p_values(np.array(differences)[:, None], seed=seed)[0])

    def test_by_hand(self) -> None:
        # Five differences of 1: only all plus and all minus are as far out, 2 of 32.
        assert self._p([1.0] * 5) == pytest.approx(2 / 32, abs=0.01)
        # Questions that both systems answer alike have no say, nor have those that say nothing.
        assert self._p([1.0] * 5 + [0.0] * 50 + [float("nan")] * 9) == pytest.approx(2 / 32, abs=0.01)

    def test_alike_is_one_and_both_directions_weigh_the_same(self) -> None:
        assert self._p([0.0] * 20) == 1.0
        assert self._p([0.5, -0.5] * 10) == 1.0
        up = [1.0] * 15 + [-1.0] * 5
        assert self._p(up) == self._p([-value for value in up])

    def test_a_clear_difference_is_never_quite_certain(self) -> None:
        assert self._p([1.0] * 200) == pytest.approx(1 / 10_001)

    def test_same_seed_same_p(self) -> None:
        values = [1.0] * 12 + [-1.0] * 6
        assert self._p(values, 4) == self._p(values, 4)
        assert self._p(values, 4) != self._p(values, 5)

    def test_without_a_difference_p_is_below_a_twentieth_about_once_in_twenty(self) -> None:
        generator = np.random.default_rng(2)
        table = generator.choice([-1.0, 0.0, 1.0], size=(60, 400))
        share = float((significance.p_values(table, seed=1) < 0.05).mean())
        assert 0.01 < share < 0.09


def test_compression_is_what_was_saved_of_the_full_history() -> None:
    assert metrics.compression(250, 1000) == 0.75
    assert metrics.compression(1500, 1000) == -0.5
    with pytest.raises(InvalidInput):
        metrics.compression(1, 0)

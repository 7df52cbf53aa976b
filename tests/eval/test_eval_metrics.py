"""The metrics: worked by hand, then held to what must be true of any ranking."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval import metrics
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


def test_the_interval_is_the_same_for_the_same_seed_and_holds_the_mean() -> None:
    values = [0.0] * 40 + [1.0] * 60
    low, high = metrics.bootstrap_interval(values, seed=1)
    assert (low, high) == metrics.bootstrap_interval(values, seed=1)
    assert (low, high) != metrics.bootstrap_interval(values, seed=2, samples=50)
    assert low < 0.6 < high
    # The normal approximation: 1.96 * sqrt(0.6 * 0.4 / 100) = 0.096.
    assert (high - low) / 2 == pytest.approx(0.096, abs=0.015)


def test_an_interval_of_equal_values_has_no_width() -> None:
    assert metrics.bootstrap_interval([0.5, 0.5, 0.5], seed=0) == (0.5, 0.5)
    with pytest.raises(InvalidInput):
        metrics.bootstrap_interval([], seed=0)


def test_compression_is_what_was_saved_of_the_full_history() -> None:
    assert metrics.compression(250, 1000) == 0.75
    assert metrics.compression(1500, 1000) == -0.5
    with pytest.raises(InvalidInput):
        metrics.compression(1, 0)

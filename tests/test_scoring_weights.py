"""Weight, what moves it, and how it is blended with relevance: all in [0, 1], monotone, within what is promised."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scores import ANY_COEFFICIENTS, SLACK, coefficient, moderate, one, ordered, unit

from hybridmem import scoring

OMEGA = st.floats(0.0, 1.0, exclude_max=True)
BLEND = st.sampled_from(["linear", "bounded"])


def scored(pairs: Any, omega: float, blend: str) -> Any:
    """(n,) the scores of nodes that compete, each given as (relevance, weight)."""
    relevance, weight = np.array(pairs, dtype=np.float64).reshape(-1, 2).T
    share = scoring.weight_share(relevance, float(relevance.max()), omega)
    return scoring.blended(relevance, weight, share, omega, blend)


class TestWeight:
    @moderate
    @given(st.floats(-1e12, 1e12), st.floats(1.0, 1e10))
    def test_recency_is_the_exponential_decay(self, age: float, half_life: float) -> None:
        found = float(scoring.recency(one(age), one(half_life))[0])
        assert 0.0 <= found <= 1.0
        assert found == pytest.approx(math.exp(-math.log(2) * max(age, 0.0) / half_life), abs=1e-12)

    def test_named_points_of_recency(self) -> None:
        ages, half = np.array([-1e9, -0.001, 0.0, 10.0, 20.0, 1e18]), np.full(6, 10.0)
        assert scoring.recency(ages, half).tolist() == [1.0, 1.0, 1.0, 0.5, 0.25, 0.0]

    @moderate
    @given(st.lists(st.integers(0, 10**12), min_size=1))
    def test_frequency_saturates(self, uses: list[int]) -> None:
        found = scoring.frequency(np.array(sorted(uses)))
        assert (found >= 0).all()
        assert (found <= 1).all()
        assert (np.diff(found) >= 0).all()
        assert scoring.frequency(np.array([0, 3])).tolist() == [0.0, 0.5]

    @moderate
    @given(st.tuples(unit, unit, unit, unit), st.tuples(coefficient, coefficient, coefficient, coefficient))
    def test_weight_is_a_mean(self, parts: Any, coefficients: Any) -> None:
        if sum(coefficients) < 1e-6:
            return
        found = float(scoring.weight(*(one(part) for part in parts), coefficients)[0])
        naive = sum(c * p for c, p in zip(coefficients, parts, strict=True)) / sum(coefficients)
        assert found == pytest.approx(naive)
        assert min(parts) - SLACK <= found <= max(parts) + SLACK

    @moderate
    @given(st.lists(unit, min_size=4, max_size=4), st.integers(0, 3), unit, ANY_COEFFICIENTS)
    def test_no_part_lowers_it_by_rising(self, parts: list[float], which: int, other: float, coefficients: Any) -> None:
        """By any coefficients that the configuration takes, the smallest and the largest of all numbers too."""
        low, high = ordered(parts[which], other)
        below, above = parts.copy(), parts.copy()
        below[which], above[which] = low, high
        values = [float(scoring.weight(*(one(p) for p in ps), coefficients)[0]) for ps in (below, above)]
        assert -SLACK <= values[0] <= values[1] + SLACK
        assert values[1] <= 1.0 + SLACK

    def test_no_size_of_the_coefficients_changes_it(self) -> None:
        parts = (one(0.1), one(0.2), one(0.3), one(0.8))
        expected = float(scoring.weight(*parts, (0.5, 0.25, 0.125, 0.125))[0])
        for size in (2.0**1022, 2.0**-1000, 2.0**-1060):
            found = float(scoring.weight(*parts, (0.5 * size, 0.25 * size, 0.125 * size, 0.125 * size))[0])
            assert found == pytest.approx(expected), size
        assert float(scoring.weight(*parts, (1.7e308,) * 4)[0]) == pytest.approx(0.35)
        assert float(scoring.weight(*parts, (5e-324, 0.0, 0.0, 0.0))[0]) == pytest.approx(0.1)


class TestEbbinghaus:
    DAY = 86_400.0

    @moderate
    @given(st.floats(-1e12, 1e12), st.floats(0.0, 1e9), st.floats(1.0, 1e10), st.integers(0, 10**9), st.integers(0, 50))
    def test_retention_is_bounded_falls_with_age_and_rises_with_recalls(
        self, age: float, older: float, half_life: float, uses: int, more: int
    ) -> None:
        def kept(age: float, uses: int) -> float:
            stable = scoring.stability(one(half_life), np.array([uses]))
            assert 0.0 < stable[0] < math.inf
            return float(scoring.retention(one(age), stable)[0])

        assert 0.0 <= kept(age, uses) <= 1.0
        assert kept(age + older, uses) <= kept(age, uses)
        assert kept(age, uses + more) >= kept(age, uses)

    @moderate
    @given(st.floats(-1e9, 1e9), st.floats(3600.0, 1e9))
    def test_what_was_never_recalled_fades_as_by_the_half_life(self, age: float, half_life: float) -> None:
        found = scoring.retention(one(age), scoring.stability(one(half_life), np.array([0])))
        assert found[0] == pytest.approx(scoring.recency(one(age), one(half_life))[0], abs=1e-12)

    def test_named_points(self) -> None:
        """One half after one half-life, after two with one recall, after thirteen at the most."""
        uses = np.array([0, 1, 12, 10**6])
        ages = np.array([30.0, 60.0, 390.0, 390.0]) * self.DAY
        stable = scoring.stability(np.full(4, 30 * self.DAY), uses)
        assert scoring.retention(ages, stable) == pytest.approx(np.full(4, 0.5))
        assert scoring.retention(np.array([-1e9, 0.0, 1e300]), np.full(3, 10.0)).tolist() == [1.0, 1.0, 0.0]


class TestAnyHalfLife:
    """The configuration takes every half-life above 0, and a store any age: nothing overflows, warns or turns round."""

    @moderate
    @given(
        st.floats(0.0, exclude_min=True, allow_infinity=False),
        st.floats(-1e12, 1e12), st.floats(-1e12, 1e12), st.integers(0, 10**9), st.integers(0, 10**9),
    )  # fmt: skip
    def test_both_curves_are_bounded_fall_with_age_and_rise_with_recalls(
        self, days: float, age: float, other: float, uses: int, more: int
    ) -> None:
        half_life = one(days) * 86_400.0 if days < 1e300 else one(days)
        (young, old), (few, many) = ordered(age, other), sorted((uses, more))

        def kept(seconds: float, times: int) -> float:
            return float(scoring.retention(one(seconds), scoring.stability(half_life, np.array([times])))[0])

        by_half_life = [float(scoring.recency(one(seconds), half_life)[0]) for seconds in (old, young)]
        by_ebbinghaus = [kept(old, few), kept(young, few), kept(young, many)]
        for found in (by_half_life, by_ebbinghaus):
            assert found == sorted(found)
            assert 0.0 <= found[0] <= found[-1] <= 1.0


class TestFeedback:
    UP, DOWN = (scoring.confirmed, scoring.helped), (scoring.contradicted, scoring.misled)

    @moderate
    @given(unit, unit, st.integers(1, 200))
    def test_each_is_bounded_and_monotone_however_often_it_is_given(self, value: float, other: float, n: int) -> None:
        """What speaks for a memory never lowers, what speaks against it never raises; the order of two is kept."""
        for step, sign in [(up, 1) for up in self.UP] + [(down, -1) for down in self.DOWN]:
            low, high = ordered(value, other)
            for _ in range(n):
                now = step(low)
                assert 0.0 <= now <= 1.0
                assert sign * now >= sign * low
                low, high = now, step(high)
                assert low <= high

    def test_the_ends_are_neared_and_not_jumped_to(self) -> None:
        for step in self.UP:
            assert step(1.0) == 1.0
            assert 0.0 < step(0.0) < 1.0
        for step in self.DOWN:
            assert step(0.0) == 0.0
            assert 0.0 < step(1.0) < 1.0

    def test_named_points(self) -> None:
        assert (scoring.confirmed(0.7), scoring.contradicted(0.7)) == (pytest.approx(0.85), pytest.approx(0.35))
        assert (scoring.helped(0.5), scoring.misled(0.5)) == (pytest.approx(0.55), pytest.approx(0.45))
        value = 0.0
        for _ in range(7):
            value = scoring.helped(value)
        assert value > 0.5  # seven alike are half of the way


class TestBlend:
    @moderate
    @given(st.lists(st.tuples(unit, unit), min_size=1, max_size=8), st.integers(0, 7), unit, unit, OMEGA, BLEND)
    def test_it_is_in_range_and_nobody_falls_behind_by_rising(
        self, pairs: list[tuple[float, float]], which: int, other: float, heavier: float, omega: float, blend: str
    ) -> None:
        """Also who becomes the most relevant by it, which lessens the share of the others."""
        which %= len(pairs)
        (r0, r1), (w0, w1) = ordered(pairs[which][0], other), ordered(pairs[which][1], heavier)
        found = []
        for relevance, weight in ((r0, w0), (r1, w0), (r1, w1)):
            pairs[which] = (relevance, weight)
            scores = scored(pairs, omega, blend)
            assert (scores >= -SLACK).all()
            assert (scores <= 1.0 + SLACK).all()
            found.append((float(scores[which]), scores - scores[which]))
        assert found[0][0] <= found[1][0] + SLACK
        assert found[1][0] <= found[2][0] + SLACK
        assert (found[0][1] >= found[1][1] - SLACK).all()
        assert (found[1][1] >= found[2][1] - SLACK).all()

    @moderate
    @given(unit, st.lists(unit, max_size=5), st.floats(1e-6, 0.999999), st.floats(0.0, 0.49), BLEND)
    def test_of_equal_relevance_the_weight_decides(
        self, relevance: float, others: list[float], omega: float, w: float, blend: str
    ) -> None:
        """However relevant others are; of no relevance at all nothing is found, by ``bounded`` it has no score."""
        relevance = max(relevance, 0.01)
        pairs = [(relevance, w), (relevance, w + 0.5), *((other, 0.5) for other in others)]
        low, high = scored(pairs, omega, blend)[:2]
        assert low < high

    @moderate
    @given(st.lists(st.tuples(unit, unit), min_size=2, max_size=8), OMEGA, BLEND)
    def test_no_weight_makes_up_for_a_lead_of_one_ninth(
        self, pairs: list[tuple[float, float]], omega: float, blend: str
    ) -> None:
        """Whatever the share of the weight; of any two, not only against the most relevant."""
        scores = scored(pairs, omega, blend)
        for (one_relevance, _), one_score in zip(pairs, scores, strict=True):
            for (other_relevance, _), other_score in zip(pairs, scores, strict=True):
                if one_relevance - other_relevance >= scoring.REACH + 1e-9:
                    assert one_score > other_score - 1e-12

    @moderate
    @given(st.lists(st.tuples(unit, unit), min_size=1, max_size=8), st.floats(0.0, 0.1), BLEND)
    def test_up_to_the_default_the_share_is_omega_exactly(
        self, pairs: list[tuple[float, float]], omega: float, blend: str
    ) -> None:
        relevance, weight = np.array(pairs).T
        expected = {
            "linear": (1.0 - omega) * relevance + omega * weight,
            "bounded": relevance * (1.0 - omega + omega * weight),
        }
        assert scored(pairs, omega, blend).tolist() == expected[blend].tolist()

    def test_named_points_of_the_share(self) -> None:
        relevance = np.array([0.9, 0.9 - scoring.REACH / 2, 0.9 - scoring.REACH, 0.0])
        assert abs(scoring.REACH - 1 / 9) < SLACK
        assert scoring.weight_share(relevance, 0.9, 0.55).tolist() == pytest.approx([0.55, 0.3, 0.05, 0.05])
        assert scoring.weight_share(relevance, 0.9, 0.1).tolist() == [0.1] * 4
        assert scoring.weight_share(relevance, 0.9, 0.1 + 1e-9).tolist() == pytest.approx([0.1] * 4), "no step"
        assert scoring.weight_share(relevance, 0.9, 0.0).tolist() == [0.0] * 4

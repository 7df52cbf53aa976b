"""The formulas against plain Python, and what holds for any numbers: all in [0, 1], monotone, weight decides."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hybridmem import scoring
from hybridmem.scoring import ABSENT, K1, MAX_LEVELS, VOTERS, B

unit = st.floats(0.0, 1.0)
coefficient = st.floats(0.0, 10.0)
#: Of the weight, as the configuration takes them: finite, none below 0, not all 0.
ANY_COEFFICIENTS = st.tuples(*[st.floats(0.0, allow_infinity=False)] * 4).filter(any)
moderate = settings(max_examples=80)
#: In microseconds.
HOUR = 3_600_000_000
SLACK = 1e-9


OMEGA = st.floats(0.0, 1.0, exclude_max=True)
BLEND = st.sampled_from(["linear", "bounded"])


def scored(pairs: Any, omega: float, blend: str) -> Any:
    """(n,) the scores of nodes that compete, each given as (relevance, weight)."""
    relevance, weight = np.array(pairs, dtype=np.float64).reshape(-1, 2).T
    share = scoring.weight_share(relevance, float(relevance.max()), omega)
    return scoring.blended(relevance, weight, share, omega, blend)


def one(value: float) -> Any:
    return np.array([value], dtype=np.float64)


def ordered(a: float, b: float) -> tuple[float, float]:
    return (a, b) if a <= b else (b, a)


@st.composite
def trees(draw: st.DrawFn) -> tuple[Any, Any, Any]:
    """(parent, end, subtree mask) of a random forest in preorder, as a pool has them."""
    size = draw(st.integers(1, 30))
    above = [-1]
    path = [0]
    for i in range(1, size):
        # In preorder a node hangs below some node of the path to the one before it, or starts a tree of its own.
        cut = draw(st.integers(0, len(path)))
        path = path[:cut]
        above.append(path[-1] if path else -1)
        path.append(i)
    end = [max([i] + [j for j in range(size) if i in chain(above, j)]) + 1 for i in range(size)]
    mask = np.array([end[i] > i + 1 and draw(st.booleans()) for i in range(size)])
    return np.array(above, dtype=np.int64), np.array(end, dtype=np.int64), mask


def chain(parent: Any, i: int) -> list[int]:
    """The ancestors of a position, nearest first."""
    found = []
    i = int(parent[i])
    while i >= 0:
        found.append(i)
        i = int(parent[i])
    return found


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
        for step, sign in [(one, 1) for one in self.UP] + [(one, -1) for one in self.DOWN]:
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


class TestRelevance:
    @moderate
    @given(unit, unit, unit, unit, unit, st.integers(0, 2), unit)
    def test_it_is_in_range_and_no_signal_lowers_it_by_rising(
        self, base: float, tree: float, beside: float, by_tree: float, by_neighbour: float, which: int,
        other: float,
    ) -> None:  # fmt: skip
        signals = [base, tree, beside]
        low, high = ordered(signals[which], other)
        found = []
        for value in (low, high):
            signals[which] = value
            found.append(
                float(scoring.relevance(one(signals[0]), [one(s) for s in signals[1:]], (by_tree, by_neighbour))[0])
            )
        assert 0.0 <= found[0] <= found[1] + SLACK
        assert found[1] <= 1.0 + SLACK
        assert found[1] >= signals[0] - SLACK, "what surrounds a node never lowers it"

    def test_a_full_match_stays_full_and_a_mismatch_can_be_lifted(self) -> None:
        base, tree, beside = np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0]), np.array([0.0, 1.0, 0.0])
        assert scoring.relevance(base, (tree, beside), (0.5, 0.4)).tolist() == pytest.approx([1.0, 0.9, 0.0])
        assert scoring.relevance(base, (tree, beside), (1.0, 1.0)).tolist() == [1.0, 1.0, 0.0]

    @moderate
    @given(unit, unit, unit, ANY_COEFFICIENTS.map(lambda found: found[:2]).filter(any))
    def test_the_base_is_bounded_and_monotone_by_any_coefficients(
        self, vector: float, other: float, words: float, coefficients: tuple[float, float]
    ) -> None:
        low, high = ordered(vector, other)
        there = np.array([True])
        found = [float(scoring.base_relevance(one(v), there, one(words), coefficients)[0]) for v in (low, high)]
        found += [float(scoring.base_relevance(one(words), there, one(v), coefficients)[0]) for v in (low, high)]
        assert -SLACK <= found[0] <= found[1] + SLACK
        assert -SLACK <= found[2] <= found[3] + SLACK
        assert max(found) <= 1.0 + SLACK

    @moderate
    @given(unit, unit, coefficient, coefficient)
    def test_the_base_is_a_mean_of_vector_and_words(self, v: float, w: float, cv: float, cl: float) -> None:
        if cv + cl < 1e-6:
            return
        yes, no = np.array([True]), np.array([False])
        found = float(scoring.base_relevance(one(v), yes, one(w), (cv, cl))[0])
        assert found == pytest.approx((cv * v + cl * w) / (cv + cl))
        assert min(v, w) - SLACK <= found <= max(v, w) + SLACK
        assert scoring.base_relevance(None, no, one(w), (cv, cl)).tolist() == [w]
        assert scoring.base_relevance(one(v), no, one(w), (cv, cl)).tolist() == [w], "words alone where no vector is"

    @moderate
    @given(st.floats(-1.0, 1.0), st.floats(-1.0, 1.0), st.floats(-0.5, 0.5), st.floats(0.02, 0.5))
    def test_calibration_is_in_range_and_monotone(self, a: float, b: float, floor: float, span: float) -> None:
        low, high = ordered(a, b)
        found = scoring.calibrated(np.array([low, high]), floor, floor + span)
        assert 0.0 <= found[0] <= found[1] <= 1.0
        ends = scoring.calibrated(np.array([-1.0, floor, floor + span, 1.0]), floor, floor + span)
        assert ends.tolist() == pytest.approx([0.0, 0.0, 1.0, 1.0])


@st.composite
def lexical_cases(draw: st.DrawFn) -> tuple[Any, ...]:
    parent, end, mask = draw(trees())
    n = len(parent)
    query = [f"词{i}" for i in range(draw(st.integers(1, 4)))]
    counts = {term: [draw(st.integers(0, 3)) for _ in range(n)] for term in query}
    lengths = [sum(counts[term][i] for term in query) + draw(st.integers(0, 6)) for i in range(n)]
    postings = {
        term: (np.flatnonzero(row).astype(np.int64), np.array([c for c in row if c], dtype=np.int64))
        for term, row in counts.items()
        if any(row)
    }
    return parent, end, mask, query, counts, np.array(lengths, dtype=np.int64), postings


def bm25(frequencies: list[list[int]], lengths: list[int]) -> list[float]:
    """Robertson and Zaragoza 2009, by the book: one row of frequencies per text, one column per term."""
    total, mean = len(lengths), sum(lengths) / len(lengths)
    scores = [0.0] * total
    for column in range(len(frequencies[0])):
        containing = sum(1 for row in frequencies if row[column])
        idf = math.log(1.0 + (total - containing + 0.5) / (containing + 0.5))
        for i, row in enumerate(frequencies):
            if row[column]:
                norm = 1.0 - B + B * lengths[i] / mean
                scores[i] += idf * row[column] * (K1 + 1.0) / (row[column] + K1 * norm)
    return scores


class TestLexical:
    @moderate
    @given(lexical_cases())
    def test_nodes_and_subtrees_are_bm25_of_their_texts(self, case: Any) -> None:
        """A subtree is one text: what its nodes say, put together."""
        parent, end, mask, query, counts, lengths, postings = case
        found = scoring.lexical(postings, dict.fromkeys(query, 1.0), lengths, end, mask)
        n = len(parent)
        texts = [[i] for i in range(n)]
        wholes = [[j for j in range(n) if j == i or i in chain(parent, j)] for i in range(n) if mask[i]]
        for groups, values, share in (
            (texts, found.nodes, 1.0),
            (wholes, found.subtrees[mask], K1 + 1.0),
        ):
            if not groups:
                continue
            frequencies = [[sum(counts[term][i] for i in group) for term in query] for group in groups]
            sizes = [int(sum(lengths[i] for i in group)) for group in groups]
            if not sum(sizes):
                continue
            idfs = [
                math.log(1.0 + (len(groups) - c + 0.5) / (c + 0.5))
                for c in (sum(1 for row in frequencies if row[k]) for k in range(len(query)))
            ]
            reach = [1.0 if any(counts[term]) else ABSENT for term in query]
            best = share * sum(r * idf for r, idf in zip(reach, idfs, strict=True))
            expected = [min(score / best, 1.0) for score in bm25(frequencies, sizes)]
            assert values.tolist() == pytest.approx(expected)
        assert (found.subtrees[~mask] == 0).all()
        for values in (found.nodes, found.subtrees):
            assert ((values >= 0) & (values <= 1)).all()

    def test_nothing_to_look_for_or_in_is_zero(self) -> None:
        none = np.zeros(0, dtype=np.int64)
        assert scoring.lexical({}, {"词": 1.0}, none, none, none.astype(bool)).nodes.shape == (0,)
        two = np.array([1, 2])
        found = scoring.lexical({}, {}, two, two, np.array([True, False]))
        assert found.nodes.tolist() == found.subtrees.tolist() == [0.0, 0.0]
        assert scoring.lexical({}, {"没有": 1.0}, two, two, np.array([True, False])).nodes.tolist() == [0.0, 0.0]

    def test_more_of_the_question_is_better_and_a_rare_word_says_more(self) -> None:
        lengths, end = np.full(4, 5), np.arange(1, 5)
        postings = {
            "发票": (np.array([0, 1, 2]), np.array([1, 1, 2])),
            "短信": (np.array([1]), np.array([1])),
        }
        nodes = scoring.lexical(postings, {"发票": 1.0, "短信": 1.0}, lengths, end, np.zeros(4, bool)).nodes
        assert nodes[1] > nodes[2] > nodes[0] > nodes[3] == 0.0


class TestTree:
    @moderate
    @given(trees(), st.floats(0.0, 1.0), st.data())
    def test_share_is_the_decayed_mean_of_the_enclosing_subtrees(self, tree: Any, decay: float, data: Any) -> None:
        parent, _, mask = tree
        located = np.array([data.draw(unit) for _ in parent]) * mask
        found = scoring.tree_share(located, parent, mask, decay)
        for i in range(len(parent)):
            levels = [(decay**level, a) for level, a in enumerate(chain(parent, i)[:MAX_LEVELS]) if mask[a]]
            levels = [(factor, a) for factor, a in levels if factor > 0.0]
            expected = sum(f * located[a] for f, a in levels) / sum(f for f, _ in levels) if levels else 0.0
            assert found[i] == pytest.approx(expected)
        assert ((found >= 0) & (found <= 1 + SLACK)).all()

    @moderate
    @given(trees(), st.floats(0.0, 1.0), st.data())
    def test_votes_are_the_best_hit_inside_less_for_every_level(self, tree: Any, decay: float, data: Any) -> None:
        parent, _, mask = tree
        vector = np.array([data.draw(unit) for _ in parent])
        found = scoring.votes(vector, parent, mask, decay)
        if len(parent) <= VOTERS:
            for i in range(len(parent)):
                inside = [
                    vector[j] * decay ** chain(parent, j).index(i)
                    for j in range(len(parent))
                    if i in chain(parent, j)[:MAX_LEVELS]
                ]
                assert found[i] == pytest.approx(max(inside, default=0.0) if mask[i] else 0.0)
        assert ((found >= 0) & (found <= 1)).all()

    def test_only_the_best_twenty_vote(self) -> None:
        n = VOTERS + 2
        parent = np.array([-1, *[0] * 10, -1, *[11] * (n - 12)], dtype=np.int64)
        vector = np.array([0.0, *[0.1] * 10, 0.0, *[0.9] * (n - 12)])
        many = np.concatenate([vector, np.full(VOTERS, 0.95)])
        parents = np.concatenate([parent, np.full(VOTERS, 11)])
        mask = np.zeros(len(many), bool)
        mask[[0, 11]] = True
        assert scoring.votes(vector, parent, mask[:n], 0.5)[[0, 11]].tolist() == pytest.approx([0.1, 0.9])
        assert scoring.votes(many, parents, mask, 0.5)[[0, 11]].tolist() == pytest.approx([0.0, 0.95])

    @moderate
    @given(trees(), st.data())
    def test_neighbours_are_the_mean_of_the_siblings_beside(self, tree: Any, data: Any) -> None:
        parent, _, _ = tree
        base = np.array([data.draw(unit) for _ in parent])
        hours = np.array([data.draw(st.integers(0, 30)) for _ in parent])
        found = scoring.neighbours(base, scoring.siblings(parent, hours * HOUR))
        for i in range(len(parent)):
            siblings = [j for j in range(len(parent)) if parent[j] == parent[i] and parent[i] >= 0]
            place = siblings.index(i) if siblings else 0
            beside = [siblings[p] for p in (place - 1, place + 1) if siblings and 0 <= p < len(siblings)]
            beside = [j for j in beside if abs(hours[j] - hours[i]) <= 12]  # written half a day apart at most
            assert found[i] == pytest.approx(sum(base[j] for j in beside) / 2.0)
        assert ((found >= 0) & (found <= 1)).all()

    @moderate
    @given(st.lists(st.tuples(unit, unit), min_size=1, max_size=10), st.floats(0.0, 5.0))
    def test_located_mixes_words_and_votes(self, pairs: list[tuple[float, float]], share: float) -> None:
        words, votes = (np.array(column) for column in zip(*pairs, strict=True))
        found = scoring.located(words, votes, share)
        assert found.tolist() == pytest.approx(((words + share * votes) / (1 + share)).tolist())
        assert ((found >= 0) & (found <= 1 + SLACK)).all()
        assert scoring.located(words, votes, 0.0).tolist() == words.tolist()

    @moderate
    @given(trees(), st.data())
    def test_a_better_vector_never_lowers_a_score_of_its_own_or_around_it(self, tree: Any, data: Any) -> None:
        """In a pool no larger than the voters; beyond, a new voter can push out one elsewhere."""
        parent, _, mask = tree
        n = len(parent)
        if n > VOTERS:
            return
        vector = np.array([data.draw(unit) for _ in range(n)])
        better = vector.copy()
        which = data.draw(st.integers(0, n - 1))
        better[which] = data.draw(st.floats(vector[which], 1.0))

        def scores(v: Any) -> Any:
            base = scoring.base_relevance(v, np.ones(n, bool), np.zeros(n), (1.0, 0.5))
            located = scoring.located(np.zeros(n), scoring.votes(v, parent, mask, 0.5), 0.5)
            share = scoring.tree_share(located, parent, mask, 0.5)
            beside = scoring.neighbours(base, scoring.siblings(parent, np.zeros(n, int)))
            return scoring.relevance(base, (share, beside), (0.5, 0.4))

        assert (scores(better) >= scores(vector) - SLACK).all()

    def test_a_chain_of_5000_needs_no_recursion(self) -> None:
        n = 5000
        parent, end = np.arange(-1, n - 1), np.full(n, n)
        mask = np.arange(n) < n - 1
        base = np.linspace(0.0, 1.0, n)
        assert scoring.votes(base, parent, mask, 0.5).shape == (n,)
        assert scoring.tree_share(base, parent, mask, 0.5)[-1] > 0.9
        postings = {"词": (parent[1:], np.ones(n - 1, int))}
        assert scoring.lexical(postings, {"词": 1.0}, np.ones(n, int), end, mask).subtrees[0] > 0

"""Relevance and the tree, against plain Python, and what holds for any numbers: all in [0, 1], monotone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scores import ANY_COEFFICIENTS, SLACK, coefficient, moderate, one, ordered, unit

from hybridmem import scoring
from hybridmem.scoring import ABSENT, K1, MAX_LEVELS, VOTERS, B

#: In microseconds.
HOUR = 3_600_000_000


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

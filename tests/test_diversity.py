"""Diversity: hits that say the same give way; nothing is lost, nothing comes twice, the same input gives the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hybridmem import Memory
from hybridmem.diversity import spread
from hybridmem.ports import Calibration, Vectors

OpenMemory = Callable[..., Memory]

WIDTH = 8
PLAIN = Calibration(0.0, 1.0, np.zeros(WIDTH, dtype=np.float32))


def unit(rows: Any) -> Vectors:
    found = np.asarray(rows, dtype=np.float32).reshape(-1, WIDTH)
    norms = np.linalg.norm(found, axis=1, keepdims=True)
    result: Vectors = np.divide(found, norms, out=np.zeros_like(found), where=norms > 0)
    return result


@st.composite
def candidates(draw: Any) -> tuple[Any, Vectors]:
    """Scores, best first, and vectors, of which some are alike and some missing."""
    n = draw(st.integers(0, 12))
    score = sorted((draw(st.floats(0, 1)) for _ in range(n)), reverse=True)
    some = unit(np.random.default_rng(draw(st.integers(0, 99))).normal(size=(5, WIDTH)))
    some[4] = 0.0
    chosen = [draw(st.integers(0, 4)) for _ in range(n)]
    return np.array(score), some[chosen] if n else np.zeros((0, WIDTH), dtype=np.float32)


@given(candidates(), st.floats(0, 1), st.integers(0, 15))
def test_every_position_comes_once_whatever_the_share(given: Any, share: float, k: int) -> None:
    score, vectors = given
    order, redundancy = spread(score, vectors, PLAIN, share, k)
    assert len(order) == len(redundancy) == min(k, len(score))
    assert len(set(order)) == len(order)
    assert set(order) <= set(range(len(score)))
    assert all(0.0 <= one <= 1.0 for one in redundancy)
    assert (order, redundancy) == spread(score.copy(), vectors.copy(), PLAIN, share, k)


def test_what_rounding_leaves_of_the_common_direction_is_like_nothing() -> None:
    common = unit(np.ones(WIDTH))[0]
    noise = np.float32(1e-7) * np.eye(WIDTH, dtype=np.float32)[[0, 0]]
    order, redundancy = spread(np.array([0.9, 0.8]), common + noise, Calibration(0.0, 1.0, common), diversity=0.5, k=2)
    assert (order, redundancy) == ([0, 1], [0.0, 0.0])


@given(candidates())
def test_without_diversity_the_order_is_that_of_the_scores(given: Any) -> None:
    score, vectors = given
    assert spread(score, vectors, PLAIN, 0.0, len(score))[0] == list(range(len(score)))


@given(candidates(), st.floats(0, 1))
def test_the_best_stays_first_and_fewer_are_the_beginning_of_more(given: Any, share: float) -> None:
    score, vectors = given
    order, _ = spread(score, vectors, PLAIN, share, len(score))
    assert order[:1] == list(range(len(score)))[:1]
    for k in range(len(order)):
        assert spread(score, vectors, PLAIN, share, k)[0] == order[:k]


@settings(max_examples=50)
@given(candidates(), st.floats(0, 1))
def test_it_is_the_greedy_choice_by_the_formula(given: Any, share: float) -> None:
    score, vectors = given
    order, redundancy = spread(score, vectors, PLAIN, share, len(score))
    similarity = np.round(np.clip(vectors @ vectors.T, 0.0, 1.0).astype(np.float64), 6)
    for place, chosen in enumerate(order):
        most = similarity[:, order[:place]].max(axis=1, initial=0.0)
        gain = (1.0 - share) * score - share * most
        assert redundancy[place] == pytest.approx(most[chosen], abs=2e-6)
        assert gain[chosen] >= gain[order[place:]].max() - 1e-5 or place == 0


def test_an_exact_duplicate_goes_behind_what_is_new() -> None:
    first, second = np.eye(WIDTH)[:2]
    order, redundancy = spread(np.array([0.9, 0.89, 0.6]), unit([first, first, second]), PLAIN, 0.5, 3)
    assert order == [0, 2, 1]
    assert redundancy == [0.0, 0.0, 1.0]
    assert spread(np.array([0.9, 0.89, 0.6]), unit([first, first, second]), PLAIN, 0.1, 3)[0] == [0, 1, 2]


def test_what_has_no_vector_is_like_no_other() -> None:
    first, nothing = np.eye(WIDTH)[0], np.zeros(WIDTH)
    order, redundancy = spread(np.array([0.9, 0.8, 0.7]), unit([nothing, nothing, first]), PLAIN, 1.0, 3)
    assert (order, redundancy) == ([0, 1, 2], [0.0, 0.0, 0.0])
    assert spread(np.array([0.9, 0.8]), np.zeros((2, 0), dtype=np.float32), PLAIN, 0.5, 2)[0] == [0, 1]


def test_the_direction_that_all_texts_share_does_not_count() -> None:
    shared, first, second = np.eye(WIDTH)[:3]
    vectors = unit([5 * shared + first, 5 * shared + second])
    crowded = Calibration(0.0, 1.0, unit(shared)[0])
    assert spread(np.array([0.9, 0.8]), vectors, PLAIN, 0.5, 2)[1][1] > 0.9
    assert spread(np.array([0.9, 0.8]), vectors, crowded, 0.5, 2)[1][1] < 0.1


class TestSearch:
    def filled(self, memory: OpenMemory, share: float) -> Memory:
        m = memory(retrieval={"diversity": share})
        m.start_task("报销 expense claim")
        m.add_many([{"content": "财务退回了发票 the invoice was returned", "type": "event"} for _ in range(8)])
        m.add("发票抬头写错了 the invoice names another company", type="event")
        m.add("发票要重开 ask for a new invoice", type="decision")
        return m

    def test_repeated_events_leave_room_for_others(self, memory: OpenMemory) -> None:
        m = self.filled(memory, 0.5)
        found = m.search("财务退回发票 invoice returned", k=3, types=["event", "decision"])
        assert len({hit.content for hit in found}) == 3
        assert found[0].content.startswith("财务退回了发票")
        assert found[0].score_details.redundancy == 0.0
        every = m.search("财务退回发票 invoice returned", k=50)
        assert len({hit.id for hit in every}) == len(every) == 10, "the task does not answer it"
        assert every[-1].score_details.redundancy == 1.0
        assert "redundancy 1.00 to the hits before it" in every[-1].explain()
        assert every.to_dict()["hits"][-1]["score_details"]["redundancy"] == 1.0

    def test_off_by_default_and_then_nothing_is_said_of_it(self, memory: OpenMemory) -> None:
        m = self.filled(memory, 0.0)
        found = m.search("财务退回发票 invoice returned", k=3)
        assert len({hit.content for hit in found}) == 1
        assert found[0].score_details.redundancy is None
        assert "redundancy" not in found[0].explain()
        assert memory("other").config.retrieval.diversity == 0.0

    def test_it_changes_neither_scores_nor_what_there_is_to_find(self, memory: OpenMemory) -> None:
        plain, diverse = self.filled(memory, 0.0), memory(retrieval={"diversity": 0.7})
        one, other = (m.search("发票 invoice", k=50) for m in (plain, diverse))
        assert {hit.id: hit.score for hit in one} == pytest.approx({hit.id: hit.score for hit in other})
        assert [hit.id for hit in one] != [hit.id for hit in other]

    def test_a_context_without_a_question_is_diverse_too(self, memory: OpenMemory) -> None:
        m = self.filled(memory, 0.8)
        m.flush()
        shown = m.context(token_budget=90).text
        assert "重开" in shown
        assert "写错" in shown

"""Exact search in numpy: what the approximate index is held against."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybridmem.errors import IndexUnavailable
from hybridmem.index import ExactIndex, cosine, top_k
from hybridmem.ports import VectorIndex


def unit(*rows: list[float]) -> np.ndarray:
    vectors = np.array(rows, dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0, -1.0]), max_size=60), st.integers(min_value=0, max_value=70))
def test_top_k_is_a_stable_sort_from_the_top(scores: list[float], k: int) -> None:
    expected = sorted(range(len(scores)), key=lambda position: (-scores[position], position))[:k]
    assert top_k(np.array(scores, dtype=np.float32), k).tolist() == expected


def test_cosine_of_same_opposite_and_orthogonal() -> None:
    matrix = unit([1, 0], [-1, 0], [0, 1])
    np.testing.assert_allclose(cosine(matrix, matrix[0]), [1.0, -1.0, 0.0], atol=1e-6)
    assert cosine(np.zeros((0, 2), dtype=np.float32), matrix[0]).shape == (0,)


def test_nearest_first_and_ties_by_lower_id() -> None:
    index: VectorIndex = ExactIndex(2)
    index.upsert([9, 4, 7], unit([1, 0], [1, 0], [1, 1]))
    assert index.query(unit([1, 0])[0], 3)[0] == [4, 9, 7]
    assert index.query(unit([1, 0])[0], 99)[1] == pytest.approx([1.0, 1.0, 0.5**0.5], abs=1e-6)
    assert index.query(unit([1, 0])[0], 0) == ([], [])


def test_upsert_replaces_and_delete_ignores_unknown_ids() -> None:
    index = ExactIndex(2)
    index.upsert([1, 2], unit([1, 0], [0, 1]))
    index.upsert([1], unit([-1, 0]))
    index.delete([2, 77])
    assert index.ids() == {1}
    assert index.query(unit([1, 0])[0], 5) == ([1], [-1.0])
    index.delete([1])
    assert index.query(unit([1, 0])[0], 5) == ([], [])


def test_a_vector_of_the_caller_changed_later_does_not_change_the_index() -> None:
    index = ExactIndex(2)
    rows = unit([1, 0])
    index.upsert([1], rows)
    rows[0] = [0, 1]
    assert index.query(unit([1, 0])[0], 1) == ([1], [1.0])


@pytest.mark.parametrize("bad", [[[float("nan"), 1.0]], [[float("inf"), 0.0]], [[0.0, 0.0]], [[1.0]], [1.0, 0.0]])
def test_bad_vectors_are_refused_and_nothing_is_stored(bad: list[list[float]]) -> None:
    index = ExactIndex(2)
    with pytest.raises(IndexUnavailable):
        index.upsert([1], np.array(bad, dtype=np.float32))
    assert index.ids() == set()


@pytest.mark.parametrize("bad", [[float("nan"), 1.0], [float("inf"), 0.0], [1.0], [[1.0, 0.0]]])
def test_a_bad_query_is_refused(bad: list[float]) -> None:
    index = ExactIndex(2)
    index.upsert([1], unit([1, 0]))
    with pytest.raises(IndexUnavailable):
        index.query(np.array(bad, dtype=np.float32), 1)

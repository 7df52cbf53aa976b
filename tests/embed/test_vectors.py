"""What comes back from an embedder is kept only where it can be used."""

from __future__ import annotations

import numpy as np
import pytest

from hybridmem.embed import checked
from hybridmem.embed.vectors import safe_text, unit_rows


@pytest.mark.parametrize(
    "given",
    [
        [[3.0, 4.0], [0.0, 2.0]],
        [(3, 4), (0, 2)],
        np.array([[3, 4], [0, 2]], dtype=np.float16),
        np.array([[3, 4], [0, 2]], dtype=np.float64),
        np.array([[3, 4], [0, 2]], dtype=np.int32),
        [np.array([3.0, 4.0]), [0, 2]],
        iter([[3.0, 4.0], [0.0, 2.0]]),
    ],
)
def test_any_kind_of_numbers_becomes_float32_rows_of_length_one(given: object) -> None:
    result = checked(given, 2, 2)
    assert result.vectors.dtype == np.float32
    np.testing.assert_allclose(result.vectors, [[0.6, 0.8], [0.0, 1.0]], atol=1e-6)
    assert result.all_good
    assert result.good.tolist() == [True, True]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ([float("nan"), 1.0], "NaN or infinity"),
        ([float("inf"), 1.0], "NaN or infinity"),
        ([0.0, 0.0], "all zero"),
        ([1.0, 2.0, 3.0], "shape"),
        ([], "shape"),
        (1.0, "shape"),
        (None, "not a row of numbers"),
        ("张三", "not a row of numbers"),
        ([1 + 2j, 1.0], "not a row of numbers"),
        ([[1.0], [2.0, 3.0]], "not a row of numbers"),
    ],
)
def test_a_bad_row_is_named_and_the_others_are_kept(bad: object, reason: str) -> None:
    result = checked([[1.0, 0.0], bad, [0.0, 1.0]], 3, 2)
    assert result.reasons[0] is None
    assert result.reasons[2] is None
    assert reason in str(result.reasons[1])
    assert result.good.tolist() == [True, False, True]
    assert not result.vectors[1].any()
    np.testing.assert_array_equal(result.vectors[[0, 2]], [[1, 0], [0, 1]])


@pytest.mark.parametrize("given", [[[1.0, 0.0]], [[1.0, 0.0]] * 3, [], None, 7])
def test_with_the_wrong_number_of_rows_none_can_be_assigned_to_its_text(given: object) -> None:
    result = checked(given, 2, 2)
    assert result.vectors.shape == (2, 2)
    assert not result.good.any()
    assert len(result.reasons) == 2


@pytest.mark.parametrize("scale", [1e-200, 1e-40, 1e200])
def test_very_small_and_very_large_numbers_keep_their_direction(scale: float) -> None:
    np.testing.assert_allclose(checked([[3 * scale, 4 * scale]], 1, 2).vectors, [[0.6, 0.8]], atol=1e-6)


def test_one_text_may_come_back_as_one_flat_vector() -> None:
    np.testing.assert_allclose(checked(np.array([3.0, 4.0]), 1, 2).vectors, [[0.6, 0.8]], atol=1e-6)


def test_no_texts_give_no_rows() -> None:
    assert checked([], 0, 5).vectors.shape == (0, 5)


def test_embedders_mark_bad_rows_as_nan_so_that_the_indexer_sees_them() -> None:
    rows = unit_rows([[1.0, 0.0], [0.0, 0.0]], 2, 2)
    assert np.isnan(rows[1]).all()
    assert checked(rows, 2, 2).good.tolist() == [True, False]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("发票 invoice", "发票 invoice"),
        ("发票\0invoice", "发票 invoice"),
        ("a\ud800b", "a\ufffdb"),
        ("\udc00退回", "\ufffd退回"),
        ("\ud83d\ude00", "😀"),
    ],
)
def test_text_is_made_safe_for_c_strings_and_json(given: str, expected: str) -> None:
    assert safe_text(given) == expected

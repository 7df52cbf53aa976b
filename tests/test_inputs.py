"""What comes in: kept as it is, or refused with the field, the value and what is accepted."""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from datetime import date, datetime, timedelta, timezone
from enum import IntEnum
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from hybridmem import InvalidInput, inputs

BLANK = ["", " ", "\n\t\r\n", "\u3000", "\u200b\u200d", "\ufeff", "\u00a0", "\u2028"]


@pytest.mark.parametrize("blank", BLANK)
def test_blank_content_is_refused_by_name(blank: str) -> None:
    with pytest.raises(InvalidInput, match="content is blank"):
        inputs.content(blank)


@pytest.mark.parametrize(
    "text",
    ["发票", " 两端 blanks \r\n", "0", "\ufeffBOM first", "a\u200bb", "👨‍👩‍👧", "```\n{}\n```", "x" * 100_000],
)
def test_text_is_kept_byte_for_byte(text: str) -> None:
    assert inputs.content(text) == (text, False)


@pytest.mark.parametrize(
    "value", [{"金额": 3500.5, "已付": True, "无": None}, [1, "二", [3.0]], 0, -7, 3.5, True, {}, [], {"a": (1, 2)}]
)
def test_a_structured_value_is_kept_as_json(value: Any) -> None:
    text, structured = inputs.content(value)
    assert structured
    assert json.loads(text) == json.loads(json.dumps(value))
    assert "\\u" not in text, "Chinese stays readable and is found by search"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "content: must not be None"),
        (math.nan, "content: JSON has no nan"),
        ({"a": [math.inf]}, "content: JSON has no inf"),
        ({1: "a"}, "content: keys must be text, not 1"),
        (b"bytes", "content: bytes is not a JSON value"),
        ({"a": {1, 2}}, "content: set is not a JSON value"),
        ({"a": object}, "content: type is not a JSON value"),
        ({"a": "x\0y"}, "content contains a NUL"),
        ({"键\ud800": 1}, "content contains half of a surrogate pair"),
        ("a\0b", "content contains a NUL character at position 1"),
        ("半 \udc00", "content contains half of a surrogate pair"),
    ],
)
def test_what_json_cannot_hold_is_refused_by_name(value: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        inputs.content(value)


def test_nesting_and_loops_end_with_a_clear_error() -> None:
    loop: list[Any] = []
    loop.append(loop)
    deep: Any = "底"
    for _ in range(inputs.MAX_NESTING + 1):
        deep = [deep]
    for value in (loop, deep):
        with pytest.raises(InvalidInput, match="content: is nested more than 32 levels deep"):
            inputs.content(value)
    assert inputs.content(deep[0])[1]


def test_a_text_of_more_than_8_megabytes_is_refused_with_its_size() -> None:
    with pytest.raises(InvalidInput, match=r"content: has 8,000,001 bytes, 8,000,000 are accepted"):
        inputs.content("中" * 2_666_667)
    assert inputs.content("中" * 2_666_666)


def test_an_escaped_surrogate_pair_becomes_one_character() -> None:
    assert inputs.content("好 \ud83d\ude00") == ("好 😀", False)
    assert inputs.metadata({"\ud83d\ude00": ["\ud83d\ude00"]}) == {"😀": ["😀"]}
    assert inputs.content({"表情": "\ud83d\ude00"}) == ('{"表情": "😀"}', True)


@pytest.mark.parametrize("value", [MappingProxyType({"a": 1}), OrderedDict(a=1)])
def test_any_mapping_is_structured_content_at_any_depth(value: Any) -> None:
    assert json.loads(inputs.content(value)[0]) == {"a": 1}
    assert inputs.metadata({"里": value}) == {"里": {"a": 1}}


def test_a_number_that_python_will_not_write_is_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match="metadata: "):
        inputs.metadata({"n": 10**5000})


class Level(IntEnum):
    HIGH = 2


def test_metadata_is_a_checked_copy() -> None:
    given = {"标签": ["a", None, True, 1, 1.5], "": " ", "level": Level.HIGH, "big": 2**70}
    kept = inputs.metadata(given)
    assert kept == {"标签": ["a", None, True, 1, 1.5], "": " ", "level": 2, "big": 2**70}
    assert [type(item) for item in kept["标签"]] == [str, type(None), bool, int, float]
    given["标签"].append("later")  # type: ignore[attr-defined]
    assert len(kept["标签"]) == 5
    assert inputs.metadata(None) == {}
    for wrong in ([("a", 1)], "text", 5):
        with pytest.raises(InvalidInput, match="metadata: must be a mapping"):
            inputs.metadata(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("invisible", ["\u200b", "\ufeff", "\x07"])
def test_metadata_may_hold_text_that_shows_nothing(invisible: str) -> None:
    assert inputs.metadata({"separator": invisible}) == {"separator": invisible}


@pytest.mark.parametrize("value", [0, 1, 0.0, 0.25, 1.0])
def test_a_unit_is_a_number_from_0_to_1(value: float) -> None:
    assert inputs.unit("importance", value) == value


@pytest.mark.parametrize("value", [-0.001, 1.001, 5, math.nan, math.inf, True, "0.5", None, [0.5]])
def test_what_is_no_unit_is_refused_with_field_and_value(value: Any) -> None:
    with pytest.raises(InvalidInput, match="importance: must be a number between 0 and 1") as caught:
        inputs.unit("importance", value)
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize("value", [-1, True, 1.0, "1", None])
def test_what_is_no_count_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput, match="k: must be"):
        inputs.count("k", value)


@pytest.mark.parametrize("value", ["fact", "x", "custom-type_2", "a" * 64])
def test_a_type_is_a_lower_case_word(value: str) -> None:
    assert inputs.node_type(value) == value


@pytest.mark.parametrize("value", ["", "Fact", "事实", "2x", "a b", "a" * 65, "fact\n", None, 5, ["fact"]])
def test_what_is_no_type_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput, match="type: must be a lower-case word"):
        inputs.node_type(value)


EIGHT = timezone(timedelta(hours=8))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (datetime(2026, 7, 2, 9, 30), datetime(2026, 7, 2, 9, 30)),
        (datetime(2026, 7, 2, 9, 30, tzinfo=EIGHT), datetime(2026, 7, 2, 1, 30)),
        ("2026-07-02T09:30:00+08:00", datetime(2026, 7, 2, 1, 30)),
        ("2026-07-02T09:30:00Z", datetime(2026, 7, 2, 9, 30)),
        ("2026-07-02T09:30:00z", datetime(2026, 7, 2, 9, 30)),
        (" 2026-07-02 09:30:00.123456 ", datetime(2026, 7, 2, 9, 30, 0, 123456)),
        ("2026-07-02", datetime(2026, 7, 2)),
        (datetime.min, datetime.min),
        (datetime.max, datetime.max),
    ],
)
def test_a_moment_is_utc_and_naive_means_utc(value: Any, expected: datetime) -> None:
    found = inputs.moment("occurred_at", value)
    assert found == expected.replace(tzinfo=timezone.utc)
    assert found.utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("昨天", "is not an ISO 8601 time: '昨天'"),
        ("", "is not an ISO 8601 time"),
        (1_700_000_000, "must be a datetime or ISO 8601 text, not 1700000000"),
        (date(2026, 7, 2), "must be a datetime or ISO 8601 text"),
        (True, "must be a datetime"),
        (datetime.min.replace(tzinfo=EIGHT), "outside the years 1 to 9999"),
        ("9999-12-31T23:00:00-08:00", "outside the years 1 to 9999"),
    ],
)
def test_what_is_no_moment_is_refused(value: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=f"occurred_at: .*{said}"):
        inputs.moment("occurred_at", value)


@pytest.mark.parametrize("value", ["张三", "a b", "claims-bot", "x" * 512, "a/b", "2026-07-02"])
def test_a_name_is_any_text_in_one_line(value: str) -> None:
    assert inputs.name("agent", value) == value


@pytest.mark.parametrize("value", ["", " a", "a ", "a\nb", "a\tb", "a\0", "x" * 513, None, 5, "\ud800", "\u200b"])
def test_what_is_no_name_is_refused_by_field(value: Any) -> None:
    with pytest.raises(InvalidInput, match="agent"):
        inputs.name("agent", value)


def test_a_namespace_is_a_tuple_of_names() -> None:
    assert inputs.namespace(["acme", "张三"]) == ("acme", "张三")
    assert inputs.namespace(("a/b",)) == ("a/b",)
    for wrong in ("acme", (), [], None, 5, {"a"}, ("a", ""), ("a", 5), ("a",) * 17):
        with pytest.raises(InvalidInput, match="namespace"):
            inputs.namespace(wrong)


def test_one_of_names_what_is_accepted() -> None:
    assert inputs.one_of("order", "time", ("tree", "time")) == "time"
    for wrong in ("Time", None, ["time"], 5):
        with pytest.raises(InvalidInput, match="order: must be one of tree, time, not"):
            inputs.one_of("order", wrong, ("tree", "time"))


def test_numpy_numbers_are_numbers() -> None:
    assert inputs.unit("importance", np.float64(0.5)) == 0.5

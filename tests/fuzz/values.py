"""What the world may send: texts, JSON values and numbers that have broken programs before."""

from __future__ import annotations

import datetime
import decimal
import json
from typing import Any

from hypothesis import strategies as st

#: Syntax of FTS5, SQL, LIKE, JSON paths, prompts, terminals and templates; and Unicode at its oddest.
PIECES = (
    "发票", "invoice 2026-07-02", "'", '"', '""', "'; DROP TABLE node; --", "\" OR 1=1 --", "*", "发票*", "^invoice",
    "NEAR(a b, 2)",
    "terms:invoice", "lexical MATCH 'x'", "AND", "OR", "NOT", "a AND NOT (b OR c", "-invoice", "+", "{a b}: c", "%",
    "_", "\\", "?", "?1",
    ":name", "@x", "$.a[0]", "$[#-1]", "rowid:1", "()", ")(", "((((((((", "--", "-", "--json", "/*", "*/", ";", "\0",
    "a\0b", "\x1b[31m",
    "\x1b]0;x\x07", "\r", "\n", "\r\n", "\t", "\x7f", "\x85", "\u2028", "\u2029", "\ufeff", "\ufffe", "\uffff",
    "\U0010ffff", "\ud800",
    "\udcff", "\ud83d\ude00", "\udc00\ud800", "\u202e", "\u2066", "\u200b", "\u200d", "👨‍👩‍👧", "🇨🇳", "e\u0301",
    "\u0301", "\ufb03",
    "ß", "İ", "ǅ", "ﷺ", "٣", "①", "½", "𝟘", "ก็็็็็", "한국어", "日本語の", "\U000e0041", "\ue000", "{}", "{0}", "{x!r}",
    "%s", "%(a)s",
    "[bold]x[/bold]", ":smile:", "```", "</memory>", "<|im_start|>system", "null", "NaN", "true", "0", "-1", "1e999",
    "0x10", "1_000",
    "9" * 20, "9" * 400, "1970-01-01", "9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+14:00", "昨天", "last week",
    "", " ",
    "\u3000", "root", "task", "node", "active", "default", "~", "&a [*a]", "!!python/object/apply:os.getcwd []",
    "{a: 1}", "[1, 2",
)  # fmt: skip
#: Stands for a whole number that Python refuses to write out, so that an example can still be shown.
HUGE = "@10**5000"
LENGTHS = (2, 33, 65, 129, 513, 2_001, 20_000)

plain_text = st.text(st.characters(), max_size=40)
texts = st.one_of(
    st.sampled_from(PIECES),
    plain_text,
    st.lists(st.sampled_from(PIECES) | st.text(st.characters(), max_size=6), max_size=8).map("".join),
    st.lists(st.sampled_from(PIECES), max_size=8).map(" ".join),
    st.builds(lambda piece, times: piece * times, st.sampled_from(PIECES), st.sampled_from(LENGTHS)),
)
numbers: st.SearchStrategy[Any] = st.one_of(
    st.integers(-3, 100),
    st.sampled_from((2**31, 2**53, 2**63 - 1, 2**63, 2**64, -(2**63), -(2**63) - 1, 10**30, 10**400)),
    st.just(HUGE),
    st.floats(),
    st.floats(0, 1),
)
scalars: st.SearchStrategy[Any] = st.one_of(st.none(), st.booleans(), numbers, texts)
#: What JSON can hold, and NaN and infinities, which Python's reader takes as well.
json_values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=8,
)
#: What only Python can hold.
foreign: st.SearchStrategy[Any] = st.sampled_from(
    (
        b"bytes", {1, 2}, object, 1j, decimal.Decimal("1.5"), datetime.date(2026, 7, 2), datetime.datetime(2026, 7,
        2), (1, (2,)),
        {1: 2}, {None: 1}, {(1, 2): 3}, {b"k": 1}, {True: 1, "True": 2}, range(3), bytearray(b"x"), len, float("nan"),
    )
)  # fmt: skip
anything = json_values | foreign
#: Texts of times, most of which are none.
moments = st.one_of(
    st.sampled_from(
        (
            "2026-07-01", "2026-07-02T08:00:05Z", "2026-07-03T00:00:00+14:00", "2030-01-01", "2026-07-02T24:00", "2026",
            "20260702T080005", "2026-W27-4", "9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+14:00", "9999-12-31",
            "2026-02-30", "1969-12-31", "now", "昨天", " 2027-01-01 ", "2027-01-01T00:00:00.1234567", "٢٠٢٧-01-01",
        )
    ),
    texts,
)  # fmt: skip
#: Texts of principals: whole, with parts missing, and with JSON of every shape where names stand.
principals = st.one_of(
    st.builds(
        lambda kind, rest: f"{kind}:{rest}",
        st.sampled_from(("user", "agent", "group", "User", "", "root")),
        st.one_of(
            st.sampled_from(
                (
                    "acme/张三", "acme/张三:bot", "default", "team", "", "/", "a//b", ":", "a:b:c", "[]", "[[]]", "[1]",
                    '["acme/x","li"]', '[["acme"],"a:b"]', '[["acme"],1]', '[[["a"]],"b"]', "[null,null]",
                    '["\\ud800"]', "[" * 5_000, "[" + "9" * 5_000 + "]", "a/" * 20 + "b", "x" * 600, '["a"', "{}",
                )
            ),
            st.lists(json_values, max_size=3).map(json.dumps),
            texts,
        ),
    ),
    texts,
)  # fmt: skip
#: How deep a value is put into lists or objects; 32 levels are accepted.
depths = st.sampled_from((0, 0, 0, 1, 30, 31, 32, 33, 200, 5_000))


def meant(value: Any) -> Any:
    """The value itself, with what HUGE stands for."""
    if isinstance(value, list):
        return [meant(item) for item in value]
    if type(value) is dict:
        return {key: meant(item) for key, item in value.items()}
    return 10**5000 if value == HUGE else value


def wrapped(value: Any, depth: int, as_list: bool) -> Any:
    """The value inside so many lists or objects."""
    value = meant(value)
    for _ in range(depth):
        value = [value] if as_list else {"in 里": value}
    return value

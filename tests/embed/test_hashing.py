"""The hashing embedder: deterministic, language-blind, never a zero vector."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hybridmem.embed.hashing import HashingEmbedder
from hybridmem.ports import Embedder

ROOT = Path(__file__).parents[2]


def test_it_is_an_embedder() -> None:
    embedder = HashingEmbedder()
    assert isinstance(embedder, Embedder)
    assert embedder.identity.dimension == 256
    assert embedder.embed_documents([]).shape == (0, 256)


@pytest.mark.parametrize(
    ("query", "near", "far"),
    [
        ("发票为什么被退回", "财务退回，原因是发票信息不清晰", "她每天早上在公园里拉小提琴"),
        ("why was the invoice returned", "The invoice was returned by finance", "He prefers coffee without sugar"),
        ("deploy 到 staging 失败", "staging 的 deploy 今天又失败了", "The ferry leaves 七点半"),
    ],
)
def test_texts_that_share_characters_are_nearer(query: str, near: str, far: str) -> None:
    embedder = HashingEmbedder()
    documents = embedder.embed_documents([near, far])
    cosines = documents @ embedder.embed_query(query)
    assert cosines[0] > cosines[1] + 0.1


@pytest.mark.parametrize("text", ["发票", "invoice", "发票 invoice", "。", "a", "\0", "\ud800", "😀"])
def test_query_and_document_are_the_same_unit_vector(text: str) -> None:
    embedder = HashingEmbedder()
    vector = embedder.embed_query(text)
    assert vector.dtype == np.float32
    np.testing.assert_array_equal(embedder.embed_documents([text])[0], vector)
    assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-6)


def test_case_and_width_do_not_matter() -> None:
    embedder = HashingEmbedder()
    np.testing.assert_array_equal(embedder.embed_query("ＡＢＣ 发票"), embedder.embed_query("abc  发票\n"))


@given(st.text(min_size=1), st.integers(min_value=1, max_value=8))
@settings(max_examples=200)
def test_never_zero_whatever_the_text_and_however_few_dimensions(text: str, dimension: int) -> None:
    assert np.linalg.norm(HashingEmbedder(dimension).embed_query(text)) == pytest.approx(1.0, abs=1e-5)


def test_the_same_in_another_process_with_another_hash_seed() -> None:
    code = (
        "from hybridmem.embed.hashing import HashingEmbedder; "
        "print(HashingEmbedder(16).embed_query('发票 invoice').tobytes().hex())"
    )
    found = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    ]
    assert found == [HashingEmbedder(16).embed_query("发票 invoice").tobytes().hex()] * 2

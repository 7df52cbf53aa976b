"""Fingerprint and calibration: another model under the same name is told apart, noise is not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from hybridmem.embed import probe, same_model
from hybridmem.embed.hashing import HashingEmbedder
from hybridmem.embed.probe import PROBE_TEXTS
from hybridmem.errors import EmbeddingUnavailable
from hybridmem.ports import EmbedderIdentity, Vectors


class Changed:
    """The hashing embedder with something done to its vectors, under the same name."""

    def __init__(
        self, *, noise: float = 0.0, rotate: bool = False, constant: bool = False, dimension: int = 64
    ) -> None:
        self._inner = HashingEmbedder(dimension)
        self.identity: EmbedderIdentity = self._inner.identity
        self._noise, self._rotate, self._constant = noise, rotate, constant
        self._random = np.random.default_rng(1)

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        rows = self._inner.embed_documents(texts)
        if self._constant:
            rows[:] = rows[0]
        if self._rotate:
            rows = np.roll(rows, 1, axis=1)
        return (rows + self._noise * self._random.normal(size=rows.shape)).astype(np.float32)

    def embed_query(self, text: str) -> Vectors:
        return self.embed_documents([PROBE_TEXTS[0] if self._constant else text])[0]


def test_probe_texts_are_eight_different_ones_half_of_them_chinese() -> None:
    assert len(set(PROBE_TEXTS)) == 8
    assert sum(any("\u4e00" <= letter <= "\u9fff" for letter in text) for text in PROBE_TEXTS) == 4


def test_the_same_model_is_recognised_also_with_the_noise_of_another_machine() -> None:
    fingerprint = probe(Changed()).fingerprint
    assert same_model(fingerprint, probe(Changed()).fingerprint)
    assert same_model(fingerprint, probe(Changed(noise=2e-3)).fingerprint)


def test_another_model_of_the_same_name_and_width_is_told_apart() -> None:
    fingerprint = probe(Changed()).fingerprint
    assert not same_model(fingerprint, probe(Changed(rotate=True)).fingerprint)
    assert not same_model(fingerprint, probe(Changed(noise=2e-2)).fingerprint)


def test_another_width_is_another_model() -> None:
    assert not same_model(probe(Changed(dimension=64)).fingerprint, probe(Changed(dimension=32)).fingerprint)


@pytest.mark.parametrize("other", ["", "probe1:", "probe1:发票", "probe2:AAAA", "probe1:AAAAAAAAAAA=", "probe1:AAA"])
def test_a_fingerprint_that_cannot_be_read_is_never_the_same(other: str) -> None:
    assert not same_model(probe(Changed()).fingerprint, other)


def test_calibration_spans_unrelated_to_identical() -> None:
    calibration = probe(HashingEmbedder()).calibration
    assert calibration.ceiling == pytest.approx(1.0)
    assert 0.0 <= calibration.floor < 0.3


def test_calibration_of_a_model_that_cannot_tell_texts_apart_still_has_a_span() -> None:
    calibration = probe(Changed(constant=True)).calibration
    assert calibration.ceiling - calibration.floor == pytest.approx(0.02)
    assert calibration.ceiling <= 1.0


def test_a_model_without_usable_vectors_is_refused_by_name() -> None:
    broken = Changed(noise=float("nan"))
    with pytest.raises(EmbeddingUnavailable, match=r"character-1-3-grams.*NaN"):
        probe(broken)

"""What a store remembers of its model besides the name: a fingerprint, and what its cosines mean.

Names lie: two models called alike, or one in another quantisation, give vectors that look right and rank at random.
So a few fixed texts are embedded once, and the vectors themselves are kept and compared.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

import numpy as np

from hybridmem.embed.vectors import Checked, checked
from hybridmem.errors import EmbeddingUnavailable
from hybridmem.ports import Calibration, Embedder, Vectors

PREFIX = "probe1"
#: Short texts about unrelated things. Never change them: fingerprints of existing stores were made from these.
PROBE_TEXTS = (
    "报销单因为发票抬头不清晰被财务退回",
    "The ferry to the island leaves at half past seven",
    "她每天早上在公园里拉小提琴",
    "Photosynthesis turns sunlight into chemical energy",
    "数据库连接池的上限调到了两百",
    "He prefers his coffee without sugar",
    "这座石桥建于宋代,全长五十米",
    "Interest rates were left unchanged by the central bank",
)
#: How many of them, from the front, are kept in the fingerprint: 2 Chinese, 2 English; 4 KB at 384 dimensions.
KEPT = 4
#: Noise between machines, threads and float16 rounding stays above this cosine; another quantisation falls below it.
SAME_COSINE = 0.999
#: Smallest distance between floor and ceiling; below it a cosine says nothing and the division would explode.
SMALLEST_SPAN = 0.02


@dataclass(frozen=True, slots=True)
class Probe:
    """The fingerprint of a model (text to store, compare with ``same_model``) and the calibration of its cosines."""

    fingerprint: str
    calibration: Calibration


def probe(embedder: Embedder) -> Probe:
    """Embeds the probe texts as documents and as queries. Loads the model; 16 short texts.

    Sentence models crowd all texts into one cone, so the common direction of the documents is taken out first; then the
    floor is the median cosine of a query to the documents of other texts, the ceiling that to its own.

    :raises EmbeddingUnavailable: the model cannot be used, or gives no usable vectors (NaN, zero, wrong length).
    """
    dimension = embedder.identity.dimension
    count = len(PROBE_TEXTS)
    documents = _usable(checked(embedder.embed_documents(list(PROBE_TEXTS)), count, dimension), embedder)
    queries = np.stack(
        [_usable(checked(embedder.embed_query(text), 1, dimension), embedder)[0] for text in PROBE_TEXTS]
    )
    mean = documents.mean(axis=0)
    cosines = _centred(queries, mean) @ _centred(documents, mean).T
    own = np.eye(count, dtype=np.bool_)
    floor, ceiling = max(0.0, float(np.median(cosines[~own]))), float(np.median(cosines[own]))
    if ceiling - floor < SMALLEST_SPAN:
        ceiling = min(1.0, floor + SMALLEST_SPAN)
        floor = ceiling - SMALLEST_SPAN
    return Probe(_fingerprint(documents[:KEPT]), Calibration(floor, ceiling, mean))


def same_model(fingerprint_a: str, fingerprint_b: str) -> bool:
    """True if both were made by interchangeable models. False also if either is of another format or width."""
    if fingerprint_a == fingerprint_b:
        return True
    a, b = _vectors(fingerprint_a), _vectors(fingerprint_b)
    if a is None or b is None or a.shape != b.shape:
        return False
    cosines = (a * b).sum(axis=1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))
    return bool(cosines.min() >= SAME_COSINE)


def _centred(rows: Vectors, mean: Vectors) -> Vectors:
    moved = rows - mean
    return np.asarray(moved / np.maximum(np.linalg.norm(moved, axis=1, keepdims=True), 1e-9), dtype=np.float32)


def _usable(result: Checked, embedder: Embedder) -> Vectors:
    for reason in result.reasons:
        if reason is not None:
            raise EmbeddingUnavailable(f"{embedder.identity.describe()} gives no usable vectors: {reason}")
    return result.vectors


def _fingerprint(vectors: Vectors) -> str:
    data = np.ascontiguousarray(vectors, dtype="<f2").tobytes()
    return f"{PREFIX}:{base64.b64encode(data).decode('ascii')}"


def _vectors(fingerprint: str) -> Vectors | None:
    """The kept vectors, shape (KEPT, d), or None if this is not a fingerprint of this format."""
    prefix, _, encoded = fingerprint.partition(":")
    if prefix != PREFIX:
        return None
    try:
        values = np.frombuffer(base64.b64decode(encoded, validate=True), dtype="<f2").astype(np.float32)
    except (binascii.Error, ValueError):
        return None
    if not len(values) or len(values) % KEPT:
        return None
    rows: Vectors = values.reshape(KEPT, -1)
    return rows if np.isfinite(rows).all() and rows.any(axis=1).all() else None

"""The real model, loaded once, for the cases in which meaning decides."""

from __future__ import annotations

import pytest

from eval.embedding import SharedEmbedder
from hybridmem.embed.bundled import BundledEmbedder
from hybridmem.errors import EmbeddingUnavailable


@pytest.fixture(scope="session")
def bundled() -> SharedEmbedder:
    """The bundled model; every text is embedded once for all tests that use it."""
    embedder = BundledEmbedder()
    try:
        embedder.embed_query("能用吗 does it load")
    except EmbeddingUnavailable as error:
        pytest.skip(f"the bundled model cannot be loaded: {error}")
    return SharedEmbedder(embedder)

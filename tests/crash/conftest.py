"""A Chroma server that a test may kill."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from chroma_server import ChromaServer


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def server(data: Path) -> Iterator[ChromaServer]:
    """One that this test may kill."""
    with ChromaServer(data) as started:
        yield started

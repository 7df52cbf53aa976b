"""What all tests share: memories that need no model, a clock that stands still, and a look at every row."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import hypothesis
import numpy
import pytest
from chroma_server import ChromaServer
from damages import make

from eval.embedding import SharedEmbedder
from hybridmem import Memory
from hybridmem.embed.bundled import BundledEmbedder
from hybridmem.embed.hashing import HashingEmbedder
from hybridmem.errors import EmbeddingUnavailable
from hybridmem.ports import Clock, Embedder, Reranker, Summarizer

#: Every table whose rows are the state of a store; ``lexical`` is the index of the terms.
TABLES = (
    "setting", "namespace", "node", "revision", "task", "active", "operation", "outbox", "embedding", "embedding_next",
    "checkpoint", "session", "lexical", "data_key", "tombstone", "erasure",
)  # fmt: skip

#: With TEST_ENCRYPTED=1 every store that a test opens without saying how is an encrypted one: most tests hold for both.
MASTER_KEY = bytes(range(100, 132))
if os.environ.get("TEST_ENCRYPTED"):
    os.environ["HYBRIDMEM_KEY"] = MASTER_KEY.hex()
    _open = Memory.open

    def _open_encrypted(*arguments: Any, **named: Any) -> Memory:
        return _open(*arguments, **{"master_key": MASTER_KEY, **named})

    Memory.open = _open_encrypted  # type: ignore[method-assign, assignment]

# How long an example takes says more about the machine than about the code.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")

OpenMemory = Callable[..., Memory]
Rows = dict[str, list[tuple[Any, ...]]]


def pytest_report_header() -> str:
    return (
        f"SQLite {sqlite3.sqlite_version}, chromadb {importlib.metadata.version('chromadb')}, numpy {numpy.__version__}"
    )


class SteerableClock:
    """Stands still until it is told to go on."""

    def __init__(self) -> None:
        self.time = datetime(2026, 7, 2, 8, 0, tzinfo=timezone.utc)

    def now(self) -> datetime:
        return self.time

    def advance(self, **units: float) -> None:
        self.time += timedelta(**units)


@pytest.fixture(scope="session")
def chroma_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChromaServer]:
    """One that tests share; for those that leave it running."""
    with ChromaServer(tmp_path_factory.mktemp("server") / "data") as server:
        yield server


@pytest.fixture(scope="session")
def bundled() -> SharedEmbedder:
    """The bundled model; every text is embedded once for all tests that use it."""
    embedder = BundledEmbedder()
    try:
        embedder.embed_query("能用吗 does it load")
    except EmbeddingUnavailable as error:
        pytest.skip(f"the bundled model cannot be loaded: {error}")
    return SharedEmbedder(embedder)


@pytest.fixture
def clock() -> SteerableClock:
    return SteerableClock()


def configured(sections: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration that does nothing behind the back of a test."""
    found = {name: dict(section) for name, section in sections.items()}
    found.setdefault("index", {}).setdefault("background", False)
    found.setdefault("weights", {}).setdefault("count_uses", False)
    return found


@pytest.fixture
def memory(tmp_path: Path, clock: SteerableClock) -> Iterator[OpenMemory]:
    """Opens stores below tmp_path, closed at the end: ``memory("name", namespace=…, agent=…, retrieval={…})``."""
    opened: list[Memory] = []

    def open_(
        name: str = "store",
        *,
        namespace: tuple[str, ...] = ("default",),
        agent: str = "default",
        embedder: Embedder | None = None,
        reranker: Reranker | None = None,
        importance_estimator: Any = None,
        extractor: Any = None,
        summarizer: Summarizer | None = None,
        clock: Clock = clock,
        **sections: Any,
    ) -> Memory:
        made = Memory.open(
            tmp_path / name,
            namespace=namespace,
            agent=agent,
            config=configured(sections),
            embedder=embedder or HashingEmbedder(),
            reranker=reranker,
            importance_estimator=importance_estimator,
            extractor=extractor,
            summarizer=summarizer,
            clock=clock,
        )
        opened.append(made)
        return made

    yield open_
    for one in opened:
        one.close()


def read_rows(store: Path) -> Rows:
    with contextlib.closing(sqlite3.connect(store / "tree.db")) as conn:
        return {table: conn.execute(f"SELECT rowid, * FROM {table} ORDER BY rowid").fetchall() for table in TABLES}


@pytest.fixture
def rows() -> Callable[[Memory], Rows]:
    """Every row of every table of a memory's store, as another connection sees them."""
    return lambda memory: read_rows(memory.path)


@pytest.fixture
def refused() -> Callable[..., contextlib.AbstractContextManager[None]]:
    """``with refused(memory, Error, "message"): call()``: it raises, no row of the store has changed, and the next
    write works."""

    @contextlib.contextmanager
    def check(memory: Memory, error: type[Exception], match: str) -> Iterator[None]:
        before = read_rows(memory.path)
        with pytest.raises(error, match=match):
            yield
        assert read_rows(memory.path) == before
        after = memory.add("继续 carry on", parent="root")
        assert memory.get(after.id) == after

    return check


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The store of damages.make() and the ids of what is in it, made once; not to be written to."""
    store = tmp_path_factory.mktemp("made") / "store"
    return store, make(store)


@pytest.fixture
def store(made: tuple[Path, dict[str, str]], tmp_path: Path) -> Path:
    """A copy of it to damage."""
    return Path(shutil.copytree(made[0], tmp_path / "store"))


@pytest.fixture
def ids(made: tuple[Path, dict[str, str]]) -> dict[str, str]:
    """Which ids its memories have."""
    return made[1]

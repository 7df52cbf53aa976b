"""Vectors that were computed before, on disk: one SQLite file, so that a repeated experiment embeds nothing again."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from hybridmem.errors import HybridMemError
from hybridmem.ports import EmbedderIdentity, Vectors

#: Where the command line keeps it; not under version control.
FILE = Path(__file__).resolve().parent / "runs" / "cache" / "embeddings.db"

#: Seconds to wait for another experiment that writes to the same file.
_PATIENCE = 30.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS vector (
    model TEXT NOT NULL,   -- the whole identity of the model as JSON: another revision is another model
    kind TEXT NOT NULL,    -- document or query: some models embed the same text differently as each
    text BLOB NOT NULL,    -- SHA-256 of the text
    value BLOB NOT NULL,   -- float32, as the model gave it
    PRIMARY KEY (model, kind, text)
) WITHOUT ROWID
"""


class VectorCache:
    """A file of vectors, by model, kind and text. Several processes may use it; one thread at a time may in each.

    :raises HybridMemError: the file cannot be opened, read or written. It can always be deleted.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(file, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(error) from error
        try:
            self._connection.execute("PRAGMA journal_mode = WAL")
            # The worst that a power cut can do is lose what can be computed again.
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.execute(_SCHEMA)
        except sqlite3.Error as error:
            self._connection.close()
            raise self._unusable(error) from error

    def get(self, identity: EmbedderIdentity, kind: str, texts: Sequence[str]) -> dict[str, Vectors]:
        """The vectors of those texts that are there, each of shape (d,)."""
        model = _model(identity)
        found: dict[str, Vectors] = {}
        try:
            for text in texts:
                row = self._connection.execute(
                    "SELECT value FROM vector WHERE model = ? AND kind = ? AND text = ?", (model, kind, _digest(text))
                ).fetchone()
                if row is not None:
                    found[text] = np.frombuffer(row[0], dtype=np.float32)
        except sqlite3.Error as error:
            raise self._unusable(error) from error
        return found

    def put(self, identity: EmbedderIdentity, kind: str, vectors: Iterable[tuple[str, Vectors]]) -> None:
        """Keeps the vectors of some texts, all or none."""
        model = _model(identity)
        rows = [(model, kind, _digest(text), vector.astype(np.float32).tobytes()) for text, vector in vectors]
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany("INSERT OR IGNORE INTO vector VALUES (?, ?, ?, ?)", rows)
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise self._unusable(error) from error

    def close(self) -> None:
        self._connection.close()

    def _unusable(self, error: Exception) -> HybridMemError:
        return HybridMemError(f"{self._file}: the cache of vectors cannot be used: {error}; it may be deleted")


def _model(identity: EmbedderIdentity) -> str:
    return json.dumps(asdict(identity), sort_keys=True, ensure_ascii=False)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()

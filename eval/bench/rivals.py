"""What one would use instead: Chroma's own filtered query, numpy over all vectors, a bare INSERT.

The brute force is also what the results are held against: the formulas of hybridmem.ranking, written plainly.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from eval.bench.planted import PROJECTS, Planted
from hybridmem.index import chroma
from hybridmem.ports import Calibration, Vectors
from hybridmem.ranking import MEAN_PRIOR

_COLLECTION = "bench"
_BATCH = 5_000


class FilteredChroma:
    """All vectors of a store in one Chroma collection as it comes, each with the number of its project."""

    def __init__(self, directory: Path) -> None:
        self._client = chroma.open_client(directory)
        self._collection = self._client.chroma.get_or_create_collection(
            _COLLECTION, embedding_function=None, configuration={"hnsw": {"space": "cosine"}}
        )

    def build(self, planted: Planted, tell: Callable[[int], None]) -> None:
        """Adds everything; ``tell`` hears how many at a time."""
        for project in range(PROJECTS):
            numbers, vectors = planted.project(project), planted.vectors(project)
            for start in range(0, len(numbers), _BATCH):
                part = numbers[start : start + _BATCH]
                self._collection.add(
                    ids=[str(node) for node in part],
                    embeddings=vectors[start : start + _BATCH],
                    metadatas=[{"project": project}] * len(part),
                )
                tell(len(part))

    def query(self, vector: Vectors, k: int, project: int | None) -> list[int]:
        """The numbers of the ``k`` nearest nodes, in one project or (None) in all."""
        where: Any = None if project is None else {"project": project}
        found = self._collection.query(query_embeddings=[vector], n_results=k, where=where, include=["distances"])
        return [int(one) for one in found["ids"][0]]

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> FilteredChroma:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()


class BruteForce:
    """A subtree as one matrix in memory, (n, d) in the order of the tree; ``first`` is the number of its first node."""

    def __init__(self, matrix: Vectors, first: int) -> None:
        self._matrix = matrix
        self._first = first

    def nearest(self, vector: Vectors, k: int) -> list[int]:
        """The numbers of the ``k`` nearest by plain cosine: the least that any exact search has to do."""
        scores = self._matrix @ vector
        found = np.argpartition(-scores, k)[:k]
        return [int(self._first + i) for i in found[np.argsort(-scores[found])]]

    def ranked(self, vector: Vectors, calibration: Calibration, k: int) -> tuple[list[int], list[float]]:
        """The numbers and scores of the best ``k`` by the cosine as hybridmem has it: the mean of the subtree taken out
        of all vectors (a few texts' worth of the model's own mean mixed in), between floor and ceiling of the model,
        and equal ones in the order of the tree. What is at the floor or below answers nothing, and is left out."""
        rows, query = self._matrix.astype(np.float64), vector.astype(np.float64)
        mean = (rows.sum(axis=0) + MEAN_PRIOR * calibration.mean) / (len(rows) + MEAN_PRIOR)
        rows, query = rows - mean, query - mean
        cosines = (rows @ query) / (np.linalg.norm(rows, axis=1) * np.linalg.norm(query))
        scores = np.round(np.clip((cosines - calibration.floor) / (calibration.ceiling - calibration.floor), 0, 1), 6)
        best = [i for i in np.argsort(-scores, kind="stable")[:k] if scores[i] > 0]
        return [int(self._first + i) for i in best], [float(scores[i]) for i in best]


def same(found: Sequence[int], expected: Sequence[int], scores: Sequence[float]) -> bool:
    """Whether two rankings are one; neighbours whose ``scores`` (of the expected ones) differ in the last of the six
    digits only may have changed places, since the order of additions decides there."""
    if len(found) != len(expected) or set(found) != set(expected):
        return False
    score = dict(zip(expected, scores, strict=True))
    return all(abs(score[one] - wanted) < 2.5e-6 for one, wanted in zip(found, scores, strict=True))


class BareInsert:
    """One table of one text in SQLite, one transaction per row, durable as hybridmem's default is."""

    def __init__(self, file: Path) -> None:
        self._connection = sqlite3.connect(file, isolation_level=None)
        for pragma in ("journal_mode = WAL", "foreign_keys = ON", "secure_delete = ON", "synchronous = FULL"):
            self._connection.execute(f"PRAGMA {pragma}")
        self._connection.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, content TEXT NOT NULL) STRICT")

    def insert(self, text: str) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.execute("INSERT INTO note (content) VALUES (?)", (text,))
        self._connection.execute("COMMIT")

    def close(self) -> None:
        self._connection.close()

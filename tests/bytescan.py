"""Whether anything of some words can be read in the bytes of a directory: every file below it, in every encoding."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


def forms(word: str) -> Iterator[bytes]:
    """UTF-8, UTF-16 in both orders, and as JSON escapes it."""
    for encoding in ("utf-8", "utf-16-le", "utf-16-be"):
        yield word.encode(encoding)
    yield json.dumps(word)[1:-1].encode("ascii")
    yield json.dumps(word)[1:-1].upper().replace("\\U", "\\u").encode("ascii")


def found(directory: Path, words: Iterable[str], vectors: Iterable[NDArray[np.float32]] = ()) -> list[tuple[str, str]]:
    """(file, word) of each word that is in a file; ``vectors`` are looked for by the bytes of 32 numbers."""
    wanted = [(word, form) for word in words for form in forms(word)]
    for number, vector in enumerate(vectors):
        some = np.asarray(vector, dtype="<f4")
        # As many numbers next to each other as tell it from others: those of a short text are mostly zeros.
        starts = [i for i in range(len(some) - 32) if np.count_nonzero(some[i : i + 32]) >= 3]
        if starts:
            wanted.append((f"vector {number}", some[starts[0] : starts[0] + 32].tobytes()))
    seen = []
    for file in sorted(directory.rglob("*")):
        if file.is_file():
            data = file.read_bytes()
            seen += [(str(file.relative_to(directory)), word) for word, form in wanted if form in data]
    return seen

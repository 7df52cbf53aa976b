"""What every embedder shares: making text safe to hand over, and making what comes back safe to keep. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridmem.ports import Vectors


@dataclass(frozen=True, slots=True)
class Checked:
    """The vectors of ``n`` texts after ``checked``.

    ``vectors`` has shape (n, d), float32, L2-normalised; bad rows are all zero and must not be kept.
    ``reasons`` has length n: None for a good row, else what is wrong with it.
    """

    vectors: Vectors
    reasons: tuple[str | None, ...]

    @property
    def good(self) -> NDArray[np.bool_]:
        """Mask of shape (n,): True where the row can be kept."""
        return np.array([reason is None for reason in self.reasons], dtype=np.bool_)

    @property
    def all_good(self) -> bool:
        """True if no row is bad."""
        return all(reason is None for reason in self.reasons)

    def first_reason(self, start: int, end: int) -> str | None:
        """What is wrong with the first bad one of these rows; None: all are good."""
        return next((reason for reason in self.reasons[start:end] if reason is not None), None)


def checked(vectors: Any, n: int, dimension: int) -> Checked:
    """Turns whatever an embedder returned into float32 L2-normalised rows; a bad row never spoils the others.

    :param vectors: an array of any real dtype and shape (n, d), a list of rows, or one row of shape (d,) when n is 1.
    :param n: number of texts that were embedded, ≥ 0.
    :param dimension: width d that every row must have, ≥ 1.
    """
    rows, problem = _rows(vectors, n)
    if problem is not None:
        return Checked(np.zeros((n, dimension), dtype=np.float32), (problem,) * n)
    result = np.zeros((n, dimension), dtype=np.float32)
    reasons: list[str | None] = []
    for position, row in enumerate(rows):
        unit, reason = _unit(row, dimension)
        if unit is not None:
            result[position] = unit
        reasons.append(reason)
    return Checked(result, tuple(reasons))


def _rows(vectors: Any, n: int) -> tuple[Sequence[Any], str | None]:
    try:
        rows = list(vectors)
    except TypeError:
        return [], f"the embedder returned {type(vectors).__name__} instead of vectors"
    if n == 1 and rows and all(np.ndim(item) == 0 for item in rows):
        rows = [rows]
    if len(rows) != n:
        return [], f"the embedder returned {len(rows)} vectors for {n} texts"
    return rows, None


def _unit(row: Any, dimension: int) -> tuple[NDArray[np.float64] | None, str | None]:
    """The row at length 1, or why it has no direction."""
    try:
        values = np.asarray(row)
    except (TypeError, ValueError):
        return None, "the vector is not a row of numbers"
    if values.dtype.kind not in "fiu":
        return None, "the vector is not a row of numbers"
    if values.shape != (dimension,):
        return None, f"the vector has shape {values.shape}, not ({dimension},)"
    wide = values.astype(np.float64)
    if not np.isfinite(wide).all():
        return None, "the vector holds NaN or infinity"
    # Scaled first: the square of a number beyond 1e±154 is infinity or zero in float64.
    largest = float(np.abs(wide).max())
    if largest == 0.0:
        return None, "the vector is all zero"
    wide = wide / largest
    return wide / np.linalg.norm(wide), None


def unit_rows(vectors: Any, n: int, dimension: int) -> Vectors:
    """``checked`` for embedders: bad rows come back as NaN, so that whoever keeps vectors sees them as bad."""
    result = checked(vectors, n, dimension)
    result.vectors[~result.good] = np.nan
    return result.vectors


def safe_text(text: str) -> str:
    """The text as a C string or JSON can carry it: NUL becomes a space, a lone surrogate U+FFFD, pairs are joined."""
    text = text.replace("\0", " ")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text

"""How sure a figure is, pure: bootstrap intervals, and the paired test of two systems on the same questions.

Figures come as columns of shape (n, m): n questions, m figures, NaN where a question says nothing about a figure.
Everything is drawn from the seed: same values, same seed, same numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hybridmem.errors import InvalidInput

Floats = NDArray[np.float64]

#: Resamples of the bootstrap: the ends of a 95 % interval then move by about 0.1 points between seeds.
BOOTSTRAP_SAMPLES = 2000
#: Random sign flips of the test; the smallest p-value that it can give is 1 / (this + 1).
FLIPS = 10_000
_LEVEL = 0.95
#: Flips drawn at a time, so that memory stays bounded: this many numbers per question.
_CHUNK = 1000


def intervals(columns: Floats, *, seed: int) -> Floats:
    """(m, 2): the 95 % percentile bootstrap interval (Efron 1979) of each column's mean, questions drawn with
    replacement; NaN for a column without a value.

    :raises InvalidInput: there are no questions.
    """
    if not len(columns):
        raise InvalidInput("an interval needs at least one value")
    drawn = _resamples(len(columns), seed)
    known = ~np.isnan(columns)
    counts = drawn @ known.astype(np.float64)
    sums = drawn @ np.where(known, columns, 0.0)
    means = np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)
    ends = np.full((columns.shape[1], 2), np.nan)
    tail = (1.0 - _LEVEL) / 2.0
    usable = known.any(axis=0)
    if usable.any():
        ends[usable] = np.nanquantile(means[:, usable], [tail, 1.0 - tail], axis=0).T
    return ends


def ratio_interval(above: Floats, below: Floats, *, seed: int) -> tuple[float, float]:
    """The 95 % percentile bootstrap interval of ``sum(above) / sum(below)``, questions drawn with replacement.

    :param above, below: (n,) each; no resample of ``below`` may add up to 0, so each is > 0.
    :raises InvalidInput: there are no questions.
    """
    if not len(above):
        raise InvalidInput("an interval needs at least one value")
    drawn = _resamples(len(above), seed)
    tail = (1.0 - _LEVEL) / 2.0
    low, high = np.quantile((drawn @ above) / (drawn @ below), [tail, 1.0 - tail])
    return float(low), float(high)


def p_values(differences: Floats, *, seed: int) -> Floats:
    """(m,) two-sided p-values of the paired sign-flip permutation test (Fisher's randomisation test).

    If two systems were alike, each question's difference could as well have had the other sign. The p-value is the
    share of random sign assignments, the observed one included, whose sum is at least as far from 0; 1 where all are
    equal.

    :param differences: (n, m) one system minus the other, question by question.
    """
    # A question without a value is a difference of 0, which no flip changes: it has no say in the test.
    known = np.nan_to_num(differences)
    observed = np.abs(known.sum(axis=0))
    # Sums of the same numbers in another order differ in their last bits.
    bar = observed - 1e-9 * np.maximum(observed, 1.0)
    as_far = np.ones(known.shape[1])
    for signs in _signs(len(known), seed):
        as_far += (np.abs(signs @ known) >= bar).sum(axis=0)
    return np.asarray(as_far / (FLIPS + 1), dtype=np.float64)


@lru_cache(maxsize=4)
def _resamples(questions: int, seed: int) -> Floats:
    """(samples, n): how often each question is in each resample."""
    generator = np.random.default_rng(seed)
    even = np.full(questions, 1.0 / questions)
    return generator.multinomial(questions, even, size=BOOTSTRAP_SAMPLES).astype(np.float64)


def _signs(questions: int, seed: int) -> Iterator[Floats]:
    generator = np.random.default_rng(seed)
    for _ in range(FLIPS // _CHUNK):
        yield generator.choice(np.array([-1.0, 1.0]), size=(_CHUNK, questions))

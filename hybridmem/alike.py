"""Which of many contents are alike, by vectors and words: numpy in, pairs and groups out. Pure, bounded work.

The likeness of two contents is the mean of the cosine of their vectors (less what all texts have in common, and never
below 0) and of the share of their terms that both have (Jaccard). Comparing n contents takes n²·d multiplications, in
blocks, and then looks at the words of no more than :data:`PARTNERS` pairs for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from hybridmem.ports import Vectors

#: Rows of a block: with 10,000 contents it takes 40 MB.
BLOCK = 1024
#: After so many that differ in something, no further one is tried: they are sorted by likeness, and a double of
#: what differs in a number stands before them.
TRIED = 4
#: Of each content so many earlier ones, those with the most similar vectors, are compared by their words.
PARTNERS = 8


@dataclass(slots=True)
class Grouped:
    """``groups``: (first, the others, the least likeness to the first); ``different``: (earlier, later, likeness, in
    what they differ). All by position, earlier ones first."""

    groups: list[tuple[int, list[int], float]] = field(default_factory=list)
    different: list[tuple[int, int, float, tuple[str, ...]]] = field(default_factory=list)


def partners(vectors: Vectors, words: Sequence[frozenset[str]], threshold: float) -> Iterator[list[int]]:
    """For each content, in order, the positions of earlier ones that it may be alike to: some with similar vectors, and
    the first with the very same words.

    :param vectors: (n, d) of length 1, or zeros where there is none: then the words alone can tell.
    """
    first_with: dict[frozenset[str], int] = {}
    count = len(words)
    for start in range(0, count, BLOCK):
        end = min(start + BLOCK, count)
        cosines = vectors[start:end] @ vectors[:end].T
        # Only earlier ones; words add one half at most, so that a lower cosine cannot be enough.
        cosines[np.arange(start, end)[:, None] <= np.arange(end)[None, :]] = -1.0
        for row in range(start, end):
            line = cosines[row - start]
            near = np.flatnonzero(line >= max(2.0 * threshold - 1.0, 1e-6))
            if len(near) > PARTNERS:
                near = near[np.argpartition(-line[near], PARTNERS)[:PARTNERS]]
            found = [int(one) for one in near]
            same = first_with.setdefault(words[row], row)
            if same != row and same not in found and words[row]:
                found.append(same)
            yield found


def likeness(one: int, other: int, vectors: Vectors, words: Sequence[frozenset[str]]) -> float:
    """In [0, 1]; by the words alone where one of the two has no vector."""
    a, b = words[one], words[other]
    shared = len(a & b) / len(a | b) if a | b else 0.0
    if not vectors[one].any() or not vectors[other].any():
        return shared
    return (max(float(vectors[one] @ vectors[other]), 0.0) + shared) / 2.0


def grouped(
    vectors: Vectors,
    words: Sequence[frozenset[str]],
    threshold: float,
    differences: Callable[[int, int], tuple[str, ...]],
) -> Grouped:
    """Groups of contents each of which is alike to the first of its group and differs from it in nothing that counts.

    :param differences: in what two contents differ that makes them two, by position; asked for pairs that are alike.
    """
    leader: dict[int, int] = {}
    members: dict[int, list[tuple[int, float]]] = {}
    found = Grouped()
    for position, near in enumerate(partners(vectors, words, threshold)):
        leader[position] = position
        tried: set[int] = set()
        alike = sorted(((likeness(position, one, vectors, words), -one) for one in near), reverse=True)
        for _, minus in alike:
            first = leader[-minus]
            if first in tried or len(tried) == TRIED:
                continue
            tried.add(first)
            how = likeness(position, first, vectors, words)
            if how < threshold:
                continue
            what = differences(first, position)
            if not what:
                leader[position] = first
                members.setdefault(first, []).append((position, how))
                break
            found.different.append((first, position, how, what))
    found.groups = [
        (first, [one for one, _ in others], min(how for _, how in others)) for first, others in sorted(members.items())
    ]
    return found

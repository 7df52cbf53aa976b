"""The shape of a tree that may not be one: where parents lead in a circle, where what is cut off could go. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence


def loops(parents: Mapping[int, int | None]) -> list[list[int]]:
    """The circles among nodes given by their parents: each as its nodes, the lowest first, each above the next one.

    Takes time and memory linear in the number of nodes, however deep they are.
    """
    found: list[list[int]] = []
    seen: dict[int, int] = {}  # node → the walk that came by first
    for start in parents:
        trail: list[int] = []
        node: int | None = start
        while node is not None and node in parents and node not in seen:
            seen[node] = start
            trail.append(node)
            node = parents[node]
        if node is not None and seen.get(node) == start:
            circle = trail[trail.index(node) :][::-1]
            lowest = circle.index(min(circle))
            found.append(circle[lowest:] + circle[:lowest])
    return sorted(found)


def homes(
    parents: Mapping[int, int | None], root: int, astray: Sequence[int], wanted: Mapping[int, int | None]
) -> Iterator[tuple[int, int | None]]:
    """Where nodes without a parent go, in an order in which each leads to the root at once: (node, parent).

    That is the parent that is wanted for it if this one leads to the root or will; of those for which none does, the
    first in ``astray`` goes right under the root, told as None, and then whatever this gives a way.

    :param parents: of all nodes, free of circles; None of those in ``astray`` and of the root.
    :param wanted: the parent that an astray node should have, where that is known.
    """
    tops = _tops(parents)
    waiting: dict[int, list[int]] = {}
    for node in astray:
        parent = wanted.get(node)
        if parent is not None:
            waiting.setdefault(tops[parent], []).append(node)
    left = dict.fromkeys(astray)
    reached = [root]
    while True:
        while reached:
            for node in waiting.get(reached.pop(), ()):
                if node in left:
                    del left[node]
                    reached.append(node)
                    yield node, wanted[node]
        if not left:
            return
        first = next(iter(left))
        del left[first]
        reached.append(first)
        yield first, None


def _tops(parents: Mapping[int, int | None]) -> dict[int, int]:
    """The topmost node above each."""
    tops: dict[int, int] = {}
    for start in parents:
        trail: list[int] = []
        node = start
        while node not in tops:
            trail.append(node)
            above = parents.get(node)
            if above is None:
                tops[node] = node
                break
            node = above
        tops.update(dict.fromkeys(trail, tops[node]))
    return tops


def levels(parents: Mapping[int, int | None], root: int) -> Iterable[list[int]]:
    """The nodes below a root, level by level, the root alone first."""
    below: dict[int, list[int]] = {}
    for node, parent in parents.items():
        if parent is not None and node != root:
            below.setdefault(parent, []).append(node)
    level = [root]
    while level:
        yield level
        level = [child for node in level for child in below.pop(node, ())]

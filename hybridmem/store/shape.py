"""The shape of a tree that may not be one: where its parents lead in a circle. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


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


def leads_to(parents: Mapping[int, int | None], start: int, goal: int) -> bool:
    """Whether going up from ``start`` ends at ``goal``; False in a circle."""
    node: int | None = start
    steps: set[int] = set()
    while node is not None and node not in steps:
        if node == goal:
            return True
        steps.add(node)
        node = parents.get(node)
    return False


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

"""The materialised paths of the tree: ``/1/57/903/``, the internal ids from the root to a node, so that a subtree is a
range of text. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def path_ids(path: str) -> list[int]:
    """The internal ids along a path, root first, the node itself last."""
    return [_number(part) for part in path.strip("/").split("/")]


def ids_on_paths(paths: Iterable[str]) -> set[int]:
    """The internal ids of the nodes that these paths of one tree lead to, and of all that encloses them.

    Time is linear in how many that are: a path is read upward as far as the first node that another has told already.
    """
    found: set[int] = set()
    for path in paths:
        end = len(path) - 1
        while end > 0:
            start = path.rfind("/", 0, end) + 1
            node = _number(path[start:end])
            if node in found:
                break
            found.add(node)
            end = start - 1
    return found


def path_below(path: str, node_id: int) -> str:
    """The path of a node right below the one with this path; the root is below '/'."""
    return path + path_segment(node_id)


def path_segment(node_id: int) -> str:
    """An id as a path segment whose text order is its number order: the count of base-36 digits, then the digits."""
    digits = ""
    number = node_id
    while number:
        number, rest = divmod(number, 36)
        digits = _DIGITS[rest] + digits
    return f"{_DIGITS[len(digits)]}{digits}/"


def path_end(path: str) -> int:
    """The internal id of the node that a path leads to."""
    return _number(path[path.rfind("/", 0, -1) + 1 : -1])


def _number(segment: str) -> int:
    return int(segment[1:], 36)

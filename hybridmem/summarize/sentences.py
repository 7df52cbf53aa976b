"""Texts cut into sentences, Chinese, English and mixed. Pure. What is cut can be put together again in any order."""

from __future__ import annotations

import re
from collections.abc import Callable

_END = re.compile(r"[。！？!?…]+[”’」』）)\"']*|\.+[”’)\"']*(?=\s|\Z)|\n+|[；;](?=\s|[\u3000-\u9fff])")
#: What a full stop after it does not end.
_ABBREVIATION = re.compile(
    r"(?:\b(?:Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|Inc|Ltd|Co|vs|etc|e\.g|i\.e|approx|No|Nr|Fig|Art|Sec|Vol|Jan|Feb|Mar|Apr|Jun|Jul"
    r"|Aug|Sept?|Oct|Nov|Dec)|\b[A-Z])\.\Z"
)
_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)


def sentences(text: str) -> list[str]:
    """The sentences of a text in order, without the blanks around them; none blank. A block of code between fences is
    one sentence; otherwise none goes on beyond the end of a line."""
    return _cut(text, _plain)


def lines(text: str) -> list[str]:
    """The lines of a text without the blanks around them; none blank. A block of code between fences is one."""
    return _cut(text, lambda part: [line.strip() for line in part.splitlines() if line.strip()])


def _cut(text: str, plain: Callable[[str], list[str]]) -> list[str]:
    found: list[str] = []
    place = 0
    for fence in _FENCE.finditer(text):
        found += [*plain(text[place : fence.start()]), fence.group().strip()]
        place = fence.end()
    return found + plain(text[place:])


def _plain(text: str) -> list[str]:
    found: list[str] = []
    start = 0
    for match in _END.finditer(text):
        if match.group().startswith(".") and _ABBREVIATION.search(text[max(start, match.end() - 12) : match.end()]):
            continue
        found.append(text[start : match.end()].strip())
        start = match.end()
    found.append(text[start:].strip())
    return [one for one in found if one.strip("。！？!?….；; ")]

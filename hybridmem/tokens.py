"""Counting tokens, and cutting text to a number of them. Pure.

:func:`token_counter` gives the real o200k tokenizer if the optional package ``bpe-openai`` is installed, else
:class:`EstimatedCounter`, which needs nothing and errs upwards, so that a budget holds for the real tokenizer too.
"""

from __future__ import annotations

import math
import re
import unicodedata
from functools import lru_cache
from typing import Any

from hybridmem.ports import TokenCounter

#: Stands at the end of a text that was cut.
MARK = "…"

# What the estimate prices as one piece. A blank before a word belongs to the word, as in the tokenizer.
_ATOM = re.compile(
    r"(?P<mixed> ?(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[A-Za-z0-9]+)|(?P<word> ?[A-Z]?[a-z]+)|(?P<capitals> ?[A-Z]+)"
    r"|(?P<digits>[0-9]{1,3})|(?P<blank>\s+)|(?P<other>.)",
    re.DOTALL,
)
#: Characters per token: of an ordinary word, and of what is no word (capitals, hashes, clusters of consonants).
_WORD, _NO_WORD = 3.5, 1.4
_VOWEL = re.compile("[aeiouy]")


class O200kCounter:
    """The tokenizer of current OpenAI models, from the optional package ``bpe-openai``. Special tokens are plain text.

    :raises ImportError: the package is not installed.
    """

    # The package refuses a million characters or 200,000 tokens at once; a character is at most four tokens.
    _PIECE = 45_000

    def __init__(self) -> None:
        import bpe_openai

        self._encoding: Any = bpe_openai.get_encoding("o200k_base")

    @property
    def name(self) -> str:
        return "o200k"

    def count(self, text: str) -> int:
        """Tokens of ``text``, summed over pieces of 45,000 characters. Lone surrogates count as U+FFFD."""
        encode = self._encoding.encode_ordinary
        return sum(len(encode(text[i : i + self._PIECE])) for i in range(0, len(text), self._PIECE))


class EstimatedCounter:
    """An upper estimate of the o200k count for real text in any language; measured on samples of each, as a multiple of
    the real count: Chinese 1.3, Japanese 1.5, mixed 1.4, English 1.6, JSON 1.7, Python 1.8, Korean 2.8, Russian 3.4.
    """

    @property
    def name(self) -> str:
        return "estimate"

    def count(self, text: str) -> int:
        """An upper estimate of the tokens of ``text``: 0 for an empty one, never more than its bytes in UTF-8."""
        total = sum(_price(match.lastgroup, match.group()) for match in _ATOM.finditer(text))
        return min(total, _utf8_length(text))


def _price(kind: str | None, atom: str) -> int:
    length = len(atom.lstrip(" "))
    if kind == "word":
        spoken = length <= 3 or _VOWEL.search(atom.lower())
        return math.ceil(length / (_WORD if spoken else _NO_WORD))
    if kind in ("mixed", "capitals"):
        return math.ceil(length / _NO_WORD)
    if kind == "digits":
        return 1
    if kind == "blank":
        return 1 + len(atom) // 8
    return _character_price(atom)


@lru_cache(maxsize=8192)
def _character_price(char: str) -> int:
    """By how common a character is: a token is at least one byte of UTF-8, and common characters have their own."""
    code = ord(char)
    if code < 0x80 or 0x3000 <= code < 0x3100 or 0xFF00 <= code < 0xFF60:
        return 1  # ASCII marks, CJK punctuation, kana, full-width forms
    if 0x4E00 <= code < 0xA000:
        return _han_price(char)
    if 0xAC00 <= code < 0xD7A4:
        return 2  # Hangul
    if 0xC0 <= code < 0x530 and char.isalpha():
        return 1  # letters of Latin, Greek and Cyrillic
    return _utf8_length(char)


def _han_price(char: str) -> int:
    """The first level of GB 2312 holds the 3,755 commonest characters; its second level and Big5 the less common."""
    try:
        return 1 if char.encode("gb2312")[0] < 0xD8 else 2
    except UnicodeEncodeError:
        pass
    try:
        char.encode("big5")
    except UnicodeEncodeError:
        return 3
    return 2


def _utf8_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


@lru_cache(maxsize=1)
def token_counter() -> TokenCounter:
    """The best counter at hand: o200k if ``bpe-openai`` is installed (``hybridmem[tokens]``), else the estimate."""
    try:
        return O200kCounter()
    except ImportError:
        return EstimatedCounter()


_SENTENCE_END = re.compile(r"[。！？!?…\n]+[”’」』）)\"']*|\.+[”’)\"']*(?=\s|\Z)")
_WORD_END = re.compile(r"(?<=\S)(?=\s)|(?<=[\u3000-\u9fff\uac00-\ud7a3\uff00-\uffef])|(?=[\u3040-\u9fff\uac00-\ud7a3])")
# At most this share of what would fit is given up to end at a sentence, or else at a word.
_GIVE_UP = 0.5


def truncate(text: str, max_tokens: int, counter: TokenCounter) -> tuple[str, bool]:
    """Cuts ``text`` to at most ``max_tokens``, the mark "…" at its end included.

    The cut is at a sentence end if one lies in the second half of what fits, else at a word boundary there, else
    between graphemes: never inside an emoji sequence, a flag, or a character with its combining marks.

    :return: (the text, whether it was cut); ("", True) if nothing fits.
    """
    # What is beyond 40 characters a token cannot fit unless it is mostly blank; not counted over and over.
    head = text[: 40 * max(max_tokens, 0) + 40]
    if counter.count(head) <= max_tokens and (len(head) == len(text) or counter.count(text) <= max_tokens):
        return text, False
    low, high = 0, len(head)
    while low < high:  # the longest prefix that fits, as if counts only grew with length
        middle = (low + high + 1) // 2
        low, high = (middle, high) if counter.count(head[:middle] + MARK) <= max_tokens else (low, middle - 1)
    end = low
    while end > 0:
        cut = head[: _good_end(head, end)].rstrip()
        if cut and counter.count(cut + MARK) <= max_tokens:
            return cut + MARK, True
        end = min(end - 1, int(end * 0.9))
    return "", True


def _good_end(text: str, end: int) -> int:
    """The best place to cut at or before ``end``."""
    start = int(end * (1 - _GIVE_UP))
    for pattern in (_SENTENCE_END, _WORD_END):
        places = [match.end() for match in pattern.finditer(text, start, min(end + 1, len(text))) if match.end() <= end]
        for place in reversed(places):
            if place > start and between_graphemes(text, place):
                return place
    return whole_end(text, end)


def whole_end(text: str, end: int) -> int:
    """The last place at or before ``end`` where ``text`` may be cut without damaging a character; 0: there is none."""
    while end > 0 and not between_graphemes(text, end):
        end -= 1
    return end


def between_graphemes(text: str, i: int) -> bool:
    """Whether ``text`` may be cut before index ``i`` without damaging what a reader sees as one character."""
    if i <= 0 or i >= len(text):
        return True
    before, after = text[i - 1], text[i]
    if before == "\u200d" or after == "\u200d" or before + after == "\r\n":
        return False
    if unicodedata.category(after)[0] == "M" or "\U0001f3fb" <= after <= "\U0001f3ff":
        return False
    if "\U000e0020" <= after <= "\U000e007f":
        return False
    if "\u1160" <= after <= "\u11ff" or ("\udc00" <= after <= "\udfff" and "\ud800" <= before <= "\udbff"):
        return False
    if not "\U0001f1e6" <= after <= "\U0001f1ff":
        return True
    flags = 0  # regional indicators pair up from the left
    while flags < i and "\U0001f1e6" <= text[i - 1 - flags] <= "\U0001f1ff":
        flags += 1
    return flags % 2 == 0

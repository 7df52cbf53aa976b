"""Long contents in pieces: an embedding model reads some 500 tokens, and one vector cannot say what a long text holds.

A short text is its own only piece. A longer one is cut into overlapping windows of even length, at sentence ends where
one is near, else between words. A node is found by its best piece and returned once. Pure.

Lengths are rough tokens (:func:`width`), the same for every model: they only have to keep a piece inside its window.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from hybridmem.tokens import between_graphemes

#: The most pieces of one text. A text too long for that many gets windows up to WIDEST times as long, which covers
#: about 57,000 rough tokens (230,000 characters of English, 57,000 of Chinese) at the default size and overlap. Of a
#: longer one the windows are spread evenly over all of it: its vectors are a sample then, its words are all indexed.
MOST = 256
WIDEST = 2

#: Characters of an emoji sequence, or of a letter with its marks, that are not cut in two.
LONGEST_GRAPHEME = 32

# Quarters of a token per character, measured on multilingual-e5-small (characters per token: English 4.2, Russian 4.2,
# Python 3.4, JSON and identifiers 1.7, Korean 1.9, Chinese 1.5, emoji 1.1) and rounded upwards, since other models have
# one token per Chinese character.
_LETTER, _OTHER, _WIDE = 1, 2, 4
_ASCII = np.full(128, _OTHER, dtype=np.int64)
_ASCII[[ord(character) for character in "abcdefghijklmnopqrstuvwxyz \t\n\r"]] = _LETTER
#: From here on a character says as much as a word: CJK, kana, Hangul, emoji.
_FIRST_WIDE = 0x2E80

_SENTENCE_END = re.compile(r"(?:[。！？!?…\n]+|\.+(?=[\s”’)\"']))[”’」』）)\"']*\s*")
_WORD_END = re.compile(r"[，；：、]+|\s+")


def width(text: str) -> int:
    """The length of a text in rough tokens, rounded up: four lower-case ASCII letters or blanks, two other characters
    below U+2E80, or one from there on make one.
    """
    return -(-int(_ends(text)[-1]) // 4) if text else 0


def pieces(text: str, size: int, overlap: int) -> list[str]:
    """The parts of a text that are embedded, in order: at most MOST, none blank, together all of it (but see MOST).

    :param size: the longest piece in rough tokens, ≥ 2; exceeded only so as not to cut an emoji sequence in two.
    :param overlap: rough tokens that neighbours share, ≥ 0 and at most half of ``size``; each of the two may give up
        half of it to begin or end with a sentence.
    :return: just ``[text]`` if it is no longer than ``size``.
    """
    if len(text) <= size:  # no character is wider than one token
        return [text]
    ends = _ends(text)
    if ends[-1] <= 4 * size:
        return [text]
    starts, length = _windows(int(ends[-1]), 4 * size, 4 * overlap)
    found = dict.fromkeys(_piece(text, ends, start, start + length, 2 * overlap) for start in starts)
    return [piece for piece in found if piece] or [text.strip()[:size]]


def last_piece(text: str, size: int) -> str:
    """What is embedded of a question: all of a short one, the last ``size`` rough tokens of a long one, from the start
    of a sentence where one is near.

    The question comes after what was pasted in front of it. A mean over everything would ask for the pasted text.
    """
    if len(text) <= size:
        return text
    ends = _ends(text)
    total = int(ends[-1])
    return text if total <= 4 * size else _piece(text, ends, total - 4 * size, total, 2 * size) or text[-size:]


def _windows(total: int, size: int, overlap: int) -> tuple[list[int], int]:
    """Where even windows over ``total`` start, and how long they are."""
    count = min(MOST, -(-(total - overlap) // (size - overlap)))
    length = min(-(-(total - overlap) // count) + overlap, WIDEST * size)
    return [round(number * (total - length) / (count - 1)) for number in range(count)], length


def _piece(text: str, ends: NDArray[np.int64], start: int, end: int, slack: int) -> str:
    """What lies between two widths, each of them moved inwards by up to ``slack`` to a good place for a cut."""
    first = _cut(text, ends, start, start + slack) if start > 0 else 0
    last = _cut(text, ends, end - slack, end) if end < ends[-1] else len(text)
    return text[first:last].strip()


def _cut(text: str, ends: NDArray[np.int64], low: int, high: int) -> int:
    """The best place for a cut between two widths: the last end of a sentence, else of a word, else of a grapheme."""
    start, end = (int(place) for place in np.searchsorted(ends, (low, high), side="right"))
    for pattern in (_SENTENCE_END, _WORD_END):
        places = [match.end() for match in pattern.finditer(text, start, end + 1)]
        for place in reversed(places):
            if start < place <= end and between_graphemes(text, place):
                return place
    # A grapheme longer than all of that: to the end of it, for the neighbour too. Endless ones are cut.
    near = (*range(end, start, -1), *range(end + 1, min(end + LONGEST_GRAPHEME, len(text)) + 1))
    return next((place for place in near if between_graphemes(text, place)), end)


def _ends(text: str) -> NDArray[np.int64]:
    """(n,) how wide a text is up to and including each character, in quarters of a token."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    beyond = np.where(codes < _FIRST_WIDE, _OTHER, _WIDE)
    quarters = np.where(codes < 128, _ASCII[np.minimum(codes, 127)], beyond)
    return np.asarray(np.cumsum(quarters), dtype=np.int64)

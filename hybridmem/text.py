"""Text at the door and text for the lexical index. Pure.

:func:`clean_text` is the one rule for strings that come in. :func:`terms` turns a content into the terms of the lexical
index, :func:`query_terms` a question into the terms to look up; both cut text the same way:

- everything is compared after NFKC and casefold; traditional and simplified Chinese are *not* converted to each other;
- English words become snowball stems, stop words go; words of other alphabets are only casefolded, diacritics stay;
- runs of Han, kana and Hangul become unigrams and overlapping bigrams, so any substring of two characters is found;
- scripts written without spaces otherwise (Thai, Lao, Khmer, Burmese) become overlapping bigrams;
- identifiers (``ERR_CONN_42``, ``/usr/bin/foo.py``, ``user@example.com``, ``2026-07-02``, ``camelCase``) are kept whole
  and in parts, numbers exactly as they stand (``3,500.00`` also as ``3500.00`` and ``3500``);
- emoji and other symbols outside ASCII are terms of one character (a flag: two).

A term is at most :data:`MAX_TERM` characters long; what is longer is cut there.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from hybridmem.errors import InvalidInput

#: The longest term in characters. Longer ones are cut, so two that agree up to here count as the same.
MAX_TERM = 128

# Letters that render as nothing: a text of these is as blank as one of spaces.
_BLANK_LETTERS = frozenset("\u034f\u115f\u1160\u2800\u3164\uffa0\ufe0e\ufe0f")

_CJK = (
    "\u1100-\u11ff\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303c\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff"
    "\u3105-\u312f\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7fb"
    "\uf900-\ufaff\U00016fe0-\U00016fe3\U0001aff0-\U0001b16f\U00020000-\U0003fffd"
)
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"

_STOP_WORDS = """
    a about above after again against all also am an and any are as at be because been before being below between
    both but by can cannot could did do does doing down during each few for from further had has have having he her here
    hers herself him himself his i if in into is it its itself just me more most my myself no nor not of off on once
    only or other our ours ourselves out over own same she should so some such than that the their theirs them
    themselves then there these they this those through to too under until up us very was we were will with would you
    your yours yourself yourselves don't doesn't didn't isn't aren't wasn't weren't can't couldn't won't wouldn't
    shouldn't haven't hasn't hadn't i'm i've i'd i'll it's that's there's let's we're they're you're what's who's
"""
_QUESTION_WORDS = "what which who whom whose when where why how please tell"
# Function words of Chinese, Japanese and Korean questions.
_CJK_FUNCTION_WORDS = """
    为什么 為什麼 原因 怎么样 怎麼樣 是不是 有没有 有沒有 能不能 会不会 會不會 可不可以 什么时候 什麼時候 什么 什麼
    怎样 怎樣 怎么 怎麼 如何 为何 為何 哪个 哪個 哪些 哪里 哪裡 哪儿 哪 谁 誰 多少 是否 请问 請問 告诉 告訴
    我们 我們 你们 你們
    他们 他們 这个 這個 那个 那個 这些 這些 那些 以及 还是 還是 或者 因为 因為 所以 可以 一下 请 請 啥 的 地 得 了 着
    吗 嗎 呢 吧 啊 呀 嘛 么 麼 是 在 和 与 與 或 及 就 都 也 还 還 又 被 把 给 給 对 對 从 從 到 这 這 那 我 你 您
    他 她 它 们 們 有 之 其 而 且 但
    ください ですか ますか でした ました です ます どうして どう なぜ どこ いつ だれ どれ
    무엇 어떻게 언제 어디 누구 은 는 을 를 의 에
"""
_STOP = frozenset(_STOP_WORDS.split())
_QUESTION = frozenset(_QUESTION_WORDS.split())
# Written in capitals these are names, not function words.
_CAPITAL_NAMES = frozenset({"IT", "US", "WHO"})
# One hiragana alone says nothing, though two of them may.
_HIRAGANA = frozenset(map(chr, range(0x3041, 0x30A0)))

_SAME = str.maketrans({"\u2010": "-", "\u2212": "-", "\u2019": "'", "\u200b": " "})
_CHUNK = re.compile(r"[\s\S]{1,1000}(?=[\x00-\x7f\u4e00-\u9fff]|\Z)|[\s\S]{1,1000}")
_FUNCTION = re.compile("|".join(sorted(_CJK_FUNCTION_WORDS.split(), key=len, reverse=True)))  # 为什么 before 什么
_NUMBER = re.compile(r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?")
_CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\x00-\x7f]+")
_SEGMENT = re.compile(r"[/\\:@#&]+")
_JOINT = re.compile(r"[-._/\\:@#&+~,]+")
_HEX = re.compile(r"[0-9a-fA-F]+")
_VERSION = re.compile(r"[vV]\d[\d.]*")
_UNSPACED_RUN = re.compile(f"[{_UNSPACED}]+")
_local = threading.local()


def clean_text(field: str, value: str) -> str:
    """The rule for every text that enters: returned as it is, except that surrogate pairs become one character.

    :param field: what the caller named the argument; it appears in the message.
    :raises InvalidInput: not a string; a NUL or half of a surrogate pair inside; nothing but whitespace, control,
        zero-width and other invisible characters.
    """
    value = whole_characters(field, value)
    if not any(_visible(char) for char in value):
        raise InvalidInput(f"{field} is blank; give it at least one visible character")
    return value


def whole_characters(field: str, value: str) -> str:
    """The rule for text inside of values, which may be blank: like :func:`clean_text` otherwise.

    :raises InvalidInput: not a string; a NUL or half of a surrogate pair inside.
    """
    if not isinstance(value, str):
        raise InvalidInput(f"{field} must be a string, not {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError:
        value = _join_surrogates(field, value)
    position = value.find("\0")
    if position >= 0:
        raise InvalidInput(f"{field} contains a NUL character at position {position}; remove it")
    return value


def _join_surrogates(field: str, value: str) -> str:
    try:
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{field} contains half of a surrogate pair at UTF-16 position {error.start // 2}; "
            "send the whole character, or replace it with U+FFFD"
        ) from None


def _visible(char: str) -> bool:
    if "!" <= char <= "~":
        return True
    return unicodedata.category(char) not in _INVISIBLE and char not in _BLANK_LETTERS


_INVISIBLE = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})


def terms(text: str) -> list[str]:
    """The terms of a content for the lexical index, in order of appearance, repeats kept (their count matters).

    Accepts any string. No term contains whitespace, control characters or surrogates. English stop words are left out,
    unless the text consists of nothing else.
    """
    found: list[str] = []
    stopped: list[str] = []
    for piece in _pieces(text):
        if piece.cjk:
            found += _grams(piece.text)
        else:
            kept, left_out = _expand(piece.text)
            found += kept
            stopped += left_out
    return found or stopped


def query_terms(text: str) -> list[str]:
    """The terms to look up for a question, in order, each once; every one of them is also in ``terms(text)``.

    Question and function words are left out in English and Chinese: 发票为什么被退回 asks for 发票, 退回, and the
    grams around them, not for 为什么. If nothing else is left, all terms of the text are returned.
    """
    found: list[str] = []
    for piece in _pieces(text):
        if piece.cjk:
            found += _content_grams(piece.text)
        else:
            found += [term for term in _expand(piece.text)[0] if term not in _QUESTION]
    return list(dict.fromkeys(found or terms(text)))


def term_weight(term: str) -> float:
    """How much a term of a question says, before how rare it is: 3 for codes, ids, paths and long numbers, else 1.

    Somebody who types one of those means that one; around it stand words that many memories share.
    """
    return 3.0 if len(term) >= 4 and any(character.isdigit() for character in term) else 1.0


class _Piece(NamedTuple):
    text: str
    cjk: bool


def _pieces(text: str) -> Iterator[_Piece]:
    for match in _scanner().finditer(normalized(text)):
        yield _Piece(match.group(), match.lastgroup == "cjk")


def normalized(text: str) -> str:
    """A text as it is compared: NFKC without the characters that only steer display.

    Case is kept, as camelCase is cut by it.
    """
    if text.isascii():
        return text
    if len(text) > 1000:  # reordering thousands of combining marks at once would take quadratic time
        text = "".join(unicodedata.normalize("NFKC", chunk) for chunk in _CHUNK.findall(text))
    else:
        text = unicodedata.normalize("NFKC", text)
    return _scanner_parts().invisible.sub("", text.translate(_SAME))


class _ScannerParts(NamedTuple):
    marks: str
    invisible: re.Pattern[str]


@lru_cache(maxsize=1)
def _scanner_parts() -> _ScannerParts:
    """Character classes that ``re`` does not know: combining marks, and format characters with variation selectors."""
    marks: list[str] = []
    hidden: list[str] = ["\ufe00-\ufe0f", "\U000e0001-\U000e01ef", "\ud800-\udfff"]
    for code in range(0xA0, 0x1F000):
        category = unicodedata.category(chr(code))
        if category[0] == "M" and not 0xFE00 <= code <= 0xFE0F:
            marks.append(chr(code))
        elif category == "Cf":
            hidden.append(chr(code))
    return _ScannerParts("".join(marks), re.compile(f"[{''.join(hidden)}]+"))


@lru_cache(maxsize=1)
def _scanner() -> re.Pattern[str]:
    """Finds, left to right: a CJK run; a word or identifier; a flag; one other character outside ASCII."""
    word = rf"(?:[^\W{_CJK}]+(?:[{_scanner_parts().marks}]+[^\W{_CJK}]*)*)"
    lead = r"(?:(?<![\w.@#$/~])(?:(?:~|\.{1,2})?/|[.@#$~]))?"
    joint = r"(?:://|::|[-._/\\:@#&+'~]|(?<=\d),(?=\d))"
    tail = r"(?:%|\+\+|#)?"
    return re.compile(
        rf"(?P<cjk>[{_CJK}]+)|(?P<word>{lead}{word}(?:{joint}{word})*{tail})"
        r"|(?P<flag>[\U0001f1e6-\U0001f1ff]{2})|(?P<symbol>[^\w\s\x00-\x7f])"
    )


def _grams(run: str) -> list[str]:
    """Unigrams and overlapping bigrams, interleaved: abc gives a, ab, b, bc, c."""
    found = []
    for i in range(len(run) - 1):
        found.append(run[i])
        found.append(run[i : i + 2])
    found.append(run[-1])
    return found


def _content_grams(run: str) -> list[str]:
    """The grams of a run that do not lie within function words; no unigram of hiragana."""
    function = bytearray(len(run))
    for match in _FUNCTION.finditer(run):
        for i in range(match.start(), match.end()):
            function[i] = 1
    found = []
    for i, char in enumerate(run):
        if not function[i] and char not in _HIRAGANA:
            found.append(char)
        if i + 1 < len(run) and not (function[i] and function[i + 1]):
            found.append(run[i : i + 2])
    return found


Expansion = tuple[tuple[str, ...], tuple[str, ...]]


def _expand(token: str) -> Expansion:
    """What one word, identifier or symbol contributes: (terms, stop words left out)."""
    return _expand_cached(token) if len(token) <= 64 else _expand_token(token)


def _expand_token(token: str) -> Expansion:
    if len(token) <= 2 and not any(char.isalnum() for char in token):
        symbol = unicodedata.category(token[0]) in {"So", "Sc", "Sm", "Sk", "Co"}
        return ((token,), ()) if symbol else ((), ())
    core = token.strip("._-/\\:@#&+'~$%,")
    if not core:
        return (), ()
    plain = _plain(core)
    if plain is not None:
        found, stopped = plain
        whole = () if token == core else (_fold(token),)
        return _cut((*whole, *found)), _cut(stopped)
    return _cut(dict.fromkeys((_fold(token), *_parts(core)))), ()


# Most words come again; the cache holds only their expansions, and lru_cache is thread safe.
_expand_cached = lru_cache(maxsize=16384)(_expand_token)


def _cut(found: Any) -> tuple[str, ...]:
    return tuple(term[:MAX_TERM] for term in found if term)


def _fold(word: str) -> str:
    return word.lower() if word.isascii() else unicodedata.normalize("NFKC", word[: 4 * MAX_TERM].casefold())


def _plain(core: str) -> Expansion | None:
    """The terms of a word without inner joints or changes of kind; None if it is an identifier."""
    letters = core.replace("'", "")
    if letters.isascii() and letters.isalpha():
        if len(_CAMEL.findall(core)) > 1 and "'" not in core:
            return None
        return _english(core)
    if letters.isascii():
        return ((core,), ()) if core.isdigit() else None
    if _UNSPACED_RUN.search(core):
        return _unspaced(core), ()
    return None if _JOINT.search(core) else (_with_elision(_fold(core)), ())


def _with_elision(folded: str) -> tuple[str, ...]:
    """l'école is also found as école."""
    if "'" not in folded:
        return (folded,)
    return (folded, *(part for part in folded.split("'") if len(part) > 1))


def _english(word: str) -> Expansion:
    folded = word.lower()
    if folded in _STOP and word not in _CAPITAL_NAMES:
        return (), (folded,)
    stem = _stem(folded.removesuffix("'s"))
    return _with_elision(stem), ()


def _stem(word: str) -> str:
    if len(word) < 3 or len(word) > MAX_TERM or word in _QUESTION:
        return word
    try:
        stemmer = _local.stemmer
    except AttributeError:  # stemmers keep state while they work: one for each thread
        import snowballstemmer

        stemmer = _local.stemmer = snowballstemmer.stemmer("english")
    return str(stemmer.stemWord(word))


def _unspaced(word: str) -> tuple[str, ...]:
    """Overlapping bigrams of a run without spaces; a single character stands for itself."""
    folded = _fold(word) if len(word) <= MAX_TERM else word.casefold()
    if len(folded) < 2:
        return (folded,)
    return tuple(folded[i : i + 2] for i in range(len(folded) - 1))


def _parts(core: str) -> Iterator[str]:
    """The parts of an identifier or number, besides the whole: path segments, then words and digits."""
    if _NUMBER.fullmatch(core):
        number = core.replace(",", "")
        yield number
        yield number.split(".")[0]
        return
    yield _fold(core)
    for segment in _SEGMENT.split(core):
        segment = segment.strip("._-")
        yield _fold(segment)
        if _VERSION.fullmatch(segment):
            yield segment[1:]
        for word in _JOINT.split(segment):
            yield from _word_parts(word)


def _word_parts(word: str) -> Iterator[str]:
    """The terms of one run of letters and digits."""
    if not word:
        return
    if not word.isascii():
        yield from _unspaced(word) if _UNSPACED_RUN.search(word) else (_fold(word),)
        return
    pieces = [word] if word.isdigit() else _CAMEL.findall(word)
    if len(pieces) == 1:
        yield from _english(word)[0] if word.isalpha() else (word.lower(),)
        return
    yield word.lower()
    if word.isalpha():
        yield _stem(word.lower())
    elif len(pieces) > 2 and _HEX.fullmatch(word):
        if len(word) > 7:
            yield word.lower()[:7]  # a hash is often quoted by its first seven digits
        return
    for piece in pieces:
        if piece.isdigit():
            yield piece
        elif len(piece) > 1:
            yield from _english(piece)[0]

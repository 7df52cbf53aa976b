"""Checks of everything that comes in through the API, before any of it reaches a store. Pure.

Each check returns the value in its kept form or raises InvalidInput naming the field, the value and what is accepted.
"""

from __future__ import annotations

import json
import math
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from itertools import islice
from pathlib import Path
from typing import Any

from hybridmem.errors import InvalidInput, shown
from hybridmem.text import clean_text, whole_characters
from hybridmem.types import Namespace

#: Bytes of UTF-8 that one content, or one node's metadata as JSON, may have.
MAX_TEXT_BYTES = 8_000_000
#: Bytes of UTF-8 that a query may have.
MAX_QUERY_BYTES = 100_000
#: Items that one call writes.
MAX_ITEMS = 100_000
#: How a time is written.
TIMES = "write 2026-12-31 or 2026-12-31T18:00:00+08:00"
#: Characters of an id, an agent's name or one segment of a namespace.
MAX_NAME = 512
#: Bytes of a path, and of each name in it: what Linux and macOS take at most.
MAX_PATH_BYTES = 4095
MAX_FILE_NAME_BYTES = 255
#: The largest whole number that SQLite keeps.
MAX_COUNT = 2**63 - 1
#: Levels of nesting in metadata and structured contents.
MAX_NESTING = 32

_TYPE = re.compile(r"[a-z][a-z0-9_-]{0,63}")


def content(value: Any) -> tuple[str, bool]:
    """Text as it is, anything structured (dict, list, number, bool) as JSON; says which of the two it was."""
    if isinstance(value, str):
        return _sized("content", clean_text("content", value)), False
    if value is None:
        raise InvalidInput("content: must not be None; give text, or a dict, list or number")
    return _sized("content", as_json("content", value)), True


def metadata(value: Mapping[str, Any] | None) -> dict[str, Any]:
    """A JSON object with text keys; a copy."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidInput(f"metadata: must be a mapping of names to values, not {type(value).__name__}")
    text = _sized("metadata", as_json("metadata", dict(value)))
    return dict(json.loads(text))


def as_json(field: str, value: Any) -> str:
    """A value as JSON text, refusing what JSON cannot hold without loss."""
    _check_json(field, value)
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=dict)  # a Mapping that is no dict
    except ValueError as error:  # a number with more digits than Python converts
        raise InvalidInput(f"{field}: cannot be kept as JSON: {error}") from error
    # Two halves of one character, as some JSON decoders leave them, become that character; single halves are refused.
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def node_type(value: Any) -> str:
    if not isinstance(value, str) or not _TYPE.fullmatch(value):
        raise InvalidInput(f"type: must be a lower-case word such as 'fact' or 'event', not {shown(value)}")
    return value


def unit(field: str, value: Any) -> float:
    """A number in [0, 1]."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:  # NaN is not either
        raise InvalidInput(f"{field}: must be a number between 0 and 1, not {shown(value)}")
    return float(value)


def flag(field: str, value: Any) -> bool:
    """True or False and nothing that passes for one: "false" must not mean yes."""
    if not isinstance(value, bool):
        raise InvalidInput(f"{field}: must be True or False, not {shown(value)}")
    return value


def count(field: str, value: Any) -> int:
    """A whole number that is not negative."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"{field}: must be a whole number, not {shown(value)}")
    if not 0 <= value <= MAX_COUNT:
        raise InvalidInput(
            f"{field}: must be 0 or more{'' if value < 0 else f', up to {MAX_COUNT}'}, not {shown(value)}"
        )
    return value


def age(field: str, value: Any) -> int:
    """A timedelta, or a number of days, ≥ 0; in microseconds."""
    if isinstance(value, bool) or not isinstance(value, (timedelta, int, float)):
        raise InvalidInput(f"{field}: must be a number of days or a timedelta, not {shown(value)}")
    try:
        found = value if isinstance(value, timedelta) else timedelta(days=value)
    except (OverflowError, ValueError):
        raise InvalidInput(f"{field}: must be a number of days that a calendar has, not {shown(value)}") from None
    if found < timedelta(0):
        raise InvalidInput(f"{field}: must not be below 0, not {shown(value)}")
    return found // timedelta(microseconds=1)


def seconds(field: str, value: Any, longest: float) -> float:
    """A number of seconds above 0, up to ``longest``."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidInput(f"{field}: must be a number of seconds, not {shown(value)}")
    if not 0.0 < value <= longest:  # NaN is neither
        raise InvalidInput(f"{field}: must be above 0 and at most {longest:g}, not {shown(value)}")
    return float(value)


def moment(field: str, value: Any) -> datetime:
    """A datetime in UTC; a naive one means UTC, an offset is converted. ISO 8601 text is read as well."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", value.strip()))
        except ValueError:
            raise InvalidInput(f"{field}: is not an ISO 8601 time: {shown(value)}; {TIMES}") from None
    if not isinstance(value, datetime):
        raise InvalidInput(f"{field}: must be a datetime or ISO 8601 text, not {shown(value)}")
    if value.tzinfo is None:
        return value.replace(tzinfo=timezone.utc)
    try:
        return value.astimezone(timezone.utc)
    except OverflowError:  # year 1 or 9999 with an offset that leads outside
        raise InvalidInput(f"{field}: {value.isoformat()} lies outside the years 1 to 9999 in UTC") from None


def optional_text(field: str, value: Any) -> str | None:
    """Text that may be left out: None and blank text both mean that nothing is said."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    return _sized(field, clean_text(field, value))


def query(value: Any) -> str:
    """What is searched for: any text that shows something, of a bounded length."""
    return _sized("query", clean_text("query", value), MAX_QUERY_BYTES, "shorten it")


def batch(field: str, value: Any) -> Iterator[Any]:
    """The items of a list or another iterable, of which a bounded number is taken."""
    if not isinstance(value, Iterable):
        raise InvalidInput(f"{field}: must be a list of mappings with 'content', not {shown(value)}")
    for position, item in enumerate(value):
        if position >= MAX_ITEMS:
            raise InvalidInput(f"{field}: has more than {MAX_ITEMS:,}; write them in several calls")
        yield item


def name(field: str, value: Any) -> str:
    """An id, an agent or a namespace segment: any text without control characters or blanks at the ends."""
    if not isinstance(value, str):
        raise InvalidInput(f"{field}: must be text, not {shown(value)}")
    text = clean_text(field, value)
    if text != text.strip() or any(unicodedata.category(character) == "Cc" for character in text):
        raise InvalidInput(f"{field}: must have no blanks at its ends and no control characters: {shown(value)}")
    if len(text) > MAX_NAME:
        raise InvalidInput(f"{field}: may have up to {MAX_NAME} characters, not {len(text)}")
    return text


def namespace(value: Any) -> Namespace:
    """A tuple of names; a plain string is refused, since ("a/b",) and ("a", "b") are different namespaces."""
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        raise InvalidInput(f'namespace: must be a tuple of names such as ("acme", "zhang-san"), not {shown(value)}')
    if len(value) > 16:
        raise InvalidInput(f"namespace: may have up to 16 segments, not {len(value)}")
    return tuple(name("namespace", segment) for segment in value)


def path(field: str, value: Any) -> Path:
    """The path of a file or a directory, as the system can be asked for it: no NUL, nothing that is no character."""
    if not isinstance(value, (str, os.PathLike)):
        raise InvalidInput(f"{field}: must be a path, not {shown(value)}")
    try:
        name = os.fsencode(value)
    except UnicodeEncodeError:
        raise InvalidInput(f"{field}: is no name of a file: {shown(str(value))}") from None
    if not name:
        raise InvalidInput(f"{field}: is empty; name a path")
    if b"\0" in name:
        raise InvalidInput(f"{field}: contains a NUL character: {shown(str(value))}")
    if len(name) > MAX_PATH_BYTES or max(map(len, name.split(b"/"))) > MAX_FILE_NAME_BYTES:
        raise InvalidInput(
            f"{field}: may have up to {MAX_PATH_BYTES} bytes, and {MAX_FILE_NAME_BYTES} between two slashes: "
            f"{shown(str(value))}"
        )
    return Path(os.fsdecode(name))


def listed(field: str, value: Any) -> list[Any]:
    """What a list, tuple or the like has in it; one text is none, nor is a mapping."""
    if isinstance(value, (str, bytes, bytearray, Mapping)) or not isinstance(value, Iterable):
        raise InvalidInput(f"{field}: must be a list such as [{shown(value)}], not one {type(value).__name__}")
    found = list(islice(value, MAX_ITEMS + 1))
    if len(found) > MAX_ITEMS:
        raise InvalidInput(f"{field}: has more than {MAX_ITEMS:,}; give them in several calls")
    return found


def patience(field: str, value: Any) -> float | None:
    """A number of seconds to wait or work at most, ≥ 0; None: without an end."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 <= value <= MAX_COUNT:
        raise InvalidInput(f"{field}: must be a number of seconds from 0, or None, not {shown(value)}")
    return float(value)


def one_of(field: str, value: Any, accepted: Sequence[str]) -> str:
    if value not in accepted:
        raise InvalidInput(f"{field}: must be one of {', '.join(accepted)}, not {shown(value)}")
    return str(value)


def _sized(field: str, text: str, most: int = MAX_TEXT_BYTES, advice: str = "store a reference instead") -> str:
    size = len(text.encode("utf-8"))
    if size > most:
        raise InvalidInput(f"{field}: has {size:,} bytes, {most:,} are accepted; {advice}")
    return text


def _check_json(field: str, value: Any) -> None:
    """Walks a value without recursion: only JSON types, text keys, finite numbers, bounded nesting."""
    todo: list[tuple[Any, int]] = [(value, 0)]
    while todo:
        item, depth = todo.pop()
        if depth > MAX_NESTING:
            raise InvalidInput(f"{field}: is nested more than {MAX_NESTING} levels deep")
        if isinstance(item, str):
            whole_characters(field, item)
        elif isinstance(item, float):
            if not math.isfinite(item):
                raise InvalidInput(f"{field}: JSON has no {item}; use None or text")
        elif isinstance(item, Mapping):
            for key in item:
                if not isinstance(key, str):
                    raise InvalidInput(f"{field}: keys must be text, not {shown(key)}")
            todo += [(part, depth + 1) for pair in item.items() for part in pair]
        elif isinstance(item, (list, tuple)):
            todo += [(part, depth + 1) for part in item]
        elif item is not None and not isinstance(item, (bool, int)):
            raise InvalidInput(f"{field}: {type(item).__name__} is not a JSON value: {shown(item)}")

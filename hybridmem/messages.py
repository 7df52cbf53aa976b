"""Raw output of agents as a list of turns: chat messages of the usual shapes, log lines, JSON lines. Pure.

Chat messages: ``{"role", "content", …}`` with the content as text or a list of parts, as OpenAI (``tool_calls``,
``function_call``, role ``tool``; items of its newer interface such as ``function_call_output``) and Anthropic (parts
``tool_use``, ``tool_result``, ``thinking``) have them. One message may give several turns: what it says, and each call.

Log lines: a time at the beginning and a level are read and kept. JSON lines: chat messages, or records of a log with
the text under one of :data:`TEXT_KEYS`. Positions count messages from 0; those of lines are the lines of the text,
from 0 as well, though errors name lines from 1 as editors do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from hybridmem.errors import InvalidInput, shown
from hybridmem.ports import Turn
from hybridmem.text import whole_characters

FORMATS = ("auto", "chat", "lines", "jsonl")
#: Where records of logs have their text, their time and their level; the first that is there counts.
TEXT_KEYS = ("message", "msg", "text", "content", "event", "log", "body")
TIME_KEYS = ("timestamp", "created_at", "time", "ts", "@timestamp", "date", "occurred_at")
LEVEL_KEYS = ("level", "severity", "levelname", "lvl")

_LEVELS = "TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL"
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_LINE = re.compile(
    r"\s*\[?(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?)\]?[ \t:|-]*"
    rf"(?:[\[(]?(?P<level>{_LEVELS})[\])]?(?=\W)[ \t:|-]*)?(?P<text>.*)",
    re.DOTALL,
)
_LEVEL = re.compile(
    rf"\s*[\[(]?(?P<level>{_LEVELS})[\])]?(?=[\s:|-])[ \t:|-]*(?P<text>.*)",
    re.DOTALL,
)
_TEXT_PARTS = ("text", "input_text", "output_text", "refusal", "summary_text")
_THOUGHT_PARTS = ("thinking", "redacted_thinking", "reasoning")
#: Keys of a message that are not kept in the metadata: they are in the turn itself, or say nothing about it.
_TAKEN = frozenset(
    {"role", "content", "name", "tool_calls", "function_call", "tool_call_id", "call_id", "type", "id", "speaker"}
    | {"is_error", "output", "arguments", "status", "refusal", "audio", "annotations", "reasoning_content", *TIME_KEYS}
)  # fmt: skip


@dataclass(slots=True)
class _Tools:
    """Which tool a call was of, by its id: results often name the id alone."""

    names: dict[str, str] = field(default_factory=dict)


def from_text(text: str, format: str) -> list[tuple[int, Any]]:
    """The messages of a text with their positions: a JSON document of them, JSON lines, or plain lines.

    :param format: one of FORMATS; auto: what the text looks like.
    :raises InvalidInput: the text is not of the format; the message names the line.
    """
    if format in ("auto", "chat"):
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            if format == "chat":
                raise InvalidInput(f"messages: is not JSON: {error}") from error
        else:
            if isinstance(document, (list, dict)):
                return list(enumerate(unwrapped(document)))
            if format == "chat":
                raise InvalidInput("messages: must be a list of messages, or an object with such a list") from None
    # Not splitlines(): U+2028 and its like are text inside JSON strings.
    lines = [(number, line.rstrip("\r")) for number, line in enumerate(text.split("\n")) if line.strip()]
    if format == "lines" or (format == "auto" and not all(line.lstrip().startswith("{") for _, line in lines[:20])):
        return [(number, line.rsplit("\r", 1)[-1]) for number, line in lines]  # what a carriage return left standing
    return [(number, _json_line(number, line)) for number, line in lines]


def unwrapped(document: Any) -> list[Any]:
    """The list of messages itself, or the one that an object has under ``messages`` (or the like); else the one
    message."""
    if isinstance(document, Mapping):
        for key in ("messages", "history", "conversation", "input"):
            if isinstance(document.get(key), list) and "role" not in document:
                return list(document[key])
        return [document]
    return list(document)


def turns(messages: Sequence[tuple[int, Any]]) -> list[Turn]:
    """What the messages say and do, in order.

    :raises InvalidInput: a message is neither text nor an object, or a field of it has a wrong type; names both.
    """
    calls = _Tools()
    return [turn for position, message in messages for turn in _turns(position, message, calls)]


def _turns(position: int, message: Any, calls: _Tools) -> Iterator[Turn]:
    where = f"messages[{position}]"
    if isinstance(message, str):
        yield _log_line(position, message)
        return
    if not isinstance(message, Mapping):
        raise InvalidInput(f"{where}: must be text or an object, not {type(message).__name__}")
    common = _common(where, position, message)
    kind = message.get("type")
    if kind in ("function_call", "tool_call", "function_call_output", "tool_result") and "role" not in message:
        yield _item(where, message, calls, common)
    elif kind in _THOUGHT_PARTS and "role" not in message:
        yield _turn(common, kind="thought", text="")
    elif "role" in message:
        yield from _chat(where, message, calls, common)
    else:
        yield _record(where, message, common)


def _chat(where: str, message: Mapping[str, Any], calls: _Tools, common: dict[str, Any]) -> Iterator[Turn]:
    role = whole_characters(f"{where}.role", _text(f"{where}.role", message["role"]))
    common = {**common, "role": role}
    parts = list(_parts(where, message, calls, common))
    said = "\n".join(turn.text for turn in parts if turn.kind == "turn" and turn.text.strip())
    others = [turn for turn in parts if turn.kind != "turn"]
    made = list(_calls(where, message, calls, common))
    if role in ("tool", "function"):
        tool = message.get("name") or calls.names.get(str(message.get("tool_call_id") or ""), "")
        yield _turn(common, kind="result", text=said, tool=str(tool), failed=message.get("is_error") is True)
        return
    if said or not (others or made):
        yield _turn(common, kind="turn", text=said)
    yield from (*others, *made)


def _parts(where: str, message: Mapping[str, Any], calls: _Tools, common: dict[str, Any]) -> Iterator[Turn]:
    content = message.get("content")
    if content is None or isinstance(content, str):
        yield _turn(common, kind="turn", text=content or str(message.get("refusal") or ""))
        return
    if isinstance(content, Mapping):
        content = [content]
    if not isinstance(content, list):
        raise InvalidInput(f"{where}.content: must be text, a list of parts or null, not {shown(content)}")
    for number, part in enumerate(content):
        at = f"{where}.content[{number}]"
        if isinstance(part, str):
            yield _turn(common, kind="turn", text=part)
        elif not isinstance(part, Mapping):
            raise InvalidInput(f"{at}: must be text or an object, not {shown(part)}")
        else:
            yield _part(at, part, calls, common)


def _part(at: str, part: Mapping[str, Any], calls: _Tools, common: dict[str, Any]) -> Turn:
    kind = part.get("type", "text" if "text" in part else None)
    if kind in _TEXT_PARTS:
        text = part.get("text", part.get("refusal"))
        return _turn(common, kind="turn", text=_text(f"{at}.text", "" if text is None else text))
    if kind == "tool_use":
        return _call(at, part.get("name"), part.get("input"), part.get("id"), calls, common)
    if kind == "tool_result":
        tool = calls.names.get(str(part.get("tool_use_id") or ""), "")
        text = _result_text(f"{at}.content", part.get("content"))
        return _turn(
            {**common, "role": "tool"}, kind="result", text=text, tool=tool, failed=part.get("is_error") is True
        )
    if kind in _THOUGHT_PARTS:
        return _turn(common, kind="thought", text="")
    return _turn(common, kind="other", text=str(kind or "unknown"))


def _calls(where: str, message: Mapping[str, Any], calls: _Tools, common: dict[str, Any]) -> Iterator[Turn]:
    given = message.get("tool_calls")
    if given is not None and not isinstance(given, list):
        raise InvalidInput(f"{where}.tool_calls: must be a list, not {shown(given)}")
    for number, call in enumerate(given or ()):
        at = f"{where}.tool_calls[{number}]"
        if not isinstance(call, Mapping):
            raise InvalidInput(f"{at}: must be an object, not {shown(call)}")
        function = call.get("function", call)
        if not isinstance(function, Mapping):
            raise InvalidInput(f"{at}.function: must be an object, not {shown(function)}")
        arguments = function.get("arguments", function.get("args"))
        yield _call(at, function.get("name"), arguments, call.get("id"), calls, common)
    legacy = message.get("function_call")
    if isinstance(legacy, Mapping):
        yield _call(f"{where}.function_call", legacy.get("name"), legacy.get("arguments"), None, calls, common)


def _call(at: str, name: Any, arguments: Any, id: Any, calls: _Tools, common: dict[str, Any]) -> Turn:
    tool = whole_characters(f"{at}.name", _text(f"{at}.name", name))
    if id is not None:
        calls.names[str(id)] = tool
    given = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False, default=str)
    return _turn(common, kind="call", text=given, tool=tool)


def _item(where: str, message: Mapping[str, Any], calls: _Tools, common: dict[str, Any]) -> Turn:
    """An item that is a call or a result by itself, outside of any message."""
    id = message.get("call_id", message.get("tool_call_id", message.get("tool_use_id", message.get("id"))))
    if message["type"] in ("function_call", "tool_call"):
        return _call(where, message.get("name"), message.get("arguments"), id, calls, {**common, "role": "assistant"})
    text = _result_text(f"{where}.output", message.get("output", message.get("content")))
    tool = str(message.get("name") or calls.names.get(str(id), ""))
    return _turn(
        {**common, "role": "tool"}, kind="result", text=text, tool=tool, failed=message.get("is_error") is True
    )


def _result_text(field: str, value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list) and all(isinstance(part, Mapping) and "type" in part for part in value):
        return "\n".join(
            _text(field, part["text"]) for part in value if part.get("type") in _TEXT_PARTS and "text" in part
        )
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{field}: cannot be kept as JSON: {error}") from error


def _record(where: str, message: Mapping[str, Any], common: dict[str, Any]) -> Turn:
    """A record of a log."""
    key = next((key for key in TEXT_KEYS if isinstance(message.get(key), str)), None)
    if key is None:
        raise InvalidInput(f"{where}: has neither 'role' nor a text under {', '.join(TEXT_KEYS)}")
    metadata = {name: value for name, value in common["metadata"].items() if name not in (key, *LEVEL_KEYS)}
    level = next((message[name] for name in LEVEL_KEYS if isinstance(message.get(name), str)), None)
    if level:
        metadata["level"] = level.lower()
    return _turn({**common, "metadata": metadata}, kind="log", text=_ANSI.sub("", message[key]))


def _log_line(position: int, line: str) -> Turn:
    plain = _ANSI.sub("", line)
    found = _LINE.fullmatch(plain) or _LEVEL.fullmatch(plain)
    if found is None:
        return Turn(position, "log", "", plain)
    given = found.groupdict()
    moment = None if given.get("time") is None else given["time"].replace(",", ".")
    metadata = {"level": given["level"].lower()} if given["level"] else {}
    return Turn(position, "log", "", given["text"], at=_moment(moment), metadata=metadata)


def _common(where: str, position: int, message: Mapping[str, Any]) -> dict[str, Any]:
    moment = next((message[key] for key in TIME_KEYS if message.get(key) is not None), None)
    named = message.get("speaker", message.get("name"))
    speaker = "" if named is None else whole_characters(f"{where}.name", _text(f"{where}.name", named))
    return {
        "position": position,
        "role": "",
        "speaker": speaker,
        "at": _moment(moment, f"{where}.timestamp"),
        "metadata": {key: value for key, value in message.items() if key not in _TAKEN},
    }


def _turn(common: Mapping[str, Any], **given: Any) -> Turn:
    return Turn(**{**common, **given})


def _moment(value: Any, field: str = "") -> datetime | None:
    """Numbers are seconds since 1970, or milliseconds where they are too large for that."""
    if value is None or isinstance(value, datetime):
        return value
    try:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return datetime.fromtimestamp(value / 1000 if abs(value) > 1e11 else value, timezone.utc)
        text = re.sub(r"[zZ]$", "+00:00", str(value).strip())
        text = re.sub(r"\.(\d{1,9})", lambda match: f".{match.group(1)[:6]:<06}".replace(" ", "0"), text, count=1)
        return datetime.fromisoformat(re.sub(r"([+-]\d\d)(\d\d)$", r"\1:\2", text))
    except (ValueError, OverflowError, OSError):
        if not field:
            return None  # only looked like a time
        raise InvalidInput(f"{field}: is not a time: {shown(value)}") from None


def _text(field: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"{field}: must be text, not {shown(value)}")
    return value


def _json_line(number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"line {number + 1}: is not JSON: {error}") from error

"""What goes to stdout and stderr: one JSON document or text for people; errors in one line; nothing that can fail.

stdout carries the result alone. Logs, warnings, progress and errors go to stderr. rich is imported only to print.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console

#: Columns when stdout is not a terminal and COLUMNS is not set.
DEFAULT_WIDTH = 100
#: What JSON takes as it is, and many readers of lines for the end of one.
_LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}
#: Direction overrides let a text reorder what is printed around it; they are shown like control characters.
_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True)
class Reply:
    """What a command hands back: ``data`` for ``--json``, ``show`` for people, ``warnings`` for stderr.

    ``exit_code`` is not 0 where the command did its work and what it has to say is bad news; ``data`` then says
    ``"ok": false`` itself.
    """

    data: Mapping[str, Any]
    show: Callable[[Console], None]
    warnings: Sequence[str] = ()
    exit_code: int = 0


#: What is said if nothing is held about a user; a name that is misspelt looks the same.
NOBODY = (
    "nothing here is of the user {!r}: one name of a namespace, as zhang-san of acme/zhang-san, or who said a memory"
)


def send(reply: Reply, as_json: bool) -> None:
    """Prints a reply; with ``as_json`` as the one document on stdout."""
    if as_json:
        send_json({"ok": True, **reply.data})
        return
    for warning in dict.fromkeys(reply.warnings):
        say_error("warning", warning, "yellow")
    reply.show(console())


def send_json(document: Mapping[str, Any]) -> None:
    """One line of JSON in UTF-8; on a stream of another encoding all in ASCII, which is the same JSON."""
    encoding = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "").replace("_", "")
    text = json.dumps(document, ensure_ascii=encoding != "utf8", allow_nan=False)
    sys.stdout.write(text.translate(_LINE_ENDS) + "\n")


def send_failure(kind: str, message: str, exit_code: int, as_json: bool) -> None:
    """Says in one line on stderr what went wrong, and in the document on stdout if one was asked for."""
    if as_json:
        send_json({"ok": False, "error": {"type": kind, "message": message, "exit_code": exit_code}})
    say_error("error", message, "bold red")


def say_error(label: str, message: str, style: str) -> None:
    """``label: message`` on stderr in one line, coloured on a terminal."""
    line = f"{label}: {one_line(message)}"
    if not _is_terminal(sys.stderr):
        print(line, file=sys.stderr)
        return
    from rich.text import Text

    console(sys.stderr).print(Text.assemble((f"{label}:", style), line[len(label) + 1 :]), soft_wrap=True)


def console(stream: TextIO | None = None, *, quiet: bool = False) -> Console:
    """A rich console on a stream (None: stdout) that takes every text as it is: no markup, no emoji codes."""
    from rich.console import Console

    target = stream if stream is not None else sys.stdout
    width = shutil.get_terminal_size((DEFAULT_WIDTH, 24)).columns
    return Console(file=target, width=width, markup=False, highlight=False, emoji=False, quiet=quiet)


def is_ascii(target: Console) -> bool:
    """Whether box characters cannot be shown there."""
    return not target.encoding.lower().startswith("utf")


def make_safe(stream: TextIO) -> None:
    """From now on the stream writes ``\\uXXXX`` for what its encoding lacks instead of failing."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")


def visible(text: str) -> str:
    """The text with control characters and direction overrides written out, so that none of them reaches a terminal."""
    return _UNSAFE.sub(lambda match: match.group().encode("unicode_escape").decode("ascii"), text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """The text on one line, safe to print."""
    return visible(" ".join(text.split()))


def cut(text: str, width: int) -> str:
    """At most ``width`` terminal cells of a text, on one line, never ending inside what is seen as one character."""
    from rich.cells import cell_len

    from hybridmem.tokens import MARK, between_graphemes

    # Enough for any text that is not made of combining marks, and the cost does not grow with a content of megabytes.
    head = text[: 8 * max(width, 1) + 64]
    line = one_line(head)
    if len(head) == len(text) and cell_len(line) <= width:
        return line
    used = start = end = 0
    for i in range(1, len(line) + 1):
        if not between_graphemes(line, i):
            continue
        used, start = used + cell_len(line[start:i]), i
        if used + cell_len(MARK) > width:
            break
        end = i
    return line[:end].rstrip() + MARK


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


def silence(stream: TextIO) -> None:
    """After a closed pipe: what is still buffered goes nowhere, so that the interpreter can end quietly."""
    try:
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, stream.fileno())
        os.close(descriptor)
    except (OSError, ValueError):  # not a real file: nothing is buffered that could fail
        pass


class LogLines(logging.Handler):
    """Prints the log of hybridmem (warnings and worse) as lines on stderr."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        say_error(record.levelname.lower(), record.getMessage(), "yellow")

"""Every error of hybridmem, in one tree. Each class says what happened and carries the exit code of the CLI.

::

    HybridMemError                1   anything below
    ├── InvalidInput              2   an argument is wrong (also a ValueError)
    │   └── ConfigError           3   a configuration file, key or value is wrong
    ├── NotFound                  4   no such node, task, checkpoint or store (also a LookupError)
    ├── StoreBusy                 5   another process held the write lock longer than the configured wait
    ├── Conflict                  6   the node changed since the caller read it; carries both versions
    ├── TaskClaimed              14   another run of an agent works on that task
    ├── StoreDamaged              7   the files of the store are not what they should be
    │   └── StoreTooNew           7   written by a later version of hybridmem
    ├── EmbeddingUnavailable      8   no embedding model can be loaded or reached
    │   └── EmbeddingMismatch     8   the store was built with another embedding model
    ├── IndexUnavailable          9   the vector index cannot be used; everything else goes on
    ├── StoreFull                10   no room to write: disk full, or the directory is read-only
    ├── StoreClosed              11   the handle was closed, or carried over a fork
    ├── RerankerUnavailable      12   the configured reranker cannot be loaded
    ├── EncryptionError          16   an encrypted store without its master key, or one that is not encrypted
    ├── AccessDenied             17   what is shared with this namespace is not shared for that
    └── SummarizerUnavailable    15   the configured summariser cannot be reached; consolidate() reports it and goes on
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

#: Characters of a message, and of one value in it. What comes in may be megabytes; what is said about it may not.
MAX_MESSAGE = 4_000
MAX_SHOWN = 200


class HybridMemError(Exception):
    """The base of all errors raised on purpose by hybridmem. A message keeps its beginning and its end."""

    exit_code = 1

    def __init__(self, message: str = "") -> None:
        super().__init__(shortened(message))


class InvalidInput(HybridMemError, ValueError):
    """An argument has a wrong type or value; the message names the field, the value and what is accepted."""

    exit_code = 2


class ConfigError(InvalidInput):
    """A configuration file cannot be read, or a key or value in it is wrong."""

    exit_code = 3


class NotFound(HybridMemError, LookupError):
    """A node, task, checkpoint or store that was named does not exist (in this namespace)."""

    exit_code = 4


class StoreBusy(HybridMemError):
    """Another writer held the store longer than ``store.busy_timeout_seconds``, or a signal handler tried to write
    while its own thread was in the middle of a transaction; nothing was written, try again."""

    exit_code = 5


class Conflict(HybridMemError):
    """The node is at another version than the caller expected; nothing was written."""

    exit_code = 6

    def __init__(self, message: str, *, expected: int, actual: int) -> None:
        super().__init__(message)
        self.expected = expected
        self.actual = actual


class TaskClaimed(HybridMemError):
    """Another run of ``agent`` has claimed the task, at the latest ``until`` (UTC) then; nothing was written."""

    exit_code = 14

    def __init__(self, message: str, *, agent: str, until: datetime) -> None:
        super().__init__(message)
        self.agent = agent
        self.until = until


class StoreDamaged(HybridMemError):
    """A file of the store is missing, truncated, or not a hybridmem store at all."""

    exit_code = 7


class StoreTooNew(StoreDamaged):
    """The store was written by a later version of hybridmem; upgrade before opening it."""


class EmbeddingUnavailable(HybridMemError):
    """No embedding model can be loaded or reached; writing, lexical and tree search still work."""

    exit_code = 8


class EmbeddingMismatch(EmbeddingUnavailable):
    """The configured embedding model is not the one the store was built with."""


class IndexUnavailable(HybridMemError):
    """The vector index cannot be opened or used; memory is safe in SQLite and is searched exactly instead."""

    exit_code = 9


class StoreFull(HybridMemError):
    """The store cannot be written: the disk is full or the directory is read-only. Nothing is half done."""

    exit_code = 10


class StoreClosed(HybridMemError):
    """The handle was closed, or was inherited by a forked child; open the store again."""

    exit_code = 11


class RerankerUnavailable(HybridMemError):
    """``retrieval.reranker`` names a model that cannot be loaded; leave it out, and searching works without it."""

    exit_code = 12


class SummarizerUnavailable(HybridMemError):
    """The model of ``consolidation.summarizer`` cannot be reached or refuses; nothing is changed."""

    exit_code = 15


class EncryptionError(HybridMemError):
    """The store is encrypted, and no master key is given or not the one that wraps its data keys; or encryption is
    asked for and the store is not encrypted. Nothing has changed. No message ever shows a key, only fingerprints."""

    exit_code = 16


class AccessDenied(HybridMemError):
    """A memory that another namespace shares was to be changed without the right to; the message says which right is
    missing, and who can give it. What is not shared at all is not found instead."""

    exit_code = 17


def shown(value: Any) -> str:
    """A value from outside as a message shows it: its repr, shortened; its type where Python cannot write
    one (too deep, too many digits)."""
    if isinstance(value, (str, bytes)) and len(value) > MAX_SHOWN:
        return f"{value[:MAX_SHOWN]!r}… ({len(value):,} {'characters' if isinstance(value, str) else 'bytes'})"
    try:
        return shortened(repr(value), MAX_SHOWN)
    except Exception:  # whatever a repr of somebody else raises
        return f"a value of type {type(value).__name__}"


def shortened(text: str, most: int = MAX_MESSAGE) -> str:
    """The text, or the beginning and the end of a longer one, in about ``most`` characters."""
    if len(text) <= most:
        return text
    return f"{text[: most * 2 // 3]} … {text[-most // 5 :]} ({len(text):,} characters)"

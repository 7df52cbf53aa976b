"""Finding and reading the public files, plain or gzipped."""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hybridmem.errors import InvalidInput, NotFound


def within(path: Path, folder: str) -> Path:
    """``path/folder`` when there is such a folder, else ``path``: one ``--data`` may hold several data sets."""
    below = path / folder
    return below if below.is_dir() else path


def find(path: Path, patterns: Sequence[str], whence: str) -> Path:
    """The one file meant by ``path``: itself, or the only one in that folder that matches one of ``patterns``.

    :param whence: where a user gets the data, for the message.
    :raises NotFound: there is none.
    :raises InvalidInput: there are several.
    """
    found = find_all(path, patterns, whence)
    if len(found) > 1:
        names = ", ".join(file.name for file in found)
        expected = " or ".join(patterns)
        raise InvalidInput(f"{path}: several files match {expected}: {names}. Name one of them instead of the folder.")
    return found[0]


def find_all(path: Path, patterns: Sequence[str], whence: str) -> list[Path]:
    """All files meant by ``path``, by name: itself, or those in that folder that match one of ``patterns``.

    :param whence: where a user gets the data, for the message.
    :raises NotFound: there is none.
    """
    expected = " or ".join(patterns)
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise NotFound(f"{path}: there is no such folder or file; expected {expected}. {whence}")
    found = sorted({file for pattern in patterns for file in path.glob(pattern) if file.is_file()})
    if not found:
        raise NotFound(f"{path}: this folder holds no {expected}. {whence}")
    return found


def read_json(path: Path) -> tuple[Any, str]:
    """The parsed content of a ``.json`` or ``.json.gz`` file, and the SHA-256 of the file as it lies on the disk.

    :raises InvalidInput: it cannot be read or is not JSON.
    """
    text, checksum = _read(path, "JSON")
    try:
        return json.loads(text), checksum
    except ValueError as error:
        raise InvalidInput(f"{path}: cannot be read as {_kind(path, 'JSON')}: {error}") from error


def read_json_lines(path: Path) -> tuple[list[Any], str]:
    """Like :func:`read_json` for files with one JSON document a line; blank lines are passed over.

    :raises InvalidInput: it cannot be read, or a line is not JSON; the message has its number.
    """
    text, checksum = _read(path, "JSON lines")
    documents: list[Any] = []
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            if line.strip():
                documents.append(json.loads(line))
        except ValueError as error:
            raise InvalidInput(
                f"{path}: line {number} cannot be read as {_kind(path, 'JSON')}, one document a line: {error}"
            ) from error
    return documents, checksum


def joint_checksum(checksums: Sequence[str]) -> str:
    """One for several files: the SHA-256 of theirs, in hexadecimal one after the other; for one file its own."""
    return checksums[0] if len(checksums) == 1 else hashlib.sha256("".join(checksums).encode()).hexdigest()


@contextmanager
def reading(file: Path, part: str, name: str, whence: str) -> Iterator[None]:
    """Says which ``part`` of which file is not as the data set ``name`` has it, instead of a bare KeyError.

    :raises InvalidInput: in place of KeyError, IndexError, TypeError, AttributeError and ValueError.
    """
    try:
        yield
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        reason = f"no key {error}" if isinstance(error, KeyError) else str(error)
        raise InvalidInput(f"{file}: {part} is not as {name} has it: {reason}. {whence}") from error


def _read(path: Path, form: str) -> tuple[bytes, str]:
    """The bytes of a file, unzipped when its name ends in ``.gz``, and the checksum of the file as it lies there."""
    try:
        raw = path.read_bytes()
        return gzip.decompress(raw) if path.suffix == ".gz" else raw, hashlib.sha256(raw).hexdigest()
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidInput(f"{path}: cannot be read as {_kind(path, form)}: {error}") from error


def _kind(path: Path, form: str) -> str:
    return f"{'gzipped ' * (path.suffix == '.gz')}{form}"

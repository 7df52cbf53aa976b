"""Finding and reading the public files, plain or gzipped."""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hybridmem.errors import InvalidInput, NotFound


def find(path: Path, patterns: Sequence[str], whence: str) -> Path:
    """The one file meant by ``path``: itself, or the only one in that folder that matches one of ``patterns``.

    :param whence: where a user gets the data, for the message.
    :raises NotFound: there is none.
    :raises InvalidInput: there are several.
    """
    expected = " or ".join(patterns)
    if path.is_file():
        return path
    if not path.is_dir():
        raise NotFound(f"{path}: there is no such folder or file; expected {expected}. {whence}")
    found = sorted({file for pattern in patterns for file in path.glob(pattern) if file.is_file()})
    if not found:
        raise NotFound(f"{path}: this folder holds no {expected}. {whence}")
    if len(found) > 1:
        names = ", ".join(file.name for file in found)
        raise InvalidInput(f"{path}: several files match {expected}: {names}. Name one of them instead of the folder.")
    return found[0]


def read_json(path: Path) -> tuple[Any, str]:
    """The parsed content of a ``.json`` or ``.json.gz`` file, and the SHA-256 of the file as it lies on the disk.

    :raises InvalidInput: it cannot be read or is not JSON.
    """
    try:
        raw = path.read_bytes()
        text = gzip.decompress(raw) if path.suffix == ".gz" else raw
        return json.loads(text), hashlib.sha256(raw).hexdigest()
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise InvalidInput(f"{path}: cannot be read as {'gzipped ' * (path.suffix == '.gz')}JSON: {error}") from error

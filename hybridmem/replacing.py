"""A file that takes the place of another only when it is whole and on disk, and otherwise leaves nothing behind."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from hybridmem.errors import InvalidInput, StoreFull

T = TypeVar("T")
#: Ends the name of a file that is being written; its beginning is a dot and the name (or the first part of it) that
#: the file is to get.
UNFINISHED = ".unfinished"
#: Characters of a name that its unfinished file is named after: with the rest it must not be longer than a name may be.
MAX_BEGINNING = 40
#: What SQLite may make beside a database of that name.
COMPANIONS = ("", "-journal", "-wal", "-shm")


def replace_file(file: Path, write: Callable[[Path], T], *, check: Callable[[Path, T], object] | None = None) -> T:
    """Has ``write`` fill a temporary file beside ``file`` and puts that in its place; returns what ``write`` returned.

    The temporary file exists when ``write`` is called, empty and with mode 0600, and is gone at the end, also after an
    error or an interrupt at any moment. A symbolic link stays one, and its target is replaced.

    :param check: called with the finished file, once it is on disk, and what ``write`` returned; what it raises
        prevents the rename.
    :raises InvalidInput: the target is a directory, a device or the like, or its directory does not exist.
    :raises StoreFull: the file cannot be written.
    """
    target = Path(os.path.realpath(file))
    if target.exists() and not target.is_file():
        raise InvalidInput(f"file: {file} is not a regular file; name one that can be replaced")
    if not target.parent.is_dir():
        raise InvalidInput(f"file: the directory {target.parent} does not exist")
    # The name is known before the file is made: an interrupt right after that finds it.
    temporary = target.with_name(f".{target.name[:MAX_BEGINNING]}.{secrets.token_hex(4)}{UNFINISHED}")
    try:
        temporary.touch(mode=0o600, exist_ok=False)
        result = write(temporary)
        sync(temporary)
        if check is not None:
            check(temporary, result)
        temporary.replace(target)
        sync(target.parent)
        return result
    except OSError as error:
        remove_unfinished(temporary)
        raise StoreFull(f"{file}: cannot be written: {error.strerror}") from error
    except BaseException:
        try:
            remove_unfinished(temporary)
        except BaseException:
            remove_unfinished(temporary)  # interrupted: goes on where it was
            raise
        raise


def sync(path: Path) -> None:
    """Returns when a file, or what a directory says of its files, is on disk. :raises OSError: it cannot be."""
    if path.is_dir() and sys.platform == "win32":
        return  # there a directory cannot be opened, and need not
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_unfinished(temporary: Path) -> None:
    """Removes an unfinished file with what SQLite left beside it."""
    for companion in COMPANIONS:
        temporary.with_name(temporary.name + companion).unlink(missing_ok=True)

"""Where the store of a namespace is: all of them share one (the default), or each has a directory of its own.

``separate``: below the path that is opened lie one directory for each namespace and :data:`MARKER`, which says so. Each
of the directories is a whole store with its own database, log, index, lock and backups, and holds that one namespace;
nothing of one is ever read or written by a handle of another. Its name is readable as far as file systems allow, and
ends in a hash of the namespace, which alone decides: names that differ in case, width, normalisation or separators
have different directories, also where the file system takes two names for one.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import sys
import unicodedata
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from hybridmem.errors import ConfigError, InvalidInput, NotFound, StoreDamaged
from hybridmem.replacing import replace_file
from hybridmem.store import points, snapshot, swap
from hybridmem.store.connect import Connections
from hybridmem.store.directory import DATABASE_NAME, MARKER, make_private
from hybridmem.types import Namespace

#: The configuration key that decides, for messages.
KEY = "store.layout"
#: Hexadecimal digits of the hash (SHA-256, 128 bits of it), and bytes of the readable part.
DIGITS = 32
READABLE = 80


@dataclass(frozen=True, slots=True)
class Listed:
    """A namespace of a store, where it is, and how many memories it has in whatever state."""

    namespace: Namespace
    directory: Path
    nodes: int


def place(path: Path, namespace: Namespace, layout: str, *, create: bool) -> Path:
    """The directory of the store that a namespace is in.

    :param layout: ``shared`` or ``separate``, as configured. :param create: mark a directory that is still free.
    :raises ConfigError: the directory is of the other layout. NotFound: there is nothing, and ``create`` is False.
    """
    if is_separate(path.parent) and _has_hash(path.name):
        raise ConfigError(
            f"{path}: is the directory of one namespace; open {path.parent} with {KEY}: separate and that namespace"
        )
    if layout == "shared":
        if is_separate(path):
            raise ConfigError(f"{path}: has a directory for each namespace; open it with {KEY}: separate")
        return path
    if (path / DATABASE_NAME).exists() or swap.is_pending(path):
        raise ConfigError(
            f"{path}: is one store that all of its namespaces share; open it with {KEY}: shared (to change that, "
            "export each namespace, and import it into a new directory)"
        )
    if not is_separate(path):
        if not create:
            raise NotFound(f"path: there is no store at {path}; writing to it makes one")
        make_private(path)
        replace_file(path / MARKER, _mark)
    found = directory_of(path, namespace)
    if not create and not found.is_dir():
        raise NotFound(f"namespace: there is no {'/'.join(namespace)!r} in this store; writing to it makes one")
    return found


def directory_of(path: Path, namespace: Namespace) -> Path:
    """The directory of a namespace below a path that has one for each, whether it is there or not."""
    expected = path / directory_name(namespace)
    if expected.is_dir():
        return expected
    # Made where the encoding of file names is another one: the readable part may differ, the hash does not.
    end = f"-{_digest(namespace)}"
    return next((one for one in stores(path) if one.name.endswith(end)), expected)


def directory_name(namespace: Namespace) -> str:
    """Letters and digits of the names, the rest as ``-``, and the hash: no separator, no dot, never empty."""
    plain = unicodedata.normalize("NFC", "-".join(namespace))
    words = "".join(character if character.isalnum() else " " for character in plain).split()
    encoding = sys.getfilesystemencoding()
    readable = "-".join(words).encode(encoding, "ignore")[:READABLE].decode(encoding, "ignore")
    return f"{readable or 'x'}-{_digest(namespace)}"


def is_separate(path: Path) -> bool:
    """Whether there is a directory for each namespace below this one."""
    return (path / MARKER).is_file()


def is_store(path: Path) -> bool:
    """Whether there is a store of either layout."""
    return (path / DATABASE_NAME).is_file() or swap.is_pending(path) or is_separate(path)


def stores(path: Path) -> list[Path]:
    """The directories of stores: those below a path of the layout ``separate``, by name; else the path itself."""
    if not is_separate(path):
        return [path]
    return sorted(one for one in path.iterdir() if _has_hash(one.name) and one.is_dir() and not one.is_symlink())


def refuse_foreign(target: Path, namespaces: Iterable[Namespace]) -> None:
    """Whether these namespaces may be put into a directory, which is then to be a store.

    :raises InvalidInput: it is that of another namespace, or the one above those of all namespaces.
    """
    if is_separate(target):
        raise InvalidInput(
            f"directory: {target} has a directory for each namespace ({KEY}: separate); name that of the namespace in "
            "the backup, or an empty one"
        )
    is_anothers = any(not target.name.endswith(f"-{_digest(one)}") for one in namespaces)
    if is_separate(target.parent) and _has_hash(target.name) and is_anothers:
        raise InvalidInput(
            f"directory: {target} is that of another namespace than the backup has ({KEY}: separate); name that of the "
            "same namespace, or an empty directory elsewhere"
        )


def refuse_others(connections: Connections, namespace: Namespace) -> None:
    """A store of the layout ``separate`` holds no other namespace, say after a foreign backup was restored into it.

    :raises StoreDamaged: it does; whose they are is not told.
    """
    with connections.read() as tx:
        others = set(points.namespaces(tx).values()) - {namespace}
    if others:
        raise StoreDamaged(
            f"{connections.directory}: is to hold one namespace alone, and {len(others)} others are in it; "
            "restore a backup of this namespace, or move the directory away"
        )


def listed(path: Path) -> list[Listed]:
    """Every namespace of a store of either layout, in the order of names; nothing is changed or waited for.

    :raises NotFound: there is no store. StoreDamaged: a database cannot be read.
    """
    if not is_store(path):
        raise NotFound(f"path: there is no store at {path}")
    found: list[Listed] = []
    for directory in stores(path):
        if not (directory / DATABASE_NAME).exists() and is_separate(path):
            continue  # being made, or erased
        try:
            with closing(snapshot.take(directory)) as tx:
                problem, _ = snapshot.header(tx)
                names = {} if problem else points.namespaces(tx)
                found += [Listed(names[one], directory, points.node_count(tx, one)) for one in names]
        except sqlite3.Error as error:
            raise StoreDamaged(f"{directory / DATABASE_NAME}: {error}; see: hybridmem doctor") from error
        if problem:
            raise StoreDamaged(f"{directory / DATABASE_NAME}: {problem}; see: hybridmem doctor")
    return sorted(found, key=lambda one: one.namespace)


def _mark(file: Path) -> None:
    file.write_text('{"hybridmem": "one store for each namespace", "version": 1}\n', encoding="utf-8")


def _digest(namespace: Namespace) -> str:
    return hashlib.sha256(json.dumps(list(namespace)).encode()).hexdigest()[:DIGITS]


def _has_hash(name: str) -> bool:
    _, dash, end = name.rpartition("-")
    return bool(dash) and len(end) == DIGITS and set(end) <= set("0123456789abcdef")

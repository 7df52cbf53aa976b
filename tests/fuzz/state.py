"""What lies in the directory of an example, to be compared: rows of its store, files, and words in its bytes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from hybridmem.store.directory import DATABASE_NAME, MARKER, OWN, VECTORS
from hybridmem.store.layout import stores

#: Tables that say who has opened the store, and who has done or tried what.
NO_STATE = ("session", "audit", "audit_head")

Rows = dict[str, list[tuple[Any, ...]]]


def rows_of(path: Path) -> Rows:
    """Every row of the store at a path, or of each that lies below it, but of those that hold no memory."""
    found: Rows = {}
    for store in stores(path):
        if (store / DATABASE_NAME).is_file():
            rows = rows_of_one(store)
            found |= {f"{store.name}: {name}": some for name, some in rows.items() if rows["node"] or store == path}
    return found


def rows_of_one(store: Path) -> Rows:
    """Every row of every table but the parts of the word index, which ``lexical`` shows. Without those of namespaces
    that hold no memory: to open one makes it, and what is refused afterwards leaves it empty."""
    used = "(SELECT namespace_id FROM node WHERE depth > 0)"
    nodes = f"(SELECT id FROM node WHERE namespace_id IN {used})"
    owners = {"namespace_id": used, "node_id": nodes}
    found: Rows = {}
    with closing(sqlite3.connect(store / DATABASE_NAME)) as conn:
        for (name,) in conn.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            if name.startswith(("lexical_", "sqlite_")) or name in NO_STATE:
                continue
            columns = [column for _, column, *_ in conn.execute(f"PRAGMA table_info({name})").fetchall()]
            owner = next((column for column in owners if column in columns), None)
            own = {"namespace": f"id IN {used}", "lexical": f"rowid IN {nodes}"}.get(name, "1")
            where = own if owner is None else f"{owner} IN {owners[owner]}"
            found[name] = conn.execute(f"SELECT * FROM {name} WHERE {where}").fetchall()
    return found


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file, with its size and the moment of its last change, and every directory with nothing in it; without
    databases, their companions and vectors, and without what a store that holds no memory has: to open one makes it."""
    empty = {database.parent for database in folder.rglob(DATABASE_NAME) if not rows_of_one(database.parent)["node"]}
    found = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if _is_own(path, folder / "store") or any(_is_own(path, store) for store in empty) or path.name == MARKER:
            continue
        status = path.lstat()
        if not path.is_dir() or path.is_symlink():
            found[name] = (status.st_size, status.st_mtime_ns) if path.is_file() else (0, 0)
        elif path not in empty and not any(path.iterdir()):
            found[name] = (0, 0)
    return found


def _is_own(path: Path, store: Path) -> bool:
    """Whether a file is one that a store, or one of those below it, changes when it is only opened."""
    names = path.relative_to(store).parts[:2] if path.is_relative_to(store) else ()
    return any(name.startswith((DATABASE_NAME, VECTORS)) or name in OWN - {"checkpoints"} for name in names)


def readable(store: Path, words: Iterable[str]) -> list[tuple[str, str]]:
    """(file, word) of each word that can be read in a file of a store, in UTF-8 or as JSON escapes it."""
    forms = [(word, form) for word in words for form in (word.encode("utf-8"), json.dumps(word)[1:-1].encode("ascii"))]
    files = [(file, file.read_bytes()) for file in sorted(store.rglob("*")) if file.is_file()]
    return [(str(file.relative_to(store)), word) for file, data in files for word, form in forms if form in data]

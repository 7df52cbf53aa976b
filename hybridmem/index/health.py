"""Is an index fit to be opened? Asked after an unclean end, before Chroma sees the files, while nobody has them open.

A torn index is no mere error: Chroma 1.5.9 kills the interpreter on a truncated header (SIGSEGV), and silently loses
or mixes up vectors on a truncated data file. Its files are written in place, without fsync or rename.

``check_structure`` reads the files as hnswlib lays them out and compares them with each other and with Chroma's own
database. What it passes is then opened in a child process, where a crash does no harm. Suspecting a sound index costs
a rebuild, trusting a torn one costs wrong results: in doubt it is suspect.
"""

from __future__ import annotations

import json
import os
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hybridmem.errors import IndexUnavailable
from hybridmem.index import chroma
from hybridmem.index.hnsw import FILES, Suspect, check_files

VECTOR_SEGMENT = "urn:chroma:segment/vector/hnsw-local-persisted"
#: Chroma's own SQLite file.
DATABASE = "chroma.sqlite3"
CHILD_SECONDS = 120.0
_NO_CHROMA = 3
_CHILD = f"""
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from pathlib import Path
from hybridmem.index.child import answer_self
from hybridmem.index.chroma_import import import_chromadb
try:
    import_chromadb()
except BaseException:
    sys.exit({_NO_CHROMA})
answer_self(Path(sys.argv[2]), sys.argv[3:])
"""
DELETE_OPERATION = 3
#: Between the name of an index and the number of the damaged one that was moved aside.
DAMAGED = ".damaged-"


def healthy(
    directory: Path,
    collections: Sequence[str] = (),
    *,
    timeout_seconds: float = CHILD_SECONDS,
    keep_open: Sequence[int] = (),
) -> bool:
    """True if the index may be opened in this process. A missing or empty directory is healthy.

    ``collections`` and ``keep_open`` as for ``opens_in_child``; by default every collection in the directory.

    Takes about 2 s (the child imports chromadb), more for a big index. The caller holds the OwnerLock, and nobody in
    this process has the index open.

    :raises IndexUnavailable: chromadb itself cannot be imported, which says nothing about the index.
    """
    if check_structure(directory) is not None:
        return False
    if not _has_database(directory):
        return True
    return opens_in_child(directory, *collections, timeout_seconds=timeout_seconds, keep_open=keep_open)


def opens_in_child(
    directory: Path, *collections: str, timeout_seconds: float = CHILD_SECONDS, keep_open: Sequence[int] = ()
) -> bool:
    """Opens the index in a child process and asks each collection for some of its own vectors.

    :param collections: names; none for every collection in the directory.
    :param keep_open: descriptors that the child inherits: those of the OwnerLock, so that the directory stays locked
        until the child has ended, should this process be killed meanwhile.
    :return: False if the child crashes, fails, does not find them, or takes longer than ``timeout_seconds``. A
        collection that does not exist is fine.
    :raises IndexUnavailable: chromadb itself cannot be imported, which says nothing about the index.
    """
    path = [str(Path(entry).absolute()) for entry in sys.path]  # the same modules, wherever it is started
    command = [sys.executable, "-c", _CHILD, json.dumps(path), os.path.realpath(directory), *collections]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=timeout_seconds,
            check=False,
            pass_fds=keep_open,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    if done.returncode == _NO_CHROMA:
        raise IndexUnavailable("Chroma cannot be imported, so the index cannot be checked; it may well be sound")
    return done.returncode == 0


def file_state(directory: Path) -> dict[str, list[int]]:
    """Size and modification time (ns) of every file under a directory by relative path; empty if it is missing."""
    if not directory.is_dir():
        return {}
    found = ((file, file.stat()) for file in sorted(directory.rglob("*")) if file.is_file())
    return {file.relative_to(directory).as_posix(): [state.st_size, state.st_mtime_ns] for file, state in found}


def move_aside(directory: Path) -> Path:
    """Renames a damaged index to ``<name>.damaged-<n>`` beside it, n the first free number from 1. Deletes nothing.

    Whoever has the index open in this process loses it: the next call raises IndexUnavailable.

    :return: the new path.
    :raises OSError: it cannot be renamed.
    """
    chroma.abandon(directory)
    number = 1
    while True:
        target = directory.with_name(f"{directory.name}{DAMAGED}{number}")
        if not os.path.lexists(target):
            return directory.rename(target)
        number += 1


def aside(directory: Path) -> list[Path]:
    """What was moved aside of an index, and one that was being made beside it."""
    names = (f"{directory.name}{DAMAGED}*", f"{directory.name}.new")
    return sorted(path for name in names for path in directory.parent.glob(name))


def check_structure(directory: Path, database: Path | None = None) -> str | None:
    """Why the files of an index are suspect, or None. Never opens them with Chroma.

    A missing or empty directory is fine, and so is a collection too small to have been written out yet.

    :param database: read this copy of ``chroma.sqlite3`` instead of the one in the directory.
    """
    try:
        if _has_database(directory):
            _check_database(directory, database or directory / DATABASE)
        elif directory.is_dir() and any((entry / FILES[0]).exists() for entry in directory.iterdir()):
            return "chroma.sqlite3 is missing beside its index files"
    except Suspect as found:
        return str(found)
    except (OSError, sqlite3.Error, ValueError, struct.error) as error:
        return f"{type(error).__name__}: {error}"
    return None


def collections(database: Path) -> dict[str, frozenset[str]]:
    """The ids in each collection by its name, read from ``chroma.sqlite3`` or a copy of it that has no other reader.

    :raises sqlite3.Error: it cannot be read.
    """
    with closing(_connect(database)) as conn:
        segments = conn.execute(
            "SELECT c.name, s.id, c.id FROM segments s JOIN collections c ON c.id = s.collection WHERE s.type = ?",
            (VECTOR_SEGMENT,),
        ).fetchall()
        found = {}
        for name, segment, collection in segments:
            recorded = _recorded(conn, segment, collection)
            found[name] = frozenset(_replayed(recorded.ids, recorded.queue, recorded.ids_up_to))
        return found


def _has_database(directory: Path) -> bool:
    return (directory / DATABASE).exists()


def _connect(database: Path) -> sqlite3.Connection:
    # Read-write, though nothing is written: only so can SQLite roll back what a killed writer left half done.
    return sqlite3.connect(f"{database.resolve().as_uri()}?mode=rw", uri=True, timeout=5.0)


def _check_database(directory: Path, file: Path) -> None:
    with closing(_connect(file)) as database:
        (verdict,) = database.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise Suspect(f"chroma.sqlite3: {verdict}")
        for segment, collection in database.execute(
            "SELECT id, collection FROM segments WHERE type = ?", (VECTOR_SEGMENT,)
        ).fetchall():
            _check_segment(directory / segment, _recorded(database, segment, collection))


@dataclass(frozen=True, slots=True)
class _Recorded:
    """What Chroma's database says about one vector segment. ``queue`` holds (seq, is a deletion, id) in order."""

    written_up_to: int
    ids: frozenset[str]
    ids_up_to: int
    queue: tuple[tuple[int, bool, str], ...]
    dimension: int | None


def _recorded(database: sqlite3.Connection, segment: str, collection: str) -> _Recorded:
    def one(sql: str, *values: str) -> Any:
        row = database.execute(sql, values).fetchone()
        return row[0] if row else None

    metadata = one("SELECT id FROM segments WHERE collection = ? AND scope = 'METADATA'", collection)
    rows = database.execute(
        "SELECT seq_id, operation, id FROM embeddings_queue WHERE topic LIKE '%/' || ? ORDER BY seq_id", (collection,)
    )
    return _Recorded(
        written_up_to=one("SELECT seq_id FROM max_seq_id WHERE segment_id = ?", segment) or 0,
        ids=frozenset(
            row[0] for row in database.execute("SELECT embedding_id FROM embeddings WHERE segment_id = ?", (metadata,))
        ),
        ids_up_to=one("SELECT seq_id FROM max_seq_id WHERE segment_id = ?", str(metadata)) or 0,
        queue=tuple((seq, operation == DELETE_OPERATION, name) for seq, operation, name in rows),
        dimension=one("SELECT dimension FROM collections WHERE id = ?", collection),
    )


def _check_segment(directory: Path, recorded: _Recorded) -> None:
    """One HNSW index against itself and against the database."""
    written: frozenset[str] = frozenset()
    # Until they are first written out, Chroma keeps files without content there, and no id map; it starts them anew.
    if recorded.written_up_to or (directory / "index_metadata.pickle").exists():
        written = check_files(directory, recorded.dimension)
    if _replayed(written, recorded.queue, recorded.written_up_to) != _replayed(
        recorded.ids, recorded.queue, recorded.ids_up_to
    ):
        raise Suspect(f"{directory.name}: the index and chroma.sqlite3 hold different ids")


def _replayed(ids: frozenset[str], queue: tuple[tuple[int, bool, str], ...], after: int) -> set[str]:
    """The ids once the rest of the queue is applied, as Chroma does when it opens."""
    result = set(ids)
    for sequence, deletion, name in queue:
        if sequence > after:
            (result.discard if deletion else result.add)(name)
    return result

"""Is an index fit to be opened? Asked after an unclean end, before Chroma sees the files, while nobody has them open.

A torn index is no mere error: Chroma 1.5.9 kills the interpreter on a truncated header (SIGSEGV), and silently loses
or mixes up vectors on a truncated data file. Its files are written in place, without fsync or rename.

``check_structure`` reads the files as hnswlib lays them out and compares them with each other and with Chroma's own
database. What it passes is then opened in a child process, where a crash does no harm. Suspecting a sound index costs
a rebuild, trusting a torn one costs wrong results: in doubt it is suspect.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridmem.errors import IndexUnavailable
from hybridmem.index import chroma

#: Fields of header.bin: version, offset of level 0, capacity, elements, bytes per element, offset of the label, offset
#: of the vector, highest level, entry point, max links above level 0, max links on it, M, 1/ln(M), ef_construction.
HEADER = struct.Struct("<i6Qii3QdQ")
HEADER_VERSION = 1
FILES = ("header.bin", "data_level0.bin", "length.bin", "link_lists.bin", "index_metadata.pickle")
VECTOR_SEGMENT = "urn:chroma:segment/vector/hnsw-local-persisted"
#: Stored vectors have length 1; float32 rounding stays well within this.
LENGTH_TOLERANCE = 1e-2
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


class _Suspect(Exception):
    """What is wrong with the files."""


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
        target = directory.with_name(f"{directory.name}.damaged-{number}")
        if not os.path.lexists(target):
            return directory.rename(target)
        number += 1


def check_structure(directory: Path) -> str | None:
    """Why the files of an index are suspect, or None. Never opens them with Chroma.

    A missing or empty directory is fine, and so is a collection too small to have been written out yet.
    """
    try:
        if _has_database(directory):
            _check_database(directory)
        elif directory.is_dir() and any((entry / FILES[0]).exists() for entry in directory.iterdir()):
            return "chroma.sqlite3 is missing beside its index files"
    except _Suspect as found:
        return str(found)
    except (OSError, sqlite3.Error, ValueError, struct.error) as error:
        return f"{type(error).__name__}: {error}"
    return None


def _has_database(directory: Path) -> bool:
    return (directory / "chroma.sqlite3").exists()


def _check_database(directory: Path) -> None:
    # Read-write, though nothing is written: only so can SQLite roll back what a killed writer left half done.
    uri = f"{(directory / 'chroma.sqlite3').resolve().as_uri()}?mode=rw"
    with closing(sqlite3.connect(uri, uri=True, timeout=5.0)) as database:
        (verdict,) = database.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise _Suspect(f"chroma.sqlite3: {verdict}")
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
        written = _check_files(directory, recorded.dimension)
    if _replayed(written, recorded.queue, recorded.written_up_to) != _replayed(
        recorded.ids, recorded.queue, recorded.ids_up_to
    ):
        raise _Suspect(f"{directory.name}: the index and chroma.sqlite3 hold different ids")


def _replayed(ids: frozenset[str], queue: tuple[tuple[int, bool, str], ...], after: int) -> set[str]:
    """The ids once the rest of the queue is applied, as Chroma does when it opens."""
    result = set(ids)
    for sequence, deletion, name in queue:
        if sequence > after:
            (result.discard if deletion else result.add)(name)
    return result


def _check_files(directory: Path, dimension: int | None) -> frozenset[str]:
    """The five files of one index against each other; the ids they hold."""
    where = directory.name
    for name in FILES:
        if not (directory / name).is_file():
            raise _Suspect(f"{where}: {name} is missing")
    header = _Header.read(directory / "header.bin", where)
    if dimension is not None and header.dimension != dimension:
        raise _Suspect(f"{where}: header.bin says {header.dimension} dimensions, chroma.sqlite3 {dimension}")
    labels, deleted = _check_level0(directory / "data_level0.bin", header, where)
    _check_lengths(directory / "length.bin", header, where)
    _check_link_lists(directory / "link_lists.bin", header, where)
    by_id = _id_map(directory / "index_metadata.pickle", where)
    if set(by_id.values()) != set(labels[~deleted].tolist()) or len(set(by_id.values())) != len(by_id):
        raise _Suspect(f"{where}: index_metadata.pickle and data_level0.bin hold different elements")
    return frozenset(by_id)


@dataclass(frozen=True, slots=True)
class _Header:
    """The fields of header.bin that the other files are held against."""

    count: int
    element_size: int
    label_offset: int
    vector_offset: int
    highest_level: int
    entry: int
    links: int
    links_level0: int

    @property
    def dimension(self) -> int:
        return (self.label_offset - self.vector_offset) // 4

    @classmethod
    def read(cls, file: Path, where: str) -> _Header:
        data = file.read_bytes()
        if len(data) != HEADER.size:
            raise _Suspect(f"{where}: header.bin has {len(data)} bytes, not {HEADER.size}")
        (version, start, capacity, count, size, label, vector, highest, entry, links, links0, m, scale, ef) = (
            HEADER.unpack(data)
        )
        header = cls(count, size, label, vector, highest, entry, links, links0)
        sound = (
            version == HEADER_VERSION
            and start == 0
            and count <= capacity
            and vector == 4 + 4 * links0
            and label > vector
            and (label - vector) % 4 == 0
            and size == label + 8
            and 0 < m == links
            and links0 == 2 * m
            and 0.0 < scale < 10.0
            and ef > 0
            and (0 <= entry < count and 0 <= highest < 64 if count else True)
        )
        if not sound:
            raise _Suspect(f"{where}: the fields of header.bin contradict each other")
        return header


def _check_level0(file: Path, header: _Header, where: str) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Links, vectors and labels of every element; returns the labels and which of them are marked deleted."""
    expected = header.count * header.element_size
    if file.stat().st_size != expected:
        raise _Suspect(f"{where}: data_level0.bin has {file.stat().st_size} bytes, not {expected}")
    if not header.count:
        return np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.bool_)
    element = np.dtype(
        {
            "names": ["count", "deleted", "links", "vector", "label"],
            "formats": [
                "<u2",
                "u1",
                ("<u4", (header.links_level0,)),
                ("<f4", (header.dimension,)),
                "<u8",
            ],
            "offsets": [0, 2, 4, header.vector_offset, header.label_offset],
            "itemsize": header.element_size,
        }
    )
    data = np.memmap(file, dtype=element, mode="r")
    labels = np.array(data["label"])
    deleted = (data["deleted"] & 1).astype(np.bool_)
    for start in range(0, header.count, 10_000):  # in slices, so that a big index does not fill the memory
        _check_elements(data[start : start + 10_000], header, where)
    if len(np.unique(labels)) != header.count:
        raise _Suspect(f"{where}: data_level0.bin holds a label twice")
    return labels, deleted


def _check_elements(data: Any, header: _Header, where: str) -> None:
    counts = data["count"].astype(np.int64)
    if (counts > header.links_level0).any() or (header.count > 1 and (counts == 0).any()):
        raise _Suspect(f"{where}: data_level0.bin holds an element with an impossible number of links")
    used = np.arange(header.links_level0)[None, :] < counts[:, None]
    if (data["links"][used] >= header.count).any():
        raise _Suspect(f"{where}: data_level0.bin links to an element that does not exist")
    lengths = np.sqrt(np.square(data["vector"], dtype=np.float64).sum(axis=1))
    if not (np.abs(lengths - 1.0) < LENGTH_TOLERANCE).all():
        raise _Suspect(f"{where}: data_level0.bin holds a vector that is not of length 1")


def _check_lengths(file: Path, header: _Header, where: str) -> None:
    """The length each vector had before it was normalised: one float per element."""
    if file.stat().st_size != 4 * header.count:
        raise _Suspect(f"{where}: length.bin has {file.stat().st_size} bytes, not {4 * header.count}")
    lengths = np.fromfile(file, dtype="<f4")
    if not (np.isfinite(lengths) & (lengths > 0.0)).all():
        raise _Suspect(f"{where}: length.bin holds a length that is not above 0")


def _check_link_lists(file: Path, header: _Header, where: str) -> None:
    """The links above level 0: per element a byte count, then one block of links for each of its levels."""
    data = file.read_bytes()
    block = 4 + 4 * header.links
    levels = np.zeros(header.count, dtype=np.int64)
    found: list[tuple[int, NDArray[np.uint32]]] = []
    position = 0
    for element in range(header.count):
        if position + 4 > len(data):
            raise _Suspect(f"{where}: link_lists.bin ends at element {element} of {header.count}")
        (size,) = struct.unpack_from("<I", data, position)
        position += 4
        if size % block or position + size > len(data):
            raise _Suspect(f"{where}: link_lists.bin holds an impossible size at element {element}")
        levels[element] = size // block
        for level in range(1, size // block + 1):
            (count,) = struct.unpack_from("<H", data, position)
            if count > header.links:
                raise _Suspect(f"{where}: link_lists.bin holds too many links at element {element}")
            found.append((level, np.frombuffer(data, dtype="<u4", count=count, offset=position + 4)))
            position += block
    if position != len(data):
        raise _Suspect(f"{where}: link_lists.bin has {len(data) - position} bytes too many")
    if header.count and (levels.max() != header.highest_level or levels[header.entry] != header.highest_level):
        raise _Suspect(f"{where}: link_lists.bin has other levels than header.bin")
    _check_targets(found, levels, where)


def _check_targets(found: list[tuple[int, NDArray[np.uint32]]], levels: NDArray[np.int64], where: str) -> None:
    """A link to an element that has no links on that level is what makes Chroma read beyond its memory."""
    members = np.bincount(levels) if len(levels) else np.zeros(1, dtype=np.int64)
    for level, targets in found:
        if (targets >= len(levels)).any() or (levels[targets] < level).any():
            raise _Suspect(f"{where}: link_lists.bin links to an element that is not on level {level}")
        if not len(targets) and members[level:].sum() > 1:
            raise _Suspect(f"{where}: link_lists.bin holds an element without links on level {level}")


class _PlainUnpickler(pickle.Unpickler):
    """Reads plain dictionaries only: a pickle that names a class or function could run anything."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        raise pickle.UnpicklingError(f"names {module_name}.{global_name}")


def _id_map(file: Path, where: str) -> dict[str, int]:
    """Which label each id has."""
    try:
        data = _PlainUnpickler(io.BytesIO(file.read_bytes())).load()
        by_id = {str(name): int(label) for name, label in data["id_to_label"].items()}
        by_label = {int(label): str(name) for label, name in data["label_to_id"].items()}
    except Exception as error:  # a damaged pickle raises nearly anything
        raise _Suspect(f"{where}: index_metadata.pickle cannot be read: {type(error).__name__}") from error
    if {name: label for label, name in by_label.items()} != by_id:
        raise _Suspect(f"{where}: index_metadata.pickle contradicts itself")
    return by_id

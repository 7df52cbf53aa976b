"""The files of one HNSW index as hnswlib lays them out, held against each other. Never opens them with Chroma."""

from __future__ import annotations

import io
import pickle
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Fields of header.bin: version, offset of level 0, capacity, elements, bytes per element, offset of the label, offset
#: of the vector, highest level, entry point, max links above level 0, max links on it, M, 1/ln(M), ef_construction.
HEADER = struct.Struct("<i6Qii3QdQ")
HEADER_VERSION = 1
FILES = ("header.bin", "data_level0.bin", "length.bin", "link_lists.bin", "index_metadata.pickle")
#: Stored vectors have length 1; float32 rounding stays well within this.
LENGTH_TOLERANCE = 1e-2


#: Elements that the files of a new index are made for; fewer, often changed, may be written out with all that room.
FIRST_ROOM = 100


class Suspect(Exception):
    """What is wrong with the files of an index."""


def check_files(directory: Path, dimension: int | None) -> frozenset[str]:
    """The five files of one index against each other; the ids they hold."""
    where = directory.name
    for name in FILES:
        if not (directory / name).is_file():
            raise Suspect(f"{where}: {name} is missing")
    header = _Header.read(directory / "header.bin", where)
    if dimension is not None and header.dimension != dimension:
        raise Suspect(f"{where}: header.bin says {header.dimension} dimensions, chroma.sqlite3 {dimension}")
    labels, deleted = _check_level0(directory / "data_level0.bin", header, where)
    _check_lengths(directory / "length.bin", header, where)
    _check_link_lists(directory / "link_lists.bin", header, where)
    by_id = _id_map(directory / "index_metadata.pickle", where)
    if set(by_id.values()) != set(labels[~deleted].tolist()) or len(set(by_id.values())) != len(by_id):
        raise Suspect(f"{where}: index_metadata.pickle and data_level0.bin hold different elements")
    return frozenset(by_id)


def clear_room(directory: Path) -> None:
    """Writes zeros into the room that each index below a directory has for elements, and has not used: hnswlib writes
    there what it was given by the system unasked. Nothing reads it, and what is in use is not touched."""
    for file in directory.glob(f"*/{FILES[0]}"):
        try:
            header = file.read_bytes()
            if len(header) == HEADER.size:
                _, _, _, count, size, *_ = HEADER.unpack(header)
                _clear_after(file.with_name(FILES[1]), count * size)
                _clear_after(file.with_name(FILES[2]), count * 4)
        except OSError:
            continue  # it has just been replaced or removed


def _clear_after(file: Path, used: int) -> None:
    with file.open("r+b") as data:
        length = data.seek(0, io.SEEK_END)
        if used < length:
            data.seek(used)
            data.write(bytes(length - used))


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
            raise Suspect(f"{where}: header.bin has {len(data)} bytes, not {HEADER.size}")
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
            raise Suspect(f"{where}: the fields of header.bin contradict each other")
        return header


def _check_size(file: Path, header: _Header, width: int, where: str) -> None:
    """It has the elements, ``width`` bytes each, or the room that it is made with."""
    if (size := file.stat().st_size) not in (header.count * width, max(header.count, FIRST_ROOM) * width):
        raise Suspect(f"{where}: {file.name} has {size} bytes, not {header.count * width}")


def _check_level0(file: Path, header: _Header, where: str) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Links, vectors and labels of every element; returns the labels and which of them are marked deleted."""
    _check_size(file, header, header.element_size, where)
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
    data = np.memmap(file, dtype=element, mode="r", shape=(header.count,))
    labels = np.array(data["label"])
    deleted = (data["deleted"] & 1).astype(np.bool_)
    for start in range(0, header.count, 10_000):  # in slices, so that a big index does not fill the memory
        _check_elements(data[start : start + 10_000], header, where)
    if len(np.unique(labels)) != header.count:
        raise Suspect(f"{where}: data_level0.bin holds a label twice")
    return labels, deleted


def _check_elements(data: Any, header: _Header, where: str) -> None:
    counts = data["count"].astype(np.int64)
    if (counts > header.links_level0).any() or (header.count > 1 and (counts == 0).any()):
        raise Suspect(f"{where}: data_level0.bin holds an element with an impossible number of links")
    used = np.arange(header.links_level0)[None, :] < counts[:, None]
    if (data["links"][used] >= header.count).any():
        raise Suspect(f"{where}: data_level0.bin links to an element that does not exist")
    lengths = np.sqrt(np.square(data["vector"], dtype=np.float64).sum(axis=1))
    if not (np.abs(lengths - 1.0) < LENGTH_TOLERANCE).all():
        raise Suspect(f"{where}: data_level0.bin holds a vector that is not of length 1")


def _check_lengths(file: Path, header: _Header, where: str) -> None:
    """The length each vector had before it was normalised: one float per element."""
    _check_size(file, header, 4, where)
    lengths = np.fromfile(file, dtype="<f4", count=header.count)
    if not (np.isfinite(lengths) & (lengths > 0.0)).all():
        raise Suspect(f"{where}: length.bin holds a length that is not above 0")


def _check_link_lists(file: Path, header: _Header, where: str) -> None:
    """The links above level 0: per element a byte count, then one block of links for each of its levels."""
    data = file.read_bytes()
    block = 4 + 4 * header.links
    levels = np.zeros(header.count, dtype=np.int64)
    found: list[tuple[int, NDArray[np.uint32]]] = []
    position = 0
    for element in range(header.count):
        if position + 4 > len(data):
            raise Suspect(f"{where}: link_lists.bin ends at element {element} of {header.count}")
        (size,) = struct.unpack_from("<I", data, position)
        position += 4
        if size % block or position + size > len(data):
            raise Suspect(f"{where}: link_lists.bin holds an impossible size at element {element}")
        levels[element] = size // block
        for level in range(1, size // block + 1):
            (count,) = struct.unpack_from("<H", data, position)
            if count > header.links:
                raise Suspect(f"{where}: link_lists.bin holds too many links at element {element}")
            found.append((level, np.frombuffer(data, dtype="<u4", count=count, offset=position + 4)))
            position += block
    if position != len(data):
        raise Suspect(f"{where}: link_lists.bin has {len(data) - position} bytes too many")
    if header.count and (levels.max() != header.highest_level or levels[header.entry] != header.highest_level):
        raise Suspect(f"{where}: link_lists.bin has other levels than header.bin")
    _check_targets(found, levels, where)


def _check_targets(found: list[tuple[int, NDArray[np.uint32]]], levels: NDArray[np.int64], where: str) -> None:
    """A link to an element that has no links on that level is what makes Chroma read beyond its memory."""
    members = np.bincount(levels) if len(levels) else np.zeros(1, dtype=np.int64)
    for level, targets in found:
        if (targets >= len(levels)).any() or (levels[targets] < level).any():
            raise Suspect(f"{where}: link_lists.bin links to an element that is not on level {level}")
        if not len(targets) and members[level:].sum() > 1:
            raise Suspect(f"{where}: link_lists.bin holds an element without links on level {level}")


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
        raise Suspect(f"{where}: index_metadata.pickle cannot be read: {type(error).__name__}") from error
    if {name: label for label, name in by_label.items()} != by_id:
        raise Suspect(f"{where}: index_metadata.pickle contradicts itself")
    return by_id

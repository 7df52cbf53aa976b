"""A damaged index is found out before Chroma sees it: no damage ends the process, and none passes for sound."""

from __future__ import annotations

import pickle
import shutil
import sqlite3
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from hybridmem.errors import IndexUnavailable
from hybridmem.index import ChromaIndex, check_structure, healthy, move_aside, opens_in_child
from hybridmem.index.hnsw import HEADER, clear_room

DIMENSION = 16
COUNT = 1_500


def vectors(n: int) -> np.ndarray:
    rows = np.random.default_rng(3).normal(size=(n, DIMENSION)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1,500 vectors: over sync_threshold, so written out, with a queue that is not; some replaced, some deleted."""
    directory = tmp_path_factory.mktemp("made") / "vectors"
    index = ChromaIndex(directory, "memories", DIMENSION)
    rows = vectors(COUNT)
    for start in range(0, COUNT, 250):
        index.upsert(range(start, start + 250), rows[start : start + 250])
    index.delete(range(40, 60))
    index.upsert([50, 51], rows[[50, 51]])
    index.close()
    return directory


@pytest.fixture
def copy(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "vectors"))


def part(directory: Path, name: str) -> Path:
    (file,) = directory.glob(f"*/{name}")
    return file


def test_a_sound_index_is_healthy_and_stays_complete(copy: Path) -> None:
    assert check_structure(copy) is None
    assert healthy(copy, ["memories", "no-such-collection"])
    index = ChromaIndex(copy, "memories", DIMENSION)
    assert len(index.ids()) == COUNT - 18
    index.close()


def test_the_room_that_was_never_filled_is_cleared_and_nothing_else(copy: Path) -> None:
    """hnswlib writes it out as the system gave it: with whatever the process had in its memory there before."""
    files = [part(copy, name) for name in ("data_level0.bin", "length.bin")]
    before = [file.read_bytes() for file in files]
    for file in files:
        with file.open("ab") as data:
            data.write("机密 secret".encode() * 400)
    clear_room(copy)
    for file, old in zip(files, before, strict=True):
        found = file.read_bytes()
        assert found[: len(old)] == old
        assert set(found[len(old) :]) == {0}


def test_a_missing_and_an_empty_directory_are_healthy_and_stay_as_they_are(tmp_path: Path) -> None:
    assert healthy(tmp_path / "missing", ["memories"])
    assert not (tmp_path / "missing").exists()
    (tmp_path / "empty").mkdir()
    assert healthy(tmp_path / "empty", ["memories"])
    assert list((tmp_path / "empty").iterdir()) == []


@pytest.mark.parametrize("count", [0, 1, 10])
def test_an_index_too_small_to_be_written_out_is_sound(tmp_path: Path, count: int) -> None:
    index = ChromaIndex(tmp_path / "v", "memories", DIMENSION)
    index.upsert(range(count), vectors(count))
    index.close()
    assert check_structure(tmp_path / "v") is None


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda n: np.repeat(vectors(1), n, axis=0), id="all the same vector"),
        pytest.param(vectors, id="all deleted"),
    ],
)
def test_unusual_but_sound_indexes_are_not_suspected(tmp_path: Path, make: Callable[[int], np.ndarray]) -> None:
    index = ChromaIndex(tmp_path / "v", "memories", DIMENSION)
    index.upsert(range(1200), make(1200))
    if make is vectors:
        index.delete(range(1200))
    index.close()
    assert check_structure(tmp_path / "v") is None
    assert opens_in_child(tmp_path / "v", "memories")


def test_a_few_vectors_that_were_replaced_again_and_again_are_sound(tmp_path: Path) -> None:
    """Chroma writes its files out after 1,000 changes, of however few vectors: into files that have more room. An
    index that was closed in order would else be thrown away and built again at every opening."""
    index = ChromaIndex(tmp_path, "memories", DIMENSION)
    for number in range(24):
        index.upsert(range(50), vectors(50 + number)[number:])
    index.close()
    assert part(tmp_path, "data_level0.bin").stat().st_size > 50 * (DIMENSION * 4 + 8)
    assert check_structure(tmp_path) is None
    truncate("data_level0.bin", 0.4)(tmp_path)
    assert check_structure(tmp_path) is not None


def truncate(name: str, keep: float) -> Callable[[Path], None]:
    def damage(directory: Path) -> None:
        file = part(directory, name)
        file.write_bytes(file.read_bytes()[: int(file.stat().st_size * keep)])

    return damage


def zero(name: str, start: float, share: float) -> Callable[[Path], None]:
    def damage(directory: Path) -> None:
        file = part(directory, name)
        data = bytearray(file.read_bytes())
        first, length = int(len(data) * start), max(1, int(len(data) * share))
        data[first : first + length] = bytes(len(data[first : first + length]))
        file.write_bytes(data)

    return damage


def remove(name: str) -> Callable[[Path], None]:
    return lambda directory: part(directory, name).unlink()


def garbage_database(directory: Path) -> None:
    (directory / "chroma.sqlite3").write_bytes("损坏 garbage ".encode() * 5000)


def torn_database(directory: Path) -> None:
    file = directory / "chroma.sqlite3"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def no_database(directory: Path) -> None:
    (directory / "chroma.sqlite3").unlink()


def no_segment(directory: Path) -> None:
    shutil.rmtree(part(directory, "header.bin").parent)


def more_elements_in_the_header(directory: Path) -> None:
    """What a kill between two of the files leaves behind."""
    file = part(directory, "header.bin")
    fields = list(HEADER.unpack(file.read_bytes()))
    fields[3] += 5
    file.write_bytes(HEADER.pack(*fields))


def link_to_a_level_that_is_not_there(directory: Path) -> None:
    file = part(directory, "link_lists.bin")
    data = bytearray(file.read_bytes())
    position = sizes = 0
    while not sizes:
        (sizes,) = struct.unpack_from("<I", data, position)
        position += 4
    struct.pack_into("<HHI", data, position, 1, 0, 0 if position > 4 else 1)
    file.write_bytes(data)


def another_id_map(directory: Path) -> None:
    file = part(directory, "index_metadata.pickle")
    data = pickle.loads(file.read_bytes())
    label = data["id_to_label"].pop("7")
    data["id_to_label"]["70000"] = label
    data["label_to_id"][label] = "70000"
    file.write_bytes(pickle.dumps(data, protocol=3))


def id_map_that_runs_code(directory: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
            return print, ("run",)

    part(directory, "index_metadata.pickle").write_bytes(pickle.dumps(Evil()))


def a_row_lost_from_the_database(directory: Path) -> None:
    with sqlite3.connect(directory / "chroma.sqlite3") as database:
        database.execute("DELETE FROM embeddings WHERE embedding_id = '7'")
    database.close()


DAMAGES = {
    "header truncated": truncate("header.bin", 0.5),
    "header emptied": truncate("header.bin", 0.0),
    "header zeroed": zero("header.bin", 0.0, 1.0),
    "header with more elements": more_elements_in_the_header,
    "header missing": remove("header.bin"),
    "data truncated": truncate("data_level0.bin", 0.6),
    "data zeroed in the middle": zero("data_level0.bin", 0.5, 0.02),
    "data missing": remove("data_level0.bin"),
    "length truncated": truncate("length.bin", 0.9),
    "length zeroed in the middle": zero("length.bin", 0.5, 0.01),
    "link lists truncated": truncate("link_lists.bin", 0.9),
    "link lists with a zeroed tail": zero("link_lists.bin", 0.5, 0.5),
    "link lists zeroed in the middle": zero("link_lists.bin", 0.5, 0.1),
    "link to a missing level": link_to_a_level_that_is_not_there,
    "id map missing": remove("index_metadata.pickle"),
    "id map truncated": truncate("index_metadata.pickle", 0.5),
    "id map of other ids": another_id_map,
    "id map that runs code": id_map_that_runs_code,
    "segment directory missing": no_segment,
    "database garbage": garbage_database,
    "database truncated": torn_database,
    "database missing": no_database,
    "database without a row": a_row_lost_from_the_database,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_damage_is_found_without_opening(copy: Path, damage: Callable[[Path], None]) -> None:
    damage(copy)
    assert check_structure(copy)
    assert not healthy(copy, ["memories"])


def test_the_child_takes_the_crash_that_would_have_ended_this_process(copy: Path) -> None:
    DAMAGES["header truncated"](copy)
    assert not opens_in_child(copy, "memories")


def test_a_child_that_takes_too_long_counts_as_unhealthy(copy: Path) -> None:
    assert not opens_in_child(copy, "memories", timeout_seconds=0.05)


def test_without_chroma_the_index_is_not_called_damaged(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shadow" / "chromadb").mkdir(parents=True)
    (tmp_path / "shadow" / "chromadb" / "__init__.py").write_text("raise OSError('broken install')")
    monkeypatch.syspath_prepend(str(tmp_path / "shadow"))
    with pytest.raises(IndexUnavailable, match="cannot be imported"):
        healthy(copy, ["memories"])


def test_without_names_every_collection_is_asked(copy: Path) -> None:
    assert healthy(copy)


def test_an_index_that_is_moved_aside_while_open_is_lost_to_its_users_and_the_next_one_is_new(copy: Path) -> None:
    old = ChromaIndex(copy, "memories", DIMENSION)
    moved = move_aside(copy)
    new = ChromaIndex(copy, "memories", DIMENSION)
    assert new.ids() == set()
    new.upsert([1], vectors(1))
    with pytest.raises(IndexUnavailable):
        old.ids()
    old.close()
    assert new.ids() == {1}
    new.close()
    assert check_structure(moved) is None


def test_moving_aside_keeps_everything_and_counts_up(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        directory = tmp_path / "vectors"
        directory.mkdir()
        (directory / "file").write_text(f"第{number}次 attempt")
        moved = move_aside(directory)
        assert moved == tmp_path / f"vectors.damaged-{number}"
        assert not directory.exists()
        assert (moved / "file").read_text() == f"第{number}次 attempt"

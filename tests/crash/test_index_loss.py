"""The vector index can be lost or damaged in any way: nothing crashes, search goes on, flush() brings it all back."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from hybridmem import Memory
from hybridmem.index.projection import DIRECTORY
from hybridmem.pieces import MOST

from .helpers import DIMENSION, QUIET, check_database, check_vectors, chroma_vectors, damaged, fill, open_chroma, run

#: Above Chroma's sync_threshold, so that its files are really written.
COUNT = 1_200

#: Opens a store whose index is in some state, searches before and after flush(), in a child: it must not crash.
LOOK = """
    with Memory.open(sys.argv[1], config=QUIET) as memory:
        before = memory.search("finance rejected 发票信息不清晰 marke300", k=5)
        memory.add("损坏之后 after the damage", id="after")
        assert memory.search("damage 损坏之后", k=1)[0].id == "after"
        waiting = memory.flush()
        after = memory.search("finance rejected 发票信息不清晰 marke300", k=5)
        vectors = [hit.score_details.vector is not None for hit in after]
        say([before[0].content, after[0].content, waiting, all(vectors), memory.stats().index])
"""


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sound") / "store"
    fill(path, COUNT)
    check_vectors(path)
    return path


@pytest.fixture
def store(sound: Path, tmp_path: Path) -> Path:
    # copy2 keeps the times, which tell a file that nobody touched
    return Path(shutil.copytree(sound, tmp_path / "store"))


def part(store: Path, name: str) -> Path:
    (file,) = (store / DIRECTORY).rglob(name)
    return file


def assert_recovers(store: Path) -> None:
    done = run(LOOK, store)
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stderr[-3000:]}"
    target = "财务退回第300号报销单，原因是发票信息不清晰 marke300"
    assert json.loads(done.stdout) == [target, target, 0, True, "ready"]
    assert len(check_database(store)) == COUNT + 1
    check_vectors(store)


def assert_filled_again(store: Path) -> None:
    """Nothing is damaged, so this process may look itself; nothing is moved aside."""
    with Memory.open(store, config=QUIET) as memory:
        found = memory.search("finance rejected 发票信息不清晰 marke300", k=5)
        assert found[0].content.endswith("marke300")
        assert all(hit.node.content for hit in memory.search("发票 refund", k=50))
        assert memory.flush() == 0
        assert memory.stats().index == "ready"
    assert damaged(store) == []
    check_vectors(store)


def test_a_lost_index_comes_back_from_sqlite(store: Path) -> None:
    shutil.rmtree(store / DIRECTORY)
    assert_filled_again(store)


def half(data: bytes) -> bytes:
    return data[: len(data) // 2]


def zeroed(data: bytes) -> bytes:
    return half(data) + bytes(len(data) - len(data) // 2)


def garbage(data: bytes) -> bytes:
    return np.random.default_rng(5).bytes(len(data))


def empty(data: bytes) -> bytes:
    return b""


# The shapes of damage from STORES.md section 4: those that crash the interpreter, those that pass silently, and a few
# more of each file.
@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("header.bin", garbage),
        ("link_lists.bin", zeroed),
        ("data_level0.bin", half),
        ("data_level0.bin", zeroed),
        ("length.bin", half),
        ("index_metadata.pickle", None),
        ("chroma.sqlite3", garbage),
        ("chroma.sqlite3", empty),
    ],
)
def test_a_damaged_file_is_moved_aside_and_the_index_is_rebuilt(
    store: Path, name: str, damage: Callable[[bytes], bytes] | None
) -> None:
    file = part(store, name)
    inside = file.relative_to(store / DIRECTORY)
    if damage is None:
        file.unlink()
    else:
        wrong = damage(file.read_bytes())
        file.write_bytes(wrong)
    assert_recovers(store)
    # Once, not again and again; and nothing of it is deleted.
    assert damaged(store) == ["vectors.damaged-1"]
    if damage is not None:
        assert (store / "vectors.damaged-1" / inside).read_bytes() == wrong


def test_a_damaged_file_with_its_old_time_and_size_never_crashes_the_interpreter(store: Path) -> None:
    """A bad disk does not change times. Wrong vectors may then go unnoticed; a crash or a failing search may not."""
    for name in ("header.bin", "link_lists.bin"):
        file = part(store, name)
        before = file.stat()
        file.write_bytes(zeroed(file.read_bytes()))
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert_recovers(store)


def test_a_missing_segment_directory_is_noticed(store: Path) -> None:
    shutil.rmtree(part(store, "header.bin").parent)
    assert_recovers(store)


def test_a_file_in_the_place_of_the_index_directory_is_moved_aside(store: Path) -> None:
    shutil.rmtree(store / DIRECTORY)
    (store / DIRECTORY).write_text("not a directory", encoding="utf-8")
    assert_recovers(store)


def test_vectors_that_somebody_deleted_from_chroma_are_added_again(store: Path) -> None:
    index = open_chroma(store)
    gone = sorted(index.ids())[100:130]
    index.delete(gone)
    assert len(index.ids()) == COUNT - 30
    index.close()
    assert_filled_again(store)


def test_vectors_that_do_not_belong_there_are_removed_and_never_returned(store: Path) -> None:
    index = open_chroma(store)
    rows = np.eye(DIMENSION, dtype=np.float32)[:5]
    index.upsert(range(900_000, 900_005), rows)
    index.close()
    assert_filled_again(store)


def test_an_emptied_collection_is_filled_again(store: Path) -> None:
    index = open_chroma(store)
    index.delete(sorted(index.ids()))
    index.close()
    assert_filled_again(store)


def test_two_handles_of_one_process_rebuild_a_damaged_index_once(store: Path) -> None:
    part(store, "header.bin").write_bytes(b"")
    with (
        Memory.open(store, config=QUIET) as one,
        Memory.open(store, config=QUIET, agent="other") as two,
    ):
        one.add("甲 one")
        two.add("乙 two")
        assert two.flush() == 0
        assert one.flush() == 0
        assert two.search("marke7", k=1)[0].content.endswith("marke7")
    assert damaged(store) == ["vectors.damaged-1"]
    check_vectors(store)


def test_an_index_lost_while_it_is_open_is_mended_when_the_store_is_opened_again(store: Path) -> None:
    done = run(
        """
        import shutil
        with Memory.open(sys.argv[1], config=QUIET) as memory:
            memory.flush()
            shutil.rmtree(sys.argv[1] + "/vectors")
            memory.add("目录没了 the directory is gone", id="gone")
            assert memory.search("directory is gone 目录没了", k=1)[0].id == "gone"
            memory.flush()
            assert memory.search("marke7", k=1)[0].content.endswith("marke7")
        """,
        store,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    with Memory.open(store, config=QUIET) as memory:
        assert memory.flush() == 0
    assert len(check_database(store)) == COUNT + 1
    check_vectors(store)


def test_a_store_that_is_moved_takes_its_index_along(store: Path, tmp_path: Path) -> None:
    moved = tmp_path / "搬家 moved"
    store.rename(moved)
    assert_filled_again(moved)


def test_looking_at_the_vectors_sees_a_difference(store: Path) -> None:
    """The check of these tests can fail."""
    index = open_chroma(store)
    one = min(index.ids())
    index.upsert([one], np.eye(DIMENSION, dtype=np.float32)[:1])
    index.close()
    assert chroma_vectors(store)[divmod(one, MOST)][0] == pytest.approx(1.0)
    with pytest.raises(AssertionError):
        check_vectors(store)

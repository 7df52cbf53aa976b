"""C003: with its vector index torn, a store still answers, the doctor looks at it and lives, and repair needs nothing
but the rows of SQLite."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from crash.helpers import DIMENSION, check_database, check_vectors, damaged, environment, fill, run

from hybridmem import verify
from hybridmem.index.projection import DIRECTORY

#: As in the case; and above Chroma's sync_threshold, so that its own files are really written.
SIZES = (300, 1_200)

HARMS: dict[str, tuple[int, str, Callable[[bytes], bytes]]] = {
    "database truncated": (300, "chroma.sqlite3", lambda data: data[: len(data) // 3]),
    "database overwritten": (300, "chroma.sqlite3", lambda data: np.random.default_rng(7).bytes(len(data))),
    "database emptied": (300, "chroma.sqlite3", lambda data: b""),
    "header truncated": (1_200, "header.bin", lambda data: data[:20]),
    "header overwritten": (1_200, "header.bin", lambda data: b"\xff" * len(data)),
    "vectors truncated": (1_200, "data_level0.bin", lambda data: data[: len(data) // 2]),
    "vectors overwritten": (1_200, "data_level0.bin", lambda data: np.random.default_rng(7).bytes(len(data))),
    "links zeroed": (1_200, "link_lists.bin", lambda data: bytes(len(data))),
    "names overwritten": (1_200, "index_metadata.pickle", lambda data: b"cos\nsystem\n(S'echo'\ntR."),
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    found = {}
    for size in SIZES:
        found[size] = tmp_path_factory.mktemp("sound") / "store"
        fill(found[size], size)
    return found


def doctor(store: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: whatever the files do to it, they must not do to the tests."""
    settings = ("--set", "embedding.provider=hashing", "--set", f"embedding.dimension={DIMENSION}")
    return subprocess.run(
        [sys.executable, "-m", "hybridmem.cli", "doctor", "--json", *settings, *arguments, str(store)],
        env=environment(), capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(("size", "name", "harm"), HARMS.values(), ids=HARMS)
def test_torn_files_crash_nothing_and_every_vector_comes_back(
    sound: dict[int, Path], tmp_path: Path, size: int, name: str, harm: Callable[[bytes], bytes]
) -> None:
    """C003: the doctor says so and changes nothing, --fix rebuilds all of it, the torn files stay."""
    store = Path(shutil.copytree(sound[size], tmp_path / "store"))
    (file,) = (store / DIRECTORY).rglob(name)
    file.write_bytes(harm(file.read_bytes()))
    torn, inside = file.read_bytes(), file.relative_to(store / DIRECTORY)
    looked = doctor(store)
    assert looked.returncode == 13, looked.stderr
    assert [one["kind"] for one in json.loads(looked.stdout)["findings"]] == ["chroma_files"]
    assert file.read_bytes() == torn
    mended = doctor(store, "--fix")
    assert mended.returncode == 0, mended.stderr
    document = json.loads(mended.stdout)
    assert document["ok"]
    assert document["counts"]["vectors"] == document["counts"]["nodes"] == size
    assert damaged(store) == ["vectors.damaged-1"]
    assert (store / "vectors.damaged-1" / inside).read_bytes() == torn
    assert len(check_database(store)) == size
    check_vectors(store)


def test_a_search_on_torn_files_answers_by_words_or_vectors_and_never_crashes(
    sound: dict[int, Path], tmp_path: Path
) -> None:
    """C003: before anybody repairs anything."""
    store = Path(shutil.copytree(sound[1_200], tmp_path / "store"))
    (file,) = (store / DIRECTORY).rglob("header.bin")
    file.write_bytes(file.read_bytes()[:20])
    done = run(
        """
        with Memory.open(sys.argv[1], config=QUIET) as memory:
            say(memory.search("marke17", k=1)[0].content)
            say(memory.verify().ok)
            memory.repair()
            say(memory.verify().ok)
            say(memory.search("财务退回第18号报销单，原因是发票信息不清晰", k=1)[0].content)
        """,
        store,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    first, _, sound_again, last = map(json.loads, done.stdout.splitlines())
    assert first.endswith("marke17")
    assert sound_again
    assert last.endswith("marke18")


def test_with_chroma_gone_altogether_repair_does_not_begin_with_it(sound: dict[int, Path], tmp_path: Path) -> None:
    """C003: the commonest damage must not be what the repair stumbles over first."""
    store = Path(shutil.copytree(sound[300], tmp_path / "store"))
    shutil.rmtree(store / DIRECTORY)
    (found,) = verify(store).findings
    assert (found.kind, found.count) == ("chroma_missing", 300)
    assert doctor(store, "--fix").returncode == 0
    assert verify(store).counts["vectors"] == 300
    assert damaged(store) == []

"""Nothing that writes a file writes over what a store consists of: that would lose the store, or what is in its log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hybridmem import InvalidInput, Memory
from hybridmem.cli import main

OpenMemory = Callable[..., Memory]

NAMES = (
    "tree.db", "tree.db-wal", "tree.db-shm", "tree.db-journal", "tree.db.restored", "store.lock", "vectors.lock",
    "vectors/chroma.sqlite3", "aside/x", "checkpoints/backup-000001-20260101T000000Z.db",
)  # fmt: skip


def contents(memory: Memory) -> list[str]:
    return [node.content for node in memory.walk()]


@pytest.mark.parametrize("verb", ["export", "backup"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("whose", ["mine", "open", "closed"])
def test_no_file_of_a_store_is_written_over(
    memory: OpenMemory, tmp_path: Path, verb: str, name: str, whose: str
) -> None:
    one = memory()
    one.add("发票 invoice")
    other = memory("店 二")
    other.add("另一个 other")
    if whose == "closed":
        other.close()
    directory = one.path if whose == "mine" else tmp_path / "店 二"
    for below in ("vectors", "checkpoints", "aside"):
        (directory / below).mkdir(exist_ok=True)
    link = tmp_path / "link 链接"
    link.symlink_to(directory / name)
    files = sorted(path for path in directory.rglob("*"))
    for file in (directory / name, link):
        with pytest.raises(InvalidInput, match="file: "):
            getattr(one, verb)(file)
    assert sorted(path for path in directory.rglob("*")) == files
    one.add("后来 later")
    one.close()
    with memory() as again:
        assert contents(again) == ["default", "发票 invoice", "后来 later"]
    other.close()
    assert contents(memory("店 二")) == ["default", "另一个 other"]


@pytest.mark.parametrize("verb", ["export", "backup"])
def test_other_files_beside_a_store_are_written(memory: OpenMemory, verb: str, tmp_path: Path) -> None:
    one: Any = memory()
    one.add("发票")
    for file in (one.path / "我的 mine.db", tmp_path / "tree.db.old", tmp_path / "vectors"):
        getattr(one, verb)(file)
        getattr(one, verb)(file)
        assert file.is_file()


@pytest.mark.parametrize("verb", ["export", "backup", "export_audit"])
def test_nothing_beside_the_directories_of_namespaces_may_look_like_a_store(
    memory: OpenMemory, verb: str, tmp_path: Path
) -> None:
    """It would be taken for one of the other layout, and none of the namespaces could be opened any more."""
    store = {"layout": "separate"}
    with memory("apart", store=store) as one:
        one.add("发票 invoice")
        for name in NAMES[:5]:
            file = tmp_path / "apart" / name
            with pytest.raises(InvalidInput, match=r"file: .* belongs to it"):
                getattr(one, verb)(file)
            assert main(["new-key", str(file)]) == 2
            assert not file.exists()
    with memory("apart", store=store) as again:
        assert contents(again) == ["default", "发票 invoice"]

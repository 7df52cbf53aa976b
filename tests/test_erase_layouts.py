"""A user is told of and erased alike, whether the namespaces share a store or have a directory each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hybridmem import ErasureReceipt, Memory, NotFound, erase_user, export_user, verify_erasure

MARKER = "机密MARKER9f3a"
HIS, OTHERS, NOBODYS = ("acme", "张三"), ("acme", "李四"), ("acme", "王五")


def configured(layout: str) -> dict[str, Any]:
    return {
        "store": {"layout": layout}, "embedding": {"provider": "hashing"}, "index": {"background": False},
    }  # fmt: skip


@pytest.fixture(params=["shared", "separate"])
def layout(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def store(tmp_path: Path, layout: str) -> Path:
    """Words of Zhang San in his own namespace and in another one, each with a backup; a third has nothing of him."""
    path = tmp_path / "store"
    for namespace in (HIS, OTHERS, NOBODYS):
        with Memory.open(path, namespace=namespace, config=configured(layout)) as m:
            m.add("自己的 their own")
            if namespace == HIS:
                m.add(f"我的 mine {MARKER}")
            if namespace == OTHERS:
                m.add(f"他说 he said {MARKER}", metadata={"speaker": "张三"})
            m.flush()
            m.backup()
    return path


def found_in(store: Path) -> list[Path]:
    return [file for file in store.rglob("*") if file.is_file() and MARKER.encode() in file.read_bytes()]


def test_all_of_it_is_told_and_erased_and_nothing_else(store: Path, layout: str, tmp_path: Path) -> None:
    config = configured(layout)
    assert found_in(store)
    assert export_user(store, "张三", tmp_path / "held.json", config=config) == 3
    told = json.loads((tmp_path / "held.json").read_text("utf-8"))
    assert sorted(one["namespace"] for one in told["namespaces"]) == [list(HIS), list(OTHERS)]
    assert (tmp_path / "held.json").read_text("utf-8").count(MARKER) >= 2
    dry = erase_user(store, "张三", dry_run=True, config=config)
    assert found_in(store)
    done = erase_user(store, "张三", config=config)
    assert (done.complete, done.digest) == (True, done.right_digest())
    assert len(done.ids) == 1  # those of a whole namespace are told by its name
    assert len(done.namespaces) == 1
    assert {name: done.counts[name] for name in ("memories", "revisions", "vectors", "words", "backups")} == {
        name: dry.counts[name] for name in ("memories", "revisions", "vectors", "words", "backups")
    }
    assert found_in(store) == []
    assert verify_erasure(store, config=config).ok
    assert verify_erasure(store, [ErasureReceipt.from_dict(done.to_dict())], config=config).ok
    for namespace, contents in ((HIS, []), (OTHERS, ["自己的 their own"]), (NOBODYS, ["自己的 their own"])):
        with Memory.open(store, namespace=namespace, config=config) as m:
            assert [node.content for node in m.walk() if node.depth and node.content] == contents
            assert m.verify(replay=True).ok
            m.add("后来 later")


def test_a_user_of_whom_nothing_is_there_takes_nothing_along(store: Path, layout: str, tmp_path: Path) -> None:
    config = configured(layout)
    assert export_user(store, "没有 nobody", tmp_path / "held.json", config=config) == 0
    assert erase_user(store, "没有 nobody", config=config).counts.get("memories", 0) == 0
    assert found_in(store)
    for namespace, count in ((HIS, 2), (OTHERS, 2), (NOBODYS, 1)):
        with Memory.open(store, namespace=namespace, config=config) as m:
            assert m.stats().nodes == count


def test_what_comes_back_by_hand_is_found_by_the_check(store: Path, layout: str) -> None:
    """In each of the stores: a database copied back."""
    config = configured(layout)
    kept = {file: file.read_bytes() for file in store.rglob("tree.db")}
    erase_user(store, "张三", config=config)
    receipt = erase_user(store, "张三", dry_run=True, config=config)
    assert receipt.counts.get("memories", 0) == 0
    for file, data in kept.items():
        if MARKER.encode() in data:
            file.write_bytes(data)
            for end in ("-wal", "-shm"):
                file.with_name(file.name + end).unlink(missing_ok=True)
    again = erase_user(store, "张三", dry_run=True, config=config)
    assert again.counts["memories"] == 3


def test_where_there_is_no_store_nothing_is_made(tmp_path: Path, layout: str) -> None:
    for call in (
        lambda: export_user(tmp_path / "none", "张三", tmp_path / "held.json", config=configured(layout)),
        lambda: erase_user(tmp_path / "none", "张三", config=configured(layout)),
        lambda: verify_erasure(tmp_path / "none", config=configured(layout)),
    ):
        with pytest.raises(NotFound):
            call()
    assert list(tmp_path.iterdir()) == []

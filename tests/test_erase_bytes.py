"""Erased is erased: after whatever has happened, not one byte of it in any file under the store.

Looked for in UTF-8, UTF-16 and escaped JSON, and as the float32 vector, in the database, its write-ahead log, Chroma's
files, backups and whatever else lies there; with SQLite's secure_delete on and off.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from crash.helpers import QUIET
from erasing import MARKERS, TEXT, found, vectors

from hybridmem import Memory, restore_backup, verify, verify_erasure
from hybridmem.index.health import check_structure
from hybridmem.index.hnsw import HEADER, clear_room

History = Callable[[Memory], None]
KEY = bytes(range(32))


def config(secure: bool, **sections: Any) -> dict[str, Any]:
    return {**QUIET, "store": {"secure_delete": secure}, "consolidation": {"min_tokens": 10}, **sections}


def updated(m: Memory) -> None:
    for number in range(3):
        m.update("secret", content=f"{number} {TEXT}", metadata={"who": MARKERS[number]})
        m.flush()


def moved(m: Memory) -> None:
    m.move("secret", "other")
    m.move("secret", "root")
    m.pin("secret")


def archived(m: Memory) -> None:
    m.archive("secret")


def forgotten(m: Memory) -> None:
    m.forget("secret")


def purged_before(m: Memory) -> None:
    m.forget("secret")
    m.purge_forgotten(0)


def consolidated(m: Memory) -> None:
    """A summary quotes it word for word, and a second one that summary."""
    m.start_task("办完 done", parent="root")
    task = m.active_task()
    assert task is not None
    m.move("secret", task.id)
    m.add_many({"content": f"发票 INV-{n} 没人接 nobody answered the phone at {n} o'clock", "type": "event"}
               for n in range(6))  # fmt: skip
    m.add(f"决定：decision after {TEXT}", type="decision", id="also")
    m.finish_task(task.id)
    (branch,) = m.consolidate(task.id).branches
    assert any(marker in branch.summary for marker in MARKERS), branch.summary


def unconsolidated(m: Memory) -> None:
    consolidated(m)
    summary = next(node.id for node in m.walk() if node.type == "summary")
    m.unconsolidate(summary)


def merged(m: Memory) -> None:
    m.add("别的话 the same in other words", id="kept", type="fact", parent="root")
    m.merge_duplicates("kept", ["secret"])


def superseded(m: Memory) -> None:
    m.supersede("secret", "新的 the new one")


def fed_back(m: Memory) -> None:
    m.feedback("secret", helpful=True, note=f"说得对 {TEXT}")


def checkpointed(m: Memory) -> None:
    m.checkpoint(f"标签 {TEXT}")
    m.update("secret", content=f"later {TEXT}")
    m.restore(sequence=m.operations()[-1].sequence - 1)


def backed_up(m: Memory) -> None:
    m.backup(label=f"{MARKERS[0]}")
    m.update("secret", content=f"later {TEXT}")
    m.backup()


def reopened(m: Memory) -> None:
    m.search(TEXT)
    m.context(TEXT)


def left_aside(m: Memory) -> None:
    """A damaged index was moved aside, and a store that a backup has replaced lies about."""
    shutil.copytree(m.path / "vectors", m.path / "vectors.damaged-1")
    (m.path / "aside" / "20260101").mkdir(parents=True)
    shutil.copy(m.path / "tree.db", m.path / "aside" / "20260101" / "tree.db")


HISTORIES: list[History] = [
    updated, moved, archived, forgotten, purged_before, consolidated, unconsolidated, merged, superseded, fed_back,
    checkpointed, backed_up, reopened, left_aside,
]  # fmt: skip


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "encrypted"])
@pytest.mark.parametrize("secure", [True, False], ids=["secure_delete", "no_secure_delete"])
@pytest.mark.parametrize("history", HISTORIES, ids=lambda one: one.__name__)
def test_no_byte_is_left(tmp_path: Path, history: History, secure: bool, key: bytes | None) -> None:
    store = tmp_path / "store"
    with Memory.open(store, config=config(secure), master_key=key) as m:
        m.add("留下 stays", id="other", parent="root")
        m.add(TEXT, id="secret", type="fact", parent="root", metadata={"speaker": MARKERS[1], "x": {"y": [TEXT]}})
        m.flush()
        blobs = sealed(store, key)
        history(m)
        m.flush()
        blobs += sealed(store, key)
        assert blobs
        assert history is purged_before or found(store, blobs=blobs), "the search finds nothing at all"
        # What supersedes it has its metadata: that is another memory, which has to be named too.
        also = [node.id for node in m.walk() if node.type != "summary" and any(one in str(node) for one in MARKERS)]
        ids = sorted({"secret", *also})
        for id in ids:
            dry = m.erase(id, dry_run=True)
            receipt = m.erase(id)
            assert receipt.complete, receipt.left
            assert {k: v for k, v in dry.counts.items() if k != "backup_memories"} == {
                k: v for k, v in receipt.counts.items() if k != "backup_memories"
            }
            assert dry.summaries == receipt.summaries
        assert found(store, blobs=blobs) == []
        assert m.flush() == 0
        assert found(store, blobs=blobs) == []
        assert m.verify(replay=True).findings == ()
        assert m.get("other").content == "留下 stays"
        assert m.search("留下 stays", k=1)[0].id == "other"
        assert m.search(TEXT, states=["live", "archived", "superseded", "forgotten"], k=9).hits is not None
    assert found(store, blobs=blobs) == []
    check = verify_erasure(store, config=config(secure), master_key=key)
    assert check.ok, check.found


@pytest.mark.parametrize("secure", [True, False], ids=["secure_delete", "no_secure_delete"])
def test_a_whole_task_with_all_that_can_be_said_of_it(tmp_path: Path, secure: bool) -> None:
    store = tmp_path / "store"
    with Memory.open(store, config=config(secure)) as m:
        m.add("上面 above", id="above", parent="root")
        above = m.start_task("上面的任务 outer", parent="root")
        task = m.start_task(f"报销 {TEXT}", next_step=f"下一步 {MARKERS[2]}", parent=above.id)
        m.claim_task(task.id, seconds=600)
        m.add(TEXT, id="secret", type="fact")
        m.add({"结构": [TEXT]}, id="structured", parent="secret")
        m.pin("secret")
        m.update_task(task.id, next_step=f"最后 {MARKERS[0]}")
        m.checkpoint(f"before {MARKERS[1]}")
        m.backup()
        m.flush()
        blobs = tuple(vectors(store, "secret") + vectors(store, task.id))
        with pytest.raises(ValueError, match="subtree"):
            m.erase(task.id)
        receipt = m.erase(task.id, subtree=True)
        assert receipt.counts["memories"] == 3
        assert receipt.counts["claims"] == 1
        active = m.active_task()
        assert active is not None
        assert active.id == above.id, "the agent stands at the task above"
        m.add("接着 goes on", id="next")
        assert m.get("next").parent_id == above.id
        assert found(store, blobs=blobs) == []
        assert m.verify(replay=True).findings == ()
    assert found(store, blobs=blobs) == []


def test_twins_elsewhere_survive(tmp_path: Path) -> None:
    store = tmp_path / "store"
    for names in (("a",), ("b",)):
        with Memory.open(store, namespace=names, config=QUIET) as m:
            m.add(TEXT, id="secret", type="event", parent="root")
            m.add(TEXT, id="twin", type="event", parent="root")
            m.flush()
            m.backup()
    with Memory.open(store, namespace=("a",), config=QUIET) as m:
        m.erase("secret")
        m.flush()
        assert [hit.id for hit in m.search(TEXT, 5)] == ["twin"]
    with Memory.open(store, namespace=("b",), config=QUIET) as m:
        assert {hit.id for hit in m.search(TEXT, 5)} == {"secret", "twin"}
        assert m.verify(replay=True).ok


def test_nothing_brings_it_back(tmp_path: Path) -> None:
    """A backup from elsewhere, an export, the restore of an earlier state, repair, a new index, another model."""
    store = tmp_path / "store"
    elsewhere, exported, tree = tmp_path / "old.db", tmp_path / "old.jsonl", tmp_path / "old.json"
    with Memory.open(store, config=QUIET) as m:
        m.add("留下 stays", id="other", parent="root")
        m.add(TEXT, id="secret", type="fact", parent="root")
        m.add("下面 below it", id="below", parent="secret")
        m.flush()
        blobs = tuple(vectors(store, "secret"))
        checkpoint = m.checkpoint("早 early")
        m.backup(elsewhere)
        m.export(exported)
        m.export(tree, format="tree")
        m.move("below", "root")
        m.erase("secret")
        assert m.import_(exported).held_back == 1
        assert m.import_(tree).held_back == 1
        m.restore(checkpoint=checkpoint.id)
        m.repair()
        m.flush()
        assert m.get("secret").is_purged
        assert m.verify(replay=True).findings == ()
    assert found(store, blobs=blobs) == []
    restore_backup(elsewhere, store, replace=True)
    shutil.rmtree(store / "aside")
    assert found(store, blobs=blobs) == []
    with Memory.open(store, config=QUIET) as m:
        m.flush()
        assert m.get("secret").is_purged
        assert m.get("other").content == "留下 stays"
        assert m.get("below").content == "下面 below it"
        assert m.verify(replay=True).findings == ()
        assert m.import_(exported).held_back == 1
    assert found(store, blobs=blobs) == []
    assert verify_erasure(store, config=QUIET).ok


def test_nothing_brings_a_namespace_back(tmp_path: Path) -> None:
    store, elsewhere, exported = tmp_path / "store", tmp_path / "old.db", tmp_path / "old.jsonl"
    with Memory.open(store, namespace=("别人",), config=QUIET) as m:
        m.add("别人的 others'", id="theirs", parent="root")
    with Memory.open(store, namespace=("甲", "乙"), config=QUIET) as m:
        m.add(TEXT, id="secret", type="fact", parent="root")
        m.flush()
        blobs = tuple(vectors(store, "secret"))
        m.backup(elsewhere)
        m.export(exported)
        m.erase_namespace(everything=True)
        with pytest.raises(LookupError, match="erased"):
            m.search("x")
        with pytest.raises(LookupError, match="erased"):
            m.add("x")
    assert found(store, blobs=blobs) == []
    with Memory.open(store, namespace=("甲", "乙"), config=QUIET) as m:
        m.add("新的 new", id="new", parent="root")
        report = m.import_(exported)
        assert (report.added, report.held_back) == (0, 1)
        with pytest.raises(ValueError, match="was erased"):
            m.add("again", id="secret")
        assert m.verify(replay=True).findings == ()
    restore_backup(elsewhere, store, replace=True)
    shutil.rmtree(store / "aside")
    assert found(store, blobs=blobs) == []
    with Memory.open(store, namespace=("别人",), config=QUIET) as m:
        assert m.get("theirs").content == "别人的 others'"
    assert verify(store, replay=True).ok


def test_a_fresh_namespace_of_the_same_name_survives_a_backup(tmp_path: Path) -> None:
    store, later = tmp_path / "store", tmp_path / "later.db"
    with Memory.open(store, namespace=("甲",), config=QUIET) as m:
        m.add(TEXT, id="secret", parent="root")
        m.erase_namespace(everything=True)
    with Memory.open(store, namespace=("甲",), config=QUIET) as m:
        m.add("新的 new", id="new", parent="root")
        m.backup(later)
    restore_backup(later, store, replace=True)
    with Memory.open(store, namespace=("甲",), config=QUIET) as m:
        assert m.get("new").content == "新的 new"
        assert m.verify(replay=True).findings == ()


def test_another_handle_that_has_it_open_is_told(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with Memory.open(store, config=QUIET) as first, Memory.open(store, config=QUIET) as second:
        first.add(TEXT, id="secret", parent="root")
        second.flush()
        assert second.search(TEXT, 1)[0].id == "secret"
        first.erase("secret")
        assert second.search(TEXT, 5).hits == ()
        assert second.get("secret").is_purged
        first.erase_namespace(everything=True)
        with pytest.raises(LookupError, match="erased"):
            second.get("secret")


def sealed(store: Path, key: bytes | None = KEY) -> tuple[bytes, ...]:
    """The vectors of ``secret``, and what an encrypted store keeps of it: contents and metadata of every revision,
    sealed."""
    if key is None:
        return tuple(vectors(store, "secret"))
    with closing(sqlite3.connect(store / "tree.db")) as conn:
        rows = conn.execute(
            "SELECT content, metadata FROM revision r JOIN node n ON n.id = r.node_id WHERE n.uid = 'secret'"
        ).fetchall()
    # What is purged is sealed no more.
    texts = (text for row in rows for text in row if text not in ("", "{}"))
    return tuple(text.encode() for text in texts) + tuple(vectors(store, "secret"))


@pytest.mark.parametrize("secure", [True, False], ids=["secure_delete", "no_secure_delete"])
def test_sealed_it_is_gone_too(tmp_path: Path, secure: bool) -> None:
    """Of an encrypted store not even what was sealed is left, so that a key that is found later opens nothing."""
    store, key, elsewhere = tmp_path / "store", KEY, tmp_path / "old.db"
    with Memory.open(store, config=config(secure), master_key=key) as m:
        m.add("留下 stays", id="other", parent="root")
        task = m.start_task(f"报销 {TEXT}", next_step=MARKERS[0], parent="root")
        m.add(TEXT, id="secret", type="fact", metadata={"speaker": MARKERS[1]})
        m.update("secret", content=f"改 {TEXT}")
        m.feedback("secret", helpful=True, note=f"说得对 {TEXT}")
        m.checkpoint(f"标签 {MARKERS[2]}")
        m.backup(label=f"标签 {MARKERS[2]}")
        m.backup(elsewhere)
        m.flush()
        blobs = sealed(store)
        assert len(found(store, blobs=blobs)) > len(blobs)
        receipt = m.erase(task.id, subtree=True)
        assert receipt.complete, receipt.left
        assert receipt.counts["labels"] == 1
        assert "erased" in [one.label for one in m.checkpoints()]
        assert [one.label for one in m.backups()] == ["erased"]
        assert found(store, blobs=blobs) == []
        m.flush()
        assert m.search("留下 stays", k=1)[0].id == "other"
        assert m.verify(replay=True).findings == ()
    restore_backup(elsewhere, store, replace=True, master_key=key)
    shutil.rmtree(store / "aside")
    assert found(store, blobs=blobs) == []
    with Memory.open(store, config=config(secure), master_key=key) as m:
        m.flush()
        assert m.get("secret").is_purged
        assert m.verify(replay=True).findings == ()
        m.erase_namespace(everything=True)
    assert found(store, texts=(), blobs=blobs) == []
    assert verify_erasure(store, master_key=key).ok


def test_the_unused_room_of_an_index_is_cleared_and_the_rest_untouched(tmp_path: Path) -> None:
    """hnswlib writes out memory that it never filled: whatever was there, perhaps an erased vector."""
    store, junk = tmp_path / "store", b"zqjunk-of-this-process"
    with Memory.open(store, config=QUIET) as m:
        m.add_many({"content": f"第 {n} 条 item", "parent": "root"} for n in range(3))
        m.flush()
    files = [*store.glob("vectors/*/data_level0.bin"), *store.glob("vectors/*/length.bin")]
    assert len(files) == 2
    before = {file: file.read_bytes() for file in files}
    for file in files:
        file.write_bytes(before[file][: -len(junk)] + junk)
    clear_room(store / "vectors")
    assert not any(junk in file.read_bytes() for file in files)
    (header,) = store.glob("vectors/*/header.bin")
    count, size = HEADER.unpack(header.read_bytes())[3:5]
    for file, width in zip(files, (size, 4), strict=True):
        after = file.read_bytes()
        assert after[: count * width] == before[file][: count * width]
        assert not any(after[count * width :])
        assert len(after) == len(before[file])
    assert check_structure(store / "vectors") is None

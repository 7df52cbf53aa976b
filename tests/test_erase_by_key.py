"""Erasing a namespace of an encrypted store destroys its data keys: that is the fast path, and enough."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from crash.helpers import QUIET
from erasing import MARKERS, TEXT, found, vectors

from hybridmem import Memory, StoreBusy, encrypt, verify, verify_erasure
from hybridmem.store import rewriting

KEY, OTHER = bytes(range(32)), bytes(range(32, 64))
SECURE = pytest.mark.parametrize("secure", [True, False], ids=["secure_delete", "no_secure_delete"])


def opened(store: Path, name: str, key: bytes | None = KEY, *, secure: bool = True) -> Memory:
    return Memory.open(store, namespace=(name,), config={**QUIET, "store": {"secure_delete": secure}}, master_key=key)


def wrapped(store: Path) -> dict[str, bytes]:
    """The data key of each namespace, wrapped: by the master key it opens all that the namespace ever had."""
    with closing(sqlite3.connect(store / "tree.db")) as conn:
        rows = conn.execute("SELECT n.key, d.wrapped FROM data_key d JOIN namespace n ON n.id = d.namespace_id")
        return {key: bytes(blob) for key, blob in rows if blob is not None}


def of(keys: dict[str, bytes], name: str) -> bytes:
    (blob,) = (blob for key, blob in keys.items() if f'"{name}"' in key)
    return blob


@pytest.fixture
def rewritten(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Which databases were rewritten."""
    seen: list[Path] = []
    real = rewriting.rewrite

    def watched(database: Path, wait_seconds: float) -> str | None:
        seen.append(database)
        return real(database, wait_seconds)

    monkeypatch.setattr(rewriting, "rewrite", watched)
    return seen


@SECURE
def test_no_byte_of_the_key_is_left_and_the_file_is_not_rewritten(
    tmp_path: Path, secure: bool, rewritten: list[Path]
) -> None:
    """Of 60 namespaces, so that their keys fill several pages, and have moved between them; with the key as it was
    wrapped at first, and as the rotation of the master key has wrapped it."""
    store = tmp_path / "store"
    keys = []
    for number in range(60):
        with opened(store, f"n{number}", secure=secure) as m:
            m.add(f"第 {number} 个 of them", parent="root")
    with opened(store, "n7", secure=secure) as m:
        m.add_many({"content": f"{TEXT} {number}", "parent": "root"} for number in range(100))
        m.add(TEXT, id="secret", parent="root", metadata={"x": MARKERS[0]})
        m.flush()
    keys.append(of(wrapped(store), "n7"))
    assert found(store, texts=(), blobs=tuple(keys))
    with opened(store, "n7", secure=secure) as m:
        assert m.rotate_master_key(OTHER) == 60
        keys.append(of(wrapped(store), "n7"))
        blobs = (*keys, *vectors(store, "secret"))
        m.backup()
        dry = m.erase_namespace(everything=True, dry_run=True)
        receipt = m.erase_namespace(everything=True)
    assert receipt.complete, receipt.left
    assert dry.counts["keys"] == receipt.counts["keys"] == 1
    assert receipt.counts["memories"] == 102
    assert rewritten == []
    assert found(store, blobs=blobs) == []
    assert len(wrapped(store)) == 59
    check = verify_erasure(store, master_key=OTHER)
    assert check.ok, check.found
    for number in (0, 6, 8, 59):
        with opened(store, f"n{number}", OTHER, secure=secure) as m:
            assert m.search("of them", 1)[0].content == f"第 {number} 个 of them"
    assert verify(store, master_key=OTHER, replay=True).ok


def test_a_backup_from_before_the_master_key_changed_is_told_of(tmp_path: Path) -> None:
    """Nobody has the key to erase in it: it has to go as a whole."""
    store = tmp_path / "store"
    with opened(store, "甲") as m:
        m.add(TEXT, id="secret", parent="root")
        m.backup()
        m.rotate_master_key(OTHER)
        receipt = m.erase("secret")
        assert not receipt.complete
        (why,) = receipt.left
        assert "another master key" in why
        assert "remove it" in why
        for file in (store / "checkpoints").glob("*.db"):
            file.unlink()
        again = m.erase("secret")
        assert again.complete
    assert verify_erasure(store, master_key=OTHER).ok


def test_one_memory_is_erased_by_rewriting(tmp_path: Path, rewritten: list[Path]) -> None:
    """Its key is the key of what stays."""
    store = tmp_path / "store"
    with opened(store, "甲") as m:
        m.add(TEXT, id="secret", parent="root")
        receipt = m.erase("secret")
    assert receipt.counts.get("keys", 0) == 0
    assert rewritten == [store / "tree.db"]


def test_a_plain_store_is_rewritten(tmp_path: Path, rewritten: list[Path]) -> None:
    store = tmp_path / "store"
    with opened(store, "甲", None) as m:
        m.add(TEXT, id="secret", parent="root")
        receipt = m.erase_namespace(everything=True)
    assert receipt.counts["keys"] == 0
    assert rewritten == [store / "tree.db"]
    assert found(store) == []


def test_what_was_cut_off_before_is_finished_by_rewriting(
    tmp_path: Path, rewritten: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The erasure of one memory waits for its files when the namespace beside it is erased."""
    store = tmp_path / "store"
    with opened(store, "甲") as m:
        m.add(TEXT, id="secret", parent="root")
        with monkeypatch.context() as patch:
            patch.setattr(rewriting, "rewrite", lambda database, wait_seconds: "busy")
            assert not m.erase("secret").complete
    with opened(store, "乙") as m:
        m.add("别的 other", parent="root")
        assert m.erase_namespace(everything=True).complete
    assert rewritten == [store / "tree.db"]
    assert verify_erasure(store, master_key=KEY).ok


@SECURE
def test_free_pages_from_the_plain_days_of_a_store_are_rewritten(
    tmp_path: Path, secure: bool, rewritten: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was made encrypted later, and somebody read it just then, so that its free pages were not rewritten."""
    store = tmp_path / "store"
    with opened(store, "甲", None, secure=secure) as m:
        m.add_many({"content": f"{TEXT} {number}", "parent": "root"} for number in range(50))
        m.flush()
    with monkeypatch.context() as patch:
        patch.setattr(rewriting, "rewrite", lambda database, wait_seconds: "somebody reads")
        assert not encrypt(store, master_key=KEY).cleansed
    assert secure or found(store), "free pages hold what was plain"
    with opened(store, "甲", secure=secure) as m:
        assert m.erase_namespace(everything=True).complete
    assert rewritten == [store / "tree.db"]
    assert found(store) == []


def test_a_store_that_was_made_encrypted_and_cleansed_takes_the_fast_path(
    tmp_path: Path, rewritten: list[Path]
) -> None:
    store = tmp_path / "store"
    with opened(store, "甲", None) as m:
        m.add(TEXT, parent="root")
        m.flush()
    assert encrypt(store, master_key=KEY).cleansed
    rewritten.clear()
    key = of(wrapped(store), "甲")
    with opened(store, "甲") as m:
        assert m.erase_namespace(everything=True).counts["keys"] == 1
    assert rewritten == []
    assert found(store, blobs=(key,)) == []


@SECURE
def test_a_store_that_was_made_plain_but_for_its_mark_is_rewritten(
    tmp_path: Path, secure: bool, rewritten: list[Path]
) -> None:
    """Somebody had it open at the end of decrypting: it says that it is encrypted, and nothing in it is."""
    store = tmp_path / "store"
    with opened(store, "甲", secure=secure) as m:
        m.add(TEXT, parent="root")
        with pytest.raises(StoreBusy):
            encrypt(store, to="plain", master_key=KEY)
        assert found(store)
        rewritten.clear()
        m.add(f"以后 later {TEXT}", parent="root")
        receipt = m.erase_namespace(everything=True)
    assert (receipt.complete, receipt.counts["keys"]) == (True, 0)
    assert rewritten == [store / "tree.db"]
    assert found(store) == []

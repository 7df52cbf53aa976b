"""What was moved aside, by repair() or restore_backup(), is never deleted; so it must be told."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import hybridmem
from hybridmem import Memory, restore_backup

OpenMemory = Callable[..., Memory]


def test_doctor_names_how_much_is_kept_aside_and_how_to_be_rid_of_it(memory: OpenMemory, tmp_path: Path) -> None:
    one = memory("店 store")
    one.add("发票" * 100_000)
    one.backup(tmp_path / "b.db")
    store = one.path
    assert hybridmem.verify(store).notes == ()
    one.close()
    aside = restore_backup(tmp_path / "b.db", store, replace=True).aside
    assert aside is not None
    (store / "vectors.damaged-1").mkdir()
    (store / "vectors.damaged-1" / "data.bin").write_bytes(b"x" * 3_000_000)
    (store / "vectors.damaged-2").write_bytes(b"x" * 2_000_000)
    size = sum(file.stat().st_size for file in aside.rglob("*") if file.is_file()) + 5_000_000
    report = hybridmem.verify(store)
    assert report.ok, "it is no fault"
    (note,) = report.notes
    assert note.startswith(f"{size / 1e6:.1f} MB of old and damaged files are kept in {store / 'aside'}, ")
    for name in ("vectors.damaged-1", "vectors.damaged-2", "you may delete"):
        assert name in note
    with memory("店 store") as again:
        assert again.verify().notes == (), "of one namespace only: the files are those of all"
    shutil.rmtree(store / "aside")
    shutil.rmtree(store / "vectors.damaged-1")
    (store / "vectors.damaged-2").unlink()
    assert hybridmem.verify(store).notes == ()

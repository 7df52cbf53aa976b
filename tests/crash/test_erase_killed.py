"""Killed in the middle of an erasure: whoever comes next finishes it, and nothing of it is left then."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from erasing import MARKERS, TEXT, found, vectors

from hybridmem import Memory, faults, verify_erasure

from .helpers import QUIET, Child, check_database, check_vectors, run

CHILD = """
os.environ["HYBRIDMEM_FAULT"] = sys.argv[2]
import hybridmem.faults
hybridmem.faults.arm()
with Memory.open(sys.argv[1], config=QUIET) as memory:
    if sys.argv[3] == "all":
        memory.erase_namespace(everything=True)
    else:
        memory.erase("secret", subtree=True)
"""
#: Before the first of these nothing has happened, and from it on the rows are gone.
POINTS = ("purge.after_rows", "log.after_row", "write.before_commit", "write.after_commit", *faults.ERASURE_POINTS)


def fill(store: Path, *, others: bool = False) -> tuple[bytes, ...]:
    with Memory.open(store, config=QUIET) as memory:
        memory.add("留下 stays", id="other", parent="root")
        memory.add(TEXT, id="secret", parent="root", metadata={"k": MARKERS[0]})
        memory.add(f"下面 below {TEXT}", id="below", parent="secret")
        memory.flush()
        memory.backup(label="一 one")
        memory.update("secret", content=f"改 {TEXT}")
        memory.flush()
        memory.backup()
        (store / "aside").mkdir()
        (store / "aside" / "tree.db").write_text(TEXT, encoding="utf-8")
    if others:
        with Memory.open(store, namespace=("别人",), config=QUIET) as memory:
            memory.add("别人的 others'", id="theirs", parent="root")
            memory.flush()
    return tuple(vectors(store, "secret"))


@pytest.mark.parametrize("scope", ["subtree", "all"])
@pytest.mark.parametrize("point", POINTS)
def test_a_second_run_leaves_nothing(tmp_path: Path, point: str, scope: str) -> None:
    if scope == "all" and point in ("purge.after_rows", "log.after_row"):
        pytest.skip("a namespace is not erased memory by memory")
    store = tmp_path / "store"
    blobs = fill(store, others=scope == "all")
    assert run(CHILD, store, point, scope).returncode == -9
    assert found(store, blobs=blobs) or point == "erase.before_receipt", "the point came too late to show anything"
    if scope == "subtree":
        check_database(store)
    is_committed = point == "write.after_commit" or point.startswith("erase.")
    if is_committed:
        check = verify_erasure(store, config=QUIET)
        assert not check.ok, "an erasure that was cut off is told of"
        assert verify_erasure(store, config=QUIET, finish=True).ok
    else:
        with Memory.open(store, config=QUIET) as memory:
            assert memory.get("secret").content == f"改 {TEXT}", "nothing has happened"
            if scope == "all":
                assert memory.erase_namespace(everything=True).complete
            else:
                assert memory.erase("secret", subtree=True).complete
    assert found(store, blobs=blobs) == []
    with Memory.open(store, config=QUIET) as memory:
        memory.flush()
        if scope == "subtree":
            assert memory.get("secret").is_purged
            assert memory.search("留下 stays", 1)[0].id == "other"
            assert memory.erase("secret", subtree=True).complete
            memory.flush()
        assert memory.verify(replay=True).findings == ()
    if scope == "all":
        with Memory.open(store, namespace=("别人",), config=QUIET) as memory:
            memory.flush()
            assert memory.search("别人的 others'", 1)[0].id == "theirs"
            assert memory.verify(replay=True).findings == ()
    assert found(store, blobs=blobs) == []
    if scope == "subtree":
        check_vectors(store)


def test_the_thread_behind_the_writes_finishes_it(tmp_path: Path) -> None:
    store = tmp_path / "store"
    blobs = fill(store)
    assert run(CHILD, store, "erase.after_rows", "subtree").returncode == -9
    background = {**QUIET, "index": {**QUIET["index"], "background": True}}
    with Memory.open(store, config=background) as memory:
        memory.add("新的 new", parent="root")
        deadline = time.monotonic() + 60
        while not verify_erasure(store, config=QUIET).ok and time.monotonic() < deadline:
            time.sleep(0.2)
    assert verify_erasure(store, config=QUIET).ok
    assert found(store, blobs=blobs) == []


def test_the_process_that_has_the_index_lets_go_of_it(tmp_path: Path) -> None:
    """Another process owns the vectors and works on: it starts the index over, and the call returns clean."""
    store = tmp_path / "store"
    blobs = fill(store)
    code = """
    config = {**QUIET, "index": {**QUIET["index"], "background": True}}
    with Memory.open(sys.argv[1], config=config) as memory:
        memory.add("占着 holds it", parent="root")
        memory.flush()
        memory.search("占着")
        say(memory.stats().index)
        wait()
        memory.flush()
        say([hit.id for hit in memory.search(sys.argv[2], 9)])
    """
    with Child(code, store, TEXT) as owner:
        assert owner.hear() == "ready"
        with Memory.open(store, config=QUIET) as memory:
            receipt = memory.erase("secret", subtree=True)
            assert receipt.complete, receipt.left
        assert found(store, blobs=blobs) == []
        owner.go()
        assert "other" in owner.hear()
        assert owner.process.wait(60) == 0
    assert found(store, blobs=blobs) == []
    check_vectors(store)


def test_what_does_not_let_go_is_told_and_finished_later(tmp_path: Path) -> None:
    """A process that holds the index and does nothing: the receipt says so; when it is gone, the rest is done."""
    store = tmp_path / "store"
    blobs = fill(store)
    code = """
    with Memory.open(sys.argv[1], config=QUIET) as memory:
        memory.search("占着 hold it")
        memory.flush()
        say(memory.stats().index)
        wait()
    """
    with Child(code, store) as owner:
        assert owner.hear() == "ready"
        with Memory.open(store, config={**QUIET, "erasure": {"wait_seconds": 0.2}}) as memory:
            receipt = memory.erase("secret", subtree=True)
        assert not receipt.complete
        assert "vector index" in receipt.left[0]
        assert not verify_erasure(store, config=QUIET).ok
        owner.kill()
    assert verify_erasure(store, config=QUIET, finish=True).ok
    assert found(store, blobs=blobs) == []

"""C008: a store that another process holds is waited for; longer than that is a typed error, and then it goes on."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from crash.helpers import QUIET, Child, check_database, check_vectors, chroma_vectors

from hybridmem import Memory, StoreBusy

from .processes import document, program

HOLDER = """
    import sqlite3
    raw = sqlite3.connect(sys.argv[1] + "/tree.db", isolation_level=None)
    raw.execute("BEGIN IMMEDIATE")
    say("holding")
    time.sleep(float(sys.argv[2]))
    raw.execute("ROLLBACK")
    raw.close()
    say("free")
"""


def patient(seconds: float) -> dict[str, Any]:
    return {**QUIET, "store": {"busy_timeout_seconds": seconds}}


@contextmanager
def held(store: Path) -> Iterator[None]:
    """By a transaction that does not end before the block."""
    with closing(sqlite3.connect(store / "tree.db", isolation_level=None)) as raw:
        raw.execute("BEGIN IMMEDIATE")
        yield
        raw.execute("ROLLBACK")


def test_a_write_waits_for_three_seconds_and_succeeds(tmp_path: Path) -> None:
    """C008"""
    with Memory.open(tmp_path, config=patient(60.0)) as memory:
        memory.add("第一条 the first", id="first")
        with Child(HOLDER, tmp_path, 3.0) as holder:
            assert holder.hear() == "holding"
            memory.add("等到了 it waited", id="second")
            assert holder.hear() == "free"
        assert memory.search("等到了 waited", k=1)[0].id == "second"
        assert memory.flush() == 0
    assert set(check_database(tmp_path)) == {"first", "second"}
    check_vectors(tmp_path)


def test_longer_than_the_wait_is_busy_stores_nothing_anywhere_and_the_same_object_goes_on(tmp_path: Path) -> None:
    """C008: nothing is degraded in silence: every write says so, and every one after it works again."""
    with Memory.open(tmp_path, config=patient(0.1)) as memory:
        memory.add("第一条 the first", id="first")
        assert memory.flush() == 0
        with held(tmp_path):
            for _ in range(3):
                with pytest.raises(StoreBusy, match=r"0\.1 s \(store\.busy_timeout_seconds\); nothing was written"):
                    memory.add("太忙了 too busy", id="lost")
            with pytest.raises(StoreBusy):
                memory.update("first", content="改 changed")
            with pytest.raises(StoreBusy):
                memory.forget("first")
            with pytest.raises(StoreBusy):
                memory.checkpoint("busy")
            assert memory.get("first").content == "第一条 the first"
            assert [hit.id for hit in memory.search("第一条 first too busy", k=5)] == ["first"]
        assert memory.add("又可以了 free again", id="after").version == 1
        assert memory.flush() == 0
    assert check_database(tmp_path) == {"first": "第一条 the first", "after": "又可以了 free again"}
    check_vectors(tmp_path)
    assert len(chroma_vectors(tmp_path)) == 2


def test_the_program_ends_with_the_code_of_busy_and_works_afterwards(tmp_path: Path) -> None:
    """C008"""
    wait = ("--set", "store.busy_timeout_seconds=0.1")
    with Memory.open(tmp_path, config=QUIET) as memory:
        memory.add("第一条 the first", id="first")
    with held(tmp_path):
        code, answer = document(program(tmp_path, "add", "太忙了 too busy", "--json", *wait))
        assert (code, answer["error"]["type"]) == (StoreBusy.exit_code, "StoreBusy")
        code, answer = document(program(tmp_path, "stats", "--json", *wait))
        assert (code, answer["nodes"]) == (0, 1)
    code, answer = document(program(tmp_path, "add", "现在可以 now", "--json", *wait))
    assert (code, answer["ok"]) == (0, True)
    assert sorted(check_database(tmp_path).values()) == ["现在可以 now", "第一条 the first"]

"""After another master key the old one opens nothing: no data key that it has wrapped is left in any byte."""

from __future__ import annotations

import logging
import os
import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from crash.helpers import QUIET
from erasing import found

from hybridmem import EncryptionError, Memory, encrypt, verify
from hybridmem.keys import LocalKey
from hybridmem.store import points, sealing
from hybridmem.store.connect import Connections
from hybridmem.store.workspace import Workspace

KEY, OTHER = bytes(range(32)), bytes(range(32, 64))
OWNER, LATE = ("acme", "张三"), ("acme", "li-si 后来")


def opened(store: Path, namespace: tuple[str, ...] = OWNER, key: Any = KEY) -> Memory:
    return Memory.open(store, namespace=namespace, config=QUIET, master_key=key)


def wrapped(store: Path) -> list[bytes]:
    """All data keys as they are wrapped now."""
    with closing(sqlite3.connect(store / "tree.db")) as conn:
        return [bytes(row[0]) for row in conn.execute("SELECT wrapped FROM data_key WHERE wrapped IS NOT NULL")]


class Vault(LocalKey):
    """A key service that wraps a key into 300 bytes, as those in the cloud do."""

    def wrap(self, key: bytes) -> bytes:
        made = super().wrap(key)
        return made + os.urandom(300 - len(made))

    def unwrap(self, wrapped: bytes) -> bytes:
        return super().unwrap(wrapped[:60])


def test_nothing_that_the_old_key_has_wrapped_is_left_while_others_have_the_store_open(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with opened(store) as one, opened(store, LATE) as two:
        one.add("发票 invoice 发票号 INV-7", parent="root")
        two.add("另一个 the other", parent="root")
        old = wrapped(store)
        assert found(store, texts=(), blobs=tuple(old))
        assert one.rotate_master_key(OTHER) == 2
        assert found(store, texts=(), blobs=tuple(old)) == []
        assert two.search("另一个 other", 1)[0].content == "另一个 the other"
    assert verify(store, master_key=OTHER, replay=True).ok


def test_it_is_said_if_somebody_still_reads_an_old_state(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = tmp_path / "store"
    with opened(store) as one, opened(store, LATE) as two, caplog.at_level(logging.WARNING, "hybridmem"):
        with two._workspace.read() as tx:
            tx.execute("SELECT count(*) FROM node").fetchone()
            assert one.rotate_master_key(OTHER) == 2
        assert "the old master key may open data keys" in caplog.text
        one.add("照旧 as before", parent="root")
    with opened(store, key=OTHER) as one:
        assert one.search("照旧 before", 1)[0].content == "照旧 as before"


@pytest.mark.parametrize("seed", [2, 8])
def test_keys_that_are_destroyed_leave_no_copy_in_the_pages_of_others(tmp_path: Path, seed: int) -> None:
    """Some hundred namespaces come and go, and their wrapped keys grow from 60 to 300 bytes: SQLite moves them between
    pages, and leaves copies behind where nothing is deleted."""
    store, rng = tmp_path / "store", random.Random(seed)
    with opened(store):
        pass
    gone: list[bytes] = []
    spaces: dict[int, bytes] = {}

    def make(tx: sqlite3.Connection, number: int) -> None:
        space = points.make_namespace(tx, (f"命名 n{number}",), 1)
        spaces[space] = key_of(tx, space)

    def key_of(tx: sqlite3.Connection, space: int) -> bytes:
        return bytes(tx.execute("SELECT wrapped FROM data_key WHERE namespace_id = ?", (space,)).fetchone()[0])

    def come_and_go(connections: Connections, start: int) -> None:
        for number in range(start, start + 60):
            with connections.write() as tx:
                one = rng.choice(sorted(spaces))
                gone.append(spaces.pop(one))
                assert sealing.destroy(tx, one) == 1
                make(tx, number)

    with closing(Connections(store, create=False, keys=LocalKey(KEY))) as connections:
        with connections.write() as tx:
            for number in range(200):
                make(tx, number)
        come_and_go(connections, 1000)
        assert connections.keyring is not None
    with opened(store) as memory:
        memory.rotate_master_key(Vault(OTHER))
    with closing(Connections(store, create=False, keys=Vault(OTHER))) as connections:
        with connections.read() as tx:
            gone += spaces.values()
            spaces = {space: key_of(tx, space) for space in spaces}
        come_and_go(connections, 2000)
    data = (store / "tree.db").read_bytes()
    left = sum(one[:24] in data or one[-24:] in data for one in gone)
    there = sum(one in data for one in spaces.values())
    assert (left, there) == (0, len(spaces))


def test_who_was_let_in_with_the_old_key_makes_no_namespace_that_nobody_can_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The master key changes between the look at it and the making."""
    store = tmp_path / "store"
    real = Workspace._find_or_make
    with opened(store) as memory:

        def late(self: Workspace, create: bool) -> int:
            monkeypatch.undo()
            memory.rotate_master_key(OTHER)
            return real(self, create)

        monkeypatch.setattr(Workspace, "_find_or_make", late)
        with pytest.raises(EncryptionError, match=r"was changed meanwhile.*open it again"):
            opened(store, LATE)
        memory.add("照旧 as before", parent="root")
    with opened(store, LATE, OTHER) as found_again:
        found_again.add("后来 later", parent="root")
    assert verify(store, master_key=OTHER, replay=True).ok


def test_a_handle_with_the_old_key_changes_neither_the_master_key_nor_the_data_keys(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with opened(store) as memory, opened(store, LATE) as stale:
        memory.rotate_master_key(OTHER)
        memory.erase_namespace(everything=True)
        stale.erase_namespace(everything=True)  # there are no data keys left, so that none has to be opened
        with pytest.raises(EncryptionError, match="was changed meanwhile"):
            stale.rotate_master_key(bytes(32))
    with pytest.raises(EncryptionError):
        encrypt(store, to="new", config=QUIET, master_key=KEY)
    with opened(store, key=OTHER) as memory:
        memory.add("新的 anew", parent="root")

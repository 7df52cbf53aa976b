"""What is done to a store from outside, by no handle of a namespace, is in the trail of each namespace it concerned."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from crash.helpers import QUIET

from hybridmem import AuditEntry, Memory, NotFound, encrypt, erase_user, export_user, repair, verify

KEY = bytes(range(32))
NAMESPACES = (("acme", "张三"), ("acme", "项目 project"), ("acme", "别人 others"))


def opened(store: Path, names: tuple[str, ...], key: bytes | None = None) -> Memory:
    return Memory.open(store, namespace=names, agent="bot", config=QUIET, master_key=key)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """张三 has a namespace, and has said something in another one; in the third nobody knows of him."""
    found = tmp_path / "store"
    for number, names in enumerate(NAMESPACES):
        with opened(found, names) as m:
            m.add(f"第一 first {number}", parent="root")
            if number == 1:
                m.add("张三: 发票退回了 the invoice came back", parent="root")
            m.flush()
    return found


def told(store: Path, names: tuple[str, ...], key: bytes | None = None) -> list[AuditEntry]:
    """What others than ``bot`` have left; of an erased namespace as it stands in the file."""
    try:
        with Memory.open(store, namespace=names, agent="bot", config=QUIET, master_key=key, create=False) as m:
            return [one for one in m.audit() if one.agent != "bot" and one.verb not in ("open", "close")]
    except NotFound:
        return []


def verbs(store: Path, key: bytes | None = None) -> list[list[tuple[str, str, str]]]:
    return [[(one.verb, one.agent, one.outcome) for one in told(store, names, key)] for names in NAMESPACES]


def test_exporting_a_user_is_told_where_something_of_the_user_was(store: Path, tmp_path: Path) -> None:
    assert export_user(store, "张三", tmp_path / "told.json") == 2
    said = ("export_user", "operator", "ok")
    assert verbs(store) == [[said], [said], []]
    assert [one.detail for one in told(store, NAMESPACES[1])] == [{"memories": 1}]
    assert verify(store).ok


def test_erasing_a_user_is_told_in_the_transaction_that_erases(store: Path) -> None:
    erase_user(store, "张三", dry_run=True, config=QUIET)
    erase_user(store, "张三", config=QUIET)
    (dry, real) = told(store, NAMESPACES[1])
    assert (dry.verb, dry.detail["dry_run"]) == (real.verb, not real.detail["dry_run"]) == ("erase_user", True)
    assert "operations" not in dry.detail
    first, last = real.detail["operations"]
    assert first <= last, "the entries of the log that it made: those of its own transaction"
    with closing(sqlite3.connect(store / "tree.db")) as conn:
        entries = conn.execute("SELECT agent, verb, detail FROM audit WHERE verb = 'erase_user'").fetchall()
    assert len(entries) == 4, "of the namespace that is gone as well"
    assert verbs(store)[2] == []
    assert verify(store).ok


def test_sealing_a_whole_store_is_told_everywhere(store: Path) -> None:
    encrypt(store, master_key=KEY)
    encrypt(store, to="new", master_key=KEY)
    for names in NAMESPACES:
        assert [(one.verb, one.agent, one.detail["to"]) for one in told(store, names, KEY)] == [
            ("encrypt", "encryption", "encrypted"), ("encrypt", "encryption", "new"),
        ]  # fmt: skip
    encrypt(store, to="plain", master_key=KEY)
    assert told(store, NAMESPACES[0])[-1].detail == {"to": "plain"}
    assert verify(store).ok


def test_mending_is_told_and_looking_is_not(store: Path) -> None:
    assert repair(store, config=QUIET).mended == ()
    assert verbs(store) == [[], [], []]
    shutil.rmtree(store / "vectors")
    verify(store)
    mended = len(repair(store, config=QUIET).mended)
    assert mended
    for names in NAMESPACES:
        assert [(one.verb, one.detail) for one in told(store, names)] == [("repair", {"mended": mended})]


@pytest.mark.parametrize("call", ["export", "erase", "encrypt", "repair"])
def test_nothing_is_told_where_the_trail_is_off(store: Path, tmp_path: Path, call: str) -> None:
    off: dict[str, Any] = {**QUIET, "audit": {"enabled": False}}
    shutil.rmtree(store / "vectors")
    calls = {
        "export": lambda: export_user(store, "张三", tmp_path / "told.json", config=off),
        "erase": lambda: erase_user(store, "张三", config=off),
        "encrypt": lambda: encrypt(store, master_key=KEY, config=off),
        "repair": lambda: repair(store, config=off),
    }
    calls[call]()
    assert verbs(store, KEY if call == "encrypt" else None) == [[], [], []]

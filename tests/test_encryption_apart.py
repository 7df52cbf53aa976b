"""Where each namespace has a directory of its own, they are encrypted, sealed anew and opened all at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from erasing import TEXT, found

from hybridmem import EncryptionError, Memory, NotFound, StoreBusy, encrypt, verify
from hybridmem.cli import main
from hybridmem.config import load
from hybridmem.keys import LocalKey, new_key_file
from hybridmem.reencrypt import ReencryptReport
from hybridmem.rotation import master_of, rotate_each
from hybridmem.store import layout

KEY, OTHER = bytes(range(32)), bytes(range(32, 64))
NAMESPACES = (("acme", "张三"), ("acme", "li-si"), ("acme", "王五 mixed"))
CONFIG: dict[str, Any] = {
    "store": {"layout": "separate"},
    "embedding": {"provider": "hashing"},
    "index": {"background": False},
}
SETTINGS = load(CONFIG)


def opened(store: Path, namespace: tuple[str, ...], key: bytes | None = None) -> Memory:
    return Memory.open(store, namespace=namespace, agent="bot", config=CONFIG, master_key=key)


def told(store: Path, key: bytes | None) -> list[str]:
    said = []
    for namespace in NAMESPACES:
        with opened(store, namespace, key) as m:
            said += [node.content for node in m.walk()]
            assert m.search("绝密马克", 1)
    return said


def run(store: Path, to: Any, key: bytes = KEY) -> ReencryptReport:
    return encrypt(store, to=to, config=CONFIG, master_key=key)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Three plain stores below it, and one whose namespace was erased."""
    path = tmp_path / "store"
    for namespace in (*NAMESPACES, ("acme", "没有了 gone")):
        with opened(path, namespace) as m:
            m.add(f"{TEXT} {namespace}", parent="root")
            m.flush()
    with opened(path, ("acme", "没有了 gone")) as m:
        m.erase_namespace(everything=True)
    return path


def test_all_of_them_become_encrypted_change_their_keys_and_become_plain_again(store: Path) -> None:
    before, files = told(store, None), sorted(one.name for one in store.iterdir())
    report = run(store, "encrypted")
    assert (report.cleansed, report.sealed, found(store)) == (True, 6, [])
    (note,) = report.notes
    assert "encryption.enabled" in note, "a namespace that is new would be plain"
    assert told(store, KEY) == before
    assert run(store, "new").cleansed
    assert rotate_each(store, LocalKey(OTHER), config=SETTINGS, agent="op", master_key=KEY) == 3
    assert told(store, OTHER) == before
    assert found(store) == []
    assert verify(store, master_key=OTHER, replay=True).ok
    assert run(store, "plain", OTHER).cleansed
    assert told(store, None) == before
    assert sorted(one.name for one in store.iterdir()) == files
    with pytest.raises(EncryptionError, match="none of its namespaces is encrypted"):
        run(store, "new")


def test_every_namespace_has_it_in_its_audit_trail_that_the_master_key_changed(store: Path) -> None:
    run(store, "encrypted")
    rotate_each(store, LocalKey(OTHER), config=SETTINGS, agent="op", master_key=KEY)
    for namespace in NAMESPACES:
        with opened(store, namespace, OTHER) as m:
            (entry,) = m.audit(verb="rotate_master_key")
            assert (entry.agent, entry.outcome) == ("op", "ok")
            assert m.verify().ok


def test_cut_off_between_two_of_them_each_goes_on_where_it_stopped(store: Path) -> None:
    """Somebody has the last one open."""
    last = layout.stores(store)[-1]
    with Memory.open(
        store, namespace=next(one for one in NAMESPACES if layout.directory_of(store, one) == last), config=CONFIG
    ) as m:
        with pytest.raises(StoreBusy, match=last.name):
            run(store, "encrypted")
        assert m.add("照旧 as before", parent="root")
    assert [master_of(one) is None for one in layout.stores(store)] == [False, False, False, True]
    assert run(store, "encrypted").cleansed
    assert found(store) == []
    wrong = LocalKey(bytes(32))
    first = layout.stores(store)[0]
    with pytest.raises(EncryptionError):
        rotate_each(store, wrong, config=SETTINGS, agent="op", master_key=OTHER)
    # As if it had been killed after the first of them.
    (store / "of its own").mkdir()
    for one in layout.stores(store)[1:]:
        one.rename(store / "of its own" / one.name)
    rotate_each(store, LocalKey(OTHER), config=SETTINGS, agent="op", master_key=KEY)
    for one in (store / "of its own").iterdir():
        one.rename(store / one.name)
    assert len({master_of(one) for one in layout.stores(store)}) == 2
    rotate_each(store, LocalKey(OTHER), config=SETTINGS, agent="op", master_key=KEY)
    assert {master_of(one) for one in layout.stores(store)} == {LocalKey(OTHER).id}
    assert master_of(first) == LocalKey(OTHER).id


def test_the_commands_take_the_directory_above_all_of_them(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("0.key", "1.key"):
        new_key_file(tmp_path / name)

    def cli(key: str, *arguments: str) -> Any:
        monkeypatch.setenv("HYBRIDMEM_KEY", (tmp_path / key).read_text("ascii").strip())
        capsys.readouterr()
        main([*arguments, "--store", str(store), "--set", "store.layout=separate", "--json"])
        return json.loads(capsys.readouterr().out)

    assert cli("0.key", "encrypt")["sealed"] == 6
    assert cli("0.key", "reencrypt")["sealed"] == 6
    assert cli("0.key", "rotate-key", "--new-key", f"file:{tmp_path / '1.key'}")["data_keys"] == 3
    assert cli("1.key", "doctor")["ok"]
    assert cli("1.key", "decrypt")["cleansed"]
    assert cli("1.key", "rotate-key", "--new-key", f"file:{tmp_path / '0.key'}")["error"]["type"] == "EncryptionError"


@pytest.mark.parametrize("to", ["encrypted", "new", "plain"])
def test_where_there_is_no_store_nothing_is_made(tmp_path: Path, to: str) -> None:
    with pytest.raises(NotFound, match="there is no store at"):
        run(tmp_path / "没有 none", to)
    with pytest.raises(NotFound, match="there is no store at"):
        run(tmp_path, to)
    assert list(tmp_path.iterdir()) == []

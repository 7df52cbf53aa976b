"""Keys are changed, and stores encrypted, while everything can be read; cut off at any moment it goes on."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import bytescan
import pytest
from secrets_kept import CONFIG, KEY, NAMESPACES, OTHER_KEY, WORDS, live, opened

from hybridmem import EncryptionError, InvalidInput, Memory, StoreBusy, encrypt
from hybridmem.embed.hashing import HashingEmbedder

ROOT = Path(__file__).parents[1]


def rows(store: Path, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(store / "tree.db")) as database:
        return database.execute(sql).fetchall()


def told(store: Path, key: bytes | None) -> list[Any]:
    """What somebody who uses the store gets to see of it."""
    found: list[Any] = []
    for namespace in NAMESPACES:
        with opened(store, namespace, master_key=key) as memory:
            found += [(one.id, one.content, one.metadata, one.state, one.task) for one in memory.walk()]
            found += [(one.sequence, one.kind, one.payload) for one in memory.operations() if one.kind != "reseal"]
            found += [one.label for one in memory.checkpoints()]
            found += [(hit.id, hit.matched_terms) for hit in memory.search("zyxquartz 鹦鹉螺 慕容复", 50).hits]
    return found


def sound(store: Path, key: bytes | None) -> bool:
    with opened(store, master_key=key) as memory:
        memory.flush()
        return memory.verify(replay=True).ok


def run(store: Path, to: Any, **named: Any) -> Any:
    return encrypt(store, to=to, **{"config": CONFIG, "master_key": KEY, "embedder": HashingEmbedder(), **named})


class TestRotation:
    def test_no_row_but_those_of_the_keys_changes(self, tmp_path: Path) -> None:
        """10,000 memories: what is rewrapped is one key for each namespace, in one transaction."""
        store = tmp_path / "store"
        live(store)
        with opened(store) as memory:
            for start in range(0, 10_000, 2_000):
                memory.add_many([{"content": f"第 {start + n} 条 note", "type": "note"} for n in range(2_000)])
        tables = [name for (name,) in rows(store, "SELECT name FROM sqlite_master WHERE type = 'table'")]
        before = {name: rows(store, f"SELECT * FROM {name}") for name in tables if "vocab" not in name}
        with opened(store) as memory:
            assert memory.rotate_master_key(OTHER_KEY) == len(NAMESPACES)
        after = {name: rows(store, f"SELECT * FROM {name}") for name in before}
        changed = {name for name in before if before[name] != after[name]}
        assert {"revision", "node", "operation", "lexical_content", "embedding"} <= before.keys()
        assert changed <= {"data_key", "setting", "session", "sqlite_sequence", "audit", "audit_head"}, changed
        assert len(before["revision"]) > 10_000
        with pytest.raises(EncryptionError):
            opened(store)
        with opened(store, master_key=OTHER_KEY) as memory:
            assert memory.search("9999 条").hits

    def test_a_plain_store_has_no_key_to_rotate(self, tmp_path: Path) -> None:
        with opened(tmp_path / "s", master_key=None) as memory, pytest.raises(EncryptionError, match="not encrypted"):
            memory.rotate_master_key(KEY)


class TestJob:
    def test_plain_to_encrypted_leaves_no_word_and_changes_nothing_that_is_told(self, tmp_path: Path) -> None:
        store = tmp_path / "store"
        live(store, master_key=None)
        before = told(store, None)
        assert bytescan.found(store, WORDS)
        report = run(store, "encrypted")
        assert (report.cleansed, report.copies, report.notes) == (True, (), ())
        assert bytescan.found(store, WORDS) == []
        assert told(store, KEY) == before
        assert sound(store, KEY)
        assert run(store, "encrypted").sealed == 0

    def test_old_backups_are_named_since_they_stay_as_they_were(self, tmp_path: Path) -> None:
        store = tmp_path / "store"
        live(store, master_key=None)
        with opened(store, master_key=None) as memory:
            path = memory.backup().path
        assert run(store, "encrypted").copies == (str(path),)

    def test_to_plain_that_could_not_cleanse_the_files_can_be_run_again_as_it_says(
        self, tmp_path: Path, monkeypatch: Any
    ) -> None:
        store = tmp_path / "store"
        live(store)
        before = told(store, KEY)
        with monkeypatch.context() as patch:
            patch.setattr("hybridmem.store.rewriting.rewrite", lambda database, wait_seconds: "the disk is full")
            assert not run(store, "plain").cleansed
        assert told(store, KEY) == before
        assert run(store, "plain").cleansed
        assert told(store, None) == before
        assert sound(store, None)

    def test_queries_that_were_kept_as_they_were_asked_are_told_of(self, tmp_path: Path) -> None:
        """The audit trail cannot be changed without breaking its chain: whoever encrypts decides what becomes of it."""
        store = tmp_path / "store"
        config = {**CONFIG, "audit": {"queries": "plain"}}
        with Memory.open(store, config=config, embedder=HashingEmbedder()) as memory:
            memory.add("一条 one", parent="root")
            memory.search("鹦鹉螺 heliotropic?")
        report = run(store, "encrypted")
        assert report.cleansed
        (note,) = report.notes
        assert note.startswith("1 entries of the audit trail")
        with Memory.open(store, config=config, embedder=HashingEmbedder(), master_key=KEY) as memory:
            memory.search("紫藤花 wisteriabloom?")
            memory.prune_audit(0)
            assert memory.verify().ok
        assert run(store, "new").notes == ()
        assert bytescan.found(store, WORDS) == []

    def test_new_data_keys_and_then_none_at_all(self, tmp_path: Path) -> None:
        store = tmp_path / "store"
        live(store)
        before, keys = told(store, KEY), rows(store, "SELECT id FROM data_key")
        vectors = rows(store, "SELECT vector FROM embedding")
        assert run(store, "new").cleansed
        assert told(store, KEY) == before
        assert not {*keys} & {*rows(store, "SELECT id FROM data_key")}
        assert not {*vectors} & {*rows(store, "SELECT vector FROM embedding")}
        assert sound(store, KEY)
        assert run(store, "plain").cleansed
        assert rows(store, "SELECT count(*) FROM data_key") == [(0,)]
        assert rows(store, "SELECT count(*) FROM revision WHERE key_id != 0") == [(0,)]
        assert told(store, None) == before
        assert sound(store, None)

    def test_in_the_middle_everything_can_be_read_and_written(self, tmp_path: Path, monkeypatch: Any) -> None:
        """Also from a handle that was open before it began: by words, by names, exact repeats."""
        monkeypatch.setattr("hybridmem.reencrypt.BATCH", 7)
        store = tmp_path / "store"
        live(store)
        with opened(store) as memory:
            fact = memory.add("唯一的事实 one fact", type="fact", parent="root")

            def named() -> set[str]:
                return {hit.id for hit in memory.search("zyxquartz", 50).hits if "zyxquartz" in hit.content}

            expected = named()
            assert len(expected) > 15
            looks = []

            def look(done: int, total: int) -> None:
                looks.append((done, total))
                assert named() == expected
                assert memory.add("唯一的事实 one fact", type="fact", parent="root").id == fact.id
                assert memory.verify().ok
                memory.add(f"写在中间 {done}", parent="root")

            run(store, "new", progress=look)
            assert len(looks) > 4
            assert named() == expected
            assert len(memory.search("写在中间", 50).hits) >= len(looks)
        assert rows(store, "SELECT count(*) FROM data_key WHERE retired_at IS NOT NULL") == [(0,)]
        assert run(store, "new").cleansed
        assert sound(store, KEY)

    def test_a_store_that_somebody_has_open_is_not_encrypted_behind_his_back(self, tmp_path: Path) -> None:
        live(tmp_path / "store", master_key=None)
        with opened(tmp_path / "store", master_key=None) as memory:
            with pytest.raises(StoreBusy, match="open"):
                run(tmp_path / "store", "encrypted")
            memory.add("照旧 as before", parent="root")
        assert rows(tmp_path / "store", "SELECT count(*) FROM data_key") == [(0,)]


#: Kills the job at a fault point, then goes on. The point, and how often it is passed before.
POINTS = ("encrypt.before_begun:1", "reseal.before_commit:1", "reseal.before_commit:3", "reseal.before_finish:1")
JOB = """
import sys
from pathlib import Path
sys.path.insert(0, "tests")
import hybridmem.reencrypt as job
from secrets_kept import CONFIG, KEY
from hybridmem.embed.hashing import HashingEmbedder
job.BATCH = 20
job.encrypt(sys.argv[1], to=sys.argv[2], config=CONFIG, master_key=KEY, embedder=HashingEmbedder())
"""


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("to", ["encrypted", "new", "plain"])
def test_killed_at_any_point_it_goes_on_and_nothing_is_lost(tmp_path: Path, to: str, point: str) -> None:
    if point.startswith("encrypt.") and to != "encrypted":
        pytest.skip("passed by that job alone")
    store = tmp_path / "store"
    first, last = (None if to == "encrypted" else KEY), (None if to == "plain" else KEY)
    live(store, master_key=first)
    before = told(store, first)
    environment = {**os.environ, "HYBRIDMEM_FAULT": point, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", JOB, str(store), to], cwd=ROOT, env=environment, capture_output=True, timeout=120
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    meanwhile = first if point.startswith("encrypt.") else KEY
    assert told(store, meanwhile) == before
    with opened(store, master_key=meanwhile) as memory:
        assert memory.verify(replay=True).ok
    assert run(store, to).cleansed
    assert told(store, last) == before
    assert sound(store, last)
    if to != "plain":
        assert bytescan.found(store, WORDS) == []


def test_a_destroyed_key_opens_nothing_and_the_other_namespaces_live_on(tmp_path: Path) -> None:
    """What erasing a namespace by its key rests on."""
    from hybridmem.store import points, sealing

    store = tmp_path / "store"
    live(store)
    with opened(store) as memory:
        connections = memory._workspace.connections
        with connections.write() as tx:
            assert sealing.destroy(tx, points.namespace_id(tx, NAMESPACES[1]) or 0) == 1
    with opened(store) as memory:
        assert memory.search("zyxquartz").hits
    with pytest.raises(EncryptionError, match="destroyed"), opened(store, NAMESPACES[1]) as memory:
        list(memory.walk())


class TestExports:
    def test_a_handle_from_before_the_master_key_changed_seals_none(self, tmp_path: Path) -> None:
        """Whoever has the new key could not open it."""
        file = tmp_path / "export"
        with opened(tmp_path / "store") as stale, opened(tmp_path / "store") as memory:
            stale.add("鹦鹉螺")
            memory.rotate_master_key(OTHER_KEY)
            with pytest.raises(EncryptionError, match="changed meanwhile"):
                stale.export(file)
            assert not file.exists()
            assert memory.export(file) == 1
        with opened(tmp_path / "other", ("x",), master_key=OTHER_KEY) as memory:
            assert memory.import_(file).added == 1

    @pytest.mark.parametrize("format", ["jsonl", "tree"])
    def test_they_are_sealed_and_come_back_whole(self, tmp_path: Path, format: str) -> None:
        live(tmp_path / "store")
        file = tmp_path / "out" / "export"
        file.parent.mkdir()
        with opened(tmp_path / "store") as memory:
            count = memory.export(file, format=format)
            nodes = [(one.id, one.content, one.metadata, one.task) for one in memory.walk()]
        assert bytescan.found(file.parent, WORDS) == []
        for key in (KEY, None):
            with opened(tmp_path / f"new {key is None}", ("x",), master_key=key) as memory:
                if key is None:  # a store that is not encrypted, with the key at hand
                    with pytest.raises(EncryptionError, match="sealed by the master key"):
                        memory.import_(file)
                    continue
                assert memory.import_(file).added == count
                assert [(one.id, one.content, one.metadata, one.task) for one in memory.walk()] == nodes

    def test_plain_on_demand(self, tmp_path: Path) -> None:
        live(tmp_path / "store")
        with opened(tmp_path / "store") as memory:
            memory.export(tmp_path / "plain.jsonl", plain=True)
        assert "鹦鹉螺" in (tmp_path / "plain.jsonl").read_text(encoding="utf-8")

    @pytest.mark.parametrize("how", ["cut off", "a line gone", "swapped", "a bit", "of another file", "no lines"])
    def test_whatever_is_changed_shows_and_nothing_is_imported(self, tmp_path: Path, how: str) -> None:
        live(tmp_path / "store")
        with opened(tmp_path / "store") as memory:
            memory.export(tmp_path / "a.jsonl")
            memory.export(tmp_path / "b.jsonl")
        lines, others = ((tmp_path / name).read_text("ascii").splitlines() for name in ("a.jsonl", "b.jsonl"))
        changed = {
            "cut off": lines[:-1],
            "a line gone": [*lines[:5], *lines[6:]],
            "swapped": [*lines[:5], lines[6], lines[5], *lines[7:]],
            "a bit": [*lines[:5], ("B" if lines[5][0] == "A" else "A") + lines[5][1:], *lines[6:]],
            "of another file": [*lines[:5], others[5], *lines[6:]],
            "no lines": lines[:1],
        }[how]
        (tmp_path / "changed.jsonl").write_text("\n".join(changed) + "\n", encoding="ascii")
        with opened(tmp_path / "new") as memory:
            with pytest.raises(ValueError, match="sealed export"):
                memory.import_(tmp_path / "changed.jsonl")
            assert memory.stats().nodes == 0

    @pytest.mark.parametrize(
        ("header", "error", "said"),
        [
            ({"more": "[" * 100_000}, InvalidInput, "line 1: is damaged: not JSON"),
            ({"version": 2}, InvalidInput, "version: 2 of the sealed format is not known"),
            ({"id": 1}, InvalidInput, "line 1: is damaged: id must be a string"),
            ({"master": "\ud800"}, InvalidInput, "line 1: is damaged: master contains half"),
            ({"wrapped": None}, InvalidInput, "line 1: is damaged: wrapped must be a string"),
            ({"master": "another"}, EncryptionError, "sealed by the master key another; the given one is"),
            ({"wrapped": "AAAA"}, EncryptionError, "does not open this data key"),
        ],
    )
    def test_a_first_line_that_is_wrong_is_told_with_the_file(
        self, tmp_path: Path, header: dict[str, Any], error: type[Exception], said: str
    ) -> None:
        """Also one that is nested deeper than Python reads, or names what cannot be printed."""
        file = tmp_path / "sealed.jsonl"
        with opened(tmp_path / "store") as memory:
            memory.add("鹦鹉螺")
            memory.export(file)
            first, rest = file.read_text("ascii").split("\n", 1)
            changed = json.dumps({**json.loads(first), **header}).replace('"[[', "[[")
            file.write_text(f"{changed}\n{rest}", encoding="ascii")
            with pytest.raises(error, match=f"sealed.jsonl: .*{said}"):
                memory.import_(file)


def test_opening_a_plain_store_loads_no_cryptography(tmp_path: Path) -> None:
    code = (
        "import sys; from hybridmem import Memory\n"
        f"m = Memory.open({str(tmp_path / 's')!r}, config={{'index': {{'background': False}}}})\n"
        "m.add('发票 invoice'); m.close(); assert not [one for one in sys.modules if one.startswith('cryptography.')]"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HYBRIDMEM_KEY": ""}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, cwd=ROOT)


def test_memory_opened_by_name_only_is_bound_to_its_key(tmp_path: Path) -> None:
    """``encryption.enabled`` makes a new store encrypted without any argument."""
    config = {**CONFIG, "encryption": {"enabled": True, "key": f"file:{tmp_path / 'key'}"}}
    (tmp_path / "key").write_text(KEY.hex(), encoding="ascii")
    with Memory.open(tmp_path / "s", config=config) as memory:
        memory.add("蓝鲸计划")
    assert bytescan.found(tmp_path / "s", ["蓝鲸计划"]) == []

"""With a master key nothing that was said can be read in the files, and everything works as in a plain store."""

from __future__ import annotations

import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import bytescan
import numpy as np
import pytest
from secrets_kept import CONFIG, KEY, NAMESPACES, OTHER_KEY, WORDS, Remembering, live, opened

from hybridmem import EncryptionError, InvalidInput, Memory, StoreDamaged, repair, restore_backup, verify
from hybridmem.errors import ConfigError
from hybridmem.keys import LocalKey, parsed
from hybridmem.store.data_keys import orthogonal
from hybridmem.text import terms


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str], Remembering]:
    store, embedder = tmp_path_factory.mktemp("made") / "store", Remembering()
    ids = live(store, embedder=embedder)
    with opened(store) as memory:
        memory.backup(label="标签琥珀 amberlabel")
        memory.checkpoint("amberlabel", backup=True)
    return store, ids, embedder


@pytest.fixture
def store(made: tuple[Path, dict[str, str], Remembering], tmp_path: Path) -> Path:
    return Path(shutil.copytree(made[0], tmp_path / "store"))


def rows(store: Path, sql: str, *values: object) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(store / "tree.db")) as database:
        found = database.execute(sql, values).fetchall()
        database.commit()
        return found


class TestAtRest:
    def test_no_byte_of_any_file_tells_a_word_or_a_vector(self, made: tuple[Path, dict[str, str], Remembering]) -> None:
        """Contents, metadata, next steps, labels, notes, names of speakers, tokens; backups and Chroma included."""
        store, _, embedder = made
        tokens = {term for word in WORDS for term in terms(word) if len(term) > 1 and not term.isdigit()}
        assert len(embedder.given) > 20
        assert len(list((store / "checkpoints").glob("*.db"))) == 2
        assert any((store / "vectors").rglob("*.bin"))
        # Two letters of Chinese are three bytes each; Latin tokens shorter than five letters may stand in any bytes.
        long = {token for token in tokens if len(token.encode("utf-8")) > 4 or not token.isascii()}
        assert bytescan.found(store, [*WORDS, *long], embedder.given[:40]) == []

    def test_the_scan_finds_all_of_it_in_a_plain_store(self, tmp_path: Path) -> None:
        embedder = Remembering()
        live(tmp_path / "plain", embedder=embedder, master_key=None)
        seen = {word for _, word in bytescan.found(tmp_path / "plain", WORDS, embedder.given[-1:])}
        assert seen == {*WORDS, "vector 0"}

    def test_it_says_what_a_plain_store_says(
        self, made: tuple[Path, dict[str, str], Remembering], tmp_path: Path
    ) -> None:
        """The same calls give the same answers: search by words, vectors and names, history, log, the past."""
        live(tmp_path / "plain", master_key=None)
        with opened(made[0]) as sealed, opened(tmp_path / "plain", master_key=None) as plain:
            for question in ("zyxquartz 在哪里", "慕容复 说了什么", "鹦鹉螺 7", "旧址", "heliotropic"):
                for states in (None, ["live", "archived", "superseded", "forgotten"]):
                    ours, theirs = (one.search(question, 30, states=states).hits for one in (sealed, plain))
                    assert [hit.node.content for hit in ours] == [hit.node.content for hit in theirs]
                    assert [hit.score for hit in ours] == pytest.approx([hit.score for hit in theirs], abs=1e-4)
                    assert [hit.matched_terms for hit in ours] == [hit.matched_terms for hit in theirs]
            said, told = (
                [
                    (one.kind, {k: v for k, v in one.payload.items() if k in ("next_step", "note")})
                    for one in m.operations()
                ]
                for m in (sealed, plain)
            )
            assert said == told
            assert any("jadenote" in str(payload) for _, payload in said)
            assert [one.label for one in sealed.checkpoints()][1:] == [one.label for one in plain.checkpoints()]
            assert [one.task for one in sealed.tasks()] == [one.task for one in plain.tasks()]
            moment = sealed.get(made[1]["old"]).created_at
            assert [hit.content for hit in sealed.search("旧址", 5, as_of=moment).hits] == [
                hit.content for hit in plain.search("旧址", 5, as_of=moment).hits
            ]

    def test_it_is_sound_and_its_log_tells_the_whole_tree(self, store: Path) -> None:
        report = verify(store, replay=True, master_key=KEY)
        assert (report.findings, report.notes) == ((), ())

    def test_an_exact_repeat_is_recognised(self, store: Path) -> None:
        with opened(store) as memory:
            first = memory.add("唯一的事实 one fact", type="fact", parent="root")
            assert memory.add("唯一的事实 one fact", type="fact", parent="root").id == first.id
        assert rows(store, "SELECT content_key FROM node WHERE uid = ?", first.id)[0][0].startswith("hmac")  # type: ignore[attr-defined]

    def test_each_namespace_has_a_key_of_its_own(self, store: Path) -> None:
        assert len(rows(store, "SELECT DISTINCT wrapped FROM data_key")) == len(NAMESPACES)
        with opened(store) as memory:
            first = memory.add("相同 the same", parent="root").id
        with opened(store, NAMESPACES[1]) as memory:
            second = memory.add("相同 the same", parent="root").id
        keys = rows(store, "SELECT content_key FROM node WHERE uid IN (?, ?)", first, second)
        assert len(set(keys)) == 2


class TestTheKey:
    @pytest.mark.parametrize("key", [None, OTHER_KEY], ids=["none", "another"])
    def test_without_the_right_one_there_is_one_error_and_nothing_changes(self, store: Path, key: bytes | None) -> None:
        """By every door: opening, verifying, repairing, restoring a backup."""
        before = {file: file.read_bytes() for file in store.rglob("*") if file.is_file() and "-shm" not in file.name}
        backup = next((store / "checkpoints").glob("*.db"))
        name = LocalKey(KEY).id
        for call in (
            lambda: opened(store, master_key=key),
            lambda: opened(store, ("new", "新"), master_key=key),
            lambda: verify(store, master_key=key),
            lambda: repair(store, master_key=key),
            lambda: restore_backup(backup, store.parent / "new", master_key=key),
        ):
            with pytest.raises(EncryptionError, match=name) as caught:
                call()
            assert "HYBRIDMEM_KEY" in str(caught.value)
            assert KEY.hex() not in str(caught.value)
        after = {file: file.read_bytes() for file in store.rglob("*") if file.is_file() and "-shm" not in file.name}
        assert {file: data for file, data in after.items() if data or file in before} == before

    def test_it_comes_from_the_environment_or_a_file(
        self, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HYBRIDMEM_KEY", KEY.hex())
        with Memory.open(store, namespace=NAMESPACES[0], config=CONFIG) as memory:
            assert memory.search("zyxquartz").hits
        monkeypatch.delenv("HYBRIDMEM_KEY")
        (tmp_path / "钥匙.key").write_bytes(KEY)
        config = {**CONFIG, "encryption": {"key": f"file:{tmp_path / '钥匙.key'}"}}
        with Memory.open(store, namespace=NAMESPACES[0], config=config) as memory:
            assert memory.search("zyxquartz").hits

    def test_what_is_no_key_is_refused_and_not_shown(self) -> None:
        for text in (b"", b"short", b"x" * 33, b"g" * 64, "钥匙".encode() * 20):
            with pytest.raises(ConfigError, match="32 bytes") as caught:
                parsed(text, "the variable X")
            assert not text or text.decode() not in str(caught.value)
        with pytest.raises(InvalidInput, match="master_key"):
            LocalKey(b"x" * 31)
        assert KEY.hex() not in repr(LocalKey(KEY))

    @pytest.mark.parametrize("id", [5, None, "", " "])
    def test_a_key_service_without_a_name_for_its_key_is_refused(self, tmp_path: Path, id: Any) -> None:
        """The store keeps that name, and tells by it which key it needs."""
        nameless = type("Nameless", (), {"id": id, "wrap": bytes, "unwrap": bytes})()
        with pytest.raises(
            InvalidInput, match=re.escape(f"master_key: its id must be text that names the key, not {id!r}")
        ):
            opened(tmp_path / "new", master_key=nameless)
        assert not (tmp_path / "new").exists()

    def test_a_plain_store_is_not_encrypted_by_opening_it(self, tmp_path: Path) -> None:
        opened(tmp_path / "plain", master_key=None).close()
        with pytest.raises(EncryptionError, match="hybridmem encrypt"):
            opened(tmp_path / "plain")
        with pytest.raises(EncryptionError, match="needs a master key"):
            opened(tmp_path / "new", master_key=None, config={**CONFIG, "encryption": {"enabled": True}})
        assert not (tmp_path / "new").exists()

    def test_a_key_service_is_asked_once_for_each_namespace_and_its_failure_is_told(self, tmp_path: Path) -> None:
        class Service(LocalKey):
            asked = 0

            def unwrap(self, wrapped: bytes) -> bytes:
                Service.asked += 1
                if Service.asked > 3:
                    raise ConnectionError("the service is away")
                return super().unwrap(wrapped)

        service = Service(KEY)
        with opened(tmp_path / "s", master_key=service) as memory:
            for number in range(20):
                memory.add(f"第 {number} 条", parent="root")
            assert len(memory.search("条", 30)) == 20
        asked = Service.asked
        assert asked <= 3
        Service.asked = 9
        with pytest.raises(EncryptionError, match="the service is away"):
            opened(tmp_path / "s", master_key=service)


#: What is changed by hand: the statement, and what verify() says of it.
CHANGES = {
    "a content": ("UPDATE revision SET content = {bit} WHERE node_id = :node", "content (version"),
    "metadata": ("UPDATE revision SET metadata = {bit_metadata} WHERE node_id = :node", "metadata (version"),
    "a content from another node": (
        "UPDATE revision SET content = (SELECT content FROM revision WHERE node_id = :other), "
        "version = (SELECT version FROM revision WHERE node_id = :other) "
        "WHERE id = (SELECT revision_id FROM node WHERE id = :node)",
        "content (version",
    ),
    "an older content of the same node": (
        "UPDATE revision SET content = (SELECT content FROM revision WHERE node_id = :old AND version = 1) "
        "WHERE id = (SELECT revision_id FROM node WHERE id = :old)",
        "content (version 2)",
    ),
    "metadata for the content": ("UPDATE revision SET content = metadata WHERE node_id = :node", "content (version"),
    "a plain content": ("UPDATE revision SET content = '假的 false', key_id = 0 WHERE node_id = :node", "not sealed"),
    "a label": ("UPDATE checkpoint SET label = {bit_label} WHERE label IS NOT NULL", "label"),
    "words of the log": (
        "UPDATE operation SET payload = replace(payload, 'sealed\":[1,\"', 'sealed\":[1,\"AA') WHERE kind = 'feedback'",
        "words of operation",
    ),
}  # fmt: skip


class TestDamage:
    @pytest.fixture
    def numbers(self, store: Path, made: tuple[Path, dict[str, str], Remembering]) -> dict[str, object]:
        ids = made[1]
        sql = "SELECT id FROM node WHERE uid = ?"
        return {
            "node": rows(store, sql, ids["fact"])[0][0],
            "old": rows(store, sql, ids["old"])[0][0],
            "other": rows(store, sql, ids["gone"])[0][0],
        }

    @pytest.mark.parametrize("what", CHANGES)
    def test_whatever_is_changed_or_moved_is_found_and_never_mended(
        self, store: Path, numbers: dict[str, object], what: str
    ) -> None:
        sql, told = CHANGES[what]
        for name, column in (("bit", "content"), ("bit_metadata", "metadata"), ("bit_label", "label")):
            flipped = f"substr({column}, 1, 20) || CASE substr({column}, 21, 1) WHEN 'A' THEN 'B' ELSE 'A' END"
            sql = sql.replace(f"{{{name}}}", f"{flipped} || substr({column}, 22)")
        with closing(sqlite3.connect(store / "tree.db")) as database:
            key = database.execute("SELECT min(id) FROM data_key WHERE namespace_id = 2").fetchone()[0]
            cursor = database.execute(sql.replace("[1,", f"[{key},"), numbers if ":" in sql.split("WHERE")[-1] else {})
            assert cursor.rowcount > 0
            database.commit()
        sealed = [one for one in verify(store, master_key=KEY).findings if one.kind == "sealed"]
        assert sealed
        assert any(told in one.message for one in sealed), sealed
        before = rows(store, "SELECT * FROM revision")
        left = repair(store, config=CONFIG, master_key=KEY).findings
        assert "sealed" in {one.kind for one in left}
        assert rows(store, "SELECT * FROM revision") == before

    def test_reading_it_names_the_memory_and_all_others_can_be_read(
        self, store: Path, numbers: dict[str, object], made: tuple[Path, dict[str, str], Remembering]
    ) -> None:
        rows(store, "UPDATE revision SET content = replace(content, substr(content, 5, 1), '+') WHERE node_id = ?",
             numbers["node"])  # fmt: skip
        with opened(store) as memory:
            with pytest.raises(StoreDamaged, match=made[1]["fact"]):
                memory.get(made[1]["fact"])
            assert "鹦鹉螺" in memory.get(made[1]["old"]).content
            after = memory.add("继续 carry on", parent="root")
            assert memory.get(after.id) == after


def test_a_backup_stays_sealed_and_is_a_store_again_with_the_key(store: Path, tmp_path: Path) -> None:
    with opened(store) as memory:
        labels = [one.label for one in memory.backups()]
    assert labels == ["amberlabel", "标签琥珀 amberlabel"]
    backup = next((store / "checkpoints").glob("backup-000001*"))
    restore_backup(backup, tmp_path / "again", master_key=KEY)
    with opened(tmp_path / "again") as memory:
        assert memory.search("zyxquartz").hits
        assert memory.verify(replay=True).ok


def test_the_rotation_is_one_and_keeps_every_cosine() -> None:
    rotation = orthogonal(KEY, 64).astype(np.float64)
    assert np.abs(rotation @ rotation.T - np.eye(64)).max() < 1e-6
    assert np.array_equal(orthogonal(KEY, 64), orthogonal(KEY, 64))
    assert np.abs(orthogonal(KEY, 64) - orthogonal(OTHER_KEY, 64)).max() > 0.1
    generator = np.random.default_rng(1)
    vectors = generator.normal(size=(500, 64))
    assert np.abs(vectors @ vectors.T - (vectors @ rotation.T) @ (vectors @ rotation.T).T).max() < 1e-4
    # Spread over the whole sphere: a rotation close to doing nothing would show the vector.
    assert abs(float(np.trace(rotation))) < 8

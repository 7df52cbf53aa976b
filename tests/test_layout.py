"""One directory for each namespace: nothing of one is read or written by another, and no layout passes for another."""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from isolated import CANARY, NAMESPACES, filled, opened, told
from surface import BY_ID, READS, WRITES, Own

from hybridmem import ConfigError, InvalidInput, Memory, NotFound, StoreDamaged, repair, restore_backup, verify
from hybridmem.cli import main
from hybridmem.index.hnsw import HEADER
from hybridmem.inputs import MAX_NAME
from hybridmem.store import layout
from hybridmem.store.directory import MARKER

SEPARATE = {"store": {"layout": "separate"}}
Made = tuple[Path, tuple[Own, ...]]


def files(directory: Path) -> dict[str, bytes]:
    """Every file below a directory and what is in it."""
    return {str(one.relative_to(directory)): one.read_bytes() for one in directory.rglob("*") if one.is_file()}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """All the hostile namespaces, each in its own directory; not to be written to."""
    folder = tmp_path_factory.mktemp("layout")
    store = folder / "store"
    return store, tuple(filled(store, number, folder, **SEPARATE) for number in range(len(NAMESPACES)))


@pytest.fixture
def copied(made: Made, tmp_path: Path) -> Path:
    shutil.copytree(made[0], tmp_path / "store")
    return tmp_path / "store"


class TestIsolation:
    """The property of tests/test_isolation.py, where each namespace has its directory."""

    @pytest.mark.parametrize("number", range(len(NAMESPACES)))
    def test_every_reading_call_tells_of_its_own_alone(self, made: Made, number: int) -> None:
        store, everybody = made
        own = everybody[number]
        foreign = {str(value) for one in everybody if one is not own for value in asdict(one).values()}
        with opened(store, NAMESPACES[number], **SEPARATE) as m:
            for name, call in READS.items():
                text = told(call(m, own))
                assert set(CANARY.findall(text)) <= {own.canary}, name
                assert not [one for one in foreign if one in text], name
            assert m.stats().namespace == m.namespace == NAMESPACES[number]
            assert m.stats().nodes == len(list(m.walk())) - 1 == 17

    @pytest.mark.parametrize("number", [0, 4, 9, 18, 23, 27, 30])
    def test_every_writing_call_leaves_the_bytes_of_all_others_alone(
        self, made: Made, copied: Path, tmp_path: Path, number: int
    ) -> None:
        own = Own(**{**asdict(made[1][number]), "folder": tmp_path})
        mine = layout.directory_of(copied, NAMESPACES[number]).name
        before = {name: data for name, data in files(copied).items() if not name.startswith(mine)}
        assert len({name.split("/")[0] for name in before}) == len(NAMESPACES)
        with opened(copied, NAMESPACES[number], **SEPARATE) as m:
            assert m.path == copied / mine
            with pytest.raises(InvalidInput, match=r"share: .*needs store.layout: shared"):
                WRITES["share"](m, own)  # nobody else reads here, whatever is given
            for name, call in WRITES.items():
                if name == "share":
                    continue
                assert set(CANARY.findall(told(call(m, own)))) <= {own.canary}, name
            m.backup(label="标签 label")
        assert {name: data for name, data in files(copied).items() if not name.startswith(mine)} == before

    def test_the_bytes_of_one_hold_nothing_of_another(self, made: Made) -> None:
        store, everybody = made
        for number in range(len(NAMESPACES)):
            data = b"".join(files(layout.directory_of(store, NAMESPACES[number])).values())
            assert everybody[number].canary.encode() in data
            assert not [one.canary for one in everybody if one.canary.encode() in data and one is not everybody[number]]

    def test_what_the_index_has_not_filled_is_empty(self, made: Made) -> None:
        """Else it holds what this process had in its memory: the texts of others that were open in it."""
        checked = 0
        for file in made[0].glob("*/vectors/*/header.bin"):
            _, _, _, count, size, *_ = HEADER.unpack(file.read_bytes())
            for name, width in (("data_level0.bin", size), ("length.bin", 4)):
                room = file.with_name(name).read_bytes()[count * width :]
                assert not any(room), name
                checked += len(room)
        assert checked > 100_000

    def test_an_id_of_another_namespace_leads_nowhere(self, made: Made, copied: Path) -> None:
        with opened(copied, NAMESPACES[0], **SEPARATE) as m:
            for name, call in BY_ID.items():
                with pytest.raises((NotFound, InvalidInput)):
                    call(m, made[1][1].fact)
                assert m.verify().ok, name


class TestDirectories:
    def test_each_namespace_has_its_own_also_where_case_and_form_do_not_count(self, made: Made) -> None:
        """By the hash, which is another one even for what a file system takes for the same name."""
        names = [layout.directory_name(one) for one in NAMESPACES]
        assert len({name[-layout.DIGITS :] for name in names}) == len(names)
        assert sorted(one.name for one in layout.stores(made[0])) == sorted(names)

    @pytest.mark.parametrize(
        ("namespace", "readable"),
        [
            (("acme", "zhang-san"), "acme-zhang-san"), (("张三", "李四"), "张三-李四"), (("..", ".."), "x"),
            (("/",), "x"),
            (("../../etc/passwd",), "etc-passwd"), (("C:\\con",), "C-con"), (("-rf",), "rf"), (("tree.db",), "tree-db"),
            (("a\u202eb",), "a-b"), (("e\u0301",), "é"), (("张" * MAX_NAME,), "张" * 26),
            (("x" * MAX_NAME,) * 16, "x" * 80),
        ],
    )  # fmt: skip
    def test_its_name_is_readable_and_stays_where_it_is(
        self, tmp_path: Path, namespace: tuple[str, ...], readable: str
    ) -> None:
        with opened(tmp_path / "store", namespace, **SEPARATE) as m:
            m.add("发票 invoice")
            assert m.path.parent == tmp_path / "store"
            assert m.path.name.rpartition("-")[0] == readable
            assert len(os.fsencode(m.path.name)) <= 255 - len(".12345678.unfinished")
        assert {one.name for one in tmp_path.iterdir()} == {"store"}
        assert {one.name for one in (tmp_path / "store").iterdir()} == {MARKER, m.path.name}
        with opened(tmp_path / "store", namespace, **SEPARATE) as m:
            assert m.stats().nodes == 1

    @pytest.mark.skipif(sys.platform == "win32", reason="no such modes")
    def test_nobody_else_may_look_into_them(self, tmp_path: Path) -> None:
        old = os.umask(0)
        try:
            with opened(tmp_path / "store", ("acme",), **SEPARATE) as m:
                m.add("x")
        finally:
            os.umask(old)
        assert {stat.S_IMODE(one.stat().st_mode) for one in (tmp_path / "store", m.path)} == {0o700}
        assert stat.S_IMODE((tmp_path / "store" / MARKER).stat().st_mode) == 0o600

    def test_one_that_was_made_under_another_encoding_of_file_names_is_found(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "getfilesystemencoding", lambda: "ascii")
            with opened(tmp_path / "store", ("张三", "x1"), **SEPARATE) as m:
                assert m.path.name.rpartition("-")[0] == "-x1".lstrip("-") or m.path.name.startswith("-x1")
                m.add("发票 invoice")
        with opened(tmp_path / "store", ("张三", "x1"), **SEPARATE) as m:
            assert m.stats().nodes == 1
        assert len(layout.stores(tmp_path / "store")) == 1

    def test_threads_that_open_a_new_one_at_once_all_get_it(self, tmp_path: Path) -> None:
        names, failed = [("a",), ("b",), ("a",), ("张三",)] * 2, []

        def run(one: tuple[str, ...]) -> None:
            try:
                with opened(tmp_path / "store", one, **SEPARATE) as m:
                    m.add("发票 invoice", type="event")
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=run, args=(one,)) for one in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        assert [(one.namespace, one.nodes) for one in layout.listed(tmp_path / "store")] == [
            (("a",), 4), (("b",), 2), (("张三",), 2),
        ]  # fmt: skip

    def test_a_mark_alone_is_an_empty_store(self, tmp_path: Path) -> None:
        """As a process leaves it that was killed between the two."""
        with opened(tmp_path / "store", ("a",), **SEPARATE) as m:
            inner = m.path
        shutil.rmtree(inner)
        assert layout.listed(tmp_path / "store") == []
        assert verify(tmp_path / "store").ok
        with pytest.raises(NotFound, match="namespace"):
            Memory.open(tmp_path / "store", namespace=("a",), config=SEPARATE, create=False)
        with opened(tmp_path / "store", ("a",), **SEPARATE) as m:
            assert m.add("x").created


class TestTheOtherLayout:
    def test_a_directory_of_one_is_refused_by_the_other_and_nothing_changes(self, tmp_path: Path) -> None:
        with opened(tmp_path / "one", ("acme",)) as m:
            m.add("发票 invoice")
        with opened(tmp_path / "many", ("acme",), **SEPARATE) as m:
            m.add("发票 invoice")
            inner = m.path
        before = files(tmp_path)
        for path, options, said in (
            (tmp_path / "one", SEPARATE, "all of its namespaces share; open it with store.layout: shared"),
            (tmp_path / "many", {}, "a directory for each namespace; open it with store.layout: separate"),
            (inner, {}, "is the directory of one namespace; open .*many with store.layout: separate"),
            (inner, SEPARATE, "is the directory of one namespace"),
        ):
            for names in (("acme",), ("other",)):
                with pytest.raises(ConfigError, match=said):
                    opened(path, names, **options)
        assert files(tmp_path) == before

    def test_what_is_not_there_is_not_made_for_who_only_reads(self, tmp_path: Path) -> None:
        for namespace in (("acme",), ("other",)):
            with pytest.raises(NotFound):
                Memory.open(tmp_path / "store", namespace=namespace, config=SEPARATE, create=False)
            assert namespace == ("other",) or not (tmp_path / "store").exists()
            opened(tmp_path / "store", ("acme",), **SEPARATE).close()
        assert len(layout.stores(tmp_path / "store")) == 1

    def test_a_store_that_holds_others_too_is_refused_and_does_not_tell_whose(self, tmp_path: Path) -> None:
        """A backup of a store that is shared, restored where one namespace is to be alone."""
        for names in (("acme",), ("秘密的人",)):
            with opened(tmp_path / "one", names) as m:
                m.add("发票 invoice")
                taken = m.backup(tmp_path / "taken.db")
        with opened(tmp_path / "many", ("acme",), **SEPARATE) as m:
            inner = m.path
        restore_backup(taken.path, inner, replace=True)
        with pytest.raises(StoreDamaged, match="1 others are in it") as refused:
            opened(tmp_path / "many", ("acme",), **SEPARATE)
        assert "秘密的人" not in str(refused.value)

    def test_nothing_is_written_over_the_mark_nor_another_made(self, tmp_path: Path) -> None:
        with opened(tmp_path / "many", ("acme",), **SEPARATE) as m, opened(tmp_path / "one", ("acme",)) as other:
            for file in (tmp_path / "many" / MARKER, tmp_path / "one" / MARKER, m.path / "tree.db"):
                for write in (m.export, other.export, m.backup):
                    with pytest.raises(InvalidInput, match="store"):
                        write(file)
        with pytest.raises(InvalidInput, match="neither empty nor a store"):
            restore_backup(taken(tmp_path), tmp_path / "many", replace=True)


def taken(folder: Path) -> Path:
    with opened(folder / "one", ("acme",)) as m:
        return m.backup(folder / "taken.db").path


class TestOperating:
    def test_a_backup_is_of_one_namespace_and_comes_back_to_it(self, tmp_path: Path) -> None:
        for names in (("acme",), ("张三",)):
            with opened(tmp_path / "store", names, **SEPARATE) as m:
                m.add(f"发票 invoice {names[0]}")
                m.backup()
                assert [one.nodes for one in m.backups(verify=True)] == [1]
                m.add("以后 later")
                inner, taken = m.path, m.backups()[0].path
        assert restore_backup(taken, inner, replace=True).namespaces == 1
        assert [(one.namespace, one.nodes) for one in layout.listed(tmp_path / "store")] == [
            (("acme",), 2), (("张三",), 1),
        ]  # fmt: skip
        with opened(tmp_path / "store", ("张三",), **SEPARATE) as m:
            assert m.search("发票")[0].content == "发票 invoice 张三"

    def test_verify_and_repair_look_at_each_and_say_whose_it_is(self, made: Made, copied: Path) -> None:
        found = verify(copied, replay=True)
        assert (found.ok, found.counts["namespaces"], found.counts["nodes"]) == (True, 32, 32 * 17)
        for number in (3, 18):
            place = layout.directory_of(copied, NAMESPACES[number])
            with __import__("sqlite3").connect(place / "tree.db") as conn:
                conn.execute("UPDATE namespace SET nodes = nodes + 5")
            conn.close()
        found = verify(copied)
        assert {one.namespace for one in found.findings} == {NAMESPACES[3], NAMESPACES[18]}
        assert verify(copied, namespace=NAMESPACES[0]).ok
        assert not verify(copied, namespace=NAMESPACES[3]).ok
        mended = repair(copied, config={"embedding": {"provider": "hashing"}})
        assert mended.ok
        assert {one.namespace for one in mended.mended} == {NAMESPACES[3], NAMESPACES[18]}
        assert verify(copied, replay=True).ok

    def test_the_commands_work_with_it(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        store = tmp_path / "store"

        def run(*arguments: str, namespace: str = "acme", code: int = 0) -> Any:
            where = ["--store", str(store), "--namespace", namespace, "--set", "embedding.provider=hashing"]
            assert main([*arguments, *where, "--set", "store.layout=separate", "--json"]) == code
            return json.loads(capsys.readouterr().out)

        run("stats", code=4)
        assert not store.exists()
        run("add", "发票 invoice")
        run("add", "别人的 theirs", namespace="张三/李四")
        run("stats", namespace="nobody", code=4)
        assert [hit["node"]["content"] for hit in run("search", "发票 theirs")["hits"]] == ["发票 invoice"]
        found = run("namespaces")
        assert found["layout"] == "separate"
        assert [(one["namespace"], one["nodes"]) for one in found["namespaces"]] == [
            (["acme"], 1),
            (["张三", "李四"], 1),
        ]
        assert run("doctor")["counts"]["namespaces"] == 2
        run("backup")
        assert len(run("backups", "--verify")["backups"]) == 1
        assert run("backups", namespace="张三/李四")["backups"] == []
        run("doctor", "--fix")
        assert main(["namespaces", "--store", str(store)]) == 0, "however it is configured"
        assert "张三/李四" in capsys.readouterr().out

    def test_the_command_lists_those_of_a_store_that_is_shared(self, tmp_path: Path, capsys: Any) -> None:
        for names in (("acme",), ("张三", "李四")):
            opened(tmp_path / "store", names).close()
        assert main(["namespaces", "--store", str(tmp_path / "store"), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["layout"], [one["namespace"] for one in found["namespaces"]]) == (
            "shared", [["acme"], ["张三", "李四"]],
        )  # fmt: skip

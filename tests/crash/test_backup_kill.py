"""Killed at any step, or interrupted at any moment, a backup leaves the earlier ones, and a restore the old store or
the restored one, whole: which of them is decided by one rename."""

from __future__ import annotations

import gc
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from hybridmem import Backup, InvalidInput, Memory, StoreFull, faults, restore_backup
from hybridmem.backup import LOCK
from hybridmem.store import swap

from .helpers import QUIET, check_database, check_vectors, run, said
from .test_disk import LIMIT
from .test_interrupt import Moment, Moments, interrupt

BACKUP_POINTS = [name for name in faults.BACKUP_POINTS if name.startswith("backup.")]
RESTORE_POINTS = [name for name in faults.BACKUP_POINTS if name.startswith("backup_restore.")]
#: What happens up to these leaves the old store.
BEFORE_DECISION = ("backup_restore.after_copy", "backup_restore.before_decision")
RESTORE = "restore_backup(sys.argv[1], sys.argv[2], replace=True)"
#: Where files come and go: every moment there is tried.
CRITICAL = ("/replacing.py", "/store/lock.py")

pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed scandir iterator:ResourceWarning"),
    # Python passes over an exception that comes while it clears a generator away; the call goes on then.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """What an interrupt left to the garbage collector is found here, and not in the middle of another test."""
    yield
    gc.collect()


def filled(store: Path) -> Backup:
    """A store with a backup and one memory after it, which is in the log of a killed process only."""
    with Memory.open(store, config=QUIET) as memory:
        memory.start_task("企业报销任务 claim", next_step="提交 submit")
        memory.add("财务退回，发票 is not readable", id="before")
        memory.flush()
        made = memory.backup(label="之前 before")
        memory.add("换成电子发票 e-invoice", id="after")
        memory.flush()
    done = run(
        """
        memory = Memory.open(sys.argv[1], config=QUIET)
        memory.add("日志里 in the log", id="wal")
        os.kill(os.getpid(), 9)
        """,
        store,
    )
    assert done.returncode == -9
    return made


def ids(store: Path) -> set[str]:
    """Of the memories, as whoever opens the store sees them; everything agrees with everything else, vectors too."""
    with Memory.open(store, config=QUIET, create=False) as memory:
        found = {node.id for node in memory.walk() if node.type == "note"}
        hits = {hit.id for hit in memory.search("发票 e-invoice 日志", k=10) if hit.node.type == "note"}
        assert hits <= found
        assert memory.flush() == 0
    check_database(store)
    check_vectors(store)
    return found


OLD, NEW = {"before", "after", "wal"}, {"before"}


def unfinished(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.rglob("*unfinished*"))


@pytest.fixture(scope="module")
def killed_store(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Backup]:
    """To be copied, not to be touched."""
    store = tmp_path_factory.mktemp("killed") / "store"
    return store, filled(store)


class TestKilledRestores:
    @pytest.mark.parametrize("point", RESTORE_POINTS)
    def test_the_old_store_or_the_restored_one_is_there_and_running_it_again_ends_right(
        self, tmp_path: Path, killed_store: tuple[Path, Backup], monkeypatch: pytest.MonkeyPatch, point: str
    ) -> None:
        made, opened, again = killed_store[1], tmp_path / "opened", tmp_path / "again"
        shutil.copytree(killed_store[0], opened)
        monkeypatch.setenv(faults.VARIABLE, point)
        assert run(RESTORE, made.path, opened).returncode == -9, f"{point} is never passed"
        monkeypatch.delenv(faults.VARIABLE)
        assert not (opened / "tree.db").exists() or point != "backup_restore.before_rename", "the kill came elsewhere"
        shutil.copytree(opened, again)
        assert ids(opened) == (OLD if point in BEFORE_DECISION else NEW)
        restore_backup(made.path, again, replace=True)
        assert ids(again) == NEW
        assert unfinished(again) == []
        for store in (opened, again):
            asides = sorted((store / "aside").glob("*"))
            old = [aside for aside in asides if set(check_database(aside)) >= OLD]
            assert len(old) == (store == again or point not in BEFORE_DECISION), "the old store lies whole in one place"

    @pytest.mark.parametrize("point", RESTORE_POINTS)
    def test_into_a_new_directory_too(
        self, tmp_path: Path, killed_store: tuple[Path, Backup], monkeypatch: pytest.MonkeyPatch, point: str
    ) -> None:
        made, new = killed_store[1], tmp_path / "new"
        monkeypatch.setenv(faults.VARIABLE, point)
        assert run("restore_backup(sys.argv[1], sys.argv[2])", made.path, new).returncode == -9
        monkeypatch.delenv(faults.VARIABLE)
        if point == "backup_restore.after_rename":
            with pytest.raises(InvalidInput, match="there is a store"):
                restore_backup(made.path, new)
        else:
            restore_backup(made.path, new)
        assert ids(new) == NEW
        assert unfinished(new) == []

    def test_never_is_an_empty_store_made_in_the_gap(
        self, tmp_path: Path, killed_store: tuple[Path, Backup], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Between the moving away of the old database and the naming of the new one there is none: whoever opens the
        store then must not take it for a new one."""
        store = tmp_path / "store"
        shutil.copytree(killed_store[0], store)
        monkeypatch.setenv(faults.VARIABLE, "backup_restore.before_rename")
        assert run(RESTORE, killed_store[1].path, store).returncode == -9
        monkeypatch.delenv(faults.VARIABLE)
        assert not (store / "tree.db").exists()
        for create in (False, True):
            with Memory.open(store, config=QUIET, create=create) as memory:
                assert memory.get("before").id == "before"


class TestKilledBackups:
    @pytest.mark.parametrize("point", BACKUP_POINTS)
    def test_earlier_backups_stay_and_the_next_one_is_whole_and_clears_up(
        self, tmp_path: Path, killed_store: tuple[Path, Backup], monkeypatch: pytest.MonkeyPatch, point: str
    ) -> None:
        store = tmp_path / "store"
        shutil.copytree(killed_store[0], store)
        monkeypatch.setenv(faults.VARIABLE, point)
        done = run("Memory.open(sys.argv[1], config=QUIET).backup()", store)
        assert done.returncode == -9, f"{point} is never passed"
        monkeypatch.delenv(faults.VARIABLE)
        with Memory.open(store, config=QUIET) as memory:
            found = memory.backups(verify=True)
            assert [one.number for one in found] == ([2, 1] if point == "backup.after_rename" else [1])
            assert all(one.verified for one in found)
            memory.backup()
            assert all(one.verified for one in memory.backups(verify=True))
        assert unfinished(store) == []
        assert ids(store) == OLD


def chosen(found: list[Moment], stride: int) -> list[Moment]:
    """The moments to try: those around the making, naming and removing of files, and of the others every so many."""
    return [
        one
        for number, one in enumerate(found)
        if number % stride == 0 or one[0].co_filename.endswith(CRITICAL) or one[0].co_name in ("touch", "unlink")
    ]


class TestInterrupts:
    """Ctrl-C; see test_interrupt for how its moments are found."""

    def test_a_backup_leaves_no_unfinished_file_and_the_next_one_works(self, tmp_path: Path) -> None:
        store = tmp_path / "store"
        with Memory.open(store, config={**QUIET, "checkpoint": {"keep_backups": 2}}) as memory:
            memory.add("客户要退款 the customer wants a refund")
            memory.backup()
            came = 0
            with Moments() as looking:
                memory.backup()
            tried = chosen(looking.found, 60)
            for moment in tried:
                try:
                    with Moments(moment, interrupt) as at:
                        memory.backup()
                except KeyboardInterrupt:
                    assert unfinished(store) == [], moment
                came += at.came
                gc.collect()
                before = memory.backups()[0].number
                memory.add(f"之后 right after {came}")
                assert memory.backup().number == (before or 0) + 1, moment
            assert came > 0.8 * len(tried)
            assert all(one.verified for one in memory.backups(verify=True))
        check_database(store)

    def test_an_export_leaves_no_unfinished_file_and_the_next_one_works(self, tmp_path: Path) -> None:
        file = tmp_path / "out" / "导出 export.jsonl"
        file.parent.mkdir()
        with Memory.open(tmp_path / "store", config=QUIET) as memory:
            memory.add_many([{"content": f"客户要退款 refund {number}"} for number in range(5)])
            with Moments() as looking:
                memory.export(file)
            tried = chosen(looking.found, 9)
            came = 0
            for moment in tried:
                file.write_text("旧的 old", encoding="utf-8")
                try:
                    with Moments(moment, interrupt) as at:
                        memory.export(file)
                except KeyboardInterrupt:
                    assert [one.name for one in file.parent.iterdir()] == [file.name], moment
                    text = file.read_text(encoding="utf-8")
                    assert text == "旧的 old" or text.count("\n") == 8, "half a file"
                came += at.came
            assert came > 0.8 * len(tried)
            assert memory.export(file) == 5

    def test_a_restore_has_not_happened_or_is_finished_by_the_next_who_opens_the_store(
        self, tmp_path: Path, killed_store: tuple[Path, Backup]
    ) -> None:
        made = killed_store[1]
        looked = tmp_path / "looked"
        shutil.copytree(killed_store[0], looked)
        seen = set()
        with Moments() as looking:
            restore_backup(made.path, looked, replace=True)
        tried = chosen(looking.found, 80)
        for number, moment in enumerate(tried):
            store = tmp_path / f"store-{number}"
            shutil.copytree(killed_store[0], store)
            try:
                with Moments(moment, interrupt):
                    restore_backup(made.path, store, replace=True)
            except KeyboardInterrupt:
                gc.collect()
                decided = swap.is_pending(store) or (store / "aside").exists()
                assert unfinished(store) == [], moment
                with Memory.open(store, config=QUIET, create=False) as memory:
                    found = {node.id for node in memory.walk() if node.type == "note"}
                assert found == (NEW if decided else OLD), moment
                seen.add(decided)
            shutil.rmtree(store)
        assert seen == {False, True}


class TestAFullDisk:
    def test_a_backup_gives_store_full_leaves_nothing_and_keeps_the_earlier_ones(self, tmp_path: Path) -> None:
        earlier, refused, left, later = said(
            LIMIT
            + """
    memory = Memory.open(sys.argv[1], config=QUIET)
    memory.add_many([{"content": f"磁盘 disk {number} " + "满" * 500} for number in range(300)])
    memory.flush()
    earlier = memory.backup()
    refused = []
    for size in (1, 5_000, 100_000, earlier.bytes // 2, earlier.bytes - 1):
        limit(size)
        for call in (memory.backup, lambda: memory.backup(sys.argv[1] + ".elsewhere")):
            try:
                call()
            except StoreFull as error:
                refused.append(str(error))
        free()
    left = [one.path.name for one in memory.backups(verify=True) if one.verified]
    left += [path.name for path in Path(sys.argv[1]).parent.rglob("*unfinished*")]
    left += [path.name for path in Path(sys.argv[1]).parent.glob("*elsewhere*")]
    later = memory.backup()
    memory.close()
    say(earlier.path.name), say(refused), say(left), say(later.to_dict())
    """,
            tmp_path / "store",
        )
        assert len(refused) == 10
        assert all("cannot be written" in text for text in refused)
        assert left == [earlier]
        assert (later["number"], later["verified"], later["nodes"]) == (2, True, 300)

    def test_a_restore_gives_store_full_and_leaves_the_old_store(
        self, tmp_path: Path, killed_store: tuple[Path, Backup]
    ) -> None:
        made, store = killed_store[1], tmp_path / "store"
        shutil.copytree(killed_store[0], store)
        (refused,) = said(
            LIMIT
            + """
    refused = []
    for size in (1, 5_000, 100_000):
        limit(size)
        try:
            restore_backup(sys.argv[2], sys.argv[1], replace=True)
        except StoreFull as error:
            refused.append(str(error))
    say(refused)
    """,
            store,
            made.path,
        )
        assert len(refused) == 3
        assert unfinished(store) == []
        assert not (store / "aside").exists()
        assert ids(store) == OLD


def test_what_cannot_be_moved_gives_store_full_and_is_finished_later(
    tmp_path: Path, killed_store: tuple[Path, Backup], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store"
    shutil.copytree(killed_store[0], store)
    rename = Path.rename

    def failing(path: Path, target: Path) -> Path:
        if path.name == "vectors":
            raise PermissionError(13, "Permission denied")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(StoreFull, match="cannot be finished"):
        restore_backup(killed_store[1].path, store, replace=True)
    with pytest.raises(StoreFull, match="cannot be finished"):
        Memory.open(store, config=QUIET)
    monkeypatch.undo()
    assert ids(store) == NEW
    with closing(sqlite3.connect(store / "tree.db")) as conn:
        assert conn.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert (store / "checkpoints" / LOCK).exists()

"""Backup files: whole, checked by opening them, made while the store is in use, listed whatever has become of them, and
retired only by their own rule."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from backed_up import damage, filled, names, rows_of

from hybridmem import InvalidInput, Memory, StoreBusy, StoreClosed, StoreDamaged, StoreFull, restore_backup
from hybridmem.backup import LOCK, Backups
from hybridmem.store import swap
from hybridmem.store.lock import FileLock

OpenMemory = Callable[..., Memory]
LABELS = ("报销之前", "before the trip", "上线 release 2")


class TestTheFile:
    def test_it_is_one_private_database_with_every_row_and_nothing_beside_it(self, memory: OpenMemory) -> None:
        m = filled(memory())
        before = rows_of(m.path / "tree.db")
        made = m.backup()
        assert made.path.parent == m.path / "checkpoints"
        assert names(made.path.parent) == [made.path.name] == ["backup-000001-20260702T080000Z.db"]
        assert stat.S_IMODE(made.path.stat().st_mode) == 0o600
        assert stat.S_IMODE(made.path.parent.stat().st_mode) == 0o700
        after = rows_of(made.path)
        assert after.pop("setting") != before.pop("setting"), "how it was made is noted in it"
        assert after == before
        with closing(sqlite3.connect(made.path)) as conn:
            assert conn.execute("PRAGMA journal_mode").fetchone() == ("delete",)
            assert conn.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert names(made.path.parent) == [made.path.name], "reading it makes no other file"

    def test_it_says_what_is_in_it(self, memory: OpenMemory, clock: Any) -> None:
        m = filled(memory())
        clock.advance(hours=1)
        made = m.backup(label=LABELS[0])
        assert (made.number, made.label, made.at, made.nodes) == (1, LABELS[0], clock.now(), m.stats().nodes)
        assert made.sequence == m.operations()[-1].sequence
        assert made.bytes == made.path.stat().st_size
        assert made.verified
        assert made.problem is None
        m.add("后来的 later")
        assert m.backup().sequence == made.sequence + 1
        assert made.to_dict()["path"] == str(made.path)

    def test_it_holds_every_namespace_and_tells_each_only_of_its_own(self, memory: OpenMemory) -> None:
        m, other = filled(memory()), memory(namespace=("另一个", "other"))
        other.add("别人的 theirs")
        made = other.backup(label="他们的标签 their label")
        assert made.nodes == 1
        (seen,) = m.backups()
        assert (seen.nodes, seen.label) == (3, None)
        (theirs,) = other.backups()
        assert (theirs.nodes, theirs.label) == (1, "他们的标签 their label")
        (stranger,) = memory(namespace=("newcomer",)).backups()
        assert (stranger.nodes, stranger.sequence) == (0, 0), "it was made later"

    def test_a_file_elsewhere_has_the_name_that_was_given_and_is_replaced_whole(
        self, memory: OpenMemory, tmp_path: Path
    ) -> None:
        m, file = filled(memory()), tmp_path / "备份 latest.db"
        first = m.backup(file)
        assert (first.path, first.number) == (file, None)
        m.add("后来的 later")
        assert m.backup(str(file)).nodes == first.nodes + 1
        assert sorted(tmp_path.glob("*latest*")) == [file]
        assert m.backups() == [], "only those in checkpoints/ are listed"
        assert restore_backup(file, tmp_path / "new").nodes == first.nodes + 1

    def test_it_has_what_is_committed_even_if_this_thread_is_in_the_middle_of_a_write(self, memory: OpenMemory) -> None:
        """A signal handler may ask for a backup at any moment."""
        m = filled(memory())
        with m._workspace.write() as tx:
            m._workspace.record(tx, "里面 nested", None, {})
            made = m.backup()
        assert made.sequence == m.operations()[-1].sequence - 1
        assert m.backups(verify=True)[0].problem is None

    def test_it_ends_and_is_of_one_moment_though_others_write_between_any_two_pages(
        self, memory: OpenMemory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """SQLite begins the copying anew whenever somebody writes, unless the snapshot is held: it would never end."""
        monkeypatch.setattr("hybridmem.store.backup.PAGES", 3)
        m, other = filled(memory()), memory(agent="另一个 other")
        told: list[int] = []

        def write(done: int, total: int) -> None:
            assert len(told) <= total, "it has begun anew"
            told.append(other.operations()[-1].sequence)
            other.add(f"同时写的 meanwhile {len(told)}")

        last = m.operations()[-1].sequence
        made = m.backup(progress=write)
        assert len(told) > 5
        assert (made.sequence, made.nodes) == (last, 3)
        assert m.backups(verify=True)[0].verified

    def test_progress_is_told_and_may_end_it(self, memory: OpenMemory) -> None:
        m, told = filled(memory()), []
        m.backup(progress=lambda done, total: told.append((done, total)))
        assert told[-1][0] == told[-1][1] > 0

        def stop(done: int, total: int) -> None:
            raise RuntimeError("停 stop")

        with pytest.raises(RuntimeError, match="停"):
            m.backup(progress=stop)
        assert len(names(m.path / "checkpoints")) == 1

    def test_a_checkpoint_may_carry_one_which_has_that_checkpoint_in_it(
        self, memory: OpenMemory, tmp_path: Path
    ) -> None:
        m = filled(memory())
        plain = m.checkpoint(LABELS[0])
        point = m.checkpoint(LABELS[1], backup=True)
        assert plain.backup is None
        assert point.backup is not None
        listed = m.checkpoints()
        assert listed[0] == point
        assert [one.backup for one in listed[1:]] == [None] * (len(listed) - 1)
        assert m.backups()[0].label == LABELS[1]
        restore_backup(point.backup, tmp_path / "new")
        assert memory("new").checkpoints()[0].label == LABELS[1]
        point.backup.unlink()
        assert m.checkpoints()[0].backup is None

    def test_a_checkpoint_of_a_restored_store_has_no_backup_of_what_came_before(self, memory: OpenMemory) -> None:
        """Going back, the numbers of checkpoints are given out again."""
        m = filled(memory())
        earlier = m.backup()
        m.add("后来的 later")
        old = m.checkpoint(LABELS[0], backup=True)
        m.close()
        restore_backup(earlier.path, m.path, replace=True)
        m = memory()
        m.add("另一条路 another way")
        assert m.checkpoint(LABELS[1]).id == old.id
        assert m.checkpoints()[0].backup is None


class TestRefusals:
    def test_a_database_in_use_is_never_written_over(self, memory: OpenMemory, tmp_path: Path, refused: Any) -> None:
        m, other = filled(memory()), memory("other")
        other.add("别的 other")
        link = tmp_path / "link.db"
        link.symlink_to(m.path / "tree.db")
        for file in (m.path / "tree.db", link, other.path / "tree.db"):
            with refused(m, InvalidInput, "is the database of a store"):
                m.backup(file)
        assert other.search("别的")[0].content == "别的 other"

    def test_bad_places_and_labels_are_named(self, memory: OpenMemory, tmp_path: Path, refused: Any) -> None:
        m = filled(memory())
        m.backup()
        with refused(m, InvalidInput, "does not exist"):
            m.backup(tmp_path / "no" / "x.db")
        with refused(m, InvalidInput, "not a regular file"):
            m.backup(tmp_path)
        with refused(m, InvalidInput, "get their names themselves"):
            m.backup(m.path / "checkpoints" / "mine.db")
        with refused(m, InvalidInput, "label"):
            m.backup(label="  ")
        assert len(m.backups()) == 1

    def test_a_closed_handle_says_so(self, memory: OpenMemory) -> None:
        m = filled(memory())
        m.close()
        with pytest.raises(StoreClosed):
            m.backup()

    def test_one_is_made_at_a_time_and_waiting_ends(self, memory: OpenMemory) -> None:
        m = filled(memory(store={"busy_timeout_seconds": 0.1}))
        m.backup()
        lock = FileLock(m.path / "checkpoints" / LOCK)
        assert lock.acquire(0.0)
        with pytest.raises(StoreBusy, match="another backup"):
            m.backup()
        lock.release()
        assert m.backup().number == 2

    def test_threads_that_make_one_at_once_get_one_each(self, memory: OpenMemory) -> None:
        m, made = filled(memory(store={"busy_timeout_seconds": 60.0})), []
        threads = [threading.Thread(target=lambda: made.append(m.backup())) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(one.number for one in made) == [1, 2, 3, 4]
        assert [one.number for one in m.backups()] == [4, 3, 2, 1]

    def test_a_damaged_store_gives_no_backup_and_leaves_earlier_ones(self, memory: OpenMemory) -> None:
        """C004: "verified" is said after opening the copy, never of a copy that merely was made."""
        m = filled(memory())
        first = m.backup()
        m.close()
        with closing(sqlite3.connect(m.path / "tree.db")) as conn:
            (page,) = conn.execute("SELECT rootpage FROM sqlite_master WHERE name = 'node_path'").fetchone()
        damage(m.path / "tree.db", page)
        m = memory()
        with pytest.raises(StoreDamaged, match="no backup was made"):
            m.backup()
        assert names(m.path / "checkpoints") == [first.path.name]
        assert m.backups(verify=True)[0].verified

    def test_a_broken_log_is_damage_too(self, memory: OpenMemory) -> None:
        m = filled(memory())
        with m._workspace.write() as tx:
            tx.execute("UPDATE operation SET payload = '{}' WHERE sequence = 2")
        with pytest.raises(StoreDamaged, match="broken at operation 2"):
            m.backup()

    def test_a_copy_that_lacks_rows_is_not_taken_for_one(
        self, memory: OpenMemory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        m = filled(memory())
        copy = Backups._write.__globals__["stored"].copy

        def losing(connections: Any, target: Path, *rest: Any) -> Any:
            found = copy(connections, target, *rest)
            with closing(sqlite3.connect(target)) as conn:
                conn.execute("DELETE FROM embedding WHERE id = 1")
                conn.commit()
            return found

        monkeypatch.setattr("hybridmem.store.backup.copy", losing)
        with pytest.raises(StoreDamaged, match="does not hold what was copied"):
            m.backup()
        assert names(m.path / "checkpoints") == []

    def test_a_place_that_cannot_be_written_gives_store_full(self, memory: OpenMemory) -> None:
        m = filled(memory())
        (m.path / "checkpoints").write_text("一个文件 a file", encoding="utf-8")
        with pytest.raises(StoreFull, match="checkpoints"):
            m.backup()
        assert m.backups() == []


class TestListing:
    def test_newest_first_by_number_whatever_the_clock_says(self, memory: OpenMemory, clock: Any) -> None:
        m = filled(memory())
        for _ in range(3):
            m.backup()
            clock.advance(days=-400)
        assert [one.number for one in m.backups()] == [3, 2, 1]

    def test_damaged_ones_are_listed_with_what_is_wrong(self, memory: OpenMemory) -> None:
        m = filled(memory())
        good = m.backup().path
        for number, spoil in enumerate(SPOILS, start=2):
            spoil(Path(shutil.copy(good, good.with_name(f"backup-{number:06}-20260702T080000Z.db"))))
        found = m.backups()
        assert [one.number for one in found] == list(range(len(SPOILS) + 1, 0, -1))
        assert all(one.problem and not one.verified for one in found[:-1])
        assert (found[-1].problem, found[-1].verified) == (None, False)
        assert m.backups(verify=True)[-1].verified
        assert all(one.to_dict()["at"] for one in found)

    def test_a_few_wrong_bytes_are_found_by_verifying(self, memory: OpenMemory) -> None:
        m = filled(memory())
        file = m.backup().path
        with closing(sqlite3.connect(file)) as conn:
            (page,) = conn.execute("SELECT rootpage FROM sqlite_master WHERE name = 'revision_node'").fetchone()
        damage(file, page)
        assert m.backups()[0].verified is False
        (found,) = m.backups(verify=True)
        assert found.verified is False
        assert "damage" in (found.problem or "")

    def test_what_has_another_name_is_no_backup(self, memory: OpenMemory) -> None:
        m = filled(memory())
        m.backup()
        directory = m.path / "checkpoints"
        (directory / "backup-000009-20260702T080000Z.db.txt").write_text("笔记 notes", encoding="utf-8")
        (directory / "backup-000008-20260702T080000Z.db").mkdir()
        assert [one.number for one in m.backups()] == [1]


def _foreign(file: Path) -> None:
    file.unlink()
    with closing(sqlite3.connect(file)) as conn:
        conn.execute("CREATE TABLE mine (a)")
        conn.commit()


def _future(file: Path) -> None:
    with closing(sqlite3.connect(file)) as conn:
        conn.execute("PRAGMA user_version = 999")


SPOILS: tuple[Callable[[Path], object], ...] = (
    lambda file: file.write_bytes(b""),
    lambda file: file.write_bytes(b"x"),
    lambda file: file.write_text("不是数据库 not a database" * 100, encoding="utf-8"),
    lambda file: os.truncate(file, file.stat().st_size // 2),
    lambda file: os.truncate(file, 100),
    _foreign,
    _future,
)


def test_an_opener_waits_for_a_restore_and_says_what_it_waited_for(memory: OpenMemory) -> None:
    m = filled(memory())
    m.close()

    def restoring() -> None:
        with pytest.raises(StoreBusy, match="is being restored"):
            memory(store={"busy_timeout_seconds": 0.1})

    swap.alone(m.path, 0.0, restoring)
    assert memory().stats().nodes == 3

"""Which backups stay, which go, and which are made by themselves."""

from __future__ import annotations

import logging
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from backed_up import filled, names

from hybridmem import Memory, StoreFull
from hybridmem.backup import LOCK
from hybridmem.store.lock import FileLock

OpenMemory = Callable[..., Memory]
LABELS = ("报销之前", "before the trip", "上线 release 2")


class TestRetention:
    def test_the_newest_without_a_label_stay_and_labelled_ones_are_yours_to_remove(self, memory: OpenMemory) -> None:
        m = filled(memory(checkpoint={"keep_backups": 2}))
        m.backup(label=LABELS[0])
        for _ in range(3):
            m.backup()
        m.checkpoint(LABELS[1], backup=True)
        m.backup()
        assert [(one.number, one.label) for one in m.backups()] == [
            (6, None), (5, LABELS[1]), (4, None), (1, LABELS[0]),
        ]  # fmt: skip
        for label in LABELS:
            m.backup(label=label)
        assert [one.number for one in m.backups()] == [9, 8, 7, 6, 5, 4, 1]

    def test_a_label_of_another_namespace_keeps_it_too(self, memory: OpenMemory) -> None:
        m = filled(memory(checkpoint={"keep_backups": 1}))
        memory(namespace=("other",)).backup(label="他们的 theirs")
        m.backup()
        m.backup()
        assert [one.number for one in m.backups()] == [3, 1]

    def test_only_what_a_backup_has_made_is_removed(self, memory: OpenMemory) -> None:
        """A file that cannot be read may be all that somebody has left; it does not count as one kept either."""
        m = filled(memory(checkpoint={"keep_backups": 1}))
        directory = m.path / "checkpoints"
        good = m.backup().path
        mine = [
            directory / "notes 笔记.txt",
            directory / "backup-000001.db",
            directory / "backup-000002-20260702T080000Z.db.old",
            directory / ".backup-000002-20260702T080000Z.db",
        ]
        for file in mine:
            shutil.copy(good, file)
        damaged = directory / "backup-000005-20260702T080000Z.db"
        shutil.copy(good, damaged)
        os.truncate(damaged, 5000)
        made = m.backup()
        assert made.number == 6
        assert sorted(directory.iterdir()) == sorted([*mine, damaged, made.path, directory / LOCK])

    def test_zero_keeps_all(self, memory: OpenMemory) -> None:
        m = filled(memory(checkpoint={"keep_backups": 0}))
        for _ in range(7):
            m.backup()
        assert len(m.backups()) == 7

    def test_none_goes_if_the_new_one_fails(self, memory: OpenMemory, monkeypatch: pytest.MonkeyPatch) -> None:
        m = filled(memory(checkpoint={"keep_backups": 1}))
        first = m.backup()

        def failing(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Path, "replace", failing)
        with pytest.raises(StoreFull, match="No space left"):
            m.backup()
        monkeypatch.undo()
        assert names(m.path / "checkpoints") == [first.path.name]
        assert m.backup().number == 2

    def test_what_a_killed_process_left_goes_at_the_next_backup(self, memory: OpenMemory) -> None:
        m = filled(memory())
        directory = m.path / "checkpoints"
        m.backup()
        for left in ("", "-journal", "-wal", "-shm"):
            (directory / f".backup-000002-20260702T080000Z.db.0a1b2c3d.unfinished{left}").write_bytes(b"half")
        assert [one.number for one in m.backups()] == [1]
        m.backup()
        assert len(names(directory)) == 2


class TestAutomatic:
    @pytest.fixture
    def due(self) -> Callable[[Memory], int]:
        """Looks as the thread does; how many backups there are then."""

        def look(m: Memory) -> int:
            m._backups._next_look = 0.0
            m._backups.make_if_due(lambda: False)
            return len(m.backups())

        return look

    def test_it_is_off_unless_asked_for(self, memory: OpenMemory, due: Callable[[Memory], int], clock: Any) -> None:
        m = filled(memory())
        clock.advance(days=1000)
        assert due(m) == 0

    def test_it_comes_when_the_newest_is_old_and_something_was_written_since(
        self, memory: OpenMemory, due: Callable[[Memory], int], clock: Any
    ) -> None:
        m = filled(memory(checkpoint={"backup_every_hours": 24.0}))
        assert due(m) == 1
        clock.advance(hours=30)
        assert due(m) == 1, "nothing has been written"
        m.add("新的 new")
        assert due(m) == 2
        m.add("又一条 one more")
        clock.advance(hours=23)
        assert due(m) == 2, "the newest is not old"
        clock.advance(hours=1)
        memory(namespace=("other",), checkpoint={"backup_every_hours": 24.0}).add("别的命名空间 another namespace")
        assert due(m) == 3
        m.add("再一条 yet another")
        clock.advance(hours=12)
        assert due(m) == 3
        os.truncate(m.backups()[0].path, 5000)
        assert due(m) == 4, "a damaged one does not count, and the one before it is old"

    def test_the_thread_behind_the_writes_makes_it(self, memory: OpenMemory) -> None:
        m = filled(memory(checkpoint={"backup_every_hours": 1.0}, index={"background": True}))
        m.add("叫醒它 wakes it")
        done = threading.Event()
        for _ in range(600):
            if m.backups() or done.wait(0.1):
                break
        (made,) = m.backups(verify=True)
        assert made.verified

    def test_it_gives_up_when_the_handle_closes(self, memory: OpenMemory) -> None:
        m = filled(memory(checkpoint={"backup_every_hours": 1.0}))
        m._backups.make_if_due(lambda: True)
        assert names(m.path / "checkpoints") == []

    def test_a_failure_is_logged_and_harms_nobody(
        self, memory: OpenMemory, caplog: pytest.LogCaptureFixture, due: Callable[[Memory], int]
    ) -> None:
        m = filled(memory(checkpoint={"backup_every_hours": 1.0}))
        (m.path / "checkpoints").write_text("一个文件 a file", encoding="utf-8")
        with caplog.at_level(logging.WARNING, "hybridmem"):
            assert due(m) == 0
        assert "automatic backup failed" in caplog.text
        m.add("继续 goes on")

    def test_it_leaves_the_way_to_another_that_is_being_made(
        self, memory: OpenMemory, due: Callable[[Memory], int]
    ) -> None:
        m = filled(memory(checkpoint={"backup_every_hours": 1.0}))
        (m.path / "checkpoints").mkdir()
        lock = FileLock(m.path / "checkpoints" / LOCK)
        assert lock.acquire(0.0)
        assert due(m) == 0
        lock.release()
        assert due(m) == 1

"""C004: backups taken while the store is being written can be opened, are whole, and hold a prefix of what was written.

"Verified" is said only after the copy was opened, see also tests/test_backup.py.
"""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

from crash.helpers import CONFIG, QUIET, Child, check_database, check_vectors, until

from hybridmem import Backup, Memory, restore_backup

BACKUPS = 20
#: Writes without end: the store, and a file that gets a byte after every write that was acknowledged.
WRITER = """
    acknowledged = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with Memory.open(sys.argv[1], config=CONFIG, agent="process") as memory:
        number = 0
        while True:
            memory.add(f"另一个进程 process {number}", type="event")
            os.write(acknowledged, b".")
            number += 1
            time.sleep(0.003)
"""


class Thread:
    """Writes without end in this very process."""

    def __init__(self, memory: Memory) -> None:
        self.acknowledged = 0
        self._memory = memory
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._stopping.wait(0.003):
            self._memory.add(f"同一个进程 thread {self.acknowledged}", type="event")
            self.acknowledged += 1

    def __enter__(self) -> Thread:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()


def test_backups_of_a_store_that_is_written_all_the_time_are_whole_prefixes_of_it(tmp_path: Path) -> None:
    store, notes = tmp_path / "store", tmp_path / "acknowledged"
    config = {**CONFIG, "checkpoint": {"keep_backups": 0}}
    taken: list[tuple[Backup, list[int], list[int]]] = []
    with (
        Memory.open(store, config=config, agent="thread") as memory,
        Child(WRITER, store, notes) as child,
        Thread(memory) as thread,
    ):
        until(lambda: notes.exists() and notes.stat().st_size > 20 and thread.acknowledged > 20)
        for _ in range(BACKUPS):
            before = [notes.stat().st_size, thread.acknowledged]
            made = memory.backup()
            taken.append((made, before, [notes.stat().st_size, thread.acknowledged]))
        assert child.process.poll() is None, "the other process has stopped writing"
    assert all(made.verified for made, _, _ in taken)
    assert [made.number for made, _, _ in taken] == list(range(1, BACKUPS + 1))
    written = [sum(before) for _, before, _ in taken]
    assert len(set(written)) >= 3, "hardly anything was written meanwhile: the test has lost its point"
    for number, (made, before, after) in enumerate(taken):
        is_whole_prefix(made, before, after, tmp_path / f"restored-{number}")


def is_whole_prefix(made: Backup, before: list[int], after: list[int], new: Path) -> None:
    """The restored store opens, passes every check, has a vector for each memory, and of each writer the first so many
    memories: all that were acknowledged before the backup began, and none that was begun after its end."""
    restore_backup(made.path, new)
    with closing(sqlite3.connect(new / "tree.db")) as conn:
        assert conn.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    with Memory.open(new, config=QUIET) as memory:
        assert memory.flush() == 0
        stats = memory.stats()
        assert stats.nodes == stats.vectors == made.nodes
        assert memory.operations()[-1].sequence == made.sequence
    contents = list(check_database(new).values())
    check_vectors(new)
    for writer, least, most in zip(("process", "thread"), before, after, strict=True):
        numbers = sorted(int(content.split()[-1]) for content in contents if f" {writer} " in content)
        assert numbers == list(range(len(numbers))), f"a gap in what the {writer} wrote"
        assert least <= len(numbers) <= most + 1, f"not what the {writer} had been told was stored"

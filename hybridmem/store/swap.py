"""A restored database takes the place of the old one: in steps of which any may be the last before a crash.

The copy becomes :data:`RESTORED` when it is whole, checked and on disk; that rename decides. From then on the store is
the restored one: what is in the way goes to ``aside/<time>/``, the write-ahead log first, so that it never lies beside
a database that is not its own, and then the copy gets the name of the database. Whoever comes next finishes what was
begun: opening a store looks for RESTORED first.

Everybody who has a store open holds its lock (:data:`LOCK`) shared; these steps are taken with nobody else there.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from hybridmem import faults
from hybridmem.errors import StoreBusy, StoreFull
from hybridmem.replacing import sync
from hybridmem.store.directory import ASIDE, DATABASE_NAME, LOCK, RESTORED, VECTORS
from hybridmem.store.lock import FileLock
from hybridmem.store.lock import alone as locked_alone
from hybridmem.store.rows import from_micros

T = TypeVar("T")
#: The write-ahead log of the old database, and the other files that SQLite may have beside it.
LOG = f"{DATABASE_NAME}-wal"
BESIDE = (f"{DATABASE_NAME}-shm", f"{DATABASE_NAME}-journal")
#: Everything that belongs to it.
OLD = (LOG, *BESIDE, VECTORS, DATABASE_NAME)


def marker(directory: Path) -> FileLock:
    """The lock of somebody who opens the store, not yet taken: see :func:`enter`."""
    return FileLock(directory / LOCK, shared=True)


def enter(directory: Path, lock: FileLock, wait_seconds: float) -> None:
    """Takes the lock of somebody who opens the store, after finishing a restore that was cut off.

    :raises StoreBusy: the store is being restored, and that takes longer than ``wait_seconds``.
    :raises StoreFull: the directory cannot be written.
    """
    deadline = time.monotonic() + wait_seconds
    while True:
        if not lock.acquire(max(deadline - time.monotonic(), 0.0)):
            raise StoreBusy(f"{directory}: is being restored from a backup; try again when that is done")
        if not is_pending(directory):
            return
        lock.release()
        alone(directory, max(deadline - time.monotonic(), 0.0), lambda: finish(directory))


def alone(directory: Path, wait_seconds: float, action: Callable[[], T]) -> T:
    """Does something while nobody has the store open, nor can open it.

    :raises StoreBusy: somebody has it open.
    """
    busy = f"{directory}: the store is open, here or in another process; close it everywhere first"
    return locked_alone(directory / LOCK, wait_seconds, busy, action)


def is_pending(directory: Path) -> bool:
    """Whether a restore was decided and is not finished."""
    return (directory / RESTORED).exists()


def finish(directory: Path) -> Path | None:
    """Puts the restored copy in its place, if one waits; the caller is alone. Returns where the old files are now, or
    None if there were none.

    :raises StoreFull: a file cannot be moved. The restore stays decided; the next who opens the store finishes it.
    """
    restored = directory / RESTORED
    try:
        if not restored.exists():
            return None
        aside = _aside(restored)
        faults.point("backup_restore.before_log")
        _move(directory, aside, LOG)
        faults.point("backup_restore.after_log")
        _move(directory, aside, *BESIDE)
        faults.point("backup_restore.before_vectors")
        _move(directory, aside, VECTORS)
        faults.point("backup_restore.before_database")
        _move(directory, aside, DATABASE_NAME)
        moved = aside.is_dir()
        if moved:
            sync(aside)
        sync(directory)
        faults.point("backup_restore.before_rename")
        restored.rename(directory / DATABASE_NAME)
        sync(directory)
        faults.point("backup_restore.after_rename")
        return aside if moved else None
    except OSError as error:
        raise StoreFull(
            f"{directory}: the restore cannot be finished ({error}); mend that, and open the store: that finishes it"
        ) from error


def _move(directory: Path, aside: Path, *names: str) -> None:
    for name in names:
        if os.path.lexists(directory / name):
            aside.mkdir(mode=0o700, parents=True, exist_ok=True)
            (directory / name).rename(aside / name)


def _aside(restored: Path) -> Path:
    """By the time of the copy, so that all files of one restore go to one place, however often it is cut off."""
    moment = from_micros(restored.stat().st_mtime_ns // 1000)
    return restored.parent / ASIDE / moment.strftime("%Y%m%dT%H%M%S.%fZ")

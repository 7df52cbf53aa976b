"""OS file locks between handles, threads and processes: who has a store open, and who makes a backup of it.

Each lock is a descriptor of its own, so two of them exclude each other within one process too (OwnerLock, which shares
within a process, is another matter). The kernel drops a lock when its process dies. A lock file is never deleted: who
still waits on a deleted file would lock what nobody else sees.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from hybridmem.errors import StoreBusy, StoreFull

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

T = TypeVar("T")
POLL_SECONDS = 0.01

_held: weakref.WeakSet[FileLock] = weakref.WeakSet()
_guard = threading.Lock()


class FileLock:
    """A lock on a file, made if it is not there. Not inherited over fork or exec; given up when it is collected.

    :param shared: many may hold it at once, as long as nobody holds it alone. On Windows, where a file that is open
        cannot be moved anyway, holding it so is nothing.
    """

    def __init__(self, path: Path, *, shared: bool = False) -> None:
        self._path = path
        self._shared = shared
        self._descriptor: int | None = None
        self._process = os.getpid()

    def acquire(self, wait_seconds: float) -> bool:
        """Takes it, waiting for others at most so long; True if it is held.

        :raises StoreFull: the lock file cannot be made or opened.
        :raises StoreBusy: the file system has no locks, so nobody can be sure to be alone.
        """
        deadline = time.monotonic() + wait_seconds
        if self._descriptor is None:
            try:
                # Read access is enough for a lock, and all there is in a store that may not be written.
                self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CREAT, 0o600)
            except OSError as error:
                raise StoreFull(f"{self._path}: cannot be written: {error.strerror}") from error
            with _guard:
                _held.add(self)
        try:
            while not self._try():
                if time.monotonic() >= deadline:
                    self.release()
                    return False
                time.sleep(POLL_SECONDS)
            return True
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Gives it up. Does no harm at any moment, nor twice."""
        if self._descriptor is None or self._process != os.getpid():
            return
        try:
            os.close(self._descriptor)  # which unlocks it, since no child keeps a copy
        finally:
            self._descriptor = None

    def _try(self) -> bool:
        assert self._descriptor is not None
        try:
            return _lock(self._descriptor, self._shared)
        except OSError as error:
            if self._shared:
                return True  # a file system without locks, on which nobody will be let alone either
            raise StoreBusy(f"{self._path}: cannot be locked ({error.strerror})") from error

    def __del__(self) -> None:
        try:  # not contextlib: at the end of the interpreter modules may be gone, os as well; the kernel unlocks then
            self.release()
        except Exception:
            return


def alone(path: Path, wait_seconds: float, busy: str, action: Callable[[], T]) -> T:
    """Does something while holding the lock on a file alone; an interrupt at any moment gives it up.

    :raises StoreBusy: somebody else has it for longer than ``wait_seconds``; ``busy`` is what it says.
    """
    lock = FileLock(path)
    try:
        if not lock.acquire(wait_seconds):
            raise StoreBusy(busy)
        return action()
    finally:
        try:
            lock.release()
        except BaseException:
            lock.release()
            raise


def is_held(path: Path) -> bool:
    """Whether somebody has the lock on a file alone at this moment."""
    lock = FileLock(path, shared=True)
    try:
        return path.exists() and not lock.acquire(0.0)
    finally:
        lock.release()


if sys.platform == "win32":

    def _lock(descriptor: int, shared: bool) -> bool:
        if shared:
            return True
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:

    def _lock(descriptor: int, shared: bool) -> bool:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _forget_in_child() -> None:
        # The child shares the open file: until its copy is closed too, the lock would outlive the parent.
        global _guard
        _guard = threading.Lock()
        for lock in list(_held):
            if lock._descriptor is not None:
                os.close(lock._descriptor)
                lock._descriptor = None

    os.register_at_fork(after_in_child=_forget_in_child)

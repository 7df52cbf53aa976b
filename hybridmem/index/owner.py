"""Who may touch the index directory: one process at a time, told by an OS file lock that the kernel drops on death.

The lock file is never deleted: a process that still waits on a deleted file would lock what nobody else sees.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

from hybridmem.errors import IndexUnavailable

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_lock = threading.RLock()
#: Real path of each lock file held by this process, with its descriptor and how many OwnerLocks share it.
_held: dict[str, tuple[int, int]] = {}


class OwnerLock:
    """Ownership of one directory. Shared within a process: a second OwnerLock on the same file succeeds at once, and
    the process gives up ownership when the last of them is released. Not inherited over fork or exec.
    """

    def __init__(self, path: Path) -> None:
        """:param path: of the lock file; made if missing, its directory must exist."""
        self._path = path
        self._key: str | None = None
        self._process = os.getpid()

    @property
    def held(self) -> bool:
        """True if this object holds the lock, in the process that took it."""
        return self._key is not None and self._process == os.getpid()

    @property
    def exists(self) -> bool:
        """Whether anybody has ever taken it."""
        return self._path.exists()

    @property
    def users(self) -> int:
        """How many OwnerLocks of this process share the lock that this one holds; 0 if it holds none."""
        with _lock:
            return _held[self._key][1] if self.held and self._key is not None else 0

    @property
    def descriptors(self) -> tuple[int, ...]:
        """For a child process that works for the owner: with it inherited, the lock stays taken until both are gone."""
        with _lock:
            return (_held[self._key][0],) if self._key is not None and self.held else ()

    def acquire(self) -> bool:
        """Takes the lock without waiting. True if this process now owns it, also if this object already did.

        :raises IndexUnavailable: the lock file cannot be made or opened (missing directory, read-only disk).
        """
        with _lock:
            if self.held:
                return True
            self._key, self._process = None, os.getpid()
            key = os.path.realpath(self._path)
            descriptor, users = _held.get(key, (None, 0))
            if descriptor is None:
                descriptor = _take(key)
            if descriptor is None:
                return False
            # No call in between, since Ctrl-C may raise after any.
            _held[key] = (descriptor, users + 1)
            self._key = key
            return True

    def release(self) -> None:
        """Gives the lock up; the last holder in the process frees it for others. May be called more than once."""
        with _lock:
            key = self._key
            if key is None or self._process != os.getpid():
                return
            descriptor, users = _held[key]
            if users > 1:
                _held[key] = (descriptor, users - 1)
                self._key = None
                return
            try:
                del _held[key]
                self._key = None
                _unlock(descriptor)
            finally:
                os.close(descriptor)


def _take(path: str) -> int | None:
    """An open, locked descriptor of the file, or None if another process holds it."""
    while True:
        try:
            # Python opens with O_CLOEXEC, so a program that is started from here does not keep the lock alive.
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise IndexUnavailable(f"the lock file of the index cannot be opened: {error}") from error
        try:
            locked = _try_lock(descriptor)
            if locked and _still_there(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        if not locked:
            return None
        # somebody replaced the file between open and lock: once more, with the new one


def _still_there(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))  # noqa: PTH116
    except FileNotFoundError:
        return False


if sys.platform == "win32":

    def _try_lock(descriptor: int) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _unlock(descriptor: int) -> None:
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:  # a file system without locks: nobody can be sure to own anything on it
            raise IndexUnavailable(f"the lock file of the index cannot be locked: {error}") from error
        return True

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)

    def _forget_in_child() -> None:
        # A flock belongs to the open file, which the child shares: until its copy is closed too, the lock would outlive
        # the parent. Closing a copy does not release it. The mutex may have been held by a thread that is gone here.
        global _lock
        _lock = threading.RLock()
        for descriptor, _ in _held.values():
            os.close(descriptor)
        _held.clear()

    os.register_at_fork(after_in_child=_forget_in_child)

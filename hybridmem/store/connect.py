"""Connections and transactions: the only place that opens SQLite, begins, commits and rolls back.

One connection per thread. Every write runs inside :meth:`Connections.write`, which owns ``BEGIN IMMEDIATE``: a
deferred transaction that reads and then writes fails at once under contention, an immediate one waits its turn.

Ctrl-C may raise KeyboardInterrupt after any call and at the start of any function, also between taking a lock and the
``try`` that would give it back. That is why :class:`Transaction` is a class and not a generator: it does all of its
work inside ``try`` blocks that undo whatever was done.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType

import sqlite_utils

from hybridmem import faults
from hybridmem.errors import (
    EncryptionError,
    HybridMemError,
    NotFound,
    StoreBusy,
    StoreClosed,
    StoreDamaged,
    StoreTooNew,
)
from hybridmem.ports import KeyProvider
from hybridmem.store import data_keys, swap, unlocking
from hybridmem.store.directory import DATABASE_NAME, make_private, refuse_foreign
from hybridmem.store.migrations import APPLICATION_ID, SCHEMA_VERSION, migrations
from hybridmem.store.translated import busy, closed, nested, translate, translated
from hybridmem.store.waiting import Patience, acquire, begin_immediate


@dataclass(slots=True)
class _Held:
    """The connection of a thread; ``lock`` is held while it is in use, ``transaction`` is the outermost one in it."""

    conn: unlocking.Connection
    thread: threading.Thread
    lock: threading.RLock
    transaction: Transaction | None = None


class Connections:
    """The SQLite connections of one store in this process.

    :param directory: the store; made with mode 0700 if it is not there.
    :param durability: ``full`` survives power loss, ``process`` the death of the process (``synchronous=NORMAL``).
    :param busy_timeout: seconds to wait for another writer.
    :param create: False: raise NotFound if there is no store.
    :param secure_delete: overwrite what is deleted with zeros; an encrypted store always does.
    :param keys: the master key of an encrypted store; None: there is none. :param encrypt: a new store is to be
        encrypted, and one that is not is refused.
    :raises EncryptionError: the master key is missing or another, or the store is not encrypted; nothing has changed.
    """

    def __init__(
        self,
        directory: Path,
        *,
        durability: str = "full",
        busy_timeout: float = 5.0,
        create: bool = True,
        secure_delete: bool = True,
        keys: KeyProvider | None = None,
        encrypt: bool = False,
    ) -> None:
        self._secure_delete = secure_delete
        self.directory = directory
        self.database = directory / DATABASE_NAME
        self._durability = durability
        self._busy_timeout = busy_timeout
        self._pid = os.getpid()
        self._local = threading.local()
        self._all: list[_Held] = []
        self._guard = threading.Lock()
        # Threads of one process queue here instead of polling SQLite's file lock. No thread takes it twice; it is an
        # RLock since that lets nobody but its owner release it, so that release() is safe to try at any moment.
        self._writer = threading.RLock()
        self._closed = False
        self.keys = keys
        self._encrypt = encrypt
        #: The data keys; None: the store is not encrypted.
        self.keyring: data_keys.Keyring | None = None
        if encrypt and keys is None:
            raise EncryptionError(f"{directory}: encryption.enabled needs a master key: {data_keys.GIVE}")
        if create:
            make_private(directory)
        elif not self.database.exists() and not swap.is_pending(directory):
            raise NotFound(f"path: there is no store at {directory}; writing to it makes one")
        #: Says that the store is open here, see hybridmem.store.swap.
        self._entered = swap.marker(directory)
        try:
            swap.enter(directory, self._entered, busy_timeout)
            self._prepare()
        except BaseException:
            self.close()
            raise

    def check(self) -> None:
        """:raises StoreClosed: after close(), or in a forked child: SQLite connections must not cross a fork."""
        if self.is_inherited:
            raise StoreClosed(
                f"{self.directory}: this handle came over a fork; open the store again in the child process"
            )
        if self._closed:
            raise closed(self.directory)

    @property
    def is_inherited(self) -> bool:
        """Whether this process is a fork of the one that opened the store; nothing here may be used then."""
        return os.getpid() != self._pid

    def write(self) -> Transaction:
        """One transaction: all of it becomes durable at the end, or none of it happens.

        :raises StoreBusy: another writer kept the store longer than the busy timeout, or this thread is inside a
            transaction of this store already; nothing was written.
        :raises StoreFull: the disk is full or not writable; nothing was written.
        """
        return Transaction(self, writing=True)

    def read(self) -> Transaction:
        """A snapshot: every statement inside sees the same state of the store. Joins a transaction that is under way
        in this thread."""
        return Transaction(self, writing=False)

    def close(self) -> None:
        """Closes every connection as soon as nobody works with it; in a forked child it only forgets them."""
        self._closed = True
        if self.is_inherited:  # its locks may be held for ever by threads that exist in the parent only
            return
        with self._guard:
            held, self._all = self._all, []
        try:
            for one in held:
                with one.lock:
                    one.conn.close()
        finally:
            self._entered.release()

    def separate(self) -> sqlite3.Connection:
        """A connection beside those of the threads, which sees what is committed; the caller closes it."""
        self.check()
        return self._connect()

    def _mine(self) -> _Held:
        """What this thread holds; its connection is opened the first time."""
        held: _Held | None = getattr(self._local, "held", None)
        if held is None:
            held = _Held(self._connect(), threading.current_thread(), threading.RLock())
            with self._guard:
                # A server with a thread for each request must not keep the descriptors of them all.
                for other in self._all:
                    if not other.thread.is_alive():
                        other.conn.close()
                self._all = [other for other in self._all if other.thread.is_alive()] + [held]
            self._local.held = held  # last, so that close() knows every connection that can be used
        return held

    def _connect(self) -> unlocking.Connection:
        with translated(self.directory, self._busy_timeout):
            conn = sqlite3.connect(
                self.database,
                timeout=self._busy_timeout,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=256,
                factory=unlocking.Connection,
            )
            try:
                conn.execute("PRAGMA foreign_keys = ON")
                self._overwrite_deleted(conn)
                conn.execute(f"PRAGMA synchronous = {'FULL' if self._durability == 'full' else 'NORMAL'}")
                if self.keyring is not None:
                    unlocking.install(conn, self.keyring)
            except BaseException:
                conn.close()
                raise
            return conn

    def _overwrite_deleted(self, conn: sqlite3.Connection) -> None:
        """Always in an encrypted store: a key that is destroyed must not lie about in a free page."""
        wanted = self._secure_delete or self.keyring is not None
        conn.execute(f"PRAGMA secure_delete = {'ON' if wanted else 'OFF'}")

    def _prepare(self) -> None:
        """Brings a new or older store to the current schema; refuses what is not ours or comes from the future."""
        refuse_foreign(self.database)
        conn = self._mine().conn
        with translated(self.directory, self._busy_timeout):
            # First of all whether there are tables: if another process makes them meanwhile, these are not yet ours to
            # judge, and if they are there, so is what that process has written with them.
            tables = conn.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            application, version = (
                conn.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
            )
            mode = conn.execute("PRAGMA journal_mode").fetchone()[0]
        if tables and application != APPLICATION_ID:
            raise StoreDamaged(f"{self.database}: is an SQLite file, but not a hybridmem store")
        if version > SCHEMA_VERSION:
            raise StoreTooNew(
                f"{self.database}: has schema version {version}, this hybridmem knows {SCHEMA_VERSION}; upgrade it"
            )
            data_keys.keyring(conn, self.keys, str(self.directory))  # before anything is changed
        if mode != "wal":  # new, or a backup
            self._use_wal(conn)
        if version != SCHEMA_VERSION:
            self._migrate(conn)
        with translated(self.directory, self._busy_timeout):
            self.keyring = data_keys.keyring(conn, self.keys, str(self.directory))
            if self.keyring is not None:
                unlocking.install(conn, self.keyring)
                self._overwrite_deleted(conn)
            elif self._encrypt:
                raise EncryptionError(
                    f"{self.directory}: encryption.enabled is set, but this store is not encrypted; hybridmem encrypt "
                    "makes it so. Nothing has changed"
                )

    def _migrate(self, conn: unlocking.Connection) -> None:
        """To the current schema; a new store is marked as encrypted if it is to be."""
        # Inside one immediate transaction, so that two processes that open a new store at once do not both migrate.
        try:
            with self.write():
                is_new = not conn.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
                migrations.apply(sqlite_utils.Database(conn, execute_plugins=False))
                conn.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                conn.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
                if is_new and self._encrypt and self.keys is not None:
                    data_keys.set_mark(conn, self.keys)
                faults.point("migration.before_commit")
        except StoreBusy:
            # Others were busy writing, so that they have the store ready meanwhile: then nothing is left to do here.
            if conn.execute("PRAGMA user_version").fetchone()[0] != SCHEMA_VERSION:
                raise

    def _use_wal(self, conn: sqlite3.Connection) -> None:
        """Switching the journal mode does not honour the busy timeout, so the wait is here."""
        deadline = time.monotonic() + self._busy_timeout
        while True:
            try:
                conn.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error):
                    raise translate(error, self.directory, self._busy_timeout) from error
                if time.monotonic() > deadline:
                    raise self._busy() from error
                time.sleep(0.01)

    def _patience(self) -> Patience:
        return Patience(self.directory, self._busy_timeout)

    def _busy(self) -> StoreBusy:
        return busy(self.directory, self._busy_timeout)


class Transaction:
    """What :meth:`Connections.write` and :meth:`Connections.read` make. Enter it once, with a ``with`` statement in a
    function that runs to its end meanwhile: no generator may wait inside of it, and no ExitStack enter it.
    """

    def __init__(self, connections: Connections, *, writing: bool) -> None:
        self._connections = connections
        self._writing = writing
        self._held: _Held | None = None  # stays None in a read that joins
        self._caller: FrameType | None = None
        self._committing = False

    def __enter__(self) -> sqlite3.Connection:
        try:
            return self._begin(sys._getframe(1))
        except BaseException as error:
            self._end_surely()
            if isinstance(error, sqlite3.Error):
                raise self._translate(error) from error
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and self._writing:
                self._commit()
        except sqlite3.Error as failure:
            self._committing, error = False, failure
        finally:
            # Not _end_surely(), whose first instruction may be where the interrupt comes.
            try:
                self._end()
            except BaseException:
                self._end()
                raise
        if isinstance(error, sqlite3.Error):
            raise self._translate(error) from error

    def _begin(self, caller: FrameType) -> sqlite3.Connection:
        connections = self._connections
        connections.check()  # before any lock: those of a fork may be held for ever
        held = connections._mine()
        if held.transaction is not None and held.transaction._is_abandoned():
            held.transaction._end()
        if held.transaction is not None:
            if self._writing:
                raise nested(connections.directory)
            return held.conn
        self._held, self._caller, held.transaction = held, caller, self
        held.lock.acquire()
        connections.check()  # it may have been closed meanwhile
        if not self._writing:
            held.conn.execute("BEGIN")
            return held.conn
        faults.point("write.before_begin")
        if not acquire(connections._writer, connections._patience()):
            raise connections._busy()
        begin_immediate(held.conn, connections._patience())
        faults.point("write.after_begin")
        return held.conn

    def _commit(self) -> None:
        if self._held is None or self._held.transaction is not self:
            raise HybridMemError(f"{self._connections.directory}: the transaction was given up; nothing was written")
        faults.point("write.before_commit")
        self._committing = True
        self._held.conn.execute("COMMIT")
        faults.point("write.after_commit")

    @property
    def _is_undone(self) -> bool:
        """Asked at the end: whether nothing of it has been written."""
        return not self._committing or (self._held is not None and self._held.conn.in_transaction)

    def _end(self) -> None:
        """Rolls back what is not committed, and gives the locks back. Does no harm at any moment, nor twice."""
        held = self._held
        if held is None or held.transaction is not self:
            return
        try:
            if held.conn.in_transaction:
                held.conn.execute("ROLLBACK")
        except sqlite3.ProgrammingError:
            pass  # this very thread has closed the store meanwhile, which rolls back
        finally:
            try:
                if self._writing:
                    _release(self._connections._writer)
            finally:
                _release(held.lock)
        held.transaction = self._caller = None

    def _end_surely(self) -> None:
        try:
            self._end()
        except BaseException:
            self._end()  # interrupted: goes on where it was
            raise

    def _is_abandoned(self) -> bool:
        """Whether the function whose ``with`` statement began this has been left without ``__exit__`` doing its work:
        an interrupt at the very first instruction of that cannot be caught in it. To be asked by its own thread."""
        frame: FrameType | None = sys._getframe()
        while frame is not None and frame is not self._caller:
            frame = frame.f_back
        return frame is None

    def _translate(self, error: sqlite3.Error) -> HybridMemError:
        held = self._held or getattr(self._connections._local, "held", None)
        unopened = None if held is None else unlocking.failure(held.conn)
        return unopened or translate(error, self._connections.directory, self._connections._busy_timeout)


def _release(lock: threading.RLock) -> None:
    """Gives a lock back if this thread has it."""
    with contextlib.suppress(RuntimeError):  # said to who does not have it
        lock.release()

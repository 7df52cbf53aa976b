"""Backup files: copied from one state of a store that others go on writing to, and checked by opening the copy.

A backup is a database in one file, without a write-ahead log beside it. In its settings is a :class:`Record` of how it
was made. Its contents are compared by :class:`Facts`, read from the very state that was copied.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hybridmem import crypto
from hybridmem.errors import EncryptionError, InvalidInput, NotFound, StoreDamaged, StoreTooNew
from hybridmem.ports import KeyProvider
from hybridmem.store import data_keys, log, outbox, points, sealing, unlocking
from hybridmem.store.connect import Connections
from hybridmem.store.migrations import APPLICATION_ID, SCHEMA_VERSION
from hybridmem.store.translated import translated
from hybridmem.types import Namespace

#: Setting of a backup file: its Record.
RECORD = "backup"
#: Setting of a restored database: the digest of what the backup held.
RESTORED_FROM = "restored_from"
#: What is told of a label that cannot be opened.
SEALED = "(sealed)"
#: Pages copied between two looks at who wants to stop it; 8 MB. No slower than all at once.
PAGES = 2000

Progress = Callable[[int, int], object]


@dataclass(frozen=True, slots=True)
class Record:
    """How a backup was made: when (microseconds), by whom, with which label (None: without), and with which checkpoint:
    its number and digest (None: with none)."""

    at: int
    namespace: list[str]
    agent: str
    label: str | None
    checkpoint: int | None
    digest: str | None


@dataclass(frozen=True, slots=True)
class Facts:
    """What a database holds: of each namespace how many nodes it has, the number of its last operation and the hash of
    the log up to there, which determines the tree; and how many rows are in each table (empty: not counted)."""

    namespaces: dict[Namespace, tuple[int, int, str]]
    rows: dict[str, int]

    def holds_what(self, other: Facts) -> bool:
        """Whether both hold the same memories; what waits for its vector may differ."""
        mine, its = ({**one.rows, "outbox": 0} for one in (self, other))
        return self.namespaces == other.namespaces and mine == its

    @property
    def nodes(self) -> int:
        """Of all namespaces, their roots not counted."""
        return sum(nodes for nodes, _, _ in self.namespaces.values())


@dataclass(frozen=True, slots=True)
class Contents:
    """What a look into a backup file finds; ``record`` is None in a database that was not made by a backup."""

    record: Record | None
    facts: Facts


def facts(tx: sqlite3.Connection, *, count: bool = True) -> Facts:
    """Of the state that a transaction sees. Without ``count`` it costs what there are namespaces."""
    found = {}
    for namespace, names in points.namespaces(tx).items():
        sequence, digest = log.head(tx, namespace)
        found[names] = (points.node_count(tx, namespace), sequence, digest)
    return Facts(found, _rows(tx) if count else {})


def _rows(tx: sqlite3.Connection) -> dict[str, int]:
    """Not of settings, in one of which the record of a backup is kept."""
    tables = tx.execute(
        """SELECT name FROM sqlite_master WHERE type = 'table' AND name != 'setting' AND name NOT LIKE 'sqlite%'
        AND sql NOT LIKE '%VIRTUAL%'"""
    ).fetchall()
    return {table: int(tx.execute(f"SELECT count(*) FROM {table}").fetchone()[0]) for (table,) in tables}


def heads(connections: Connections) -> dict[Namespace, tuple[int, str]]:
    """How far the log of each namespace goes; costs what there are namespaces."""
    with connections.read() as tx:
        return {names: log.head(tx, namespace) for namespace, names in points.namespaces(tx).items()}


def copy(connections: Connections, target: Path, record: Record, progress: Progress | None) -> Facts:
    """Copies the committed state of this moment into an empty file; others may write all the while.

    The snapshot is held from the first page to the last: without it, the copying would begin again whenever another
    process writes. Meanwhile the write-ahead log cannot be shortened, and grows by what is written.

    :param progress: called now and then with the pages copied and the pages in all; what it raises ends the copying.
    :raises StoreFull: the file cannot be written.
    """
    with closing(connections.separate()) as source:
        with translated(connections.directory, 0.0):
            source.execute("BEGIN")
            found, noted = facts(source), _recorded(source, record)
        with translated(target.parent, 0.0), closing(scratch(target)) as made:
            source.backup(made, pages=PAGES, progress=_told(progress))
            single_file(made)
            points.set_setting(made, RECORD, noted)
    return found


def look(file: Path, keys: KeyProvider | None = None) -> Contents:
    """Opens a backup file, and reads what it is without reading all of it.

    :param keys: of an encrypted one, to read its label; without it there is one, and no more is told.
    :raises NotFound: there is no such file. InvalidInput: it is no file, or a database that somebody has open.
    :raises StoreDamaged: it is no backup, or so damaged that this is seen. StoreTooNew: made by a later version.
    """
    with reading(file) as conn:
        return _contents(conn, file, count=False, keys=keys)


def verify(file: Path, expected: Facts | None = None, keys: KeyProvider | None = None) -> Contents:
    """Opens a backup file, reads all of it and checks it: SQLite's own check of every page and index, references, the
    chain of the log, and that it holds what was copied (``expected``; None: not compared).

    :raises StoreDamaged: something is wrong; says what. Else as :func:`look`.
    """
    with reading(file) as conn:
        found = _contents(conn, file, count=True, keys=keys)
        wrong = [row[0] for row in conn.execute("PRAGMA integrity_check(3)").fetchall() if row[0] != "ok"]
        if wrong:
            raise StoreDamaged(f"{file}: SQLite finds damage: {'; '.join(wrong)}")
        lost = conn.execute("PRAGMA foreign_key_check").fetchall()
        if lost:
            raise StoreDamaged(f"{file}: {len(lost)} rows refer to what is not there, the first in {lost[0][0]}")
        for namespace, names in points.namespaces(conn).items():
            broken = log.broken_at(conn, namespace)
            if broken is not None:
                raise StoreDamaged(f"{file}: the log of {'/'.join(names)} is broken at operation {broken}")
        if expected is not None and found.facts != expected:
            raise StoreDamaged(f"{file}: does not hold what was copied: {found.facts} is not {expected}")
        return found


def prepare(
    file: Path,
    target: Path,
    is_running: Callable[[str], bool],
    *,
    unset: Sequence[str],
    at: int,
    carry: Callable[[unlocking.Connection], None],
) -> Facts:
    """Copies a backup file into an empty one, and makes that ready to be a store.

    No vector index belongs to it, so every node is queued for one. A run that had not ended when the backup was made,
    and whose process is alive, goes on elsewhere: here it ends with the backup. One whose process is gone stays
    unfinished: what it did after the backup is not here. The tokens of claims go on from the time in microseconds:
    higher than any that was given out after the backup, which may still be shown to somebody.

    :param is_running: whether a process, as a session names it, is alive. :param unset: settings to forget.
    :param at: the time in microseconds since 1970 UTC.
    :param carry: takes over what does not go back in time, see hybridmem.store.carried.
    :return: what was copied, before anything was carried over.
    """
    with reading(file) as source, translated(target.parent, 0.0), closing(scratch(target)) as made:
        source.backup(made, pages=PAGES)
        record = points.setting(made, RECORD)
        single_file(made)
        made.execute("BEGIN")
        outbox.requeue_all(made)
        for key in (RECORD, *unset):
            points.drop_setting(made, key)
        left = made.execute("SELECT id, process, opened_at FROM session WHERE closed_at IS NULL").fetchall()
        for session, process, opened in left:
            if is_running(process):
                points.close_session(made, session, record["at"] if record else opened, resumed=False)
        given = made.execute("SELECT seq FROM sqlite_sequence WHERE name = 'claim'").fetchone()
        made.execute("DELETE FROM sqlite_sequence WHERE name = 'claim'")
        made.execute(
            "INSERT INTO sqlite_sequence (name, seq) VALUES ('claim', ?)", (max(at, given[0] if given else 0),)
        )
        found = facts(made)
        points.set_setting(made, RESTORED_FROM, _digest(found))
        made.execute("COMMIT")
        carry(made)
    return found


def is_copy_of(file: Path, contents: Contents) -> bool:
    """Whether a database was restored from a backup with these contents."""
    with reading(file) as conn:
        _contents(conn, file, count=False, keys=None)
        return bool(points.setting(conn, RESTORED_FROM) == _digest(contents.facts))


def _digest(found: Facts) -> str:
    """The outbox is another in a restored store."""
    return log.digest(repr((sorted(found.namespaces.items()), sorted({**found.rows, "outbox": 0}.items()))))


@contextlib.contextmanager
def reading(file: Path) -> Iterator[sqlite3.Connection]:
    """A backup file, opened as one that nobody writes: SQLite makes no other file beside it, and locks nothing."""
    if not file.exists():
        raise NotFound(f"{file}: there is no such file")
    if not file.is_file():
        raise InvalidInput(f"file: {file} is not a file; name a backup")
    if file.with_name(file.name + "-wal").exists():
        raise InvalidInput(f"file: {file} is the database of an open store; make a backup of that store, and use this")
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as conn:
            conn.isolation_level = None
            yield conn
    except sqlite3.Error as error:
        if "unable to open" in str(error):
            raise InvalidInput(f"file: {file} cannot be read ({error})") from error
        raise StoreDamaged(f"{file}: {_said(error)}") from error


def _said(error: sqlite3.Error) -> str:
    return "is not an SQLite database" if "not a database" in str(error) else f"SQLite says: {error}"


def unlock(file: Path, keys: KeyProvider | None) -> None:
    """:raises EncryptionError: the backup is encrypted, and this is not its master key."""
    with reading(file) as conn:
        data_keys.keyring(conn, keys, str(file))


def _contents(conn: sqlite3.Connection, file: Path, *, count: bool, keys: KeyProvider | None) -> Contents:
    application, version = (conn.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
    if application != APPLICATION_ID:
        raise StoreDamaged(f"{file}: is not a backup of hybridmem")
    if version > SCHEMA_VERSION:
        raise StoreTooNew(f"{file}: has schema version {version}, this hybridmem knows {SCHEMA_VERSION}; upgrade it")
    record = points.setting(conn, RECORD)
    if record and isinstance(record["label"], list):
        record["label"] = _label(conn, record["label"], keys)
    return Contents(Record(**record) if record else None, facts(conn, count=count))


def _label(conn: sqlite3.Connection, sealed: list[Any], keys: KeyProvider | None) -> str:
    try:
        keyring = data_keys.keyring(conn, keys, "")
        return SEALED if keyring is None else keyring.key(conn, sealed[0]).unseal(sealed[1], 0, 0, RECORD)
    except (EncryptionError, crypto.Broken):
        return SEALED


def _recorded(source: sqlite3.Connection, record: Record) -> dict[str, Any]:
    """As it is noted in the backup: an encrypted store has no word of a user in it."""
    found = asdict(record)
    space = points.namespace_id(source, tuple(record.namespace))
    key = None if space is None else sealing.writing(source, space)
    if key is not None and record.label is not None:
        found["label"] = [key.id, key.seal(record.label, 0, 0, RECORD)]
    return found


def scratch(file: Path) -> unlocking.Connection:
    """A file that is thrown away if anything goes wrong, so SQLite need not protect it."""
    conn = sqlite3.connect(file, isolation_level=None, factory=unlocking.Connection)
    conn.execute("PRAGMA synchronous = OFF")
    conn.execute("PRAGMA journal_mode = OFF")
    return conn


def single_file(conn: sqlite3.Connection) -> None:
    """After the copying: takes the mark of a write-ahead log out of the file, and leaves no other file beside it."""
    conn.execute("PRAGMA journal_mode = DELETE")
    conn.execute("PRAGMA journal_mode = OFF")


def _told(progress: Progress | None) -> Callable[[int, int, int], object]:
    """Always something: between two rounds Ctrl-C is heard."""
    return lambda _, remaining, total: progress(total - remaining, total) if progress is not None else None

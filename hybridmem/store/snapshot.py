"""A look at the database of a store that may be damaged: one state of it, read-only, whatever Memory.open() says to it.

Nothing is written: neither the database nor its WAL changes. (SQLite may make an empty WAL beside a store that nobody
has open.)
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from hybridmem.ports import KeyProvider
from hybridmem.store import data_keys, unlocking
from hybridmem.store.directory import DATABASE_NAME
from hybridmem.store.migrations import APPLICATION_ID, SCHEMA_VERSION

#: SQLite's own checks stop after so many lines: a torn file has thousands.
MOST_LINES = 20


def take(directory: Path) -> unlocking.Connection:
    """A connection in one state of the database; close it soon, since the WAL grows meanwhile.

    :raises sqlite3.Error: the file is missing, is no database, or cannot be read.
    """
    uri = (directory / DATABASE_NAME).resolve().as_uri()
    try:
        return _begin(f"{uri}?mode=ro")
    except sqlite3.OperationalError as error:
        # In a directory that cannot be written to, SQLite reads a database whose WAL is not there only so.
        if "unable to open" not in str(error) or (directory / f"{DATABASE_NAME}-wal").exists():
            raise
        return _begin(f"{uri}?mode=ro&immutable=1")


def _begin(uri: str) -> unlocking.Connection:
    conn = sqlite3.connect(uri, uri=True, timeout=5.0, isolation_level=None, factory=unlocking.Connection)
    try:
        conn.execute("PRAGMA temp_store = MEMORY")
        conn.execute("BEGIN")
        conn.execute("SELECT count(*) FROM sqlite_master").fetchone()  # only now is the state fixed
    except BaseException:
        conn.close()
        raise
    return conn


def unlock(conn: unlocking.Connection, keys: KeyProvider | None, directory: Path) -> None:
    """Lets it be read, if it is encrypted; a value that does not open is NULL then.

    :raises EncryptionError: it is encrypted, and this is not its master key.
    """
    keyring = data_keys.keyring(conn, keys, str(directory))
    if keyring is not None:
        unlocking.install(conn, keyring)
        conn.lenient = True


def header(tx: sqlite3.Connection) -> tuple[str | None, int]:
    """(why this is not a store that can be looked at, or None; its schema version)."""
    application, version, tables = (
        tx.execute(sql).fetchone()[0]
        for sql in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
    )
    if not tables:
        return "it is empty", 0
    if application != APPLICATION_ID:
        return f"its application id is {application:#x}, not that of a hybridmem store ({APPLICATION_ID:#x})", version
    if version > SCHEMA_VERSION:
        return f"its schema version is {version}, this hybridmem knows {SCHEMA_VERSION}: upgrade hybridmem", version
    return None, version


def integrity(tx: sqlite3.Connection) -> list[str]:
    """What SQLite itself finds wrong with the file."""
    rows = tx.execute(f"PRAGMA integrity_check({MOST_LINES})").fetchall()
    return [row[0] for row in rows if row[0] != "ok"]

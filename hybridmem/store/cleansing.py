"""What a deleted row leaves in files: merged away, rewritten, cut off. Every step may be done again at any time."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import sqlite_utils

from hybridmem import faults
from hybridmem.errors import StoreDamaged
from hybridmem.ports import KeyProvider
from hybridmem.replacing import replace_file
from hybridmem.store import backup, data_keys, erasing, points, tombstones, unlocking
from hybridmem.store.connect import Connections
from hybridmem.store.migrations import APPLICATION_ID, SCHEMA_VERSION, migrations
from hybridmem.store.translated import translated

#: Who the log of a backup says has erased something there.
AGENT = "erasure"


def merge_words(connections: Connections) -> None:
    """Merges all parts of the lexical index into one: until then each has the terms of what was deleted since."""
    with connections.write() as tx:
        tx.execute("PRAGMA secure_delete = ON")
        tx.execute("INSERT INTO lexical (lexical) VALUES ('optimize')")
    faults.point("erase.after_words")


def state_of(connections: Connections) -> tuple[int, int]:
    """(free pages of the database, bytes of its write-ahead log)."""
    log = connections.database.with_name(f"{connections.database.name}-wal")
    with closing(connections.separate()) as conn:
        free = int(conn.execute("PRAGMA freelist_count").fetchone()[0])
    return free, log.stat().st_size if log.exists() else 0


def matches(file: Path, wanted: tombstones.Tombstones) -> int:
    """How many nodes of a backup file have a tombstone, and content still."""
    found = 0
    with backup.reading(file) as conn:
        for namespace, hashes in _spaces(conn, wanted).items():
            rows = conn.execute(
                """SELECT n.uid FROM node n JOIN revision r ON r.id = n.revision_id
                WHERE n.namespace_id = ? AND (r.content != '' OR n.state != 'forgotten')""",
                (namespace,),
            ).fetchall()
            found += sum(tombstones.hashed(uid) in hashes for (uid,) in rows)
    return found


def _spaces(conn: sqlite3.Connection, wanted: tombstones.Tombstones) -> dict[int, set[str]]:
    names = {one: tombstones.names_hash(name) for one, name in points.namespaces(conn).items()}
    return {one: set(wanted[key]) for one, key in names.items() if key in wanted}


def cleanse_backup(
    file: Path, wanted: tombstones.Tombstones, at: int, keys: KeyProvider | None, *, summaries: bool
) -> int:
    """Erases the same in a backup: in a copy, which is rewritten, checked, and takes its place. Returns how many
    memories went there.

    :raises StoreDamaged: the file is damaged, or the copy does not come out right; the file is as it was then.
    """

    def write(path: Path) -> tuple[int, backup.Facts]:
        with backup.reading(file) as source, translated(path.parent, 0.0), closing(backup.scratch(path)) as made:
            source.backup(made, pages=backup.PAGES)
            backup.single_file(made)
            unlock(made, keys, str(file))
            gone = erase_in(made, wanted, at, summaries=summaries)
            faults.point("erase.in_backup")
            rewrite_alone(made)
            made.execute("BEGIN")
            found = backup.facts(made)
            made.execute("COMMIT")
        return gone, found

    def check(path: Path, result: tuple[int, backup.Facts]) -> None:
        backup.verify(path, result[1])
        left = matches(path, wanted)
        if left:
            raise StoreDamaged(f"{file}: {left} memories could not be erased in it")

    gone, _ = replace_file(file, write, check=check)
    return gone


def rewrite_alone(conn: unlocking.Connection) -> None:
    """The same for a database that nobody else has open; it reads nothing that is sealed afterwards."""
    conn.execute("INSERT INTO lexical (lexical) VALUES ('optimize')")
    unlocking.uninstall(conn)
    conn.execute("VACUUM")


def erase_in(conn: sqlite3.Connection, wanted: tombstones.Tombstones, at: int, *, summaries: bool) -> int:
    """Erases whatever has a tombstone in a database that nobody else has open, after bringing it to this schema."""
    migrate(conn)
    conn.execute("PRAGMA secure_delete = ON")
    conn.execute("BEGIN IMMEDIATE")
    gone = erasing.apply(conn, wanted, AGENT, at, summaries=summaries)
    conn.execute("COMMIT")
    return gone


def unlock(conn: unlocking.Connection, keys: KeyProvider | None, where: str) -> None:
    """Lets a connection read what is sealed, if it is.

    :raises EncryptionError: it is sealed, and this is not its master key.
    """
    keyring = data_keys.keyring(conn, keys, where)
    if keyring is not None:
        unlocking.install(conn, keyring)


def migrate(conn: sqlite3.Connection) -> None:
    """Brings a database that nobody else has open to this schema."""
    if conn.execute("PRAGMA user_version").fetchone()[0] == SCHEMA_VERSION:
        return
    conn.execute("BEGIN IMMEDIATE")
    migrations.apply(sqlite_utils.Database(conn, execute_plugins=False))
    conn.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    conn.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    conn.execute("COMMIT")

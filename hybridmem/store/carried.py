"""What does not go back in time when a backup takes the place of a store: it is carried into the restored database.

The restored copy is not the store yet, and nobody has it or the old store open. The old one may be damaged, which may
be why a backup is restored: then only what can be read is carried.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from hybridmem.ports import KeyProvider
from hybridmem.store import audit, cleansing, grants, tombstones
from hybridmem.store.directory import DATABASE_NAME
from hybridmem.store.migrations import APPLICATION_ID, SCHEMA_VERSION
from hybridmem.store.unlocking import Connection

logger = logging.getLogger("hybridmem")
LOG = f"{DATABASE_NAME}-wal"


def _tombstones(old: sqlite3.Connection, new: sqlite3.Connection) -> None:
    """What was erased after the backup was made is erased in the restored store too, and its receipts are there."""
    wanted = tombstones.everything(old)
    rows = old.execute("SELECT at, complete, receipt FROM erasure ORDER BY id").fetchall()
    if not wanted and not rows:
        return
    at = int(old.execute("SELECT coalesce(max(at), 0) FROM tombstone").fetchone()[0])
    cleansing.erase_in(new, wanted, at, summaries=True)
    new.execute("BEGIN IMMEDIATE")
    known = {row[0] for row in new.execute("SELECT receipt FROM erasure").fetchall()}
    new.executemany(
        "INSERT INTO erasure (namespace_id, at, complete, receipt) VALUES (NULL, ?, ?, ?)",
        [row for row in rows if row[2] not in known],
    )
    new.execute("COMMIT")


def _grants(old: sqlite3.Connection, new: sqlite3.Connection) -> None:
    """A grant that was revoked stays revoked."""
    new.execute("BEGIN IMMEDIATE")
    grants.carry(old, new)
    new.execute("COMMIT")


#: Each takes something from the old database over into the new one, outside of any transaction.
CARRIED: list[Callable[[sqlite3.Connection, sqlite3.Connection], None]] = [_tombstones, audit.carry, _grants]


def carry(directory: Path, new: Connection, keys: KeyProvider | None) -> None:
    """Does so for the store in a directory, if there is one that can be read."""
    if not (directory / DATABASE_NAME).exists():
        return
    try:
        with _old(directory) as old:
            if old is None:
                return
            cleansing.unlock(new, keys, str(directory))
            cleansing.migrate(new)
            for one in CARRIED:
                one(old, new)
            cleansing.rewrite_alone(new)
    except sqlite3.DatabaseError as error:
        if new.in_transaction:
            new.execute("ROLLBACK")
        logger.warning(
            "%s: the old store cannot be read (%s): what was erased there since the backup was made is not known, and "
            "is back if the backup has it",
            directory,
            error,
        )


@contextlib.contextmanager
def _old(directory: Path) -> Iterator[sqlite3.Connection | None]:
    """The old database as it is, its write-ahead log included, without a trace of having been read. None: it is of a
    version that knows nothing to carry, or of a later one."""
    log = directory / LOG
    with contextlib.ExitStack() as stack:
        file = directory / DATABASE_NAME
        if log.exists() and log.stat().st_size:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=".carried.", dir=directory)))
            for one in (file, log):
                shutil.copy2(one, folder / one.name)
            conn = sqlite3.connect(folder / file.name, isolation_level=None)
        else:
            conn = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro&immutable=1", uri=True, isolation_level=None)
        stack.enter_context(closing(conn))
        names = ("application_id", "user_version")
        application, version = (conn.execute(f"PRAGMA {name}").fetchone()[0] for name in names)
        is_known = application == APPLICATION_ID and version == SCHEMA_VERSION
        yield conn if is_known else None

"""Connections that read what is sealed: temporary views stand in front of the tables that hold words of users.

Whoever reads ``revision`` reads what was said; whoever writes names the table itself (``main.revision``) and seals
first (hybridmem.store.sealing). A plain store has no views, and pays nothing.
"""

from __future__ import annotations

import contextlib
import sqlite3
import weakref
from collections.abc import Callable, Iterator

from hybridmem import crypto
from hybridmem.errors import HybridMemError, StoreDamaged
from hybridmem.store import sealed_words
from hybridmem.store.data_keys import Keyring


def _opened(column: str, subject: str, version: str) -> str:
    return f"""CASE WHEN key_id = 0 OR {column} IS NULL THEN {column}
        ELSE unsealed({column}, key_id, {subject}, {version}, '{column}') END AS {column}"""


#: What stands in front of the tables in an encrypted store.
VIEWS = {
    "revision": f"""SELECT id, node_id, version, {_opened("content", "node_id", "version")}, structured,
        {_opened("metadata", "node_id", "version")}, key_id FROM main.revision""",
    "task": f"""SELECT node_id, status, {_opened("next_step", "node_id", "0")}, started_at, finished_at, key_id
        FROM main.task""",
    "checkpoint": f"""SELECT id, namespace_id, number, {_opened("label", "number", "0")}, reason, sequence, at, agent,
        active_task, active_node, decision_path, nodes, digest, key_id FROM main.checkpoint""",
    "operation": """SELECT id, namespace_id, sequence, kind, node_uid, agent, at,
        CASE WHEN instr(payload, '"sealed":') = 0 THEN payload
        ELSE unsealed_payload(payload, namespace_id, sequence) END AS payload,
        payload_hash, hash FROM main.operation""",
}


class Connection(sqlite3.Connection):
    """A connection that may have keys. ``failure``: why the last value did not open; ``lenient``: such a value is NULL
    instead of an error, for checks."""

    keyring: Keyring | None = None
    failure: HybridMemError | None = None
    lenient = False


def ring(tx: sqlite3.Connection) -> Keyring | None:
    """The keys of a connection; None: the store is not encrypted."""
    return tx.keyring if isinstance(tx, Connection) else None


def install(conn: Connection, keyring: Keyring) -> None:
    """Lets a connection read what is sealed."""
    conn.keyring = keyring
    here = weakref.ref(conn)

    def unsealed(sealed: str, key_id: int, subject: int, version: int, name: str) -> str | None:
        tx = here()
        assert tx is not None
        return _guarded(
            tx, lambda: keyring.key(tx, key_id).unseal(sealed, subject, version, name), f"{name} of", subject, name
        )

    def unsealed_payload(payload: str, namespace: int, sequence: int) -> str | None:
        tx = here()
        assert tx is not None
        return _guarded(
            tx, lambda: sealed_words.opened(tx, keyring, payload, sequence), "words of operation", sequence, ""
        )

    conn.create_function("unsealed", 5, unsealed, deterministic=True)
    conn.create_function("unsealed_payload", 3, unsealed_payload, deterministic=True)
    if not conn.in_transaction:
        conn.execute("PRAGMA temp_store = MEMORY")  # what is sorted must not be written to a file
    for name, select in VIEWS.items():
        conn.execute(f"CREATE TEMP VIEW {name} AS {select}")


def uninstall(conn: Connection) -> None:
    """From here on it reads what is stored as it is: SQLite cannot rewrite a file while the views are there."""
    for name in VIEWS:
        conn.execute(f"DROP VIEW IF EXISTS temp.{name}")


def _guarded(tx: Connection, opened: Callable[[], str], what: str, subject: int, name: str) -> str | None:
    """SQLite tells nothing of what a function raises, so that is kept aside."""
    try:
        return opened()
    except crypto.Broken:
        if tx.lenient:
            return None
        tx.failure = StoreDamaged(_told(tx, what, subject, name))
        raise
    except HybridMemError as error:
        tx.failure = error
        raise


def _told(tx: sqlite3.Connection, what: str, subject: int, name: str) -> str:
    about = str(subject)
    if name in ("content", "metadata", "next_step"):
        row = tx.execute("SELECT uid FROM node WHERE id = ?", (subject,)).fetchone()
        about = row[0] if row else about
    return (
        f"the {what} {about} does not open: it was changed, or belongs elsewhere; hybridmem doctor names all that is "
        "so, and a backup has it as it was"
    )


@contextlib.contextmanager
def leniently(tx: sqlite3.Connection) -> Iterator[None]:
    """Meanwhile a value that does not open is NULL instead of an error."""
    if not isinstance(tx, Connection) or tx.lenient:
        yield
        return
    tx.lenient = True
    try:
        yield
    finally:
        tx.lenient = False


def failure(tx: sqlite3.Connection) -> HybridMemError | None:
    """Why a value did not open, once."""
    if not isinstance(tx, Connection):
        return None
    found, tx.failure = tx.failure, None
    return found

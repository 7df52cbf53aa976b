"""What is encrypted of what is written, and how it is compared: the one place where values of a store are sealed.

Each namespace has a data key (hybridmem.store.data_keys); what is sealed is bound to where it stands (namespace, node,
version, field), so that moved elsewhere it does not open. How it is read: hybridmem.store.unlocking.
"""

from __future__ import annotations

import base64
import secrets
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hybridmem import crypto
from hybridmem.errors import StoreDamaged
from hybridmem.ports import Vectors
from hybridmem.store import sealed_words
from hybridmem.store.data_keys import COLUMNS, DataKey, check, replace_all, wrap
from hybridmem.store.rows import content_key as plain_key
from hybridmem.store.unlocking import Connection, install, ring

#: Begins a sealed reason of the outbox; no plain one does.
_REASON = "\x01"


# Writing and comparing


def writing(tx: sqlite3.Connection, namespace: int) -> DataKey | None:
    """The key for what is written to a namespace; None: it is not sealed."""
    keyring = ring(tx)
    return None if keyring is None else keyring.current(tx, namespace)


def writing_to(tx: sqlite3.Connection, node_id: int) -> DataKey | None:
    """The same for the namespace of a node."""
    if ring(tx) is None:
        return None
    return writing(tx, tx.execute("SELECT namespace_id FROM node WHERE id = ?", (node_id,)).fetchone()[0])


def revision(key: DataKey | None, node_id: int, version: int, content: str, metadata: str) -> tuple[str, str, int]:
    """Content, metadata (JSON) and ``key_id`` of a revision as they are to be stored."""
    if key is None:
        return content, metadata, 0
    said, more = key.seal(content, node_id, version, "content"), key.seal(metadata, node_id, version, "metadata")
    return said, more, key.id


def add_revision(
    tx: sqlite3.Connection,
    data_key: DataKey | None,
    node_id: int,
    version: int,
    content: str,
    structured: bool,
    metadata: str,
) -> int:
    """Adds a revision, sealed by ``data_key``; returns its id."""
    said, more, key_id = revision(data_key, node_id, version, content, metadata)
    made = tx.execute(
        "INSERT INTO main.revision (node_id, version, content, structured, metadata, key_id) VALUES (?, ?, ?, ?, ?, ?)",
        (node_id, version, said, structured, more, key_id),
    ).lastrowid
    assert made is not None
    return made


def text(key: DataKey | None, value: str | None, subject: int, name: str) -> tuple[str | None, int]:
    """A text beside the revisions and its ``key_id`` as they are to be stored."""
    if key is None or value is None:
        return value, 0
    return key.seal(value, subject, 0, name), key.id


def content_key(key: DataKey | None, content: str) -> str:
    return plain_key(content) if key is None else key.content_key(content)


def content_keys(tx: sqlite3.Connection, namespace: int, content: str) -> list[str]:
    """Every content key that a content may have now."""
    keyring = ring(tx)
    if keyring is None:
        return [plain_key(content)]
    return [content_key(key, content) for key in keyring.all(tx, namespace)]


def voice(key: DataKey | None, name: str) -> str:
    return name if key is None else key.voice(name)


def voices(tx: sqlite3.Connection, names: Sequence[str]) -> list[str]:
    """Who said something, from the column ``speaker``. :raises StoreDamaged: one does not open."""
    keyring = ring(tx)
    if keyring is None:
        return list(names)
    known = {one: one for one in set(names)}
    for one in known:
        if one.startswith("K"):
            key_id, _, sealed = one[1:].partition(":")
            try:
                key = keyring.key(tx, int(key_id))
                known[one] = crypto.unseal(key.voices, base64.b64decode(sealed, validate=True), b"voice").decode(
                    "utf-8"
                )
            except (crypto.Broken, ValueError):
                raise StoreDamaged("the name of a speaker does not open; repair() makes it again") from None
    return [known[one] for one in names]


def tokens(tx: sqlite3.Connection, namespace: int, terms: Sequence[str]) -> Sequence[str]:
    """Terms as they are to be indexed."""
    key = writing(tx, namespace)
    return terms if key is None else [key.token(term) for term in terms]


def coder(tx: sqlite3.Connection, namespace: int) -> Callable[[str], tuple[str, ...]]:
    """What may stand for a term in the lexical index now."""
    keyring = ring(tx)
    if keyring is None:
        return lambda term: (term,)
    keys = keyring.all(tx, namespace)
    return lambda term: tuple(term if key is None else key.token(term) for key in keys)


def turned(tx: sqlite3.Connection, namespace: int, vectors: Vectors) -> Vectors:
    """Vectors (…, d) as they are kept of a namespace: under its secret rotation, if it has one."""
    keyring = ring(tx)
    if keyring is None or not vectors.size:
        return vectors
    row = tx.execute("SELECT id FROM data_key WHERE namespace_id = ? AND turns = 1", (namespace,)).fetchone()
    if row is None:
        return vectors
    made: Vectors = (vectors @ keyring.turn(keyring.key(tx, row[0]), vectors.shape[-1]).T).astype(np.float32)
    return made


# The log


def payload(tx: sqlite3.Connection, namespace: int, sequence: int, value: Mapping[str, Any]) -> dict[str, Any]:
    """A payload as it is to be stored: the words in it sealed."""
    key = writing(tx, namespace)
    return dict(value) if key is None else sealed_words.sealed(key, sequence, value)


def opened_payload(tx: sqlite3.Connection, stored: str, sequence: int) -> str:
    """A payload (JSON) as it was said. :raises StoreDamaged: words in it do not open."""
    keyring = ring(tx)
    if keyring is None or sealed_words.MARK not in stored:
        return stored
    try:
        return sealed_words.opened(tx, keyring, stored, sequence)
    except crypto.Broken:
        raise StoreDamaged(f"the words of operation {sequence} do not open: they were changed") from None


# What an embedder said


def reason(tx: sqlite3.Connection, node_id: int, said: str) -> str:
    """Why a vector could not be made, as it is to be stored: such a text may quote the content."""
    key = writing_to(tx, node_id)
    return said if key is None else f"{_REASON}{key.id}:{key.seal(said, node_id, 0, 'reason')}"


def opened_reason(tx: sqlite3.Connection, node_id: int, stored: str) -> str:
    """The opposite of :func:`reason`; one that does not open is said to be so."""
    keyring = ring(tx)
    if keyring is None or not stored.startswith(_REASON):
        return stored
    key_id, _, sealed = stored[1:].partition(":")
    try:
        return keyring.key(tx, int(key_id)).unseal(sealed, node_id, 0, "reason")
    except (crypto.Broken, ValueError):
        return "it failed, and why does not open any more"


# Data keys


def make_key(tx: sqlite3.Connection, namespace: int, at: int, *, turns: bool = True) -> int | None:
    """Gives a namespace of an encrypted store a data key of its own, from now on; returns its id.

    :raises EncryptionError: the store has another master key by now.
    """
    keyring = ring(tx)
    if keyring is None:
        return None
    check(tx, keyring.provider)
    wrapped = wrap(keyring.provider, secrets.token_bytes(crypto.KEY_BYTES))
    return tx.execute(
        "INSERT INTO data_key (namespace_id, wrapped, master, made_at, turns) VALUES (?, ?, ?, ?, ?)",
        (namespace, wrapped, keyring.provider.id, at, int(turns)),
    ).lastrowid


def destroy(tx: sqlite3.Connection, namespace: int) -> int:
    """Deletes the data keys of a namespace: whatever they sealed, anywhere, cannot be opened by anybody any more.
    Returns how many there were; 0 in a plain store, and in one that has been made plain but for its mark."""
    rows = tx.execute(f"SELECT {COLUMNS} FROM data_key ORDER BY id").fetchall()
    if not rows:
        return 0
    replace_all(tx, [row for row in rows if row[1] != namespace])
    return sum(row[1] == namespace and row[2] is not None for row in rows)


def adopt(source: sqlite3.Connection, tx: sqlite3.Connection, *, only: int | None = None) -> None:
    """Makes the store of ``tx``, an earlier state or an empty one, read and write with the keys of ``source``;
    ``only``: those of one namespace."""
    keys = ring(source)
    if keys is None or not isinstance(tx, Connection):
        return
    rows = source.execute(
        f"SELECT {COLUMNS} FROM data_key WHERE ? IS NULL OR namespace_id = ?",
        (only, only),
    ).fetchall()
    tx.executemany("INSERT OR IGNORE INTO data_key VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    if ring(tx) is None:
        install(tx, keys)

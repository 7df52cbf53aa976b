"""The data keys of a store: one for each namespace, kept wrapped by the master key in the table ``data_key``."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import secrets
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hybridmem import crypto
from hybridmem.errors import EncryptionError
from hybridmem.ports import KeyProvider, Vectors
from hybridmem.store.rows import content_key as plain_key
from hybridmem.store.rows import dump

#: Store setting of an encrypted store: the id of the master key, and something that it has wrapped.
SETTING = "encryption"
#: Of the table ``data_key``.
COLUMNS = "id, namespace_id, wrapped, master, made_at, retired_at, turns"
#: How a master key is given.
GIVE = "set the variable that encryption.key names (HYBRIDMEM_KEY), or encryption.key to file:PATH, or pass master_key"
#: Words whose hash is remembered, per key.
MOST_TOKENS = 500_000


@dataclass(frozen=True, slots=True)
class DataKey:
    """The keys that are derived from a data key, one for each purpose."""

    id: int
    namespace: int
    contents: bytes = field(repr=False)
    hashes: bytes = field(repr=False)
    voices: bytes = field(repr=False)
    turning: bytes = field(repr=False)
    known: dict[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, id: int, namespace: int, key: bytes) -> DataKey:
        contents, hashes, voices, turning = (
            crypto.derive(key, name) for name in ("contents", "hashes", "voices", "turning")
        )
        return cls(id, namespace, contents, hashes, voices, turning)

    def seal(self, text: str, subject: int, version: int | str, name: str) -> str:
        sealed = crypto.seal(self.contents, text.encode("utf-8"), self._bound(subject, version, name))
        return base64.b64encode(sealed).decode("ascii")

    def unseal(self, sealed: str, subject: int, version: int | str, name: str) -> str:
        """:raises Broken: it does not open here."""
        try:
            data = base64.b64decode(sealed, validate=True)
            return crypto.unseal(self.contents, data, self._bound(subject, version, name)).decode("utf-8")
        except (binascii.Error, ValueError, AttributeError, TypeError):
            raise crypto.Broken from None

    def _bound(self, subject: int, version: int | str, name: str) -> bytes:
        return dump([self.namespace, subject, version, name]).encode("utf-8")

    def content_key(self, content: str) -> str:
        """As rows.content_key(), but only who has the key can tell of which content. That of '' is the same: it is
        the mark of what is purged."""
        if not content:
            return plain_key(content)
        return f"hmac{self.id}:" + self.hashed("content", content)[:16].hex()

    def token(self, term: str) -> str:
        """What stands for a term in the lexical index. No term looks like that."""
        found = self.known.get(term)
        if found is None:
            if len(self.known) >= MOST_TOKENS:
                self.known.clear()
            found = "#" + base64.b32encode(self.hashed("term", term)[:10]).decode("ascii").lower()
            self.known[term] = found
        return found

    def voice(self, name: str) -> str:
        """Who said something, so that equal names look equal. No plain name begins with a capital letter."""
        if not name:
            return name
        sealed = crypto.seal(
            self.voices, name.encode("utf-8"), b"voice", self.hashed("voice", name)[: crypto.NONCE_BYTES]
        )
        return f"K{self.id}:" + base64.b64encode(sealed).decode("ascii")

    def hashed(self, purpose: str, text: str) -> bytes:
        """A keyed hash, another one for each purpose."""
        return hmac.digest(self.hashes, f"{purpose}\0{text}".encode("utf-8", "surrogatepass"), hashlib.sha256)


class Keyring:
    """The data keys of one store in this process, each unwrapped when it is first needed."""

    def __init__(self, provider: KeyProvider) -> None:
        self.provider = provider
        self._keys: dict[int, DataKey] = {}
        self._turns: dict[tuple[int, int], Vectors] = {}

    def key(self, tx: sqlite3.Connection, key_id: int) -> DataKey:
        """:raises EncryptionError: it is not there any more, or the master key does not open it."""
        found = self._keys.get(key_id)
        if found is None:
            row = tx.execute("SELECT namespace_id, wrapped, master FROM data_key WHERE id = ?", (key_id,)).fetchone()
            if row is None or row[1] is None:
                raise EncryptionError(
                    f"the data key {key_id} of this store is destroyed; what it sealed is gone for good"
                )
            found = DataKey.of(key_id, row[0], unwrapped(self.provider, row[1], row[2]))
            self._keys[key_id] = found
        return found

    def current(self, tx: sqlite3.Connection, namespace: int) -> DataKey | None:
        """The key by which everything is sealed that is written now; None: nothing is sealed any more.

        :raises EncryptionError: the namespace has none: it was destroyed.
        """
        row = tx.execute(
            "SELECT id, wrapped IS NULL FROM data_key WHERE namespace_id = ? AND retired_at IS NULL", (namespace,)
        ).fetchone()
        if row is None:
            raise EncryptionError("the data key of this namespace is destroyed; what it sealed is gone for good")
        return None if row[1] else self.key(tx, row[0])

    def all(self, tx: sqlite3.Connection, namespace: int) -> list[DataKey | None]:
        """Every key by which something may be sealed; None among them: something may be plain."""
        rows = tx.execute(
            "SELECT id, wrapped IS NULL FROM data_key WHERE namespace_id = ? ORDER BY id", (namespace,)
        ).fetchall()
        return [None if is_plain else self.key(tx, key_id) for key_id, is_plain in rows]

    def turn(self, key: DataKey, width: int) -> Vectors:
        """(d, d) the secret rotation: orthogonal, so that cosines stay what they are. QR of a Gaussian matrix, with the
        signs of R taken out, is uniform over all of them (Mezzadri 2007)."""
        found = self._turns.get((key.id, width))
        if found is None:
            found = self._turns[key.id, width] = orthogonal(key.turning, width)
        return found

    def __repr__(self) -> str:
        return f"Keyring({self.provider.id})"


def orthogonal(seed: bytes, width: int) -> Vectors:
    """The rotation of a seed; shape (width, width), the same on every machine up to rounding."""
    count = width * width
    numbers = np.frombuffer(crypto.stream(seed, 16 * count), dtype="<u8").reshape(2, count)
    uniform = ((numbers >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    normal = np.sqrt(-2.0 * np.log(uniform[0])) * np.cos(2.0 * np.pi * uniform[1])
    q, r = np.linalg.qr(normal.reshape(width, width))
    made: Vectors = (q * np.where(np.diag(r) < 0.0, -1.0, 1.0)).astype(np.float32)
    return made


def unwrapped(provider: KeyProvider, wrapped: bytes, master: str) -> bytes:
    """A data key. :raises EncryptionError: it was wrapped by another master key, or was changed."""
    if provider.id != master:
        raise EncryptionError(f"this store needs the master key {master}; the given one is {provider.id}")
    try:
        key = provider.unwrap(wrapped)
    except EncryptionError:
        raise
    except Exception as error:  # a provider is foreign code
        raise EncryptionError(f"the master key {master} cannot be used: {_said(error)}") from error
    if not isinstance(key, bytes) or len(key) != crypto.KEY_BYTES:
        raise EncryptionError(f"the master key {master} gave something that is no data key")
    return key


def _said(error: Exception) -> str:
    """What a provider raised."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def set_mark(tx: sqlite3.Connection, provider: KeyProvider) -> None:
    """Marks a store as encrypted, so that it is seen at once whether a master key is the right one."""
    wrapped = base64.b64encode(wrap(provider, secrets.token_bytes(crypto.KEY_BYTES))).decode("ascii")
    value = dump({"master": provider.id, "wrapped": wrapped})
    tx.execute("INSERT OR REPLACE INTO setting (key, value) VALUES (?, ?)", (SETTING, value))


def check(tx: sqlite3.Connection, provider: KeyProvider) -> None:
    """:raises EncryptionError: since somebody was let in with this master key, the store was given another one: a data
    key that the old one wraps would open for nobody."""
    found = marked(tx)
    if found is not None and found["master"] != provider.id:
        raise EncryptionError(
            f"the master key of this store was changed meanwhile, from {provider.id} to {found['master']}; open it "
            "again with that one. Nothing has changed"
        )


def replace_all(tx: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
    """Makes these the rows of the table, each with all of its columns, and leaves no byte of any other in it.

    Deleting single rows does not: where SQLite has moved rows between two pages, the unused part of a page keeps
    copies of them, also under secure_delete. Emptied as a whole, all pages are overwritten.
    """
    tx.execute("PRAGMA secure_delete = ON")
    tx.execute("DELETE FROM data_key")
    tx.executemany(f"INSERT INTO data_key ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", rows)


def wrap(provider: KeyProvider, key: bytes) -> bytes:
    """:raises EncryptionError: the provider cannot."""
    try:
        return bytes(provider.wrap(key))
    except EncryptionError:
        raise
    except Exception as error:  # a provider is foreign code
        raise EncryptionError(f"the master key {provider.id} cannot be used: {_said(error)}") from error


def marked(tx: sqlite3.Connection) -> dict[str, str] | None:
    """The mark of an encrypted store; None: this one is not encrypted, or is empty."""
    tables = tx.execute("SELECT count(*) FROM sqlite_master WHERE name = 'setting'").fetchone()[0]
    row = tx.execute("SELECT value FROM setting WHERE key = ?", (SETTING,)).fetchone() if tables else None
    found: dict[str, str] | None = None if row is None else json.loads(row[0])
    return found


def keyring(tx: sqlite3.Connection, provider: KeyProvider | None, where: str) -> Keyring | None:
    """The keys of a store; None: it is not encrypted.

    :param where: the store or file, for messages. :raises EncryptionError: it is encrypted, and this is not its key.
    """
    found = marked(tx)
    if found is None:
        return None
    if provider is None:
        raise EncryptionError(f"{where}: is encrypted by the master key {found['master']}, and none is given; {GIVE}")
    try:
        unwrapped(provider, base64.b64decode(found["wrapped"]), found["master"])
    except EncryptionError as error:
        hint = f"; {GIVE}" if provider.id != found["master"] else ""
        raise EncryptionError(f"{where}: {error}{hint}. Nothing has changed") from error
    return Keyring(provider)

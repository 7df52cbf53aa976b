"""What in an encrypted store does not open, or is not sealed though it should be: found by opening everything."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

from hybridmem import crypto
from hybridmem.errors import HybridMemError
from hybridmem.store import sealing
from hybridmem.store.data_keys import Keyring
from hybridmem.store.unlocking import ring

#: Rows read at once.
PAGE = 500
#: Sealed columns: id, namespace, node (NULL: none), key, then for each value itself, what and which version it is bound
#: to, and its name.
_TABLES = (
    """SELECT r.id, n.namespace_id, n.id, r.key_id, r.content, n.id, r.version, 'content',
        r.metadata, n.id, r.version, 'metadata' FROM main.revision r JOIN node n ON n.id = r.node_id
    WHERE (? IS NULL OR n.namespace_id = ?) AND r.id > ? ORDER BY r.id LIMIT ?""",
    """SELECT n.id, n.namespace_id, n.id, t.key_id, t.next_step, n.id, 0, 'next_step'
    FROM main.task t JOIN node n ON n.id = t.node_id
    WHERE (? IS NULL OR n.namespace_id = ?) AND t.next_step IS NOT NULL AND n.id > ? ORDER BY n.id LIMIT ?""",
    """SELECT id, namespace_id, NULL, key_id, label, number, 0, 'label' FROM main.checkpoint
    WHERE (? IS NULL OR namespace_id = ?) AND label IS NOT NULL AND id > ? ORDER BY id LIMIT ?""",
)


def find(tx: sqlite3.Connection, only: int | None) -> Iterator[tuple[int, int | None, str]]:
    """(namespace, node or None, what) of each; nothing in a plain store.

    :param only: the namespace to look at; None: all.
    """
    keyring = ring(tx)
    if keyring is None:
        return
    plain = _Plain(tx, keyring)
    for sql in _TABLES:
        for _, space, node_id, key_id, *values in _pages(tx, sql, only):
            for at in range(0, len(values), 4):
                value, subject, version, name = values[at : at + 4]
                wrong = _wrong(tx, keyring, key_id, value, subject, version, name, plain.is_allowed(space))
                if wrong:
                    yield space, node_id, wrong
    sql = """SELECT id, namespace_id, sequence, payload FROM main.operation
        WHERE (? IS NULL OR namespace_id = ?) AND id > ? ORDER BY id LIMIT ?"""
    for _, space, sequence, payload in _pages(tx, sql, only):
        try:
            sealing.opened_payload(tx, payload, sequence)
        except (HybridMemError, ValueError):
            yield space, None, f"words of operation {sequence}"


class _Plain:
    """Where something may not be sealed yet, or any more."""

    def __init__(self, tx: sqlite3.Connection, keyring: Keyring) -> None:
        self._tx, self._keyring = tx, keyring
        self._known: dict[int, bool] = {}

    def is_allowed(self, space: int) -> bool:
        if space not in self._known:
            self._known[space] = None in self._keyring.all(self._tx, space)
        return self._known[space]


def _wrong(
    tx: sqlite3.Connection, keyring: Keyring, key_id: int, value: str, subject: int, version: int, name: str,
    is_plain_allowed: bool,
) -> str:  # fmt: skip
    if key_id == 0:
        return "" if is_plain_allowed or value in ("", "{}") else f"{name} (version {version}) that is not sealed"
    try:
        keyring.key(tx, key_id).unseal(value, subject, version, name)
    except (crypto.Broken, HybridMemError):
        return f"{name} (version {version})" if version else name
    return ""


def _pages(tx: sqlite3.Connection, sql: str, only: int | None) -> Iterator[tuple[Any, ...]]:
    last = 0
    while rows := tx.execute(sql, (only, only, last, PAGE)).fetchall():
        last = rows[-1][0]
        yield from rows

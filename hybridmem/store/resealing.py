"""Everything in a store sealed anew: by other data keys, by the first ones, or by none. In batches that are each whole.

New keys take the place of the old ones at once, which are retired: what is written is sealed by the new ones, what is
there opens by whichever key it says. When nothing is left of the retired ones they are destroyed, see :func:`finish`.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import numpy as np

from hybridmem import faults
from hybridmem.errors import NotFound, StoreBusy, StoreDamaged
from hybridmem.ports import KeyProvider
from hybridmem.speakers import speaker
from hybridmem.store import data_keys, lexical, log, models, points, sealed_words, sealing, snapshot, unlocking
from hybridmem.store.directory import DATABASE_NAME
from hybridmem.store.migrations import SCHEMA_VERSION
from hybridmem.store.rows import dump
from hybridmem.text import terms
from hybridmem.types import ROOT_TYPE

#: Store setting: see :func:`is_unclean`.
UNCLEAN = "unclean"

#: Vectors that are turned at a time.
PAGE = 1000
#: Who writes to the log.
AGENT = "encryption"
_CURRENT = """(SELECT CASE WHEN d.wrapped IS NULL THEN 0 ELSE d.id END FROM data_key d
    WHERE d.namespace_id = n.namespace_id AND d.retired_at IS NULL)"""
#: Nodes of which something is not sealed by the current key of their namespace.
_LEFT = f"""node n WHERE (EXISTS (SELECT 1 FROM main.revision r WHERE r.node_id = n.id AND r.key_id != {_CURRENT}
        AND r.content != '')
    OR EXISTS (SELECT 1 FROM main.task t WHERE t.node_id = n.id AND t.key_id != {_CURRENT}
        AND t.next_step IS NOT NULL))"""


def rotate(tx: sqlite3.Connection, new: KeyProvider) -> int:
    """Wraps every data key by another master key, and touches nothing else; returns how many there are."""
    keyring = unlocking.ring(tx)
    assert keyring is not None
    data_keys.check(tx, keyring.provider)
    rows = tx.execute(f"SELECT {data_keys.COLUMNS} FROM data_key ORDER BY id").fetchall()
    made = [
        (id, space, data_keys.wrap(new, data_keys.unwrapped(keyring.provider, old, master)), new.id, *rest)
        if old is not None
        else (id, space, old, master, *rest)
        for id, space, old, master, *rest in rows
    ]
    data_keys.replace_all(tx, made)
    data_keys.set_mark(tx, new)
    faults.point("rotate.before_commit")
    return sum(row[2] is not None for row in made)


def is_unclean(tx: sqlite3.Connection) -> bool:
    """Whether free pages may hold what was plain, or sealed by other keys: they have not been rewritten since."""
    return points.setting(tx, UNCLEAN) is not None


def set_clean(tx: sqlite3.Connection) -> None:
    """To be said when the database has been rewritten after the last memory was sealed anew. Not if somebody has begun
    again meanwhile."""
    if not is_begun(tx):
        points.drop_setting(tx, UNCLEAN)


def is_begun(tx: sqlite3.Connection) -> bool:
    """Whether sealing anew has begun and is not finished."""
    return tx.execute("SELECT 1 FROM data_key WHERE retired_at IS NOT NULL LIMIT 1").fetchone() is not None


def begin(tx: sqlite3.Connection, at: int, *, plain: bool) -> None:
    """Retires the keys of all namespaces. :param plain: from now on nothing is sealed; else by new keys."""
    rows = tx.execute(
        "SELECT namespace_id FROM data_key WHERE retired_at IS NULL AND (wrapped IS NOT NULL OR NOT ?)", (plain,)
    ).fetchall()
    points.set_setting(tx, UNCLEAN, True)
    for (space,) in rows:
        tx.execute("UPDATE data_key SET retired_at = ? WHERE namespace_id = ? AND retired_at IS NULL", (at, space))
        if plain:
            _add_none(tx, space, at)
        else:
            sealing.make_key(tx, space, at, turns=False)


def _add_none(tx: sqlite3.Connection, space: int, at: int, retired_at: int | None = None) -> None:
    tx.execute(
        "INSERT INTO data_key (namespace_id, wrapped, master, made_at, retired_at) VALUES (?, NULL, '', ?, ?)",
        (space, at, retired_at),
    )


def begin_encrypting(directory: Path, keys: KeyProvider, at: int) -> bool:
    """Marks a plain store as encrypted, and gives its namespaces keys; whoever opens it from now on needs the master
    key. Nobody else may have it open: a handle cannot learn of it. False: it is encrypted already.

    :raises NotFound: there is no store. StoreDamaged: it has an older schema, or is none.
    """
    if not (directory / DATABASE_NAME).exists():
        raise NotFound(f"path: there is no store at {directory}")
    conn = sqlite3.connect(directory / DATABASE_NAME, isolation_level=None, factory=unlocking.Connection)
    try:
        reason, version = snapshot.header(conn)
        if reason is not None or version != SCHEMA_VERSION:
            raise StoreDamaged(f"{directory}: {reason or 'has an older schema; open it once'}")
        if data_keys.keyring(conn, keys, str(directory)) is not None:
            return False
        conn.execute("PRAGMA secure_delete = ON")
        conn.execute("BEGIN IMMEDIATE")
        conn.keyring = data_keys.Keyring(keys)
        data_keys.set_mark(conn, keys)
        points.set_setting(conn, UNCLEAN, True)
        for space in points.namespaces(conn):
            _add_none(conn, space, at, retired_at=at)
            sealing.make_key(conn, space, at, turns=False)
        faults.point("encrypt.before_begun")
        conn.execute("COMMIT")
        return True
    finally:
        conn.close()


def end_plain(directory: Path) -> None:
    """Takes the mark from a store of which nothing is sealed any more. Nobody else may have it open."""
    conn = sqlite3.connect(directory / DATABASE_NAME, isolation_level=None)
    try:
        conn.execute("BEGIN IMMEDIATE")
        if conn.execute("SELECT 1 FROM data_key WHERE wrapped IS NOT NULL").fetchone() is not None:
            raise StoreBusy(f"{directory}: a namespace was added meanwhile; run it again")
        conn.execute("DELETE FROM data_key")
        points.drop_setting(conn, data_keys.SETTING)
        conn.execute("COMMIT")
    finally:
        conn.close()


def count(tx: sqlite3.Connection) -> int:
    """How many nodes are left."""
    return int(tx.execute(f"SELECT count(*) FROM {_LEFT}").fetchone()[0])


def batch(tx: sqlite3.Connection, after: int, limit: int) -> tuple[int, int]:
    """Seals some nodes anew, with all that is theirs; returns the last of them and how many (0: none is left)."""
    rows = tx.execute(
        f"SELECT n.id, n.namespace_id, n.type FROM {_LEFT} AND n.id > ? ORDER BY n.id LIMIT ?", (after, limit)
    ).fetchall()
    for node_id, space, type_ in rows:
        _node(tx, node_id, space, type_)
    faults.point("reseal.before_commit")
    return (rows[-1][0] if rows else after), len(rows)


def _node(tx: sqlite3.Connection, node_id: int, space: int, type_: str) -> None:
    key = sealing.writing(tx, space)
    (current,) = tx.execute("SELECT revision_id FROM node WHERE id = ?", (node_id,)).fetchone()
    revisions = tx.execute(
        "SELECT id, version, content, metadata FROM revision WHERE node_id = ?", (node_id,)
    ).fetchall()
    for revision, version, content, metadata in revisions:
        tx.execute(
            "UPDATE main.revision SET content = ?, metadata = ?, key_id = ? WHERE id = ?",
            (*sealing.revision(key, node_id, version, content, metadata), revision),
        )
        if revision == current:
            who = "" if type_ == ROOT_TYPE else speaker(content, json.loads(metadata))
            tx.execute(
                "UPDATE node SET content_key = ?, speaker = ? WHERE id = ?",
                (sealing.content_key(key, content), sealing.voice(key, who), node_id),
            )
            if lexical.indexed(tx, node_id):
                lexical.index(tx, space, node_id, terms(content))
    row = tx.execute("SELECT next_step FROM task WHERE node_id = ?", (node_id,)).fetchone()
    if row is not None and row[0] is not None:
        points.change_task(tx, node_id, {"next_step": row[0]})


def finish(tx: sqlite3.Connection, at: int) -> bool:
    """What is not of single nodes; then the retired keys are destroyed. False: nodes are left, written meanwhile."""
    if count(tx):
        return False
    for space in points.namespaces(tx):
        _labels(tx, space)
        _reasons(tx, space)
        _log(tx, space, at)
        _turn(tx, space)
    model = models.current(tx)
    if model is not None:  # whoever holds vectors, of questions too, sees that they are others now
        models.rename(tx, {**model, "number": models.number(model) + 1})
    tx.execute("DELETE FROM data_key WHERE retired_at IS NOT NULL")
    tx.execute("INSERT INTO lexical (lexical) VALUES ('optimize')")  # old terms stay in its segments else
    faults.point("reseal.before_finish")
    return True


def _labels(tx: sqlite3.Connection, space: int) -> None:
    rows = tx.execute(
        "SELECT id, number, label FROM checkpoint WHERE namespace_id = ? AND label IS NOT NULL", (space,)
    ).fetchall()
    key = sealing.writing(tx, space)
    for row, number, label in rows:
        sealed = sealing.text(key, label, number, "label")
        tx.execute("UPDATE main.checkpoint SET label = ?, key_id = ? WHERE id = ?", (*sealed, row))


def _reasons(tx: sqlite3.Connection, space: int) -> None:
    rows = tx.execute(
        "SELECT id, node_id, reason FROM outbox WHERE namespace_id = ? AND reason IS NOT NULL", (space,)
    ).fetchall()
    for row, node_id, reason in rows:
        said = sealing.reason(tx, node_id, sealing.opened_reason(tx, node_id, reason))
        tx.execute("UPDATE outbox SET reason = ? WHERE id = ?", (said, row))


def _log(tx: sqlite3.Connection, space: int, at: int) -> None:
    """The words in the log. The hashes of the chain stay; a new entry says what the payloads are now, as that of a
    purge does."""
    named = " OR ".join(f"instr(payload, '\"{name}\":') > 0" for name in sealed_words.WORDS)
    rows = tx.execute(
        f"SELECT id, sequence, payload FROM operation WHERE namespace_id = ? AND ({named})", (space,)
    ).fetchall()
    blanked = {}
    for row, sequence, payload in rows:
        body = dump(sealing.payload(tx, space, sequence, json.loads(payload)))
        (before,) = tx.execute("SELECT payload FROM main.operation WHERE id = ?", (row,)).fetchone()
        if sealed_words.MARK in body or sealed_words.MARK in before:
            tx.execute("UPDATE main.operation SET payload = ? WHERE id = ?", (body, row))
            blanked[str(sequence)] = log.digest(body)
    if blanked:
        payload = {"nodes": [], "blanked": blanked}
        log.append(tx, space, kind=log.RESEAL, node_uid=None, agent=AGENT, at=at, payload=payload)


def _turn(tx: sqlite3.Connection, space: int) -> None:
    """The vectors, from under the old rotation to under the new one."""
    keyring = unlocking.ring(tx)
    assert keyring is not None
    row = tx.execute("SELECT id FROM data_key WHERE namespace_id = ? AND turns = 1", (space,)).fetchone()
    old, new = None if row is None else keyring.key(tx, row[0]), keyring.current(tx, space)
    if (old.id if old else 0) == (new.id if new else 0):
        return
    mine = (
        ("embedding", "namespace_id = ?"),
        ("embedding_next", "node_id IN (SELECT id FROM node WHERE namespace_id = ?)"),
    )
    for table, condition in mine:
        after = -1
        while rows := tx.execute(
            f"SELECT rowid, vector FROM {table} WHERE {condition} AND rowid > ? ORDER BY rowid LIMIT {PAGE}",
            (space, after),
        ).fetchall():
            after = rows[-1][0]
            for rowid, vector in rows:
                values = np.frombuffer(vector, dtype="<f4")
                if old is not None:
                    values = values @ keyring.turn(old, len(values))
                if new is not None:
                    values = values @ keyring.turn(new, len(values)).T
                tx.execute(f"UPDATE {table} SET vector = ? WHERE rowid = ?", (values.astype("<f4").tobytes(), rowid))
    tx.execute("UPDATE data_key SET turns = 0 WHERE namespace_id = ?", (space,))
    if new is not None:
        tx.execute("UPDATE data_key SET turns = 1 WHERE id = ?", (new.id,))

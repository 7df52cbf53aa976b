"""Memories whose content is gone for good: they were forgotten, and the time to bring them back is over.

What is left of one is its row: id, parent, type, weights, times. Its content is '', which no other memory has, and its
metadata are {}; so are those of every older revision. That mark is all there is to see: it is read from the row, and
needs no column of its own.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hybridmem import faults
from hybridmem.store import log, sealed_words
from hybridmem.store.rows import PURGED_KEY, dump

#: Operations whose payload may hold words of a user, and under which names: the next step of a task, also the last one
#: before it was finished, and the note of a feedback.
_TELLING = ("task.start", "task.update", "task.finish", "task.import", "feedback", log.RESTORE, log.REPAIR)
_WORDS = sealed_words.WORDS


@dataclass(frozen=True, slots=True)
class Forgotten:
    """A forgotten memory that is not purged. ``since``: when it was forgotten, in microseconds since 1970 UTC."""

    id: int
    uid: str
    version: int
    pinned: bool
    since: int


def ids(tx: sqlite3.Connection, namespace: int) -> frozenset[int]:
    """The internal ids of all that are purged."""
    rows = tx.execute(
        "SELECT id FROM node WHERE namespace_id = ? AND state = 'forgotten' AND content_key = ?",
        (namespace, PURGED_KEY),
    ).fetchall()
    return frozenset(row[0] for row in rows)


def forgotten(tx: sqlite3.Connection, namespace: int, now: int) -> list[Forgotten]:
    """All that are forgotten and have their content still, the longest forgotten first.

    How long is told by the log, not by the memory's own times, which an import or ``occurred_at`` may have set to any
    year. A clock that was behind when it was forgotten must not end its retention early: so it counts as forgotten no
    earlier than anything that the log noted before, as far as that does not lie ahead of ``now``.
    """
    rows = tx.execute(
        """SELECT id, uid, version, pinned FROM node
        WHERE namespace_id = ? AND state = 'forgotten' AND content_key != ? ORDER BY id""",
        (namespace, PURGED_KEY),
    ).fetchall()
    if not rows:
        return []
    sequences = log.forgotten_by(tx, namespace, [row[1] for row in rows])
    latest = _latest(tx, namespace, set(sequences.values()), now)
    found = [
        Forgotten(id, uid, version, bool(pinned), latest[sequences[uid]])
        for id, uid, version, pinned in rows
        if uid in sequences
    ]
    return sorted(found, key=lambda one: (one.since, one.id))


def _latest(tx: sqlite3.Connection, namespace: int, sequences: Collection[int], now: int) -> dict[int, int]:
    """For each of these entries its time, or that of an earlier one if that is later and not ahead of ``now``."""
    rows = tx.execute(
        "SELECT sequence, at FROM operation WHERE namespace_id = ? AND sequence <= ? ORDER BY sequence",
        (namespace, max(sequences, default=0)),
    ).fetchall()
    found: dict[int, int] = {}
    before = 0
    for sequence, at in rows:
        if sequence in sequences:
            found[sequence] = max(at, before)
        if at <= now:
            before = max(before, at)
    return found


def telling(tx: sqlite3.Connection, namespace: int, uids: Collection[str]) -> dict[str, list[int]]:
    """The entries of the log that hold words about each of these memories, by public id."""
    has_words = " OR ".join(f'instr(payload, \'"{name}":"\') > 0' for name in _WORDS)
    rows = tx.execute(
        f"""SELECT sequence, kind, node_uid, payload FROM operation WHERE namespace_id = ?
        AND kind IN ({", ".join("?" * len(_TELLING))})
        AND ({has_words})""",
        (namespace, *_TELLING),
    ).fetchall()
    found: dict[str, list[int]] = {}
    for sequence, kind, uid, payload in rows:
        for one, values in log.effects(kind, uid, json.loads(payload)):
            if one in uids and _tells(values):
                found.setdefault(one, []).append(sequence)
    return found


def blank(
    tx: sqlite3.Connection, namespace: int, nodes: Mapping[int, str], entries: Mapping[str, Sequence[int]]
) -> dict[str, str]:
    """Takes away what these memories say, wherever it is kept; the rows of the outbox stay, so that the vector index
    hears of it.

    :param nodes: internal id → public id. :param entries: as :func:`telling` gives them.
    :return: what the log is to say: the entries that were blanked, each with the hash of what it says now.
    """
    marked = dump(sorted(nodes))
    tx.execute(
        """UPDATE node SET content_key = ?, terms = 0, speaker = ''
        WHERE id IN (SELECT value FROM json_each(?))""",
        (PURGED_KEY, marked),
    )
    faults.point("purge.after_rows")
    blank_revisions(tx, nodes)
    faults.point("purge.after_revisions")
    tx.execute("DELETE FROM lexical WHERE rowid IN (SELECT value FROM json_each(?))", (marked,))
    for table in ("embedding", "embedding_next"):
        tx.execute(f"DELETE FROM {table} WHERE node_id IN (SELECT value FROM json_each(?))", (marked,))
    tx.execute("UPDATE outbox SET reason = NULL WHERE node_id IN (SELECT value FROM json_each(?))", (marked,))
    uids = set(nodes.values())
    named = sorted({sequence for uid in uids for sequence in entries.get(uid, ())})
    return {str(sequence): _blank_entry(tx, namespace, sequence, uids) for sequence in named}


def blank_revisions(tx: sqlite3.Connection, ids: Collection[int]) -> None:
    """The contents and metadata of every revision of these nodes, and the next step of those that are tasks."""
    marked = dump(sorted(ids))
    tx.execute(
        """UPDATE main.revision SET content = '', structured = 0, metadata = '{}', key_id = 0
        WHERE node_id IN (SELECT value FROM json_each(?))""",
        (marked,),
    )
    tx.execute("UPDATE main.task SET next_step = NULL WHERE node_id IN (SELECT value FROM json_each(?))", (marked,))


def copy_entries(source: sqlite3.Connection, tx: sqlite3.Connection, namespace: int, sequences: Sequence[int]) -> None:
    """Gives entries of another copy of the same log the payloads that they have in ``source``, where they are blank."""
    rows = source.execute(
        """SELECT payload, namespace_id, sequence FROM main.operation
        WHERE namespace_id = ? AND sequence IN (SELECT value FROM json_each(?))""",
        (namespace, dump(list(sequences))),
    ).fetchall()
    tx.executemany("UPDATE main.operation SET payload = ? WHERE namespace_id = ? AND sequence = ?", rows)


def _tells(values: Mapping[str, Any]) -> bool:
    return any(isinstance(values.get(name), str) for name in _WORDS)


def _blank_entry(tx: sqlite3.Connection, namespace: int, sequence: int, uids: Collection[str]) -> str:
    """Takes the words about these memories out of a payload, and nothing else of it. Its hash stays as it was, since
    the chain is made of it; returns the hash of what the payload is now."""
    kind, uid, text = tx.execute(
        "SELECT kind, node_uid, payload FROM main.operation WHERE namespace_id = ? AND sequence = ?",
        (namespace, sequence),
    ).fetchone()
    payload = json.loads(text)
    if kind in log.BY_NODE:
        payload["nodes"] = [[one, _silenced(values) if one in uids else values] for one, values in payload["nodes"]]
    elif uid in uids:
        payload = _silenced(payload)
    body = dump(payload)
    tx.execute(
        "UPDATE main.operation SET payload = ? WHERE namespace_id = ? AND sequence = ?", (body, namespace, sequence)
    )
    return log.digest(body)


def _silenced(values: Mapping[str, Any]) -> dict[str, Any]:
    """Without these words; that a next step was set stays, so that replaying sets it to none."""
    said = {name: value for name, value in values.items() if name not in _WORDS}
    return said | dict.fromkeys(values.keys() & {"next_step"})

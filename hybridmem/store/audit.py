"""The audit trail in the store: numbered per namespace, hash-chained, its newest entry noted beside it.

The note (``audit_head``) has the number and hash of the newest entry, so that taking the newest away is seen too, and
of the last one that retention has removed: the chain goes on from there. Order is by number; ``at`` is when it was.

Whoever can write the file and knows this format can make all of it anew: to be sure of more, keep the number and hash
of the newest entry elsewhere (export_audit() has them).
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hybridmem import faults
from hybridmem.audit import OK, Call
from hybridmem.ports import SystemClock
from hybridmem.store import points, sealing
from hybridmem.store.log import START, digest
from hybridmem.store.log import head as log_head
from hybridmem.store.points import is_there, set_setting, setting
from hybridmem.store.rows import dump, from_micros, to_micros
from hybridmem.store.unlocking import ring
from hybridmem.types import AuditEntry

#: Setting: the secret of this store under which queries are hashed, 64 hexadecimal digits.
SECRET = "audit.secret"
#: The verb of the entry that says that retention has removed earlier ones, and to which number.
PRUNED = "prune_audit"
#: The verb, and the agent, of the entry that says that the store was made of a backup.
RESTORED = "restore_backup"
#: How a hash of a query begins.
KEYED = "hmac-sha256:"
#: Characters of a query that are kept where queries are kept as they are.
MOST_OF_A_QUERY = 10_000
#: Rows read at once.
PAGE = 1_000
_COLUMNS = "sequence, at, agent, verb, node_uid, outcome, detail, hash"
#: The ids that the store itself makes.
_MADE = re.compile(r"[a-z2-7]{16}")


def head(tx: sqlite3.Connection, namespace: int) -> tuple[int, str]:
    """(number, hash) of the newest entry, as noted; (0, START) without a note."""
    row = tx.execute("SELECT sequence, hash FROM audit_head WHERE namespace_id = ?", (namespace,)).fetchone()
    return (int(row[0]), str(row[1])) if row is not None else (0, START)


def anchor(tx: sqlite3.Connection, namespace: int) -> tuple[int, str]:
    """(number, hash) of the last entry that retention has removed; (0, START) if it has removed none."""
    row = tx.execute(
        "SELECT anchor_sequence, anchor_hash FROM audit_head WHERE namespace_id = ?", (namespace,)
    ).fetchone()
    return (int(row[0]), str(row[1])) if row is not None else (0, START)


def append(tx: sqlite3.Connection, namespace: int, agent: str, now: int, calls: Sequence[Call], queries: str) -> None:
    """Adds entries, and tells each of its number.

    :param agent: who called. :param now: for calls without a time, in microseconds since 1970 UTC.
    :param queries: what is kept of a query: ``hash``, ``plain`` or ``none``.
    """
    try:
        _append(tx, namespace, agent, now, calls, queries, *head(tx, namespace))
    except sqlite3.IntegrityError:
        # Somebody has set the note back or taken it away. No call is to fail with that: numbers that are free are
        # found all the same, and verify() tells of it, since the chain does not go on from the entry before.
        newest = tx.execute("SELECT max(sequence) FROM audit WHERE namespace_id = ?", (namespace,)).fetchone()[0]
        if newest is None:
            raise
        _append(tx, namespace, agent, now, calls, queries, newest, head(tx, namespace)[1])


def append_all(tx: sqlite3.Connection, agent: str, call: Call) -> None:
    """Adds an entry to the trail of every namespace: of what was done to the whole store, by no handle of one."""
    for namespace in points.namespaces(tx):
        append(tx, namespace, agent, call.at or 0, [replace(call)], "none")


def _append(
    tx: sqlite3.Connection,
    namespace: int,
    agent: str,
    now: int,
    calls: Sequence[Call],
    queries: str,
    sequence: int,
    previous: str,
) -> None:
    """After the entry with this number and hash."""
    rows = []
    for call in calls:
        sequence += 1
        node, detail = _said(tx, namespace, call, queries)
        at = now if call.at is None else call.at
        fields = (sequence, at, agent, call.verb, node, call.outcome, dump(detail))
        previous = chained(previous, fields)
        rows.append((namespace, *fields, previous))
        call.sequence = sequence
    tx.executemany(
        f"INSERT INTO audit (namespace_id, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        rows,
    )
    faults.point("audit.after_row")
    cursor = tx.execute(
        "UPDATE audit_head SET sequence = ?, hash = ? WHERE namespace_id = ?", (sequence, previous, namespace)
    )
    if cursor.rowcount == 0:
        tx.execute("INSERT INTO audit_head VALUES (?, ?, ?, 0, ?)", (namespace, sequence, previous, START))


def _said(tx: sqlite3.Connection, namespace: int, call: Call, queries: str) -> tuple[str | None, dict[str, Any]]:
    """The id and the details of an entry. What was given as an id and is none may be anything: it is hashed."""
    node, detail = call.node, call.detail
    if not is_there(tx, namespace):  # it was erased, with what it would be hashed by
        return (node if node is not None and _MADE.fullmatch(node) else None), detail
    if call.query is not None and queries != "none":
        detail = {**detail, "query": _asked(tx, namespace, call.query, queries)}
    if node is not None and not _MADE.fullmatch(node):
        known = "SELECT 1 FROM node WHERE namespace_id = ? AND uid = ?"
        if whole(node) != node or tx.execute(known, (namespace, node)).fetchone() is None:
            return None, {**detail, "unknown_id": keyed(tx, namespace, node)}
    return node, detail


def _asked(tx: sqlite3.Connection, namespace: int, query: str, queries: str) -> str:
    """A query as it is kept; in an encrypted store never as it was asked."""
    # One that was refused may be of any length.
    return whole(query[:MOST_OF_A_QUERY]) if queries == "plain" and ring(tx) is None else keyed(tx, namespace, query)


def asked_plainly(tx: sqlite3.Connection) -> int:
    """How many entries, of all namespaces, have a query as it was asked."""
    row = tx.execute(
        """SELECT count(*) FROM audit WHERE json_extract(detail, '$.query') IS NOT NULL
        AND substr(json_extract(detail, '$.query'), 1, ?) != ?""",
        (len(KEYED), KEYED),
    ).fetchone()
    return int(row[0])


def whole(text: str) -> str:
    """The text with halves of characters written out: SQLite cannot take them, and an entry that cannot be written
    would keep every later write of the handle from happening."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def keyed(tx: sqlite3.Connection, namespace: int, text: str) -> str:
    """The hash of a text under the secret of the store: queries can be guessed, and a plain hash would tell which
    guess is right. In an encrypted store under the data key, since the secret can be read from the file."""
    data_key = sealing.writing(tx, namespace)
    if data_key is not None:
        return KEYED + data_key.hashed("audit", text).hex()
    secret = setting(tx, SECRET)
    if secret is None:
        secret = secrets.token_hex(32)
        set_setting(tx, SECRET, secret)
    key = bytes.fromhex(secret)
    return KEYED + hmac.new(key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def chained(previous: str, fields: Sequence[Any]) -> str:
    """The hash of an entry: over the one before it and every field."""
    return digest(dump([previous, *fields]))


def entries(
    tx: sqlite3.Connection,
    namespace: int,
    *,
    verb: str | None = None,
    agent: str | None = None,
    node: str | None = None,
    since: int | None = None,
    until: int | None = None,
    outcome: str | None = None,
    after: int | None = None,
    limit: int | None = None,
) -> list[AuditEntry]:
    """Entries that fit, in their order: with ``after`` the first ones with a higher number, else the newest.

    :param outcome: ``ok``, the name of an error, or ``failed``: any but ok.
    """
    conditions, values = ["namespace_id = ?"], [namespace]
    for condition, value in (
        ("verb = ?", verb), ("agent = ?", agent), ("node_uid = ?", node), ("at >= ?", since), ("at < ?", until),
        ("outcome = ?", outcome if outcome != "failed" else None), ("sequence > ?", after),
    ):  # fmt: skip
        if value is not None:
            conditions.append(condition)
            values.append(value)  # type: ignore[arg-type]
    if outcome == "failed":
        conditions.append(f"outcome != '{OK}'")
    order = "DESC" if after is None else "ASC"
    rows = tx.execute(
        f"SELECT {_COLUMNS} FROM audit WHERE {' AND '.join(conditions)} ORDER BY sequence {order} LIMIT ?",
        (*values, -1 if limit is None else limit),
    ).fetchall()
    return [_entry(row) for row in sorted(rows)]


def _entry(row: tuple[Any, ...]) -> AuditEntry:
    return AuditEntry(row[0], from_micros(row[1]), row[2], row[3], row[4], row[5], json.loads(row[6]), row[7])


def counted(tx: sqlite3.Connection, namespace: int) -> int:
    row = tx.execute("SELECT count(*) FROM audit WHERE namespace_id = ?", (namespace,)).fetchone()
    return int(row[0])


# Retention


def older(tx: sqlite3.Connection, namespace: int, before: int) -> tuple[int, str, int] | None:
    """(number, hash, how many) of the oldest entries up to the last that was before a moment, all before it so; None:
    there are none. One that waited is kept with those before which it was written."""
    row = tx.execute(
        "SELECT min(sequence) FROM audit WHERE namespace_id = ? AND at >= ?", (namespace, before)
    ).fetchone()
    found = tx.execute(
        """SELECT sequence, hash, (SELECT count(*) FROM audit WHERE namespace_id = ? AND (? IS NULL OR sequence < ?))
        FROM audit WHERE namespace_id = ? AND (? IS NULL OR sequence < ?) ORDER BY sequence DESC LIMIT 1""",
        (namespace, row[0], row[0], namespace, row[0], row[0]),
    ).fetchone()
    return None if found is None else (int(found[0]), str(found[1]), int(found[2]))


def prune(tx: sqlite3.Connection, namespace: int, sequence: int, hashed: str) -> None:
    """Removes the entries up to a number, which the chain goes on from. The caller leaves an entry with
    :func:`removal` in the same transaction: an anchor that no entry tells of is a break."""
    tx.execute("DELETE FROM audit WHERE namespace_id = ? AND sequence <= ?", (namespace, sequence))
    tx.execute(
        "UPDATE audit_head SET anchor_sequence = ?, anchor_hash = ? WHERE namespace_id = ?",
        (sequence, hashed, namespace),
    )


def removal(sequence: int, hashed: str, count: int, wrong: str | None) -> dict[str, Any]:
    """What the entry of a removal says.

    :param wrong: what :func:`broken` said before it: what shows that must not go with the entries that are removed.
    """
    found = {"removed": count, "to": sequence, "to_hash": hashed}
    return found if wrong is None else {**found, "broken": wrong}


def oldest(tx: sqlite3.Connection, namespace: int) -> int | None:
    """When the first entry was that is still there, in microseconds since 1970 UTC."""
    row = tx.execute("SELECT at FROM audit WHERE namespace_id = ? ORDER BY sequence LIMIT 1", (namespace,)).fetchone()
    return None if row is None else int(row[0])


# Looking for what was tampered with


def broken(tx: sqlite3.Connection, namespace: int) -> str | None:
    """Where the trail does not hold, and how; None if it holds."""
    note = tx.execute(
        "SELECT sequence, hash, anchor_sequence, anchor_hash FROM audit_head WHERE namespace_id = ?", (namespace,)
    ).fetchone()
    if note is None:
        return "the note of the newest entry is missing"
    last, previous = note[2], note[3]
    told: tuple[int, str, str | None] = (0, START, None)
    after = -(2**63)
    while rows := tx.execute(
        f"SELECT {_COLUMNS} FROM audit WHERE namespace_id = ? AND sequence > ? ORDER BY sequence LIMIT ?",
        (namespace, after, PAGE),
    ).fetchall():
        for *fields, hashed in rows:
            number = fields[0]
            if number != last + 1:
                return _gap(last + 1, number)
            if chained(previous, fields) != hashed:
                return f"entry {number} was edited, or another stands in its place"
            last, previous = number, hashed
            if fields[3] == PRUNED and fields[5] == OK:
                told = _told(fields[6], told)
        after = rows[-1][0]
    if last < note[0]:
        return f"the newest are missing: from entry {last + 1} to {note[0]}"
    if (last, previous) != (note[0], note[1]):
        return "the note of the newest entry was edited"
    if told[:2] != (note[2], note[3]):
        return f"the oldest are missing, up to entry {note[2]}, and no entry says that they were removed"
    return told[2]


def _gap(expected: int, found: int) -> str:
    if found < expected:
        return f"entry {found} is there, though everything before entry {expected} was removed"
    missing = f"entry {expected} is" if found == expected + 1 else f"entries {expected} to {found - 1} are"
    return f"{missing} missing"


def _told(detail: str, before: tuple[int, str, str | None]) -> tuple[int, str, str | None]:
    said = json.loads(detail)
    return (said["to"], said["to_hash"], said.get("broken")) if "to" in said else before


# From one database to another


def carry(old: sqlite3.Connection, new: sqlite3.Connection) -> None:
    """The trail of a store that is replaced by a backup goes on in that: its entries take the place of the earlier ones
    that the backup has, and another one says that it was restored.

    By name, for each namespace that both have. One that the backup does not know is gone with the store, whose files
    are kept in ``aside/``. One transaction, which the caller must not have begun.
    """
    if not _has_trail(old) or not _has_trail(new):
        return
    new.execute("BEGIN IMMEDIATE")
    try:
        _carry_all(old, new)
        new.execute("COMMIT")
    except BaseException:
        new.execute("ROLLBACK")
        raise


def _carry_all(old: sqlite3.Connection, new: sqlite3.Connection) -> None:
    secret = setting(old, SECRET)
    if secret is not None:
        set_setting(new, SECRET, secret)
    theirs = dict(old.execute("SELECT key, id FROM namespace").fetchall())
    for key, namespace in new.execute("SELECT key, id FROM namespace ORDER BY id").fetchall():
        if key in theirs and not _goes_on(new, namespace, *head(old, theirs[key])):
            _carry_one(old, new, theirs[key], namespace)
        said = Call(RESTORED, to_micros(SystemClock().now()), detail={"operations_until": log_head(new, namespace)[0]})
        append(new, namespace, RESTORED, 0, [said], "none")


def _goes_on(tx: sqlite3.Connection, namespace: int, sequence: int, hashed: str) -> bool:
    """Whether a trail has this entry, and others after it."""
    found = tx.execute(
        "SELECT hash FROM audit WHERE namespace_id = ? AND sequence = ?", (namespace, sequence)
    ).fetchone()
    return found is not None and found[0] == hashed and head(tx, namespace)[0] > sequence


def _carry_one(old: sqlite3.Connection, new: sqlite3.Connection, source: int, target: int) -> None:
    new.execute("DELETE FROM audit WHERE namespace_id = ?", (target,))
    new.execute("DELETE FROM audit_head WHERE namespace_id = ?", (target,))
    rows = old.execute(f"SELECT {_COLUMNS} FROM audit WHERE namespace_id = ? ORDER BY sequence", (source,)).fetchall()
    new.executemany(
        f"INSERT INTO audit (namespace_id, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [(target, *row) for row in rows],
    )
    note = old.execute(
        "SELECT sequence, hash, anchor_sequence, anchor_hash FROM audit_head WHERE namespace_id = ?", (source,)
    ).fetchall()
    new.executemany(
        "INSERT INTO audit_head (namespace_id, sequence, hash, anchor_sequence, anchor_hash) VALUES (?, ?, ?, ?, ?)",
        [(target, *row) for row in note],
    )


def _has_trail(tx: sqlite3.Connection) -> bool:
    row = tx.execute("SELECT count(*) FROM sqlite_master WHERE name IN ('audit', 'audit_head')").fetchone()
    return bool(row[0] == 2)

"""The operation log: append-only, numbered per namespace, hash-chained. Order is by sequence, never by clock."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any

from hybridmem import faults
from hybridmem.store import sealing
from hybridmem.store.rows import dump, from_micros, subtree_range
from hybridmem.types import Operation, State

START = "sha256:" + "0" * 64
#: Operations that change the node they name, where it hangs, and of its ancestors the time of the last activity.
LOCAL = (
    "namespace", "add", "confirm", "update", "pin", "supersede", "feedback",
    "task.claim", "task.release", "task.start", "task.switch", "task.update", "task.finish", "task.import",
    "share", "unshare",
)  # fmt: skip
#: Operations that change nothing of any node: who works on a task is no memory, and is not brought back.
CLAIMS = frozenset({"task.claim", "task.release"})
#: Operations about who may see what: they change nothing of any node, and are not brought back either.
SHARING = frozenset({"share", "unshare", "group"})
#: Operations that leave the version of their node as it is; every other raises it by one.
KEEPS_VERSION = frozenset(
    {"namespace", "add", "task.start", "task.switch", "task.import", "root", "use", "purge", *CLAIMS, *SHARING}
)
#: Operations that may move the active pointers of their agent, and say so under ``active``: who → [task, node].
POINTING = frozenset({"add", "confirm", "task.start", "task.switch", "task.finish"})
#: What an entry of an earlier version set without saying so.
_IMPLIED: dict[str, dict[str, Any]] = {"task.start": {"status": "open"}, "task.finish": {"next_step": None}}
#: Operations that change the states of the node they name and of nodes below it, and nothing else of any node. Their
#: payload says of each node, in insertion order: ``"states": [[id, state before, state after, version after], …]``.
STATE_CHANGES = ("forget", "restore_forgotten", "archive", "unarchive")
#: Brings many nodes back to an earlier point: ``"nodes": [[id, {what is set}], …]``.
RESTORE = "restore"
#: What repair() has set of nodes, in the same words; and what it has mended besides.
REPAIR = "repair"
#: What many memories become together: one, or its sources, or the sources of a summary; and what undoes it. The same
#: words again.
GATHERING = ("merge", "unmerge", "consolidate", "unconsolidate", "use")
#: Takes away for good what many forgotten nodes said: it sets nothing of their rows. The same words again, with nothing
#: in them; and ``"blanked": {entry: hash of its payload now, …}``, the earlier entries that told of it.
PURGE = "purge"
#: Seals the words in earlier entries anew: likewise, with no node in it.
RESEAL = "reseal"
#: Operations whose payload says of each node what is set: ``"nodes": [[id, {what is set}], …]``.
BY_NODE = (RESTORE, REPAIR, *GATHERING, PURGE, RESEAL)
#: Operations that change more nodes than the one they name.
MANY = (*STATE_CHANGES, *BY_NODE)
#: Operations that are no activity of their nodes: a move is one of where it leads, and what supersedes is one itself.
QUIET = frozenset({"move", "supersede", "task.switch", "task.import", "root", *MANY, *CLAIMS, *SHARING})
#: Entries that are read at a time when one looks back.
PAGE = 100
_COLUMNS = "sequence, kind, node_uid, agent, at, payload, hash"


def effects(kind: str, uid: str | None, payload: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """What an operation sets of which nodes, as values by name; none for one that is about no node."""
    if kind in STATE_CHANGES:
        return [(one, {"state": after, "version": version}) for one, _, after, version in payload["states"]]
    if kind in BY_NODE:
        return [(one, values) for one, values in payload["nodes"]]
    return [] if uid is None or kind in CLAIMS or kind in SHARING else [(uid, _IMPLIED.get(kind, {}) | payload)]


def moment(at: int, payload: dict[str, Any]) -> int:
    """When what an entry tells of was active: what happened before it was noted was active then."""
    said = (payload[name] for name in ("active_at", "created_at", "occurred_at") if payload.get(name) is not None)
    return int(next(said, at))


def append(
    tx: sqlite3.Connection,
    namespace: int,
    *,
    kind: str,
    node_uid: str | None,
    agent: str,
    at: int,
    payload: dict[str, Any],
) -> int:
    """Adds one entry and returns its sequence number. Contents are referenced by revision, never copied in."""
    last, previous = head(tx, namespace)
    sequence = last + 1
    body = dump(sealing.payload(tx, namespace, sequence, payload))
    payload_hash = digest(body)
    entry_hash = chained(previous, sequence, kind, node_uid, agent, at, payload_hash)
    tx.execute(
        """INSERT INTO main.operation (namespace_id, sequence, kind, node_uid, agent, at, payload, payload_hash, hash)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        (namespace, sequence, kind, node_uid, agent, at, body, payload_hash, entry_hash),
    )
    faults.point("log.after_row")
    return sequence


def head(tx: sqlite3.Connection, namespace: int) -> tuple[int, str]:
    """The last sequence number and its hash; (0, START) for an empty log."""
    row = tx.execute(
        "SELECT sequence, hash FROM operation WHERE namespace_id = ? ORDER BY sequence DESC LIMIT 1", (namespace,)
    ).fetchone()
    return (row[0], row[1]) if row else (0, START)


def since(tx: sqlite3.Connection, namespace: int, sequence: int, limit: int | None = None) -> list[Operation]:
    """Entries after ``sequence``, oldest first."""
    rows = tx.execute(
        f"SELECT {_COLUMNS} FROM operation WHERE namespace_id = ? AND sequence > ? ORDER BY sequence LIMIT ?",
        (namespace, sequence, -1 if limit is None else limit),
    ).fetchall()
    return [_operation(row) for row in rows]


def about(tx: sqlite3.Connection, namespace: int, uid: str) -> list[Operation]:
    """Entries about this node, oldest first; those under the id that the root had before it was another's."""
    marks = ", ".join("?" * len(MANY))
    rows = tx.execute(
        f"""SELECT {_COLUMNS} FROM operation WHERE namespace_id = ? AND (
            node_uid = ? OR (kind IN ({marks}) AND instr(payload, ?) > 0)
            OR node_uid IN (SELECT json_extract(payload, '$.was') FROM operation
                WHERE namespace_id = ? AND kind = 'root' AND node_uid = ?)
        ) ORDER BY sequence""",
        (namespace, uid, *MANY, dump(uid), namespace, uid),
    ).fetchall()
    found = [_operation(row) for row in rows]
    return [
        one
        for one in found
        if one.kind not in MANY or uid in (node for node, _ in effects(one.kind, one.node_id, one.payload))
    ]


def marks(before: Mapping[str, str | None]) -> dict[str, dict[str, str]]:
    """What an entry says of the marks ``replaced_by`` that it takes from nodes, so that they can be given back."""
    found = {uid: mark for uid, mark in before.items() if mark}
    return {"marks": found} if found else {}


def restores(tx: sqlite3.Connection, namespace: int) -> list[tuple[int, int]]:
    """(sequence, to which sequence) of every restore, oldest first: it is about all nodes, also those that it found as
    they had been, which it does not name."""
    rows = tx.execute(
        """SELECT sequence, json_extract(payload, '$.to') FROM operation WHERE namespace_id = ? AND kind = ?
        ORDER BY sequence""",
        (namespace, RESTORE),
    ).fetchall()
    return [(sequence, to) for sequence, to in rows]


def revisions(tx: sqlite3.Connection, node_id: int) -> dict[int, tuple[str, dict[str, Any]]]:
    """Content and metadata of every revision of a node, which its entries refer to by number."""
    rows = tx.execute("SELECT id, content, metadata FROM revision WHERE node_id = ?", (node_id,)).fetchall()
    return {row[0]: (row[1], json.loads(row[2])) for row in rows}


def touched(tx: sqlite3.Connection, namespace: int, after: int, path: str) -> bool:
    """Whether an entry after ``after`` may have changed a node at or below a path. Of an operation that is not among
    LOCAL or STATE_CHANGES that is not known: it may have taken a node away from there."""
    known = (*LOCAL, *STATE_CHANGES)
    row = tx.execute(
        f"""SELECT 1 FROM operation o LEFT JOIN node n ON n.namespace_id = o.namespace_id AND n.uid = o.node_uid
        WHERE o.namespace_id = ? AND o.sequence > ? AND o.kind NOT IN ('{PURGE}', '{RESEAL}') AND (
            n.id IS NULL OR o.kind NOT IN ({", ".join("?" * len(known))}) OR (n.path >= ? AND n.path < ?)
            OR (o.kind IN ({", ".join("?" * len(STATE_CHANGES))}) AND substr(?, 1, length(n.path)) = n.path)
        ) LIMIT 1""",
        (namespace, after, *known, *subtree_range(path), *STATE_CHANGES, path),
    ).fetchone()
    return row is not None


def states_before(
    tx: sqlite3.Connection, namespace: int, uids: Iterable[str], *, until: int | None = None
) -> dict[str, State]:
    """The state of each of these nodes before it was last forgotten; those that were imported as forgotten are left
    out. Looks back from the newest entry until all are found.

    :param until: only up to this entry; None: to the newest.
    """
    wanted, found, below = set(uids), {}, (head(tx, namespace)[0] if until is None else until) + 1
    while wanted:
        rows = tx.execute(
            """SELECT sequence, kind, payload FROM operation
            WHERE namespace_id = ? AND sequence < ? AND kind IN ('forget', 'unconsolidate', ?)
            ORDER BY sequence DESC LIMIT ?""",
            (namespace, below, RESTORE, PAGE),
        ).fetchall()
        if not rows:
            break
        for _, kind, payload in rows:
            for uid, before in _forgotten(kind, json.loads(payload)):
                if uid in wanted:
                    found[uid] = before
                    wanted.discard(uid)
        below = rows[-1][0]
    return found


def consolidated(tx: sqlite3.Connection, namespace: int, summary: str) -> dict[str, str]:
    """By public id all that a summary was made of, each with the mark ``replaced_by`` that it had before; none if it
    came by an import."""
    rows = tx.execute(
        "SELECT payload FROM operation WHERE namespace_id = ? AND node_uid = ? AND kind = 'consolidate'",
        (namespace, summary),
    ).fetchall()
    said = [json.loads(payload) for (payload,) in rows]
    return {uid: entry.get("marks", {}).get(uid, "") for entry in said for uid, _ in entry["nodes"]}


def forgotten_by(tx: sqlite3.Connection, namespace: int, uids: Iterable[str]) -> dict[str, int]:
    """For each of these forgotten nodes the number of the entry that last made it so; for one that was imported as
    forgotten, of the entry that made it. Looks back from the newest entry until all are found."""
    wanted, found, below = set(uids), dict[str, int](), head(tx, namespace)[0] + 1
    kinds = [kind for kind in MANY if kind not in ("use", PURGE, RESEAL)]
    while wanted:
        rows = tx.execute(
            f"""SELECT sequence, kind, payload FROM operation WHERE namespace_id = ? AND sequence < ?
            AND kind IN ({", ".join("?" * len(kinds))}) ORDER BY sequence DESC LIMIT ?""",
            (namespace, below, *kinds, PAGE),
        ).fetchall()
        if not rows:
            break
        for sequence, kind, payload in rows:
            for uid, values in effects(kind, None, json.loads(payload)):
                if uid in wanted and values.get("state") == "forgotten":
                    found[uid] = sequence
                    wanted.discard(uid)
        below = rows[-1][0]
    made = tx.execute(
        """SELECT node_uid, max(sequence) FROM operation WHERE namespace_id = ? AND kind = 'add'
        AND node_uid IN (SELECT value FROM json_each(?)) GROUP BY node_uid""",
        (namespace, dump(sorted(wanted))),
    ).fetchall()
    return found | dict(made)


def _forgotten(kind: str, payload: dict[str, Any]) -> list[tuple[str, State]]:
    """The nodes that an operation made forgotten, with their states before."""
    if kind == "forget":
        return [(uid, before) for uid, before, _, _ in payload["states"]]
    found = [(uid, values["before"]) for uid, values in payload["nodes"] if values.get("state") == "forgotten"]
    return [(uid, before) for uid, before in found if before != "forgotten"]  # unconsolidated when it was so already


def sequence_at(tx: sqlite3.Connection, namespace: int, moment: int) -> int:
    """The number of the last entry before the first one that is later than a moment; 0 if all are."""
    row = tx.execute(
        "SELECT min(sequence) - 1 FROM operation WHERE namespace_id = ? AND at > ?", (namespace, moment)
    ).fetchone()
    return head(tx, namespace)[0] if row[0] is None else int(row[0])


def last_of(tx: sqlite3.Connection, namespace: int, agent: str) -> Operation | None:
    """The last entry of one agent."""
    row = tx.execute(
        f"SELECT {_COLUMNS} FROM operation WHERE namespace_id = ? AND agent = ? ORDER BY sequence DESC LIMIT 1",
        (namespace, agent),
    ).fetchone()
    return _operation(row) if row else None


def broken_at(tx: sqlite3.Connection, namespace: int) -> int | None:
    """The first sequence number whose entry was edited, removed or reordered; None if the chain holds.

    A payload that was blanked is right if a later entry says so, and says what it is now.
    """
    previous, expected = START, 1
    rows = tx.execute(
        """SELECT sequence, kind, node_uid, agent, at, payload, payload_hash, hash FROM main.operation
        WHERE namespace_id = ? ORDER BY sequence""",
        (namespace,),
    ).fetchall()
    blanked: dict[int, str] = {}
    for sequence, kind, _, _, _, payload, payload_hash, _ in rows:
        if kind in (PURGE, RESEAL) and digest(payload) == payload_hash:  # that it is in its place is seen below
            said = json.loads(payload)["blanked"]
            blanked |= {int(entry): now for entry, now in said.items() if int(entry) < sequence}
    for sequence, kind, node_uid, agent, at, payload, payload_hash, entry_hash in rows:
        right = chained(previous, sequence, kind, node_uid, agent, at, payload_hash)
        is_said = digest(payload) in (payload_hash, blanked.get(sequence))
        if sequence != expected or not is_said or right != entry_hash:
            return expected
        previous, expected = entry_hash, sequence + 1
    return None


def chained(
    previous: str, sequence: int, kind: str, node_uid: str | None, agent: str, at: int, payload_hash: str
) -> str:
    """The hash of an entry: over the one before it and every field, the payload by its own hash."""
    return digest(dump([previous, sequence, kind, node_uid, agent, at, payload_hash]))


def digest(text: str) -> str:
    """The hash of a payload or an entry, tagged with its algorithm."""
    return "sha256:" + hashlib.sha256(text.encode("utf-8")).hexdigest()


def _operation(row: tuple[Any, ...]) -> Operation:
    return Operation(row[0], row[1], row[2], row[3], from_micros(row[4]), json.loads(row[5]), row[6])

"""The nodes of a namespace as they were at a moment in the past, read off the present rows and the log.

What operations after the moment have set is set back to what those before it had set; what they made is not there. So
an operation must say in its payload what it sets, under the names of :data:`SET_BACK`. Contents come from revisions,
which are never changed.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hybridmem.speakers import speaker
from hybridmem.store import log, points, purged, sealing, tree
from hybridmem.store.activity import last_active
from hybridmem.store.past import EXTRA_COLUMNS, Past, Row
from hybridmem.store.paths import ids_on_paths
from hybridmem.store.rows import dump
from hybridmem.text import terms

#: Names in payloads, and what a node has where no operation before the moment has set one.
SET_BACK: dict[str, Any] = {
    "type": "note", "importance": 0.5, "confidence": 0.5, "uses": 0, "pinned": 0, "state": "live", "parent": None,
    "replaced_by": "", "revision": None, "status": "open", "next_step": None, "finished_at": None,
}  # fmt: skip
#: A log entry: kind, node, time, what it sets.
_Entry = tuple[str, str, int, dict[str, Any]]


def at(tx: sqlite3.Connection, namespace: int, moment: int, agent: str) -> Past:
    """A namespace as it was at a moment (microseconds since 1970 UTC), the moment included.

    That is the log up to the first entry that is later: order is by sequence, and nothing written after the moment may
    be seen, whatever a clock that went back has noted beside it. Costs one reading of the nodes' rows and of the log.

    :param agent: whose active task counts.
    """
    last = log.sequence_at(tx, namespace, moment)
    return after(tx, namespace, last, agent)


def after(tx: sqlite3.Connection, namespace: int, last: int, agent: str) -> Past:
    """A namespace as it was after entry ``last`` of its log, see :func:`at`."""
    later = _entries(tx, "sequence > ?", namespace, last)
    rows = present(tx, namespace)
    stirred = _above(rows, later)
    for kind, uid, _, _ in later:
        if kind == "add":
            rows.pop(uid, None)
    changed = _changed(rows, later)
    was = {values["was"]: uid for kind, uid, _, values in later if kind == "root"}
    before = _before(tx, namespace, last, changed, was)
    for uid, names in changed.items():
        _set_back(rows[uid], names, before.get(uid, {}), rows)
    if any("parent" in names for names in changed.values()):
        _hang(rows.values())
    if stirred := (stirred | _above(rows, later)) & rows.keys():
        activity = last_active(tx, namespace, last)
        for uid in stirred:
            rows[uid].active_at = activity.get(uid, rows[uid].active_at)
    revisions, rewritten = _contents(tx, rows, [uid for uid, names in changed.items() if "revision" in names])
    tasks = {rows[uid].id: _task_values(names, before.get(uid, {})) for uid, names in changed.items()}
    pointers = points.active_after(tx, namespace, agent, last)
    active = None if pointers is None else pointers[0]
    return Past(list(rows.values()), revisions, rewritten, tasks, active, purged.ids(tx, namespace))


def present(tx: sqlite3.Connection, namespace: int) -> dict[str, Row]:
    """All nodes of a namespace by public id, as they are now."""
    found = tx.execute(
        f"SELECT {tree.SCAN_COLUMNS}, {EXTRA_COLUMNS} FROM node WHERE namespace_id = ?", (namespace,)
    ).fetchall()
    rows = [Row(*values) for values in found]
    for row, name in zip(rows, sealing.voices(tx, [row.speaker for row in rows]), strict=True):
        row.speaker = name
    return {row.uid: row for row in rows}


def _entries(tx: sqlite3.Connection, condition: str, *values: Any) -> list[_Entry]:
    """(kind, node, time, what it sets) of log entries about a node, oldest first; of one about many nodes, for each."""
    found = tx.execute(
        f"""SELECT kind, node_uid, at, payload FROM operation
        WHERE namespace_id = ? AND {condition} ORDER BY sequence""",
        values,
    ).fetchall()
    return [
        (kind, one, time, values)
        for kind, uid, time, payload in found
        for one, values in log.effects(kind, uid, json.loads(payload))
    ]


def _above(rows: Mapping[str, Row], later: Sequence[_Entry]) -> set[str]:
    """What was written, and all that encloses it: the nodes whose last activity may be after the moment."""
    uids = {row.id: uid for uid, row in rows.items()}
    written = {uid for kind, uid, _, _ in later if kind not in (*log.STATE_CHANGES, "use", log.PURGE)}
    written |= {payload["parent"] for _, _, _, payload in later if "parent" in payload}
    above = ids_on_paths(rows[uid].path for uid in written & rows.keys())
    return {uids[one] for one in above if one in uids}


def _changed(rows: Mapping[str, Row], later: Sequence[_Entry]) -> dict[str, set[str]]:
    """Which of SET_BACK has been set of which node; their versions are counted back at once."""
    changed: dict[str, set[str]] = {}
    for kind, uid, _, payload in later:
        if uid in rows and kind != "namespace":
            changed.setdefault(uid, set()).update(payload.keys() & SET_BACK.keys())
            if kind not in log.KEEPS_VERSION:
                rows[uid].version -= 1
                changed[uid].add("updated_at")
    return changed


def _before(
    tx: sqlite3.Connection, namespace: int, last: int, changed: Mapping[str, set[str]], was: Mapping[str, str]
) -> dict[str, dict[str, Any]]:
    """What the log up to entry ``last`` has set of these nodes, and ``updated_at``.

    :param was: the id that a root had up to there → the one that it has now.
    """
    before: dict[str, dict[str, Any]] = {}
    kinds = ", ".join(f"'{kind}'" for kind in log.MANY)
    condition = f"sequence <= ? AND (kind IN ({kinds}) OR node_uid IN (SELECT value FROM json_each(?)))"
    for kind, then, time, payload in _entries(tx, condition, namespace, last, dump(sorted({*changed, *was}))):
        uid = was.get(then, then)
        if uid not in changed:
            continue
        values = before.setdefault(uid, {})
        updated = max(time, values.get("updated_at", time)) if kind not in log.KEEPS_VERSION else time
        values.update(payload)
        if kind in ("namespace", "add", "root") or kind not in log.KEEPS_VERSION:
            values["updated_at"] = payload.get("updated_at", updated)
    return before


def _set_back(row: Row, names: set[str], before: Mapping[str, Any], rows: Mapping[str, Row]) -> None:
    values = {name: before.get(name, SET_BACK.get(name)) for name in names}
    for name in ("type", "importance", "confidence", "uses", "pinned", "state", "replaced_by", "updated_at"):
        if values.get(name) is not None:
            setattr(row, name, values[name])
    if values.get("parent") is not None:
        row.parent_id = rows[values["parent"]].id
    if values.get("revision") is not None:
        row.revision_id = values["revision"]


def _hang(rows: Iterable[Row]) -> None:
    """Paths and depths by the parents, after some have been set back."""
    below: dict[int | None, list[Row]] = {}
    for row in rows:
        below.setdefault(row.parent_id, []).append(row)
    todo = list(below[None])
    while todo:
        above = todo.pop()
        for row in below.get(above.id, ()):
            row.path, row.depth = above.path + row.path[row.path.rfind("/", 0, -1) + 1 :], above.depth + 1
            todo.append(row)


def _contents(
    tx: sqlite3.Connection, rows: Mapping[str, Row], revised: Sequence[str]
) -> tuple[dict[int, tuple[str, bool, dict[str, Any]]], list[int]]:
    """The revisions that were current then and are not now; and the nodes whose very content differs."""
    found = tx.execute(
        """SELECT r.node_id, r.id, r.content, r.structured, r.metadata, r.content != now.content
        FROM revision r JOIN node n ON n.id = r.node_id JOIN revision now ON now.id = n.revision_id
        WHERE r.id IN (SELECT value FROM json_each(?))""",
        (dump([rows[uid].revision_id for uid in revised]),),
    ).fetchall()
    revisions, rewritten = {}, []
    by_id = {rows[uid].id: rows[uid] for uid in revised}
    for node_id, revision, content, structured, metadata, differs in found:
        revisions[revision] = (content, bool(structured), json.loads(metadata))
        by_id[node_id].speaker = speaker(content, revisions[revision][2])
        if differs:
            rewritten.append(node_id)
            by_id[node_id].terms = len(terms(content))
    return revisions, rewritten


def _task_values(names: set[str], before: Mapping[str, Any]) -> dict[str, Any]:
    named = names & {"status", "next_step", "finished_at"}
    return {name: before.get(name, SET_BACK[name]) for name in named}

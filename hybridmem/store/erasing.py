"""Erasing the rows of memories: forgotten and purged at once, with a tombstone; and of whole namespaces.

Everything here works on a transaction alone, so that a backup file is treated like the store. What the database file
still holds in free pages, the write-ahead log and other files is the matter of hybridmem.store.cleansing.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from hybridmem.store import gathering, lexical, log, outbox, points, purged, sealing, states, tombstones, tree
from hybridmem.store.paths import path_ids
from hybridmem.store.rows import PURGED_KEY, Key, dump, subtree_range
from hybridmem.store.states import Member
from hybridmem.store.unlocking import ring
from hybridmem.text import terms
from hybridmem.types import Namespace

#: What the label of a checkpoint or backup says that told of something erased.
BLANK_LABEL = "erased"
#: Tables that tell of an erased namespace for good: that it was erased, and who did what (without contents).
KEPT = frozenset({"tombstone", "erasure", "audit", "audit_head"})
_BY_NODE = ("claim", "task", "embedding", "embedding_next", "revision")


@dataclass(frozen=True, slots=True)
class By:
    """Where, by whom and when (microseconds since 1970 UTC) something is erased."""

    namespace: int
    agent: str
    at: int


def members(tx: sqlite3.Connection, uids: Sequence[str], namespace: int) -> list[Member]:
    """These nodes, in the order in which they were added."""
    rows = tx.execute(
        "SELECT id FROM node WHERE namespace_id = ? AND uid IN (SELECT value FROM json_each(?)) ORDER BY id",
        (namespace, dump(list(uids))),
    ).fetchall()
    found = states.by_ids(tx, [row[0] for row in rows])
    return [found[node_id] for node_id in sorted(found)]


def below(tx: sqlite3.Connection, key: Key) -> list[str]:
    """The public ids of everything below a node, in whatever state."""
    low, high = subtree_range(key.path)
    rows = tx.execute("SELECT uid FROM node WHERE path > ? AND path < ? ORDER BY id", (low, high)).fetchall()
    return [row[0] for row in rows]


def count(tx: sqlite3.Connection, ids: Collection[int]) -> Counter[str]:
    """What there is of these nodes: rows by what they are."""
    marked = dump(sorted(ids))
    found: Counter[str] = Counter(memories=len(ids))
    for name, table, column in (
        ("revisions", "revision", "node_id"), ("words", "lexical", "rowid"), ("vectors", "embedding", "node_id"),
        ("tasks", "task", "node_id"), ("claims", "claim", "node_id"),
    ):  # fmt: skip
        sql = f"SELECT count(*) FROM {table} WHERE {column} IN (SELECT value FROM json_each(?))"
        found[name] = int(tx.execute(sql, (marked,)).fetchone()[0])
    return found


def take(tx: sqlite3.Connection, by: By, nodes: Sequence[Member]) -> Counter[str]:
    """Erases nodes: nothing of what they said is left in any row. Returns what went.

    What is erased or purged already gets its tombstone, and is counted no more.
    """
    tombstones.add(tx, by.namespace, [node.uid for node in nodes], by.at)
    going = [node for node in nodes if not node.purged]
    if not going:
        return Counter()
    ids = [node.id for node in going]
    found = count(tx, ids)
    found["labels"] = _blank_labels(tx, by.namespace, going)
    alive = [node for node in going if node.state != "forgotten"]
    if alive:
        _forget(tx, by, alive)
    outbox.queue_all(tx, by.namespace, ids)
    names = {node.id: node.uid for node in going}
    blanked = purged.blank(tx, by.namespace, names, purged.telling(tx, by.namespace, set(names.values())))
    found["log_entries"] = len(blanked)
    for table in ("claim", "grants"):  # nobody is to hold, or to be shown, what says nothing any more
        tx.execute(f"DELETE FROM main.{table} WHERE node_id IN (SELECT value FROM json_each(?))", (dump(ids),))
    payload = {"nodes": [[uid, {}] for uid in names.values()], "blanked": blanked, "erased": True}
    log.append(tx, by.namespace, kind=log.PURGE, node_uid=None, agent=by.agent, at=by.at, payload=payload)
    return found


def lift(tx: sqlite3.Connection, by: By, nodes: Sequence[Member]) -> int:
    """What hangs right below one of these and stays, in whatever state but purged, moves to the nearest place above it
    that stays; returns how many."""
    going = sorted(node.id for node in nodes)
    rows = tx.execute(
        """SELECT id FROM node WHERE parent_id IN (SELECT value FROM json_each(?1))
        AND id NOT IN (SELECT value FROM json_each(?1)) AND content_key != ?2 ORDER BY id""",
        (dump(going), PURGED_KEY),
    ).fetchall()
    for (node_id,) in rows:
        key = tree.by_id(tx, node_id)
        parent = states.nearest_live_above(tx, key, going)
        tree.move(tx, key, parent, by.at)
        tree.touch(tx, {parent.path: by.at})
        said: dict[str, object] = {"version": key.version + 1, "parent": parent.uid}
        log.append(tx, by.namespace, kind="move", node_uid=key.uid, agent=by.agent, at=by.at, payload=said)
    return len(rows)


def _forget(tx: sqlite3.Connection, by: By, nodes: Sequence[Member]) -> None:
    """The one part of it that the log has under another name, so that replaying it needs nothing new."""
    common = states.nearest_common(tx, [node.path for node in nodes])
    payload: dict[str, object] = {
        "subtree": True,
        "states": [[node.uid, node.state, "forgotten", node.version + 1] for node in nodes],
    }
    places = _move_pointers(tx, by.namespace, {node.id for node in nodes})
    if places:
        payload["active"] = places
    states.change(tx, {node.id: "forgotten" for node in nodes}, by.at)
    log.append(tx, by.namespace, kind="forget", node_uid=common.uid, agent=by.agent, at=by.at, payload=payload)


def _move_pointers(tx: sqlite3.Connection, namespace: int, going: Collection[int]) -> dict[str, list[str | None]]:
    """Agents whose active task or node goes stand at the nearest one above that stays."""
    places: dict[str, list[str | None]] = {}
    for agent, task_uid, node_uid in points.agents(tx, namespace):
        task, node = (None if uid is None else tree.find(tx, namespace, uid) for uid in (task_uid, node_uid))
        new_task = _open_task_above(tx, task, going) if task is not None and task.id in going else task
        new_node = states.nearest_live_above(tx, node, sorted(going)) if node and node.id in going else node
        if (new_task, new_node) != (task, node):
            points.set_active(
                tx, namespace, agent, new_task.id if new_task else None, new_node.id if new_node else None
            )
            places[agent] = [new_task.uid if new_task else None, new_node.uid if new_node else None]
    return places


def _open_task_above(tx: sqlite3.Connection, key: Key, going: Collection[int]) -> Key | None:
    for node_id in reversed(path_ids(key.path)[:-1]):
        above = tree.by_id(tx, node_id)
        task = points.task(tx, above)
        if above.id not in going and above.state == "live" and task is not None and task[0] in ("open", "paused"):
            return above
    return None


def _blank_labels(tx: sqlite3.Connection, namespace: int, nodes: Sequence[Member]) -> int:
    """Labels of checkpoints, and of this file if it is a backup, that name one of these nodes, are part of what
    it says, or have a word that no other memory here has."""
    rows = tx.execute(
        "SELECT number, label FROM checkpoint WHERE namespace_id = ? AND label IS NOT NULL", (namespace,)
    ).fetchall()
    record = points.setting(tx, "backup")
    said = _opened_label(tx, record["label"]) if record else None
    labels = {row[1] for row in rows} | ({said} if said else set())
    telling = _telling_labels(tx, namespace, labels, nodes) if labels else set()
    numbers = [row[0] for row in rows if row[1] in telling]
    key = sealing.writing(tx, namespace)
    tx.executemany(
        "UPDATE main.checkpoint SET label = ?, key_id = ? WHERE namespace_id = ? AND number = ?",
        [(*sealing.text(key, BLANK_LABEL, number, "label"), namespace, number) for number in numbers],
    )
    if record and said in telling:
        points.set_setting(tx, "backup", {**record, "label": BLANK_LABEL})
    return len(numbers)


def _opened_label(tx: sqlite3.Connection, stored: str | list[Any] | None) -> str | None:
    """The label of a backup as it was given: in one of an encrypted store it is sealed."""
    keyring = ring(tx)
    if isinstance(stored, list):
        return None if keyring is None else keyring.key(tx, stored[0]).unseal(stored[1], 0, 0, "backup")
    return stored


def _telling_labels(
    tx: sqlite3.Connection, namespace: int, labels: Collection[str], nodes: Sequence[Member]
) -> set[str]:
    marked = dump([node.id for node in nodes])
    rows = tx.execute(
        """SELECT content FROM revision WHERE node_id IN (SELECT value FROM json_each(?)) AND content != ''
        UNION ALL SELECT next_step FROM task WHERE node_id IN (SELECT value FROM json_each(?))
        AND next_step IS NOT NULL""",
        (marked, marked),
    ).fetchall()
    texts = [row[0].casefold() for row in rows]
    names = [node.uid.casefold() for node in nodes] + [tree.title(text) for text in texts]
    going = {node.id for node in nodes}
    own = {term for text in texts for term in terms(text)}
    return {
        label
        for label in labels
        if any(name in label.casefold() for name in names)
        or any(label.casefold() in text for text in texts)
        or _has_own_word(tx, namespace, own.intersection(terms(label)), going)
    }


def _has_own_word(tx: sqlite3.Connection, namespace: int, words: Collection[str], going: Collection[int]) -> bool:
    """Whether no memory that stays has one of these words."""
    found = lexical.postings(tx, namespace, sorted(words))
    return any(all(node_id in going for node_id, _ in found.get(word, ())) for word in words)


# Summaries


def quoting(tx: sqlite3.Connection, namespace: int, uids: Collection[str]) -> list[Member]:
    """The summaries, in whatever state, that were made of any of these, of summaries of them, and so on; of those that
    came by an import what the marks say. What is purged says nothing any more."""
    made: dict[str, set[str]] = {}
    rows = tx.execute(
        "SELECT node_uid, payload FROM operation WHERE namespace_id = ? AND kind = 'consolidate'", (namespace,)
    ).fetchall()
    for summary, payload in rows:
        for uid, _ in json.loads(payload)["nodes"]:
            made.setdefault(uid, set()).add(summary)
    marks = tx.execute(
        """SELECT n.uid, s.uid FROM node n JOIN node s ON s.namespace_id = n.namespace_id AND s.uid = n.replaced_by
        WHERE n.namespace_id = ? AND n.replaced_by != '' AND s.type = 'summary' AND n.state = 'archived'""",
        (namespace,),
    ).fetchall()
    for uid, summary in marks:
        made.setdefault(uid, set()).add(summary)
    found: set[str] = set()
    wave = set(uids)
    while wave:
        wave = {summary for uid in wave for summary in made.get(uid, ())} - found - set(uids)
        found |= wave
    return [one for one in members(tx, sorted(found), namespace) if not one.purged]


def related(tx: sqlite3.Connection, namespace: int, uids: Collection[str]) -> int:
    """How many memories that stay were merged with one of these, superseded or contradicted by one, or the other way
    round: they may say the same in other words. Summaries are not counted."""
    marked = dump(sorted(uids))
    row = tx.execute(
        """SELECT count(*) FROM (
            SELECT n.uid FROM node n WHERE n.namespace_id = ?1 AND n.replaced_by IN (SELECT value FROM json_each(?2))
            UNION SELECT s.uid FROM node n JOIN node s ON s.namespace_id = n.namespace_id AND s.uid = n.replaced_by
            WHERE n.namespace_id = ?1 AND n.uid IN (SELECT value FROM json_each(?2)) AND n.replaced_by != ''
            AND s.type != 'summary'
        ) WHERE uid NOT IN (SELECT value FROM json_each(?2))""",
        (namespace, marked),
    ).fetchone()
    return int(row[0])


def sources(tx: sqlite3.Connection, namespace: int, summary: str, without: Collection[str]) -> list[Member]:
    """What an affected summary stands for and is left: archived, and not among ``without``; of an affected summary
    among them its own."""
    found: list[Member] = []
    for node_id, uid, state, _ in gathering.replaced(tx, namespace, summary):
        if state != "archived":
            continue
        if uid in without:
            found += sources(tx, namespace, uid, without)
        else:
            found += states.by_ids(tx, [node_id]).values()
    return [one for one in found if not one.purged]


def stand_for(tx: sqlite3.Connection, by: By, nodes: Sequence[Member], summary: str) -> None:
    """Lets another summary stand for these."""
    gathering.change(tx, {one.id: ("archived", summary) for one in nodes}, by.at)
    said = [[one.uid, {"state": "archived", "replaced_by": summary, "version": one.version + 1}] for one in nodes]
    payload: dict[str, object] = {"nodes": said}
    log.append(tx, by.namespace, kind="consolidate", node_uid=summary, agent=by.agent, at=by.at, payload=payload)


def bring_back(tx: sqlite3.Connection, by: By, nodes: Sequence[Member], summary: str) -> None:
    """These are live again: there is no summary that stands for them."""
    if not nodes:
        return
    gathering.change(tx, {one.id: ("live", "") for one in nodes}, by.at)
    outbox.queue_all(tx, by.namespace, [one.id for one in nodes])
    said = [[one.uid, {"state": "live", "replaced_by": "", "version": one.version + 1}] for one in nodes]
    payload: dict[str, object] = {"nodes": said}
    log.append(tx, by.namespace, kind="unconsolidate", node_uid=summary, agent=by.agent, at=by.at, payload=payload)


# A whole namespace


def take_namespace(tx: sqlite3.Connection, namespace: int, names: Namespace, at: int) -> Counter[str]:
    """Deletes every row of a namespace; its tombstones and its closed row stay. Returns what went."""
    rows = tx.execute("SELECT id, uid FROM node WHERE namespace_id = ?", (namespace,)).fetchall()
    found = count(tx, [row[0] for row in rows])
    found["memories"] -= 1  # the root
    tombstones.add(tx, namespace, [row[1] for row in rows], at)
    tx.execute("PRAGMA defer_foreign_keys = ON")
    nodes = "SELECT id FROM node WHERE namespace_id = ?"
    tx.execute(f"DELETE FROM lexical WHERE rowid IN ({nodes})", (namespace,))
    for table in _BY_NODE:
        tx.execute(f"DELETE FROM main.{table} WHERE node_id IN ({nodes})", (namespace,))
    tables = tx.execute(
        """SELECT m.name FROM sqlite_master m, pragma_table_info(m.name) c
        WHERE m.type = 'table' AND c.name = 'namespace_id' ORDER BY m.name = 'node', m.name"""
    ).fetchall()
    found["keys"] = sealing.destroy(tx, namespace)
    for (table,) in tables:
        if table in KEPT:
            continue
        cursor = tx.execute(f"DELETE FROM main.{table} WHERE namespace_id = ?", (namespace,))
        if table in ("operation", "checkpoint", "session"):
            found[f"{table}s"] = cursor.rowcount
    for setting in (f"forgetting.{namespace}", f"index_server:{namespace}"):
        points.drop_setting(tx, setting)
    record = points.setting(tx, "backup")
    if record and tuple(record["namespace"]) == names:
        label = BLANK_LABEL if record["label"] else None
        points.set_setting(tx, "backup", {**record, "namespace": [BLANK_LABEL], "label": label})
    tombstones.close_space(tx, namespace, names)
    return found


# What is to stay erased, elsewhere


def apply(tx: sqlite3.Connection, wanted: tombstones.Tombstones, agent: str, at: int, *, summaries: bool) -> int:
    """Erases in another database, a backup or a restored one, whatever has a tombstone, and keeps the tombstones there.

    :param summaries: also what was summarised from it there; the sources that are left are live again.
    :return: how many memories went.
    """
    gone, here = 0, set()
    for namespace, names in points.namespaces(tx).items():
        key = tombstones.names_hash(names)
        hashes = wanted.get(key)
        if not hashes:
            continue
        rows = tx.execute("SELECT uid, parent_id FROM node WHERE namespace_id = ?", (namespace,)).fetchall()
        hit = [(uid, parent) for uid, parent in rows if tombstones.hashed(uid) in hashes]
        if any(parent is None for _, parent in hit):
            gone += take_namespace(tx, namespace, names, at)["memories"]
            tombstones.add_hashes(tx, namespace, hashes)
            here.add(key)
            continue
        here.add(key)
        tombstones.add_hashes(tx, namespace, hashes)
        by = By(namespace, agent, at)
        uids = [uid for uid, _ in hit]
        told = quoting(tx, namespace, uids) if summaries and uids else []
        without = {*uids, *(one.uid for one in told)}
        for one in told:
            if one.state == "live":
                bring_back(tx, by, sources(tx, namespace, one.uid, without), one.uid)
        lift(tx, by, members(tx, sorted(without), namespace))
        gone += take(tx, by, members(tx, sorted(without), namespace))["memories"]
    for key, hashes in wanted.items():
        if key not in here:
            tombstones.add_hashes(tx, tombstones.make_closed_space(tx, key), hashes)
    return gone

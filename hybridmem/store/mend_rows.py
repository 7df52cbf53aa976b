"""Mends of what belongs to single nodes: values, content, terms, tasks, pointers, vectors, and what waits for one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hybridmem.store import checks, lexical, log, outbox, points, sealing, tree
from hybridmem.store.checks import EARLIEST, LATEST, Fault, spoken
from hybridmem.store.mender import REPLAYED, Mender, by_space, ids_of
from hybridmem.store.rows import Key, dump
from hybridmem.text import terms
from hybridmem.types import ROOT_TYPE, STATES, TASK_TYPE

#: Statuses of a task.
STATUSES = ("open", "paused", "done", "failed")
#: Setting of hybridmem.index.projection: what the files of the index looked like.
INDEX_FILES = "index_files"


def values(mender: Mender, faults: Sequence[Fault]) -> None:
    """What the log says; where it does not say all, the nearest value in the range, state ``live``, type ``note``."""
    for space, wrong in by_space(faults).items():
        keys = tree.keys(mender.tx, ids_of(wrong))
        replayed, is_whole = mender.replayed(space, [key.uid for key in keys])
        for key in keys:
            columns = replayed.get(key.uid, {})
            if is_whole and columns:
                _set(mender, key, {name: columns[name] for name in REPLAYED if key.type != ROOT_TYPE or name != "type"})
            else:
                _clamp(mender, space, key)


def _set(mender: Mender, key: Key, columns: Mapping[str, Any]) -> None:
    names = ", ".join(f"{name} = ?" for name in columns)
    mender.tx.execute(f"UPDATE node SET {names} WHERE id = ?", (*columns.values(), key.id))


def _clamp(mender: Mender, space: int, key: Key) -> None:
    row = mender.tx.execute(f"SELECT {', '.join(REPLAYED)} FROM node WHERE id = ?", (key.id,)).fetchone()
    given = dict(zip(REPLAYED, row, strict=True))
    right: dict[str, Any] = {
        "importance": min(max(given["importance"], 0.0), 1.0),
        "confidence": min(max(given["confidence"], 0.0), 1.0),
        "uses": max(given["uses"], 0),
        "pinned": int(bool(given["pinned"])),
        "state": given["state"] if given["state"] in STATES else "live",
        "type": given["type"] or "note",
        "created_at": min(max(given["created_at"], EARLIEST), LATEST),
    }
    _set(mender, key, {
        "version": max(given["version"], 1),
        **{name: min(max(given[name], EARLIEST), LATEST) for name in ("updated_at", "active_at")},
    })  # fmt: skip
    mender.change(
        space, tree.by_id(mender.tx, key.id), **{name: one for name, one in right.items() if one != given[name]}
    )


def metadata(mender: Mender, faults: Sequence[Fault]) -> None:
    """What cannot be read is kept as text under the key ``damaged``."""
    for node_id in ids_of(faults):
        rows = mender.tx.execute(
            "SELECT id, version, content, metadata, key_id FROM revision WHERE node_id = ?", (node_id,)
        ).fetchall()
        key = sealing.writing_to(mender.tx, node_id)
        for revision_id, version, content, text, key_id in rows:
            # What is not sealed in an encrypted namespace was put there by somebody else: it must not become ours.
            if not _is_object(text) and (key is None or key_id != 0):
                sealed = sealing.revision(key, node_id, version, content, dump({"damaged": text}))
                mender.tx.execute(
                    "UPDATE main.revision SET content = ?, metadata = ?, key_id = ? WHERE id = ?",
                    (*sealed, revision_id),
                )


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def revision(mender: Mender, faults: Sequence[Fault]) -> None:
    """The content that the log names, or else the newest that is the node's own."""
    for space, wrong in by_space(faults).items():
        keys = tree.keys(mender.tx, ids_of(wrong))
        said = mender.said(space, [key.uid for key in keys])
        for key in keys:
            logged = said.get(key.uid, {}).get("revision")
            (found,) = mender.tx.execute(
                "SELECT id FROM revision WHERE node_id = ? ORDER BY id = ? DESC, id DESC LIMIT 1", (key.id, logged)
            ).fetchone()
            if found == logged:  # nothing changes that the log does not say
                mender.tx.execute("UPDATE node SET revision_id = ? WHERE id = ?", (found, key.id))
            else:
                mender.change(space, key, revision_id=found)
            _embed_again(mender, space, key)


def derived(mender: Mender, faults: Sequence[Fault]) -> None:
    for node_id in ids_of(faults):
        type_, content, metadata = _content(mender, node_id)
        length, key = 0 if type_ == ROOT_TYPE else len(terms(content)), sealing.writing_to(mender.tx, node_id)
        mender.tx.execute(
            "UPDATE node SET content_key = ?, terms = ?, speaker = ? WHERE id = ?",
            (sealing.content_key(key, content), length, sealing.voice(key, spoken(type_, content, metadata)), node_id),
        )


def lexical_index(mender: Mender, faults: Sequence[Fault]) -> None:
    for space, wrong in by_space(faults).items():
        for node_id in ids_of(wrong):
            type_, content, _ = _content(mender, node_id)
            lexical.index(mender.tx, space, node_id, [] if type_ == ROOT_TYPE else terms(content))
        lexical.remove_strays(mender.tx, space)
    if any(fault.namespace is None for fault in faults):
        lexical.remove_strays(mender.tx, None)
    # Whatever the postings were: made again from the entries.
    lexical.rebuild(mender.tx)


def _content(mender: Mender, node_id: int) -> tuple[str, str, str]:
    """(type, content, metadata) as they are stored."""
    row: tuple[str, str, str] = mender.tx.execute(
        "SELECT n.type, r.content, r.metadata FROM node n JOIN revision r ON r.id = n.revision_id WHERE n.id = ?",
        (node_id,),
    ).fetchone()
    return row


def task(mender: Mender, faults: Sequence[Fault]) -> None:
    """A task without a status gets back the one in the log, or is open; what has a status is a task."""
    for space, wrong in by_space(faults).items():
        keys = tree.keys(mender.tx, ids_of(wrong))
        log_says = mender.said(space, [key.uid for key in keys])
        for key in keys:
            said = log_says.get(key.uid, {})
            found = points.task(mender.tx, key)
            if found is None or found[0] not in STATUSES:
                _, step, started, finished = found or (None, None, None, None)
                values: dict[str, Any] = {
                    "status": said.get("status") or "open",
                    "next_step": said.get("next_step") if found is None else step,
                    "started_at": started or said.get("started_at") or said.get("created_at") or mender.now,
                    "finished_at": said.get("finished_at") if found is None else finished,
                }
                points.set_task(mender.tx, key, **values)
                mender.record(space, "task.import", key.uid, {"version": key.version, **values})
            if key.type != TASK_TYPE:
                if said.get("type") == TASK_TYPE:
                    mender.tx.execute("UPDATE node SET type = ? WHERE id = ?", (TASK_TYPE, key.id))
                else:
                    mender.change(space, key, type=TASK_TYPE)


def active(mender: Mender, faults: Sequence[Fault]) -> None:
    """Pointers to what cannot be active point nowhere; each agent's place is noted in a checkpoint."""
    tx = mender.tx
    for space in by_space(faults):
        for _, agent, is_task, is_node in checks.wrong_pointers(tx, space):
            task_id, node_id = points.active(tx, space, agent)
            now = (None if is_task else task_id, None if is_node else node_id)
            points.set_active(tx, space, agent, *now)
            task, node = (tree.by_id(tx, one).uid if one is not None else None for one in now)
            mender.record(space, log.REPAIR, None, {"nodes": [], "active": {agent: [task, node]}})
            sequence, digest = log.head(tx, space)
            points.add_checkpoint(
                tx, space, label=None, reason="repair", sequence=sequence, at=mender.now, agent=agent,
                active_task=task, active_node=node, decision_path="[]", nodes=points.node_count(tx, space),
                digest=digest,
            )  # fmt: skip


# The vectors


def embedding(mender: Mender, faults: Sequence[Fault]) -> None:
    """A vector is made anew from its content."""
    for space, wrong in by_space(faults).items():
        for key in tree.keys(mender.tx, ids_of(wrong)):
            _embed_again(mender, space, key)
    if any(fault.namespace is None for fault in faults):
        mender.tx.execute("DELETE FROM embedding WHERE node_id NOT IN (SELECT id FROM node)")


def _embed_again(mender: Mender, space: int, key: Key) -> None:
    outbox.drop_embedding(mender.tx, key.id)
    if key.type != ROOT_TYPE:
        outbox.queue(mender.tx, space, key.id)


def requests(mender: Mender, faults: Sequence[Fault]) -> None:
    """What is asked for about nothing goes; about a node of another namespace, its own namespace asks."""
    for space in by_space(faults):
        rows = mender.tx.execute(
            """SELECT o.id, n.namespace_id, n.id FROM outbox o LEFT JOIN node n ON n.id = o.node_id
            WHERE o.namespace_id = ? AND n.namespace_id IS NOT o.namespace_id""",
            (space,),
        ).fetchall()
        outbox.done(mender.tx, [row[0] for row in rows])
        for _, home, node_id in rows:
            if node_id is not None:
                outbox.queue(mender.tx, home, node_id)


def queue(mender: Mender, faults: Sequence[Fault]) -> None:
    for space, wrong in by_space(faults).items():
        for node_id in ids_of(wrong):
            outbox.queue(mender.tx, space, node_id)


def retry(mender: Mender, faults: Sequence[Fault]) -> None:
    for space in by_space(faults):
        mender.tx.execute("UPDATE outbox SET reason = NULL WHERE namespace_id = ?", (space,))


def index_files(mender: Mender, faults: Sequence[Fault]) -> None:
    """Without the note, whoever opens the index next looks at all of its files."""
    points.set_setting(mender.tx, INDEX_FILES, None)

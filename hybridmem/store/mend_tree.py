"""Mends of the tree: memories that are gone, the root, where each one hangs, paths, the counter, and the log of it.

The log says where everything was put last, so what was edited behind its back goes back there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hybridmem.store import points, tree
from hybridmem.store.checks import Fault
from hybridmem.store.mender import Mender, by_space, ids_of
from hybridmem.store.paths import path_segment
from hybridmem.store.rows import new_uid
from hybridmem.store.shape import homes, levels, loops
from hybridmem.types import ROOT_TYPE


def bring_back(mender: Mender, faults: Sequence[Fault]) -> None:
    """Memories that the log knows and the tree has not, as the log last had them, under the ids that they had."""
    for space, lost in by_space(faults).items():
        _revive(mender, space, {fault.uid for fault in lost if fault.uid is not None})


def _revive(mender: Mender, space: int, uids: Iterable[str]) -> None:
    """Takes nodes from a tree that is rebuilt from the log. One whose content is gone too stays lost."""
    parents: dict[str, str | None] = {}
    found, _ = mender.replayed(space, uids)
    for uid, values in found.items():
        parent, revision = values.pop("parent"), values.pop("revision_id")
        if _insert(mender.tx, space, uid, revision, values):
            parents[uid] = parent
    for uid, above in parents.items():
        key = tree.find(mender.tx, space, above) if above is not None else None
        # One whose parent is gone too has none for now, which the next stage mends.
        mender.tx.execute(
            "UPDATE node SET parent_id = ? WHERE namespace_id = ? AND uid = ?", (key.id if key else None, space, uid)
        )


def _insert(tx: sqlite3.Connection, space: int, uid: str, revision: int, values: Mapping[str, Any]) -> bool:
    """A node by what the log says of it. False: its content is not there, or another node has its place."""
    row = tx.execute(
        "SELECT node_id FROM revision WHERE id = ? AND node_id NOT IN (SELECT id FROM node)", (revision,)
    ).fetchone()
    if row is None:
        return False
    tx.execute(
        f"""INSERT INTO node (id, namespace_id, uid, revision_id, path, depth, content_key, {", ".join(values)})
        VALUES (?, ?, ?, ?, '', 0, '', {", ".join("?" * len(values))})""",
        (row[0], space, uid, revision, *values.values()),
    )
    return True


def root(mender: Mender, faults: Sequence[Fault]) -> None:
    """Exactly one root: the one that is of that type, or the one that the log tells of, or a new one."""
    for space in by_space(faults):
        rows = mender.tx.execute(
            """SELECT id FROM node WHERE namespace_id = ? AND type = ?
            ORDER BY parent_id IS NOT NULL, id LIMIT 1""",
            (space, ROOT_TYPE),
        ).fetchall()
        top = rows[0][0] if rows else _make_root(mender, space)
        mender.tx.execute(
            "UPDATE node SET parent_id = NULL, type = ? WHERE id = ? AND (parent_id IS NOT NULL OR type != ?)",
            (ROOT_TYPE, top, ROOT_TYPE),
        )
        others = mender.tx.execute(
            "SELECT id FROM node WHERE namespace_id = ? AND type = ? AND id != ?", (space, ROOT_TYPE, top)
        ).fetchall()
        for (node_id,) in others:
            key = tree.by_id(mender.tx, node_id)
            said = mender.said(space, [key.uid]).get(key.uid, {}).get("type")
            if said not in (None, ROOT_TYPE):  # so nothing changes that the log does not say
                mender.tx.execute("UPDATE node SET type = ? WHERE id = ?", (said, node_id))
            else:
                mender.change(space, key, type="note")
    hang(mender, faults)


def _make_root(mender: Mender, space: int) -> int:
    row = mender.tx.execute(
        """SELECT node_uid FROM operation WHERE namespace_id = ? AND kind IN ('namespace', 'root')
        ORDER BY sequence DESC LIMIT 1""",
        (space,),
    ).fetchone()
    uid = row[0] if row and row[0] else new_uid()
    found = tree.find(mender.tx, space, uid)
    if found is not None:
        return found.id
    _revive(mender, space, [uid])
    found = tree.find(mender.tx, space, uid)
    if found is not None:
        return found.id
    name = "/".join(points.namespaces(mender.tx)[space])
    root, revision = tree.insert(
        mender.tx, space, None, uid=uid, type=ROOT_TYPE, content=name, structured=False, metadata={}, importance=0.5,
        confidence=1.0, agent=mender.agent, terms=0, speaker="", at=mender.now,
    )  # fmt: skip
    history = {"created_at": mender.now, "updated_at": mender.now, "active_at": mender.now, "agent": mender.agent}
    mender.record(space, "root", uid, {"was": uid, "version": 1, "revision": revision, **history})
    return root.id


def hang(mender: Mender, faults: Sequence[Fault]) -> None:
    """Whatever does not lead to the root goes back where the log last had it, or else right under the root. What goes
    back is as the log says, so there is nothing to log."""
    for space in by_space(faults):
        root, parents, uids = mender.shape(space)
        astray = [one for one, parent in parents.items() if one != root and (parent is None or parent not in parents)]
        circles = loops(parents)
        said = mender.said(space, [uids[one] for one in [*astray, *(one for circle in circles for one in circle)]])
        ids = {uid: one for one, uid in uids.items()}
        logged = {ids[uid]: ids.get(values.get("parent", "")) for uid, values in said.items()}
        for circle in circles:
            # Those that hang elsewhere than the log says are what was changed behind its back.
            astray += [one for one in circle if one in logged and logged[one] != parents[one]] or circle[:1]
        for one in astray:
            parents[one] = None
        for one, parent in homes(parents, root, astray, logged):
            _place(mender, space, one, parent or root, is_news=parent is None and uids[one] in said)


def _place(mender: Mender, space: int, node_id: int, parent: int, *, is_news: bool) -> None:
    mender.tx.execute("UPDATE node SET parent_id = ? WHERE id = ?", (parent, node_id))
    if is_news:
        mender.change(space, tree.by_id(mender.tx, node_id), parent=tree.by_id(mender.tx, parent).uid)


def paths(mender: Mender, faults: Sequence[Fault]) -> None:
    """All paths of a namespace from the parents, level by level; what leads nowhere waits for the next round."""
    for space in by_space(faults):
        root, parents, _ = mender.shape(space)
        above: dict[int | None, str] = {None: "/"}
        for depth, level in enumerate(levels(parents, root)):
            here: dict[int | None, str] = {one: above[parents[one]] + path_segment(one) for one in level}
            mender.tx.executemany(
                "UPDATE node SET path = ?1, depth = ?2 WHERE id = ?3 AND (path != ?1 OR depth != ?2)",
                [(path, depth, one) for one, path in here.items()],
            )
            above = here


def counter(mender: Mender, faults: Sequence[Fault]) -> None:
    for space in by_space(faults):
        mender.tx.execute(
            """UPDATE namespace SET nodes = (SELECT count(*) FROM node WHERE namespace_id = ?1
            AND parent_id IS NOT NULL) WHERE id = ?1""",
            (space,),
        )


def log_anew(mender: Mender, faults: Sequence[Fault]) -> None:
    """Memories that the log does not know enter it now, parents first, as they are."""
    for space, unknown in by_space(faults).items():
        keys = sorted(tree.keys(mender.tx, ids_of(unknown)), key=lambda key: (key.depth, key.id))
        for key in keys:
            row = mender.tx.execute(
                """SELECT n.revision_id, p.uid, n.type, n.importance, n.confidence, n.uses, n.pinned, n.state,
                    n.version, n.agent, n.created_at, n.updated_at, n.active_at, n.replaced_by
                FROM node n JOIN node p ON p.id = n.parent_id WHERE n.id = ?""",
                (key.id,),
            ).fetchone()
            names = (
                "revision", "parent", "type", "importance", "confidence", "uses", "pinned", "state", "version", "agent",
                "created_at", "updated_at", "active_at", "replaced_by",
            )  # fmt: skip
            values = dict(zip(names, row, strict=True))
            mender.record(space, "add", key.uid, values)
            tree.touch(mender.tx, {key.path: values["active_at"]})
            task = points.task(mender.tx, key)
            if task is not None:
                mender.record(space, "task.import", key.uid, {"version": key.version, **as_payload(task)})


def as_payload(task: tuple[str, str | None, int, int | None]) -> dict[str, Any]:
    return dict(zip(("status", "next_step", "started_at", "finished_at"), task, strict=True))

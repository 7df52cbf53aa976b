"""What every mend of hybridmem.store.mends works with."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hybridmem.errors import HybridMemError
from hybridmem.store import log, tree
from hybridmem.store.checks import Fault
from hybridmem.store.connect import Connections
from hybridmem.store.replay import replay
from hybridmem.store.rows import Key, dump

#: What the log says of a memory besides its content and its place, by the names of the columns.
REPLAYED = (
    "type", "importance", "confidence", "uses", "pinned", "state", "version", "agent", "created_at", "updated_at",
    "active_at", "replaced_by",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mender:
    """Who mends (the ``agent`` of the log) and when (``now``, microseconds), inside the transaction ``tx``."""

    tx: sqlite3.Connection
    agent: str
    now: int

    def record(self, space: int, kind: str, uid: str | None, payload: Mapping[str, Any]) -> None:
        """Logs an operation."""
        log.append(self.tx, space, kind=kind, node_uid=uid, agent=self.agent, at=self.now, payload=dict(payload))

    def change(self, space: int, key: Key, **columns: Any) -> None:
        """Sets columns of a node, and logs that it was repaired; ``parent`` is one, by public id."""
        given = {name: value for name, value in columns.items() if name != "parent"}
        tree.change(self.tx, key, self.now, **given)
        logged = {names_in_log(name): value for name, value in columns.items()}
        self.record(space, log.REPAIR, key.uid, {"nodes": [[key.uid, {"version": key.version + 1, **logged}]]})

    def said(self, space: int, uids: Iterable[str]) -> dict[str, dict[str, Any]]:
        """What the log has set of these nodes, the last of each."""
        wanted = set(uids)
        rows = self.tx.execute(
            f"""SELECT kind, node_uid, payload FROM operation WHERE namespace_id = ? AND
                (kind IN ({", ".join("?" * len(log.MANY))}) OR node_uid IN (SELECT value FROM json_each(?)))
            ORDER BY sequence""",
            (space, *log.MANY, dump(sorted(wanted))),
        ).fetchall()
        found: dict[str, dict[str, Any]] = {}
        for kind, uid, payload in rows:
            for one, values in log.effects(kind, uid, json.loads(payload)):
                if one in wanted:
                    found.setdefault(one, {}).update(values)
        return found

    def replayed(self, space: int, uids: Iterable[str]) -> tuple[dict[str, dict[str, Any]], bool]:
        """These nodes as the log has them: REPLAYED, ``revision_id``, and ``parent`` by public id. And whether that is
        the whole truth: a log of an earlier version, or one that was edited, cannot say all."""
        with tempfile.TemporaryDirectory() as folder:
            try:
                return self._rebuilt(Path(folder), space, uids)
            except (HybridMemError, sqlite3.Error, LookupError, TypeError, ValueError):
                return self._pieced_together(space, uids), False

    def _rebuilt(self, folder: Path, space: int, uids: Iterable[str]) -> tuple[dict[str, dict[str, Any]], bool]:
        """From a tree that is rebuilt from the log."""
        other = Connections(folder, durability="process")
        try:
            with other.write() as tx:
                done = replay(self.tx, tx, only=space)
            with other.read() as tx:
                rows = tx.execute(
                    f"""SELECT n.uid, p.uid, n.revision_id, {", ".join(f"n.{name}" for name in REPLAYED)}
                    FROM node n LEFT JOIN node p ON p.id = n.parent_id
                    WHERE n.namespace_id = ? AND n.uid IN (SELECT value FROM json_each(?))""",
                    (space, dump(sorted(uids))),
                ).fetchall()
        finally:
            other.close()
        names = ("parent", "revision_id", *REPLAYED)
        return {row[0]: dict(zip(names, row[1:], strict=True)) for row in rows}, not done.problems

    def _pieced_together(self, space: int, uids: Iterable[str]) -> dict[str, dict[str, Any]]:
        """From what single entries say: the log cannot be replayed."""
        otherwise = {
            "type": "note", "importance": 0.5, "confidence": 0.5, "uses": 0, "pinned": 0, "state": "live", "version": 1,
            "agent": self.agent, "created_at": self.now, "updated_at": self.now, "active_at": self.now,
            "replaced_by": "",
        }  # fmt: skip
        found = {}
        for uid, said in self.said(space, uids).items():
            values = {name: said[name] if said.get(name) is not None else otherwise[name] for name in REPLAYED}
            found[uid] = {"parent": said.get("parent"), "revision_id": said.get("revision"), **values}
        return found

    def shape(self, space: int) -> tuple[int, dict[int, int | None], dict[int, str]]:
        """(root, node → parent, node → public id) of a namespace."""
        rows = self.tx.execute("SELECT id, parent_id, uid FROM node WHERE namespace_id = ?", (space,)).fetchall()
        root = tree.root(self.tx, space).id
        return root, {row[0]: row[1] for row in rows}, {row[0]: row[2] for row in rows}


def names_in_log(column: str) -> str:
    """What a column of a node is called in the log."""
    return "revision" if column == "revision_id" else column


def by_space(faults: Sequence[Fault]) -> dict[int, list[Fault]]:
    found: dict[int, list[Fault]] = {}
    for fault in faults:
        if fault.namespace is not None:
            found.setdefault(fault.namespace, []).append(fault)
    return found


def ids_of(faults: Iterable[Fault]) -> list[int]:
    return sorted({fault.node_id for fault in faults if fault.node_id is not None})

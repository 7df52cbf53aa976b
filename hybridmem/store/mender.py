"""What every mend of hybridmem.store.mends works with."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hybridmem.store import log, tree
from hybridmem.store.checks import Fault
from hybridmem.store.rows import Key, dump


@dataclass(frozen=True, slots=True)
class Mender:
    """Who mends (the ``agent`` of the log) and when (``now``, microseconds), inside the transaction ``tx``."""

    tx: sqlite3.Connection
    agent: str
    now: int

    def record(self, space: int, kind: str, uid: str | None, payload: Mapping[str, Any]) -> None:
        log.append(self.tx, space, kind=kind, node_uid=uid, agent=self.agent, at=self.now, payload=dict(payload))

    def said(self, space: int, uids: Iterable[str]) -> dict[str, dict[str, Any]]:
        """What the log has set of these nodes, the last of each; and who made them, when, and the last entry's time."""
        rows = self.tx.execute(
            """SELECT node_uid, agent, at, payload FROM operation
            WHERE namespace_id = ? AND node_uid IN (SELECT value FROM json_each(?)) ORDER BY sequence""",
            (space, dump(sorted(uids))),
        ).fetchall()
        found: dict[str, dict[str, Any]] = {}
        for uid, agent, at, payload in rows:
            values = found.setdefault(uid, {"agent": agent, "created_at": at})
            given = {name: value for name, value in json.loads(payload).items() if name != "created_at" or value}
            values.update(given, last=at)
        return found

    def shape(self, space: int) -> tuple[int, dict[int, int | None], dict[int, str]]:
        """(root, node → parent, node → public id) of a namespace."""
        rows = self.tx.execute("SELECT id, parent_id, uid FROM node WHERE namespace_id = ?", (space,)).fetchall()
        root = tree.root(self.tx, space).id
        return root, {row[0]: row[1] for row in rows}, {row[0]: row[2] for row in rows}

    def changed(self, key: Key, **columns: Any) -> int:
        """Sets columns of a node like any other write; returns its new version."""
        tree.change(self.tx, key, self.now, **columns)
        return key.version + 1


def by_space(faults: Sequence[Fault]) -> dict[int, list[Fault]]:
    found: dict[int, list[Fault]] = {}
    for fault in faults:
        if fault.namespace is not None:
            found.setdefault(fault.namespace, []).append(fault)
    return found


def ids_of(faults: Iterable[Fault]) -> list[int]:
    return sorted({fault.node_id for fault in faults if fault.node_id is not None})

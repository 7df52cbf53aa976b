"""When nodes were last active, told forward from the log: the only value of a node that others' operations change."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from typing import TypeVar

from hybridmem.store import log

K = TypeVar("K")


def settle(touched: dict[K, int], above: Callable[[K], K | None], tell: Callable[[K, int], None]) -> None:
    """Tells nodes and all that encloses them of activity, and empties ``touched``; to be called before anything moves.

    Newest first, so that whoever is reached again has all its ancestors up to date already.

    :param touched: the moment for each node that was active.
    :param above: the parent of a node, None for a root. :param tell: called once for a node, with the latest moment.
    """
    seen: set[K] = set()
    for node, at in sorted(touched.items(), key=lambda item: -item[1]):
        one: K | None = node
        while one is not None and one not in seen:
            seen.add(one)
            tell(one, at)
            one = above(one)
    touched.clear()


def last_active(tx: sqlite3.Connection, namespace: int, last: int) -> dict[str, int]:
    """The last activity of every node of a namespace after entry ``last`` of its log, in microseconds.

    Costs one reading of the log up to there. Entries of earlier versions do not tell the activity that imported nodes
    brought along; for those it is the moment at which they were made.
    """
    rows = tx.execute(
        """SELECT kind, node_uid, at, json_extract(payload, '$.parent'),
            coalesce(json_extract(payload, '$.active_at'), json_extract(payload, '$.created_at'),
                json_extract(payload, '$.occurred_at'), at),
            CASE WHEN kind IN ('root', ?, ?) THEN payload END
        FROM operation WHERE namespace_id = ? AND sequence <= ? ORDER BY sequence""",
        (log.RESTORE, log.REPAIR, namespace, last),
    ).fetchall()
    active: dict[str, int] = {}
    parents: dict[str, str | None] = {}
    touched: dict[str, int] = {}

    def tell(uid: str, at: int) -> None:
        active[uid] = max(at, active.get(uid, at))

    for kind, uid, at, parent, moment, payload in rows:
        if kind in ("namespace", "add"):
            parents[uid], active[uid] = parent, moment
        if kind == "move":
            settle(touched, parents.get, tell)
            parents[uid], touched[parent] = parent, at
        elif kind == "root":
            settle(touched, parents.get, tell)
            was = json.loads(payload)["was"]
            parents[uid], active[uid] = parents.pop(was, None), moment
        elif kind in (log.RESTORE, log.REPAIR):
            settle(touched, parents.get, tell)
            for one, values in log.effects(kind, None, json.loads(payload)):
                if "parent" in values:
                    parents[one] = values["parent"]
                if "active_at" in values:
                    active[one] = values["active_at"]
        elif kind not in log.QUIET:
            touched[uid] = max(moment, touched.get(uid, moment))
    settle(touched, parents.get, tell)
    return active

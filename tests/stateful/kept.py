"""What a store keeps twice, recomputed."""

from __future__ import annotations

import json
from typing import Any

from hybridmem import Memory
from hybridmem.store import lexical, log, outbox, points
from hybridmem.store.paths import path_segment
from hybridmem.text import terms
from stateful.expected import Expected


def check_kept_twice(memory: Memory, model: Expected) -> None:
    """Paths, depths, the counter, the lexical index, the outbox and the log chain of one namespace agree with it."""
    space = memory._workspace.id
    with memory._workspace.read() as tx:
        assert log.broken_at(tx, space) is None
        assert points.node_count(tx, space) == len(model.nodes)
        rows = tx.execute(
            "SELECT id, parent_id, path, depth, uid, terms FROM node WHERE namespace_id = ?", (space,)
        ).fetchall()
        by_id = {row[0]: row for row in rows}
        waiting = outbox.pending_ids(tx, space)
        embedded = {
            row[0]
            for row in tx.execute(
                """SELECT e.node_id FROM embedding e JOIN node n ON n.id = e.node_id
                AND n.revision_id = e.revision_id WHERE e.namespace_id = ?""",
                (space,),
            )
        }
        for id, parent, path, depth, uid, length in rows:
            above = by_id[parent][2] if parent is not None else "/"
            assert path == above + path_segment(id)
            assert depth == path.count("/") - 2
            if parent is None:
                continue
            value = memory.get(uid).content
            assert lexical.indexed(tx, id) == terms(value), "also of what is forgotten, for when it comes back"
            assert length == len(terms(value))
            if model.state(uid) == "live":
                assert id in waiting | embedded


def has_terms(value: Any) -> bool:
    """Whether a content has terms at all."""
    return bool(terms(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)))

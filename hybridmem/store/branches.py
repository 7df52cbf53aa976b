"""Many branches moved at once: the paths brought in line with the parents, whatever order the moves would need."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from hybridmem.store import tree
from hybridmem.store.paths import path_below
from hybridmem.store.rows import subtree_range


def rehang(tx: sqlite3.Connection, moved: Sequence[int]) -> None:
    """Rewrites the paths and depths of these nodes (internal ids) and of all below them. Their ``parent_id`` is the new
    one already, their paths are still the old ones; the parents must make a tree."""
    rows: dict[int, tuple[int, str]] = {}
    for path in _tops([key.path for key in tree.keys(tx, moved)]):
        found = tx.execute(
            "SELECT id, parent_id, path FROM node WHERE path >= ? AND path < ?", subtree_range(path)
        ).fetchall()
        rows.update((row[0], (row[1], row[2])) for row in found)
    outside = sorted({parent for parent, _ in rows.values()} - rows.keys())
    places = {key.id: (key.path, key.depth) for key in tree.keys(tx, outside)}
    for node_id in rows:
        chain = [node_id]
        while (parent := rows[chain[-1]][0]) not in places:
            chain.append(parent)
        for one in reversed(chain):
            path, depth = places[rows[one][0]]
            places[one] = (path_below(path, one), depth + 1)
    tx.executemany(
        "UPDATE node SET path = ?, depth = ? WHERE id = ?",
        [(*places[node_id], node_id) for node_id in rows],
    )


def _tops(paths: Sequence[str]) -> list[str]:
    """Those of some paths that lie below none of the others."""
    tops: list[str] = []
    for path in sorted(paths):
        if not tops or not path.startswith(tops[-1]):
            tops.append(path)
    return tops

"""What the tests of restoring share: whether the memory is as it was."""

from __future__ import annotations

from typing import Any

from hybridmem import Memory
from hybridmem.store import lexical, log, outbox, points
from hybridmem.store.paths import path_below
from hybridmem.text import terms
from tests.life import covered

Covered = dict[str, dict[str, Any]]

#: What a restore lets rise instead of taking it back.
RISING = ("version", "updated_at")


def head(memory: Memory) -> int:
    return memory.operations()[-1].sequence


def is_as_it_was(memory: Memory, then: Covered) -> None:
    """Every field of every memory and every pointer; what was not there is forgotten, or stands nowhere."""
    now = covered(memory)
    assert then.keys() <= now.keys()
    for name, values in now.items():
        if name in then:
            left, right = ({k: v for k, v in of.items() if k not in RISING} for of in (values, then[name]))
            assert left == right, name
            assert values.get("version", 0) >= then[name].get("version", 0)
        elif name.startswith("agent"):
            assert values == {"active task": None, "active node": None}
        else:
            assert values["state"] == "forgotten"


def indexes_follow(memory: Memory) -> None:
    """Paths, depths, lexical index, lengths, hashes and vectors say of every memory what its row says."""
    with memory._workspace.read() as tx:
        space = memory._workspace.id
        rows = tx.execute(
            "SELECT id, parent_id, path, depth, uid, terms FROM node WHERE namespace_id = ?", (space,)
        ).fetchall()
        paths = {row[0]: row[2] for row in rows}
        waiting = outbox.pending_ids(tx, space)
        embedded = tx.execute(
            "SELECT e.node_id FROM embedding e JOIN node n ON n.id = e.node_id AND n.revision_id = e.revision_id"
        ).fetchall()
        assert tx.execute("SELECT count(*) FROM embedding e WHERE piece = 0").fetchall() == [(len(embedded),)]
        for id, parent, path, depth, uid, length in rows:
            assert path == path_below("/" if parent is None else paths[parent], id)
            assert depth == path.count("/") - 2
            if parent is None:
                continue
            node = memory.get(uid)
            assert lexical.indexed(tx, id) == terms(node.content)
            assert length == len(terms(node.content))
            assert node.state != "live" or id in waiting or (id,) in embedded
        assert log.broken_at(tx, space) is None
        assert points.node_count(tx, space) == len(rows) - 1

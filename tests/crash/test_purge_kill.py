"""Killed in the middle of a purge: some batches are done, the rest is not, and never half a memory."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hybridmem import Memory, faults

from .helpers import QUIET, check_database, check_vectors, run

CHILD = """
os.environ["HYBRIDMEM_FAULT"] = sys.argv[2]
import hybridmem.faults
hybridmem.faults.arm()
Memory.open(sys.argv[1], config=QUIET | {"forgetting": {"batch": 3}}).purge_forgotten(0)
"""
#: Point → how many batches are done when it is passed for the second time.
POINTS = {
    **dict.fromkeys(faults.PURGE_POINTS, 1),
    "log.after_row": 1,
    "write.before_commit": 1,
    "write.after_commit": 2,
}


def whole(store: Path) -> dict[str, bool]:
    """Which memories have everything still (True), and which nothing (False); anything between is an error."""
    with closing(sqlite3.connect(store / "tree.db")) as conn:
        rows = conn.execute(
            """SELECT n.uid, n.id, n.terms, (SELECT count(*) FROM lexical WHERE rowid = n.id),
                (SELECT count(*) FROM embedding WHERE node_id = n.id),
                (SELECT max(length(content)) FROM revision WHERE node_id = n.id),
                (SELECT min(length(content)) FROM revision WHERE node_id = n.id),
                (SELECT max(metadata != '{}') FROM revision WHERE node_id = n.id)
            FROM node n WHERE n.state = 'forgotten' ORDER BY n.id"""
        ).fetchall()
        logged = {
            uid: "改 next" in payload
            for uid, payload in conn.execute(
                "SELECT node_uid, group_concat(payload) FROM operation WHERE kind = 'feedback' GROUP BY node_uid"
            )
        }
    found = {}
    for uid, _, *parts in rows:
        has = {bool(part) for part in parts} | {logged[uid]}
        assert len(has) == 1, f"{uid} is half there: {parts}, {logged[uid]}"
        found[uid] = has.pop()
    return found


@pytest.mark.parametrize("point", sorted(POINTS))
def test_never_half_a_memory(tmp_path: Path, point: str) -> None:
    store = tmp_path / "store"
    with Memory.open(store, config=QUIET) as memory:
        for number in range(10):
            one = memory.add(f"发票 INV-{number} 退回 returned", parent="root", metadata={"n": number}, id=f"i{number}")
            memory.update(one.id, content=f"发票 INV-{number} 补开 again")
            memory.feedback(one.id, helpful=True, note="改 next")
        memory.add("末 last", parent="root")
        memory.flush()
        for number in range(10):
            memory.forget(f"i{number}")
    assert set(whole(store).values()) == {True}
    assert run(CHILD, store, f"{point}:2").returncode == -9
    check_database(store)
    done = [uid for uid, is_there in whole(store).items() if not is_there]
    expected = 3 * POINTS[point]
    assert done == [f"i{number}" for number in range(expected)]
    with Memory.open(store, config=QUIET) as memory:
        assert memory.verify(replay=True).ok
        assert {node.id for node in memory.walk() if node.is_purged} == set(done)
        assert memory.restore_forgotten("i9").ids == ("i9",)
        assert memory.purge_forgotten(0).ids == tuple(f"i{number}" for number in range(expected, 9))
        assert memory.flush() == 0
        assert memory.verify(replay=True).ok
    check_vectors(store)

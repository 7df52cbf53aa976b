"""Killed at any point of a write, no acknowledged write is without its entry in the audit trail, no entry tells of a
write that was rolled back, and the chain holds."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hybridmem import Memory, faults

from .helpers import QUIET, run

CHILD = """
os.environ["HYBRIDMEM_FAULT"] = sys.argv[2]
import hybridmem.faults
hybridmem.faults.arm()
with Memory.open(sys.argv[1], config=QUIET, agent="写者 writer") as memory:
    for number in range(6):
        memory.get(memory.add(f"发票 INV-{number} 退回 returned", type="event").id)
        print(number, flush=True)
    memory.flush()
"""
POINTS = (
    "write.before_begin", "write.after_begin", "node.after_row", "log.after_row", "audit.after_row",
    "write.before_commit", "write.after_commit", "write.before_return", "close.before_session",
)  # fmt: skip


@pytest.mark.parametrize("point", [*(f"{point}:4" for point in POINTS[:-1]), POINTS[-1], "audit.after_flush:1"])
def test_entries_and_writes_agree(tmp_path: Path, point: str) -> None:
    store = tmp_path / "store"
    done = run(CHILD, store, point)
    assert done.returncode == -9, done.stderr
    acknowledged = len(done.stdout.split())
    with closing(sqlite3.connect(store / "tree.db")) as conn:
        logged = conn.execute("SELECT sequence, node_uid FROM operation WHERE kind = 'add' ORDER BY 1").fetchall()
        told = conn.execute(
            """SELECT json_extract(detail, '$.operations[0]'), node_uid FROM audit
            WHERE verb = 'add' AND outcome = 'ok' ORDER BY sequence"""
        ).fetchall()
        reads = conn.execute("SELECT count(*) FROM audit WHERE verb = 'get'").fetchone()[0]
    assert told == logged
    assert len(told) in (acknowledged, acknowledged + 1)
    assert reads >= len(told) - 1, "the read before a write has been written with it"
    with Memory.open(store, config=QUIET) as memory:
        assert memory.verify(replay=True).ok
        memory.add("继续 carry on")
        assert memory.verify().ok
        assert [one.sequence for one in memory.audit(limit=None)] == list(range(1, memory.audit(limit=1)[0].sequence))


def test_all_points_of_the_trail_are_died_at() -> None:
    assert set(faults.AUDIT_POINTS) <= {*POINTS, "audit.after_flush"}

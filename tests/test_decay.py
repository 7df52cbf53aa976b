"""Decay is computed, not stored: time and reading rewrite no row, whatever they do to the weights."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from hybridmem import Memory

OpenMemory = Callable[..., Memory]


@pytest.mark.parametrize("curve", ["half_life", "ebbinghaus"])
def test_time_and_reading_rewrite_no_row(memory: OpenMemory, clock: Any, rows: Any, curve: str) -> None:
    """Another connection sees no commit at all (PRAGMA data_version), and every row of each table is as it was, but for
    the entries of the audit trail, which is off here."""
    m = memory(weights={"curve": curve}, audit={"enabled": False})
    m.start_task("报销 claim")
    m.add_many(
        {"content": ("发票 {0}", "invoice {0}", "会议 meeting {0}")[n % 3].format(n), "id": f"i{n}"} for n in range(60)
    )
    m.flush()
    m.search("发票 invoice", 10)
    ids = [f"i{n}" for n in range(60)]
    weights, before = m.weights(ids), rows(m)
    with closing(sqlite3.connect(m.path / "tree.db")) as conn:
        version = conn.execute("PRAGMA data_version").fetchone()
        for _ in range(5):
            clock.advance(days=200)
            m.search("发票 invoice", 10)
            m.context("会议 meeting", token_budget=500)
            m.context(token_budget=500)
            m.weights(ids)
            m.forget(policy="decay", dry_run=True)
            m.purge_forgotten(dry_run=True)
        assert conn.execute("PRAGMA data_version").fetchone() == version
    assert rows(m) == before
    later = m.weights(ids)
    assert all(later[id] < weights[id] for id in ids), "they have decayed all the same"


def test_forgetting_writes_only_what_goes(memory: OpenMemory, clock: Any) -> None:
    m = memory(forgetting={"batch": 3})
    m.add_many({"content": f"条 item {n}", "parent": "root", "id": f"i{n}"} for n in range(40))
    m.add("末 last", parent="root")
    clock.advance(days=900)
    report = m.forget(policy="decay", limit=7)
    with closing(sqlite3.connect(m.path / "tree.db")) as conn:
        changed = conn.execute("SELECT uid FROM node WHERE version > 1 ORDER BY id").fetchall()
    assert sorted(row[0] for row in changed) == sorted(report.ids)
    assert len(report.ids) == 7

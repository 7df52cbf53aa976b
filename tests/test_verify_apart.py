"""What the log of one namespace cannot say, or is damaged in, is nothing to another one."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import hybridmem
from hybridmem import Memory

OpenMemory = Callable[..., Memory]
FOREIGN = ("客户 secret",)


def edit(directory: Path, statement: str, *values: Any) -> None:
    with closing(sqlite3.connect(directory / "tree.db")) as database, database:
        assert database.execute(statement, values).rowcount > 0


def two(memory: OpenMemory) -> tuple[Memory, Memory, str]:
    """A namespace whose log is from an earlier version, and another one with a task."""
    foreign, mine = memory(namespace=FOREIGN, agent="审计"), memory()
    foreign.add("old 旧")
    task = mine.start_task("报销 expense").id
    (payload,) = [one.payload for one in foreign.operations() if one.kind == "add"]
    del payload["version"], payload["active"]
    edit(mine.path, "UPDATE operation SET payload = ? WHERE kind = 'add' AND agent = '审计'", json.dumps(payload))
    return mine, foreign, task


def test_a_tree_edited_by_hand_is_told_whatever_the_log_of_another_cannot_say(memory: OpenMemory) -> None:
    mine, _, task = two(memory)
    assert mine.verify(replay=True).findings == ()
    edit(mine.path, "UPDATE node SET importance = 0.123 WHERE uid = ?", task)
    edit(mine.path, "UPDATE active SET node_id = NULL WHERE agent = '审计'")
    for report in (mine.verify(replay=True), hybridmem.verify(mine.path, replay=True)):
        assert [one.namespace for one in report.findings if one.kind == "replay"] == [("default",)]


def test_a_report_on_one_namespace_says_nothing_of_another(memory: OpenMemory) -> None:
    mine, foreign, task = two(memory)
    edit(mine.path, "UPDATE node SET importance = 0.123 WHERE uid = ?", task)
    edit(
        mine.path,
        "UPDATE operation SET payload = '{\"nodes\": 3}', kind = 'repair' WHERE sequence = 1 AND agent = '审计'",
    )
    said = json.dumps(mine.verify(replay=True).to_dict(), ensure_ascii=False)
    assert not [one for one in ("secret", "审计", foreign.root().id) if one in said]
    assert "importance is 0.123" in said


def test_what_is_lost_comes_back_whole_whatever_the_log_of_another_is(memory: OpenMemory) -> None:
    mine, _, _ = two(memory)
    node = mine.add("用户 user", type="fact", importance=0.9, occurred_at="2020-01-01")
    edit(
        mine.path,
        "UPDATE operation SET payload = '{\"nodes\": 3}', kind = 'repair' WHERE sequence = 1 AND agent = '审计'",
    )
    with closing(sqlite3.connect(mine.path / "tree.db")) as database, database:
        database.execute("DELETE FROM node WHERE uid = ?", (node.id,))
    mine.repair()
    assert replace(mine.get(node.id), created=True) == replace(node, created=True)

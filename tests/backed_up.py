"""What the tests of backups share."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from hybridmem import Memory
from hybridmem.backup import LOCK


def filled(memory: Memory) -> Memory:
    memory.start_task("企业报销任务 claim", next_step="提交")
    memory.add("用户张三，部门研发部", type="fact")
    memory.add("The invoice was returned: 信息不清晰", type="event")
    memory.flush()
    return memory


def rows_of(file: Path) -> dict[str, list[Any]]:
    with closing(sqlite3.connect(file)) as conn:
        tables = conn.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE '%VIRTUAL%'")
        return {table: conn.execute(f"SELECT * FROM {table}").fetchall() for (table,) in tables.fetchall()}


def names(directory: Path) -> list[str]:
    return sorted(entry.name for entry in directory.iterdir() if entry.name != LOCK)


def damage(file: Path, page: int) -> None:
    """Writes nonsense into the middle of a page of 4096 bytes."""
    with file.open("r+b") as opened:
        opened.seek((page - 1) * 4096 + 8)
        opened.write(b"\xff" * 2000)

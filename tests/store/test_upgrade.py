"""Stores written by earlier schemas open in this one, with everything in them.

``schema_1.db.gz`` is the ``tree.db`` of a store made when a content had one embedding: a task with three memories.
"""

from __future__ import annotations

import gzip
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hybridmem import Memory
from hybridmem.config import EmbeddingConfig
from hybridmem.pieces import pieces
from hybridmem.store.migrations import SCHEMA_VERSION

FILE = Path(__file__).with_name("schema_1.db.gz")
RULE = EmbeddingConfig()
CONFIG = {"embedding": {"provider": "hashing"}, "index": {"background": False}}


@pytest.fixture
def old(tmp_path: Path) -> Path:
    (tmp_path / "tree.db").write_bytes(gzip.decompress(FILE.read_bytes()))
    return tmp_path


def test_a_store_of_the_first_schema_keeps_its_memories_its_task_and_its_log(old: Path) -> None:
    with Memory.open(old, config=CONFIG) as memory:
        task = memory.active_task()
        assert task is not None
        assert (task.content, task.task and task.task.next_step) == (
            "企业报销任务 expense claims",
            "通知用户 tell the user",
        )
        assert [node.id for node in memory.children(task.id)] == ["person", "preference", "long"]
        assert memory.get("person").content == "用户张三，部门研发部"
        assert [operation.node_id for operation in memory.operations()][-3:] == ["person", "preference", "long"]
        assert memory.search("which channel does the user prefer, 短信?", k=1)[0].id == "preference"


def test_its_contents_are_embedded_again_in_pieces(old: Path) -> None:
    with Memory.open(old, config=CONFIG) as memory:
        assert memory.flush() == 0
        expected = {
            node.id: len(pieces(node.content, RULE.piece_tokens, RULE.piece_overlap))
            for node in memory.walk()
            if node.parent_id is not None
        }
    with closing(sqlite3.connect(old / "tree.db")) as database:
        counted = database.execute("SELECT n.uid, count(*) FROM embedding e JOIN node n ON n.id = node_id GROUP BY 1")
        assert dict(counted) == expected
        assert database.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
    assert expected["long"] > 3

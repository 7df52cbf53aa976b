"""Stores written by earlier schemas open in this one, with everything in them.

``schema_N.db.gz`` is the ``tree.db`` of a store with that schema: a task with three memories. With the first a content
had one embedding; the second has no claims; up to the third the embedding model could not be changed, and up to the
fourth no memory could stand for another, and up to the fifth nothing tells who did what; up to the sixth nothing can be
encrypted, and up to the seventh nothing shared; up to the
eighth nothing could be erased.
"""

from __future__ import annotations

import gzip
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hybridmem import Memory
from hybridmem.config import EmbeddingConfig
from hybridmem.pieces import pieces
from hybridmem.store import migrations as migrations_file
from hybridmem.store.migrations import SCHEMA_VERSION

HERE = Path(__file__).parent
SCHEMAS = sorted(int(file.name.split("_")[1].split(".")[0]) for file in HERE.glob("schema_*.db.gz"))
RULE = EmbeddingConfig()
CONFIG = {"embedding": {"provider": "hashing"}, "index": {"background": False}}


def unpacked(schema: int, directory: Path) -> Path:
    (directory / "tree.db").write_bytes(gzip.decompress((HERE / f"schema_{schema}.db.gz").read_bytes()))
    with closing(sqlite3.connect(directory / "tree.db")) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (schema,)
    return directory


@pytest.fixture(params=SCHEMAS)
def any_old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return unpacked(request.param, tmp_path)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return unpacked(1, tmp_path)


def test_a_store_of_any_schema_keeps_its_memories_its_task_and_its_log(any_old: Path) -> None:
    old = any_old
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


def test_there_is_a_store_of_every_earlier_schema() -> None:
    assert list(SCHEMAS) == list(range(1, SCHEMA_VERSION))


def schema(path: Path) -> dict[str, str]:
    """name → the statement that made it, of every table and index; blanks do not count."""
    with closing(sqlite3.connect(path / "tree.db")) as database:
        rows = database.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    return {name: " ".join(sql.split()) for name, sql in rows}


def test_an_old_store_has_the_tables_of_a_new_one_and_can_change_its_model(any_old: Path, tmp_path: Path) -> None:
    with Memory.open(any_old, config=CONFIG) as memory:
        assert memory.flush() == 0
        with Memory.open(tmp_path / "new", config=CONFIG):
            pass
        assert schema(any_old) == schema(tmp_path / "new")
    with Memory.open(any_old, config={**CONFIG, "embedding": {"provider": "hashing", "dimension": 48}}) as memory:
        assert memory.reembed().embedded == 4
        assert memory.search("which channel does the user prefer, 短信?", k=1)[0].id == "preference"
        assert memory.search("短信", k=1).warnings == ()


def test_the_version_counts_the_steps() -> None:
    """A step that is not counted would be taken only by stores that are new."""
    steps = [name for name in vars(migrations_file) if re.fullmatch(r"m\d{3}_\w+", name)]
    assert [int(name[1:4]) for name in steps] == list(range(1, SCHEMA_VERSION + 1))

"""Where an example happens: a copy of one store in a directory of its own, and what must hold of it afterwards."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from hybridmem import HybridMemError, Memory
from hybridmem.cli import main

from .documents import CHAT, LINES, TREE

CONFIG: dict[str, Any] = {
    "embedding": {"provider": "hashing", "dimension": 32},
    "index": {"background": False},
    "store": {"durability": "process", "busy_timeout_seconds": 0.2},
    "weights": {"count_uses": False},
}
#: What an error says has to be readable, whatever it is about.
MAX_MESSAGE = 4_500
#: Tables that say who has opened the store, and who has done or tried what.
NO_STATE = ("session", "audit", "audit_head")

Rows = dict[str, list[tuple[Any, ...]]]


class Clock:
    """A second later at each look, so that examples are the same every time."""

    def __init__(self) -> None:
        self._time = datetime(2026, 7, 2, 8, 0, tzinfo=timezone.utc)

    def now(self) -> datetime:
        self._time += timedelta(seconds=1)
        return self._time


def make(folder: Path) -> None:
    """The store that each example begins with, and the files beside it."""
    texts = {
        "lines.jsonl": "\n".join(json.dumps(line, ensure_ascii=False) for line in LINES),
        "tree.json": json.dumps(TREE),
        "chat.json": json.dumps(CHAT[:4]),
        "config.yaml": json.dumps(CONFIG),  # JSON is YAML
    }
    folder.mkdir(parents=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "folder").mkdir()
    (folder / "empty").touch()
    (folder / "link.db").symlink_to("store/tree.db")
    (folder / "linked").symlink_to("store")
    (folder / "loop").symlink_to("loop")
    with opened(folder) as memory:
        memory.import_(folder / "lines.jsonl")
        memory.merge_duplicates("note1", ["twin1"])
        memory.checkpoint("taken")
        memory.flush()
        memory.backup(folder / "taken.db")
    with opened(folder, ("acme", "张三")) as memory:
        memory.add("邻居的 neighbour's", id="fact1")


def opened(folder: Path, namespace: Sequence[str] = ("default",), **sections: Any) -> Memory:
    """The memory of an example."""
    return Memory.open(folder / "store", namespace=namespace, config={**CONFIG, **sections}, clock=Clock())


@dataclass(frozen=True)
class Ended:
    """How a command ended and what it printed."""

    code: int
    out: bytes
    err: str


class Arena:
    """One store, copied for each example."""

    def __init__(self, folder: Path) -> None:
        self._made = folder / "made"
        self._folder = folder / "example"
        make(self._made)

    @contextlib.contextmanager
    def example(self) -> Iterator[Path]:
        """The directory of an example, with a fresh copy of the store; taken away afterwards."""
        shutil.rmtree(self._folder, ignore_errors=True)
        shutil.copytree(self._made, self._folder, symlinks=True)
        try:
            yield self._folder
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)


def rows_of(store: Path) -> Rows:
    """Every row of every table but the parts of the word index, which ``lexical`` shows. Without those of namespaces
    that hold no memory: to open one makes it, and what is refused afterwards leaves it empty."""
    used = "(SELECT namespace_id FROM node WHERE depth > 0)"
    nodes = f"(SELECT id FROM node WHERE namespace_id IN {used})"
    owners = {"namespace_id": used, "node_id": nodes}
    found: Rows = {}
    with closing(sqlite3.connect(store / "tree.db")) as conn:
        for (name,) in conn.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            if name.startswith(("lexical_", "sqlite_")) or name in NO_STATE:
                continue
            columns = [column for _, column, *_ in conn.execute(f"PRAGMA table_info({name})").fetchall()]
            owner = next((column for column in owners if column in columns), None)
            own = {"namespace": f"id IN {used}", "lexical": f"rowid IN {nodes}"}.get(name, "1")
            where = own if owner is None else f"{owner} IN {owners[owner]}"
            found[name] = conn.execute(f"SELECT * FROM {name} WHERE {where}").fetchall()
    return found


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file, with its size and the moment of its last change; without databases, their companions and vectors.
    Without stores that hold no memory: to open one makes it."""
    found = {}
    empty = {database.parent for database in folder.rglob("tree.db") if _is_empty(database.parent)}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if name.startswith(("store/tree.db", "store/vectors", "store/store.lock")) or empty & {path, *path.parents}:
            continue
        status = path.lstat()
        found[name] = (status.st_size, status.st_mtime_ns) if path.is_file() else (0, 0)
    return found


def _is_empty(store: Path) -> bool:
    return not any(rows for name, rows in rows_of(store).items() if name == "node")


def sound(folder: Path, namespace: Sequence[str] = ("default",)) -> None:
    """Nothing is damaged, the tree is what the log says, and the next call works."""
    with opened(folder, namespace) as memory:
        report = memory.verify(replay=True)
        assert not report.findings, report.findings
        written = memory.add("继续 carry on", parent="root")
        assert memory.get(written.id).content == "继续 carry on"


def call(folder: Path, namespace: Sequence[str], run: Callable[[Memory], Any]) -> HybridMemError | None:
    """Runs it; what fails must fail by an error of ours that can be read, and leave every row as it was."""
    with opened(folder, namespace):
        pass  # so that the namespace is there
    before, files = rows_of(folder / "store"), listing(folder)
    try:
        with opened(folder, namespace) as memory:
            run(memory)
        return None
    except HybridMemError as error:
        readable(str(error))
        assert rows_of(folder / "store") == before, "a call that failed has written"
        assert listing(folder) == files, "a call that failed has left a file"
        return error
    finally:
        sound(folder, namespace)


def readable(message: str) -> None:
    """Says something, in a length that somebody reads."""
    assert message.strip()
    assert len(message) <= MAX_MESSAGE, f"{len(message)} characters: {message[:200]}"


def command(folder: Path, arguments: Sequence[str], stdin: bytes | None) -> Ended:
    """Runs the program in this process, in the directory of the example."""
    streams = [io.TextIOWrapper(io.BytesIO(given), encoding="utf-8") for given in (stdin or b"", b"", b"")]
    before, here = (sys.stdin, sys.stdout, sys.stderr), Path.cwd()
    environment = {name: value for name, value in os.environ.items() if name.startswith("HYBRIDMEM_")}
    for name in environment:
        del os.environ[name]
    os.environ |= {"HYBRIDMEM_STORE": "store", "HYBRIDMEM_CONFIG": "config.yaml", "HYBRIDMEM_DEBUG": "1"}
    os.chdir(folder)
    try:
        sys.stdin, sys.stdout, sys.stderr = streams
        code = main(arguments)
    finally:
        sys.stdin, sys.stdout, sys.stderr = before
        os.chdir(here)
        for name in ("HYBRIDMEM_STORE", "HYBRIDMEM_CONFIG", "HYBRIDMEM_DEBUG"):
            del os.environ[name]
        os.environ |= environment
    for stream in streams[1:]:
        stream.flush()
    out, err = (stream.buffer.getvalue() for stream in streams[1:])  # type: ignore[attr-defined]
    return Ended(code, out, err.decode("utf-8"))

"""Shared by the crash tests: children in real processes, and a thorough look at a store that nobody has open."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import hybridmem
from hybridmem import Memory
from hybridmem.config import EmbeddingConfig
from hybridmem.embed.hashing import HashingEmbedder
from hybridmem.index import ChromaIndex, collection_name
from hybridmem.index.chroma import ServerClient
from hybridmem.index.projection import DIRECTORY, FILES
from hybridmem.index.server import Server
from hybridmem.pieces import MOST, pieces
from hybridmem.store import lexical, log, outbox, points, tree
from hybridmem.store.connect import Connections
from hybridmem.store.directory import DATABASE_NAME
from hybridmem.store.paths import path_ids
from hybridmem.text import terms

ROOT = Path(hybridmem.__file__).resolve().parent.parent
DIMENSION = 32
#: The hashing embedder, and an index that is used for every search instead of from 10,000 nodes on.
CONFIG: dict[str, Any] = {
    "embedding": {"provider": "hashing", "dimension": DIMENSION},
    "index": {"exact_limit": 0, "batch_size": 16},
}
#: The same without a thread behind the writes: what is in Chroma then depends on flush() and search() alone.
QUIET: dict[str, Any] = {**CONFIG, "index": {**CONFIG["index"], "background": False, "batch_size": 500}}
NAMESPACE = ("default",)
#: Far longer than anything takes: only a hang reaches it.
TIMEOUT = 100.0

_PRELUDE = f"""
import json, os, signal, sys, threading, time
from pathlib import Path
from hybridmem import *
# A shell that starts tests in the background has them ignore Ctrl-C, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
CONFIG = json.loads({json.dumps(json.dumps(CONFIG))})
QUIET = json.loads({json.dumps(json.dumps(QUIET))})
def say(value):
    os.write(1, (json.dumps(value) + chr(10)).encode())
def wait():
    sys.stdin.readline()
"""


def environment() -> dict[str, str]:
    """That of this process, with the package under test first on the path of the child."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONFAULTHANDLER": "1"}


def command(code: str, *arguments: object) -> list[str]:
    """A child that runs ``code`` after the prelude; ``sys.argv[1:]`` are the arguments."""
    return [sys.executable, "-c", _PRELUDE + textwrap.dedent(code), *map(str, arguments)]


def run(code: str, *arguments: object, timeout: float = TIMEOUT) -> subprocess.CompletedProcess[str]:
    """Runs a child to its end, however that looks."""
    return subprocess.run(
        command(code, *arguments), env=environment(), capture_output=True, text=True, timeout=timeout, check=False
    )


def said(code: str, *arguments: object, timeout: float = TIMEOUT) -> list[Any]:
    """Runs a child that must end well; the values that it said."""
    done = run(code, *arguments, timeout=timeout)
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return [json.loads(line) for line in done.stdout.splitlines()]


class Child:
    """A child that runs beside the test; killed at the end of the ``with`` block if it still lives."""

    def __init__(self, code: str, *arguments: object) -> None:
        self.process = subprocess.Popen(
            command(code, *arguments),
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def hear(self) -> Any:
        """The next value it says."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the child ended with {self.process.wait()}: {self.process.communicate()[1]}"
        return json.loads(line)

    def go(self) -> None:
        """Lets a child that waits go on."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def kill(self, how: int = signal.SIGKILL) -> int:
        """Sends a signal and waits for the end; the return code."""
        self.process.send_signal(how)
        return self.process.wait(TIMEOUT)

    def end(self) -> list[Any]:
        """Waits for a good end; the values it said since."""
        out, err = self.process.communicate(timeout=TIMEOUT)
        assert self.process.returncode == 0, f"exit code {self.process.returncode}\n{out}\n{err}"
        return [json.loads(line) for line in out.splitlines()]


def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Waits for something that happens behind the scenes; generous, since machines can be slow."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.05)


def is_dirty(path: Path) -> bool:
    """Whether the last owner of the index died with it open (or somebody has it open now)."""
    with closing(sqlite3.connect(path / DATABASE_NAME)) as database:
        row = database.execute("SELECT value FROM setting WHERE key = ?", (FILES,)).fetchone()
    return row is not None and json.loads(row[0]) is None


def damaged(path: Path) -> list[str]:
    """The index directories that were moved aside."""
    return sorted(entry.name for entry in path.glob(f"{DIRECTORY}.damaged-*"))


def check_database(path: Path) -> dict[str, str]:
    """Everything in SQLite agrees with everything else. Returns id → content of the live nodes, the root left out."""
    with closing(sqlite3.connect(path / DATABASE_NAME)) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert raw.execute("PRAGMA foreign_key_check").fetchall() == []
        raw.execute("INSERT INTO lexical (lexical, rank) VALUES ('integrity-check', 1)")
        raw.rollback()
    connections = Connections(path)
    try:
        with connections.read() as tx:
            for namespace, names in points.namespaces(tx).items():
                assert log.broken_at(tx, namespace) is None, f"the log of {names} is broken"
                _check_tree(tx, namespace)
            namespace = points.namespace_id(tx, NAMESPACE)
            assert namespace is not None
            live = {row[0] for row in tree.scan(tx, namespace, [tree.root(tx, namespace).path])}
            nodes = tree.nodes(tx, sorted(live))
            root = tree.root(tx, namespace).id
            for node_id, node in nodes.items():
                wanted = [] if node_id == root else sorted(terms(node.content))
                assert sorted(lexical.indexed(tx, node_id)) == wanted, f"lexical index of {node.content!r}"
            entries = {row[0] for row in tx.execute("SELECT rowid FROM lexical")}
            # a content without any term has no entry; what is forgotten or archived keeps its own
            assert entries <= {row[0] for row in tx.execute("SELECT id FROM node")}
            return {node.id: node.content for node_id, node in nodes.items() if node_id != root}
    finally:
        connections.close()


def _check_tree(tx: sqlite3.Connection, namespace: int) -> None:
    """The paths, depths and counters follow from parent_id."""
    rows = tx.execute("SELECT id, parent_id, path, depth FROM node WHERE namespace_id = ?", (namespace,)).fetchall()
    parents = {row[0]: row[1] for row in rows}
    assert [one for one, parent in parents.items() if parent is None] == [tree.root(tx, namespace).id]
    for node_id, _, path, depth in rows:
        chain = [node_id]
        while (parent := parents[chain[-1]]) is not None:
            assert parent not in chain, f"a loop: {chain}"
            chain.append(parent)
        assert path_ids(path) == chain[::-1], f"the path of {node_id} is {path}, its ancestors are {chain}"
        assert depth == len(chain) - 1
    assert points.node_count(tx, namespace) == len(rows) - 1


def check_vectors(path: Path, url: str | None = None) -> None:
    """Nothing waits, and SQLite and Chroma (of the server at ``url``, if there is one) hold the embedder's vector of
    every live node, and no other."""
    assert url or not is_dirty(path)
    connections = Connections(path)
    try:
        with connections.read() as tx:
            namespace = points.namespace_id(tx, NAMESPACE)
            assert namespace is not None
            assert outbox.waiting(tx) == 0
            root = tree.root(tx, namespace)
            live = {row[0]: row[10] for row in tree.scan(tx, namespace, [root.path]) if row[0] != root.id}
            contents = {node_id: node.content for node_id, node in tree.nodes(tx, sorted(live)).items()}
            # What is forgotten or archived keeps its embedding, so that it comes back without the model.
            embedded = dict(
                tx.execute(
                    """SELECT node_id, e.revision_id FROM embedding e JOIN node n ON n.id = node_id
                    WHERE state = 'live'"""
                )
            )
            kept = outbox.vectors_of(tx, sorted(live))
            recorded = json.dumps(points.setting(tx, "embedding"))
    finally:
        connections.close()
    assert embedded == live, "the embeddings in SQLite are not those of the live nodes"
    ids = sorted(contents)
    wanted = {node_id: right_vectors(contents[node_id]) for node_id in ids}
    for node_id in ids:
        np.testing.assert_allclose(kept[node_id], wanted[node_id], atol=1e-6)
    if not kept and recorded == "null":  # nothing was ever embedded: there was nothing, or all of it was forgotten
        return
    held = chroma_vectors(path, recorded) if url is None else server_vectors(path, url)
    assert set(held) == {(node_id, piece) for node_id in ids for piece in range(len(wanted[node_id]))}, (
        "Chroma does not hold what is live"
    )
    for (node_id, piece), vector in held.items():
        np.testing.assert_allclose(vector, wanted[node_id][piece], atol=1e-5)


@cache
def right_vectors(content: str) -> Any:
    """(p, d) the embedder's vector of each piece of a content."""
    rule = EmbeddingConfig()
    return HashingEmbedder(DIMENSION).embed_documents(pieces(content, rule.piece_tokens, rule.piece_overlap))


def chroma_vectors(path: Path, recorded: str | None = None) -> dict[tuple[int, int], Any]:
    """(internal id, piece) → vector as Chroma has it, opened as the library does; from a copy, so nothing changes."""
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(path, copy, dirs_exist_ok=True)
        return _read_chroma(Path(copy), recorded)


def _read_chroma(path: Path, recorded: str | None) -> dict[tuple[int, int], Any]:
    index = open_chroma(path, recorded)
    try:
        return _read_index(index)
    finally:
        index.close()


def _read_index(index: ChromaIndex) -> dict[tuple[int, int], Any]:
    ids = sorted(index.ids())
    found: dict[tuple[int, int], Any] = {}
    for start in range(0, len(ids), 500):
        page = index._collection.get(ids=[str(one) for one in ids[start : start + 500]], include=["embeddings"])
        found.update(zip((divmod(int(one), MOST) for one in page["ids"]), page["embeddings"], strict=True))
    return found


def server_vectors(path: Path, url: str) -> dict[tuple[int, int], Any]:
    """(internal id, piece) → vector as the server has it, in the collection that the store points to."""
    with closing(sqlite3.connect(path / DATABASE_NAME)) as database:
        (pointer,) = database.execute("SELECT value FROM setting WHERE key = 'index_server:1'").fetchone()
    client = ServerClient(Server(url, TIMEOUT))
    try:
        return _read_index(ChromaIndex(client, json.loads(pointer)[0], DIMENSION, create=False))
    finally:
        client.close()


def collections_on(url: str) -> list[str]:
    client = ServerClient(Server(url, TIMEOUT))
    try:
        return sorted(one.name for one in client._api.list_collections())
    finally:
        client.close()


def open_chroma(path: Path, recorded: str | None = None) -> ChromaIndex:
    """The collection of the default namespace; nobody else may have the index open."""
    if recorded is None:
        with closing(sqlite3.connect(path / DATABASE_NAME)) as database:
            (recorded,) = database.execute("SELECT value FROM setting WHERE key = 'embedding'").fetchone()
    identity = json.loads(recorded)["identity"]
    key = json.dumps(identity, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return ChromaIndex(path / DIRECTORY, collection_name(NAMESPACE, key), DIMENSION)


def fill(path: Path, count: int) -> list[str]:
    """A store with ``count`` memories, Chinese, English and mixed, all of them in Chroma, closed. Their contents."""
    contents = [TEXTS[number % len(TEXTS)].format(number) for number in range(count)]
    with Memory.open(path, config=QUIET) as memory:
        memory.add_many([{"content": content, "type": "event"} for content in contents])
        assert memory.flush() == 0
    return contents


TEXTS = (
    "财务退回第{0}号报销单，原因是发票信息不清晰 marke{0}",
    "order {0} was shipped late and the customer asks for a refund marke{0}",
    "数据库 migration {0} 停机窗口是 Saturday 凌晨 marke{0}",
)

"""repair() of a store whose vectors are on a Chroma server, which is there, has lost them, holds others, or is away."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from chroma_server import ChromaServer, free_port

from hybridmem import Memory, repair, verify
from hybridmem.index import served
from hybridmem.index.chroma import ServerClient
from hybridmem.index.projection import DIRECTORY
from hybridmem.index.server import Server

from .helpers import QUIET, TEXTS, TIMEOUT, check_database, check_vectors, collections_on


def quiet(url: str) -> dict[str, Any]:
    return {**QUIET, "index": {**QUIET["index"], "url": url, "timeout_seconds": TIMEOUT}}


@pytest.fixture
def again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that was away is asked again at once."""
    monkeypatch.setattr(served, "RETRY_SECONDS", 0.0)


@pytest.fixture
def url(chroma_server: ChromaServer, again: None) -> str:
    return chroma_server.url


@pytest.fixture
def store(tmp_path: Path, url: str) -> Path:
    found = tmp_path / "店 store"
    with Memory.open(found, config=quiet(url)) as memory:
        memory.add_many([{"content": TEXTS[n % 3].format(n), "id": f"n{n}", "type": "event"} for n in range(30)])
        memory.forget("n29")
        assert memory.flush() == 0
    return found


def edit(store: Path, statement: str) -> None:
    with closing(sqlite3.connect(store / "tree.db")) as database, database:
        assert database.execute(statement).rowcount > 0


def drop_collection(url: str, store: Path) -> None:
    with closing(sqlite3.connect(store / "tree.db")) as database:
        [(value,)] = database.execute("SELECT value FROM setting WHERE key LIKE 'index_server:%'").fetchall()
    name = value.split('"')[1]
    client = ServerClient(Server(url, TIMEOUT))
    client.drop(name, keep=None)
    client.close()
    assert name not in collections_on(url)


def test_a_tree_edited_by_hand_and_vectors_that_are_gone_come_back(store: Path, url: str) -> None:
    edit(store, "UPDATE node SET depth = 7, path = '/1/' WHERE uid = 'n3'")
    edit(store, "DELETE FROM embedding WHERE node_id = (SELECT id FROM node WHERE uid = 'n5')")
    drop_collection(url, store)
    assert not verify(store).ok
    report = repair(store, config=quiet(url))
    assert report.ok, report.findings
    assert {one.kind for one in report.mended} == {"path", "unembedded"}
    assert report.counts["pending"] == 0
    assert (report.aside, (store / DIRECTORY).exists()) == ((), False)
    check_vectors(store, url)
    assert len(check_database(store)) == 29
    assert repair(store, config=quiet(url)).mended == ()


def test_by_a_handle_as_well(store: Path, url: str) -> None:
    edit(store, "DELETE FROM embedding WHERE node_id = (SELECT id FROM node WHERE uid = 'n5')")
    drop_collection(url, store)
    with Memory.open(store, config=quiet(url)) as memory:
        report = memory.repair()
        assert report.ok, report.findings
        assert memory.search(TEXTS[2].format(5), k=1)[0].id == "n5"
    check_vectors(store, url)


def test_a_server_that_is_away_keeps_nothing_else_from_being_mended(store: Path, url: str) -> None:
    edit(store, "UPDATE node SET depth = 7, path = '/1/' WHERE uid = 'n3'")
    edit(store, "DELETE FROM embedding WHERE node_id = (SELECT id FROM node WHERE uid = 'n5')")
    report = repair(store, config=quiet(f"http://127.0.0.1:{free_port()}"))
    assert report.ok, report.findings
    assert {one.kind for one in report.mended} == {"path", "unembedded"}
    assert report.counts["pending"] == 1
    assert not (store / DIRECTORY).exists()
    assert repair(store, config=quiet(url)).counts["pending"] == 0
    check_vectors(store, url)


def test_without_the_address_the_vectors_stay_where_they_are(store: Path, url: str) -> None:
    """``hybridmem doctor --fix`` may be asked without the configuration of those who use the store."""
    edit(store, "DELETE FROM embedding WHERE node_id = (SELECT id FROM node WHERE uid = 'n5')")
    before = collections_on(url)
    report = repair(store, config=QUIET)
    assert report.ok, report.findings
    assert collections_on(url) == before
    repair(store, config=quiet(url))
    check_vectors(store, url)

"""The vectors on a Chroma server (index.url): it may be away, killed, emptied or shared, and memory goes on."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest
from chroma_server import ChromaServer, SilentServer, free_port

from hybridmem import Memory
from hybridmem.errors import ConfigError
from hybridmem.index import served
from hybridmem.index.chroma import ServerClient
from hybridmem.index.projection import DIRECTORY
from hybridmem.index.server import Server

from .helpers import (
    QUIET,
    TEXTS,
    TIMEOUT,
    check_database,
    check_vectors,
    collections_on,
    until,
)
from .served import add, busy, by_vector, quiet


@pytest.fixture
def again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that was away is asked again, and one that answers is looked after, at once."""
    monkeypatch.setattr(served, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(served, "LOOK_SECONDS", 0.0)


def test_all_vectors_are_on_the_server_and_none_beside_the_store(tmp_path: Path, chroma_server: ChromaServer) -> None:
    store, url = tmp_path / "store", chroma_server.url
    with Memory.open(store, config=quiet(url)) as memory:
        assert (memory.stats().index, memory.stats().index_url) == ("not-opened", url)
        add(memory, 0, 300)
        memory.add("很长的内容 a long content。" * 200, id="long", parent="root")
        memory.update("n7", content="改过了 changed")
        assert memory.flush() == 0
        assert memory.stats().index == "ready"
        assert by_vector(memory, 9)
        memory.update("n9", content="又改过了 changed again")
        memory.update("long", content="短了 short now")
        assert memory.flush() == 0
    check_vectors(store, url)
    assert not (store / DIRECTORY).exists()
    with Memory.open(store, config=quiet(url)) as memory:
        found = memory.search(TEXTS[0].format(12), k=1)
        assert (found[0].id, found.warnings) == ("n12", ())
        assert by_vector(memory, 12)


@pytest.mark.parametrize("comes_back", ["as it was", "with nothing"])
def test_a_server_killed_while_it_is_filled_costs_nothing_and_catches_up(
    tmp_path: Path, server: ChromaServer, data: Path, again: None, comes_back: str
) -> None:
    store, url = tmp_path / "store", server.url
    with Memory.open(store, config=busy(url)) as memory:
        add(memory, 0, 100)
        until(lambda: memory.pending() < 60)
        server.kill()
        for one in range(100, 200):
            add(memory, one, 1)
        memory.update("n3", content="改过了 changed meanwhile")
        until(lambda: memory.stats().index == "unavailable")
        assert "refused" in (memory.stats().index_reason or "").lower()
        found = memory.search(TEXTS[2].format(170), k=3)
        assert found[0].id == "n170"
        assert any("unavailable" in warning for warning in found.warnings)
        assert memory.search("changed meanwhile 改过了", k=1)[0].id == "n3"
        assert memory.pending() > 0
        if comes_back == "with nothing":
            shutil.rmtree(data)
        server.start(data)
        until(lambda: memory.pending() == 0 and memory.stats().index == "ready")
        assert all(by_vector(memory, one) for one in range(10, 200, 10))
        assert memory.search(TEXTS[2].format(170), k=3).warnings == ()
        check_vectors(store, url)
    assert len(check_database(store)) == 200


def test_an_idle_server_that_lost_everything_is_noticed_and_filled(
    tmp_path: Path, server: ChromaServer, data: Path, again: None
) -> None:
    """Nobody writes and nobody searches: the owner looks by itself."""
    store = tmp_path / "store"
    with Memory.open(store, config=busy(server.url)) as memory:
        add(memory, 0, 50)
        until(lambda: memory.pending() == 0)
        server.kill()
        shutil.rmtree(data)
        server.start(data)
        until(lambda: collections_on(server.url) != [])
        until(lambda: memory.stats().index == "ready")
        check_vectors(store, server.url)
        # By the same way, one from which somebody deleted the collection.
        client = memory._indexer._shared._client
        client.drop("", keep=None)
        until(lambda: collections_on(server.url) != [])
        until(lambda: memory.stats().index == "ready")
        check_vectors(store, server.url)


def test_a_server_with_an_older_state_is_noticed_by_more_than_its_ids(
    tmp_path: Path, server: ChromaServer, data: Path
) -> None:
    """Restored from a backup it has the same ids, but the vectors of contents that have changed since."""
    store = tmp_path / "store"
    with Memory.open(store, config=quiet(server.url)) as memory:
        add(memory, 0, 40)
        assert memory.flush() == 0
        server.kill()
        shutil.copytree(data, tmp_path / "backup")
        server.start(data)
        for one in range(10):
            memory.update(f"n{one}", content=f"第{one}条改过了 changed {one}")
        assert memory.flush() == 0
        check_vectors(store, server.url)
        server.kill()
        server.start(tmp_path / "backup")
        assert memory.flush() == 0
        check_vectors(store, server.url)
    with Memory.open(store, config=quiet(server.url)) as memory:
        assert memory.flush() == 0
    assert len(collections_on(server.url)) == 1, "the older one went"


def test_nothing_waits_for_a_server_that_does_not_answer(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with (
        SilentServer() as silent,
        Memory.open(store, config=busy(silent.url, timeout_seconds=3_000.0, exact_limit=1_000)) as memory,
    ):
        try:
            add(memory, 0, 20)
            assert silent.asked.wait(TIMEOUT), "the indexer waits for its answer from here on"
            done: list[str] = []
            worker = threading.Thread(target=lambda: done.extend(write_and_read(store, memory)))
            worker.start()
            worker.join(TIMEOUT)
            assert done == ["n25", "n26", "n26"]
            assert len(silent.requests) == 1, "it waits still"
        finally:
            silent.hang_up()


def write_and_read(store: Path, memory: Memory) -> list[str]:
    add(memory, 20, 6)
    with Memory.open(store, config=QUIET, agent="other") as other:  # whose writes a transaction would hold up
        add(other, 26, 1)
    found = [memory.search(TEXTS[one % 3].format(one), k=1)[0].id for one in (25, 26)]
    memory.checkpoint("名字 name")
    return [*found, memory.children(memory.root().id)[-1].id]


def test_the_wait_for_a_silent_server_is_paid_once_not_by_every_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        SilentServer() as silent,
        Memory.open(tmp_path / "store", config=quiet(silent.url, timeout_seconds=0.2)) as memory,
    ):
        add(memory, 0, 20)
        monkeypatch.setattr(served, "RETRY_SECONDS", 3_000.0)
        assert memory.flush() == 20
        asked = len(silent.requests)
        for one in range(5):
            found = memory.search(TEXTS[0].format(3 * one), k=1)
            assert found[0].id == f"n{3 * one}"
            assert memory._indexer.drain() == 20
        assert len(silent.requests) == asked
        assert memory.flush() == 20
        assert len(silent.requests) > asked, "flush() is a request to try again"


def test_a_search_that_meets_a_server_that_is_gone_answers_with_a_warning(tmp_path: Path, server: ChromaServer) -> None:
    with Memory.open(tmp_path / "store", config=quiet(server.url, timeout_seconds=5.0)) as memory:
        add(memory, 0, 60)
        assert memory.flush() == 0
        server.pause()
        found = memory.search(TEXTS[1].format(31), k=3)
        assert found[0].id == "n31"
        assert found[0].score_details.vector is not None, "compared exactly, with the vectors in SQLite"
        assert any("unavailable" in warning for warning in found.warnings)
        server.go_on()
        assert memory.flush() == 0
        assert memory.search(TEXTS[1].format(31), k=3).warnings == ()


def test_a_search_does_not_wait_for_the_round_that_the_indexer_is_at(
    tmp_path: Path, chroma_server: ChromaServer
) -> None:
    """With a slow server it makes many requests, each within its time; a search has to wait for its own only."""
    with Memory.open(tmp_path / "store", config=quiet(chroma_server.url)) as memory:
        add(memory, 0, 60)
        assert memory.flush() == 0
        found: list[str] = []
        worker = threading.Thread(target=lambda: found.append(memory.search(TEXTS[1].format(31), k=1)[0].id))
        with memory._indexer._working, memory._indexer._shared._guard:
            worker.start()
            worker.join(20.0)
            answered = list(found)
        worker.join(TIMEOUT)
        assert answered == ["n31"]
        assert memory.stats().index == "ready"


def test_a_small_scope_asks_no_server(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "store", config=quiet(f"http://127.0.0.1:{free_port()}", exact_limit=100)) as memory:
        add(memory, 0, 20)
        found = memory.search(TEXTS[0].format(3), k=1)
        assert (found[0].id, found.warnings) == ("n3", ())
        assert memory.stats().index == "not-opened"


def test_collections_are_dropped_among_any_number_of_others(server: ChromaServer) -> None:
    client = ServerClient(Server(server.url, TIMEOUT))
    for one in range(130):
        client.get_or_create_collection(f"other-{one:04}", embedding_function=None, configuration={})
    for one in range(3):
        client.get_or_create_collection(f"zz-mine-{one}", embedding_function=None, configuration={})
    client.drop("zz-mine-", keep="zz-mine-1")
    client.close()
    left = collections_on(server.url)
    assert len(left) == 131
    assert "zz-mine-1" in left


class TestBuilding:
    @pytest.fixture(autouse=True)
    def small_batches(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(QUIET["index"], "batch_size", 10)

    def test_the_old_collection_goes_when_the_new_one_is_complete(self, tmp_path: Path, server: ChromaServer) -> None:
        with Memory.open(tmp_path / "store", config=quiet(server.url)) as memory:
            add(memory, 0, 50)
            assert memory.flush() == 0
            before = collections_on(server.url)
            shared = memory._indexer._shared
            shared._opened.clear()
            shared._suspect.add(memory._workspace.id)
            memory._indexer._check()
            assert (len(collections_on(server.url)), memory.stats().index) == (2, "building")
            assert before[0] in collections_on(server.url)
            assert by_vector(memory, 7), "the old one answers meanwhile"
            assert memory._indexer.drain(0.0) > 0, "it is not done yet, though nothing is in the outbox"
            add(memory, 50, 5)
            memory.update("n1", content="盖的时候改的 changed while it was built")
            assert memory.flush() == 0
            after = collections_on(server.url)
            assert len(after) == 1
            assert after != before
        check_vectors(tmp_path / "store", server.url)

    def test_one_that_was_cut_off_in_the_middle_is_begun_again(self, tmp_path: Path, server: ChromaServer) -> None:
        """What was written to it may be outdated by the time somebody goes on."""
        store = tmp_path / "store"
        with Memory.open(store, config=quiet(server.url)) as memory:
            add(memory, 0, 50)
            assert memory.flush() == 0
            shared = memory._indexer._shared
            shared._suspect.add(memory._workspace.id)
            memory._indexer._check()
            for _ in range(3):
                assert memory._indexer._push()
            assert memory.stats().index == "building"
        assert len(collections_on(server.url)) == 2
        with Memory.open(store, config=quiet(server.url)) as memory:
            memory.update("n1", content="后来改的 changed later")
            memory.archive("n2")  # it is in what was begun
            assert memory.flush() == 0
            shared = memory._indexer._shared
            shared._suspect.add(memory._workspace.id)
            assert memory.flush() == 0
        assert len(collections_on(server.url)) == 1
        check_vectors(store, server.url)

    def test_a_server_that_is_emptied_while_one_is_built_gets_all_of_it(
        self, tmp_path: Path, server: ChromaServer, data: Path
    ) -> None:
        with Memory.open(tmp_path / "store", config=quiet(server.url)) as memory:
            add(memory, 0, 50)
            assert memory.flush() == 0
            memory._indexer._shared._suspect.add(memory._workspace.id)
            memory._indexer._check()
            assert memory._indexer._push()
            server.kill()
            shutil.rmtree(data)
            server.start(data)
            memory.flush()  # this one meets a collection that is gone
            assert memory.flush() == 0
            assert memory.stats().index == "ready"
        check_vectors(tmp_path / "store", server.url)


class TestHeaders:
    def test_they_come_from_the_environment_and_are_shown_nowhere(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setenv("CHROMA_AUTHORIZATION", "Bearer geheim-秘密".encode().hex())
        secret = "Bearer geheim-秘密".encode().hex()
        with SilentServer() as silent:
            config = quiet(silent.url, timeout_seconds=0.2, headers_env={"Authorization": "CHROMA_AUTHORIZATION"})
            with Memory.open(tmp_path / "store", config=config) as memory:
                add(memory, 0, 1)
                assert memory.flush() == 1
                said = f"{memory.stats()} {memory.config} {memory._indexer._shared.server} {caplog.text}"
                assert "unavailable" in said
                assert secret not in said
            assert f"authorization: {secret}".encode() in silent.requests[0].lower()

    def test_one_that_is_not_set_is_an_error_at_once(self, tmp_path: Path) -> None:
        config = quiet("http://127.0.0.1:1", headers_env={"Authorization": "NOT_SET_ANYWHERE"})
        with pytest.raises(ConfigError, match=r"index\.headers_env\.Authorization.*NOT_SET_ANYWHERE"):
            Memory.open(tmp_path / "store", config=config)
        assert not (tmp_path / "store").exists()


def test_a_proxy_of_the_environment_is_not_asked_for_a_server_on_this_machine(
    tmp_path: Path, chroma_server: ChromaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    with Memory.open(tmp_path / "store", config=quiet(chroma_server.url)) as memory:
        add(memory, 0, 5)
        assert memory.flush() == 0

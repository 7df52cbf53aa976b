"""A Chroma server that several stores and processes share; and moving the vectors from one place to another."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from chroma_server import ChromaServer

from hybridmem import IndexUnavailable, Memory
from hybridmem.embed.hashing import HashingEmbedder

from .helpers import (
    DIMENSION,
    QUIET,
    TEXTS,
    Child,
    check_database,
    check_vectors,
    said,
)
from .served import add, busy, by_vector, quiet


class TestSharing:
    def test_two_stores_with_the_same_names_do_not_see_each_other(
        self, tmp_path: Path, chroma_server: ChromaServer
    ) -> None:
        url = chroma_server.url
        with (
            Memory.open(tmp_path / "one", config=quiet(url)) as one,
            Memory.open(tmp_path / "two", config=quiet(url)) as two,
        ):
            add(one, 0, 30)
            add(two, 100, 20)
            assert (one.flush(), two.flush()) == (0, 0)
            one.update("n3", content="只在一个里 in one only")
            assert (one.flush(), two.flush()) == (0, 0)
        check_vectors(tmp_path / "one", url)
        check_vectors(tmp_path / "two", url)

    def test_nor_do_a_store_and_its_copy(self, tmp_path: Path, chroma_server: ChromaServer) -> None:
        """The copy has the same ids and, at first, the same pointers: writing to it must not change the original."""
        url = chroma_server.url
        with Memory.open(tmp_path / "one", config=quiet(url)) as memory:
            add(memory, 0, 30)
            assert memory.flush() == 0
        shutil.copytree(tmp_path / "one", tmp_path / "two")
        with Memory.open(tmp_path / "two", config=quiet(url)) as memory:
            for number in range(10):
                memory.update(f"n{number}", content=f"副本改过了 the copy has changed {number}")
            assert memory.flush() == 0
        check_vectors(tmp_path / "one", url)
        check_vectors(tmp_path / "two", url)
        with Memory.open(tmp_path / "one", config=quiet(url)) as memory:
            assert memory.flush() == 0
            assert by_vector(memory, 5)

    def test_three_processes_write_and_search_by_one_server(self, tmp_path: Path, chroma_server: ChromaServer) -> None:
        store, url = tmp_path / "store", chroma_server.url
        code = """
            config = json.loads(sys.argv[3])
            with Memory.open(sys.argv[1], config=config, agent=sys.argv[2]) as memory:
                say("open")
                wait()
                for one in range(60):
                    memory.add(f"第{one}条 memory of {sys.argv[2]}", id=f"{sys.argv[2]}-{one}", parent="root")
                    if one % 20 == 0:
                        assert memory.search(f"第{one}条 memory of {sys.argv[2]}", k=5)
                while memory.pending():
                    time.sleep(0.05)
                vector = memory._model.get()[0].embed_query(f"第7条 memory of {sys.argv[2]}")
                # the owner or not: every process asks the server
                say([memory.stats().index, len(memory._indexer.query(memory._workspace.id, vector, 5))])
        """
        arguments = (store, json.dumps(busy(url)))
        with (
            Child(code, store, "甲", arguments[1]) as first,
            Child(code, store, "b", arguments[1]) as second,
            Child(code, store, "c", arguments[1]) as third,
        ):
            children = (first, second, third)
            assert [child.hear() for child in children] == ["open"] * 3
            for child in children:
                child.go()
            assert [child.end()[-1][1] for child in children] == [5, 5, 5]
        check_vectors(store, url)
        assert len(check_database(store)) == 180

    def test_a_killed_owner_is_followed_by_the_next_process(self, tmp_path: Path, chroma_server: ChromaServer) -> None:
        store, url = tmp_path / "store", chroma_server.url
        code = """
            memory = Memory.open(sys.argv[1], config=json.loads(sys.argv[2]))
            for one in range(100_000):
                memory.add(f"第{one}条 written", parent="root")
                if one == 100:
                    say(one)
        """
        for _ in range(3):
            with Child(code, store, json.dumps(busy(url))) as child:
                assert child.hear() == 100
                child.kill()
        with Memory.open(store, config=quiet(url)) as memory:
            assert memory.flush() == 0
        check_vectors(store, url)

    def test_whoever_closes_lets_another_process_be_the_owner(
        self, tmp_path: Path, chroma_server: ChromaServer
    ) -> None:
        store, url = tmp_path / "store", chroma_server.url
        with Memory.open(store, config=quiet(url)) as memory:
            add(memory, 0, 5)
            assert memory.flush() == 0
        code = """
            with Memory.open(sys.argv[1], config=json.loads(sys.argv[2])) as memory:
                memory.add("另一个进程写的 by another process", parent="root")
                say(memory.flush())
        """
        assert said(code, store, json.dumps(quiet(url))) == [0]
        check_vectors(store, url)

    def test_single_vectors_that_somebody_removed_or_added_are_put_right_at_opening(
        self, tmp_path: Path, chroma_server: ChromaServer
    ) -> None:
        store, url = tmp_path / "store", chroma_server.url
        with Memory.open(store, config=quiet(url)) as memory:
            add(memory, 0, 40)
            assert memory.flush() == 0
            index = memory._indexer._shared._opened[memory._workspace.id].index
            index.delete(sorted(index.ids())[:9])
            index.upsert([999_936], HashingEmbedder(DIMENSION).embed_documents(["不认识 unknown"]))
        with Memory.open(store, config=quiet(url)) as memory:
            assert memory.flush() == 0
        check_vectors(store, url)


class TestMoving:
    def test_from_files_to_a_server_and_back_nothing_outdated_is_taken_up(
        self, tmp_path: Path, chroma_server: ChromaServer
    ) -> None:
        """Each place has the ids of before and old vectors for contents that were changed while the other was used."""
        store, url = tmp_path / "store", chroma_server.url
        for round, place in enumerate((None, url, None, url)):
            with Memory.open(store, config=QUIET if place is None else quiet(place)) as memory:
                if round == 0:
                    add(memory, 0, 40)
                else:
                    memory.update(f"n{round}", content=f"第{round}次改 changed in round {round}")
                    memory.update("n9", content=f"每次都改 changed each time {round}")
                assert memory.flush() == 0
            check_vectors(store, place)

    def test_from_one_server_to_another_and_back(
        self, tmp_path: Path, chroma_server: ChromaServer, server: ChromaServer
    ) -> None:
        store = tmp_path / "store"
        for round, url in enumerate((server.url, chroma_server.url, server.url)):
            with Memory.open(store, config=quiet(url)) as memory:
                if round == 0:
                    add(memory, 0, 40)
                else:
                    memory.update("n9", content=f"每次都改 changed each time {round}")
                assert memory.flush() == 0
            check_vectors(store, url)

    def test_two_handles_of_one_process_cannot_have_them_in_two_places(
        self, tmp_path: Path, chroma_server: ChromaServer
    ) -> None:
        """They share the lock of the owner: each would take half of the outbox."""
        with (
            Memory.open(tmp_path / "store", config=QUIET) as one,
            Memory.open(tmp_path / "store", config=quiet(chroma_server.url)) as two,
        ):
            add(one, 0, 5)
            assert one.flush() == 0
            with pytest.raises(IndexUnavailable, match=r"index\.url"):
                two.flush()
            assert two.search(TEXTS[0].format(3), k=1)[0].id == "n3"

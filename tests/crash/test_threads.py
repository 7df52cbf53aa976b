"""Threads on one handle: everything is found, nothing raises, and closing is clean at any moment."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hybridmem import Memory, StoreClosed

from .helpers import CONFIG, QUIET, check_database, check_vectors, said

TEXT = "{} 号线程写的第{}条 thread memory markt{}x{}"


def test_eight_threads_add_and_search_on_one_handle(tmp_path: Path) -> None:
    with Memory.open(tmp_path, config={**CONFIG, "store": {"busy_timeout_seconds": 60.0}}) as memory:
        start = threading.Barrier(8)

        def work(number: int) -> int:
            start.wait()
            for position in range(25):
                content = TEXT.format(number, position, number, position)
                node = memory.add(content, type="event")
                found = memory.search(f"markt{number}x{position}", k=3)
                assert node.id in {hit.id for hit in found}, content
                assert memory.get(node.id).content == content
            return 25

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(work, range(8))) == 200
        found = memory.search("thread memory", k=1000)
        assert len({hit.id for hit in found}) == 200
        assert memory.flush() == 0
    assert len(check_database(tmp_path)) == 200
    check_vectors(tmp_path)


def test_two_handles_of_one_process_share_store_and_index(tmp_path: Path) -> None:
    with (
        Memory.open(tmp_path, config=CONFIG) as one,
        Memory.open(tmp_path / "." / ".." / tmp_path.name, config=CONFIG, agent="other") as two,
    ):
        for number in range(20):
            one.add(f"甲写的 {number} one")
            two.add(f"乙写的 {number} two")
        assert len(one.search("写的 one two", k=100)) == len(two.search("写的 one two", k=100)) == 40
        assert one.flush() == two.flush() == 0
        one.close()
        two.add("甲关了 the first one is closed")
        assert two.flush() == 0
        assert two.stats().index == "ready"
        assert two.search("first one is closed", k=1)[0].content.startswith("甲关了")
    assert len(check_database(tmp_path)) == 41
    check_vectors(tmp_path)


def test_close_while_the_indexer_works_waits_for_it_and_twice_is_fine(tmp_path: Path) -> None:
    memory = Memory.open(tmp_path, config=CONFIG)
    memory.add_many([{"content": f"很多 many {number}"} for number in range(500)])
    memory.close()
    memory.close()
    assert len(check_database(tmp_path)) == 500
    check_vectors(tmp_path)


def test_close_without_patience_leaves_the_rest_to_the_next_process(tmp_path: Path) -> None:
    with Memory.open(tmp_path, config={**CONFIG, "index": {**CONFIG["index"], "close_wait_seconds": 0.0}}) as memory:
        memory.add_many([{"content": f"很多 many {number}"} for number in range(500)])
    assert len(check_database(tmp_path)) == 500
    with Memory.open(tmp_path, config=QUIET) as memory:
        assert memory.flush() == 0
    check_vectors(tmp_path)


def test_every_call_after_close_raises_store_closed(tmp_path: Path) -> None:
    memory = Memory.open(tmp_path, config=CONFIG)
    node = memory.add("关闭 closed")
    memory.close()
    calls: list[Callable[[], object]] = [
        lambda: memory.add("x"),
        lambda: memory.add_many([{"content": "x"}]),
        lambda: memory.get(node.id),
        lambda: memory.search("closed"),
        lambda: memory.context("closed"),
        lambda: memory.resume(),
        lambda: memory.checkpoint(),
        lambda: memory.stats(),
        lambda: memory.flush(),
        lambda: list(memory.walk()),
        lambda: memory.start_task("x"),
        lambda: memory.active_task(),
    ]
    for call in calls:
        with pytest.raises(StoreClosed, match="closed"):
            call()
    assert len(check_database(tmp_path)) == 1


def test_close_under_working_threads_gives_them_store_closed_and_nothing_else(tmp_path: Path) -> None:
    """In a child, since a connection that is closed under a running statement could crash the interpreter."""
    for _ in range(2):
        names = said(
            """
            memory = Memory.open(sys.argv[1], config=CONFIG)
            ends = []

            def work(number):
                try:
                    while True:
                        memory.add(f"线程 thread {number}", type="event")
                        memory.search("thread 线程", k=3)
                except BaseException as error:
                    ends.append(f"{type(error).__name__}: {error}")

            threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
            for thread in threads:
                thread.start()
            time.sleep(0.4)
            memory.close()
            for thread in threads:
                thread.join()
            say(ends)
            """,
            tmp_path,
        )[0]
        assert len(names) == 6
        assert [name for name in names if not name.startswith("StoreClosed")] == []
    check_database(tmp_path)


def test_threads_that_end_give_their_descriptors_back(tmp_path: Path) -> None:
    """A server makes a thread for each request; a thousand of them must not use up the files of the process."""
    (most,) = said(
        """
        memory = Memory.open(sys.argv[1], config=QUIET)
        memory.add("请求 request")
        for _ in range(60):
            thread = threading.Thread(target=memory.search, args=("request",))
            thread.start()
            thread.join()
        say(len(os.listdir("/proc/self/fd")))
        memory.close()
        """,
        tmp_path,
    )
    assert most < 60

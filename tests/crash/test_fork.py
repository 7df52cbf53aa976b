"""A handle does not survive a fork: the child is told at once and opens the store anew."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from hybridmem import Memory

from .helpers import QUIET, check_database, check_vectors, damaged, said

#: Runs ``child`` in a fork and says how it ended: its exit code, or "hangs".
FORK = """
    def fork(child):
        pid = os.fork()
        if not pid:
            try:
                child()
            except BaseException as error:
                os.write(2, repr(error).encode())
                os._exit(1)
            os._exit(0)
        for _ in range(200):
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.05)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return "hangs"

    def refused(call, *arguments, **named):
        try:
            call(*arguments, **named)
        except StoreClosed as error:
            assert "fork" in str(error), error
        else:
            raise AssertionError(f"{call} was not refused")
"""


def test_every_call_on_an_inherited_handle_raises_store_closed_at_once(tmp_path: Path) -> None:
    assert said(
        FORK
        + """
    memory = Memory.open(sys.argv[1], config=QUIET)
    node = memory.add("父进程 parent", type="fact")
    task = memory.start_task("任务 task")
    memory.flush()
    memory.search("parent")

    def child():
        refused(memory.add, "子进程 child")
        refused(memory.add_many, [{"content": "child"}])
        refused(memory.update, node.id, content="changed")
        refused(memory.move, node.id, "root")
        refused(memory.start_task, "another")
        refused(memory.finish_task)
        refused(memory.get, node.id)
        refused(memory.children)
        refused(lambda: list(memory.walk()))
        refused(memory.search, "parent")
        refused(memory.context, "parent")
        refused(memory.resume)
        refused(memory.checkpoint)
        refused(memory.stats)
        refused(memory.flush)
        refused(memory.active_task)
        memory.close()
        memory.close()

    say(fork(child))
    memory.add("父进程继续 the parent goes on")
    say(memory.flush())
    memory.close()
    """,
        tmp_path,
    ) == [0, 0]
    assert len(check_database(tmp_path)) == 3
    check_vectors(tmp_path)


def test_a_fork_while_other_threads_work_does_not_hang_the_child(tmp_path: Path) -> None:
    """Whatever lock a thread held in the parent is held for ever in the child."""
    answers = said(
        FORK
        + """
    memory = Memory.open(sys.argv[1], config=CONFIG)
    stop = threading.Event()

    def work(number):
        while not stop.is_set():
            memory.add(f"线程 thread {number}", type="event")
            memory.search("thread 线程", k=3)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)

    def child():
        refused(memory.search, "thread")
        refused(memory.add, "child")
        refused(memory.flush)
        refused(memory.stats)
        memory.close()

    for _ in range(8):
        say(end := fork(child))
        if end == "hangs":
            break
        time.sleep(0.02)
    stop.set()
    for thread in threads:
        thread.join()
    memory.close()
    """,
        tmp_path,
    )
    assert answers == [0] * 8
    check_database(tmp_path)


def test_a_forked_child_opens_the_store_anew_and_leaves_the_index_alone(tmp_path: Path) -> None:
    """Chroma cannot be used in the child of a process that used it: that searches exactly, and moves nothing aside."""
    assert said(
        FORK
        + """
    memory = Memory.open(sys.argv[1], config=QUIET)
    memory.add("父进程 parent invoice")
    memory.flush()
    memory.close()

    def child():
        with Memory.open(sys.argv[1], config=QUIET) as mine:
            mine.add("子进程 child invoice")
            assert {hit.content for hit in mine.search("invoices")} == {"父进程 parent invoice", "子进程 child invoice"}
            assert all(hit.score_details.vector is not None for hit in mine.search("invoices"))
            assert mine.flush() == 1
            assert mine.stats().index == "unavailable"

    say(fork(child))
    """,
        tmp_path,
    ) == [0]
    assert damaged(tmp_path) == []
    with Memory.open(tmp_path, config=QUIET) as memory:
        assert memory.flush() == 0
    assert len(check_database(tmp_path)) == 2
    check_vectors(tmp_path)
    assert damaged(tmp_path) == []


def test_a_child_that_ends_like_any_program_does_the_parent_no_harm(tmp_path: Path) -> None:
    """Its interpreter lets go of the inherited connections; the parent's transactions and locks must not notice."""
    assert (
        said(
            """
        memory = Memory.open(sys.argv[1], config=CONFIG)
        for number in range(6):
            memory.add(f"第{number}条 before", type="event")
            pid = os.fork()
            if not pid:
                sys.exit(0)
            memory.add(f"第{number}条 after", type="event")
            say(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        memory.flush()
        memory.close()
        """,
            tmp_path,
        )
        == [0] * 6
    )
    assert len(check_database(tmp_path)) == 12
    check_vectors(tmp_path)


def test_a_fork_before_the_first_use_of_chroma_uses_it(tmp_path: Path) -> None:
    assert said(
        FORK
        + """
    def child():
        with Memory.open(sys.argv[1], config=QUIET) as memory:
            memory.add("子进程 child")
            assert memory.flush() == 0
            assert memory.stats().index == "ready"

    say(fork(child))
    """,
        tmp_path,
    ) == [0]
    check_vectors(tmp_path)


def add_in_a_spawned_process(path: str) -> None:
    with Memory.open(path, config=QUIET) as memory:
        memory.add("新进程 spawned")
        assert memory.search("spawned")[0].score_details.vector is not None


@pytest.mark.filterwarnings("default")
def test_the_spawn_method_of_multiprocessing_works(tmp_path: Path) -> None:
    with Memory.open(tmp_path, config=QUIET) as memory:
        memory.add("父进程 parent")
        memory.flush()
        process = multiprocessing.get_context("spawn").Process(target=add_in_a_spawned_process, args=(str(tmp_path),))
        process.start()
        process.join(100)
        assert process.exitcode == 0
        assert memory.flush() == 0
    assert len(check_database(tmp_path)) == 2
    check_vectors(tmp_path)

"""Ctrl-C at any moment whatever: whole operations, and a handle that goes on at once.

CPython runs signal handlers when a call into C has returned and when a function of Python starts. A profiler is told of
just these moments, so raising KeyboardInterrupt in one is what a signal does there, at a moment of our choice.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from hybridmem import Memory, StoreBusy
from hybridmem.index.owner import OwnerLock
from hybridmem.index.projection import LOCK

from .helpers import QUIET, check_database, check_vectors, said

#: An interrupt inside of the standard library leaves what that had open, e.g. pathlib a scan, to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed scandir iterator:ResourceWarning")


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """So that the collector finds it here, and not in the middle of another test."""
    yield
    gc.collect()


#: No waiting for the disk, and a lock that somebody kept is soon seen.
CONFIG: dict[str, Any] = {**QUIET, "store": {"durability": "process", "busy_timeout_seconds": 0.2}}
#: The files whose every moment is tried; of the other moments every STRIDE-th.
CRITICAL = (
    "/store/connect.py",
    "/store/workspace.py",
    "/contextlib.py",
    "/index/owner.py",
    "/index/projection.py",
    "/index/shared.py",
    "/indexing.py",
    "/threading.py",
)
STRIDE = 7
EVENTS = ("c_return", "call")

Handler = Callable[[], None]


#: A place in the code, what happens there, and for which time (from 0). A number alone would not be the same moment in
#: another run, which may take a few steps more or less before it.
Moment = tuple[CodeType, int, str, int]


class Moments:
    """Knows the moments of a ``with`` block at which a signal handler may run, and calls ``handler`` at one of them."""

    def __init__(self, moment: Moment | None = None, handler: Handler | None = None) -> None:
        self.found: list[Moment] = []
        #: Whether the moment came.
        self.came = False
        self._moment = moment
        self._handler = handler
        self._times: Counter[tuple[CodeType, int, str]] = Counter()

    def __enter__(self) -> Moments:
        sys.setprofile(self._profile)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _profile(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event not in EVENTS or code in (Moments.__exit__.__code__, Moments.__enter__.__code__):
            return
        place = (code, frame.f_lasti, event)
        moment = (*place, self._times[place])
        self._times[place] += 1
        if self._handler is None:
            self.found.append(moment)
        elif moment == self._moment:
            sys.setprofile(None)
            self.came = True
            self._handler()


def interrupt() -> None:
    raise KeyboardInterrupt


def moments(action: Callable[..., object], *arguments: object) -> list[Moment]:
    """The moments of an action to try, by a look at one run of it."""
    with Moments() as looking:
        action(*arguments)
    found = looking.found
    return [one for n, one in enumerate(found) if n % STRIDE == 0 or one[0].co_filename.endswith(CRITICAL)]


def unavoidable(moment: Moment) -> bool:
    code, _, event, _ = moment
    return event == "call" and code.co_name == "__exit__"


Action = Callable[[Memory, str], object]
#: What is done with a label of its own each time, and how many memories it makes.
ACTIONS: dict[str, tuple[Action, int]] = {
    "add": (lambda memory, label: memory.add(f"一条 memory {label}", id=f"{label}-0"), 1),
    "add_many": (
        lambda memory, label: memory.add_many([{"content": f"批 batch {i}", "id": f"{label}-{i}"} for i in range(3)]),
        3,
    ),
    "search": (lambda memory, _: memory.search("退款 refund"), 0),
    "start_task": (lambda memory, label: memory.start_task(f"任务 task {label}"), 1),
    "checkpoint": (lambda memory, _: memory.checkpoint(), 0),
    "flush": (lambda memory, _: memory.flush(), 0),
}


@pytest.fixture
def elsewhere() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


# Python passes over an exception that comes while it clears a generator away; the operation goes on then.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", ACTIONS)
def test_an_interrupt_at_any_moment_leaves_a_whole_operation_and_a_usable_handle(
    tmp_path: Path, elsewhere: ThreadPoolExecutor, name: str
) -> None:
    action, made = ACTIONS[name]
    came = 0
    with Memory.open(tmp_path, config=CONFIG) as memory:
        memory.add("客户要退款 the customer wants a refund")
        action(memory, "warm")  # what happens once per process, such as imports, is not what this is about
        before = memory.stats().nodes
        tried = moments(action, memory, "n")
        expected = before + made
        assert memory.stats().nodes == expected
        for number, moment in enumerate(tried):
            memory.add(f"等着向量 waits for its vector {number}")
            expected += 1
            tasks = len(memory.tasks())
            try:
                with Moments(moment, interrupt) as at:
                    action(memory, f"n{number}")
            except KeyboardInterrupt:
                # At the very start of __exit__ nothing can be done in it; the next call in this thread makes up for it.
                if unavoidable(moment):
                    memory.add(f"之后 right after {number}")
                elsewhere.submit(memory.add, f"别的线程 another thread {number}").result(10)
                if not unavoidable(moment):
                    memory.add(f"之后 right after {number}")
                expected += 2
            done = memory.stats().nodes - expected
            assert done in (0, made), f"{moment}: half of it is there"
            if name == "start_task":
                assert len(memory.tasks()) - tasks == done
                assert (memory.active_task().content == f"任务 task n{number}") == bool(done)  # type: ignore[union-attr]
            assert at.came or done == made
            came += at.came
            expected += done
        assert came > 0.9 * len(tried), "the moments are others in every run"
        assert memory.search("right after 之后", k=1).hits
        assert memory.flush() == 0
    # The log chain, the tree, the lexical index and the counters; then SQLite against Chroma.
    assert len(check_database(tmp_path)) == expected
    check_vectors(tmp_path)


def test_a_signal_handler_may_write_and_search_at_any_moment_or_is_told_at_once_that_it_may_not(tmp_path: Path) -> None:
    """In a child: what this is about is a thread that would wait for itself."""
    (refused, written, longest) = said(
        """
        from tests.crash.test_interrupt import ACTIONS, CONFIG, Moments, moments
        memory = Memory.open(sys.argv[1], config={**CONFIG, "store": {"durability": "process"}})
        memory.add("客户要退款 the customer wants a refund", id="refund")
        written, refused, longest = 0, 0, 0.0

        def handle():
            global written, refused, longest
            start = time.monotonic()
            try:
                memory.add(f"信号 signal {written}")
                written += 1
            except StoreBusy as error:
                assert "in the middle of a transaction" in str(error), error
                refused += 1
            assert memory.get("refund").content.startswith("客户")
            longest = max(longest, time.monotonic() - start)
            assert memory.search("客户 refund customer", k=1).hits

        for name in ("add", "search"):
            action, made = ACTIONS[name]
            action(memory, "warm")
            for number, moment in enumerate(moments(action, memory, "counted")[::5]):
                before = memory.stats().nodes - written
                with Moments(moment, handle):
                    action(memory, f"{name}{number}")
                assert memory.stats().nodes - written - before == made, (name, number)
        assert memory.flush() == 0
        memory.close()
        say(refused)
        say(written)
        say(longest)
        """,
        tmp_path,
    )
    assert refused > 20
    assert written > 20
    assert longest < 2, "it waited for its own thread"
    check_database(tmp_path)
    check_vectors(tmp_path)


def test_a_call_in_the_middle_of_a_write_is_refused_at_once_and_the_write_goes_on(tmp_path: Path) -> None:
    with Memory.open(tmp_path, config=QUIET) as memory:
        with memory._workspace.write() as tx:
            with pytest.raises(StoreBusy, match="in the middle of a transaction"):
                memory.add("里面 nested")
            assert tx.in_transaction
            memory._workspace.record(tx, "外面 outer", None, {})
        memory.add("之后 after")
        assert [one.kind for one in memory.operations()][-2:] == ["外面 outer", "add"]
    assert list(check_database(tmp_path).values()) == ["之后 after"]


def is_free(lock: Path) -> bool:
    """Whether nobody owns the index, this process included."""
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def test_an_interrupt_while_the_owner_lock_is_taken_or_given_back_does_not_keep_it_for_ever(tmp_path: Path) -> None:
    path = tmp_path / LOCK

    def take_and_give_back() -> None:
        lock = OwnerLock(path)
        try:
            assert lock.acquire()
        finally:
            lock.release()

    for moment in moments(take_and_give_back):
        lock = OwnerLock(path)
        with contextlib.suppress(KeyboardInterrupt), Moments(moment, interrupt):
            lock.acquire()
            lock.release()
        lock.release()
        assert is_free(path), moment
        take_and_give_back()


def test_an_interrupt_while_the_indexer_starts_leaves_a_handle_that_starts_it_later_and_closes(tmp_path: Path) -> None:
    config = {**CONFIG, "index": {**CONFIG["index"], "background": True, "close_wait_seconds": 0.0}}
    with Memory.open(tmp_path, config=config) as memory:
        tried = moments(memory._indexer.start)
    assert len(tried) > 5
    for moment in tried:
        with Memory.open(tmp_path, config=config) as memory:
            try:
                with Moments(moment, interrupt):
                    memory._indexer.start()
            except (KeyboardInterrupt, RuntimeError):  # the latter is what threading.Event makes of it in its middle
                memory._indexer.start()
            assert memory._indexer._thread is not None
            assert memory._indexer._thread.is_alive()


def test_an_interrupt_while_the_handle_closes_gives_up_the_index_if_closing_is_repeated(tmp_path: Path) -> None:
    def opened() -> Memory:
        memory = Memory.open(tmp_path, config=CONFIG)
        memory.add("客户要退款 the customer wants a refund")
        assert memory.flush() == 0
        assert not is_free(tmp_path / LOCK)
        return memory

    opened().close()
    memory = opened()
    for moment in moments(memory.close)[::31]:
        memory = opened()
        try:
            with Moments(moment, interrupt):
                memory.close()
        except KeyboardInterrupt:
            memory.close()
        assert is_free(tmp_path / LOCK), moment
    with Memory.open(tmp_path, config=QUIET) as memory:
        assert memory.flush() == 0
    check_database(tmp_path)
    check_vectors(tmp_path)

"""However a process ends, without close(): what was acknowledged is there (C001)."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

from hybridmem import Memory

from .helpers import CONFIG, QUIET, Child, check_database, check_vectors, run

WRITE = """
    memory = Memory.open(sys.argv[1], config=CONFIG)
    task = memory.start_task("企业报销任务", next_step="通知用户")
    nodes = [task, memory.add("用户张三，部门研发部", type="fact"), memory.add("prefers SMS 短信", type="preference")]
    nodes += memory.add_many([{"content": "order 17 was shipped"}, {"content": "退款 refund", "parent": 0}])
"""
ACKNOWLEDGE = """
    say([[node.id, node.content, node.parent_id] for node in nodes])
"""


def check(store: Path, acknowledged: list[list[str]]) -> None:
    assert len(acknowledged) == 5
    contents = check_database(store)
    with Memory.open(store, config=QUIET) as memory:
        for one, content, parent in acknowledged:
            node = memory.get(one)
            assert (node.content, node.parent_id) == (content, parent)
            assert memory.search(content, k=1)[0].id == one
        point = memory.resume()
        assert point.interrupted
        assert point.next_step == "通知用户"
        assert point.active_task is not None
        assert point.active_task.id == acknowledged[0][0]
        assert memory.flush() == 0
    assert set(contents) >= {one for one, _, _ in acknowledged}
    check_vectors(store)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("delay", ["0", "0.7"])
def test_a_signal_loses_nothing(tmp_path: Path, how: signal.Signals, delay: str) -> None:
    """Right after the last write, and while the indexer starts Chroma."""
    with Child(
        WRITE + "    time.sleep(float(sys.argv[2]))\n" + ACKNOWLEDGE + "    time.sleep(60)\n", tmp_path, delay
    ) as child:
        acknowledged = child.hear()
        code = child.kill(how)
        # Python forgets that it was Ctrl-C, and says 1, if a thread happens to exec() at that moment (dataclasses do).
        assert code in ({-how, 1} if how == signal.SIGINT else {-how}), child.process.communicate()[1]
    check(tmp_path, acknowledged)


@pytest.mark.parametrize("delay", [0.0, 0.7])
def test_an_exit_without_close_loses_nothing_and_ends_well(tmp_path: Path, delay: float) -> None:
    done = run(WRITE + f"    time.sleep({delay})\n" + ACKNOWLEDGE, tmp_path)
    assert done.stderr == ""
    assert done.returncode == 0
    check(tmp_path, json.loads(done.stdout))


def test_an_exception_that_nobody_catches_closes_the_store_and_loses_nothing(tmp_path: Path) -> None:
    done = run(
        """
        with Memory.open(sys.argv[1], config=CONFIG) as memory:
            memory.add("写了 written", id="written")
            raise RuntimeError("boom")
        """,
        tmp_path,
    )
    assert done.returncode == 1
    assert done.stderr.strip().endswith("RuntimeError: boom")
    assert check_database(tmp_path) == {"written": "写了 written"}
    check_vectors(tmp_path)


def test_ctrl_c_in_the_middle_of_writing_leaves_whole_operations_and_a_usable_handle(tmp_path: Path) -> None:
    with Child(
        """
        memory = Memory.open(sys.argv[1], config=CONFIG)
        say("writing")
        written = []
        try:
            while True:
                written.append([node.id for node in memory.add_many([{"content": f"一批 batch {len(written)}"}] * 20)])
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        memory.add("之后 after", id="after")
        memory.close()
        say(written)
        """,
        tmp_path,
    ) as child:
        assert child.hear() == "writing"
        time.sleep(0.8)
        child.process.send_signal(signal.SIGINT)
        (written,) = child.end()
    contents = check_database(tmp_path)
    acknowledged = {one for batch in written for one in batch}
    assert acknowledged <= set(contents)
    assert (len(contents) - 1) % 20 == 0
    assert len(contents) - 1 - len(acknowledged) in (0, 20)
    check_vectors(tmp_path)


def test_sigterm_handled_by_the_program_closes_in_peace(tmp_path: Path) -> None:
    with Child(
        """
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        with Memory.open(sys.argv[1], config=CONFIG) as memory:
            memory.add("正在运行 running", id="running")
            say("running")
            time.sleep(60)
        """,
        tmp_path,
    ) as child:
        child.hear()
        assert child.kill(signal.SIGTERM) == 143
    with Memory.open(tmp_path, config=CONFIG) as memory:
        assert not memory.resume().interrupted
    check_vectors(tmp_path)

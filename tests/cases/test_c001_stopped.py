"""C001: whatever was acknowledged is there after SIGTERM, after SIGINT, and after an exit without close()."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from crash.helpers import QUIET, Child, check_database, check_vectors, run, said

from .processes import indexed

#: Five memories, two of them below others; told one by one, so that nothing is told before it is stored.
WRITE = """
    memory = Memory.open(sys.argv[1], config=CONFIG)
    first = memory.add("用户张三，部门研发部", type="fact")
    say([first.id, first.content, first.parent_id])
    for content, parent in (
        ("财务退回，原因是发票信息不清晰", first.id), ("prefers SMS 短信", "root"),
        ("order 17 was shipped late", "root"), ("退款 refund of order 17", "node"),
    ):
        node = memory.add(content, parent=parent)
        say([node.id, node.content, node.parent_id])
"""
READ = """
    with Memory.open(sys.argv[1], config=CONFIG) as memory:
        for content in json.loads(sys.argv[2]):
            best = memory.search(content, k=1)[0].node
            say([best.id, best.content, best.parent_id])
        say(sorted(node.id for node in memory.walk() if node.parent_id is not None))
"""


def assert_all_there(store: Path, acknowledged: list[list[str]]) -> None:
    """In a new process: ids, texts, parents, and each is the first to be found by what it says."""
    assert len(acknowledged) == 5
    *found, ids = said(READ, store, json.dumps([content for _, content, _ in acknowledged]))
    assert found == acknowledged
    assert ids == sorted(one for one, _, _ in acknowledged)
    assert len(check_database(store)) == 5
    indexed(store, QUIET)
    check_vectors(store)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_right_after_the_last_answer_loses_nothing(tmp_path: Path, how: signal.Signals) -> None:
    """C001"""
    with Child(WRITE + "    time.sleep(60)\n", tmp_path) as child:
        acknowledged = [child.hear() for _ in range(5)]
        assert child.kill(how) != 0
    assert_all_there(tmp_path, acknowledged)


@pytest.mark.parametrize("end", ["", "    sys.exit(0)\n", "    os._exit(0)\n"], ids=["end", "exit", "_exit"])
def test_an_exit_without_close_loses_nothing(tmp_path: Path, end: str) -> None:
    """C001: also one that runs no handler."""
    done = run(WRITE + end, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert_all_there(tmp_path, [json.loads(line) for line in done.stdout.splitlines()])


def test_nothing_is_acknowledged_that_is_not_on_disk(tmp_path: Path) -> None:
    """C001: at the moment the first answer is heard, another process finds it, and it is killed for good measure."""
    with Child(WRITE + "    time.sleep(60)\n", tmp_path) as child:
        one, content, _ = child.hear()
        child.kill()
    assert check_database(tmp_path)[one] == content

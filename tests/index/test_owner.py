"""One owner among processes, shared within one, freed by the kernel on death."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hybridmem.errors import IndexUnavailable
from hybridmem.index import OwnerLock

ROOT = Path(__file__).parents[2]
HOLD = (
    "import sys; from pathlib import Path; from hybridmem.index import OwnerLock; "
    "lock = OwnerLock(Path(sys.argv[1])); print(lock.acquire(), flush=True); sys.stdin.read()"
)


def start(path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def taken_by_another_process(path: Path) -> bool:
    process = start(path)
    assert process.stdout is not None
    answer = process.stdout.readline().strip()
    finish(process)
    return answer == "True"


def test_a_second_process_does_not_get_it_until_the_first_lets_go(tmp_path: Path) -> None:
    lock = OwnerLock(tmp_path / "锁")
    assert lock.acquire()
    assert lock.held
    assert not taken_by_another_process(tmp_path / "锁")
    lock.release()
    assert not lock.held
    assert taken_by_another_process(tmp_path / "锁")


def test_a_killed_owner_leaves_it_free(tmp_path: Path) -> None:
    process = start(tmp_path / "lock")
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "True"
    lock = OwnerLock(tmp_path / "lock")
    assert not lock.acquire()
    finish(process)
    assert lock.acquire()
    lock.release()


def test_within_a_process_it_is_shared_whatever_the_spelling_and_freed_by_the_last(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    one, two = OwnerLock(tmp_path / "lock"), OwnerLock(tmp_path / "link" / "lock")
    assert one.acquire()
    assert one.acquire()
    assert (one.users, two.users) == (1, 0)
    assert two.acquire()
    assert (one.users, two.users) == (2, 2)
    one.release()
    assert (one.users, two.users) == (0, 1)
    one.release()
    assert not taken_by_another_process(tmp_path / "lock")
    two.release()
    assert taken_by_another_process(tmp_path / "lock")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_neither_owns_it_nor_keeps_it_alive(tmp_path: Path) -> None:
    lock = OwnerLock(tmp_path / "lock")
    assert lock.acquire()
    wake_read, wake_write = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(wake_write)
            refused = not lock.held and not OwnerLock(tmp_path / "lock").acquire()
            lock.release()
            os.read(wake_read, 1)  # stays alive until the parent has looked
            code = 0 if refused else 2
        finally:
            os._exit(code)
    os.close(wake_read)
    assert not taken_by_another_process(tmp_path / "lock")
    lock.release()
    assert taken_by_another_process(tmp_path / "lock")
    os.close(wake_write)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_program_started_from_the_owner_does_not_keep_it_alive(tmp_path: Path) -> None:
    lock = OwnerLock(tmp_path / "lock")
    assert lock.acquire()
    sleeper = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    lock.release()
    assert taken_by_another_process(tmp_path / "lock")
    sleeper.kill()
    sleeper.communicate()


def test_a_deleted_lock_file_does_not_make_two_owners_out_of_later_ones(tmp_path: Path) -> None:
    lock = OwnerLock(tmp_path / "lock")
    assert lock.acquire()
    lock.release()
    (tmp_path / "lock").unlink()
    assert lock.acquire()
    assert not taken_by_another_process(tmp_path / "lock")
    lock.release()


def test_a_missing_directory_is_said(tmp_path: Path) -> None:
    with pytest.raises(IndexUnavailable, match="lock file"):
        OwnerLock(tmp_path / "missing" / "lock").acquire()

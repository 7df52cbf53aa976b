"""Fault points do nothing unless the environment names one; then the process dies there, at the time that was asked."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import hybridmem
from hybridmem import ConfigError, Memory, faults

PACKAGE = Path(hybridmem.__file__).parent
WRITER = """
import sys
from hybridmem import Memory
with Memory.open(sys.argv[1], config={"index": {"background": False}}) as memory:
    for number in range(5):
        memory.add(f"第{number}条 memory {number}")
        print(number, flush=True)
"""


def passed_in_the_code() -> Counter[str]:
    """The points that are passed anywhere in the package, by the text of the call."""
    found: Counter[str] = Counter()
    for file in PACKAGE.rglob("*.py"):
        for item in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(item, ast.Call) and ast.unparse(item.func) == "faults.point":
                (name,) = item.args
                assert isinstance(name, ast.Constant), f"{file}:{item.lineno}: a point is named where it is passed"
                found[name.value] += 1
    return found


def test_every_point_is_listed_and_passed_in_one_place() -> None:
    """The lists are what durability runs, tests/crash/test_backup_kill.py, test_consolidate_kill.py,
    test_purge_kill.py, test_audit_kill.py and test_erase_killed.py go by: a point that is missing there is never died
    at."""
    known = [
        *faults.POINTS,
        *faults.BACKUP_POINTS,
        *faults.CONSOLIDATION_POINTS,
        *faults.PURGE_POINTS,
        *faults.AUDIT_POINTS,
        *faults.ENCRYPTION_POINTS,
        *faults.ERASURE_POINTS,
    ]
    assert len(set(known)) == len(known)
    assert passed_in_the_code() == Counter(known)


def run(store: Path, fault: str | None) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != faults.VARIABLE}
    environment |= {"PYTHONPATH": str(PACKAGE.parent)} | ({faults.VARIABLE: fault} if fault else {})
    command = [sys.executable, "-c", WRITER, str(store)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=False)


@pytest.mark.parametrize(("fault", "said"), [("write.before_return", 0), ("write.before_return:4", 3), (None, 5)])
def test_an_armed_process_dies_at_the_time_that_was_asked_for(tmp_path: Path, fault: str | None, said: int) -> None:
    done = run(tmp_path / "store", fault)
    assert done.returncode == (-signal.SIGKILL if fault else 0), done.stderr
    assert done.stdout.split() == [str(number) for number in range(said)]
    with Memory.open(tmp_path / "store", config={"index": {"background": False}}) as memory:
        # It was durable already, only nobody had been told.
        assert len(list(memory.walk())) == 1 + said + bool(fault)
        assert memory.resume().interrupted == bool(fault)


@pytest.mark.parametrize("fault", ["write.befor_return", "write.before_return:0", "write.before_return:一"])
def test_a_point_that_there_is_not_is_refused(tmp_path: Path, fault: str) -> None:
    """A test that arms a misspelt point would pass without testing anything."""
    done = run(tmp_path / "store", fault)
    assert done.returncode == 1
    assert f"ConfigError: {faults.VARIABLE}" in done.stderr


def test_a_process_is_armed_and_disarmed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(faults.VARIABLE, "no.such")
    with pytest.raises(ConfigError, match=r"no\.such.*write\.before_return"):
        faults.arm()
    monkeypatch.delenv(faults.VARIABLE)
    faults.arm()
    for name in faults.POINTS:
        faults.point(name)

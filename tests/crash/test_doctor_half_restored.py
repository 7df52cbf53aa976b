"""verify, repair and doctor of a store whose restoring from a backup was killed at any step after it was decided."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hybridmem import Memory, repair, verify
from hybridmem.faults import BACKUP_POINTS, VARIABLE

from .helpers import QUIET, command, environment

#: Where the copy waits for its place.
HALF = [
    name
    for name in BACKUP_POINTS
    if name.startswith("backup_restore.")
    and name.rpartition(".")[2] not in ("after_copy", "before_decision", "after_rename")
]


@pytest.fixture(params=HALF)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    found = tmp_path / "店 store"
    with Memory.open(found, config=QUIET) as memory:
        memory.add("发票 before", id="before")
        assert memory.flush() == 0
        made = memory.backup()
        memory.add("后来 later", id="later")
        assert memory.flush() == 0
    code = "from hybridmem import restore_backup; restore_backup(sys.argv[1], sys.argv[2], replace=True)"
    done = subprocess.run(
        command(code, made.path, found), env=environment() | {VARIABLE: request.param}, capture_output=True, check=False
    )
    assert done.returncode == -9, done.stderr
    return found


def test_it_is_told_and_nothing_is_touched(store: Path) -> None:
    """Neither that there is no store, nor that its database is damaged, nor how the old one was."""
    before = sorted(store.rglob("*"))
    report = verify(store)
    assert [(one.kind, one.severity, one.repairable) for one in report.findings] == [("restore", "warning", True)]
    assert sorted(store.rglob("*")) == before


def test_repair_finishes_it(store: Path) -> None:
    report = repair(store, config=QUIET)
    assert [one.kind for one in report.mended] == ["restore"]
    assert report.ok, report.findings
    with Memory.open(store, config=QUIET) as memory:
        assert [node.id for node in memory.walk()][1:] == ["before"]

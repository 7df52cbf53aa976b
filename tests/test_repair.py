"""repair mends what verify reports, and loses nothing on the way."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from damages import ACME, CONFIG, DAMAGES, ZHANG, Damage, edit, make, open_

from hybridmem import repair, verify
from hybridmem.findings import KINDS


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The store of damages.make(), made once; not to be written to."""
    store = tmp_path_factory.mktemp("made") / "store"
    return store, make(store)


@pytest.fixture
def store(made: tuple[Path, dict[str, str]], tmp_path: Path) -> Path:
    return Path(shutil.copytree(made[0], tmp_path / "store"))


@pytest.fixture
def ids(made: tuple[Path, dict[str, str]]) -> dict[str, str]:
    return made[1]


def memories(store: Path) -> list[dict[str, Any]]:
    """Every memory of both namespaces in the order of the tree, and what is active."""
    found = []
    for namespace in (ACME, ZHANG):
        with open_(store, namespace) as memory:
            found += [node.to_dict() for node in memory.walk()]
            point = memory.resume()
            found.append({"task": point.active_task and point.active_task.id, "step": point.next_step})
    # Repairs are no activity of what they mend; those that log a change of a node say when.
    return [{name: value for name, value in one.items() if name not in ("updated_at", "active_at")} for one in found]


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_what_was_damaged_by_hand_is_found_by_its_kind_and_mended(
    damage: Damage, store: Path, ids: dict[str, str]
) -> None:
    """Found, mended or named as beyond repair, and found no more; what was intact is as it was."""
    before = memories(store) if damage.restored and not damage.left else None
    edit(store, damage.sql, ids)
    found = {one.kind for one in verify(store).findings}
    assert found == damage.kinds
    report = repair(store, config=CONFIG)
    assert {one.kind for one in report.findings} == damage.left
    assert {one.kind for one in report.mended} == damage.kinds - damage.left
    assert all(not KINDS[one.kind].repairable for one in report.findings)
    again = repair(store, config=CONFIG)
    assert again.mended == ()
    assert again.findings == report.findings
    if before is not None:
        assert memories(store) == before

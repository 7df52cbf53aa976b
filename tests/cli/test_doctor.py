"""hybridmem doctor: a table and an exit code for people and timers, one document for programs."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path

import pytest

from hybridmem.memory import Memory

from .conftest import HASHING, Cli

FOUND = 13


def break_(cli: Cli, sql: str) -> None:
    with sqlite3.connect(cli.store / "tree.db") as conn:
        conn.execute(sql)
    conn.close()


LOOP = "UPDATE node SET parent_id = id WHERE type = 'fact'"


def test_a_sound_store_is_said_to_be_well(cli: Cli, claim: dict[str, str]) -> None:
    result = cli("doctor")
    assert result.code == 0
    assert "all is well" in result.out
    assert "pending 4" in result.out
    assert cli.json("doctor")["findings"] == []


def test_what_is_wrong_is_a_line_each_and_an_exit_code_of_its_own(cli: Cli, claim: dict[str, str]) -> None:
    break_(cli, LOOP)
    result = cli("doctor")
    assert result.code == FOUND
    for word in ("loop", "path", "--fix", claim["fact"], "2 findings"):
        assert word in " ".join(result.out.split())
    document = cli("--json", "doctor").document
    assert document["ok"] is False
    assert [one["kind"] for one in document["findings"]] == ["loop", "path"]
    assert document["findings"][0]["ids"] == [claim["fact"]]
    assert document["findings"][0]["namespace"] == ["default"]


def test_fix_mends_and_says_what_it_mended(cli: Cli, claim: dict[str, str]) -> None:
    break_(cli, LOOP)
    result = cli("doctor", "--fix")
    assert result.code == 0
    assert "mended" in result.out
    assert "all is well" in result.out
    assert cli("doctor", "--replay").code == 0


def test_what_cannot_be_mended_is_left_and_still_an_exit_code(cli: Cli, claim: dict[str, str]) -> None:
    break_(cli, "UPDATE operation SET payload = '{}' WHERE sequence = 2")
    break_(cli, LOOP)
    document = cli("--json", "doctor", "--fix").document
    assert [one["kind"] for one in document["mended"]] == ["loop", "path"]
    assert [one["kind"] for one in document["findings"]] == ["log"]
    assert cli("doctor", "--fix").code == FOUND


def test_replay_sees_a_value_that_is_possible_but_not_what_was_written(cli: Cli, claim: dict[str, str]) -> None:
    """0.5 instead of 0.9 is as good a number as any; only the log knows better."""
    break_(cli, "UPDATE node SET importance = 0.5 WHERE type = 'fact'")
    assert cli("doctor").code == 0
    document = cli("--json", "doctor", "--replay").document
    (found,) = document["findings"]
    assert found["kind"] == "replay"
    assert "importance is 0.5 in the store and 0.9 by the log" in found["message"]


def test_it_looks_at_every_namespace_whichever_one_is_named(cli: Cli, claim: dict[str, str]) -> None:
    with Memory.open(cli.store, namespace=("别的", "other"), config=HASHING) as memory:
        memory.add("别的 something else", type="fact")
    break_(cli, LOOP)
    document = cli("--json", "doctor", "--namespace", "default").document
    assert {tuple(one["namespace"]) for one in document["findings"]} == {("default",), ("别的", "other")}
    assert cli("doctor", "--fix").code == 0


def test_the_store_may_be_named_by_its_path_or_as_everywhere(cli: Cli, claim: dict[str, str], tmp_path: Path) -> None:
    assert cli("doctor", str(cli.store)).code == 0
    assert cli("doctor", "--store", str(cli.store)).code == 0
    moved = cli.store.rename(tmp_path / "搬家 moved")
    assert cli("doctor", str(moved)).code == 0
    missing = cli("--json", "doctor")
    assert (missing.code, missing.document["error"]["type"]) == (4, "NotFound")
    assert not cli.store.exists()


@pytest.mark.parametrize("arguments", [("doctor",), ("doctor", "--fix")])
def test_a_store_that_nothing_else_opens_is_still_looked_at(
    cli: Cli, claim: dict[str, str], arguments: tuple[str, ...]
) -> None:
    file = cli.store / "tree.db"
    file.write_bytes(file.read_bytes()[:3000])
    assert cli("stats").code == 7
    result = cli("--json", *arguments)
    assert result.code == FOUND
    assert result.document["findings"][0]["kind"] == "database"
    assert "backup" in result.document["findings"][0]["fix"]
    assert file.stat().st_size == 3000


def test_control_characters_that_got_in_by_hand_never_reach_the_terminal(cli: Cli, claim: dict[str, str]) -> None:
    break_(cli, LOOP)
    break_(cli, "UPDATE node SET uid = 'evil' || char(27) || '[2J' WHERE type = 'fact'")
    break_(cli, "UPDATE active SET agent = 'evil' || char(27) || '[31m', task_id = 99999")
    result = cli("doctor")
    assert result.code == FOUND
    assert "evil" in result.out
    assert "\x1b" not in result.out


def test_as_a_process_it_prints_one_document_and_ends_with_its_code(cli: Cli, claim: dict[str, str]) -> None:
    break_(cli, LOOP)
    process = cli.process(
        "doctor", "--json", **{"PYTHONIOENCODING": "ascii", "NO_COLOR": os.environ.get("NO_COLOR", "1")}
    )
    out, _ = process.communicate(timeout=100)
    assert process.returncode == FOUND
    assert json.loads(out)["ok"] is False

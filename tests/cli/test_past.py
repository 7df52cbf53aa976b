"""history and restore, seen from outside."""

from __future__ import annotations

from .conftest import Cli


def test_history_tells_what_changed_from_what_to_what(cli: Cli, claim: dict[str, str]) -> None:
    cli.json("update", claim["fact"], "--content", "用户李四，部门 sales", "--importance", "0.2")
    found = cli.json("history", claim["fact"])["history"]
    assert [entry["kind"] for entry in found] == ["add", "update"]
    assert found[1]["changes"]["importance"] == {"before": 0.9, "after": 0.2}
    out = cli("history", claim["fact"]).out
    assert "用户张三，部门研发部 → 用户李四，部门 sales" in out
    assert "update" in out
    assert "version 2" in out


def test_restore_by_label_by_number_and_by_operation(cli: Cli, claim: dict[str, str]) -> None:
    point = cli.json("checkpoint", "7")  # a label that looks like a number
    cli.json("forget", claim["fact"])
    added = cli.json("add", "后来 later")["id"]
    dry = cli.json("restore", "--checkpoint", "7", "--dry-run")
    assert [one["id"] for one in dry["added"]] == [claim["fact"]]
    assert [one["id"] for one in dry["removed"]] == [added]
    assert cli.json("show", claim["fact"])["state"] == "forgotten"
    out = cli("restore", "--checkpoint", "7").out
    assert "1 brought back" in out
    assert "1 forgotten" in out
    assert "restored by operation" in out
    assert cli.json("show", claim["fact"])["state"] == "live"
    for again in (("--checkpoint", str(point["id"])), ("--sequence", str(point["sequence"]))):
        assert "nothing to restore" in cli("restore", *again).out
        assert cli.json("restore", *again)["sequence"] is None

"""hybridmem task claim and release: a command ends at once, so the claim outlives it and its token opens it."""

from __future__ import annotations

from typing import Any


def test_a_claim_outlives_the_command_and_its_token_opens_it(cli: Any) -> None:
    cli.json("task", "start", "报销 claim")
    claim = cli.json("task", "claim", "--seconds", "600")
    refused = cli("--json", "task", "finish")
    assert refused.code == 14
    assert "claimed by another run" in refused.document["error"]["message"]
    assert cli.json("resume")["claim"]["token"] == claim["token"]
    assert "claimed     by default until 20" in cli("resume").out
    token = str(claim["token"])
    assert cli.json("task", "update", "--next-step", "等待 wait", "--token", token)["task"]["next_step"] == "等待 wait"
    assert f"token {token}" in cli("task", "claim", "--token", token).out
    assert cli.json("task", "release", "--token", token)["released"] is True
    assert cli("task", "release").out == "nobody had claimed it\n"
    cli.json("task", "finish")

"""hybridmem forget --policy: what would go and why, as a document and for people; no mix of selectors."""

from __future__ import annotations

from typing import Any

import pytest


def test_a_dry_run_says_what_would_go_and_the_command_does_it(cli: Any, claim: dict[str, str]) -> None:
    for text in ("旧的 old 一", "old two"):
        cli.json("add", text, "--parent", "root")
    arguments = ("forget", "--policy", "least_weight", "--set", "max_nodes=5")
    dry = cli.json(*arguments, "--dry-run")
    assert (dry["count"], dry["left"], dry["dry_run"]) == (1, 5, True)
    assert "under no task" in dry["pruned"][0]["reason"]
    shown = cli(*arguments).out
    assert shown.splitlines()[0] == "1 forgotten, 5 live left"
    assert dry["ids"][0] in shown
    assert dry["ids"][0] not in str(cli.json("search", "旧的 old"))
    assert cli.json("restore-forgotten", dry["ids"][0])["count"] == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "either an ID or --policy"),
        (("{fact}", "--policy", "newest"), "either an ID or --policy"),
        (("{fact}", "--within", "{task}"), "--within: belongs to --policy"),
        (("{fact}", "--limit", "3"), "--limit: belongs to --policy"),
        (("{fact}", "--set", "max_nodes=0"), "--set max_nodes: belongs to the policy"),
        (("--policy", "newest", "--subtree", "--set", "max_nodes=0"), "--subtree: belongs to an ID"),
        (("--policy", "newest", "--set", "max_node=0"), "did you mean 'max_nodes'?"),
        (("--policy", "configured"), "forgetting.policies, and there are none"),
    ],
)
def test_a_mix_of_selectors_is_refused_and_nothing_goes(
    cli: Any, claim: dict[str, str], arguments: tuple[str, ...], said: str
) -> None:
    """C017, on the command line."""
    result = cli("forget", *(one.format(**claim) for one in arguments), "--json")
    assert result.code == 2
    assert said in result.document["error"]["message"]
    assert all(cli.json("show", id)["state"] == "live" for id in claim.values())


def test_what_is_purged_is_counted_and_said(cli: Any, claim: dict[str, str]) -> None:
    ids = [cli.json("add", text, "--parent", "root", "--type", "note")["id"] for text in ("旧的 old 一", "old two")]
    cli.json("add", "末 last")
    for id in ids:
        cli.json("forget", id)
    assert cli("purge-forgotten").out.splitlines() == ["0 purged, 2 can still be brought back"]
    dry = cli("purge-forgotten", "--older-than", "0", "--limit", "1", "--dry-run").out
    assert dry.splitlines() == ["1 would be purged, 1 can still be brought back", f"  {ids[0]}"]
    done = cli.json("purge-forgotten", "--older-than", "0")
    assert (done["ids"], done["count"], done["kept"]) == (ids, 2, 0)
    assert cli.json("show", ids[0])["content"] == ""
    refused = cli("restore-forgotten", ids[0], "--json")
    assert (refused.code, "was purged" in refused.document["error"]["message"]) == (2, True)

"""The commands that say what became of a memory: supersede and feedback."""

from __future__ import annotations

import pytest

from .conftest import Cli


class TestSupersede:
    @pytest.mark.parametrize("text", ["部门是市场部", "the department is marketing", "部门 is marketing now"])
    def test_the_new_one_is_found_and_the_old_one_only_when_asked_for(
        self, cli: Cli, claim: dict[str, str], text: str
    ) -> None:
        new = cli.json("supersede", claim["fact"], text, "--metadata", '{"来源": "HR"}')
        assert (new["superseded"], new["created"], new["content"]) == (claim["fact"], True, text)
        found = [hit["id"] for hit in cli.json("search", "部门 department")["hits"]]
        assert new["id"] in found
        assert claim["fact"] not in found
        assert [hit["id"] for hit in cli.json("search", "部门", "--state", "superseded")["hits"]] == [claim["fact"]]
        assert cli.json("show", claim["fact"])["replaced_by"] == new["id"]
        assert "superseded" in cli("history", claim["fact"]).out

    def test_reads_stdin_and_says_what_was_done(self, cli: Cli, claim: dict[str, str]) -> None:
        printed = cli("supersede", claim["fact"], "-", stdin="现在是 B now\n".encode())
        assert printed.code == 0
        assert printed.out.startswith(f"superseded {claim['fact']} by")

    def test_what_is_refused_ends_with_its_code(self, cli: Cli, claim: dict[str, str]) -> None:
        assert cli("supersede", "nope", "x").code == 4
        assert cli("supersede", claim["fact"], "x", "--expected-version", "9").code == 6
        assert cli("supersede", claim["fact"], " ").code == 2


class TestFeedback:
    def test_moves_weights_and_history_says_why(self, cli: Cli, claim: dict[str, str]) -> None:
        before = cli.json("show", claim["fact"])
        after = cli.json("feedback", claim["fact"], "--confirmed", "--helpful", "--note", "用户说对 the user agreed")
        assert after["confidence"] > before["confidence"]
        assert (after["importance"] > before["importance"], after["uses"]) == (True, 1)
        less = cli.json("feedback", claim["fact"], "--contradicted", "--not-helpful")
        assert (less["confidence"] < after["confidence"], less["importance"] < after["importance"]) == (True, True)
        assert cli.json("feedback", claim["fact"], "--importance", "1")["importance"] == 1.0
        told = cli("history", claim["fact"]).out
        assert "note: 用户说对 the user agreed" in told
        reasons = [entry["reasons"] for entry in cli.json("history", claim["fact"])["history"]]
        assert reasons[-2] == {"confirmed": False, "helpful": False}

    def test_names_the_memory_that_confirms_or_contradicts(self, cli: Cli, claim: dict[str, str]) -> None:
        event = cli.json("add", "财务：部门已改 department changed", "--type", "event")["id"]
        assert cli("feedback", claim["fact"], "--contradicted-by", event).code == 0
        assert cli.json("history", claim["fact"])["history"][-1]["reasons"]["contradicted_by"] == event
        assert cli("feedback", claim["fact"], "--confirmed-by", "nope").code == 4
        assert cli("feedback", claim["fact"]).code == 2

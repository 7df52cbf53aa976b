"""The demo from end to end: two processes, a real SIGKILL, and nothing lost."""

from __future__ import annotations

from pathlib import Path

from hybridmem.cli.demo_story import STORIES

from .conftest import Cli


def test_all_of_it_in_one_document_and_the_store_kept(cli: Cli, tmp_path: Path) -> None:
    kept = tmp_path / "演示"
    # No variable may name another store: the demo has its own.
    document = cli.json("demo", "--keep", str(kept))
    assert document["killed_by"] == "SIGKILL"
    assert document["acknowledged"] == document["found"] >= 50
    assert (document["in_flight"], document["in_flight_found"]) == (3, 0)
    resumed = document["resume"]
    assert resumed["interrupted"] is True
    assert resumed["active_task"]["content"] == "企业报销任务"
    assert resumed["next_step"] == "用短信通知张三：发票已重新提交，等待财务复核"
    answers = [answer["answer"] for answer in document["answers"]]
    assert answers[0] == "财务退回，原因是发票信息不清晰"
    assert answers[2] == "用户张三，部门研发部"
    assert all("relevance" in answer["explain"] for answer in document["answers"])
    context = document["context"]
    assert context["tokens"] <= context["token_budget"] == 300
    assert document["full_history_tokens"] > 4 * context["tokens"]
    assert document["stats"]["pending"] == 0
    assert document["seconds"] < 60

    there = ("--store", str(kept), "--namespace", "acme/zhang-san", "--agent", "claims-bot")
    assert cli.json("stats", *there)["nodes"] == document["found"] + 3
    assert cli.json("task", "show", *there)["task"]["next_step"] == "等待财务复核，周五跟进"
    refused = cli("demo", "--keep", str(kept))
    assert (refused.code, refused.out) == (2, "")


def test_english_for_people_without_a_terminal(cli: Cli, tmp_path: Path) -> None:
    before = set(tmp_path.iterdir())
    result = cli("demo", "--lang", "en")
    assert (result.code, result.err) == (0, "")
    assert "SIGKILL" in result.out
    assert "acknowledged memories found after SIGKILL" in result.out
    assert "0 of the 3 memories in flight" in result.out
    assert "Finance returned the claim because the invoice is unclear" in result.out
    assert "times smaller" in result.out
    assert "└── ○ open   Expense claim  <- active" in result.out
    assert "\x1b" not in result.out
    assert set(tmp_path.iterdir()) == before


def test_wrong_arguments(cli: Cli, tmp_path: Path) -> None:
    assert cli("demo", "--lang", "fr", "--json").document["error"]["type"] == "InvalidInput"
    assert "--keep" in cli("demo", "--store", str(tmp_path), "--json").document["error"]["message"]


def test_both_languages_tell_the_same_story() -> None:
    zh, en = STORIES["zh"], STORIES["en"]
    assert zh.words.keys() == en.words.keys()
    assert [len(chore.memories) for chore in zh.chores] == [len(chore.memories) for chore in en.chores]
    assert [memory[0] for memory in zh.memories] == [memory[0] for memory in en.memories]

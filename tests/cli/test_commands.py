"""What the commands do, seen from outside."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from .conftest import ROOT, Cli

CONTENTS = [
    "财务退回，原因是发票信息不清晰",
    "trailing blanks and a line end \r\n\r\n  ",
    'a fence ```json\n{"a": 1}\n``` and --- front matter ---',
    "\tdef f():\n\t\treturn '家庭 👨‍👩‍👧‍👦 🇨🇳'",
    "x" * 200_000 + "末尾",
]


class TestContent:
    @pytest.mark.parametrize("content", CONTENTS, ids=range(len(CONTENTS)))
    def test_stdin_is_kept_byte_for_byte(self, cli: Cli, content: str) -> None:
        added = cli.json("add", "-", stdin=content.encode())
        assert cli.json("show", added["id"])["content"] == content

    def test_stdin_that_is_not_utf8_is_refused_and_nothing_stored(self, cli: Cli) -> None:
        cli.json("checkpoint")
        result = cli("add", "-", stdin="发票".encode("gbk"))
        assert result.code == 2
        assert "content: stdin is not valid UTF-8" in result.err
        assert cli.json("stats")["nodes"] == 0

    def test_update_reads_stdin_too(self, cli: Cli, claim: dict[str, str]) -> None:
        cli.json("update", claim["fact"], "--content", "-", stdin="用户李四，部门 sales\n".encode())
        assert cli.json("show", claim["fact"])["content"] == "用户李四，部门 sales\n"

    def test_content_that_looks_like_an_option_goes_after_two_dashes(self, cli: Cli) -> None:
        added = cli.json("add", "--", "--json")
        assert cli.json("show", added["id"])["content"] == "--json"

    def test_an_exact_repeat_of_a_fact_is_confirmed(self, cli: Cli, claim: dict[str, str]) -> None:
        again = cli.json("add", "用户张三，部门研发部", "--type", "fact")
        assert (again["id"], again["created"]) == (claim["fact"], False)


class TestEveryCommandsOptions:
    def test_they_stand_before_or_after_the_command_and_the_later_one_wins(self, cli: Cli, tmp_path: Path) -> None:
        cli.json("--store", str(tmp_path / "a"), "add", "在前面 before")
        cli.json("add", "在后面 after", "--store", str(tmp_path / "a"))
        cli.json("--store", str(tmp_path / "b"), "task", "--store", str(tmp_path / "c"), "start", "任务")
        assert cli.json("stats", "--store", str(tmp_path / "a"))["nodes"] == 2
        assert not (tmp_path / "b").exists()
        assert cli.json("stats", "--store", str(tmp_path / "c"))["open_tasks"] == 1

    def test_json_before_the_command(self, cli: Cli) -> None:
        assert cli("--json", "add", "文本 text").document["ok"] is True

    def test_namespaces_are_split_at_slashes_and_see_nothing_of_each_other(self, cli: Cli) -> None:
        cli.json("add", "发票 secret of one", "--namespace", "acme/zhang-san")
        cli.json("add", "发票 of another", "--namespace", "acme/li-si")
        other = cli.json("search", "发票 secret", "--namespace", "acme/li-si")
        assert [hit["node"]["content"] for hit in other["hits"]] == ["发票 of another"]
        assert cli.json("stats", "--namespace", "acme/zhang-san")["namespace"] == ["acme", "zhang-san"]

    def test_reading_a_mistyped_namespace_is_an_error_and_makes_nothing(self, cli: Cli) -> None:
        cli.json("add", "x", "--namespace", "acme/zhang-san")
        assert cli("search", "x", "--namespace", "acme/zhang-sann").code == 4
        assert cli("search", "x", "--namespace", "acme/zhang-sann").code == 4

    def test_each_agent_has_its_own_active_task(self, cli: Cli, claim: dict[str, str]) -> None:
        assert cli.json("resume")["active_task"]["id"] == claim["task"]
        assert cli.json("resume", "--agent", "另一个")["active_task"] is None

    def test_environment_variables_stand_in(self, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HYBRIDMEM_NAMESPACE", "acme/王五")
        monkeypatch.setenv("HYBRIDMEM_AGENT", "机器人")
        assert cli.json("add", "x")["agent"] == "机器人"
        assert cli.json("stats")["namespace"] == ["acme", "王五"]

    def test_set_wins_over_the_file_and_settings_add_up(self, cli: Cli) -> None:
        shown = cli.json("--set", "retrieval.k=3", "config", "--set", "context.order=time", "--set", "retrieval.k=4")
        assert shown["config"]["retrieval"]["k"] == 4
        assert shown["config"]["context"]["order"] == "time"
        assert shown["config"]["embedding"]["provider"] == "hashing"

    def test_printed_configuration_is_a_configuration(self, cli: Cli, tmp_path: Path) -> None:
        file = tmp_path / "effective.yaml"
        file.write_text(cli("config", "--set", "retrieval.k=7").out, encoding="utf-8")
        assert cli.json("config", "--config", str(file)) == cli.json("config", "--set", "retrieval.k=7")


class TestReading:
    @pytest.mark.parametrize(
        "arguments",
        [("search", "x"), ("context",), ("tree",), ("resume",), ("stats",), ("export", "f"), ("show", "x"), ("index",),
         ("task", "list"), ("task", "show"), ("checkpoint", "--list"), ("update", "x", "--content", "y"),
         ("forget", "x"), ("restore-forgotten", "x"), ("archive", "x"), ("unarchive", "x"), ("history", "x"),
         ("restore", "--sequence", "1")],
    )  # fmt: skip
    def test_a_missing_store_is_not_made(self, cli: Cli, arguments: tuple[str, ...]) -> None:
        result = cli(*arguments, "--json")
        assert result.code == 4
        message = result.document["error"]["message"]
        assert str(cli.store) in message
        assert "hybridmem add" in message
        assert not cli.store.exists()

    def test_search_puts_the_answer_first_and_explains(self, cli: Cli, claim: dict[str, str]) -> None:
        result = cli("search", "发票为什么被退回？", "--explain")
        first, path, explained = result.out.splitlines()[:3]
        assert "财务退回，原因是发票信息不清晰" in first
        assert claim["event"] in path
        assert "企业报销任务" in path
        assert "relevance" in explained

    def test_search_limits_and_filters(self, cli: Cli, claim: dict[str, str]) -> None:
        assert len(cli.json("search", "用户 user", "-k", "1")["hits"]) == 1
        found = cli.json("search", "用户 user", "--type", "fact", "--type", "preference")["hits"]
        assert {hit["node"]["type"] for hit in found} == {"fact", "preference"}

    def test_context_goes_to_stdout_and_its_size_to_stderr(self, cli: Cli, claim: dict[str, str]) -> None:
        result = cli("context", "发票", "--budget", "120")
        shown = cli.json("context", "发票", "--budget", "120")
        assert result.out == shown["text"] + "\n"
        assert result.err.startswith(f"{shown['tokens']} of 120 tokens")

    def test_import_gives_back_what_export_wrote(self, cli: Cli, claim: dict[str, str], tmp_path: Path) -> None:
        file = str(tmp_path / "全部.jsonl")
        assert cli.json("export", file)["nodes"] == 4
        other = ("--store", str(tmp_path / "other"))
        assert cli.json("import", file, *other)["added"] == 4
        assert cli.json("import", file, *other) | {"added": 0, "skipped": 4} == cli.json("import", file, *other)
        assert cli.json("show", claim["event"], *other)["content"] == "财务退回，原因是发票信息不清晰"


class TestTasks:
    def test_a_life(self, cli: Cli, claim: dict[str, str]) -> None:
        child = cli.json("task", "start", "重新上传发票 upload", "--parent", "active")["id"]
        assert [task["id"] for task in cli.json("task", "list")["tasks"]] == [claim["task"], child]
        cli.json("task", "finish", "--status", "failed")
        assert cli.json("task", "list")["active_task_id"] == claim["task"]
        assert [task["id"] for task in cli.json("task", "list", "--status", "failed")["tasks"]] == [child]
        cli.json("task", "update", "--next-step", "打电话 call", "--status", "paused")
        assert cli.json("task", "show")["task"]["next_step"] == "打电话 call"

    def test_the_list_marks_the_active_one(self, cli: Cli, claim: dict[str, str]) -> None:
        line, step = cli("task", "list").out.splitlines()
        assert line.startswith("○ open")
        assert line.endswith("<- active")
        assert step.strip() == "next: 提交报销单"


class TestResume:
    def test_after_an_orderly_end(self, cli: Cli, claim: dict[str, str]) -> None:
        cli.json("add", "先打电话 call first", "--type", "decision")
        out = cli("resume").out
        assert "企业报销任务 [open]" in out
        assert "提交报销单" in out
        assert "先打电话 call first" in out
        assert "ended in order" in out

    def test_after_a_run_that_never_closed(self, cli: Cli, claim: dict[str, str]) -> None:
        program = (
            "import os, sys; from hybridmem import Memory\n"
            "m = Memory.open(sys.argv[1], config={'index': {'background': False}})\n"
            "m.update_task(next_step='用短信通知 by SMS'); m.add('最后一条 last'); os._exit(9)"
        )
        import subprocess

        subprocess.run([sys.executable, "-c", program, str(cli.store)], cwd=ROOT, check=False)
        out = cli("resume").out
        assert "interrupted" in out
        assert "before or during the step: 用短信通知 by SMS" in out
        assert cli.json("resume")["interrupted"] is True

    def test_checkpoints_are_listed_newest_first(self, cli: Cli, claim: dict[str, str]) -> None:
        cli.json("checkpoint", "提交之前 before")
        listed = cli.json("checkpoint", "--list")["checkpoints"]
        assert listed[0]["label"] == "提交之前 before"
        assert "提交之前 before" in cli("checkpoint", "--list").out.splitlines()[0]


class TestIndexing:
    def test_one_write_leaves_its_vector_for_later(self, cli: Cli) -> None:
        cli.json("add", "发票 invoice")
        assert cli.json("stats")["vectors"] == 0
        assert not (cli.store / "vectors").exists()
        assert cli.json("search", "发票")["hits"][0]["score_details"]["vector"] is not None

    def test_a_server_that_is_away_holds_up_nothing_and_stats_name_it(self, cli: Cli) -> None:
        there = ("--set", "index.url=http://127.0.0.1:1", "--set", "index.exact_limit=0")
        cli.json("add", "发票 invoice", *there)
        assert cli.json("search", "发票", *there)["hits"][0]["node"]["content"] == "发票 invoice"
        assert cli.json("index", *there)["waiting"] == 1
        assert cli.json("stats", *there)["index_url"] == "http://127.0.0.1:1"
        assert "not-opened at http://127.0.0.1:1, 1 memories wait" in cli("stats", *there).out

    def test_index_does_all_that_waits(self, cli: Cli, claim: dict[str, str]) -> None:
        assert cli.json("index") == {"ok": True, "waiting": 0, "vectors": 4, "stuck": []}

    def test_more_than_a_batch_is_indexed_by_the_write(self, cli: Cli, tmp_path: Path) -> None:
        messages = [{"role": "user", "content": f"消息 message {i}"} for i in range(12)]
        (tmp_path / "chat.json").write_text(json.dumps(messages), encoding="utf-8")
        cli.json("import", "chat.json", "--set", "index.batch_size=10")
        assert cli.json("stats")["pending"] == 0


class TestNarrowing:
    def test_states_types_and_a_moment_narrow_a_search_and_a_context(self, cli: Cli, claim: dict[str, str]) -> None:
        for name in ("search", "context"):
            live = cli.json(name, "发票", "--type", "event", "--state", "live")
            assert [hit["id"] for hit in live["hits"]] == [claim["event"]]
            assert cli.json(name, "发票", "--state", "archived", "--state", "superseded")["hits"] == []
            then = cli.json(name, "发票", "--as-of", "2020-01-01")
            assert (then["hits"], len(live["hits"])) == ([], 1)
            wrong = cli(name, "发票", "--state", "archive")
            assert (wrong.code, "did you mean 'archived'?" in wrong.err) == (2, True)

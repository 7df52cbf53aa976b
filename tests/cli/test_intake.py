"""hybridmem observe: from a file or stdin, and in words what was stored, what was dropped and why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import Cli

CHAT = [
    {"role": "user", "content": "发票丢了"},
    {"role": "assistant", "content": "ok"},
    {"role": "user", "content": "发票丢了"},
]


def test_it_says_what_was_stored_and_what_was_not(cli: Cli) -> None:
    result = cli("observe", "-", stdin=json.dumps(CHAT).encode())
    assert result.code == 0
    assert "3 messages: stored 1 (event 1), dropped 2" in result.out
    assert "1 × repeat: the same as an earlier message of this call; the first is message 2: 发票丢了" in result.out


def test_a_dry_run_says_so_and_makes_no_store(cli: Cli) -> None:
    cli.json("add", "有了 there")
    result = cli("observe", "-", "--dry-run", "--format", "lines", stdin="第一行\nsecond line\n".encode())
    assert "2 messages: would be stored 2 (event 2), dropped 0" in result.out
    assert cli.json("stats")["nodes"] == 1


def test_duplicates_are_listed_merged_and_taken_apart_again(cli: Cli) -> None:
    text = "每次部署之前都要跑完整的测试 before every deployment"
    one, other = (cli.json("add", text + mark, "--type", "fact")["id"] for mark in ("", "！"))
    cli.json("add", text + " 4711", "--type", "fact")
    cli.json("index")
    listed = cli("duplicates")
    assert "1 groups that say the same" in listed.out
    assert "number: - / 4711" in listed.out
    merged = cli.json("merge", one, other)
    assert (merged["keep"]["id"], merged["ids"]) == (one, [other])
    assert cli.json("show", other)["state"] == "superseded"
    assert "1 live again" in cli("unmerge", one).out
    assert cli.json("show", other)["state"] == "live"


def test_a_file_that_is_too_large_is_refused_before_it_is_read(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bound as import has, so that no file fills the memory."""
    Path("日志.log").write_text("第一行 first line\n" * 10, encoding="utf-8")
    monkeypatch.setattr("hybridmem.files.MAX_FILE_BYTES", 20)
    for verb in ("observe", "import"):
        result = cli(verb, "日志.log", "--json")
        assert (result.code, result.document["error"]["type"]) == (2, "InvalidInput")
        assert "larger than 20 bytes" in result.err

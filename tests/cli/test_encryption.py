"""The commands about encryption: new-key, encrypt, reencrypt, decrypt, rotate-key."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Cli


@pytest.fixture
def keys(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The fingerprints of two keys; the first one is in HYBRIDMEM_KEY, both are in files."""
    found = [cli.json("new-key", f"{number}.key")["key"] for number in range(2)]
    assert (tmp_path / "0.key").stat().st_mode & 0o777 == 0o600
    monkeypatch.setenv("HYBRIDMEM_KEY", (tmp_path / "0.key").read_text("ascii").strip())
    return found


def test_a_store_goes_through_all_of_them_and_says_the_same(
    cli: Cli, keys: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cli.json("add", "蓝鲸计划 blue whale", "--type", "event")
    assert cli.json("encrypt")["cleansed"] is True
    assert "蓝鲸".encode() not in (cli.store / "tree.db").read_bytes()
    assert [hit["node"]["content"] for hit in cli.json("search", "蓝鲸")["hits"]] == ["蓝鲸计划 blue whale"]
    assert cli.json("reencrypt")["sealed"] > 0
    assert cli.json("rotate-key", "--new-key", "file:1.key") == {"ok": True, "data_keys": 1, "key": keys[1]}
    assert cli.json("doctor", "--set", "encryption.key=file:1.key")["ok"] is True
    monkeypatch.setenv("HYBRIDMEM_KEY", (tmp_path / "1.key").read_text("ascii").strip())
    cli.json("export", "sealed.jsonl")
    cli.json("export", "plain.jsonl", "--plain")
    assert "蓝鲸" not in (tmp_path / "sealed.jsonl").read_text("utf-8")
    assert "蓝鲸" in (tmp_path / "plain.jsonl").read_text("utf-8")
    assert cli.json("decrypt")["cleansed"] is True
    monkeypatch.delenv("HYBRIDMEM_KEY")
    assert [hit["node"]["content"] for hit in cli.json("search", "蓝鲸")["hits"]] == ["蓝鲸计划 blue whale"]


@pytest.mark.parametrize(
    "arguments", [("search", "x"), ("add", "x"), ("doctor",), ("doctor", "--fix"), ("stats",), ("reencrypt",)]
)
def test_without_the_key_every_command_ends_with_one_error(
    cli: Cli, keys: list[str], monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    cli.json("add", "蓝鲸计划 blue whale")
    cli.json("encrypt")
    monkeypatch.delenv("HYBRIDMEM_KEY")
    result = cli(*arguments, "--json")
    assert (result.code, result.document["error"]["type"]) == (16, "EncryptionError")
    assert keys[0] in result.document["error"]["message"]


def test_a_key_is_never_written_over_another_and_what_is_none_is_refused(cli: Cli, keys: list[str]) -> None:
    assert cli("new-key", "0.key", "--json").code == 2
    for wrong in ("nothing", "env:NOT_SET_ANYWHERE", "file:没有.key"):
        assert cli("rotate-key", "--new-key", wrong, "--json").code == 3


def test_old_backups_are_told_of_on_stderr(cli: Cli, keys: list[str]) -> None:
    cli.json("add", "蓝鲸计划 blue whale")
    path = cli.json("backup")["path"]
    assert path in cli("encrypt").err
    assert cli.json("encrypt")["copies"] == [path]

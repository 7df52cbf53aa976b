"""What backup, backups and restore-backup do, seen from outside."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hybridmem import faults
from hybridmem.memory import Memory

from .conftest import HASHING, ROOT, Cli


def without_ok(document: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key != "ok"}


def test_a_backup_is_made_listed_and_restored(cli: Cli, claim: dict[str, str], tmp_path: Path) -> None:
    made = without_ok(cli.json("backup", "--label", "提交之前 before"))
    assert (made["number"], made["nodes"], made["verified"], made["label"]) == (1, 4, True, "提交之前 before")
    later = cli.json("add", "后来的 later")["id"]
    (listed,) = cli.json("backups")["backups"]
    assert listed == {**made, "verified": False}
    assert cli.json("backups", "--verify")["backups"] == [made]
    refused = cli("restore-backup", made["path"], str(cli.store))
    assert refused.code == 2
    assert "there is a store" in refused.err
    done = cli.json("restore-backup", made["path"], str(cli.store), "--replace")
    assert (done["nodes"], done["namespaces"], done["made_at"]) == (4, 1, made["at"])
    assert Path(done["aside"]).is_dir()
    assert cli("show", later).code == 4
    assert cli.json("show", claim["fact"])["content"] == "用户张三，部门研发部"
    assert cli.json("search", "发票为什么被退回？")["hits"][0]["id"] == claim["event"]


def test_what_is_printed_for_people_names_the_file_and_where_the_old_store_is(
    cli: Cli, claim: dict[str, str], tmp_path: Path
) -> None:
    assert cli("backups").out == "no backups\n"
    made = cli("backup")
    assert "4 memories" in made.out
    assert made.out.rstrip().endswith(".db")
    path = made.out.split()[-1]
    assert cli("backups").out.split()[-1] == path
    done = cli("restore-backup", path, str(cli.store), "--replace").out
    assert done.startswith("restored 4 memories (namespaces: 1)")
    assert str(cli.store / "aside") in done


def test_backups_are_listed_when_the_store_cannot_be_opened_and_bring_it_back(cli: Cli, claim: dict[str, str]) -> None:
    """That is when they are needed."""
    good, bad = cli.json("backup")["path"], cli.json("backup")["path"]
    os.truncate(bad, 5000)
    (cli.store / "tree.db").write_bytes("乱码 garbage".encode() * 1000)
    assert cli("stats").code == 7
    damaged, whole = cli.json("backups", "--verify")["backups"]
    assert (damaged["path"], damaged["verified"]) == (bad, False)
    assert damaged["problem"]
    assert (whole["path"], whole["verified"]) == (good, True)
    assert "damaged" in cli("backups").out
    cli.json("restore-backup", good, str(cli.store), "--replace")
    assert cli.json("show", claim["fact"])["content"] == "用户张三，部门研发部"


def test_a_restore_that_was_killed_in_its_middle_is_finished_by_the_next_command(
    cli: Cli, claim: dict[str, str]
) -> None:
    path = cli.json("backup")["path"]
    later = cli.json("add", "后来的 later")["id"]
    code = "import sys; from hybridmem import restore_backup; restore_backup(*sys.argv[1:], replace=True)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), faults.VARIABLE: "backup_restore.before_rename"}
    done = subprocess.run([sys.executable, "-c", code, path, str(cli.store)], env=environment, timeout=100)
    assert done.returncode == -9
    assert not (cli.store / "tree.db").exists()
    assert cli.json("show", claim["fact"])["content"] == "用户张三，部门研发部"
    assert cli("show", later).code == 4


def test_a_store_in_use_is_busy(cli: Cli, claim: dict[str, str]) -> None:
    path = cli.json("backup")["path"]
    with Memory.open(cli.store, config=HASHING):
        result = cli("--json", "restore-backup", path, str(cli.store), "--replace")
    assert result.code == 5
    assert result.document["error"]["type"] == "StoreBusy"


def test_a_checkpoint_shows_its_backup(cli: Cli, claim: dict[str, str]) -> None:
    made = without_ok(cli.json("checkpoint", "上线 release", "--backup"))
    assert Path(made["backup"]).is_file()
    shown = cli.json("checkpoint", "--list")["checkpoints"]
    assert shown[0] == made
    assert shown[1]["backup"] is None
    assert Path(made["backup"]).name in cli("checkpoint", "--list").out

"""With --json every command prints exactly one document, whether it succeeds or fails, and the exit code agrees."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from surface import number_of, rows_of

from hybridmem import HybridMemError, Memory

from .conftest import HASHING, Cli

SUCCESSES = {
    "add": ("add", "部署 deploy finished", "--type", "event"),
    "observe": ("observe", "chat.json"),
    "observe --dry-run": ("observe", "chat.json", "--format", "chat", "--dry-run"),
    "merge": ("merge", "{one}", "{double}"),
    "unmerge": ("unmerge", "{one}"),
    "duplicates": ("duplicates", "{task}", "--threshold", "0.5"),
    "show": ("show", "{fact}"),
    "update": ("update", "{fact}", "--importance", "0.3"),
    "move": ("move", "{fact}", "{event}"),
    "index": ("index",),
    "reembed": ("reembed",),
    "search": ("search", "发票为什么被退回？"),
    "context": ("context", "发票为什么被退回？", "--budget", "200"),
    "task start": ("task", "start", "Pay the invoice"),
    "task switch": ("task", "switch", "{task}"),
    "task update": ("task", "update", "--next-step", "等待财务审批"),
    "task finish": ("task", "finish", "--outcome", "已付款 paid"),
    "task claim": ("task", "claim", "--seconds", "60"),
    "task release": ("task", "release"),
    "task list": ("task", "list"),
    "task show": ("task", "show"),
    "tree": ("tree",),
    "supersede": ("supersede", "{fact}", "部门是市场部 marketing", "--importance", "0.8"),
    "feedback": ("feedback", "{fact}", "--confirmed", "--helpful", "--importance", "1", "--note", "用户说对"),
    "consolidate": ("consolidate", "--dry-run"),
    "unconsolidate": ("unconsolidate", "{summary}"),
    "forget": ("forget", "{fact}"),
    "restore-forgotten": ("restore-forgotten", "{fact}"),
    "purge-forgotten": ("purge-forgotten", "--dry-run"),
    "erase": ("erase", "{fact}", "--yes"),
    "erase --dry-run": ("erase", "{event}", "--dry-run"),
    "erase --everything": ("erase", "--everything", "--yes"),
    "verify-erasure": ("verify-erasure", "--all", "--finish"),
    "export --user": ("export", "user.json", "--user", "没有的人 nobody"),
    "archive": ("archive", "{event}", "--no-subtree"),
    "unarchive": ("unarchive", "{event}", "--dry-run"),
    "history": ("history", "{task}"),
    "restore": ("restore", "--checkpoint", "1", "--dry-run"),
    "resume": ("resume",),
    "checkpoint": ("checkpoint", "提交之前"),
    "checkpoint --list": ("checkpoint", "--list"),
    "checkpoint --backup": ("checkpoint", "提交之前", "--backup"),
    "backup": ("backup", "--label", "提交之前"),
    "backups": ("backups", "--verify"),
    "restore-backup": ("restore-backup", "taken.db", "new 新"),
    "doctor": ("doctor",),
    "doctor --fix": ("doctor", "--fix", "--replay"),
    "namespaces": ("namespaces",),
    "share": ("share", "{fact}", "agent:acme/李四:bot", "--rights", "write", "--expires", "2999-01-01"),
    "unshare": ("unshare", "{grant}"),
    "grants": ("grants",),
    "shared": ("shared",),
    "group": ("group", "理赔组", "user:acme/li-si"),
    "stats": ("stats",),
    "audit": ("audit", "--verb", "add", "--outcome", "ok"),
    "audit --export": ("audit", "--export", "audit.jsonl"),
    "audit --prune": ("audit", "--prune", "--older-than", "0"),
    "export": ("export", "out.jsonl"),
    "import": ("import", "chat.json"),
    "config": ("config",),
    "new-key": ("new-key", "new.key"),
    "--version": ("--version",),
}

#: What needs a key, and has tests of its own (test_encryption.py).
ENCRYPTION = {"encrypt", "reencrypt", "decrypt", "rotate-key"}

#: name → (arguments, exit code, type of the error)
FAILURES = {
    "add: blank content": (("add", "  \n"), 2, "InvalidInput"),
    "add: importance out of range": (("add", "x", "--importance", "1.5"), 2, "InvalidInput"),
    "add: importance is no number": (("add", "x", "--importance", "高"), 2, "UsageError"),
    "add: no content": (("add",), 2, "UsageError"),
    "add: metadata is no JSON": (("add", "x", "--metadata", "{"), 2, "InvalidInput"),
    "add: metadata is no object": (("add", "x", "--metadata", "[1]"), 2, "InvalidInput"),
    "add: unknown parent": (("add", "x", "--parent", "没有"), 4, "NotFound"),
    "observe: no such file": (("observe", "没有.json"), 4, "NotFound"),
    "observe: not of the format": (("observe", "broken.json", "--format", "jsonl"), 2, "InvalidInput"),
    "observe: unknown format": (("observe", "chat.json", "--format", "xml"), 2, "InvalidInput"),
    "duplicates: no such threshold": (("duplicates", "--threshold", "2"), 2, "InvalidInput"),
    "merge: another type": (("merge", "{fact}", "{event}"), 2, "InvalidInput"),
    "merge: unknown id": (("merge", "{fact}", "没有"), 4, "NotFound"),
    "unmerge: nothing merged": (("unmerge", "{fact}"), 2, "InvalidInput"),
    "show: unknown id": (("show", "没有"), 4, "NotFound"),
    "update: unknown id": (("update", "nope", "--content", "x"), 4, "NotFound"),
    "update: nothing to change": (("update", "{fact}"), 2, "InvalidInput"),
    "update: other version": (("update", "{fact}", "--content", "x", "--expected-version", "9"), 6, "Conflict"),
    "move: below itself": (("move", "{task}", "{fact}"), 2, "InvalidInput"),
    "search: negative limit": (("search", "x", "-k", "-1"), 2, "InvalidInput"),
    "search: unknown scope": (("search", "x", "--scope", "没有"), 4, "NotFound"),
    "context: unknown order": (("context", "--order", "alphabet"), 2, "InvalidInput"),
    "task switch: not a task": (("task", "switch", "{fact}"), 2, "InvalidInput"),
    "task update: unknown status": (("task", "update", "--status", "nearly"), 2, "InvalidInput"),
    "task claim: no time": (("task", "claim", "--seconds", "0"), 2, "InvalidInput"),
    "task finish: unknown id": (("task", "finish", "nope"), 4, "NotFound"),
    "task list: unknown status": (("task", "list", "--status", "nearly"), 2, "InvalidInput"),
    "task show: unknown id": (("task", "show", "nope"), 4, "NotFound"),
    "task: no sub-command": (("task",), 2, "UsageError"),
    "tree: negative depth": (("tree", "--depth", "-1"), 2, "InvalidInput"),
    "tree: unknown id": (("tree", "nope"), 4, "NotFound"),
    "forget: unknown id": (("forget", "没有"), 4, "NotFound"),
    "forget: the active task": (("forget", "{task}", "--subtree"), 2, "InvalidInput"),
    "restore-forgotten: unknown id": (("restore-forgotten", "nope"), 4, "NotFound"),
    "purge-forgotten: days below 0": (("purge-forgotten", "--older-than", "-1"), 2, "InvalidInput"),
    "erase: nothing named": (("erase", "--yes"), 2, "InvalidInput"),
    "erase: two things named": (("erase", "{fact}", "--everything", "--yes"), 2, "InvalidInput"),
    "erase: not confirmed": (("erase", "{fact}"), 2, "InvalidInput"),
    "erase: unknown id": (("erase", "没有", "--yes"), 4, "NotFound"),
    "verify-erasure: no such receipt": (("verify-erasure", "没有.json"), 4, "NotFound"),
    "archive: an open task, dry": (("archive", "{task}", "--dry-run"), 2, "InvalidInput"),
    "history: unknown id": (("history", "没有"), 4, "NotFound"),
    "restore: nowhere": (("restore",), 2, "InvalidInput"),
    "restore: no such operation": (("restore", "--sequence", "99"), 4, "NotFound"),
    "restore: no such checkpoint": (("restore", "--checkpoint", "没有", "--dry-run"), 4, "NotFound"),
    "unarchive: unknown id": (("unarchive", "nope", "--no-subtree"), 4, "NotFound"),
    "checkpoint: label and list": (("checkpoint", "x", "--list"), 2, "InvalidInput"),
    "checkpoint: backup and list": (("checkpoint", "--backup", "--list"), 2, "InvalidInput"),
    "backup: no such directory": (("backup", "没有/x.db"), 2, "InvalidInput"),
    "backup: blank label": (("backup", "--label", " "), 2, "InvalidInput"),
    "backups: no store": (("backups", "--store", "没有"), 4, "NotFound"),
    "restore-backup: no such file": (("restore-backup", "没有.db", "new"), 4, "NotFound"),
    "restore-backup: no backup": (("restore-backup", "chat.json", "new"), 7, "StoreDamaged"),
    "restore-backup: there is a store": (("restore-backup", "taken.db", "store"), 2, "InvalidInput"),
    "namespaces: no such store": (("namespaces", "--store", "没有"), 4, "NotFound"),
    "stats: the other layout": (("stats", "--set", "store.layout=separate"), 3, "ConfigError"),
    "doctor: no such store": (("doctor", "没有"), 4, "NotFound"),
    "audit: not a time": (("audit", "--since", "昨天"), 2, "InvalidInput"),
    "audit: pruned with a filter": (("audit", "--prune", "--verb", "add"), 2, "InvalidInput"),
    "audit: pruned though kept for ever": (("audit", "--prune"), 2, "InvalidInput"),
    "audit: exported into a store": (("audit", "--export", "store/tree.db"), 2, "InvalidInput"),
    "export: unknown format": (("export", "x", "--format", "xml"), 2, "InvalidInput"),
    "import: no such file": (("import", "没有.json"), 4, "NotFound"),
    "import: not a known format": (("import", "broken.json"), 2, "InvalidInput"),
    "unknown command": (("serach", "x"), 2, "UsageError"),
    "feedback: says nothing": (("feedback", "{fact}"), 2, "InvalidInput"),
    "feedback: unknown reason": (("feedback", "{fact}", "--confirmed-by", "nope"), 4, "NotFound"),
    "consolidate: unknown id": (("consolidate", "没有"), 4, "NotFound"),
    "consolidate: days below 0": (("consolidate", "--older-than", "-1"), 2, "InvalidInput"),
    "unconsolidate: no summary": (("unconsolidate", "{fact}"), 2, "InvalidInput"),
    "supersede: a task": (("supersede", "{task}", "x"), 2, "InvalidInput"),
    "supersede: old version": (("supersede", "{fact}", "x", "--expected-version", "9"), 6, "Conflict"),
    "share: no principal": (("share", "{fact}", "acme/li-si"), 2, "InvalidInput"),
    "share: no such right": (("share", "{fact}", "user:acme/li-si", "--rights", "own"), 2, "InvalidInput"),
    "share: unknown id": (("share", "没有", "user:acme/li-si"), 4, "NotFound"),
    "unshare: unknown grant": (("unshare", "nope"), 4, "NotFound"),
    "group: in a group": (("group", "x", "group:y"), 2, "InvalidInput"),
    "unknown option": (("search", "x", "--explian"), 2, "UsageError"),
    "unknown key": (("stats", "--set", "retrieval.kk=3"), 3, "ConfigError"),
    "value out of range": (("stats", "--set", "retrieval.k=-3"), 3, "ConfigError"),
    "setting without value": (("stats", "--set", "retrieval.k"), 2, "InvalidInput"),
    "no such configuration": (("stats", "--config", "missing.yaml"), 3, "ConfigError"),
    "blank agent": (("stats", "--agent", " x"), 2, "InvalidInput"),
    "namespace with an empty name": (("stats", "--namespace", "acme//x"), 2, "InvalidInput"),
}


@pytest.fixture
def ids(cli: Cli, claim: dict[str, str], tmp_path: Path) -> dict[str, str]:
    messages = [{"role": "user", "content": "发票丢了怎么办"}, {"role": "assistant", "content": "Upload it again"}]
    (tmp_path / "chat.json").write_text(json.dumps(messages), encoding="utf-8")
    (tmp_path / "broken.json").write_text("{ not json", encoding="utf-8")
    cli.json("backup", "taken.db")
    one, double, merged = (cli.json("add", text, "--type", "note")["id"] for text in ("报销", "报销。", "报销！"))
    cli.json("merge", one, merged)
    grant = cli.json("share", one, "user:acme/zhang-san")["id"]
    return {**claim, "grant": grant, "one": one, "double": double, "summary": summarised(cli.store, claim["task"])}


def summarised(store: Path, active: str) -> str:
    """The id of the summary of a task that is finished now; the active task is the one it was."""
    with Memory.open(store, config={**HASHING, "consolidation": {"min_tokens": 20}}) as memory:
        task = memory.start_task("办完的任务")
        memory.add_many(
            [{"content": f"发票 INV-{number} 没人接 nobody answered", "type": "event"} for number in range(9)]
        )
        memory.add("决定：hand it in again", type="decision")
        memory.finish_task()
        (branch,) = memory.consolidate(task.id).branches
        memory.switch_task(active)
    assert branch.summary_id is not None
    return branch.summary_id


@pytest.mark.parametrize("name", SUCCESSES)
def test_success_is_one_document(cli: Cli, ids: dict[str, str], name: str) -> None:
    result = cli(*(part.format(**ids) for part in SUCCESSES[name]), "--json")
    assert result.code == 0, result.err
    assert result.document["ok"] is True
    assert result.err == ""


@pytest.mark.parametrize("name", SUCCESSES)
def test_no_command_tells_of_another_namespace_or_touches_it(cli: Cli, ids: dict[str, str], name: str) -> None:
    """Each command, since each has its row; the other namespace has the very same ids where it can."""
    with Memory.open(cli.store, namespace=("default", "甲"), config=HASHING) as memory:
        task = memory.start_task("邻居 qcanaryq", next_step="邻居 qcanaryq's step")
        memory.add("邻居 qcanaryq 发票 invoice 报销", type="fact", id=ids["fact"], parent=task.id)
        memory.forget(memory.add("邻居 qcanaryq, gone", type="event", id=ids["event"]).id)
        memory.checkpoint("邻居 qcanaryq")
        memory.flush()
        own = number_of(cli.store, memory)
    before = rows_of(cli.store, own)
    result = cli(*(part.format(**ids) for part in SUCCESSES[name]), "--json")
    assert result.code == 0, result.err
    assert "qcanaryq" not in result.out
    assert "邻居" not in result.out
    assert rows_of(cli.store, own) == before
    if name == "export":
        assert "qcanaryq" not in Path("out.jsonl").read_text("utf-8")


@pytest.mark.parametrize("name", FAILURES)
def test_failure_is_one_document_and_one_line(cli: Cli, ids: dict[str, str], name: str) -> None:
    arguments, code, kind = FAILURES[name]
    result = cli(*(part.format(**ids) if part != "{" else part for part in arguments), "--json")
    assert result.document["ok"] is False
    error = result.document["error"]
    assert (result.code, error["exit_code"], error["type"]) == (code, code, kind)
    assert error["message"]
    assert result.err.startswith("error: ")
    assert result.err.count("\n") == 1


@pytest.mark.parametrize("name", ["show: unknown id", "unknown key", "unknown command"])
def test_failure_for_people_leaves_stdout_empty(cli: Cli, ids: dict[str, str], name: str) -> None:
    arguments, code, _ = FAILURES[name]
    result = cli(*arguments)
    assert (result.code, result.out) == (code, "")
    assert result.err.startswith("error: ")


def test_every_command_has_a_success_here(cli: Cli) -> None:
    """A new command must come with its row above (demo has tests of its own)."""
    text = cli("--help").out + cli("task", "--help").out
    shown = {line.split()[1] for line in text.splitlines() if line.startswith("│ ") and line[2].islower()}
    covered = {word for name in SUCCESSES for word in name.split() if not word.startswith("-")} | {"demo", *ENCRYPTION}
    assert shown == covered


def test_the_help_names_every_exit_code_of_the_errors(cli: Cli) -> None:
    """A script that tells errors apart by their code must be able to look them up."""
    codes, todo = set(), [HybridMemError]
    while todo:
        kind = todo.pop()
        codes.add(kind.exit_code)
        todo += kind.__subclasses__()
    text = " ".join(cli("--help").out.split("Exit codes:")[1].split())
    assert codes <= {int(part.split()[0]) for part in text.rstrip(".").split("; ") if part[0].isdigit()}


def test_an_empty_search_is_a_success(cli: Cli) -> None:
    cli.json("checkpoint")
    assert cli.json("search", "什么都没有 nothing at all")["hits"] == []


def test_chinese_stays_readable_in_the_document(cli: Cli) -> None:
    assert "发票 invoice 📄" in cli("add", "发票 invoice 📄", "--json").out

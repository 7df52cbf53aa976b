"""Agents are killed in earnest, and a product that loses something does not get away with it.

Stores lie in memory where there is such a folder: a killed process loses nothing of what the system has taken from it,
wherever that is, and the disk of a busy machine makes it a test of patience.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from eval import cli, results
from eval.durability import outcome, run, sabotage, sheets, trajectories
from hybridmem import faults
from hybridmem.errors import ConfigError, InvalidInput, NotFound

KILLS = 60
VERBS = {
    "add", "add_many", "import_", "confirm", "update", "update_shared", "move", "pin", "start_task", "update_task",
    "switch_task", "finish_task", "checkpoint", "forget", "restore_forgotten", "archive", "unarchive",
}  # fmt: skip


def folder(tmp_path: Path) -> Path:
    return Path("/dev/shm") if Path("/dev/shm").is_dir() else tmp_path


@pytest.fixture(scope="module")
def told() -> list[int]:
    return []


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory, told: list[int]) -> dict[str, Any]:
    made = tmp_path_factory.mktemp("stores")
    return run.run(KILLS, 5, lambda what, count: told.append(count), folder=folder(made))


def test_sixty_kills_lose_nothing_acknowledged_and_leave_nothing_wrong(result: dict[str, Any]) -> None:
    """At every fault point and at random moments; 1, 2 and 4 processes; the store is killed many times in its life."""
    found = result["durability"]
    assert found["problems"] == []
    assert not found["failed"]
    assert found["lost"] == found["extra"] == found["wrong"] == found["disagree"] == found["astray"] == 0
    assert found["recovered"] == found["acknowledged"] > 300
    assert {name: share for name, share in found["right"].items() if share != 100.0} == {}


def test_it_dies_at_every_point_and_at_random_moments_with_1_2_and_4_processes(result: dict[str, Any]) -> None:
    """Without this the figures above would say little."""
    found = result["durability"]
    assert found["kills"] >= KILLS
    assert found["never_passed"] == []
    assert set(found["points"]) == {"", *faults.POINTS}
    assert set(found["by_processes"]) == {"1", "2", "4"}
    assert set(found["verbs"]) == VERBS
    assert found["stores"] < found["looks"] / 3, "a store is to be killed many times"
    assert sum(found["under_way"].values()) > KILLS / 4, "too few died in the middle of a call"


def test_the_progress_hears_of_every_kill(result: dict[str, Any], told: list[int]) -> None:
    assert sum(told) == result["durability"]["kills"]


def test_it_says_where_it_came_from_and_nothing_of_the_machine(result: dict[str, Any]) -> None:
    assert {"git", "code", "versions", "cores"} <= set(result["provenance"])
    assert result["config"]["embedding"]["provider"] == "hashing"
    text = json.dumps(result, ensure_ascii=False)
    assert str(results.ROOT) not in text
    assert "/dev/shm" not in text


@pytest.mark.parametrize(
    ("broken", "points"),
    [("outbox", ["write.before_return"]), ("log", ["write.after_commit"])],
)
def test_a_product_that_is_broken_is_found_out(tmp_path: Path, broken: str, points: list[str]) -> None:
    """With the outbox row not written, or the log row outside of the transaction."""
    found = run.run(6, 0, lambda what, count: None, broken=broken, points=points, folder=folder(tmp_path))["durability"]
    assert found["failed"]
    assert found["lost"] + found["wrong"] + found["disagree"] > 0
    assert found["problems"]


def test_a_sabotage_that_there_is_not_is_refused() -> None:
    with pytest.raises(ConfigError, match="outbox"):
        run.run(1, 0, lambda what, count: None, broken="outbocks")
    assert set(sabotage.KINDS) == {"outbox", "log"}


def test_the_command_writes_a_result_file_that_table_and_report_read(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    messages = [
        {"role": "user", "content": "帮我报销 please file my expenses"},
        {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "file", "arguments": "{}"}}]},
        {"role": "tool", "content": [{"type": "text", "text": "财务退回 rejected"}]},
    ]
    lines = [json.dumps(message, ensure_ascii=False) for message in messages * 4]
    (logs / "one.jsonl").write_text("\n".join(lines), encoding="utf-8")
    out = ["--out", str(tmp_path / "out")]
    command = ["durability", "--kills", "1", "--logs", str(logs), "--folder", str(folder(tmp_path)), *out, "--json"]
    done = CliRunner().invoke(cli.app, command)
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    file = Path(document["file"])
    assert file.name == outcome.file_name(results.read(file))
    assert file.name.startswith("durability-1-logs-")
    table = CliRunner().invoke(cli.app, ["table", str(file), "--markdown"])
    assert table.exit_code == 0
    assert "| lost, extra, wrong | 0, 0, 0 |" in table.stdout


def test_a_run_that_finds_something_ends_with_exit_code_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "run", lambda *given, **more: failed_result())
    done = CliRunner().invoke(cli.app, ["durability", "--out", str(tmp_path)])
    assert done.exit_code == 1
    assert "2, 0, 0" in done.stdout
    assert len(list(tmp_path.glob("durability-*.json"))) == 1


def failed_result() -> dict[str, Any]:
    totals = outcome.Totals(kills=3, rounds=3, stores=1)
    document = outcome.document(totals, {"asked": 3, "seed": 0, "logs": False, "sabotage": None}, [], 1.0)
    document["durability"] |= {"lost": 2, "failed": True}
    return document


def test_a_result_of_nothing_can_be_shown() -> None:
    assert [sheet.rows[5][1].text for sheet in sheets.of(failed_result())] == ["0"]


class TestTrajectories:
    def test_the_same_seed_makes_the_same_in_both_languages(self) -> None:
        made = trajectories.made(3)
        assert made == trajectories.made(3) != trajectories.made(4)
        text = "".join(beat.text for tale in made for beat in tale)
        assert "财务" in text
        assert "the" in text
        assert {beat.kind for tale in made for beat in tale} == {"start", "finish", "note"}

    def test_logs_are_read_in_the_usual_shapes(self, tmp_path: Path) -> None:
        shapes = [
            {"messages": [{"role": "user", "content": "查发票 check the invoice"}]},
            [{"role": "assistant", "content": [{"type": "tool_use", "name": "find", "input": {"id": 7}}]}],
            {"messages": [{"role": "tool", "content": [{"type": "tool_result", "content": "找到了 found"}]}]},
            {"messages": [{"role": "tool", "content": "\x00 half \ud83d"}, {"role": "user", "content": "\u200b"}]},
        ]
        (tmp_path / "a.jsonl").write_text("\n\n".join(map(json.dumps, shapes)), encoding="utf-8")
        found = trajectories.read(tmp_path)
        notes = [[(beat.text, beat.type) for beat in tale if beat.kind == "note"] for tale in found]
        assert notes == [
            [("查发票 check the invoice", "event")],
            [('find {"id": 7}', "decision")],
            [("找到了 found", "event")],
            [("half", "event")],
        ]

    def test_what_is_no_log_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(NotFound, match="jsonl"):
            trajectories.read(tmp_path)
        (tmp_path / "a.jsonl").write_text("[1, 2]\n{}\n", encoding="utf-8")
        with pytest.raises(InvalidInput, match="role and content"):
            trajectories.read(tmp_path)
        (tmp_path / "a.jsonl").write_text('{"role": ', encoding="utf-8")
        with pytest.raises(InvalidInput, match="line 1"):
            trajectories.read(tmp_path)

"""consolidate and unconsolidate on the command line."""

from __future__ import annotations

from .conftest import Cli


def test_a_finished_task_becomes_a_summary_and_comes_back(cli: Cli) -> None:
    task = cli.json("task", "start", "报销 claim")["id"]
    for number in range(12):
        cli.json("add", f"给同事打了电话 {number}，没人接。 nobody answered, waiting for a reply", "--type", "event")
    cli.json("add", "发票号 INV-20431。", "--type", "fact")
    cli.json("task", "finish", task)
    cli.json("task", "start", "别处 elsewhere")
    assert "would become a summary" in cli("consolidate", "--dry-run").out
    found = cli.json("consolidate", task)
    (one,) = found["branches"]
    assert (one["id"], one["summary"], len(one["sources"])) == (task, "发票号 INV-20431。", 13)
    assert cli.json("search", "INV-20431")["hits"][0]["node"]["id"] == one["summary_id"]
    assert f"skipped {task}: there is nothing new" in cli("consolidate").out
    assert "13 brought back" in cli("unconsolidate", one["summary_id"]).out
    assert cli("consolidate", "nowhere").code == 4
    assert cli("consolidate", "--older-than", "-1").code == 2

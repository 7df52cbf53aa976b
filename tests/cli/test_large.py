"""C059: what is printed for people stays readable, however large the memories are."""

from __future__ import annotations

import pytest

from hybridmem.memory import Memory

from .conftest import HASHING, Cli

WIDTH = 100


@pytest.fixture
def large(cli: Cli) -> Cli:
    """Ten memories of 20 kB in both languages below a task."""
    with Memory.open(cli.store, config=HASHING) as memory:
        memory.start_task("报销 claim")
        memory.add_many({"content": f"第{number}份 invoice " + "发票 returned " * 1200} for number in range(10))
    return cli


@pytest.mark.parametrize("limit", ["10", "1000"])
def test_a_search_prints_two_lines_a_hit_with_the_id_to_fetch_it(large: Cli, limit: str) -> None:
    """C059: no line is longer than the terminal is wide, and each ends with the mark of a cut."""
    result = large("search", "发票 invoice", "--limit", limit, "--type", "note")
    assert result.code == 0
    lines = result.out.splitlines()
    assert len(lines) == 20
    assert all(len(line) <= WIDTH for line in lines)
    assert all(line.endswith("…") for line in lines[::2])
    id_ = lines[1].split()[0]
    assert len(large.json("show", id_)["content"]) > 14_000


def test_a_tree_prints_one_line_a_memory(large: Cli) -> None:
    """C059: 200 kB of content, 12 lines."""
    result = large("tree")
    assert result.code == 0
    assert len(result.out.splitlines()) == 12
    assert len(result.out.encode()) < 12 * 3 * WIDTH


def test_a_context_keeps_to_the_budget_of_the_command(large: Cli) -> None:
    """C059: also as a document: the ids of what was cut come along."""
    document = large.json("context", "发票 invoice", "--budget", "500")
    assert document["tokens"] <= 500
    assert document["shortened"]
    assert {one["id"] for one in document["shortened"]} <= {hit["id"] for hit in document["hits"]}

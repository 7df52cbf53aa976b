"""What the cases about processes share: children of their own, the program, and a look at the store afterwards."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from crash.helpers import ROOT, environment

from hybridmem import Memory

#: The hashing embedder, which the program can be told to use too.
PROGRAM = ("--set", "embedding.provider=hashing", "--set", "embedding.dimension=32")


def program(store: Path, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    """``hybridmem …`` on a store, started."""
    return subprocess.Popen(
        [sys.executable, "-m", "hybridmem.cli", *arguments, *PROGRAM],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**environment(), "HYBRIDMEM_STORE": str(store), **variables},
    )


def document(process: subprocess.Popen[str]) -> tuple[int, dict[str, Any]]:
    """Waits for the end of a program that was asked for JSON: its exit code and its one document."""
    out, err = process.communicate(timeout=120)
    assert "Traceback" not in err, err
    (line,) = out.splitlines()
    found: dict[str, Any] = json.loads(line)
    return process.returncode, found


def indexed(store: Path, config: dict[str, Any]) -> None:
    """Lets what waits for its vector be indexed; nobody else may be in the way."""
    with Memory.open(store, config=config) as memory:
        assert memory.flush() == 0

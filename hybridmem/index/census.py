"""What the files of a vector index hold, told without Chroma and without writing: for verify(), which only looks.

A child process reads them. A torn file can do no harm there; and when SQLite closes a file in this process, the locks
that Chroma's own SQLite holds on it in this process would be gone.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hybridmem.index import health

_CHILD = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from pathlib import Path
from hybridmem.index.census import answer
answer(Path(sys.argv[2]))
"""


@dataclass(frozen=True, slots=True)
class Census:
    """``problem`` says why the files are suspect, or is None; ``collections`` has the ids in each collection by its
    name, and is empty with a problem."""

    problem: str | None
    collections: dict[str, frozenset[int]]


def take(directory: Path, *, opening: bool) -> Census:
    """Looks at the index in ``directory``; a missing one is sound and empty.

    Nobody may write to it meanwhile. Takes about half a second, with ``opening`` some three.

    :param opening: also let Chroma open a copy of the files, in a child process: it finds damage that their structure
        does not show. Not while this process has them open.
    """
    if not directory.exists():
        return Census(None, {})
    if not directory.is_dir():
        return Census(f"{directory.name} is not a directory", {})
    path = [str(Path(entry).absolute()) for entry in sys.path]
    command = [sys.executable, "-c", _CHILD, json.dumps(path), str(directory.resolve())]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=health.CHILD_SECONDS, check=False
        )
        said: dict[str, Any] = (
            json.loads(done.stdout) if done.returncode == 0 else {"problem": "the files cannot be read"}
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return Census(f"the files cannot be read: {error}", {})
    if said["problem"] is not None:
        return Census(said["problem"], {})
    if opening and not _opens(directory):
        return Census("Chroma cannot open the files, or does not find in them what they hold", {})
    return Census(None, {name: frozenset(map(int, ids)) for name, ids in said["collections"].items()})


def answer(directory: Path) -> None:
    """What the child does: prints the census of a directory as JSON."""
    with tempfile.TemporaryDirectory() as temporary:
        # A copy, since reading a database that a killed writer left half done writes to it.
        for file in directory.glob(f"{health.DATABASE}*"):
            shutil.copy2(file, temporary)
        copy = Path(temporary) / health.DATABASE
        problem = health.check_structure(directory, copy)
        found = health.collections(copy) if problem is None and copy.exists() else {}
    print(json.dumps({"problem": problem, "collections": {name: sorted(ids) for name, ids in found.items()}}))


def _opens(directory: Path) -> bool:
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary) / directory.name
        shutil.copytree(directory, copy)
        return health.opens_in_child(copy)

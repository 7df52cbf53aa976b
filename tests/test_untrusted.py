"""What comes in is data: never code, never SQL, never syntax of the word index, and never more than is accepted."""

from __future__ import annotations

import ast
import sqlite3
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from isolated import CANARY, NAMESPACES, filled, opened
from surface import READS, WRITES, Own

import hybridmem
from hybridmem import InvalidInput, Memory, NotFound, inputs
from hybridmem.store import unlocking
from tests.conftest import OpenMemory

PACKAGE = Path(hybridmem.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
#: Modules that run what they read.
UNSAFE_MODULES = {"pickle", "cPickle", "dill", "joblib", "shelve", "marshal", "code", "imp"}
UNSAFE_CALLS = {"eval", "exec", "compile", "os.system", "os.popen", "yaml.load", "yaml.full_load", "yaml.unsafe_load"}
#: Reads a file of Chroma's, which is a pickle, by a reader that refuses every name of a class or a function in it.
READS_PLAIN_PICKLE = "index/hnsw.py"


def unsafe(source: str) -> set[str]:
    """What a source uses that can run what it reads."""
    found: set[str] = set()
    for item in ast.walk(ast.parse(source)):
        if isinstance(item, ast.Import):
            found |= {alias.name.split(".")[0] for alias in item.names} & UNSAFE_MODULES
        elif isinstance(item, ast.ImportFrom):
            found |= {(item.module or "").split(".")[0]} & UNSAFE_MODULES
        elif isinstance(item, ast.Call):
            found |= {ast.unparse(item.func)} & UNSAFE_CALLS
            found |= {f"{word.arg}=True" for word in item.keywords if word.arg in ("shell", "allow_pickle")}
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(PACKAGE).as_posix())
def test_nothing_that_is_read_is_run(file: Path) -> None:
    source = file.read_text(encoding="utf-8")
    if file.relative_to(PACKAGE).as_posix() == READS_PLAIN_PICKLE:
        assert "pickle.load" not in source, "only by the reader that refuses names"
        assert "def find_class" in source
        return
    assert not unsafe(source)


@pytest.mark.parametrize(
    "source", ["import pickle", "from marshal import loads", "eval(x)", "yaml.load(x)", "run(x, shell=True)"]
)
def test_the_check_of_what_is_run_sees_each(source: str) -> None:
    assert unsafe(source)


#: What a parameter is called that a caller names a file or a directory by.
NAMED = {"file", "path", "directory"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(PACKAGE).as_posix())
def test_a_path_from_outside_is_checked_where_it_becomes_one(file: Path) -> None:
    """By inputs.path(): a NUL, half a character or a name that is too long is refused by name, not by the system."""
    for item in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if not isinstance(item, ast.FunctionDef):
            continue
        taken = {one.arg for one in ast.walk(item.args) if isinstance(one, ast.arg) and "str" in _annotation(one)}
        made = [
            call.args[0].id
            for call in ast.walk(item)
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "Path"
            if call.args and isinstance(call.args[0], ast.Name)
        ]
        assert not taken & NAMED & set(made), item.name


def _annotation(argument: ast.arg) -> str:
    return "" if argument.annotation is None else ast.unparse(argument.annotation)


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every SQL text that any connection of the store is given, without the values bound to it."""
    given: list[str] = []

    def listening(name: str) -> Callable[..., Any]:
        def run(self: sqlite3.Connection, sql: str, *values: Any) -> Any:
            given.append(sql)
            return getattr(sqlite3.Connection, name)(self, sql, *values)

        return run

    for name in ("execute", "executemany", "executescript"):
        monkeypatch.setattr(unlocking.Connection, name, listening(name), raising=False)
    return given


@pytest.mark.parametrize("number", [3, 27, 28])
def test_no_value_is_ever_part_of_an_sql_text(tmp_path: Path, statements: list[str], number: int) -> None:
    """Whatever is called: contents, ids, names, queries, labels and metadata are bound, not written in."""
    own = Own(**{**asdict(filled(tmp_path / "store", number, tmp_path)), "folder": tmp_path})
    with opened(tmp_path / "store", NAMESPACES[number]) as m:
        m.add("值 value", id=f"{own.canary}'\";--", metadata={f"{own.canary}'": own.canary}, type="event")
        m.search(f"{own.canary}' \" ; -- OR 1=1", 5, metadata={f"{own.canary}'": own.canary}, types=["event"])
        for call in (*READS.values(), *WRITES.values()):
            call(m, own)
    assert len(set(statements)) > 100, "it listens"
    ids = {value for value in asdict(own).values() if isinstance(value, str)}
    for sql in set(statements):
        assert not CANARY.search(sql), sql
        assert not [id for id in ids if id in sql], sql
        assert not [name for name in NAMESPACES[number] if name in sql], sql


SYNTAX = (
    "alpha NOT alpha", "alpha AND missing", '"alpha missing"', "NEAR(alpha missing, 1)", "-alpha", "^alpha",
    "terms:alpha", "{terms}: alpha", "alpha)", '("alpha', "alpha' OR '1'='1", "alpha*", "alpha; DROP TABLE node",
    "1:alpha",
)  # fmt: skip


def narrowed(m: Memory) -> str:
    """A place that is small beside its namespace, where words are looked up by a MATCH of FTS."""
    m.add_many({"content": f"别的 gamma {n}", "parent": "root"} for n in range(40))
    return m.add("地方 place", parent="root").id


@pytest.mark.parametrize("scope", ["namespace", "narrow"])
@pytest.mark.parametrize("query", SYNTAX)
def test_operators_in_a_query_are_words(memory: OpenMemory, query: str, scope: str) -> None:
    """Each finds what has the word, as if the rest were not there; and never by a rule of FTS or SQL."""
    m = memory()
    place = narrowed(m)
    word = m.add("alpha 阿尔法", parent=place)
    other = m.add("beta 贝塔", parent=place)
    hits = m.search(query, 5, scope=place if scope == "narrow" else scope).hits
    assert hits[0].id == word.id
    lexical = {hit.id: hit.score_details.lexical for hit in hits}
    assert lexical[word.id] > 0
    assert not lexical.get(other.id)


@pytest.mark.parametrize("scope", ["namespace", "narrow"])
@pytest.mark.parametrize("query", ["alph*", "al%", "alph_", "*", "%"])
def test_wildcards_in_a_query_stand_for_themselves(memory: OpenMemory, query: str, scope: str) -> None:
    m = memory()
    place = narrowed(m)
    m.add("alpha 阿尔法", parent=place)
    hits = m.search(query, 50, scope=place if scope == "narrow" else scope).hits
    assert not [hit for hit in hits if hit.score_details.lexical]


def deep(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"里": value}
    return value


LONG = "长" * (inputs.MAX_TEXT_BYTES // 3 + 1)
#: Field → a call with one more than is accepted.
BOUNDS: dict[str, Callable[[Memory], Any]] = {
    "content": lambda m: m.add(LONG),
    "metadata": lambda m: m.add("x", metadata={"键": LONG}),
    "metadata: is nested": lambda m: m.add("x", metadata=deep(inputs.MAX_NESTING + 1)),
    "content: is nested": lambda m: m.add(deep(inputs.MAX_NESTING + 1)),
    "items": lambda m: m.add_many({"content": "x"} for _ in range(inputs.MAX_ITEMS + 1)),
    "messages": lambda m: m.observe(["x"] * 10_001),
    "query": lambda m: m.search("问" * (inputs.MAX_QUERY_BYTES // 3 + 1)),
    "query: has": lambda m: m.context("问" * (inputs.MAX_QUERY_BYTES // 3 + 1)),
    "k": lambda m: m.search("x", 2**63),
    "token_budget": lambda m: m.context("x", token_budget=2**63),
    "next_step": lambda m: m.start_task("x", next_step=LONG),
    "note": lambda m: m.feedback(m.root().id, helpful=True, note=LONG),
    "id": lambda m: m.add("x", id="名" * (inputs.MAX_NAME + 1)),
    "type": lambda m: m.add("x", type="a" * 65),
    "label": lambda m: m.checkpoint("签" * (inputs.MAX_NAME + 1)),
    "agent": lambda m: Memory.open(m.path, agent="a" * (inputs.MAX_NAME + 1)),
    "namespace": lambda m: Memory.open(m.path, namespace=("a",) * 17),
    "namespace: may": lambda m: Memory.open(m.path, namespace=("a" * (inputs.MAX_NAME + 1),)),
    "path": lambda m: Memory.open("a" * 256),
    "file": lambda m: m.export("a/" * 2_500),
    "file: may": lambda m: m.import_("a" * 256),
}


@pytest.mark.parametrize("field", BOUNDS)
def test_more_than_is_accepted_is_refused_by_name(memory: OpenMemory, field: str) -> None:
    m = memory()
    m.add("先来的 first", parent="root")
    before = m.stats().nodes
    with pytest.raises(InvalidInput, match=f"^{field}") as refused:
        BOUNDS[field](m)
    assert len(str(refused.value)) < 1_000, "it does not repeat what was too long"
    assert m.stats().nodes == before


UNSHOWABLE: dict[str, Any] = {
    "a long text": "x" * 10**6, "long bytes": b"x" * 10**6, "a long list": ["x" * 10**6], "deep": deep(5_000),
    "a long number": 10**5_000, "a long number inside": {"k": 10**5_000},
}  # fmt: skip


@pytest.mark.parametrize("kind", UNSHOWABLE)
def test_a_message_shows_any_value_in_a_few_words(memory: OpenMemory, kind: str) -> None:
    """Also one that Python cannot write out, which raised from within the message."""
    m, value = memory(), UNSHOWABLE[kind]
    calls: tuple[Callable[[], Any], ...] = (
        lambda: m.add("x", id=value), lambda: m.add("x", type=value), lambda: m.add("x", importance=value),
        lambda: m.add("x", parent=value), lambda: m.add("x", occurred_at=value), lambda: m.get(value),
        lambda: m.search("x", value), lambda: m.search("x", types=[value]), lambda: m.search("x", states=[value]),
        lambda: m.search("x", since=value), lambda: m.context("x", format=value), lambda: m.update(value, content="x"),
        lambda: m.observe("x", format=value), lambda: m.move(value, "root"), lambda: m.pin(m.root().id, value),
    )  # fmt: skip
    for call in calls:
        with pytest.raises((InvalidInput, NotFound)) as refused:
            call()
        assert 0 < len(str(refused.value)) < 1_000


@pytest.mark.parametrize("queries", ["hash", "plain", "none"])
@pytest.mark.parametrize("odd", ["\ud800", "半\udcff", "a\0b"])
def test_a_call_with_half_a_character_does_not_keep_later_ones_from_being_written(
    memory: OpenMemory, odd: str, queries: str
) -> None:
    """Its entry in the audit trail waits for the next write, which must not fail for it: nor any after that."""
    m = memory(audit={"queries": queries})
    for call in (
        lambda: m.get(odd), lambda: m.search("x", scope=odd), lambda: m.search(odd), lambda: m.context(odd),
        lambda: m.history(odd), lambda: list(m.walk(odd)), lambda: m.children(odd),
    ):  # fmt: skip
        with pytest.raises((InvalidInput, NotFound)):
            call()
    kept = m.add("继续 carry on", parent="root")
    assert m.get(kept.id).content == "继续 carry on"
    assert len([entry for entry in m.audit() if entry.outcome != "ok"]) == 7
    assert m.verify(replay=True).ok

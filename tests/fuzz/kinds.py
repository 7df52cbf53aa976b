"""What is tried, kind by kind, and what must hold: stored, or refused by an error of ours with everything as it was."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from hybridmem import HybridMemError, Memory

from .arena import Arena, Ended, Example, readable
from .commands import IDS, command_lines, standard_input
from .documents import FORMATS, files
from .values import anything, depths, meant, numbers, texts, wrapped


def _exit_codes() -> set[int]:
    codes, todo = {13}, [HybridMemError]  # 13: doctor has found something
    while todo:
        kind = todo.pop()
        codes.add(kind.exit_code)
        todo += kind.__subclasses__()
    return codes - {1}


#: Those of the errors, without that of "anything else", which is a traceback in disguise.
EXIT_CODES = _exit_codes()


def check_command(arena: Arena, example: tuple[list[str], bytes | None]) -> None:
    """A command ends with success or an exit code of the table, one document with ``--json``, and no traceback.

    One that fails has changed nothing."""
    arguments, stdin = example
    with arena.example() as place:
        tried(place, arguments, stdin)


def tried(
    place: Example, arguments: list[str], stdin: bytes | None = None, environment: Mapping[str, str] | None = None,
    keys: Sequence[bytes] = (),
) -> Ended:  # fmt: skip
    """How a command ended, after all that must hold.

    :param keys: one of which may be the master key afterwards."""
    before, files = place.rows(), place.files()
    ended = place.command(arguments, stdin, environment)
    said = f"{arguments!r} ended with {ended.code}: {ended.err}"
    assert "Traceback" not in ended.err, said
    assert ended.code in EXIT_CODES | {0}, said
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if "--json" in own and not {"-h", "--help"} & set(own):
        (line,) = ended.out.decode("utf-8").splitlines() if ended.out.count(b"\n") == 1 else (None,)
        assert line is not None, f"{said}; stdout {ended.out!r}"
        document = json.loads(line)
        assert document["ok"] is (ended.code == 0), said
        if ended.code not in (0, 13):
            assert document["error"]["exit_code"] == ended.code
            readable(document["error"]["message"])
    if ended.code not in (0, 13):
        assert place.rows() == before, said
        assert place.files() == files, said
    place.sound(keys=keys)
    return ended


def check_file(arena: Arena, example: tuple[bytes, str, bool, str]) -> None:
    """A file is imported whole or not at all, into a namespace that has something or one that is empty."""
    data, format, is_empty, parent = example
    with arena.example() as place:
        file = place.folder / "given"
        file.write_bytes(data)
        namespace = ("new 新",) if is_empty else ("default",)
        if place.call(namespace, lambda memory: memory.import_(file, format=format, parent=parent)) is None:
            _goes_round(place, namespace)


def _goes_round(place: Example, namespace: tuple[str, ...]) -> None:
    """What was taken in can be written out, and is the same when it is taken in again."""
    for format in ("jsonl", "tree"):
        with place.opened(namespace) as memory:
            memory.export(place.folder / f"out.{format}", format=format)
            nodes = {node.id: (node.content, node.metadata, node.type, node.state) for node in memory.walk()}
        with place.opened(("again", format)) as memory:
            memory.import_(place.folder / f"out.{format}")
            assert {node.id: (node.content, node.metadata, node.type, node.state) for node in memory.walk()} == nodes


def check_messages(arena: Arena, example: tuple[bytes, str, bool]) -> None:
    """Raw output of agents is observed whole or not at all: as text, or as the list that it holds."""
    data, format, as_list = example
    given: Any = data.decode("utf-8", "surrogatepass" if as_list else "replace") if _decodes(data) else repr(data)
    if as_list:
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            given = given.split("\n")
    with arena.example() as place:
        place.call(("default",), lambda memory: memory.observe(given, format=format))


def _decodes(data: bytes) -> bool:
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


@dataclass(frozen=True)
class Query:
    """What a search is asked."""

    query: Any
    k: Any = 5
    scope: Any = "auto"
    filters: tuple[tuple[str, Any], ...] = ()
    budget: Any = None
    as_context: bool = False


def check_query(arena: Arena, example: Query) -> None:
    """A query finds or is refused, and nothing in it is syntax; searching with it changes no memory."""

    def run(memory: Memory) -> None:
        query, k, budget = meant(example.query), meant(example.k), meant(example.budget)
        filters = {name: meant(value) for name, value in example.filters}
        if example.as_context:
            found = memory.context(query, token_budget=budget, scope=example.scope, **filters)
            assert isinstance(found.text, str)
        else:
            result = memory.search(query, k, scope=example.scope, **filters)
            assert len(result.hits) <= k

    with arena.example() as place:
        tables = ("node", "revision", "operation", "lexical", "task", "active")
        before = {name: rows for name, rows in place.rows().items() if name.endswith(tables)}
        with place.opened() as memory:
            try:
                run(memory)
            except HybridMemError as error:
                readable(str(error))
            assert {name: rows for name, rows in place.rows().items() if name.endswith(tables)} == before
        place.sound()


#: Calls that take metadata, structured contents and numbers from outside.
WRITERS: dict[str, Callable[[Memory, Any], Any]] = {
    "add metadata": lambda m, value: m.add("内容 content", metadata=value),
    "add content": lambda m, value: m.add(value),
    "add importance": lambda m, value: m.add("内容 content", importance=value, confidence=value),
    "add id": lambda m, value: m.add("内容 content", id=value),
    "add parent": lambda m, value: m.add("内容 content", parent=value),
    "add type": lambda m, value: m.add("内容 content", type=value),
    "add time": lambda m, value: m.add("内容 content", occurred_at=value),
    "add_many": lambda m, value: m.add_many([{"content": "first 先"}, {"content": "x", "metadata": value}]),
    "add_many items": lambda m, value: m.add_many(value),
    "add_many item": lambda m, value: m.add_many([{"content": "first 先"}, value]),
    "update metadata": lambda m, value: m.update("fact1", metadata=value),
    "update content": lambda m, value: m.update("fact1", content=value),
    "update version": lambda m, value: m.update("fact1", content="新", expected_version=value),
    "search metadata": lambda m, value: m.search("发票", metadata=value),
    "supersede": lambda m, value: m.supersede("fact1", value),
    "feedback": lambda m, value: m.feedback("fact1", helpful=True, note=value),
    "start_task": lambda m, value: m.start_task(value, next_step=value),
    "update_task": lambda m, value: m.update_task("task1", next_step=value),
    "checkpoint": lambda m, value: m.checkpoint(value),
    "forget policy": lambda m, value: m.forget(policy=value, dry_run=True),
    "observe": lambda m, value: m.observe(value),
    "observe extra": lambda m, value: m.observe([{"role": "user", "content": "记住 INV-9", "extra": value}]),
}


def check_value(arena: Arena, example: tuple[str, Any, int, bool]) -> None:
    """A value is kept as it is or refused, whatever it is and however deep."""
    writer, value, depth, as_list = example
    with arena.example() as place:
        place.call(("default",), lambda memory: WRITERS[writer](memory, wrapped(value, depth, as_list)))


_times = st.one_of(st.sampled_from(("2026-07-01", "昨天")), anything)
_filters = st.dictionaries(
    st.sampled_from(("types", "states", "since", "until", "metadata", "as_of")),
    st.one_of(_times, st.lists(st.sampled_from(("fact", "live", "forgotten", "archived")), max_size=3)),
    max_size=2,
).map(lambda found: tuple(found.items()))
_queries = st.builds(
    Query,
    query=st.one_of(texts, texts, texts, st.builds(lambda a, b: f"{a} {b}", texts, texts), anything),
    k=st.one_of(st.integers(0, 20), numbers, anything),
    scope=st.one_of(st.sampled_from(("auto", "namespace", "task", *IDS)), texts),
    filters=_filters,
    budget=st.one_of(st.none(), st.integers(1, 400), numbers),
    as_context=st.booleans(),
)


@dataclass(frozen=True)
class Kind:
    """Examples of one kind, the check of one, and the world in which it happens."""

    examples: st.SearchStrategy[Any]
    check: Callable[[Arena, Any], None]
    world: str = "plain"


_parents = st.sampled_from(("task", "root", "node", *IDS))
_readings = st.sampled_from(("auto", "chat", "lines", "jsonl"))
EVERYWHERE = {
    "command": Kind(st.tuples(command_lines(), standard_input), check_command),
    "file": Kind(st.tuples(files(), st.sampled_from(FORMATS), st.booleans(), _parents), check_file),
    "messages": Kind(st.tuples(files(), _readings, st.booleans()), check_messages),
    "query": Kind(_queries, check_query),
    "value": Kind(st.tuples(st.sampled_from(sorted(WRITERS)), anything, depths, st.booleans()), check_value),
}

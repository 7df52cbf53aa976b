"""Command lines: every command and option of the program, read from the program itself, with values of every sort."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from hybridmem.cli.app import _command
from hybridmem.config import Config
from hybridmem.store.layout import directory_name

from .arena import GRANT
from .documents import files
from .values import json_values, moments, principals, texts

#: Plays a scripted day in several processes, and takes nothing in.
LEFT_OUT = {("demo",)}
IDS = ("root1", "task1", "done1", "fact1", "event1", "note1", "twin1", "old1", "kept1", "gone1", "json1", "没有", "1")
#: Files that are there (see arena.py), that are not, that are a store's, that are links, and what is no file.
PATHS = (
    "chat.json", "tree.json", "lines.jsonl", "config.yaml", "taken.db", "out.jsonl", "new", "link.db", "loop",
    "folder", "missing/x", "store",
    "store/tree.db", "store/vectors", "store/store.lock", "store/tree.db-wal", "store/checkpoints/x.db",
    "store/../store/tree.db", "folder/../x",
    "linked/tree.db", "empty", ".", "", "./", "x" * 300, "a\0b", "半\ud800", "半\udcff", "out\n.jsonl", "-", "--",
    "no/" * 2_000, "chat.json/x",
    "sealed.jsonl", "sealed.json", "receipt.json", "other.key", f"store/{directory_name(('default',))}/tree.db",
    f"store/{directory_name(('default',))}", "store/hybridmem.layout",
)  # fmt: skip
WORDS = (
    "event", "fact", "task", "summary", "root", "note", "decision", "auto", "namespace", "active", "open", "done",
    "paused", "live", "forgotten",
    "archived", "tree", "time", "score", "text", "markdown", "messages", "json", "jsonl", "chat", "lines",
    "2026-07-01", "2026-07-01T09:00:00Z",
    "1", "taken", "default", "acme/zhang", "decay", "least_weight", "[{policy: age, days: 0}]", "xml", "Fact",
)  # fmt: skip
NUMBERS = (
    "0", "1", "3", "10", "-1", "0.5", "1.5", "1e999", "nan", "inf", "-inf", "9223372036854775807",
    "9223372036854775808", "1" * 400,
    "1" * 5_000, "1_0", "٣", "", " 1", "0x1", "高",
)  # fmt: skip


def _commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, inner in getattr(command, "commands", {}).items():
        yield from _commands(inner, (*path, name))
    if path and not getattr(command, "commands", None):
        yield path, command


COMMANDS = {path: command.params for path, command in _commands(_command()) if path not in LEFT_OUT}


def _keys(model: Any, path: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        if hasattr(field.annotation, "model_fields"):
            yield from _keys(field.annotation, f"{path}{name}.")
        else:
            yield path + name


#: Keys of the configuration but those that name a model or a server: nothing here may go out into the network.
KEYS = tuple(
    key
    for key in _keys(Config)
    if not re.search(
        r"embedding\.(?!batch|piece)|url|model|provider|summarizer|reranker|headers|api_key|timeout|retries", key
    )
)

_json = st.one_of(
    json_values.map(lambda value: json.dumps(value, ensure_ascii=False)),
    st.dictionaries(texts, json_values, max_size=3).map(json.dumps),
    st.sampled_from(
        ('{"a": NaN}', '{"a": 1e999}', '{"a":' * 5_000, "[" * 100_000, '{"a": 1, "a": 2}', '{"\\ud800": 1}', "{", "")
    ),
    st.builds(lambda depth: '{"a":' * depth + "1" + "}" * depth, st.sampled_from((31, 32, 33, 500))),
)
_settings = st.builds(
    lambda key, value: f"{key}={value}",
    st.sampled_from(KEYS) | texts,
    st.one_of(texts, st.sampled_from(NUMBERS), st.sampled_from(WORDS), _json),
)
_ids, _paths, _words, _numbers = (st.sampled_from(group) for group in (IDS, PATHS, WORDS, NUMBERS))
_any_value = st.one_of(texts, _ids, _paths, _words, _numbers, _json, _settings)
_BY_NAME = (
    (r"principal|members", principals),
    (r"expires|since|until|as_of", moments | _words),
    (r"^grant$", st.just(GRANT) | _words),
    (r"^new$", st.sampled_from(("env:FUZZ_OTHER_KEY", "file:other.key", "env:FUZZ_NO_KEY", "file:empty", "file:"))),
    (r"^(id|keep|others|parent|within|scope|confirmed_by|contradicted_by|node|reason)$", _ids | _words),
    (r"file|path|backup|receipt|export|store|directory|target|config|place", _paths),
    (r"metadata|json", _json),
    (r"settings", _settings),
    (r"types?$|states?$|status|order|format|policy", _words),
    (r"^k$|limit|budget|depth|importance|confidence|version|seconds|older|threshold|sequence|token|number", _numbers),
)  # fmt: skip


def _value(draw: st.DrawFn, name: str) -> str:
    values = next((values for pattern, values in _BY_NAME if re.search(pattern, name)), texts | _ids)
    return str(draw(values if draw(st.integers(0, 4)) else _any_value))


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    """A command with its arguments and some of its options; one in six with something that does not belong there."""
    path: tuple[str, ...] = draw(st.sampled_from(sorted(COMMANDS)))
    words: list[str] = []
    optional: list[Any] = [one for one in COMMANDS[path] if type(one).__name__ == "TyperOption"]
    for argument in COMMANDS[path]:
        if argument in optional or not (argument.required or draw(st.booleans())):
            continue
        times = 1 if argument.nargs == 1 else draw(st.integers(0, 3))
        words += [_value(draw, argument.name) for _ in range(times)]
    if words and draw(st.booleans()):
        words.insert(0, "--")
    some: st.SearchStrategy[list[Any]] = st.lists(st.sampled_from(optional), max_size=4)
    for option in draw(some):
        if option.name in ("store", "config", "namespace", "agent") and draw(st.integers(0, 2)):
            continue  # or most would end there
        given = [draw(st.sampled_from([*option.opts, *option.secondary_opts]))]
        if not option.is_flag:
            value = _value(draw, option.name)
            given = [f"{given[0]}={value}"] if given[0].startswith("--") and draw(st.booleans()) else [*given, value]
        words = [*given, *words]
    words = ["--json", *path, *words] if draw(st.integers(0, 5)) else [*path, *words]
    if draw(st.integers(0, 5)) == 0:
        at = draw(st.integers(0, len(words)))
        words[at : at + draw(st.integers(0, 1))] = [draw(_any_value)]
    return [confined(word) for word in words]


def confined(word: str) -> str:
    """The word as one that names nothing outside of the directory of the example, whatever option it ends up with."""
    if word in PATHS:
        return word
    while ".." in word:
        word = word.replace("..", ".")
    return re.sub(r"^(-{0,2}[\w-]*=?)[/~]+", r"\1", word)


standard_input = st.one_of(st.none(), files(), texts.map(lambda text: text.encode("utf-8", "surrogatepass")))

"""C035: a NUL is refused at every door by one rule, with the field named, and nothing is stored by halves.

There is no MCP server yet; what it will call are the methods and the commands that are tried here.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hybridmem import InvalidInput, Memory
from hybridmem.cli import main

OpenMemory = Callable[..., Memory]

#: In the middle, at the beginning, at the end, and several.
TEXTS = ("发票\0 invoice 之后", "\0invoice", "发票\0", "a\0b\0c")

#: A call with the text at one place, and what the message names.
DOORS: dict[str, tuple[Callable[[Memory, str], Any], str]] = {
    "content": (lambda m, text: m.add(text), "content"),
    "structured content": (lambda m, text: m.add({"说明": [text]}), "content"),
    "key of a structured content": (lambda m, text: m.add({text: 1}), "content"),
    "content in a batch": (lambda m, text: m.add_many([{"content": "好 good"}, {"content": text}]), "item 1: content"),
    "new content": (lambda m, text: m.update("fact", content=text), "content"),
    "content that supersedes": (lambda m, text: m.supersede("fact", text), "content"),
    "title": (lambda m, text: m.start_task(text), "title"),
    "new title": (lambda m, text: m.update_task("task", title=text), "title"),
    "next step": (lambda m, text: m.update_task("task", next_step=text), "next_step"),
    "outcome": (lambda m, text: m.finish_task("task", outcome=text), "outcome"),
    "type": (lambda m, text: m.add("好 good", type=text), "type"),
    "id": (lambda m, text: m.add("好 good", id=text), "id"),
    "metadata value": (lambda m, text: m.add("好 good", metadata={"标签": [text]}), "metadata"),
    "metadata key": (lambda m, text: m.add("好 good", metadata={text: 1}), "metadata"),
    "new metadata": (lambda m, text: m.update("fact", metadata={"标签": text}), "metadata"),
    "query": (lambda m, text: m.search(text), "query"),
    "query of a context": (lambda m, text: m.context(text), "query"),
    "metadata of a filter": (lambda m, text: m.search("发票", metadata={"标签": text}), "metadata"),
    "label": (lambda m, text: m.checkpoint(text), "label"),
    "note": (lambda m, text: m.feedback("fact", helpful=True, note=text), "note"),
    "message": (lambda m, text: m.observe([{"role": "user", "content": text}]), "messages"),
    "name of a speaker": (lambda m, text: m.observe([{"role": "user", "name": text, "content": "我"}]), "messages"),
    "file": (lambda m, text: m.export(f"/tmp/{text}"), "file"),
    "file to import": (lambda m, text: m.import_(f"/tmp/{text}"), "file"),
    "backup": (lambda m, text: m.backup(f"/tmp/{text}"), "file"),
}  # fmt: skip


@pytest.mark.parametrize("text", TEXTS, ids=["middle", "first", "last", "several"])
@pytest.mark.parametrize("door", DOORS)
def test_every_door_refuses_it_by_name_and_stores_nothing(
    memory: OpenMemory, refused: Any, door: str, text: str
) -> None:
    m = memory()
    m.add("张三在研发部", type="fact", id="fact", parent="root")
    m.import_(file_with_a_task(m.path.parent))
    call, field = DOORS[door]
    with refused(m, InvalidInput, field):
        call(m, text)


def file_with_a_task(folder: Path) -> Path:
    """To import: a task whose id is known."""
    task = {"status": "open", "next_step": None}
    node = {"kind": "node", "id": "task", "parent_id": None, "type": "task", "content": "报销 claim", "task": task}
    file = folder / "task.jsonl"
    file.write_text("\n".join(map(json.dumps, (HEADER, node))), encoding="utf-8")
    return file


@pytest.mark.parametrize("name", ["namespace", "agent", "path"])
def test_opening_refuses_it_and_makes_nothing(tmp_path: Path, name: str) -> None:
    given: dict[str, Any] = {"path": tmp_path / "store", "namespace": ("张三",), "agent": "a"}
    given[name] = {"namespace": ("张\0三",), "agent": "a\0b", "path": f"{tmp_path}/st\0ore"}[name]
    with pytest.raises(InvalidInput, match=name):
        Memory.open(**given)
    assert list(tmp_path.iterdir()) == []


NUL = "之前 before\0after"
GOOD = {"id": "b", "parent_id": None, "content": "先 first"}
HEADER = {"kind": "hybridmem", "version": 1}
FILES: dict[str, tuple[str, list[Any] | dict[str, Any]]] = {
    "content of a line": ("jsonl", [{"id": "a", "content": NUL}]),
    "id of a line": ("jsonl", [{"id": "a\0", "content": "后"}]),
    "agent of a line": ("jsonl", [{"id": "a", "content": "后", "agent": NUL}]),
    "metadata of a line": ("jsonl", [{"id": "a", "content": "后", "metadata": {"标签": [NUL]}}]),
    "structured content of a line": ("jsonl", [{"id": "a", "content": json.dumps([NUL]), "structured": True}]),
    "content in a tree": ("tree", {"nodes": [GOOD, {**GOOD, "id": "a", "content": NUL}]}),
    "key in a tree": ("tree", {"nodes": [GOOD, {**GOOD, "id": "a", NUL: 1}]}),
    "id in a tree": ("tree", {"nodes": [GOOD, {**GOOD, "id": "a\0"}]}),
    "content in a chat": ("chat", [{"role": "user", "content": "先 first"}, {"role": "user", "content": NUL}]),
    "role in a chat": ("chat", [{"role": "user", "content": "先 first"}, {"role": NUL, "content": "后"}]),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_with_one_is_refused_whole(memory: OpenMemory, refused: Any, name: str) -> None:
    m = memory()
    format, document = FILES[name]
    text = json.dumps(document)
    if format == "jsonl":
        node = {"kind": "node", "parent_id": None, "type": "note"}
        text = "\n".join(
            json.dumps(line) for line in [HEADER, {**node, **GOOD}, *({**node, **one} for one in document)]
        )
    file = m.path.parent / "file.json"
    file.write_text(text, encoding="utf-8")
    with refused(m, InvalidInput, "NUL|control characters"):
        m.import_(file, format=format)


@pytest.mark.parametrize(
    ("arguments", "stdin"),
    [
        (("add", "-"), "发票\0invoice"),
        (("task", "start", "-"), "报销\0claim"),
        (("add", "好 good", "--metadata", '{"标签": "x\\u0000y"}'), ""),
        (("search", "-"), "发票\0invoice"),
        (("context", "-"), "发票\0invoice"),
        (("observe", "-"), '[{"role": "user", "content": "请记住 remember\\u0000this"}]'),
        (("observe", "-", "--format", "lines"), "2026-01-01 00:00:00 ERROR 发票\0failed\n"),
        (("add", "好 good", "--type", "a\0b"), ""),
        (("show", "a\0b"), ""),
        (("import", "a\0b.json"), ""),
        (("export", "a\0b.json"), ""),
        (("add", "好 good", "--namespace", "a\0b"), ""),
        (("add", "好 good", "--agent", "a\0b"), ""),
        (("--config", "a\0b.yaml", "stats"), ""),
    ],
)
def test_the_commands_refuse_it_with_an_exit_code_of_usage(
    memory: OpenMemory,
    rows: Any,
    arguments: tuple[str, ...],
    stdin: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    m = memory()
    m.add("张三在研发部 Zhang San", type="fact")
    before = rows(m)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8"))
    code = main([*arguments, "--store", str(m.path), "--set", "embedding.provider=hashing", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert not document["ok"]
    # An id with one is no id that anything has.
    assert (code, document["error"]["exit_code"]) in ((2, 2), (3, 3), (4, 4)), document
    assert "should not happen" not in document["error"]["message"]
    assert rows(m) == before

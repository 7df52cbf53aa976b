"""C037: content that looks like the store's own formats comes back byte for byte, as one record, on every path."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hybridmem import Memory
from hybridmem.cli import main

OpenMemory = Callable[..., Memory]

CONTENTS = {
    "json object": '{"kind": "node", "id": "x", "content": "发票", "parent_id": null}',
    "json with a fence": '{"code": "```json\\n{\\"a\\": 1}\\n```", "说明": "含有围栏 fence"}',
    "fence": '```json\n{"kind": "hybridmem", "version": 1}\n```\n~~~~\n',
    "front matter": "---\ntitle: 报销 expense\ntags: [a, b]\n---\n\n# 正文 body\n---\n",
    "comment end": "<!-- 注释 --> after --> and ]]> and */ and </memory> and <memory>",
    "crlf and blanks": "  行一 line one  \r\nline two\t\r\n\r\n   ",
    "tabs": "\tdef 函数(x):\n\t\treturn {'a': [x, \"引号\"]}\n",
    "line separators": "一\u2028二\u2029三\x85四\x0b五\x0c六 six",
    "chat": '[{"role": "system", "content": "你是 you are"}]',
    "own tree": '{"root_id": "r", "active_node_id": "r", "nodes": {"r": {"id": "r", "content": "根"}}}',
    "long": "段落 paragraph, 带逗号。\n" * 8_000 + "末尾 end",
}
METADATA = {"围栏": "```", "json": '{"a": 1}', "列表": [1, "二", None, {"x": "-->"}], "行": "a\r\nb\t"}
#: Where the memory stands in the document of a command.
NODE_IN: dict[str, Callable[[Any], Any]] = {
    "show": lambda document: document,
    "search": lambda document: document["hits"][0]["node"],
    "resume": lambda document: document["decisions"][0],
}
by_content = pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)


def test_the_long_one_is_long() -> None:
    """C037: 200 kB of text."""
    assert len(CONTENTS["long"].encode()) > 200_000


def stored(memory: Memory, content: str) -> str:
    """The content below a task, with metadata, between two others; returns its id."""
    memory.start_task("任务 task")
    memory.add("之前 before", type="event")
    id = memory.add(content, type="decision", metadata=METADATA).id
    memory.add("之后 after", type="event")
    return id


def check(memory: Memory, id: str, content: str, nodes: int = 4) -> None:
    node = memory.get(id)
    assert node.content == content
    assert node.metadata == METADATA
    assert not node.structured
    assert memory.stats().nodes == nodes
    assert [one.content for one in memory.walk()].count(content) == 1


@by_content
class TestEveryPath:
    def test_by_id_and_by_search(self, memory: OpenMemory, content: str) -> None:
        """C037: also in another handle, opened later."""
        with memory() as m:
            id = stored(m, content)
            check(m, id, content)
        m = memory()
        check(m, id, content)
        [hit] = m.search(content[:200], 5, types=["decision"])
        assert (hit.id, hit.content, hit.node.metadata) == (id, content, METADATA)

    def test_through_an_update(self, memory: OpenMemory, content: str) -> None:
        """C037: the second revision is as faithful as the first."""
        m = memory()
        id = stored(m, "旧的 old one")
        assert m.update(id, content=content).content == content
        check(m, id, content)

    def test_through_the_program(
        self, memory: OpenMemory, content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """C037: one line of JSON on stdout, from show, search and resume."""
        with memory() as m:
            id = stored(m, content)
        options = ["--store", str(tmp_path / "store"), "--json", "--set", "embedding.provider=hashing"]
        given = [hit for hit in (content[:200].strip(),) if hit]
        for command in (["show", id], ["search", "--type", "decision", "--", *given], ["resume"]):
            capsys.readouterr()
            assert main([*options, *command]) == 0
            out = capsys.readouterr().out
            assert out.count("\n") == 1
            document = json.loads(out)
            node = NODE_IN[command[0]](document)
            assert (node["id"], node["content"]) == (id, content), command[0]
            assert node.get("metadata", METADATA) == METADATA

    def test_through_checkpoint_and_recovery(self, memory: OpenMemory, content: str, tmp_path: Path) -> None:
        """C037: the writer never closes and the index is lost; the next run resumes and finds it."""
        m = memory()
        id = stored(m, content)
        m.flush()
        m.checkpoint("检查点")
        shutil.copytree(m.path, tmp_path / "copy", ignore=shutil.ignore_patterns("vectors", "*.lock"))
        recovered = memory("copy")
        assert [node.content for node in recovered.resume().decisions] == [content]
        check(recovered, id, content)
        assert recovered.flush() == 0
        assert recovered.search(content[:200], 5, types=["decision"])[0].content == content

    @pytest.mark.parametrize("format", ["jsonl", "tree"])
    def test_through_export_and_import(self, memory: OpenMemory, content: str, format: str, tmp_path: Path) -> None:
        """C037: a file that is recognised by itself, and exported again is the same file."""
        old = memory("old")
        id = stored(old, content)
        assert old.export(tmp_path / "one", format=format) == 4
        new = memory("new")
        report = new.import_(tmp_path / "one")
        assert (report.format, report.added, report.skipped) == (format, 4, 0)
        check(new, id, content)
        new.export(tmp_path / "two", format=format)
        assert (tmp_path / "two").read_bytes() == (tmp_path / "one").read_bytes()

    def test_through_the_import_of_a_chat(self, memory: OpenMemory, content: str, tmp_path: Path) -> None:
        """C037: one message is one record."""
        messages = [{"role": "user", "content": "你好 hi"}, {"role": "assistant", "content": content}]
        (tmp_path / "chat.json").write_text(json.dumps(messages, ensure_ascii=False), encoding="utf-8")
        m = memory()
        assert m.import_(tmp_path / "chat.json").added == 2
        assert [node.content for node in m.children()] == ["你好 hi", content]

    def test_through_a_context_in_json(self, memory: OpenMemory, content: str) -> None:
        """C037: a context in JSON is one JSON document with the content whole, if the budget has room."""
        m = memory()
        id = stored(m, content)
        context = m.context(content[:200], format="json", token_budget=2_000_000)
        shown = {item["id"]: item for item in walk(json.loads(context.text)) if "id" in item}
        if id in shown:
            assert shown[id]["content"] == content
        assert id in [hit.id for hit in context.hits]


def walk(value: object) -> list[dict[str, object]]:
    """Every object within a JSON value."""
    found: list[dict[str, object]] = []
    todo = [value]
    while todo:
        one = todo.pop()
        if isinstance(one, dict):
            found.append(one)
            todo.extend(one.values())
        elif isinstance(one, list):
            todo.extend(one)
    return found

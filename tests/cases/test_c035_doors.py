"""C035: one rule for NUL at every door: the text is refused with the field named, and nothing of it is stored.

Not cleaned in silence: what is stored is what was given, byte for byte, and SQLite's functions end a text at a NUL.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hybridmem import InvalidInput, Memory, NotFound
from hybridmem.cli import main
from hybridmem.ports import Extract

from .doors import KEPT, MESSAGES, SOUGHT, Place, place, text_parameters, tried

OpenMemory = Callable[..., Memory]
POSITIONS = ["前面 before\0后面 after", "\0", "\0first", "末 last\0", "a\0\0b"]


@pytest.fixture
def here(memory: OpenMemory, tmp_path: Path) -> Place:
    return place(memory(), tmp_path)


def test_every_parameter_that_takes_text_is_tried() -> None:
    """A new one comes with its line in doors.py, or this fails."""
    assert text_parameters() == tried()


@pytest.mark.parametrize("door", KEPT)
def test_what_is_to_be_kept_is_refused_by_its_name(here: Place, refused: Callable[..., Any], door: str) -> None:
    field = "content" if "items" in door else door.split(".")[1].split(" ")[0]
    for text in POSITIONS:
        with refused(here.memory, InvalidInput, field):
            KEPT[door](here, text)
    assert list(here.folder.glob("store/checkpoints/*.db")) == []


@pytest.mark.parametrize("door", SOUGHT)
def test_what_is_looked_for_is_not_there_or_refused(here: Place, refused: Callable[..., Any], door: str) -> None:
    for text in (POSITIONS[0], f"{here.fact}\0", f"{here.task}\0x"):
        here.memory.flush()  # a search would embed what waits before it looks at its scope
        with refused(here.memory, (InvalidInput, NotFound), ".+"):  # type: ignore[arg-type]
            SOUGHT[door](here, text)


@pytest.mark.parametrize("ask", [Memory.search, Memory.context], ids=["search", "context"])
def test_a_query_is_refused_by_its_name(here: Place, ask: Any) -> None:
    for text in POSITIONS[:1] + POSITIONS[2:]:
        with pytest.raises(InvalidInput, match=r"query contains a NUL character at position \d+; remove it"):
            ask(here.memory, text)


def test_an_id_with_a_nul_is_none_that_is_here(here: Place) -> None:
    """Its first part must not stand for it."""
    assert here.memory.weights([f"{here.fact}\0", here.fact]).keys() == {here.fact}


def test_one_in_a_batch_of_ten_takes_none_of_it_along(here: Place, refused: Callable[..., Any]) -> None:
    items: list[dict[str, Any]] = [{"content": f"第 {n} 条 item {n}"} for n in range(10)]
    for broken in ({"content": "a\0b"}, {"content": "x", "metadata": {"k": "a\0b"}}, {"content": "x", "id": "a\0b"}):
        with refused(here.memory, InvalidInput, "item 7: .* NUL|item 7: id"):
            here.memory.add_many([*items[:7], broken, *items[8:]])


@pytest.mark.parametrize("where", MESSAGES)
def test_in_raw_messages_it_is_named_where_it_stands(here: Place, refused: Callable[..., Any], where: str) -> None:
    field, message = MESSAGES[where]
    good = {"role": "user", "content": "好的 a good one"}
    with refused(here.memory, InvalidInput, rf"messages\[2\]\.{field}"):
        here.memory.observe([good, "", message("a\0b"), good])


@pytest.mark.parametrize("format", ["jsonl", "tree", "chat"])
@pytest.mark.parametrize("field", ["content", "metadata", "id", "agent", "next_step"])
def test_a_file_with_it_brings_nothing(
    memory: OpenMemory, here: Place, refused: Callable[..., Any], format: str, field: str
) -> None:
    """As a JSON escape, which is how it comes; an export of our own with it in one of the fields, or a chat."""
    file = here.folder / "in.json"
    if format == "chat":
        file.write_text(json.dumps([{"role": "user", "content": "x"}, {"role": "user", "content": "a\0b"}]), "utf-8")
    else:
        other = memory("other", agent="qagentq")
        task = other.start_task("任务 task", next_step="qnext_stepq")
        other.add("正文 qcontentq", metadata={"键": "qmetadataq"}, id="qidq", parent=task.id)
        other.export(file, format=format)
        text = file.read_text("utf-8")
        assert f"q{field}q" in text
        file.write_text(text.replace(f"q{field}q", "a\\u0000b"), "utf-8")
    with refused(here.memory, InvalidInput, r"in\.json: .*"):
        here.memory.import_(file, format=format)


def test_what_an_extractor_finds_with_it_is_left_out_and_the_turns_are_stored(memory: OpenMemory) -> None:
    class Careless:
        def extract(self, turns: Any) -> list[Extract]:
            return [Extract(0, "fact", "抽取 extracted\0text")]

    m = memory(extractor=Careless())
    found = m.observe([{"role": "user", "content": "请记住 remember: 发票 INV-7"}])
    assert [node.content for node in found.nodes if node.type == "event"] == ["请记住 remember: 发票 INV-7"]
    assert not any("extracted" in node.content for node in m.walk())
    assert m.verify(replay=True).ok


class TestTheCommands:
    @pytest.fixture
    def run(self, here: Place, monkeypatch: Any, capsys: Any) -> Callable[..., tuple[int, Any, str]]:
        """``run(arguments…, stdin=…)``: exit code, document, stderr; nothing in the store may have changed."""
        import io
        import sys

        store = str(here.memory.path)

        def call(*arguments: str, stdin: bytes = b"") -> tuple[int, Any, str]:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
            before = [(node.id, node.version) for node in here.memory.walk()]
            capsys.readouterr()
            code = main([*arguments, "--store", store, "--set", "embedding.provider=hashing", "--json"])
            printed = capsys.readouterr()
            assert [(node.id, node.version) for node in here.memory.walk()] == before
            return code, json.loads(printed.out), printed.err

        return call

    @pytest.mark.parametrize(
        ("arguments", "stdin", "field"),
        [
            (["add", "-"], "发票\0invoice".encode(), "content"),
            (["add", "x", "--metadata", '{"a": "b\\u0000c"}'], b"", "metadata"),
            (["add", "x", "--metadata", '{"a\\u0000": 1}'], b"", "metadata"),
            (["update", "{fact}", "--content", "-"], b"\0", "content"),
            (["supersede", "{fact}", "a\0b"], b"", "content"),
            (["task", "start", "a\0b"], b"", "title"),
            (["task", "update", "--next-step", "a\0b"], b"", "next_step"),
            (["search", "a\0b"], b"", "query"),
            (["context", "a\0b"], b"", "query"),
            (["checkpoint", "a\0b"], b"", "label"),
            (["feedback", "{fact}", "--helpful", "--note", "a\0b"], b"", "note"),
            (["add", "x", "--agent", "a\0b"], b"", "agent"),
            (["add", "x", "--namespace", "acme/a\0b"], b"", "namespace"),
            (["observe", "-"], b'[{"role": "user", "content": "a\\u0000b"}]', "content"),
            (["observe", "-"], b'{"message": "a\\u0000b"}\n', "content"),
            (["observe", "-", "--format", "lines"], b"one\na\0b\n", "content"),
        ],
        ids=lambda value: " ".join(value).replace("\0", "NUL") if isinstance(value, list) else None,
    )
    def test_each_refuses_it_with_one_document_and_the_field(
        self, run: Any, here: Place, arguments: list[str], stdin: bytes, field: str
    ) -> None:
        code, document, err = run(*(part.replace("{fact}", here.fact) for part in arguments), stdin=stdin)
        assert (code, document["ok"], document["error"]["type"]) == (2, False, "InvalidInput")
        assert field in document["error"]["message"]
        assert err.count("\n") == 1
        assert "\0" not in err, "nor is it printed"

"""C036: two halves of a character become that character, one half is refused by name, and no output fails or cuts one.

There is no MCP server yet; what it will call are the methods and the commands that are tried here.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hybridmem import InvalidInput, Memory
from hybridmem.cli import main
from hybridmem.cli.output import cut
from hybridmem.rendering import title
from hybridmem.tokens import between_graphemes, token_counter, truncate

OpenMemory = Callable[..., Memory]
ROOT = Path(__file__).resolve().parents[2]

PAIR, SMILE = "\ud83d\ude00", "😀"
FAMILY, FLAG, SKIN, KEYCAP, ACCENT = "👨‍👩‍👧‍👦", "🇨🇳", "👍🏽", "1️⃣", "e\u0301"
#: What is seen as one character each.
WHOLE = (FAMILY, FLAG, SKIN, KEYCAP, ACCENT, "各", "ก็", "한")
#: A lone high half, a lone low one, two in the wrong order, one at either end.
HALVES = ("a \ud83d b", "a \ude00 b", "\ude00\ud83d", "\ud83d", "发票\ude00")

DOORS: dict[str, tuple[Callable[[Memory, str], Any], str]] = {
    "content": (lambda m, text: m.add(text), "content"),
    "structured content": (lambda m, text: m.add({"说明": [text]}), "content"),
    "content in a batch": (lambda m, text: m.add_many([{"content": "好 good"}, {"content": text}]), "item 1: content"),
    "new content": (lambda m, text: m.update("fact", content=text), "content"),
    "title": (lambda m, text: m.start_task(text), "title"),
    "next step": (lambda m, text: m.start_task("报销", next_step=text), "next_step"),
    "type": (lambda m, text: m.add("好 good", type=text), "type"),
    "id": (lambda m, text: m.add("好 good", id=text), "id"),
    "metadata value": (lambda m, text: m.add("好 good", metadata={"标签": [text]}), "metadata"),
    "metadata key": (lambda m, text: m.add("好 good", metadata={text: 1}), "metadata"),
    "query": (lambda m, text: m.search(text), "query"),
    "query of a context": (lambda m, text: m.context(text), "query"),
    "metadata of a filter": (lambda m, text: m.search("发票", metadata={"标签": text}), "metadata"),
    "label": (lambda m, text: m.checkpoint(text), "label"),
    "note": (lambda m, text: m.feedback("fact", helpful=True, note=text), "note"),
    "message": (lambda m, text: m.observe([{"role": "user", "content": text}]), "messages"),
    "file": (lambda m, text: m.export(f"/tmp/{text}"), "file"),
}


SETTINGS = ("--set", "embedding.provider=hashing")
#: Commands that print what is stored.
COMMANDS = (("show", "fact"), ("tree",), ("search", "发票"), ("context", "发票"), ("resume",), ("task", "show"),
            ("checkpoint", "--list"), ("history", "fact"))  # fmt: skip
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A store with characters of many code points everywhere."""
    store = tmp_path / "store"
    with Memory.open(store, config={"embedding": {"provider": "hashing"}, "index": {"background": False}}) as m:
        m.start_task(f"任务 {FLAG} {FAMILY}", next_step=f"下一步 {FAMILY}")
        m.add(f"家庭 family {FAMILY} {FLAG} {SMILE} 发票", type="fact", metadata={FAMILY: SMILE}, id="fact")
        m.checkpoint(f"标签 {FLAG} {FAMILY}")
    return store


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """``run(store, arguments…, encoding=…)``: the exit code and what was written to a terminal of that encoding."""

    def call(store: Path, *arguments: str, encoding: str, json_: bool, stdin: bytes = b"") -> tuple[int, str, str]:
        written = [io.BytesIO(), io.BytesIO()]
        for name, raw in zip(("stdout", "stderr"), written, strict=True):
            monkeypatch.setattr(sys, name, io.TextIOWrapper(raw, encoding=encoding, write_through=True))
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding=encoding))
        code = main([*arguments, "--store", str(store), *SETTINGS, *(["--json"] if json_ else [])])
        out, err = (raw.getvalue().decode(encoding) for raw in written)
        return code, out, err

    return call


@pytest.mark.parametrize("half", HALVES, ids=["high", "low", "wrong order", "alone", "at the end"])
@pytest.mark.parametrize("door", DOORS)
def test_half_a_character_is_refused_by_name_and_nothing_is_stored(
    memory: OpenMemory, refused: Any, door: str, half: str
) -> None:
    m = memory()
    m.add("张三在研发部", type="fact", id="fact")
    call, field = DOORS[door]
    with refused(m, InvalidInput, field):
        call(m, half.replace("\ude00", "\ud83d") if door == "file" else half)


def test_two_halves_are_one_character_wherever_they_come_from(memory: OpenMemory, tmp_path: Path) -> None:
    """As a JSON decoder leaves them that reads its input in two chunks."""
    m = memory()
    for text in (PAIR, f"发票 {PAIR} paid", f"{PAIR}{PAIR}"):
        whole = text.replace(PAIR, SMILE)
        node = m.add(text, metadata={text: [text]}, type="event")
        assert (node.content, node.metadata) == (whole, {whole: [whole]})
        assert m.get(node.id) == node
        assert m.search(text, 1, types=["event"])[0].content == whole
    (kept,) = m.observe([{"role": "user", "content": f"请记住 {PAIR} 会议改到周五"}]).nodes[:1]
    assert SMILE in kept.content
    m.export(tmp_path / "out.jsonl")
    assert SMILE in (tmp_path / "out.jsonl").read_text("utf-8")
    assert m.verify(replay=True).ok


@pytest.mark.parametrize("format", ["jsonl", "tree", "chat"])
def test_escapes_in_a_file_are_read_as_characters_and_half_of_one_refuses_the_file(
    memory: OpenMemory, refused: Any, tmp_path: Path, format: str
) -> None:
    m = memory()
    node = '"id": "%s", "parent_id": null, "type": "note", "content": "%s", "metadata": {"标签": "%s"}'
    line = '{"kind": "hybridmem", "version": 1}\n{"kind": "node", %s}\n{"kind": "node", %s}\n'

    def written(text: str) -> Path:
        first, second = node % ("a", "先 first", ""), node % ("b", text, text)
        whole = {
            "jsonl": line % (first, second),
            "tree": f'{{"root_id": null, "nodes": [{{{first}}}, {{{second}}}]}}',
            "chat": f'[{{"role": "user", "content": "先"}}, {{"role": "user", "content": "{text}", "标签": "{text}"}}]',
        }[format]
        (tmp_path / "file").write_text(whole, encoding="utf-8")
        return tmp_path / "file"

    for half in ("后 \\ud83d after", "后 \\ude00 after", "\\ude00\\ud83d"):
        with refused(m, InvalidInput, "surrogate"):
            m.import_(written(half), format=format)
    assert m.import_(written("后 \\ud83d\\ude00 after"), format=format).added == 2
    [found] = [one for one in m.walk() if one.content == f"后 {SMILE} after"]
    assert found.metadata["标签"] == f"后 {SMILE} after"


@pytest.mark.parametrize(
    ("arguments", "stdin", "code"),
    [
        (("observe", "-"), '[{"role": "user", "content": "请记住 remember \\ud83d this"}]', 2),
        (("observe", "-"), '[{"role": "user", "content": "请记住 remember \\ud83d\\ude00 this"}]', 0),
        (("observe", "-", "--format", "jsonl"), '{"message": "failed \\ude00"}\n', 2),
        (("add", "好", "--metadata", '{"标签": "\\ude00"}'), "", 2),
        (("add", "好", "--metadata", '{"标签": "\\ud83d\\ude00"}'), "", 0),
        (("add", "-"), "发票 😀".encode("utf-16-le"), 2),
        (("add", "-"), b"\xed\xa0\xbd\xed\xb8\x80", 2),  # surrogates as CESU-8 writes them
        (("search", "-"), b"\xed\xa0\xbd", 2),
        (("add", "-"), "发票 👨‍👩‍👧‍👦 🇨🇳", 0),
        (("show", "\udcff"), "", 4),  # how an argument arrives that is no UTF-8
        (("search", "\udcff\udcfe"), "", 2),
    ],
)
def test_the_commands_print_one_document_on_any_terminal(
    stored: Path, run: Run, arguments: tuple[str, ...], stdin: str | bytes, code: int
) -> None:
    given = stdin.encode() if isinstance(stdin, str) else stdin
    for encoding in ("utf-8", "ascii", "gbk"):
        for json_ in (True, False):
            store = shutil.copytree(stored, stored.parent / f"{encoding} {json_}")
            found, out, err = run(store, *arguments, encoding=encoding, stdin=given, json_=json_)
            assert found == code, (out, err)
            assert "Traceback" not in err
            assert "should not happen" not in err
            if json_:
                assert json.loads(out)["ok"] == (code == 0)
                assert out.count("\n") == 1


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "gbk"])
def test_what_is_stored_prints_on_any_terminal(stored: Path, run: Run, encoding: str) -> None:
    for command in COMMANDS:
        _, out, _ = run(stored, *command, encoding=encoding, json_=True)
        assert FAMILY in json.dumps(json.loads(out), ensure_ascii=False)
        code, shown, _ = run(stored, *command, encoding=encoding, json_=False)
        assert code == 0
        assert (FAMILY in shown) == (encoding == "utf-8")
        assert FLAG in shown or encoding != "utf-8"


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize(
    "arguments", [(b"add", "发票".encode("gbk")), (b"search", b"\xff\xfe"), (b"context",)], ids=repr
)
def test_a_process_of_its_own_does_too(stored: Path, encoding: str, arguments: tuple[bytes, ...]) -> None:
    """With arguments that are no UTF-8, which arrive with half characters."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HYBRIDMEM_", "LC_"))}
    environment |= {"PYTHONIOENCODING": encoding, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"}
    command = [sys.executable, "-m", "hybridmem.cli", *arguments, "--store", str(stored), *SETTINGS]
    done = subprocess.run(command, capture_output=True, env=environment, timeout=120, check=False)
    assert done.returncode == (0 if arguments == (b"context",) else 2), done
    assert b"Traceback" not in done.stderr
    assert "发票" in done.stdout.decode(encoding) or encoding == "ascii" or done.returncode


@pytest.mark.parametrize("one", WHOLE)
def test_no_preview_cuts_a_character(one: str) -> None:
    """At every width: titles, cells of a terminal, tokens of a budget. What is left is a whole number of characters."""
    text = one * 60
    counter = token_counter()
    for width in range(1, 60):
        for shown in (cut(text, width), title(text, width), truncate(text, width, counter)[0]):
            left = shown.removesuffix("…")
            assert len(left) % len(one) == 0, (one, width, shown)
            assert left == one * (len(left) // len(one))
            assert not left or between_graphemes(text, len(left))


def test_a_context_cuts_no_character(memory: OpenMemory) -> None:
    m = memory()
    for one in WHOLE[:5]:
        m.add(one * 300, type="note")
    for budget in range(20, 400, 7):
        for format in ("text", "markdown", "json", "messages"):
            text = m.context(WHOLE[0], token_budget=budget, format=format).text
            text.encode()  # no half characters
            for one in WHOLE[:5]:
                rest = text.replace(one, "")
                assert not any(part in rest for part in one if part not in "0123456789e"), (one, budget, format)


def test_a_long_content_of_emoji_goes_round(memory: OpenMemory, capsys: pytest.CaptureFixture[str]) -> None:
    m = memory()
    text = f"{FAMILY}{FLAG}{SKIN}{KEYCAP}" * 2_000
    node = m.add(text)
    m.flush()
    assert m.get(node.id).content == text
    assert m.search(FLAG, 1)[0].id == node.id
    assert main(["show", node.id, "--store", str(m.path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["content"] == text

"""C036: two halves become one character, half a one is refused by name; what is printed never breaks on any terminal,
and nothing that is cut short ends inside a character."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hybridmem import InvalidInput, Memory, NotFound
from hybridmem.cli import main
from hybridmem.tokens import MARK, EstimatedCounter, token_counter

from .doors import KEPT, MESSAGES, SOUGHT, Place, place

OpenMemory = Callable[..., Memory]
ROOT = Path(__file__).resolve().parents[2]
HALVES = ["高 high \ud83d", "\ude00 低 low", "\ud83d", "\ude00\ud83d", "a\ud83db\ude00"]
#: What is one character to a reader, and several to a machine.
WHOLE = [
    "👨‍👩‍👧‍👦",
    "🇨🇳",
    "👍🏽",
    "e\u0301",
    "1️⃣",
    "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "नि"[:2],
]
EMOJI = "家 family 👨‍👩‍👧‍👦, 旗 flag 🇨🇳, 笑 😀"
PAIR = "\ud83d\ude00"


@pytest.fixture
def here(memory: OpenMemory, tmp_path: Path) -> Place:
    return place(memory(), tmp_path)


class TestAtTheDoors:
    @pytest.mark.parametrize("door", KEPT)
    def test_half_a_character_is_refused_by_its_name(self, here: Place, refused: Any, door: str) -> None:
        field = "content" if "items" in door else door.split(".")[1].split(" ")[0]
        for text in HALVES:
            with refused(here.memory, InvalidInput, field):
                KEPT[door](here, text)

    @pytest.mark.parametrize("door", SOUGHT)
    def test_half_a_character_is_not_found_or_refused(self, here: Place, refused: Any, door: str) -> None:
        for text in (HALVES[0], f"{here.fact}\ude00"):
            here.memory.flush()  # a search would embed what waits before it looks at its scope
            with refused(here.memory, (InvalidInput, NotFound), ".+"):
                SOUGHT[door](here, text)

    @pytest.mark.parametrize("where", MESSAGES)
    def test_in_raw_messages_it_is_named_where_it_stands(self, here: Place, refused: Any, where: str) -> None:
        field, message = MESSAGES[where]
        with refused(here.memory, InvalidInput, rf"messages\[1\]\.{field}"):
            here.memory.observe([{"role": "user", "content": "好 good"}, message("半 half \ud83d")])

    def test_a_pair_is_one_character_wherever_text_is_kept(self, here: Place) -> None:
        m = here.memory
        node = m.add(f"好 {PAIR}", metadata={PAIR: [PAIR, {"深 deep": PAIR}]}, id=f"id{PAIR}")
        assert m.get("id😀") == node
        assert (node.content, node.metadata) == ("好 😀", {"😀": ["😀", {"深 deep": "😀"}]})
        assert m.add({"表情": PAIR}).value == {"表情": "😀"}
        task = m.start_task(f"任务 {PAIR}", next_step=f"然后 {PAIR}")
        assert task.task is not None
        assert (task.content, task.task.next_step) == ("任务 😀", "然后 😀")
        assert m.checkpoint(f"标签 {PAIR}").label == "标签 😀"
        assert m.search(PAIR, 1)[0].content == m.search("😀", 1)[0].content
        assert [hit.id for hit in m.search("好", metadata={"😀": [PAIR, {"深 deep": PAIR}]})] == ["id😀"]
        (kept,) = m.observe([{"role": "user", "name": PAIR, "content": f"看 look {PAIR}"}]).nodes
        assert "看 look 😀" in kept.content
        assert m.verify(replay=True).ok

    def test_the_halves_of_one_in_two_parts_are_not_put_together(self, here: Place, refused: Any) -> None:
        """Two texts are two texts: what a stream has cut in the middle has to be joined by who cut it."""
        parts = [{"type": "text", "text": "a\ud83d"}, {"type": "text", "text": "\ude00b"}]
        for messages in ([{"role": "user", "content": parts}], [{"role": "user", "content": p["text"]} for p in parts]):
            with refused(here.memory, InvalidInput, r"messages\[0\]"):
                here.memory.observe(messages)

    @pytest.mark.parametrize("format", ["jsonl", "tree", "chat"])
    def test_in_a_file_an_escaped_pair_is_read_and_half_of_one_refused(
        self, here: Place, refused: Any, format: str
    ) -> None:
        file, m = here.folder / "in.json", here.memory
        if format == "chat":
            text = json.dumps([{"role": "user", "content": "看 look qmarkq"}])
        else:
            with Memory.open(here.folder / "other", config={"embedding": {"provider": "hashing"}}) as other:
                other.add("看 look qmarkq", metadata={"k": "qmarkq"})
                other.export(file, format=format)
            text = file.read_text("utf-8")
        file.write_text(text.replace("qmarkq", "\\ud83d"), "utf-8")
        with refused(m, InvalidInput, "in.json: .*half of a surrogate pair"):
            m.import_(file, format=format)
        file.write_text(text.replace("qmarkq", "\\ud83d\\ude00"), "utf-8")
        assert m.import_(file, format=format).added >= 1
        assert any(node.content == "看 look 😀" for node in m.walk())


#: Every command that prints contents; {task} and {fact} are ids.
PRINTING: tuple[tuple[str, ...], ...] = (
    ("show", "{fact}"), ("search", "家 family"), ("search", "家 family", "--explain"), ("tree", "--all"), ("resume",),
    ("context", "家 family"), ("context", "家 family", "--format", "json"), ("task", "list"),
    ("task", "show", "{task}"),
    ("history", "{fact}"), ("checkpoint", "--list"), ("duplicates", "--threshold", "0.1"), ("stats",), ("doctor",),
    ("backups",), ("forget", "{fact}", "--dry-run"), ("add", EMOJI), ("task", "start", EMOJI), ("show", EMOJI),
    ("show", "\udcff\udce4"), ("search", "半 \ud83d"), ("stats", "--namespace", "\udce4"), ("nonsense", "\udcff"),
    ("config",), ("--help",),
)  # fmt: skip


class TestOnATerminal:
    @pytest.fixture
    def store(self, tmp_path: Path) -> tuple[Path, dict[str, str]]:
        with Memory.open(tmp_path / "store", config={"embedding": {"provider": "hashing"}}) as m:
            task = m.start_task(EMOJI, next_step=EMOJI)
            fact = m.add(EMOJI * 30, type="fact", metadata={"表情": EMOJI})
            m.add(EMOJI * 30 + "。", type="fact")
            m.checkpoint(EMOJI)
            m.backup(label=EMOJI)
        return tmp_path / "store", {"task": task.id, "fact": fact.id}

    @pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1", "gbk", "cp437"])
    @pytest.mark.parametrize("arguments", PRINTING, ids=lambda value: ascii(" ".join(value)))
    def test_what_is_printed_never_breaks(
        self, store: Any, arguments: tuple[str, ...], encoding: str, monkeypatch: Any, tmp_path: Path
    ) -> None:
        """Whatever the encoding of both streams; and with --json the document says the same in all of them."""
        path, ids = store
        monkeypatch.chdir(tmp_path)
        given = [part.format(**ids) for part in arguments]
        options = [] if "--help" in given else ["--store", str(path), "--set", "embedding.provider=hashing"]
        for extra in ([], ["--json"]):
            out, err = (io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2))
            monkeypatch.setattr(sys, "stdout", out)
            monkeypatch.setattr(sys, "stderr", err)
            code = main([*given[:1], *given[1:], *options, *extra])
            printed, said = (stream.detach().getvalue() for stream in (flushed(out), flushed(err)))
            monkeypatch.undo()
            monkeypatch.chdir(tmp_path)
            assert code in (0, 2, 4), said
            assert b"Traceback" not in said
            assert b"this should not happen" not in said
            printed.decode(encoding)
            if extra and "--help" not in given:
                document = json.loads(printed.decode(encoding))
                assert document["ok"] == (code == 0)
                if given[0] == "show" and code == 0:
                    assert document["content"] == EMOJI * 30

    @pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
    def test_in_a_process_of_its_own_with_stdin_in_single_bytes(self, tmp_path: Path, encoding: str) -> None:
        """A character that is cut by the pipe is whole again, and half of one that is UTF-16 in disguise is refused."""
        text, store = f"{EMOJI} {'😀' * 5}", str(tmp_path / "store")
        arguments = [sys.executable, "-m", "hybridmem.cli", "add", "-", "--store", store, "--json"]
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("HYBRIDMEM_")},
            "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": encoding, "LC_ALL": "C",
        }  # fmt: skip
        with subprocess.Popen(
            [*arguments, "--set", "embedding.provider=hashing"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env=environment, bufsize=0,
        ) as process:  # fmt: skip
            assert process.stdin is not None
            for byte in text.encode():
                process.stdin.write(bytes([byte]))
            out, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, b"")
        assert json.loads(out)["content"] == text
        assert out.isascii() == (encoding == "ascii")
        done = subprocess.run(
            [*arguments, "--set", "embedding.provider=hashing"], input=b"a\xed\xa0\xbd", capture_output=True,
            env=environment, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == 2
        assert "content: stdin is not valid UTF-8" in json.loads(done.stdout)["error"]["message"]

    @pytest.mark.parametrize("whole", WHOLE, ids=ascii)
    @pytest.mark.parametrize("columns", [40, 61, 100])
    def test_no_preview_ends_inside_a_character(
        self, tmp_path: Path, whole: str, columns: int, monkeypatch: Any, capsys: Any
    ) -> None:
        """In lists, trees, paths and results, whatever the width."""
        monkeypatch.setenv("COLUMNS", str(columns))
        store = str(tmp_path / "store")
        with Memory.open(store, config={"embedding": {"provider": "hashing"}}) as m:
            m.start_task("x" + whole * 200, next_step="x" + whole * 200)
            m.add("xy" + whole * 200)
        for command in (["search", "x"], ["tree"], ["task", "list"], ["resume"], ["search", "xy", "--explain"]):
            main([*command, "--store", store, "--set", "embedding.provider=hashing"])
            shown = capsys.readouterr().out
            assert whole in shown
            assert_whole(shown, whole)


def flushed(stream: io.TextIOWrapper) -> io.TextIOWrapper:
    stream.flush()
    return stream


def assert_whole(text: str, whole: str) -> None:
    """Of a repeated character no part stands by itself, neither in the middle nor where the text was cut."""
    left = text.replace(whole, "")
    assert not set(left) & (set(whole) - set("1e")), repr(left)
    for letter in set(whole) & set("1e"):  # which stand elsewhere too
        assert f"{letter}{MARK}" not in left, repr(left)


@pytest.mark.parametrize("whole", WHOLE, ids=ascii)
class TestCutShort:
    @pytest.mark.parametrize("format", ["text", "markdown", "messages", "json"])
    def test_no_context_ends_inside_a_character(self, memory: OpenMemory, whole: str, format: str) -> None:
        """At any budget; titles and next steps in the chain, branches, and contents."""
        m = memory()
        task = m.start_task("x" + whole * 150, next_step="xy" + whole * 150)
        below = m.start_task("x" + whole * 150, parent=task.id)
        m.add("xyz" + whole * 300, parent=below.id)
        m.switch_task(task.id)
        for budget in (30, 57, 91, 150, 222, 401, 799, 1_500):
            found = m.context("x xy xyz", token_budget=budget, format=format)
            assert_whole(found.text.replace("\\ufe0f", "\ufe0f"), whole)
        assert MARK in found.text

    def test_no_title_in_a_path_does(self, memory: OpenMemory, whole: str) -> None:
        """Of a search, and of one in the past: 119 characters would end inside of one at one of these lengths."""
        m = memory()
        for start in range(len(whole)):
            task = m.start_task("x" * start + whole * 150, parent="root")
            m.add(f"发票 invoice {start}", parent=task.id)
        hits = (*m.search("发票 invoice", 20), *m.search("发票 invoice", 20, as_of="2100-01-01"))
        paths = [hit.path[0] for hit in hits if hit.path]
        assert len(paths) == 2 * len(whole)
        for path in paths:
            assert len(path) <= 120
            assert path.endswith(MARK)
            assert_whole(path.lstrip("x").removesuffix(MARK), whole)


def test_counters_take_half_a_character(memory: OpenMemory) -> None:
    """A caller may ask for tokens of anything; counting is no place to fail."""
    for counter in (token_counter(), EstimatedCounter()):
        assert counter.count("半 \ud83d") > 0

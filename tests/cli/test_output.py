"""Text on a terminal: never an encoding error, never a control character, never half a character."""

from __future__ import annotations

import json

import pytest
from rich.cells import cell_len

from hybridmem.cli.output import cut, one_line, visible

from .conftest import Cli


class TestCut:
    @pytest.mark.parametrize("width", [1, 2, 3, 7, 8, 20, 79])
    @pytest.mark.parametrize(
        "text",
        [
            "财务退回，原因是发票信息不清晰，请用户重新上传清晰发票，然后再次提交给财务审批",
            "Finance returned the claim because the invoice is unclear, please upload it again",
            "发票 invoice 已退回 returned，部门 R&D 的张三 Zhang San 需要重新上传 upload again 谢谢",
            "e\u0301" * 100,
            "👨‍👩‍👧‍👦" * 40,
            "🇨🇳🇩🇪" * 30,
        ],
    )
    def test_fits_the_width(self, text: str, width: int) -> None:
        assert cell_len(cut(text, width)) <= width

    def test_what_fits_is_unchanged(self) -> None:
        assert cut("发票 invoice", 12) == "发票 invoice"

    def test_fills_the_width(self) -> None:
        assert cut("发票信息不清晰", 9) == "发票信息…"
        assert cut("abcdefghij", 5) == "abcd…"

    @pytest.mark.parametrize("whole", ["e\u0301", "👨‍👩‍👧‍👦", "🇨🇳", "👍🏽", "1️⃣"])
    def test_never_ends_inside_a_character(self, whole: str) -> None:
        for width in range(1, 30):
            kept = cut(whole * 30, width).removesuffix("…")
            assert kept == whole * (len(kept) // len(whole))

    def test_megabytes_cost_nothing(self) -> None:
        assert cell_len(cut("发票" * 1_000_000, 40)) <= 40


class TestVisible:
    def test_escape_sequences_and_overrides_are_written_out(self) -> None:
        assert visible("a\x1b[31mb\x07c\u202ed\x00") == "a\\x1b[31mb\\x07c\\u202ed\\x00"

    def test_text_lines_and_tabs_stay(self) -> None:
        assert visible("发票\r\n\tinvoice\n") == "发票\n\tinvoice\n"

    def test_one_line(self) -> None:
        assert one_line(" 发票\n\n invoice\t x ") == "发票 invoice x"

    @pytest.mark.parametrize("command", ["search", "tree", "show", "resume", "task"])
    def test_no_command_lets_a_content_reach_the_terminal(self, cli: Cli, command: str) -> None:
        bad = "发票\x1b]0;owned\x07 [red]x[/red] :smile: invoice"
        cli.json("task", "start", bad, "--next-step", bad)
        id_ = cli.json("add", bad)["id"]
        arguments = {"search": ("search", "发票"), "show": ("show", id_), "task": ("task", "list")}
        result = cli(*arguments.get(command, (command,)))
        assert result.code == 0
        assert "\x1b" not in result.out
        assert "[red]x[/red] :smile:" in result.out


class TestAsciiTerminal:
    """PYTHONIOENCODING=ascii is the worst case; LC_ALL=C alone means UTF-8 to newer Pythons."""

    def run(self, cli: Cli, *arguments: str) -> tuple[int, bytes, bytes]:
        with cli.process(*arguments, PYTHONIOENCODING="ascii", LC_ALL="C") as process:
            out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def test_a_tree_is_drawn_in_ascii(self, cli: Cli, claim: dict[str, str]) -> None:
        code, out, err = self.run(cli, "tree")
        assert (code, err) == (0, b"")
        assert out.isascii()
        assert b"`-- o open" in out
        assert b"The user prefers SMS" in out

    def test_a_document_says_the_same(self, cli: Cli, claim: dict[str, str]) -> None:
        code, out, _ = self.run(cli, "show", claim["event"], "--json")
        assert code == 0
        assert out.isascii()
        assert json.loads(out)["content"] == "财务退回，原因是发票信息不清晰"

    def test_an_error_about_a_chinese_name(self, cli: Cli, claim: dict[str, str]) -> None:
        code, out, err = self.run(cli, "show", "没有这个")
        assert (code, out) == (4, b"")
        assert err.startswith(b"error: ")
        assert b"Traceback" not in err


def test_a_document_is_one_line_for_every_reader_of_lines(cli: Cli) -> None:
    """Also for those that end a line at U+0085, U+2028 or U+2029, as Python does; and it says the same."""
    text = "第一 one\x85第二 two\u2028第三 three\u2029第四 four"
    id = cli.json("add", text, "--parent", "root")["id"]
    assert cli.json("show", id)["content"] == text
    refused = cli("--json", "config", "--set", f"{text}=1")
    assert (refused.code, refused.document["ok"]) == (3, False)

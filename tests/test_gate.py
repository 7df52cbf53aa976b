"""The gate keeps noise out, and nothing else: what differs in more than the number of a progress line is kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybridmem.gate import Gate, noise, progress
from hybridmem.ports import Turn


def said(text: str, *, kind: str = "turn", role: str = "assistant", failed: bool = False) -> Turn:
    return Turn(0, kind, role, text, failed=failed)


def reasons(*texts: str, kind: str = "log") -> list[str | None]:
    gate = Gate()
    return [gate.reason(said(text, kind=kind, role=""), text) for text in texts]


@pytest.mark.parametrize(
    "text",
    [
        "ok", "OK.", "Okay!", "好的", "好的，谢谢！", "收到。", "嗯嗯", "明白了", "got it",
        "thinking…",
        "Thinking...", "I'm thinking", "思考中……", "正在思考", "正在处理，请稍候…", "请稍等一下",
        "please wait", "One moment please",
        "Loading...", "加载中", "Still working on it…", "⠋", "⏳", "|", "   ", "", "\u200b", "OK 👍",
    ],
)  # fmt: skip
def test_chatter_is_noise(text: str) -> None:
    assert noise(said(text)) is not None


@pytest.mark.parametrize(
    "text",
    [
        "yes", "no", "是", "否", "不", "可以的", "同意", "sure", "行", "42", "?", "👍", "发票",
        "ok, deploy version 2 now",
        "好的，改成周五",
        "thinking about moving to Berlin", "正在处理 4711 号订单", "wait for the invoice", "loading dock 3 is closed",
        "请稍等三天再发货", "Error: null", "[]",
    ],
)  # fmt: skip
def test_answers_and_news_are_no_noise(text: str) -> None:
    assert noise(said(text)) is None


@pytest.mark.parametrize(
    "text", ["", " ", "[]", "{}", "null", "None", "ok", "OK", "success", "没有结果", "执行成功", "No output."]
)
def test_empty_results_of_tools_are_noise_unless_the_tool_failed(text: str) -> None:
    assert noise(said(text, kind="result")) == "empty tool result"
    assert noise(said(text, kind="result", failed=True)) is None


@pytest.mark.parametrize("text", ["0", "false", "no", "3 rows", "不存在", "[0]", '{"status": "ok", "id": 7}'])
def test_results_that_say_something_are_kept(text: str) -> None:
    assert noise(said(text, kind="result")) is None


class TestProgress:
    def test_the_first_line_and_the_last_are_kept(self) -> None:
        for lines in (
            ["Downloading model: 35 %", "Downloading model: 36 %", "Downloading model: 99%", "Downloading model: 100%"],
            ["下载进度：35%", "下载进度：36%", "下载进度：37.5 %", "下载进度：100%"],
            ["35%", "36%", "37%", "100%"],
            ["[==>   ] 3/10", "[===>  ] 4/10", "[====> ] 5/10", "[======] 100%"],
            ["⠋ building step 1/9", "⠙ building step 2/9", "⠹ building step 3/9", "⠹ building step 100%"],
            ["训练 epoch 1/9 剩余 3 分", "训练 epoch 2/9 剩余 2 分", "训练 epoch 8/9 剩余 1 分", "100%"],
        ):
            found = reasons(*lines)
            assert found[0] is None, lines
            assert all(reason and reason.startswith("progress") for reason in found[1:3]), lines
            assert found[3] is None, lines

    @pytest.mark.parametrize(
        "lines",
        [
            ("订单 4711 已发货", "订单 4712 已发货"),
            ("折扣是 35%", "折扣是 36%"),
            ("The discount is 35%", "The discount is 36%"),
            ("user 7 logged in", "user 8 logged in"),
            ("meeting on 3/10", "meeting on 4/10"),
            ("下载失败：文件 3", "下载失败：文件 4"),
            ("Downloading model A: 35%", "Downloading model B: 36%"),
        ],
    )
    def test_a_number_that_is_no_progress_is_never_dropped(self, lines: tuple[str, ...]) -> None:
        assert reasons(*lines) == [None, None]

    def test_of_another_thing_progress_begins_anew(self) -> None:
        found = reasons("Downloading a.bin: 1%", "Downloading b.bin: 1%", "Downloading a.bin: 2%")
        assert [reason is None for reason in found] == [True, True, False]

    @given(st.text(max_size=400))
    def test_any_text_has_an_answer(self, text: str) -> None:
        progress(text)
        assert noise(said(text)) is None or isinstance(noise(said(text)), str)


class TestRepeats:
    def test_the_same_again_is_dropped_and_almost_the_same_is_not(self) -> None:
        found = reasons("connection refused", "connection refused", "connection refused!", "连接被拒绝", "连接被拒绝")
        assert [reason is None for reason in found] == [True, False, True, True, False]

    def test_somebody_else_saying_it_is_no_repeat(self) -> None:
        gate = Gate()
        assert gate.reason(said("我同意", role="user"), "我同意") is None
        assert gate.reason(said("我同意", role="assistant"), "我同意") is None

    def test_what_is_stored_already_is_a_repeat(self) -> None:
        gate = Gate.after([("user", "发票丢了")])
        assert gate.reason(said("发票丢了", role="user"), "发票丢了") == "repeat: already stored here"

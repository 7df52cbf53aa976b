from __future__ import annotations

import builtins
import unicodedata
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hybridmem.ports import TokenCounter
from hybridmem.tokens import MARK, EstimatedCounter, O200kCounter, token_counter, truncate

pytest.importorskip("bpe_openai")
REAL = O200kCounter()
ESTIMATE = EstimatedCounter()

ZH = "财务退回，原因是发票信息不清晰，请在周五前重新提交。用户张三希望下次提前收到提醒！"
JA = "経費精算のレシートを提出しましたが、財務部から差し戻されました。明日までに再提出してください。"
EN = (
    "The finance team returned the expense report because the invoice was not readable. Please ask Maria for a new "
    "copy before Friday, and remember that the customer prefers short answers with a clear next step."
)
CODE = 'def load(path: Path) -> Config:\n    with open(path) as file:\n        return parse(file.read())  # "ok"\n'
MIXED = (
    "用户张三用ERR-42重启server失败，timeout=3000ms，见 https://example.com/a/b?id=42 and retry at 2026-07-02 10:30。"
)
EMOJI = "👍🎉😀❤️👨‍👩‍👧🇨🇳🚀 great! 好的👍"
RARE = "龘靐齉爩麤，彧翀堃昇喆，繁體中文測試資料庫遷移〖〗"
SAMPLES = {"zh": ZH, "ja": JA, "en": EN, "code": CODE, "mixed": MIXED, "emoji": EMOJI}
FAMILY = "👨‍👩‍👧"

CJK = st.characters(min_codepoint=0x3000, max_codepoint=0x9FFF)
WORDS = st.sampled_from([w for text in SAMPLES.values() for w in text.split()])
ALPHABETS: list[Any] = [
    st.text(CJK),
    st.text("的一是发票退回，。 ab1\n"),
    st.text("あいうアイウ漢字 a、"),
    st.text("👍🎉👨‍👩‍👧🇨🇳❤️ a"),
    st.text(st.characters(min_codepoint=32, max_codepoint=126)),
    st.text(st.characters(max_codepoint=0x7F)),
    st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"])),
    st.text(st.characters(min_codepoint=0x10000)),
    st.text("abc def.\n\t ()[]{}=_-'\"#"),
    st.lists(WORDS).map(" ".join),
    st.lists(WORDS).map("".join),
]
ANY_TEXT = st.one_of(ALPHABETS)
REAL_TEXT = st.lists(st.sampled_from([*SAMPLES.values(), RARE]), min_size=1).map("\n".join)


class TestCounting:
    def test_the_installed_tokenizer_is_taken(self) -> None:
        assert token_counter().name == "o200k"
        assert token_counter().count("hello 世界") == 2

    def test_without_the_package_the_estimate_is_taken(self, monkeypatch: pytest.MonkeyPatch) -> None:
        real_import = builtins.__import__

        def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
            if name == "bpe_openai":
                raise ImportError(name)
            return real_import(name, *args, **kwargs)

        monkeypatch.setattr(builtins, "__import__", refuse)
        assert token_counter.__wrapped__().name == "estimate"

    @pytest.mark.parametrize("counter", [REAL, ESTIMATE], ids=lambda counter: counter.name)
    def test_special_tokens_surrogates_and_long_texts_are_counted(self, counter: TokenCounter) -> None:
        assert counter.count("") == 0
        assert counter.count("<|endoftext|>") > 1
        assert counter.count("a\ud800好") >= 3
        assert counter.count("发票 invoice " * 100_000) > 200_000

    @pytest.mark.parametrize("name", SAMPLES)
    def test_the_estimate_is_above_the_real_count_but_not_far(self, name: str) -> None:
        real = REAL.count(SAMPLES[name])
        assert real <= ESTIMATE.count(SAMPLES[name]) <= (2.5 if name == "emoji" else 2.0) * real

    @given(REAL_TEXT)
    @settings(max_examples=300)
    def test_the_estimate_is_not_below_the_real_count_on_real_text_however_it_is_put_together(self, text: str) -> None:
        assert ESTIMATE.count(text) >= REAL.count(text)

    @given(ANY_TEXT)
    def test_the_estimate_is_never_above_the_bytes(self, text: str) -> None:
        assert ESTIMATE.count(text) <= len(text.encode())


@pytest.mark.parametrize("counter", [REAL, ESTIMATE], ids=lambda counter: counter.name)
class TestTruncating:
    @given(text=ANY_TEXT, max_tokens=st.integers(-1, 60))
    def test_the_result_fits_with_its_mark(self, counter: TokenCounter, text: str, max_tokens: int) -> None:
        cut, was_cut = truncate(text, max_tokens, counter)
        assert counter.count(cut) <= max(max_tokens, 0)
        if was_cut:
            assert cut == "" or (cut.endswith(MARK) and text.startswith(cut.removesuffix(MARK)))
        else:
            assert cut == text

    @pytest.mark.parametrize("text", [ZH, EN], ids=["zh", "en"])
    def test_it_ends_at_a_sentence_if_one_is_near(self, counter: TokenCounter, text: str) -> None:
        end = text.index("。" if text is ZH else ". ") + 1
        cut, _ = truncate(text, counter.count(text[:end] + MARK) + 3, counter)
        assert cut == text[:end] + MARK

    def test_a_decimal_point_is_no_sentence_end(self, counter: TokenCounter) -> None:
        text = "the price per night is 3.14159265358979323846264338"
        cut, _ = truncate(text, counter.count(text) - 2, counter)
        assert not cut.endswith("3." + MARK)

    def test_a_word_is_not_cut_if_a_boundary_is_near(self, counter: TokenCounter) -> None:
        text = "unreadable invoices returned yesterday afternoon without explanation"
        for max_tokens in range(counter.count("unreadable invoices"), counter.count(text)):
            cut = truncate(text, max_tokens, counter)[0].removesuffix(MARK)
            assert text[len(cut) :][:1] == " "

    def test_emoji_sequences_flags_and_combining_marks_stay_whole(self, counter: TokenCounter) -> None:
        units = [FAMILY, "🇨🇳", "👍🏽", "e\u0301", "❤️", "1️⃣"]
        for unit in units:
            for max_tokens in range(1, 60):
                cut = truncate(unit * 20, max_tokens, counter)[0].removesuffix(MARK)
                assert cut == unit * (len(cut) // len(unit))

    def test_nothing_fits_gives_nothing(self, counter: TokenCounter) -> None:
        assert truncate(ZH, 0, counter) == ("", True)
        assert truncate(FAMILY * 3, 1, counter) == ("", True)

    def test_what_fits_is_not_touched(self, counter: TokenCounter) -> None:
        assert truncate(" 发票 \n", 50, counter) == (" 发票 \n", False)
        assert truncate("", 0, counter) == ("", False)

    def test_long_text_is_cut_in_reasonable_time_and_uses_the_room(self, counter: TokenCounter) -> None:
        cut, was_cut = truncate(ZH * 5000, 100, counter)
        assert was_cut
        assert counter.count(cut) > 50
        assert unicodedata.is_normalized("NFC", cut)

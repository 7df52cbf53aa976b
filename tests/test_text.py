from __future__ import annotations

import threading
import time
import unicodedata

import pytest
import snowballstemmer
from hypothesis import given
from hypothesis import strategies as st

from hybridmem.errors import InvalidInput
from hybridmem.speakers import named, speaker
from hybridmem.text import MAX_TERM, clean_text, query_terms, terms

SENTENCES = [
    "财务退回，原因是发票信息不清晰",
    "用户张三的部门是研发部，上级是李四",
    "這筆報銷因為發票模糊被退回了",
    "为什么系统在2026年7月2日重启？因为ERR-42",
    "我们和他们的目的是什么呢",
    "プロジェクトの締め切りは金曜日です",
    "경비 보고서가 반려되었습니다",
]


class TestCleanText:
    @pytest.mark.parametrize(
        "value", ["a", "发票", " two  blanks \r\n", "\ufeffBOM", "```json\n{}\n```", "👨‍👩‍👧🇨🇳", "e\u0301"]
    )
    def test_visible_text_comes_back_unchanged(self, value: str) -> None:
        assert clean_text("content", value) == value

    @pytest.mark.parametrize(
        "value", ["", " ", "\n\t\r", "\u200b\u200d", "\ufeff", "\u3000\xa0", "\u2060\ufe0f", "\u3164"]
    )
    def test_blank_text_is_refused_with_the_field_named(self, value: str) -> None:
        with pytest.raises(InvalidInput, match="title is blank"):
            clean_text("title", value)

    @pytest.mark.parametrize("value", [None, 5, 1.5, ["a"], {"a": 1}, b"bytes"])
    def test_what_is_no_string_is_refused_with_its_type(self, value: object) -> None:
        with pytest.raises(InvalidInput, match=f"content must be a string, not {type(value).__name__}"):
            clean_text("content", value)  # type: ignore[arg-type]

    def test_a_nul_is_refused_with_its_position(self) -> None:
        with pytest.raises(InvalidInput, match=r"query contains a NUL character at position 2; remove it"):
            clean_text("query", "发票\0退回")

    def test_a_surrogate_pair_becomes_one_character(self) -> None:
        assert clean_text("content", "好\ud83d\udc4d的") == "好👍的"

    @pytest.mark.parametrize("value", ["\ud83d", "a\udc4d", "\udc4d\ud83d", "好\ud83d好"])
    def test_half_a_surrogate_pair_is_refused_with_the_field_named(self, value: str) -> None:
        with pytest.raises(InvalidInput, match="content contains half of a surrogate pair"):
            clean_text("content", value)


class TestTerms:
    def test_mixed_text_gives_grams_identifiers_and_stems(self) -> None:
        found = terms("用户张三用ERR-42重启server失败")
        assert {"用户", "张三", "重启", "失败", "张", "err-42", "err", "42", "server"} <= set(found)

    def test_english_is_stemmed_without_stop_words_and_repeats_are_kept(self) -> None:
        assert terms("The invoices were rejected; another invoice is missing") == [
            "invoic",
            "reject",
            "anoth",
            "invoic",
            "miss",
        ]

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("ERR_CONN_42", {"err_conn_42", "err", "conn", "42"}),
            ("v1.5.9", {"v1.5.9", "1.5.9", "1", "5", "9"}),
            ("/usr/local/bin/foo.py", {"/usr/local/bin/foo.py", "usr", "local", "bin", "foo.py", "foo", "py"}),
            ("user@example.com", {"user@example.com", "user", "example.com", "com"}),
            ("JIRA-1234", {"jira-1234", "jira", "1234"}),
            ("2026-07-02", {"2026-07-02", "2026", "07", "02"}),
            ("camelCase", {"camelcase", "camel", "case"}),
            ("3,500.00", {"3,500.00", "3500.00", "3500"}),
            ("a1b2c3d4e5f60718", {"a1b2c3d4e5f60718", "a1b2c3d"}),
            ("C++", {"c++", "c"}),
            ("50%", {"50%", "50"}),
            ("ＥＲＲ－４２", {"err-42", "err", "42"}),
        ],
    )
    def test_identifiers_are_kept_whole_and_in_parts(self, text: str, expected: set[str]) -> None:
        assert expected <= set(terms(f"张三 said {text} 失败"))

    @pytest.mark.parametrize(
        ("one", "other"), [("3,500.00", "3,500.01"), ("ERR-42", "ERR-43"), ("2026-07-02", "2026-07-03")]
    )
    def test_values_that_differ_by_one_digit_differ(self, one: str, other: str) -> None:
        assert set(terms(one)) - set(terms(other))

    def test_the_short_form_of_a_hash_finds_the_long_one(self) -> None:
        assert set(query_terms("commit 9f8e7d6c5b")) & set(terms("修复在 9f8e7d6c5b4a39281706 里")) == {"9f8e7d6"}

    def test_emoji_and_symbols_are_terms_without_their_variants(self) -> None:
        assert terms("好👍🏽 ❤️ 🇨🇳 €") == ["好", "👍", "🏽", "❤", "🇨🇳", "€"]

    def test_other_scripts_keep_their_diacritics(self) -> None:
        assert terms("Привет ΕΛΛΆΔΑ École हिन्दी") == ["привет", "ελλάδα", "école", "हिन्दी"]

    def test_thai_becomes_bigrams_so_that_a_part_is_found(self) -> None:
        assert set(query_terms("ไทย")) <= set(terms("ภาษาไทยง่าย"))

    def test_composed_and_decomposed_forms_are_the_same(self) -> None:
        assert terms("caf\u00e9 ガ") == terms("cafe\u0301 カ\u3099")

    def test_a_text_of_stop_words_only_keeps_them(self) -> None:
        assert terms("To be or not to be") == ["to", "be", "or", "not", "to", "be"]

    def test_capital_it_and_us_are_names(self) -> None:
        assert terms("IT部门 in the US")[0] == "it"
        assert "us" in terms("IT部门 in the US")

    @given(st.text(st.characters(codec=None), max_size=60))
    def test_any_string_is_accepted_and_terms_are_clean(self, text: str) -> None:
        for term in terms(text):
            assert 0 < len(term) <= MAX_TERM
            assert not any(char.isspace() or unicodedata.category(char) in {"Cc", "Cs", "Zs"} for char in term)
        assert set(query_terms(text)) <= set(terms(text))
        assert bool(query_terms(text)) == bool(terms(text))

    @pytest.mark.parametrize("text", ["", "。，！？", "!?-_/\\" * 2000, "____", "\ud800", "\0"])
    def test_text_without_words_has_no_terms(self, text: str) -> None:
        assert terms(text) == [] == query_terms(text)

    @pytest.mark.parametrize(
        "unit", ["!", "a-", "-", "a", "\u0301\u0316", "的", "_", "a'", "/a", "ก", "é-", "a.b_C1", "1,", "😀", "<"]
    )
    def test_time_grows_with_length_and_not_faster(self, unit: str) -> None:
        started = time.perf_counter()
        terms(unit * (100_000 // len(unit)))
        assert time.perf_counter() - started < 5.0

    def test_threads_do_not_disturb_each_others_stems(self) -> None:
        # Words no other test uses, so that each thread really stems; all threads stem all words, in different orders.
        letters = "abcdefghijklmnopqrst"
        words = [f"q{a}{b}{end}" for a in letters for b in letters for end in ("ational", "iveness", "ings")]
        found: list[dict[str, list[str]]] = [{} for _ in range(4)]
        start = threading.Barrier(4)

        def work(number: int) -> None:
            start.wait()
            for word in words[number::4] + words:
                found[number][word] = terms(word)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        stemmer = snowballstemmer.stemmer("english")
        assert found == [{word: [stemmer.stemWord(word)] for word in words}] * 4


class TestQueryTerms:
    @pytest.mark.parametrize("sentence", SENTENCES)
    def test_every_substring_of_two_characters_or_more_is_found(self, sentence: str) -> None:
        stored = set(terms(sentence))
        for start in range(len(sentence)):
            for end in range(start + 2, len(sentence) + 1):
                part = sentence[start:end]
                cjk_only = not any(char.isascii() for char in part)
                if cjk_only and terms(part):
                    assert stored & set(query_terms(part)), part

    @pytest.mark.parametrize("sentence", SENTENCES)
    def test_every_single_character_is_found(self, sentence: str) -> None:
        for char in sentence:
            if not char.isascii() and terms(char):
                assert query_terms(char) == [char]
                assert char in terms(sentence)

    def test_a_substring_with_spaces_between_is_found(self) -> None:
        assert {"发", "票"} <= set(terms("财务退回发票")) & set(query_terms("发 票"))

    def test_question_words_do_not_take_part(self) -> None:
        assert query_terms("发票为什么被退回？") == ["发", "发票", "票", "票为", "被退", "退", "退回", "回"]
        assert query_terms("What is the ERR-42 status?") == ["err-42", "err", "42", "status"]

    @pytest.mark.parametrize("question", ["为什么", "是什么呢", "谁", "的", "who are you", "What?", "the"])
    def test_a_question_of_nothing_else_still_asks_for_something(self, question: str) -> None:
        assert query_terms(question)

    def test_each_term_is_asked_for_once_in_order(self) -> None:
        assert query_terms("server 重启 server 重启") == ["server", "重", "重启", "启"]

    @pytest.mark.parametrize("query", ['"quote', "it's", "a/b", "NEAR AND OR NOT", "col:x", "foo*", "^a", "(b", "x-y"])
    def test_search_syntax_is_only_text(self, query: str) -> None:
        assert query_terms(query)


class TestSpeakers:
    def test_the_name_before_the_first_colon_speaks(self) -> None:
        said = {"Caroline: Hey Mel!": "caroline", "张三：发票退回了": "张三", "user: 用户 said": "user"}
        assert {content: speaker(content, {}) for content in said} == said
        for nobody in ("https://example.com/a", "10:30 开会", "no colon 没有冒号", "x" * 50 + ": y", ""):
            assert speaker(nobody, {}) == ""

    def test_metadata_goes_before_the_text(self) -> None:
        assert speaker("Bob: hi", {"speaker": "Alice"}) == "alice"
        assert speaker("hi", {"role": "Assistant"}) == "assistant"
        assert speaker("hi", {"role": 5}) == ""

    def test_a_question_names_whole_words_and_chinese_anywhere(self) -> None:
        assert named("When did Caroline go?", {"caroline", "carol", ""}) == {"caroline"}
        assert named("张三昨天说了什么 to Bob", {"张三", "李四", "bob"}) == {"张三", "bob"}


@pytest.mark.parametrize(
    ("question", "about"),
    [
        ("Where do I keep my old sneakers?", {"user"}),
        ("我的旧球鞋放在哪里？", {"user"}),
        ("我上周说的 invoice 在哪", {"user"}),
        ("Which restaurant did you recommend?", {"assistant"}),
        ("你推荐了哪家餐厅", {"assistant"}),
        ("What did you tell me about it?", {"user", "assistant"}),
        ("Where did Rachel move to?", set()),
        ("Is it, i.e. the mime, imminent?", set()),
        ("谁搬到了芝加哥", set()),
    ],
)
def test_i_is_the_user_and_you_are_the_assistant(question: str, about: set[str]) -> None:
    assert named(question, {"user", "assistant", "rachel's cat"}) == about


def test_i_names_nobody_where_no_speaker_is_a_user() -> None:
    assert named("What did I say to you, 我说了什么", {"caroline", "melanie", ""}) == set()

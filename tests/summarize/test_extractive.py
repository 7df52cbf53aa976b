"""The default summariser: pure, shorter than its source, the same each time, and what it keeps first."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from summaries import CHATTER, PLANTED

from hybridmem.ports import Passage
from hybridmem.summarize import ExtractiveSummarizer
from hybridmem.summarize.details import details, worth
from hybridmem.summarize.sentences import lines, sentences
from hybridmem.tokens import token_counter

AT = datetime(2026, 7, 2, 8, 0, tzinfo=timezone.utc)
IDLE = [CHATTER[number % len(CHATTER)].format(number) for number in range(60)]


def summary(*passages: Passage | str, budget: int = 40, fill: bool = True) -> str:
    """Of these (texts are events) among enough chatter that there is something to leave out."""
    given = [one if isinstance(one, Passage) else Passage(one, "event", AT) for one in passages]
    rest = [Passage(text, "event", AT) for text in IDLE] if fill else []
    return ExtractiveSummarizer().summarize([*given, *rest], budget)


@pytest.mark.parametrize(
    "text", [text for text, _, fact in PLANTED if fact not in ("40 个", "30 秒", "45 minutes", "3.2 GB")]
)
def test_what_tells_is_kept_even_as_an_event_and_without_any_budget(text: str) -> None:
    kind = next(kind for one, kind, _ in PLANTED if one == text)
    assert text in summary(Passage(text, kind, AT), budget=1)


def test_chatter_goes_even_if_there_is_room() -> None:
    assert summary("发票号 INV-20431。", budget=100_000).splitlines()[0] == "发票号 INV-20431。"
    assert "nobody answered" not in summary("x INV-20431", budget=100_000)


def test_the_same_passages_give_the_same_text() -> None:
    passages = [text for text, _, _ in PLANTED]
    assert summary(*passages) == summary(*passages)


def test_every_line_of_a_summary_is_kept_and_a_summary_alone_cannot_be_made_shorter() -> None:
    first = summary(*[text for text, _, _ in PLANTED], budget=60)
    again = summary(Passage(first, "summary", AT), budget=1)
    assert again == first
    assert summary(Passage(first, "summary", AT), budget=1, fill=False) == ""


def test_words_that_mean_a_day_get_the_date_of_the_memory() -> None:
    text = summary("昨天决定换供应商。", "We decided it yesterday.", "决定 2026-07-01 上线。", "Decided on 3 May 2026.")
    assert "昨天决定换供应商。 (2026-07-02)" in text
    assert "We decided it yesterday. (2026-07-02)" in text
    assert "决定 2026-07-01 上线。\n" in text
    assert "3 May 2026." in text.splitlines()[-1]


def test_a_fact_that_was_taken_back_stays_if_there_is_room_and_what_holds_now_in_any_case() -> None:
    old = Passage("The transfer to the supplier is set for 2026-08-01.", "fact", AT)
    new = Passage("The transfer to the supplier has moved, it is set for 2026-08-09 now.", "fact", AT)
    other = Passage("The budget of the project is 2026 dollars.", "fact", AT)
    assert old.text not in summary(old, other, new, budget=1)
    assert new.text in summary(old, other, new, budget=1)
    assert other.text in summary(old, other, new, budget=1)
    assert old.text in summary(old, other, new, budget=10_000)
    more = Passage(old.text[:-1] + ", cost centre CC-4711, approved on 2026-07-01.", "fact", AT)
    assert more.text in summary(more, other, new, budget=1), "it says more than what takes it back"


def test_lines_stand_below_the_titles_of_their_tasks() -> None:
    one = Passage("发票号 INV-20431。", "fact", AT, "收集票据")
    two = Passage("Cost centre CC-4711.", "fact", AT, "Fill in the form")
    assert summary(one, two, budget=1000) == "收集票据：\n发票号 INV-20431。\nFill in the form:\nCost centre CC-4711."


def test_the_same_line_over_and_over_with_other_numbers_is_not_all_kept() -> None:
    text = summary(*[f"processed record REC-{number:05} without a fault" for number in range(200)], budget=50)
    assert 0 < text.count("processed") < 10 or text == ""
    assert token_counter().count(text) <= 60


WORDS = st.sampled_from(
    [*IDLE, *(text for text, _, _ in PLANTED), "昨天 yesterday", "``` x\ny", "# a", "\u3000", "👨‍👩‍👧 🇨🇳"]
)
PASSAGES = st.lists(
    st.builds(
        Passage,
        st.one_of(WORDS, st.text(max_size=60)),
        st.sampled_from(["event", "fact", "decision", "note", "summary", "task"]),
        st.datetimes(timezones=st.just(timezone.utc)),
        st.sampled_from(["", "标题", "Title"]),
    ),
    min_size=1,
    max_size=30,
)


@settings(max_examples=150)
@given(PASSAGES, st.integers(1, 500))
def test_it_is_always_shorter_than_its_source_or_nothing(passages: list[Passage], budget: int) -> None:
    count = token_counter().count
    text = ExtractiveSummarizer().summarize(passages, budget)
    assert text == "" or count(text) < sum(count(passage.text) for passage in passages)
    assert text == ExtractiveSummarizer().summarize(passages, budget)


def test_sentences_of_both_languages() -> None:
    text = "财务退回。Mr. Doyle wrote v1.2.3 to /etc/a.conf. 金额 3.5 万！Next?\n第二行\n```\na. b\n```\nend"
    assert sentences(text) == [
        "财务退回。",
        "Mr. Doyle wrote v1.2.3 to /etc/a.conf.",
        "金额 3.5 万！",
        "Next?",
        "第二行",
        "```\na. b\n```",
        "end",
    ]
    assert lines(text)[-3:] == ["第二行", "```\na. b\n```", "end"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("发票 INV-20431，共 12,500 元", {"inv-20431", "12,500"}),
        ("see https://a.example/x?y=1 and a.b@c.example", {"https://a.example/x?y=1", "a.b@c.example"}),
        ("at 14:23 nobody answered", set()),
        ("run `git push --force`", {"gitpush--force"}),
        ("在 2026年9月18日 上线", {"2026年9月18日"}),
    ],
)
def test_details_are_told_from_what_can_be_made_up_again(text: str, found: set[str]) -> None:
    assert details(text) == found


def test_long_texts_take_linear_time() -> None:
    """No timing: it would not end."""
    for text in ("a-" * 100_000, "1,234" * 50_000, "/a" * 100_000, "A_" * 100_000, "一月" * 50_000, "`" * 100_001):
        worth(text)

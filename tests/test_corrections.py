"""A memory that takes an earlier one back stands right before it, and nothing else is moved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybridmem import Memory
from hybridmem.corrections import Place, announces, corrected
from hybridmem.results import Hit
from tests.contexts import hit

OpenMemory = Callable[..., Memory]
NOWHERE = np.zeros(2, dtype=np.float32)
ROOT = Place(-1, False, NOWHERE)
TASK, OTHER_TASK = Place(1, True, NOWHERE), Place(2, True, NOWHERE)

#: (what was said, what takes it back), in Chinese, English and both.
PAIRS = {
    "zh": ("用户喜欢喝咖啡", "用户不再喝咖啡，现在喝绿茶"),
    "en": ("the deploy window is Friday evening", "the deploy window has moved to Monday morning"),
    "mixed": ("server 端口是 8080", "更正：server 端口是 9090"),
}


def ranked(*hits: Hit) -> list[Hit]:
    """With falling scores, as a search ranks them."""
    return [replace(one, score=0.9 - 0.1 * place) for place, one in enumerate(hits)]


def order(hits: list[Hit], places: dict[str, Place] | None = None) -> list[str]:
    where = places or {one.id: ROOT for one in hits}
    return [one.id for one in corrected(hits, where, None)]


@pytest.mark.parametrize("language", PAIRS)
class TestACorrection:
    def test_stands_right_before_what_it_corrects_with_its_score(self, language: str) -> None:
        early, late = PAIRS[language]
        hits = ranked(
            hit("first", type="fact"),
            hit(early, type="fact", minutes=1, id="early"),
            hit("between", type="fact"),
            hit(late, type="fact", minutes=2, id="late"),
        )
        found = corrected(hits, {one.id: ROOT for one in hits}, None)
        assert [one.id for one in found] == ["first", "late", "early", "between"]
        assert found[1].score == found[2].score == hits[1].score
        assert [one.score_details.corrects for one in found] == [None, "early", None, None]
        assert "corrects early" in found[1].explain()

    def test_that_happened_earlier_corrects_nothing(self, language: str) -> None:
        early, late = PAIRS[language]
        hits = ranked(hit(early, type="fact", minutes=2, id="early"), hit(late, type="fact", minutes=1, id="late"))
        assert order(hits) == ["early", "late"]

    @pytest.mark.parametrize("type", ["event", "note", "task"])
    def test_of_what_happened_is_none(self, language: str, type: str) -> None:
        """Events stay true: a later one is news, not a correction."""
        early, late = PAIRS[language]
        hits = ranked(hit(early, type=type, id="early"), hit(late, type=type, minutes=1, id="late"))
        assert order(hits) == ["early", "late"]

    def test_of_another_type_corrects_nothing(self, language: str) -> None:
        early, late = PAIRS[language]
        hits = ranked(hit(early, type="decision", id="early"), hit(late, type="fact", minutes=1, id="late"))
        assert order(hits) == ["early", "late"]

    def test_in_another_task_corrects_nothing_unless_it_is_a_preference(self, language: str) -> None:
        early, late = PAIRS[language]
        for type, expected in (("fact", ["early", "late"]), ("preference", ["late", "early"])):
            hits = ranked(hit(early, type=type, id="early"), hit(late, type=type, minutes=1, id="late"))
            assert order(hits, {"early": TASK, "late": OTHER_TASK}) == expected

    def test_is_found_by_a_search(self, memory: OpenMemory, clock: Any, language: str) -> None:
        """Whatever the question weighs more: the correction is first, and says why; with corrections off it is not."""
        early, late = PAIRS[language]
        for on in (True, False):
            m = memory(f"store-{on}", retrieval={"corrections": on, "vector": 0.0})
            first = m.add(early, type="fact")
            clock.advance(days=2)
            second = m.add(late, type="fact")
            found = m.search(early.removesuffix("8080"))
            assert [one.id for one in found][:2] == ([second.id, first.id] if on else [first.id, second.id])
            assert found[0].score_details.corrects == (first.id if on else None)
            assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)


class TestPairing:
    def test_is_with_the_most_alike_of_the_task_even_when_only_its_place_says_what_it_is_about(self) -> None:
        """ "Moved to the 9th" names nothing: the vectors and the task decide."""
        directions = {"date": (1.0, 0.1), "price": (0.0, 1.0), "late": (1.0, 0.0)}
        hits = ranked(
            hit("签约日是 2026-10-02", type="fact", id="date"),
            hit("the offer is 5,369", type="fact", id="price"),
            hit("moved to the 9th", type="fact", minutes=5, id="late"),
        )
        places = {name: Place(1, True, np.array(row, dtype=np.float32)) for name, row in directions.items()}
        found = corrected(hits, places, np.zeros(2, dtype=np.float32))
        assert [one.id for one in found] == ["late", "date", "price"]

    @pytest.mark.parametrize(
        ("early", "late"),
        [
            ("用户张三，部门研发部", "用户现在在北京出差"),
            ("The user prefers coffee", "The user no longer wants emails"),
            ("用户 Ann 偏好 SMS 通知", "Bob 搬到 Munich 了"),
        ],
    )
    def test_other_news_about_the_same_person_is_no_correction(self, early: str, late: str) -> None:
        hits = ranked(hit(early, type="fact", id="early"), hit(late, type="fact", minutes=1, id="late"))
        assert order(hits) == ["early", "late"]

    def test_who_asks_by_a_code_means_the_memory_that_has_it(self) -> None:
        early = replace(hit("ticket TCK-4711 由 Ann 负责", type="fact", id="early"), matched_terms=("tck-4711",))
        late = hit("ticket 改由 Bob 负责", type="fact", minutes=1, id="late")
        assert order(ranked(early, late)) == ["early", "late"]
        assert order(ranked(replace(early, matched_terms=("ticket",)), late)) == ["late", "early"]

    @pytest.mark.parametrize("said", ["发票 4711 已退回", "invoice 4711 was returned", "客户 4711 prefers 短信"])
    def test_but_what_a_feedback_has_named_does(self, memory: OpenMemory, said: str) -> None:
        """That is no guess: who asks by the code of the contradicted one learns what holds, and is given both."""
        m = memory()
        early, late = m.add(said, type="fact"), m.add("那是另一回事 not that one", type="fact")
        m.feedback(early.id, contradicted_by=late.id)
        assert [found.id for found in m.search(said)] == [late.id, early.id]
        assert {found.id for found in m.context(said).hits} == {early.id, late.id}

    @pytest.mark.parametrize("code", ["markeA7", "工单4711号A7"])
    def test_nor_is_another_correction_of_the_same_before_the_one_whose_code_is_asked_for(
        self, memory: OpenMemory, clock: Any, code: str
    ) -> None:
        """Of thirty corrections of one thing each is found first by its own words: no later one takes its place."""
        m = memory(retrieval={"vector": 0.0})
        for number in range(30):
            m.add(f"现在改由 Ann 负责 now handled by Ann, {code}x{number}", type="fact", id=f"n{number}")
            clock.advance(minutes=1)
        for number in (0, 5, 17, 29):
            found = m.search(f"现在改由 Ann 负责 now handled by Ann, {code}x{number}", k=10)
            assert found[0].id == f"n{number}"

    def test_without_a_word_of_change_nothing_is_moved(self) -> None:
        """One digit can be the whole difference between two facts that both hold."""
        hits = ranked(
            hit("invoice 1234 is 500 euros", type="fact", id="early"),
            hit("invoice 1235 is 500 euros", type="fact", minutes=1, id="late"),
        )
        assert order(hits) == ["early", "late"]

    def test_of_several_corrections_the_latest_comes_first(self) -> None:
        first = hit("the port is 8080", type="fact", id="a")
        second = hit("the port is changed to 9090", type="fact", minutes=1, id="b")
        third = hit("the port is changed to 7070", type="fact", minutes=2, id="c")
        for hits in ([first, second, third], [second, first, third], [first, third, second], [third, first, second]):
            assert order(ranked(*hits)) == ["c", "b", "a"]

    def test_the_latest_comes_first_also_if_an_earlier_correction_stood_before_what_both_correct(self) -> None:
        rows = {"a": (1.0, 0.0), "b": (0.8, 0.6), "c": (0.9, -0.436)}
        places = {name: Place(1, True, np.array(row, dtype=np.float32)) for name, row in rows.items()}
        hits = ranked(
            hit("moved to Monday", type="fact", minutes=1, id="b"),
            hit("会议在周三", type="fact", id="a"),
            hit("改到周五", type="fact", minutes=2, id="c"),
        )
        assert [one.id for one in corrected(hits, places, np.zeros(2, dtype=np.float32))] == ["c", "b", "a"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("会议改到周五", True),
        ("The meeting is put off", True),
        ("客户现在用 v2", True),
        ("does not use MySQL any more", True),
        ("I know the nowhere man", False),
        ("用户喜欢喝茶", False),
        ("NOW 用 v2", True),
        ("很长 long " * 70 + "改为 changed", False),
        ("unchanged, removed, knows", False),
    ],
)
def test_only_whole_words_announce_a_change(text: str, expected: bool) -> None:
    assert announces(text) is expected


@pytest.mark.parametrize("news", ["会议改到周五", "The meeting is put off", "不" + "x" * 500, None])
def test_several_announce_a_change_if_one_does(news: str | None) -> None:
    """Asked together they must not differ: no word may be made of the end of one and the beginning of the next."""
    others = ["会议改", "到周五", "it is put", "off we go", "unk", "nown", "很长 long " * 70 + "改为 changed", ""]
    together = [*others[:3], *([] if news is None else [news]), *others[3:]]
    assert announces(*together) is any(map(announces, together))
    assert announces(*others) is False


@pytest.mark.parametrize("codes", [("ORD-48213",), ()])
def test_what_a_feedback_named_comes_first_whatever_code_is_asked_for(codes: tuple[str, ...]) -> None:
    """Who asks by the code of the contradicted one has to learn what holds; and nothing fails over it."""
    early = replace(hit("订单 ORD-48213 已付 paid", type="fact", id="early"), matched_terms=codes)
    early = replace(early, node=replace(early.node, replaced_by="late"))
    other = hit("别的 other", type="fact", id="other")
    assert order(ranked(early, other, hit("没有付 it was not", type="fact", id="late"))) == ["late", "early", "other"]


WORDS = st.sampled_from(["咖啡", "coffee", "端口 port", "不再", "now", "changed", "用户", "9090"])
HITS = st.lists(
    st.tuples(
        st.lists(WORDS, min_size=1, max_size=4),
        st.sampled_from(["fact", "event"]),
        st.integers(0, 5),
        st.none() | st.integers(0, 7).map(str),
        st.lists(st.sampled_from(["ord-48213", "9090", "coffee"]), max_size=2, unique=True).map(tuple),
    ),
    max_size=8,
)


@given(HITS)
def test_nothing_is_lost_and_scores_never_rise_down_the_list(
    drawn: list[tuple[list[str], str, int, str | None, tuple[str, ...]]],
) -> None:
    hits = []
    for number, (words, type, at, replaced_by, matched) in enumerate(drawn):
        one = hit(" ".join(words), type=type, minutes=at, id=str(number))
        named = None if replaced_by == one.id else replaced_by
        hits.append(replace(one, node=replace(one.node, replaced_by=named), matched_terms=matched))
    hits = ranked(*hits)
    found = corrected(hits, {one.id: ROOT for one in hits}, None)
    assert sorted(one.id for one in found) == sorted(one.id for one in hits)
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    still = [one.id for one in found if one.score_details.corrects is None]
    assert still == [one.id for one in hits if one.id in still]

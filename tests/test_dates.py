"""Which times a question names, and how near a memory's time is to them. Now is Thursday, 2026-07-09, 15:30."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hybridmem.dates import MAX_MOMENTS, Interval, closeness, moments

NOW = datetime(2026, 7, 9, 15, 30, tzinfo=timezone.utc)
DAY = timedelta(days=1)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc)


def named(question: str, now: datetime = NOW) -> list[str]:
    """What is named, as "from..to"; midnights without their time."""

    def short(moment: datetime) -> str:
        return moment.strftime("%Y-%m-%d %H:%M").removesuffix(" 00:00")

    return [f"{short(start)}..{short(end)}" for start, end in moments(question, now)]


def day(text: str) -> str:
    return f"{text}..{(at(text) + DAY).date()}"


class TestAbsolute:
    @pytest.mark.parametrize("question", ["2026-07-02", "2026/7/2", "2026/07/02", "2026.07.02", "2026-07-02T10:00:00Z"])
    @pytest.mark.parametrize("around", ["{}", "What failed on {}?", "{} 的会议说了什么", "在{}之后", "({})"])
    def test_numeric_days(self, question: str, around: str) -> None:
        assert named(around.format(question)) == [day("2026-07-02")]

    @pytest.mark.parametrize(
        "question",
        ["7 May 2023", "7th of May, 2023", "May 7th, 2023", "may 7 2023", "May the 7th, 2023", "2023年5月7日",
         "2023年5月7号", "二〇二三年五月七日", "２０２３年５月７日", "2023 年 5 月 7 日"],
    )  # fmt: skip
    def test_days_in_words(self, question: str) -> None:
        assert named(f"Who came on {question}?") == [day("2023-05-07")]

    @pytest.mark.parametrize(
        ("question", "expected"),
        [
            ("May 7th", day("2026-05-07")),
            ("on may 7?", day("2026-05-07")),
            ("7月9日", day("2026-07-09")),
            ("Dec 3rd", day("2025-12-03")),
            ("12月3号", day("2025-12-03")),
            ("July 10", day("2025-07-10")),
            ("29 February", day("2024-02-29")),
            ("去年5月7日", day("2025-05-07")),
            ("明年一月十五号", day("2027-01-15")),
            ("上个月5号", day("2026-06-05")),
            ("本月二十日", day("2026-07-20")),
        ],
    )
    def test_a_day_without_a_year_is_the_latest_that_has_begun(self, question: str, expected: str) -> None:
        assert named(question) == [expected]

    @pytest.mark.parametrize(
        ("question", "expected"),
        [
            ("in May 2023", "2023-05-01..2023-06-01"),
            ("Dec 2025", "2025-12-01..2026-01-01"),
            ("2023年5月", "2023-05-01..2023-06-01"),
            ("2026-07", "2026-07-01..2026-08-01"),
            ("in march", "2026-03-01..2026-04-01"),
            ("十月的报销", "2025-10-01..2025-11-01"),
            ("last July", "2025-07-01..2025-08-01"),
            ("next March", "2027-03-01..2027-04-01"),
            ("What did we do in 2022 with Anna?", "2022-01-01..2023-01-01"),
            ("2022年", "2022-01-01..2023-01-01"),
            ("summer of 2025", "2025-01-01..2026-01-01"),
            ("Q3 2026", "2026-07-01..2026-10-01"),
            ("2026Q3", "2026-07-01..2026-10-01"),
            ("2025年第三季度", "2025-07-01..2025-10-01"),
            ("the second quarter of 2025", "2025-04-01..2025-07-01"),
            ("in Q4", "2025-10-01..2026-01-01"),
        ],
    )
    def test_months_quarters_and_years(self, question: str, expected: str) -> None:
        assert named(question) == [expected]

    def test_a_day_that_can_be_read_two_ways_is_read_both_ways(self) -> None:
        assert named("due 7/2/2026") == [day("2026-02-07"), day("2026-07-02")]
        assert named("due 25/2/2026") == named("due 2/25/2026") == [day("2026-02-25")]


class TestRelative:
    @pytest.mark.parametrize(
        ("question", "expected"),
        [
            ("今天", day("2026-07-09")),
            ("earlier today", day("2026-07-09")),
            ("昨天", day("2026-07-08")),
            ("yesterday's build", day("2026-07-08")),
            ("前天", day("2026-07-07")),
            ("the day before yesterday", day("2026-07-07")),
            ("tomorrow", day("2026-07-10")),
            ("三天前", day("2026-07-06")),
            ("3 天之前", day("2026-07-06")),
            ("two days ago", day("2026-07-07")),
            ("a couple of days ago", day("2026-07-07")),
            ("十二天前", day("2026-06-27")),
            ("半个月前", day("2026-06-24")),
            ("几天前", "2026-07-02..2026-07-08"),
            ("a few days ago", "2026-07-02..2026-07-08"),
            ("this morning", "2026-07-09 04:00..2026-07-09 12:00"),
            ("今天下午", "2026-07-09 12:00..2026-07-09 18:00"),
            ("昨晚", "2026-07-08 18:00..2026-07-09 04:00"),
            ("last night", "2026-07-08 18:00..2026-07-09 04:00"),
            ("an hour ago", "2026-07-09 14:00..2026-07-09 15:00"),
            ("last hour", "2026-07-09 14:30..2026-07-09 15:30"),
        ],
    )
    def test_days_and_less(self, question: str, expected: str) -> None:
        assert named(f"{question}说了什么") == named(f"What was it {question}?") == [expected]

    @pytest.mark.parametrize(
        ("question", "expected"),
        [
            ("上周", "2026-06-29..2026-07-06"),
            ("last week", "2026-06-29..2026-07-06"),
            ("上個禮拜", "2026-06-29..2026-07-06"),
            ("两周前", "2026-06-22..2026-06-29"),
            ("3 weeks ago", "2026-06-15..2026-06-22"),
            ("the week before last", "2026-06-22..2026-06-29"),
            ("last weekend", "2026-07-04..2026-07-06"),
            ("上个月", "2026-06-01..2026-07-01"),
            ("last month", "2026-06-01..2026-07-01"),
            ("三个月前", "2026-04-01..2026-05-01"),
            ("去年", "2025-01-01..2026-01-01"),
            ("last year", "2025-01-01..2026-01-01"),
            ("two years ago", "2024-01-01..2025-01-01"),
            ("上季度", "2026-04-01..2026-07-01"),
            ("最近三天", "2026-07-06..2026-07-09 15:30"),
            ("the past two weeks", "2026-06-25..2026-07-09 15:30"),
        ],
    )
    def test_weeks_and_more(self, question: str, expected: str) -> None:
        assert named(f"{question}的进展") == named(f"And {question}?") == [expected]

    @pytest.mark.parametrize(
        ("question", "expected"),
        [
            ("上周二", "2026-06-30"),
            ("上週二", "2026-06-30"),
            ("Tuesday last week", "2026-06-30"),
            ("last Tuesday", "2026-07-07"),
            ("last Thursday", "2026-07-02"),
            ("on Friday", "2026-07-03"),
            ("on Thursday", "2026-07-09"),
            ("周六", "2026-07-04"),
            ("星期四", "2026-07-09"),
            ("礼拜天", "2026-07-05"),
            ("下周二", "2026-07-14"),
            ("next Friday", "2026-07-10"),
            ("this Monday", "2026-07-06"),
        ],
    )
    def test_weekdays(self, question: str, expected: str) -> None:
        assert named(f"{question}谁来了") == named(f"Who came {question}?") == [day(expected)]

    def test_both_languages_in_one_question(self) -> None:
        assert named("上次last week和2026-07-02的review") == ["2026-06-29..2026-07-06", day("2026-07-02")]
        assert named("server 昨天crashed, and on May 7th?") == [day("2026-07-08"), day("2026-05-07")]

    @pytest.mark.parametrize(
        "question",
        ["from 2026-07-01 to 2026-07-05", "between July 1 and July 5", "7月1日到7月5日", "2026/7/1 - 2026/7/5"],
    )
    def test_from_one_day_to_another_is_one_interval(self, question: str) -> None:
        assert named(question) == ["2026-07-01..2026-07-06"]

    def test_two_days_side_by_side_are_two(self) -> None:
        assert named("2026-07-01 and 2026-07-05") == [day("2026-07-01"), day("2026-07-05")]
        assert named("yesterday, 昨天 and yesterday") == [day("2026-07-08")]


NOTHING = """
version 1.5.9|chromadb 2024.1.2|v2026.07.02|release 1.5.2026.3|192.168.1.5|JIRA-2026|INV-2026-07-02|ERR-2024-05|20260702
amount 2,026|2026元|$2022|in 2,022 cases|in 2022 cases|in 2048 tokens|in 2000 ms|in 2022.5|room 2023|2026|1/2|7/2|1234年
at 10:30|14:00-15:00|3点|three o'clock|138-2026-0702|call 555-2023|+86 2026-0702|ports 8000-8010|ports 2000-2010
from 2000 to 2010|port 2022|you may 5 times|it may be|the 7 may fail|May I ask?|May 5 users log in?|this may take long
what happens next may matter|we march on|the 5 march on|this march|a second|the second one|quarterly|quarterback
second quarter of the file|Q3|FAQ Q3|sun|mar|dec|mayor|monday1|Fridays|every Friday|Black Friday
days ago|3 days|two weeks|last 3 attempts|the last one|next step|last|may|2026-13-45|2026-02-30|February 30, 2023
13月40日|5个月|三月内|三天|第三天|以前天气好|之前天天来|周围|每周六|一周六次|晚上月亮|日本周边|上周期|声明天数|过去年轻时
2020年代|5号楼|上一个|下个版本|以上|目前
"""


@pytest.mark.parametrize("question", NOTHING.strip().replace("\n", "|").split("|"))
def test_what_is_no_date_is_left_alone(question: str) -> None:
    assert named(question) == []
    assert named(f"请问 {question}") == []


class TestZones:
    @pytest.mark.parametrize(
        ("zone", "expected"),
        [
            ("UTC", "2026-07-08..2026-07-09"),
            ("Asia/Shanghai", "2026-07-07 16:00..2026-07-08 16:00"),
            ("America/New_York", "2026-07-08 04:00..2026-07-09 04:00"),
        ],
    )
    def test_days_begin_at_the_midnight_of_now(self, zone: str, expected: str) -> None:
        now = datetime(2026, 7, 9, 10, tzinfo=ZoneInfo(zone))
        assert named("昨天", now) == named("yesterday", now) == [expected]

    def test_the_same_moment_is_another_day_elsewhere(self) -> None:
        late = datetime(2026, 7, 8, 20, tzinfo=timezone.utc)
        assert named("today", late) == [day("2026-07-08")]
        assert named("今天", late.astimezone(ZoneInfo("Asia/Shanghai"))) == ["2026-07-08 16:00..2026-07-09 16:00"]

    def test_a_naive_now_means_utc(self) -> None:
        assert moments("last week", NOW.replace(tzinfo=None)) == moments("last week", NOW)

    def test_a_day_of_the_clock_change_is_as_long_as_it_is(self) -> None:
        [(start, end)] = moments("2026-03-08", datetime(2026, 7, 1, tzinfo=ZoneInfo("America/New_York")))
        assert end - start == timedelta(hours=23)


WORDS = st.sampled_from(
    ("2026-07-02", "昨天", "前天", "上", "下", "个", "周", "周二", "月", "5月7日", "年", "2022年", "去年", "三", "前",
     "last", "next", "may", "May", "7", "7th", "week", "Tuesday", "ago", "two", "days", "in", "2022", "Q3", "to", "到",
     "-", ".", ",", " ", "\n", "999")
)  # fmt: skip
QUESTIONS = (
    st.text(max_size=60) | st.lists(WORDS, max_size=20).map("".join) | st.lists(WORDS, max_size=20).map(" ".join)
)
NOWS = st.datetimes(timezones=st.none() | st.just(timezone.utc) | st.just(ZoneInfo("Asia/Shanghai")))


class TestAnyText:
    @given(question=QUESTIONS, now=NOWS)
    @settings(max_examples=400)
    def test_intervals_are_forward_in_utc_and_each_comes_once(self, question: str, now: datetime) -> None:
        found = moments(question, now)
        assert all(start < end and start.tzinfo == end.tzinfo == timezone.utc for start, end in found)
        assert len(set(found)) == len(found) <= MAX_MOMENTS

    @given(when=st.dates(datetime(1900, 1, 1).date(), datetime(2199, 12, 30).date()))
    def test_every_day_written_out_is_found(self, when: object) -> None:
        stamp = datetime.fromisoformat(str(when)).replace(tzinfo=timezone.utc)
        for form in (
            f"{stamp:%Y-%m-%d}",
            f"{stamp.year}年{stamp.month}月{stamp.day}日",
            f"{stamp.day} {stamp:%B} {stamp.year}",
        ):
            assert moments(f"报告 {form}, please", NOW) == [(stamp, stamp + DAY)]

    @pytest.mark.parametrize(
        "unit", ["2026-07-02 ", "上周", "may ", "1,", "a few ", "一", "二〇二三年", "last ", "9", " ", "5月7日"]
    )
    def test_two_hundred_thousand_characters_take_linear_time(self, unit: str) -> None:
        text = (unit * 200_000)[:200_000]
        started = time.perf_counter()
        assert len(moments(text, NOW)) <= MAX_MOMENTS
        assert time.perf_counter() - started < 20.0

    def test_a_paste_full_of_dates_counts_for_its_first(self) -> None:
        text = " ".join(f"{NOW - i * DAY:%Y-%m-%d}" for i in range(100))
        assert named(text) == [day(f"{NOW - i * DAY:%Y-%m-%d}") for i in range(MAX_MOMENTS)]


def micros(*moments: datetime) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array([round(moment.timestamp() * 1_000_000) for moment in moments], dtype=np.int64)


class TestCloseness:
    ONE = (at("2026-07-02"), at("2026-07-03"))
    WEEK = (at("2026-06-29"), at("2026-07-06"))

    def test_it_is_one_inside_and_falls_to_zero_at_one_length(self) -> None:
        times = micros(*(at("2026-07-02") + timedelta(hours=h) for h in (-36, -24, -12, 0, 12, 30, 36, 48, 72)))
        assert closeness(times, [self.ONE]) == pytest.approx([0, 0, 0.5, 1, 1, 0.75, 0.5, 0, 0], abs=1e-9)
        week = closeness(micros(at("2026-06-22"), at("2026-06-25") + DAY / 2, at("2026-07-05")), [self.WEEK])
        assert week == pytest.approx([0, 0.5, 1])

    def test_the_end_lies_outside_and_is_as_near_as_can_be(self) -> None:
        [last, end] = closeness(micros(self.ONE[1] - timedelta(microseconds=1), self.ONE[1]), [self.ONE])
        assert last == 1.0 > end > 0.999999

    def test_what_is_shorter_than_a_day_reaches_a_day(self) -> None:
        morning = (at("2026-07-02T04:00"), at("2026-07-02T12:00"))
        assert closeness(micros(at("2026-07-03T00:00")), [morning])[0] == pytest.approx(0.5)

    def test_without_intervals_nothing_is_near(self) -> None:
        assert closeness(micros(NOW), []).tolist() == [0.0]
        assert closeness(micros(), [self.ONE]).shape == (0,)

    @given(
        times=st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(1_780_000_000_000_000, 1_790_000_000_000_000)),
        named=st.lists(
            st.tuples(NOWS.filter(lambda t: 1 < t.year < 9000), st.integers(1, 10**7)).map(
                lambda pair: (
                    pair[0].replace(tzinfo=timezone.utc),
                    pair[0].replace(tzinfo=timezone.utc) + pair[1] * DAY / 86_400,
                )
            ),
            max_size=4,
        ),
    )
    def test_it_lies_in_0_to_1_and_more_intervals_never_lower_it(
        self, times: list[int], named: Sequence[Interval]
    ) -> None:
        stamps = np.array(times, dtype=np.int64)
        found = closeness(stamps, named)
        assert found.dtype == np.float64
        assert ((found >= 0) & (found <= 1)).all()
        assert (closeness(stamps, [*named, self.ONE]) >= found).all()
        for start, end in named:
            inside = (stamps >= micros(start)[0]) & (stamps < micros(end)[0])
            assert (found[inside] == 1).all()

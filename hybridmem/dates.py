"""What times a question speaks of: dates in it, absolute and relative, in English, Chinese and both at once. Pure.

A question is read kind by kind, the most specific first; what one kind has read, whether it made sense or not, no
later kind sees. What could as well be a version, an id, an amount, a port, a time of day or a verb is left alone: a
date that is missed costs little, one that is imagined pulls wrong memories up.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, timedelta, timezone, tzinfo

import numpy as np
from numpy.typing import NDArray

from hybridmem import spans
from hybridmem.spans import Span

Interval = tuple[datetime, datetime]
_Match = re.Match[str]
_Reading = Callable[[_Match, datetime], "Span | list[Span]"]
_Found = tuple[int, int, list[Span]]

#: A text that names more times than this is a paste, not a question: the first ones count.
MAX_MOMENTS = 20
#: A bare number is taken for a year up to this many years ahead ("in 2022", but not "in 2048").
YEARS_AHEAD = 15

_MICROSECOND = timedelta(microseconds=1)
_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {0x3000: 0x20}
_SIMPLER = str.maketrans("週個禮這後號兩鐘過時間來", "周个礼这后号两钟过时间来")


def moments(question: str, now: datetime) -> list[Interval]:
    """The half-open intervals [from, to) that a question names, in UTC, in the order they are named, each once.

    A day without a year, a weekday alone ("on Friday", 周六) and a month alone ("in May", 五月) are the latest that has
    begun; "last Tuesday" is the latest before today, 上周二 that of last week. "7/2/2026" is read both ways. Two dates
    joined as from–to are one interval. At most :data:`MAX_MOMENTS`; the time taken grows with the length alone.

    :param now: days begin at midnight in its time zone; a naive one means UTC.
    """
    zone = now.tzinfo or timezone.utc
    text = re.sub(r"\s+", " ", question.translate(_FULL_WIDTH).translate(_SIMPLER))
    intervals: dict[Interval, None] = {}
    for start, end in _joined(sorted(_read(text, now.replace(tzinfo=None))), text):
        try:
            intervals[_in_utc(start, zone), _in_utc(end, zone)] = None
        except (ValueError, OverflowError):
            continue
        if len(intervals) == MAX_MOMENTS:
            break
    return list(intervals)


def closeness(times: NDArray[np.int64], intervals: Sequence[Interval]) -> NDArray[np.float64]:
    """How near each time lies to the nearest interval: 1 inside, falling evenly to 0 at one length of that interval
    (at least a day) outside of it. All 0 without intervals.

    :param times: microseconds since 1970 in UTC, shape (n,).
    :return: values in [0, 1], shape (n,).
    """
    at = np.asarray(times, dtype=np.float64)
    best = np.zeros(at.shape, dtype=np.float64)
    for start, end in intervals:
        first, last = _microseconds(start), _microseconds(end) - 1.0  # the end itself is outside
        outside = np.maximum(np.maximum(first - at, at - last), 0.0)
        np.maximum(best, 1.0 - outside / max(last + 1.0 - first, spans.DAY / _MICROSECOND), out=best)
    return best


def _microseconds(moment: datetime) -> float:
    return (moment - datetime(1970, 1, 1, tzinfo=timezone.utc)) / _MICROSECOND


def _in_utc(moment: datetime, zone: tzinfo) -> datetime:
    return moment.replace(tzinfo=zone).astimezone(timezone.utc)


def _read(text: str, now: datetime) -> list[_Found]:
    """(start, end, spans) of everything read, kind by kind."""
    found: list[_Found] = []
    for pattern, reading in _KINDS:

        def take(match: _Match, reading: _Reading = reading) -> str:
            try:
                got = reading(match, now)
            except (ValueError, OverflowError):  # no such day, or one outside of the calendar
                got = []
            if got:
                found.append((match.start(), match.end(), got if isinstance(got, list) else [got]))
            return "\0" * len(match.group())

        text = pattern.sub(take, text)
    return found


_JOINT = re.compile(r" ?(?:to|until|till|through|[-–—~到至]) ?", re.IGNORECASE)


def _joined(found: Sequence[_Found], text: str) -> Iterator[Span]:
    """The spans in order; two that stand as from–to become one."""
    i = 0
    while i < len(found):
        start, end, got = found[i]
        i += 1
        if i < len(found) and len(got) == len(found[i][2]) == 1:
            between, last = text[end : found[i][0]][:12], found[i][2][0]
            both = between == " and " and text[max(0, start - 8) : start].lower() == "between "
            if (both or _JOINT.fullmatch(between)) and got[0][0] < last[0]:
                yield got[0][0], last[1]
                i += 1
                continue
        yield from got


# Readings: m is the match, now the local time


def _numeric(m: _Match, now: datetime) -> Span | list[Span]:
    if m["mark"] == "." and len(m["month"] + m["day"]) < 4:
        return []  # as likely a version
    return spans.days(date(int(m["year"]), int(m["month"]), int(m["day"])))


def _both_ways(m: _Match, now: datetime) -> list[Span]:
    year, one, other = int(m["year"]), int(m["one"]), int(m["other"])
    pairs = {(month, day) for month, day in ((one, other), (other, one)) if month <= 12}
    return [spans.days(date(year, month, day)) for month, day in sorted(pairs)]


def _given_year(m: _Match, now: datetime) -> int | None:
    """The year of a match with the groups ``step`` (去年, "last") and ``year``; None if neither is there."""
    if m["step"]:
        return now.year + spans.STEP[m["step"].lower()]
    year = spans.number(m["year"]) if m["year"] else None
    if year is not None and not 1900 <= year < 2200:
        raise ValueError("not a year that anyone would mean")
    return year


def _chinese_date(m: _Match, now: datetime) -> Span:
    day = spans.number(m["day"]) if m["day"] else None
    return spans.date_in(_given_year(m, now), spans.number(m["month"]) or 0, day, now, m["part"])


_BEFORE_DAY = re.compile(r"\b(?:on|since|until|till|by|before|after|of|from|to|between|and|through) \Z", re.A | re.I)


def _english_date(m: _Match, now: datetime) -> Span | list[Span]:
    if not (m["ordinal"] or m["year"] or _is_month(m)):
        return []
    year = int(m["year"]) if m["year"] else None
    return spans.date_in(year, spans.MONTH[m["month"][:3].lower()], int(m["day"]), now)


def _is_month(m: _Match) -> bool:
    """May and March are words besides: they count after a preposition, or written large, unless as the first word of a
    sentence that goes on.
    """
    if m["month"].lower() not in ("may", "march", "mar"):
        return True
    before, after = m.string[max(0, m.start() - 9) : m.start()], m.string[m.end() : m.end() + 2]
    if _BEFORE_DAY.search(before):
        return True
    first = not re.search(r"[\w,;:)]\s*\Z", before, re.ASCII) and m.group().startswith(m["month"])
    return m["month"][0].isupper() and not (first and re.match(" [a-z]", after))


def _month_alone(m: _Match, now: datetime) -> Span | list[Span]:
    step, month = m["step"].lower(), spans.MONTH[m["month"][:3].lower()]
    if m["month"] in ("may", "march") and step in ("last", "this", "next", "early", "late", "mid", "mid-"):
        return []  # "this may be", "the last march"
    if step == "next":
        return spans.months(now.year + (month <= now.month), month)
    return spans.latest(now, lambda year: spans.months(year, month), ended=step == "last")


def _quarter(m: _Match, now: datetime) -> Span:
    which = int(m["quarter"]) if m["quarter"].isdigit() else spans.ORDINAL[m["quarter"].lower()]
    year = _given_year(m, now)
    if year is None:
        return spans.latest(now, lambda one: spans.quarter(one, which))
    return spans.quarter(year, which)


def _year(m: _Match, now: datetime) -> Span | list[Span]:
    year = _given_year(m, now)
    return spans.months(year, 1, 12) if year and year <= now.year + YEARS_AHEAD else []


def _day_of_week(m: _Match, now: datetime) -> Span:
    monday = spans.calendar("week", spans.STEP[m["step"].lower()], now)[0].date()
    if not m["day"]:
        return spans.days(monday, 7)
    if m["day"] == "末":
        return spans.days(monday + 5 * spans.DAY, 2)
    return spans.days(monday + spans.WEEKDAY[m["day"].lower()] * spans.DAY, part=m["part"])


def _day_of_month(m: _Match, now: datetime) -> Span:
    month = spans.calendar("month", spans.STEP[m["step"]], now)
    return spans.days(month[0].date().replace(day=spans.number(m["day"]) or 0), part=m["part"]) if m["day"] else month


def _weekday(m: _Match, now: datetime) -> Span:
    if m["day"] == "末":
        return spans.days(spans.weekday(5, now)[0].date(), 2)
    step = (m["step"] or "").lower()
    return spans.weekday(spans.WEEKDAY[m["day"].lower()], now, _WEEKDAY_STEP.get(step, step) or None, m["part"])


_WEEKDAY_STEP = {"past": "last", "this past": "last", "previous": "last", "coming": "next", "this coming": "next"}


def _day(m: _Match, now: datetime) -> Span:
    step = spans.DAY_STEP[re.sub("^the |(?<=[昨今明])[天日]$", "", m["day"].lower())]
    return spans.days(now.date() + step * spans.DAY, part=m["part"])


def _part_of_day(m: _Match, now: datetime) -> Span:
    return spans.days(now.date() - (m["step"].lower() == "last ") * spans.DAY, part=m["part"])


def _count(m: _Match) -> tuple[int | None, str]:
    unit = m["unit"].lower().removesuffix("s")
    if m["number"] == "半":
        return spans.HALF[unit]
    return spans.number(m["number"]), spans.UNIT.get(unit, unit)


def _unit(m: _Match, now: datetime) -> Span:
    unit, step = m["unit"].lower(), m["step"].lower()
    if step == "past" or unit == "hour":
        return spans.past(1, unit, now)
    return spans.calendar(spans.UNIT.get(unit, "quarter" if unit == "季度" else unit), spans.STEP[step], now)


# The kinds, the most specific first. Everything is bounded, so that no text takes more than linear time. \Z. matches
# nothing: it gives a kind the groups of its reading that it has no use for.

_START = r"(?<![A-Za-z0-9_/$¥€£#@+\-])(?<!\d[.,:])"
_END = r"(?![A-Za-z0-9_/%\-]|[.,:]\d)"
_CLOCK = r"(?:T\d\d:[0-9:.]{2,15}(?:Z|[+-]\d\d:?\d\d)?)?"
_Y = r"(?P<year>(?:19|20|21)\d\d)"
_MON = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_MONTH = r"(?P<month>january|february|march|april|may|june|july|august|september|october|november|december)"
_D = r"(?P<day>\d{1,2})(?P<ordinal>st|nd|rd|th)?"
_WEEKDAY = r"(?P<day>(?:mon|tues|wednes|thurs|fri|satur|sun)day)"
_UNIT = r"(?P<unit>minute|hour|day|week|month|year)"
_COUNT = (
    r"(?P<number>\d{1,3}|(?:a )?(?:few|couple of)|several|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven"
    r"|twelve)"
)
_PART = r"(?: (?P<part>morning|noon|afternoon|evening|night)\b)?"
_ZH_PART = r"(?:的? ?(?P<part>凌晨|早上|早晨|上午|中午|下午|晚上|夜里|[早晚]))?"
_ZH_N = r"\d{1,2}|[一二三四五六七八九十]{1,3}"
_ZH_YEAR = (
    r"(?:(?P<year>\d{4}|[〇零一二三四五六七八九]{4}) ?年 ?"
    r"|(?P<step>(?<![目以之三])前年|(?<![失过])去年|[今本明后]年)的? ?)"
)
# What 晚上, 以上, 日本 and the like end with is no 上 or 本.
_ZH_STEP = r"(?<![晚早天山以线日马])(?P<step>上上|下下|[上下这本])一?个?"
_ZH_WEEK = r"(?:周|星期|礼拜)"
_ZH_WEEKDAY = r"[一二三四五六末]|日(?![程志报期常均活记])|天(?![气空])"
_ZH_COUNT = (
    r"(?P<number>\d{1,3}|[一两二三四五六七八九十]{1,3}|[半几]) ?个?半?"
    r"(?P<unit>分钟|小时|钟头|天|周|星期|礼拜|(?<=个)月|(?<=个半)月|年)"
)


def _kind(pattern: str, reading: _Reading) -> tuple[re.Pattern[str], _Reading]:
    """ASCII, so that \\b stands between an English word and a Chinese one too."""
    return re.compile(pattern, re.ASCII | re.IGNORECASE), reading


_KINDS = (
    # 2026-07-02, 2026/7/2, 2026.07.02, 7/2/2026, 2026-07
    _kind(
        rf"{_START}(?<!version )(?<!版本){_Y}(?P<mark>[-/.])(?P<month>\d{{1,2}})(?P=mark)(?P<day>\d{{1,2}})"
        rf"{_CLOCK}{_END}",
        _numeric,
    ),
    _kind(rf"{_START}(?P<one>\d{{1,2}})/(?P<other>\d{{1,2}})/{_Y}{_END}", _both_ways),
    _kind(
        rf"{_START}{_Y}[-/](?P<month>0[1-9]|1[0-2]){_END}", lambda m, now: spans.months(int(m["year"]), int(m["month"]))
    ),
    # 2026年第三季度, Q3 2026, 2026 Q3, in Q3, the third quarter of 2026
    _kind(rf"{_ZH_YEAR}?第?(?P<quarter>[一二三四1-4])季度", _quarter),
    _kind(rf"{_START}{_Y}年?[ -]?(?P<step>\Z.)?Q(?P<quarter>[1-4]){_END}", _quarter),
    _kind(rf"\bQ(?P<quarter>[1-4])(?: of|,| in)? ?(?:{_Y}|(?P<step>last|this|next) year){_END}", _quarter),
    _kind(rf"\b(?:in|of|for|during|since) (?P<year>\Z.)?(?P<step>\Z.)?Q(?P<quarter>[1-4]){_END}", _quarter),
    _kind(
        r"\b(?P<quarter>first|second|third|fourth|1st|2nd|3rd|4th) quarter"
        rf"(?:,? (?:(?:of )?{_Y}|of (?P<step>last|this|next) year)|(?! of\b)){_END}",
        _quarter,
    ),
    # 2023年5月7日下午, 去年五月, 5月7日, 5月; 三天前, 半个月前, 前几天; 最近两周
    _kind(
        rf"(?<![\d.,第个]){_ZH_YEAR}?(?P<month>{_ZH_N}) ?月"
        rf"(?:份? ?(?P<day>{_ZH_N}) ?[日号]|份|(?![天内租薪嫂])){_ZH_PART}",
        _chinese_date,
    ),
    _kind(rf"{_ZH_YEAR}(?![代级龄度轻味])", _year),
    _kind(rf"(?<![\d.,第前]){_ZH_COUNT} ?(?:以|之)?前", lambda m, now: spans.ago(*_count(m), now)),
    _kind(r"前(?P<number>[几些])个?(?P<unit>天|周|月|年)", lambda m, now: spans.ago(None, spans.UNIT[m["unit"]], now)),
    _kind(rf"(?:最近|过去|(?<!附)近)[的这]?{_ZH_COUNT}(?!前)", lambda m, now: spans.past(*_count(m), now)),
    # 上周二, 下周, 上个月5号, 上季度; 周六; 昨天下午, 今早, 前天
    _kind(rf"{_ZH_STEP}{_ZH_WEEK}(?P<day>{_ZH_WEEKDAY})?(?![围边期密]){_ZH_PART}", _day_of_week),
    _kind(rf"{_ZH_STEP}月(?![亮色光饼台球])份?(?: ?(?P<day>{_ZH_N}) ?[号日]{_ZH_PART})?", _day_of_month),
    _kind(rf"{_ZH_STEP}(?P<unit>季度)", _unit),
    _kind(
        rf"(?P<step>\Z.)?(?<![每一两二三四五六七八九十几双单隔\d]){_ZH_WEEK}(?P<day>{_ZH_WEEKDAY}){_ZH_PART}", _weekday
    ),
    _kind(r"(?P<day>[昨今明])(?P<part>早上|早晨|早|晚上|晚|夜里|夜)", _day),
    _kind(
        rf"(?<![以之先然提当目声说证表])(?P<day>大前天|大后天|前天(?![天气])|后天(?![天气性])|[昨今明][天日]){_ZH_PART}",
        _day,
    ),
    # May 7th, 2023; 7 May 2023; May 2023; in May, last May; in 2022
    _kind(rf"\b{_MON}\.? (?:the )?{_D}(?:,? {_Y})?{_END}", _english_date),
    _kind(rf"{_START}{_D} ?(?:of )?{_MON}\b(?:\.?,? {_Y}{_END})?", _english_date),
    _kind(
        rf"\b{_MON}\.?,? (?:of )?{_Y}{_END}",
        lambda m, now: spans.months(int(m["year"]), spans.MONTH[m["month"][:3].lower()]),
    ),
    _kind(
        r"\b(?P<step>last|this|next|in|during|since|until|till|throughout|early|late|mid[- ]"
        rf"|(?:end|beginning|start|middle) of) ?\b{_MONTH}\b",
        _month_alone,
    ),
    _kind(
        r"\b(?P<step>\Z.)?(?:in|during|since|throughout|early|late|mid|year|(?:spring|summer|autumn|fall|winter)"
        rf"(?: of)?) {_Y}{_END}"
        r"(?! (?!was|is|has|does|this|as|us|vs)[a-z]+s\b| (?:kb|mb|gb|ms|km|m|kg|px|usd|rmb|yuan)\b)",
        _year,
    ),
    # last Tuesday, on Friday morning, Tuesday last week; three weeks ago; the last 3 days; last week, this year
    _kind(rf"\b(?P<part>\Z.)?{_WEEKDAY},?(?: of)?(?: the)? (?P<step>last|this|next) week\b", _day_of_week),
    _kind(rf"\b(?P<step>last|this|next) week(?:'s)?(?: on)? {_WEEKDAY}\b{_PART}", _day_of_week),
    _kind(rf"{_START}(?<!every )\b{_COUNT}[ -]{_UNIT}s? ago\b", lambda m, now: spans.ago(*_count(m), now)),
    _kind(rf"\b(?:last|past) {_COUNT} {_UNIT}s?\b", lambda m, now: spans.past(*_count(m), now)),
    _kind(r"\b(?P<unit>week|month|year) (?P<step>before last)\b", _unit),
    _kind(
        r"\b(?P<step>last|previous|this|current|next|coming|past) "
        r"(?P<unit>week|month|year|quarter|weekend|(?<=st )hour)\b(?! of\b)",
        _unit,
    ),
    _kind(r"\b(?P<step>this |last |to(?=night))(?P<part>morning|afternoon|evening|night)\b", _part_of_day),
    _kind(
        rf"\b(?P<day>(?:the )?day (?:before yesterday|after tomorrow)|yesterday|today|tomorrow)\b(?:'s)?{_PART}", _day
    ),
    _kind(
        r"(?<!every )(?<!each )(?<!black )(?<!good )(?<!ash )(?<!fat )\b"
        rf"(?:(?P<step>last|past|previous|this past|this coming|this|next|coming) )?{_WEEKDAY}\b{_PART}",
        _weekday,
    ),
)

"""The words of dates in English and Chinese, and the stretches of local time they mean. Pure; see hybridmem.dates.

A span is a half-open pair of local datetimes without a zone. Weeks begin on Monday. What lies outside of the calendar
raises ValueError or OverflowError.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time, timedelta

Span = tuple[datetime, datetime]

DAY = timedelta(days=1)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_TWELVE = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_FOURTH = ("first", "1st", "一", "second", "2nd", "二", "third", "3rd", "三", "fourth", "4th", "四")

MONTH = {name: number for number, name in enumerate(_MONTHS, 1)}
WEEKDAY = {
    **{name: i for i, name in enumerate(_WEEKDAYS)},
    **{name: i for i, name in enumerate("一二三四五六日")},
    "天": 6,
}
ORDINAL = {name: 1 + i // 3 for i, name in enumerate(_FOURTH)}
# Hours of the day; evenings and nights reach into the next morning.
PART = {
    **dict.fromkeys(("morning", "早上", "上午", "早晨", "早"), (4, 12)),
    **dict.fromkeys(("noon", "中午"), (11, 14)),
    **dict.fromkeys(("afternoon", "下午"), (12, 18)),
    **dict.fromkeys(("evening", "night", "晚上", "晚", "夜里", "夜"), (18, 28)),
    "凌晨": (0, 6),
}
DAY_STEP = {
    **{"day before yesterday": -2, "yesterday": -1, "today": 0, "tomorrow": 1, "day after tomorrow": 2},
    **{"大前天": -3, "前天": -2, "昨": -1, "今": 0, "明": 1, "后天": 2, "大后天": 3},
}
STEP = {
    **{"before last": -2, "last": -1, "previous": -1, "this": 0, "current": 0, "next": 1, "coming": 1},
    **{"上上": -2, "上": -1, "这": 0, "本": 0, "下": 1, "下下": 2},
    **{"前年": -2, "去年": -1, "今年": 0, "本年": 0, "明年": 1, "后年": 2},
}
UNIT = {
    **{"分钟": "minute", "小时": "hour", "钟头": "hour", "天": "day", "周": "week", "星期": "week", "礼拜": "week"},
    **{"月": "month", "年": "year"},
}
HALF = {"年": (6, "month"), "月": (15, "day"), "天": (12, "hour"), "小时": (30, "minute"), "钟头": (30, "minute")}
LENGTH = {"minute": DAY / 1440, "hour": DAY / 24, "day": DAY, "week": 7 * DAY, "month": 31 * DAY, "year": 366 * DAY}

_NUMBER = {
    **{name: i for i, name in enumerate(_TWELVE, 1)},
    **{"a": 1, "an": 1, "couple of": 2, "a couple of": 2},
}
_DIGIT = {name: i for i, name in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}


def number(word: str) -> int | None:
    """12, twelve, 十二; None for words that mean a few.

    :raises ValueError: a row of Chinese numerals that is no number.
    """
    word = word.lower()
    if word.isdigit() and word.isascii():
        return int(word)
    if word in _NUMBER:
        return _NUMBER[word]
    if not set(word) <= {*_DIGIT, "十"}:
        return None
    tens, ten, ones = word.partition("十")
    if not ten:
        return int("".join(str(_DIGIT[digit]) for digit in word))
    if len(tens) > 1 or len(ones) > 1 or ones == "十":
        raise ValueError(f"{word} is not a number below a hundred")
    return 10 * (_DIGIT[tens] if tens else 1) + (_DIGIT[ones] if ones else 0)


def days(first: date, count: int = 1, part: str | None = None) -> Span:
    """``count`` days, or a part of the first."""
    start = datetime.combine(first, time())
    if part:
        begin, finish = PART[part.lower()]
        return start + timedelta(hours=begin), start + timedelta(hours=finish)
    return start, start + count * DAY


def months(year: int, month: int, count: int = 1) -> Span:
    """``count`` months from this one on; the number of the month may lie outside of 1 to 12."""
    (year, month), (end_year, end_month) = (divmod(year * 12 + month - 1 + step, 12) for step in (0, count))
    return datetime(year, month + 1, 1), datetime(end_year, end_month + 1, 1)


def quarter(year: int, which: int) -> Span:
    return months(year, 3 * which - 2, 3)


def calendar(unit: str, step: int, now: datetime) -> Span:
    """The day, week, month … that lies ``step`` from the current one; an hour or a minute: around that moment."""
    if unit in ("hour", "minute"):
        return now + (step - 0.5) * LENGTH[unit], now + (step + 0.5) * LENGTH[unit]
    if unit == "day":
        return days(now.date() + step * DAY)
    if unit in ("week", "weekend"):
        monday = now.date() + (7 * step - now.weekday()) * DAY
        return days(monday, 7) if unit == "week" else days(monday + 5 * DAY, 2)
    if unit == "month":
        return months(now.year, now.month + step)
    if unit == "quarter":
        return quarter(now.year, (now.month - 1) // 3 + 1 + step)
    return months(now.year + step, 1, 12)


def date_in(year: int | None, month: int, day: int | None, now: datetime, part: str | None = None) -> Span:
    """A day, a part of one, or (``day`` None) a month; without a year the latest that has begun."""
    if not 1 <= month <= 12:
        raise ValueError(f"there is no month {month}")

    def make(in_year: int) -> Span:
        return months(in_year, month) if day is None else days(date(in_year, month, day), part=part)

    return latest(now, make) if year is None else make(year)


def latest(now: datetime, make: Callable[[int], Span], *, ended: bool = False) -> Span:
    """Of one span a year the latest that has begun, or has ``ended``."""
    for year in range(now.year, now.year - 9, -1):  # 29 February comes every fourth or eighth year
        try:
            span = make(year)
        except ValueError:
            continue
        if span[ended] <= now:
            return span
    raise ValueError("no year has such a day")


def weekday(day: int, now: datetime, step: str | None = None, part: str | None = None) -> Span:
    """``step`` last: before today; this: of this week; next: after today; None: the latest, today included."""
    back = (now.weekday() - day) % 7
    if step == "last":
        back = back or 7
    elif step == "next":
        back -= 7
    elif step == "this":
        back = now.weekday() - day
    return days(now.date() - back * DAY, part=part)


def past(count: int | None, unit: str, now: datetime) -> Span:
    """From ``count`` units ago (None: a few, seven) until now; days and longer units count from their midnight."""
    start = now - (7 if count is None else count) * LENGTH[unit]
    return (start if unit in ("hour", "minute") else datetime.combine(start.date(), time())), now


def ago(count: int | None, unit: str, now: datetime) -> Span:
    """``count`` units ago; None is a few, two to seven of them."""
    if count is None:
        return calendar(unit, -7, now)[0], calendar(unit, -2, now)[1]
    return calendar(unit, -count, now)

"""What must not get lost when a text is made shorter: details that cannot be made up again. Pure.

A detail is a code, number with its unit, amount, date, version, path, address, command or name of a thing. Sentences
are judged by the details in them and by what they announce: a decision, a wish, a rule, a cause, a change. The words
are general ones, in Chinese and English; nothing is learned, and no grammar is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hybridmem.corrections import announces

_UNITS = (
    "ms|milliseconds?|seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|weeks?|months?|years?|percent|per cent|kb|mb|gb"
    "|tb|kib|mib|gib|tib|bytes?|hz|khz|mhz|ghz|kg|g|mg|km|cm|mm|m|l|ml|w|kw|kwh|v|°c|°f|℃|px|rpm|qps|rps|tps|dollars?|euros?"
    "|pounds?|yuan|rmb|usd|eur|gbp|cny|jpy|seats?|nodes?|replicas?|machines?|cores?|people|rows?|requests?|times"
    "|points?"
)
_CHINESE_UNITS = (
    "毫秒|秒|分钟|小时|天|周|个月|月|年|元|万元|亿元|块|万|亿|美元|欧元|人|个|台|次|条|行|页|份|张|件|号|米|公里|千米|厘米"
    "|毫米|公斤|千克|克|吨|升|度|倍|折|成|期|节点|字节|核|岁|楼|层|单|票|席|副本"
)
_NUMBER = r"\d{1,3}(?:[,，]\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
_MONTHS = (
    "jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    "|nov(?:ember)?|dec(?:ember)?"
)
_FLAGS = re.ASCII | re.IGNORECASE
#: The kinds of details, the most telling first. Bounded, so that no text takes more than linear time.
_DETAILS = (
    ("command", re.compile(r"`[^`\n]{2,300}`|(?:^|(?<=[\s：:，,]))\$ \S[^\n]{0,200}", _FLAGS)),
    (
        "address",
        re.compile(
            r"\b[a-z][a-z0-9+.-]{1,10}://[^\s，。；、）)\"'<>]{1,300}|[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}",
            _FLAGS,
        ),
    ),
    (
        "path",
        re.compile(
            r"(?<![\w/])(?:~|\.{1,2}|[A-Za-z]:)?(?:[/\\][\w.@+-]{1,80}){2,20}/?|(?<![\w./])[\w-]{1,60}(?:/[\w.-]{1,60}){1,10}"
            r"\.[a-z]{1,5}\b|(?<![\w./])[\w-]{1,60}\.(?:py|js|ts|go|rs|java|c|h|cpp|sh|sql|md|txt|json|ya?ml|toml|ini|cfg"
            r"|conf|log|csv|xlsx?|docx?|pdf|png|jpe?g|html?|css|xml|env|lock|db|service)\b",
            _FLAGS,
        ),
    ),
    (
        "date",
        re.compile(
            r"(?<![\w-])(?:19|20|21)\d\d(?:-\d{1,2}-\d{1,2}|/\d{1,2}/\d{1,2}|\.\d{1,2}\.\d{1,2})(?![\w-])"
            r"|\b\d{1,2}/\d{1,2}/(?:19|20|21)\d\d\b"
            rf"|\b(?:{_MONTHS})\.? \d{{1,2}}(?:st|nd|rd|th)?\b(?:,? \d{{4}}\b)?"
            rf"|\b\d{{1,2}}(?:st|nd|rd|th)?(?: of)? (?:{_MONTHS})\b(?:,? \d{{4}}\b)?"
            r"|(?:\d{4} ?年 ?)?(?:\d{1,2}|[一二三四五六七八九十]{1,3}) ?月 ?"
            r"(?:\d{1,2}|[一二三四五六七八九十]{1,3}) ?[日号]"
            r"|\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b|(?:周|星期|礼拜)[一二三四五六日天末]",
            _FLAGS,
        ),
    ),
    (
        "code",
        re.compile(
            # Letters and digits in one, or capitals joined by marks: INV-20431, v2.3.1, ERR_CONN, p99, order-7f3a.
            r"(?<![\w-])(?=[\w.-]{0,40}\d)(?=[\w.-]{0,40}[a-z])[a-z0-9]+(?:[._-][a-z0-9]+){0,8}(?![\w-])"
            r"|(?<![\w-])\d+(?:\.\d+){2,4}(?![\w-])|(?<![\w-])\d{6,}(?![\w-])",
            _FLAGS,
        ),
    ),
    ("constant", re.compile(r"(?<![\w-])[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?!\w)", re.ASCII)),
    ("name", re.compile(r"(?<![\w-])[a-z]{2,}(?:[_-][a-z0-9]{2,})+(?![\w-])|\b[a-z]+[A-Z]\w+", re.ASCII)),
    ("version", re.compile(r"(?<![\w.-])[A-Z]\w{1,30} \d+(?:\.\d+){0,3}(?![\w-]|\.\d)", re.ASCII)),
    ("amount", re.compile(rf"[$¥€£￥] ?(?:{_NUMBER})|\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?", _FLAGS)),
    (
        "measure",
        re.compile(
            rf"(?<![\w.:-])(?:{_NUMBER}) ?(?:%|％|(?:{_UNITS})(?![a-z])|(?:{_CHINESE_UNITS}))"
            r"|[零一二两三四五六七八九十百千半几]{1,6}(?:个月|小时|分钟|天|周|年|元|万|次|台|成|折|倍|期)",
            _FLAGS,
        ),
    ),
)  # fmt: skip
_CLOCK = re.compile(r"(?<![\d:])\d{1,2}:\d\d(?::\d\d)?(?![\d:])")

_RULE = re.compile(
    r"\b(?:must|mustn't|never|do not|don't|forbidden|not allowed|prohibited|make sure|important)\b"
    r"|必须|务必|切勿|严禁|禁止|不得|不许|不准|不要|不允许|绝不|从不|重要|别(?=[用再去动在把给跟])",
    re.IGNORECASE,
)
_LIMIT = re.compile(
    r"\b(?:always|does not|doesn't|cannot|can't|may not|should not|shouldn't|only|required?|no longer|without|except"
    r"|avoid|refuse[sd]?)\b"
    r"|不能|不可|不支持|不用|不再|不吃|不坐|只能|只有|只许|仅限|一律|除非|除了|避免|无需",
    re.IGNORECASE,
)
_DECISION = re.compile(
    r"\b(?:decid(?:e|ed|es|ing)|decision|agreed|settled|chose|chosen|choose|picked|approved|rejected|opted|concluded"
    r"|conclusion|go(?:ing)? with|resolved|signed off|final)\b"
    r"|决定|定了|定为|定在|商定|约定|拍板|选定|选用|采用|选择了|同意|批准|否决|通过了|结论是|最终|确定|敲定",
    re.IGNORECASE,
)
_WISH = re.compile(
    r"\b(?:prefer(?:s|red|ence)?|likes?|dislikes?|hates?|loves?|favou?rite|wants?|would rather|allergic|allergy)\b"
    r"|喜欢|偏好|偏爱|习惯|爱吃|爱用|讨厌|希望|想要|更愿意|过敏|忌口|优先",
    re.IGNORECASE,
)
_CAUSE = re.compile(
    r"\b(?:because|cause[sd]?|causing|due to|reason|root cause|owing to|fail(?:s|ed|ure|ing)?|errors?|crash(?:ed|es)?"
    r"|broken?|bugs?|problems?|blocked|rejected|refused|denied|missing|dispute[sd]?|complain(?:s|ed|t)?|report(?:s|ed)?|found"
    r"|fixed|solved|sent back|returned|lost|leak(?:s|ed)?|expired|corrupt(?:ed)?|turns? out|result(?:ed|s)?)\b"
    r"|原因|因为|由于|导致|造成|所致|失败|报错|错误|出错|崩溃|故障|问题|缺少|缺陷|退回|驳回|拒绝|争议|投诉|反映|发现|查明|修复"
    r"|解决|丢失|过期|泄漏|损坏|结果是",
    re.IGNORECASE,
)
#: What says of itself that nothing came of it.
_IDLE = re.compile(
    r"\b(?:no(?:body|t yet)? (?:answer(?:ed|s)?|repl(?:y|ied)|result|news|update|response|change)"
    r"|nothing (?:new|yet|to report)"
    r"|no one answered|still waiting|waiting for|will try again|try(?:ing)? again later|later|working on it|in progress"
    r"|ok(?:ay)?,? (?:thanks?|got it)|thank(?:s| you)|hello|hi there|good morning|unread|meanwhile)\b"
    r"|没人接|无人接听|没有结论|没有结果|没有进展|没有回复|没回复|未回复|暂无|等待|还在等|等.{1,8}回复|稍后|晚点|再试|正在处理|处理中"
    r"|未读|收到[，。！]|好的[，。！]|谢谢|你好|早上好",
    re.IGNORECASE,
)
#: What each sign is worth.
_SIGNS = ((_RULE, 2.5), (_LIMIT, 2.0), (_DECISION, 3.0), (_WISH, 3.0), (_CAUSE, 2.5))
_CHANGE = 2.5
#: Of the first detail, by whether a count with its unit is all there is; of each further one; of all together.
_FIRST_DETAIL, _FIRST_MEASURE, _NEXT_DETAIL, _MOST_DETAILS = 2.5, 1.5, 0.5, 3.5
_IDLENESS = -4.0


def details(text: str) -> frozenset[str]:
    """The details of a text as they stand in it, blanks and case apart: what two texts can be compared by."""
    return frozenset("".join(found.split()).casefold().strip("`") for _, found in _found(text))


def worth(text: str) -> float:
    """How much would be lost with a sentence: 0 for one that announces nothing and has no details, below that for one
    that says that nothing came of it; a sign counts 2 to 3, the first detail 2.5 (1.5 where there are only counts with
    their units), each further one 0.5, to 3.5 in all."""
    score = sum(value for sign, value in _SIGNS if sign.search(text))
    if announces(text):
        score += _CHANGE
    found = {(kind, words) for kind, words in _found(text) if kind != "name"}
    if found:
        first = _FIRST_MEASURE if all(kind == "measure" for kind, _ in found) else _FIRST_DETAIL
        score += min(first + _NEXT_DETAIL * (len(found) - 1), _MOST_DETAILS)
    return score + (_IDLENESS if _IDLE.search(text) else 0.0)


def shape(text: str) -> str:
    """A sentence without its numbers: lines that a program or a habit writes over and over have the same one."""
    return re.sub(r"\s+", " ", re.sub(r"\d+", "0", text)).strip().casefold()


def _found(text: str) -> Iterator[tuple[str, str]]:
    """(kind, words) of every detail; what one kind has taken is not looked at for the next."""
    left = _CLOCK.sub(lambda match: "\0" * len(match.group()), text)
    for kind, pattern in _DETAILS:
        taken = [match.span() for match in pattern.finditer(left) if match.group().strip()]
        for start, end in taken:
            yield kind, text[start:end]
            left = left[:start] + "\0" * (end - start) + left[end:]

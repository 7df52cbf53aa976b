"""What makes a text say one thing and no other: numbers, codes, paths, names, negations. Pure; English and Chinese.

Two contents that read alike and differ in one of these are two memories: one digit can be the whole difference. So what
is read here errs on the side of seeing a difference: a capitalised word counts as a name wherever it stands, and so do
a Chinese surname and what follows it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache

from hybridmem.text import normalized, query_terms, terms

#: Characters of a content that are read; whatever differs behind them is left to the comparison of the words.
LONGEST = 20_000

#: What a number counts; another word behind it is left to the comparison of the words.
_UNIT = (
    r"%|(?:percent|am|pm|ms|s|secs?|seconds?|mins?|minutes?|h|hrs?|hours?|days?|weeks?|months?|quarters?|years?|mm|cm|km|m"
    r"|kg|g|[kmgt]i?b|usd|eur|cny|rmb|dollars?|euros?|yuan|times|x)\b|[年月日天周时点分秒号元块角万亿千百次个人名台件条份楼层米里克斤吨度岁倍折页级轮]"
)
_NUMBER = re.compile(rf"(?<![A-Za-z_0-9.])[-+]?\d[\d,]*(?:\.\d+)?(?:\s?(?:{_UNIT}))?", re.IGNORECASE)
_CODE = re.compile(
    r"https?://\S+|[\w.+-]+@[\w-]+\.[\w.-]+"  # addresses
    r"|(?<![\w/])(?:~|\.{1,2})?/[\w.@+-]+(?:/[\w.@+-]+)*|\b[A-Za-z]:\\[\w.\\-]+"  # paths
    r"|\b[A-Za-z_]\w*(?:::|\.|/)[A-Za-z_][\w./]*\b"  # dotted and nested names: os.path, src/main.py
    r"|`[^`\n]{1,200}`|(?<!\w)--?[a-z][\w-]+"  # quoted code, options
    r"|\bv\d+(?:\.\d+)*\b|\b\d+(?:\.\d+){2,}\b"  # versions and addresses
    r"|\b(?=\w*\d)(?=\w*[A-Za-z_])[A-Za-z0-9_]+(?:-[A-Za-z0-9_]+)*\b"  # letters with digits
    r"|\b[A-Za-z]+(?:_[A-Za-z0-9]+)+\b|\b[a-z]+(?:[A-Z][a-z0-9]+)+\b",  # snake_case, camelCase
    re.ASCII,
)
_CAPITALISED = re.compile(r"\b[A-Z][A-Za-z'’]*\b")
_SENTENCE_START = re.compile(r"(?:^|[.!?。！？:：\n\"“])[\s\"“'(\[*#>-]*$")
_QUOTED = re.compile(r"「([^」\n]{1,60})」|《([^》\n]{1,60})》|“([^”\n]{1,60})”|\"([^\"\n]{1,60})\"|(?<!\w)@(\w{2,40})")
_SURNAMES = frozenset(
    "王李张刘陈杨黄赵吴周徐孙马朱胡郭何林罗郑梁谢宋唐许韩冯邓曹彭曾肖萧田董袁潘于蒋蔡余杜叶程苏魏吕丁任沈姚卢姜崔钟谭陆"
    "汪范金石廖贾夏韦付傅方白邹孟熊秦邱江尹薛闫段雷侯龙史陶黎贺顾毛郝龚邵万钱严覃武戴莫孔向汤張劉陳楊黃趙吳孫馬"
)
_TITLED = re.compile(
    r"(?:我叫|名叫|叫做|用户|客户|同事|联系人|负责人|姓名[是为:：]?)\s?([\u4e00-\u9fff]{2,3})(?![\u4e00-\u9fff])"
    r"|([\u4e00-\u9fff]{1,2})(?:先生|女士|小姐|经理|老师|总监|医生|教授|主任|律师|工程师)"
)
_CHINESE_NUMBER = re.compile(
    r"[零〇一二两三四五六七八九十百千万亿]+[年月日天周时点分秒号元块次个人名台件条份楼层倍折页级轮]?|半[年月天]"
)
#: Words in which a numeral is none.
_NO_NUMERALS = re.compile(
    "一起|一下|一些|一定|一样|一般|一直|一旦|一边|一方面|一致|一切|一路|统一|唯一|万一|第一时间|千万别|千万不|千万要|十分|"
    "进一步|一并|一律|一共|同一|之一|任一|逐一|三思|百分之"
)
_NUMBER_WORDS = """
    one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen
    nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million billion dozen half once
    twice double triple first second third fourth fifth
"""
_ENGLISH_NUMBERS = frozenset(_NUMBER_WORDS.split())
_NOT_ENGLISH = re.compile(
    r"\b(?:not|no|never|none|nobody|nothing|nor|neither|without|cannot|cant|dont|wont|isnt|didnt|fails?|failed|refuse[sd]?"
    r"|denied|forbid(?:den)?|unable|stop(?:ped)?|avoid|except|unless|hardly|false)\b|n['’]t\b|\b(?:un|non)-?(?=[a-z]{4})"
)
_NOT_CHINESE = re.compile(r"[不没沒无無未别別勿莫]|禁止|拒绝|避免|取消|除了|并非|而非|失败")
#: Words in which such a character says nothing of the kind, and questions that leave it open.
_NO_NEGATIONS = re.compile(
    "不过|不但|不仅|不管|不论|不断|不久|不错|无论|特别|分别|区别|级别|类别|性别|别人|别的|未来|是不是|有没有|能不能|要不要|会不会|差不多|只不过"
)
_OPPOSITE_WORDS = """
    approv accept agre | reject declin disagre
    enabl activ | disabl deactiv
    increas rais | decreas reduc lower
    before | after
    open | clos
    start begin | end finish stop
    left | right
    morn am | afternoon even pm
    old | new
    add | remov delet
    allow permit | forbid deni block
    north | south
    east | west
    on | off
    up | down
    buy | sell
    true | false
    success succeed pass | fail failur
    more | less fewer
    minimum min | maximum max
    like love enjoy | dislik hate
    cheap | expens
    import | export
    同意 批准 通过 | 驳回 退回 拒绝 否决
    增加 提高 上调 | 减少 降低 下调
    开启 启用 打开 | 关闭 停用 禁用
    允许 | 禁止
    上午 早上 | 下午 晚上
    之前 以前 | 之后 以后
    左边 左侧 | 右边 右侧
    收入 | 支出
    买入 买进 | 卖出 卖掉
    成功 | 失败
    最大 最多 最高 | 最小 最少 最低
    喜欢 | 讨厌
    新版 新的 | 旧版 旧的
    男 | 女
    南 | 北
    东 | 西
    进口 | 出口
"""
#: Of each line the words on the two sides mean opposite things, though texts with them are alike otherwise.
_OPPOSITES = tuple(
    tuple(frozenset(side.split()) for side in line.split("|")) for line in _OPPOSITE_WORDS.strip().splitlines()
)


#: By word, on which side of which lines it stands.
_SIDES: dict[str, list[tuple[int, int]]] = {}
for _line, _pair in enumerate(_OPPOSITES):
    for _side, _words in enumerate(_pair):
        for _word in _words:
            _SIDES.setdefault(_word, []).append((_line, _side))


@dataclass(frozen=True, slots=True)
class Specifics:
    """What a text has of each kind, in a form that can be compared. Repeats count once, but negations each.

    ``numbers`` come with the word or character after them (``3 days`` is not ``3 weeks``), without thousands commas;
    ``names`` are casefolded.
    """

    numbers: frozenset[str]
    codes: frozenset[str]
    names: frozenset[str]
    negations: int


def specifics(content: str) -> Specifics:
    """Of at most the first :data:`LONGEST` characters of a content."""
    text = normalized(content[:LONGEST])
    codes = frozenset(match.group().strip(".,;:`") for match in _CODE.finditer(text))
    plain = _CODE.sub(" ", text)
    return Specifics(numbers=frozenset(_numbers(plain)), codes=codes, names=_names(plain), negations=negations(content))


def negations(content: str) -> int:
    """How many words or characters of a content deny something."""
    text = normalized(content[:LONGEST]).lower()
    return len(_NOT_ENGLISH.findall(text)) + len(_NOT_CHINESE.findall(_NO_NEGATIONS.sub("", text)))


class Comparer:
    """Says in what contents differ that makes them two. Keeps what it has read of each as long as it lives."""

    def __init__(self) -> None:
        self._specifics: dict[str, Specifics] = {}
        self._sides: dict[str, frozenset[tuple[int, int]]] = {}

    def differences(self, one: str, other: str) -> tuple[str, ...]:
        """``"number: 4711 / 4712"``, ``"negation: 1 / 0"`` and so on, one for each kind; empty: in none of these."""
        a, b = self._of(one), self._of(other)
        found = [
            _told(kind, first - second, second - first)
            for kind, first, second in (("number", a.numbers, b.numbers), ("code", a.codes, b.codes))
            if first != second
        ]
        first, second = _only(a.names - b.names, other), _only(b.names - a.names, one)
        if first or second:
            found.append(_told("name", first, second))
        elif not found and (swapped := _chinese_names(one, other)):
            found.append(f"name: {swapped}")
        if a.negations != b.negations:
            found.append(f"negation: {a.negations} / {b.negations}")
        return (*found, *self._opposites(one, other))

    def _of(self, content: str) -> Specifics:
        if content not in self._specifics:
            self._specifics[content] = specifics(content)
        return self._specifics[content]

    def _opposites(self, one: str, other: str) -> list[str]:
        """A pair of opposites of which each content has one side only, and not the same."""
        first, second = self._sides_of(one), self._sides_of(other)
        for line, side in first - second:
            there = (line, 1 - side)
            if there in second and there not in first:
                left, right = (" ".join(sorted(_OPPOSITES[line][which])) for which in (side, 1 - side))
                return [f"opposite: {left} / {right}"]
        return []

    def _sides_of(self, content: str) -> frozenset[tuple[int, int]]:
        if content not in self._sides:
            text = content[:LONGEST]
            words = {*terms(text), *re.findall(r"[a-z]+", text.lower())}  # the index leaves out before and after
            self._sides[content] = frozenset(side for word in words for side in _SIDES.get(word, ()))
        return self._sides[content]


def differences(one: str, other: str) -> tuple[str, ...]:
    """Of two contents, see :class:`Comparer`."""
    return Comparer().differences(one, other)


def _numbers(text: str) -> list[str]:
    found = []
    for match in _NUMBER.finditer(text):
        token = re.sub(r"[,\s]", "", match.group()).lower()
        token = re.sub(r"\.(\d*?)0+(?=\D|$)", lambda m: f".{m[1]}" if m[1] else "", token)  # 3500.00 is 3500
        found.append(token.removesuffix("s") if token[-2:-1].isalpha() else token)  # 1 day, 2 days
    words = re.findall(r"[a-z]+", text.lower())
    found += [word for word in words if word in _ENGLISH_NUMBERS]
    found += [match.group() for match in _CHINESE_NUMBER.finditer(_NO_NUMERALS.sub(" ", text))]
    return found


def _names(text: str) -> frozenset[str]:
    found = {next(part for part in match.groups() if part).casefold() for match in _QUOTED.finditer(text)}
    found |= {(match.group(1) or match.group(2)) for match in _TITLED.finditer(text)}
    for match in _CAPITALISED.finditer(text):
        word = match.group().casefold().replace("’", "'").removesuffix("'s")
        if len(word) > 1 and not _is_function_word(word):
            found.add(word)
    return frozenset(found)


def named_inside(content: str) -> frozenset[str]:
    """Names alone that are no mere first words of a sentence: how much a text says of somebody or something."""
    text = normalized(content[:LONGEST])
    plain = _CODE.sub(" ", text)
    first = {
        match.group().casefold()
        for match in _CAPITALISED.finditer(plain)
        if _SENTENCE_START.search(plain[max(0, match.start() - 8) : match.start()])
    }
    return frozenset(name for name in _names(plain) if name not in first)


@lru_cache(maxsize=4096)
def _is_function_word(word: str) -> bool:
    # Among other words, as a text of stop words alone keeps them.
    return query_terms(f"zzz {word}") == ["zzz"]


def _only(names: frozenset[str], other: str) -> frozenset[str]:
    """The names that the other text does not have in any case at all."""
    text = normalized(other[:LONGEST]).casefold()
    return frozenset(name for name in names if name not in text)


def _chinese_names(one: str, other: str) -> str:
    """The stretch where two texts differ that may be a name: with a surname in it or up to two characters before."""
    a, b = (re.sub(r"\s+", "", normalized(text[:LONGEST])) for text in (one, other))
    if len(a) > 600 or len(b) > 600:  # the comparison takes quadratic time
        return ""
    for tag, i, j, k, m in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if tag == "equal" or not (_may_be_name(a, i, j) or _may_be_name(b, k, m)):
            continue
        return f"{a[max(0, i - 2) : j] or '-'} / {b[max(0, k - 2) : m] or '-'}"
    return ""


def _may_be_name(text: str, start: int, end: int) -> bool:
    if end - start > 4 or not any("\u4e00" <= char <= "\u9fff" for char in text[start:end]):
        return False
    return any(char in _SURNAMES for char in text[max(0, start - 2) : end])


def _told(kind: str, first: frozenset[str], second: frozenset[str]) -> str:
    return f"{kind}: {', '.join(sorted(first)[:3]) or '-'} / {', '.join(sorted(second)[:3]) or '-'}"

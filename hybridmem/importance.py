"""How much a memory matters, without a language model: rules that shift the default of its type. Pure.

::

    shift      = clip(EXPLICIT·explicit + SPECIFIC·specific + NOVEL·(2·novelty - 1) - SHORT·shortness, -MOST, MOST)
    importance = default + shift·(1 - default)   if shift ≥ 0
                 default + shift·default         otherwise

Every signal lies in [0, 1], but ``explicit`` in [-1, 1]. So the result lies in [0, 1], never leaves it by clipping, is
monotone in each signal and in the default, and a memory of an important type stays above one of a lesser type that
reads the same. The constants are chosen so that one explicit word outweighs any of the other rules, and all rules
together move a default by three fifths of the way to either end at most; they are no measurement.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from hybridmem.specifics import named_inside, specifics
from hybridmem.text import normalized, terms

#: Share of the way to 1 that words such as "remember" and 重要 go; to 0, where they are denied ("not important").
EXPLICIT = 0.4
#: Share for numbers, codes or paths, and names, at SPECIFICS_FULL of them or more.
SPECIFIC = 0.15
#: Share for a content of terms that nothing around it has; as much downwards if it has none of its own.
NOVEL = 0.15
#: Share downwards for a content of no length at all, falling evenly to nothing at LENGTH_FULL terms.
SHORT = 0.25
#: How far all rules together shift at most, in (0, 1).
MOST = 0.6
#: Numbers, codes and names after which more of them say no more.
SPECIFICS_FULL = 3
#: Terms of a content that is no longer short. "好的，谢谢" has 5 (unigrams and bigrams), "ok, thanks a lot" 3.
LENGTH_FULL = 8
#: Characters that are read: whoever says that something matters says so early.
OPENING = 4000

_ENGLISH = re.compile(
    r"\b(?:important(?:ly)?|crucial(?:ly)?|critical(?:ly)?|essential|vital|urgent(?:ly)?|must(?:n't)?|always|never|remember"
    r"|(?:do not|don't|never) forget|required?|mandatory|make sure|ensure|under no circumstances|at all costs|deadline"
    r"|do not|don't|forbidden|not allowed|prohibited|prefers?|preferred|favou?rite|allergic|attention|caution|warning"
    r"|decided|agreed|key point|top priority|high priority)\b"
)
_CHINESE = re.compile(
    "重要|关键|必须|务必|一定要|千万|切记|切勿|记住|记得|牢记|别忘|不要|不能|不得|不准|不许|禁止|严禁|绝不|绝对|永远|始终|总是|"
    "从不|从来不|紧急|注意|警告|截止|偏好|偏爱|更喜欢|最喜欢|过敏|决定|确定|同意|优先|要求|首要|原则"
)
#: What takes such a word back; it is looked for first, and what it covers counts no further.
_DENIED_ENGLISH = re.compile(
    r"\b(?:(?:not|n't|isn't|hardly|nothing|less|un)[ -]*(?:\w+ ){0,2}?(?:important|crucial|critical|essential|vital"
    r"|urgent|required|mandatory|decided)|unimportant"
    r"|(?:no need to|need not|needn't|don't have to|don't need to)(?: \w+)?|doesn't matter|does not matter|never ?mind"
    r"|don't worry|do not worry|forget (?:it|about it|that)|low priority|ignore (?:this|that|it)"
    r"|just (?:kidding|testing))\b"
)
_DENIED_CHINESE = re.compile(
    "(?:不|没|没有|并不|不太|不是很|不怎么)(?:重要|关键|紧急|要紧|打紧)|无关紧要|(?:不必|没必要|不用(?!了)|无需)[\u4e00-\u9fff]{0,2}|无所谓|没关系|没事|不要紧|不要担心|不要紧张|"
    "算了|随便|忽略|忘了(?:它|吧)|开玩笑|只是测试|未决定|没决定|还没定|不确定"
)


@dataclass(frozen=True, slots=True)
class Signals:
    """What the rules look at. ``explicit`` in [-1, 1]: words that say so, or deny it; ``specific`` in [0, 1]: numbers,
    codes, names; ``shortness`` in [0, 1]: 1 for an empty content; ``novelty`` in [0, 1]: see :func:`novelty`."""

    explicit: float
    specific: float
    shortness: float
    novelty: float


class RuleEstimator:
    """The estimator of ``weights.importance_estimator: rules``; see hybridmem.ports.ImportanceEstimator."""

    def importance(self, content: str, *, type: str, default: float, novelty: float) -> float:
        return combined(default, signals(content, novelty))


def signals(content: str, novelty: float) -> Signals:
    """The signals of a content, from its first :data:`OPENING` characters."""
    text = content[:OPENING]
    found = specifics(text)
    count = len(found.numbers) + len(found.codes) + len(named_inside(text))
    return Signals(
        explicit=explicit(text),
        specific=min(count / SPECIFICS_FULL, 1.0),
        shortness=max(0.0, 1.0 - len(terms(text)) / LENGTH_FULL),
        novelty=novelty,
    )


def combined(default: float, given: Signals) -> float:
    """The importance in [0, 1] that signals make of the default of a type, in [0, 1]; the formula is at the top."""
    shift = (
        EXPLICIT * given.explicit
        + SPECIFIC * given.specific
        + NOVEL * (2.0 * given.novelty - 1.0)
        - SHORT * given.shortness
    )
    shift = min(max(shift, -MOST), MOST)
    return default + shift * (1.0 - default if shift >= 0.0 else default)


def explicit(text: str) -> float:
    """In [-1, 1]: 1 for two words or more that say that something matters, 1/2 for one; below 0 for words that deny it,
    each of which counts against one of the others."""
    plain = normalized(text).casefold().replace("’", "'")
    said = taken_back = 0
    for denied, words in ((_DENIED_ENGLISH, _ENGLISH), (_DENIED_CHINESE, _CHINESE)):
        plain, number = denied.subn(" \n ", plain)
        taken_back += number
        said += len(words.findall(plain))
    return min(max((said - taken_back) / 2.0, -1.0), 1.0)


def novelty(own: Collection[str], known: Collection[str]) -> float:
    """The share in [0, 1] of a content's lexical terms that what surrounds it does not have; 1/2, which shifts nothing,
    where there is nothing to compare.

    :param own: the terms of the content. :param known: those of the task and of what was written there last.
    """
    mine = set(own)
    if not mine or not known:
        return 0.5
    return len(mine.difference(known)) / len(mine)

"""Which turns say more than that something happened: the default Extractor, by explicit words. Pure.

Only what users and assistants say is looked at, sentence by sentence, and no questions. A sentence that names a
decision, a preference or a fact to be kept is stored as that, beside the turn it is from; whatever says so in other
words stays an event, which is found all the same. For more, give observe() an extractor of your own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from hybridmem.ports import Extract, Turn
from hybridmem.speakers import ANSWERERS, ASKERS

#: Characters of a sentence that is still one statement.
LONGEST = 400
#: Characters of a turn that somebody may have said; what is longer is a paste or a page.
LONGEST_TURN = 2000

_SENTENCE = re.compile(r"[^.!?。！？；;\n]+(?:[.](?=\S)[^.!?。！？；;\n]*)*[.!?。！？；;]?")
_QUESTION = re.compile(
    r"[?？]\s*$|吗[。.]?\s*$"
    r"|^(?:would|do|does|did|could|can|should|shall|is|are|which|what|who|how|when)\b",
    re.I,
)
_PREFERENCE = re.compile(
    r"\b(?:i|we)(?:'d| would| really| also| always| much| strongly)* (?:prefer|rather|dislike|favou?r)\b"
    r"|\b(?:i|we)(?: really| also| always| still)* (?:like|love|hate|enjoy)\b"  # "I would like to" is a request
    r"|\bmy (?:preference|favou?rite)\b|\bi(?:'m| am) (?:allergic|vegetarian|vegan)\b"
    r"|\b(?:i|we) (?:do not|don't|never) (?:like|want|eat|use)\b"
    r"|\b(?:user|customer|client) prefers\b"
    r"|我(?:们)?(?:更|最|比较|很|特别|一直|还是|都|也|不太|不)?"
    r"(?:喜欢|偏好|偏爱|讨厌|想要|倾向|习惯|爱吃|过敏)"
    r"|我对.{1,12}过敏|(?:用户|客户)(?:更|最)?(?:喜欢|偏好)|我的偏好"
)
_DECISION = re.compile(
    r"\b(?:i|we|they|team)(?:'ve| have| had| just| all)* (?:decided|agreed|chosen|chose|settled on|opted)\b"
    r"|\blet's go with\b"
    r"|\b(?:we'll|we will|we're going to) (?:go with|adopt|switch to|stick (?:to|with))\b"
    r"|\b(?:final |the )?decision(?: is|:)|\bit was (?:decided|agreed)\b"
    r"|(?:我|我们|大家|团队|公司|已经|已|最终|最后|会议)?(?:决定|选定|敲定|商定|拍板)(?!吗|不了|因素|于)"
    r"|(?:定为|最终采用|最终选择|就用|改用)"
)
_FACT = re.compile(
    r"\b(?:please )?(?:remember|note|keep in mind)(?: that|:)|\bfor the record\b|\bfyi\b"
    r"|\bmy (?:\w+ ){0,2}(?:name|id|email|e-mail|address|phone|number|account"
    r"|birthday|zip|order|reservation)(?: \w+)? is\b"
    r"|\bi live in\b|\bi work (?:at|for|in)\b"
    r"|(?:请)?(?:记住|牢记|记一下|备忘|切记)|我(?:叫|姓|住在|在.{1,12}(?:工作|上班))|我的.{1,8}(?:是|为)(?!什么|谁|哪)"
)
_OF_THE_USER = re.compile(r"\b(?:user|customer|client) prefers\b|用户|客户")
#: Somebody else's words.
_QUOTED = re.compile(r"\"[^\"\n]*\"|“[^”\n]*”|「[^」\n]*」|`[^`\n]*`")
#: The first kind that a sentence is of counts.
_KINDS = (("decision", _DECISION), ("preference", _PREFERENCE), ("fact", _FACT))


class RuleExtractor:
    """See hybridmem.ports.Extractor."""

    def extract(self, turns: Sequence[Turn]) -> list[Extract]:
        return [
            Extract(number, kind, sentence)
            for number, turn in enumerate(turns)
            if turn.kind == "turn" and turn.role.casefold() in ASKERS | ANSWERERS and len(turn.text) <= LONGEST_TURN
            for kind, sentence in _found(turn)
        ]


def _found(turn: Turn) -> Iterator[tuple[str, str]]:
    for match in _SENTENCE.finditer(turn.text):
        sentence = match.group().strip().lstrip("-*•#>").strip()
        if not 4 <= len(sentence) <= LONGEST or _QUESTION.search(sentence):
            continue
        plain = _QUOTED.sub(" ", sentence).casefold().replace("’", "'")
        kind = next((kind for kind, words in _KINDS if words.search(plain)), None)
        # What an assistant likes, or asks to note, is manner of speaking; what it says of the user is not.
        if kind is not None and (turn.role.casefold() in ASKERS or kind == "decision" or _OF_THE_USER.search(plain)):
            yield kind, sentence

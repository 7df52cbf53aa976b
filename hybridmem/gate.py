"""The gate in front of observe(): says of a turn why it is noise, or that it is none. Pure; English and Chinese.

What is dropped: turns without text, results of tools that are empty or say no more than "ok", acknowledgements
("好的", "got it"), chatter about being at work ("thinking…", "请稍候", spinners), lines of progress that differ from
an earlier one in their numbers alone, and exact repeats. Yes and no are answers and are kept, and so is whatever
differs from what came before in anything that is not the number of a line of progress.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from hybridmem.ports import Turn
from hybridmem.text import normalized

#: Characters of a text that may still be an acknowledgement or chatter.
SHORT = 80

_SPINNER = re.compile("[\u2800-\u28ff◐◓◑◒◴◷◶◵⏳⌛🔄]|^\\s*[|/\\\\-]\\s*$")
_BAR = re.compile(r"\[[=#>\-.\s*█▓▒░]{3,}\]|[█▓▒░━╸╺▏▎▍▌▋▊▉]{2,}|\|[█▓▒░#= ]{3,}\|")
_PERCENT = re.compile(r"\d+(?:[.,]\d+)?\s*[%％]|百分之[\d一二三四五六七八九十百]+")
_COUNTED = re.compile(r"\b\d+\s*(?:/|of)\s*\d+\b|第\s*\d+\s*[/／]\s*\d+|\d+\s*/\s*\d+")
_PROGRESS_WORD = re.compile(
    r"\b(?:progress|downloading|downloaded|uploading|uploaded|processing|processed|loading|loaded|installing|building"
    r"|compiling|indexing|indexed|embedding|training|epoch|batch|step|eta|remaining|completed?|syncing|scanning|copying"
    r"|fetching|extracting|it/s|[kmg]i?b/s)\b|进度|下载|上传|处理中|已处理|加载|安装中|编译|索引|训练|步骤|已完成|剩余|同步中|扫描|复制中|完成度"
)
_ALL_DONE = re.compile(r"(?<![\d.])100(?:\.0+)?\s*[%％]|百分之百|百分之一百")
_DIGITS = re.compile(r"\d+(?:[.,:]\d+)*\s*")
_ACKNOWLEDGED = frozenset(
    normalized(word)
    for word in """
    ok|okay|okey|k|kk|got it|all right|great|perfect|fine|cool|nice|awesome|thanks|thank you|thx|ty
    noted|understood|roger|acknowledged|ack|okay thanks|ok thanks|ok thank you|great thanks|thanks a lot
    you're welcome|you are welcome|welcome|hi|hello|hey|bye|goodbye|hmm|uh|um|hm|lol|haha
    好|好的|好吧|好滴|好嘞|嗯|嗯嗯|哦|噢|喔|收到|明白|明白了|知道了|了解|了解了|懂了|谢谢|谢谢你|谢谢您|多谢|感谢
    不客气|不用谢|辛苦了|好的谢谢|好的收到|你好|您好|再见|拜拜|哈哈|哈哈哈|呵呵|在吗|在的|ok的|ok了|okk
    """.replace("\n", "|").split("|")
    for word in [word.strip()]
    if word
)  # fmt: skip
_AT_WORK = re.compile(
    r"(?:(?:i(?:'m| am)|still|now|just|currently)\s+)*(?:thinking|working(?: on (?:it|this|that))?"
    r"|processing|loading|waiting|generating|searching|analy[sz]ing|computing|running|connecting|retrying"
    r"|initiali[sz]ing|starting(?: up)?)"
    r"(?:\s+(?:the )?(?:request|response|answer|it|this|input))?"
    r"|(?:please |just )*(?:wait|hold on|hang on|stand by)(?: (?:a|one) (?:moment|second|minute|sec|bit))?(?: please)?"
    r"|(?:just )?(?:a|one) (?:moment|second|sec)(?: please)?"
    r"|let me (?:think|see|check)(?: (?:about )?(?:it|this|that))?"
    r"|(?:(?:正在|我在|还在|让我)?"
    r"(?:思考|处理|加载|生成|分析|搜索|查询|等待|运行|连接|计算|初始化|想想|想一想|看看|查一下)(?:中|一下)?[，, ]*)?"
    r"(?:请?(?:稍等|稍候|等待|耐心等待|等一下|等等)(?:一下|片刻|一会儿?)?)?"
)  # fmt: skip
_NOTHING = frozenset(
    {"", "[]", "{}", "null", "none", "nil", "undefined", "n/a", "nan", '""', "''", "()", "<none>", "(empty)"}
)
_NO_RESULT = frozenset(
    {
        "ok",
        "okay",
        "success",
        "done",
        "true",
        "succeeded",
        "no output",
        "no results",
        "no result",
        "empty",
        "成功",
        "完成",
    }
    | {"无", "空", "没有结果", "无结果", "无输出", "没有输出", "执行成功", "操作成功", "command executed successfully"}
)


@dataclass(slots=True)
class Gate:
    """Of one call of observe(). ``seen``: (role, text) of what is stored already where the turns will hang."""

    seen: set[tuple[str, str]] = field(default_factory=set)
    _said: set[tuple[str, str, str]] = field(default_factory=set)
    _progress: set[str] = field(default_factory=set)

    @classmethod
    def after(cls, stored: Iterable[tuple[str, str]]) -> Gate:
        return cls(seen=set(stored))

    def reason(self, turn: Turn, content: str) -> str | None:
        """Why a turn is dropped, in a few words; None: it is kept, and remembered.

        :param content: what would be stored of it; repeats are told by that.
        """
        why = noise(turn)
        if why is None and (shape := progress(turn.text)) is not None:
            if shape in self._progress and not _ALL_DONE.search(turn.text):
                return "progress: differs from an earlier line in its numbers alone"
            self._progress.add(shape)
        if why is None:
            why = self._repeated(turn, content)
        return why

    def _repeated(self, turn: Turn, content: str) -> str | None:
        role = turn.role or turn.kind
        # Somebody may well say the same again, and mean something else by it: with times they are told apart.
        at = turn.at.isoformat() if turn.at is not None and turn.kind == "turn" else ""
        if (role, content, at) in self._said:
            return "repeat: the same as an earlier message of this call"
        if (role, content) in self.seen and not at:
            return "repeat: already stored here"
        if at and (role, f"{at} {content}") in self.seen:
            return "repeat: already stored here"
        self._said.add((role, content, at))
        return None


def noise(turn: Turn) -> str | None:
    """Why a turn is noise by itself; None: it is not."""
    if turn.kind == "thought":
        return "thinking: not part of what was said"
    if turn.kind == "other":
        return f"no text: a part of type {turn.text}"
    if turn.kind == "call":
        return None  # an action, whatever its arguments
    text = normalized(turn.text).strip()
    plain = _trimmed(text).casefold()
    if turn.kind == "result":
        empty = text.casefold() in _NOTHING or plain in _NO_RESULT
        return "empty tool result" if empty and not turn.failed else None
    if not text:
        return "empty"
    if _SPINNER.search(text) and not plain:
        return "chatter: a spinner"
    if not plain:
        return None  # symbols alone: a "?" or an emoji is an answer
    return _chatter(plain) if len(plain) <= SHORT else None


def _trimmed(text: str) -> str:
    """Without what is neither a letter nor a digit at both ends. No pattern: one for the end looks at a long run of
    such characters once from each of them, which takes minutes for 100,000."""
    first = next((at for at, character in enumerate(text) if character.isalnum()), len(text))
    last = next((at for at in range(len(text) - 1, first, -1) if text[at].isalnum()), first)
    return text[first : last + 1]


def progress(text: str) -> str | None:
    """What a line of progress looks like without its numbers and bars; None: it is no such line."""
    if len(text) > 4 * SHORT:
        return None
    line = normalized(text).casefold()
    counted = _PERCENT.search(line) or _COUNTED.search(line)
    alone = not re.sub(r"[\d\s\W_]", "", line) and _PERCENT.search(line)
    if not (_BAR.search(line) or alone or (counted and _PROGRESS_WORD.search(line)) or _spinning(line)):
        return None
    return " ".join(_DIGITS.sub("#", _SPINNER.sub("", _BAR.sub("", line))).split())


def _spinning(line: str) -> bool:
    first = line.lstrip()[:1]
    return bool(first) and ("\u2800" <= first <= "\u28ff" or first in "◐◓◑◒◴◷◶◵⏳⌛🔄")


def _chatter(plain: str) -> str | None:
    words = re.sub(r"[\s,，.。!！~～、;；…]+", " ", plain).strip()
    if words in _ACKNOWLEDGED or words.replace(" ", "") in _ACKNOWLEDGED:
        return "chatter: an acknowledgement"
    if _AT_WORK.fullmatch(words) or _AT_WORK.fullmatch(words.replace(" ", "")):
        return "chatter: says only that work goes on"
    return None

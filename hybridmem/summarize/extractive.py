"""The default summariser: it picks sentences and writes none, so that it needs no model and makes nothing up. Pure.

Kept in any case is every line of an earlier summary, so that a summary of summaries loses none, however often it is
made; every fact, preference and decision; and what tells as much (see :mod:`hybridmem.summarize.details`): rules,
causes, outcomes. The room that the budget leaves goes to what tells less, best first; what tells nothing goes even if
there is room. A fact that a later one takes back is one of those that stay if there is room.

Lines stand in the order in which things happened, below the title of the task that they were written in. A sentence
with words such as "yesterday" is followed by the date of its memory, since it would mean another day in a summary.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from hybridmem.corrections import announces
from hybridmem.dates import moments
from hybridmem.ports import Passage, TokenCounter
from hybridmem.summarize.details import details, shape, worth
from hybridmem.summarize.sentences import lines, sentences
from hybridmem.text import terms
from hybridmem.tokens import token_counter
from hybridmem.types import MERGED_TYPES, SUMMARY_TYPE, TASK_TYPE

#: A fact, preference or decision up to so many tokens is kept whole; of a longer one the sentences that tell something.
WHOLE = 60
#: What tells so much is kept whatever the budget; what tells less than LEAST goes even if there is room.
TELLING, LEAST = 2.5, 1.0
#: What a line loses in worth if more than OFTEN in the branch, it included, differ in their numbers alone: it is what
#: a program writes over and over, and is not kept beyond the budget.
REPEATED, OFTEN = 1.5, 2
#: A correction shares this much of its terms (Jaccard) with what it takes back, and CLEARLY times as much as with any
#: other. On the synthetic set (seeds 0-5) that pairs 72 of 248 corrections, none with what still holds.
ALIKE, CLEARLY = 0.2, 1.3
#: Two moments so far apart read a day without its year differently; on which side of the calendar there is room.
_LONG, _MIDDLE = timedelta(days=400), 5000
_LASTING = MERGED_TYPES | {SUMMARY_TYPE, TASK_TYPE}


@dataclass(frozen=True, slots=True)
class _Line:
    """A sentence that may be shown. ``place`` is that in the order of the passages; ``kept`` whatever the budget."""

    place: int
    title: str
    text: str
    type: str
    worth: float
    kept: bool


class ExtractiveSummarizer:
    """See the module. The same passages and budget always give the same text; "" if it would be as long as they are."""

    def __init__(self, counter: TokenCounter | None = None) -> None:
        """:param counter: None: the best at hand."""
        self._counter = counter or token_counter()

    def summarize(self, passages: Sequence[Passage], budget: int) -> str:
        """See :class:`hybridmem.ports.Summarizer`. What is kept in any case may take more than the budget."""
        found = _without_repeats(_judged(list(self._lines(passages))))
        chosen = self._within([line for line in found if line.kept], budget)
        used = self._counter.count(_written(chosen))
        for line in sorted(found, key=lambda line: (-line.worth, line.place)):
            length = self._counter.count(line.text) + 1
            if not line.kept and line.worth >= LEAST and used + length <= budget:
                chosen.append(line)
                used += length
        text = _written(chosen)
        source = sum(self._counter.count(passage.text) for passage in passages)
        return text if self._counter.count(text) < source else ""

    def _within(self, chosen: list[_Line], budget: int) -> list[_Line]:
        """Without the titles that there is no room for, those with the fewest lines first; those of summaries stay,
        since theirs may be all that says whom a line is about."""
        used = self._counter.count(_written(chosen))
        below = Counter(line.title for line in chosen if line.title)
        for line in chosen:
            if line.type == SUMMARY_TYPE:
                below.pop(line.title, None)
        for title, _ in sorted(below.items(), key=lambda pair: pair[1]):
            if used <= budget:
                break
            chosen = [replace(line, title="") if line.title == title else line for line in chosen]
            used -= self._counter.count(_heading(title)) + 1
        return chosen

    def _lines(self, passages: Sequence[Passage]) -> Iterator[_Line]:
        place = 0
        for passage in passages:
            for text, value, kept in self._of(passage):
                yield _Line(place, passage.title, text, passage.type, value, kept)
                place += 1

    def _of(self, passage: Passage) -> Iterator[tuple[str, float, bool]]:
        """Text, worth, and whether it must be kept, of each line that a passage gives."""
        if passage.type == SUMMARY_TYPE:
            yield from ((text, TELLING, True) for text in lines(passage.text))
            return
        if (
            passage.type == TASK_TYPE
        ):  # the title of one that goes: as a heading it stands there only if lines are below
            text = " ".join(passage.text.split())
            yield text, LEAST, bool(details(text))
            return
        lasting = passage.type in MERGED_TYPES
        if lasting and self._counter.count(passage.text) <= WHOLE:
            yield _dated(" ".join(passage.text.split()), passage), TELLING, True
            return
        for place, text in enumerate(sentences(passage.text)):
            value = worth(text)
            yield _dated(text, passage), value, value >= TELLING or (lasting and (place == 0 or value >= LEAST))


def _judged(found: Sequence[_Line]) -> list[_Line]:
    """With less worth for what repeats itself in other numbers, and what was taken back not kept in any case."""
    shapes = Counter(shape(line.text) for line in found)
    stale = _taken_back(found)
    judged = []
    for line in found:
        if line.place in stale:
            line = replace(line, worth=LEAST, kept=False)
        elif line.type not in _LASTING and shapes[shape(line.text)] > OFTEN:
            line = replace(line, worth=line.worth - REPEATED, kept=False)
        judged.append(line)
    return judged


def _taken_back(found: Sequence[_Line]) -> set[int]:
    """The places of facts, preferences and decisions that a later one of the same type and title's branch replaces: one
    that announces a change, is clearly about the same thing, and has as many details."""
    stale: set[int] = set()
    earlier: list[tuple[_Line, frozenset[str]]] = []
    for line in found:
        if line.type not in MERGED_TYPES:
            continue
        words = frozenset(terms(line.text))
        if announces(line.text):
            old = _best(line, words, [pair for pair in earlier if pair[0].place not in stale])
            if old is not None and len(details(old.text)) <= len(details(line.text)):
                stale.add(old.place)
        earlier.append((line, words))
    return stale


def _best(late: _Line, words: frozenset[str], earlier: Sequence[tuple[_Line, frozenset[str]]]) -> _Line | None:
    alike = sorted(
        ((_shared(words, others), line) for line, others in earlier if line.type == late.type),
        key=lambda pair: (-pair[0], pair[1].place),
    )
    if not alike or alike[0][0] < ALIKE or (len(alike) > 1 and alike[0][0] <= CLEARLY * alike[1][0]):
        return None
    return alike[0][1]


def _shared(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other) if one | other else 0.0


def _dated(text: str, passage: Passage) -> str:
    """With the date of the memory, if it has words that mean a day only together with that."""
    day, at = f"{passage.at:%Y-%m-%d}", passage.at
    other = at + (_LONG if at.year < _MIDDLE else -_LONG)
    return text if day in text or moments(text, at) == moments(text, other) else f"{text} ({day})"


def _without_repeats(found: Sequence[_Line]) -> list[_Line]:
    """What says the same below the same title once: the first that is kept in any case, else the first. The lines of a
    summary stay as they are: a title in it may stand there twice."""
    best: dict[tuple[str, str], _Line] = {}
    summaries = [line for line in found if line.type == SUMMARY_TYPE]
    known = {(line.title, _plain(line.text)) for line in summaries}
    for line in found:
        key = (line.title, _plain(line.text))
        if line.type != SUMMARY_TYPE and key not in known and (key not in best or line.kept > best[key].kept):
            best[key] = line
    return sorted([*summaries, *best.values()], key=lambda line: line.place)


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def _written(chosen: Iterable[_Line]) -> str:
    """The lines below their titles; what has no title first, then the titles as they come."""
    groups: dict[str, list[str]] = {"": []}
    headings = {line.title for line in chosen if line.type != TASK_TYPE}
    for line in sorted(chosen, key=lambda line: line.place):
        if line.type != TASK_TYPE or line.text not in headings:
            groups.setdefault(line.title, []).append(line.text)
    parts: list[str] = []
    for title, texts in groups.items():
        parts += [_heading(title), *texts] if title else texts
    return "\n".join(parts)


def _heading(title: str) -> str:
    return title + ("：" if "\u2e80" <= title[-1] <= "\uffef" else ":")

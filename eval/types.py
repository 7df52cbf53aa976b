"""What a data set looks like once it is loaded: corpora that hold items (what can be found) and questions.

Every loader makes these, every system and metric reads only these. Ids are unique within their corpus.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that can be retrieved, e.g. a turn of a conversation.

    ``group`` is the id of its group. ``time`` is timezone-aware UTC, or None when the data set gives none;
    ``speaker`` is '' when nobody said it. ``type`` is the node type that it is to a memory that knows types, any but
    "task", which is what groups are.
    """

    id: str
    group: str
    text: str
    time: datetime | None = None
    speaker: str = ""
    type: str = "event"

    @property
    def content(self) -> str:
        """What every system gets to read: ``speaker: text``, or the text alone."""
        return f"{self.speaker}: {self.text}" if self.speaker else self.text


@dataclass(frozen=True, slots=True)
class Group:
    """What items hang under, e.g. a session. ``title`` is readable text; ``time`` as in Item.

    ``parent`` is the id of the group that it hangs under itself, e.g. the project of a session; '' at the top. Trees
    may be of any depth, and any group of them may have items.
    """

    id: str
    title: str
    time: datetime | None = None
    parent: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """Something to ask a corpus, with its evidence at one or two granularities; ids, none twice.

    ``gold`` names items. ``gold_groups`` names the groups that hold evidence (the groups that items name, not those
    above them). Either may be empty when the data set does not know it, never both; both are found in one ranking of
    items, in which a group stands where the first of its items stands.

    What a system may be told beside the words: ``time``, when it is asked (as in Item); ``after``, how many of the
    items of the corpus are in memory by then, the first ones (None: all of them); ``asked_in``, the id of the group
    that the agent is at work in when it asks, '' when that is not known.
    """

    id: str
    text: str
    gold: tuple[str, ...]
    category: str = ""
    gold_groups: tuple[str, ...] = ()
    time: datetime | None = None
    after: int | None = None
    asked_in: str = ""


@dataclass(frozen=True, slots=True)
class Moment:
    """The moment at which a question is asked: all that a system is told beside its words.

    ``items`` is the number of items in memory, the first ones of the corpus; ``time`` and ``group`` are ``time`` and
    ``asked_in`` of the question.
    """

    items: int
    time: datetime | None = None
    group: str = ""


@dataclass(frozen=True, slots=True)
class Corpus:
    """One history with its questions; systems load one at a time.

    ``items`` are in time order; ``groups`` too, each after its parent. ``questions`` with an ``after`` are in the order
    in which they are asked: ``after`` never falls. ``corrections`` are pairs of items, where the data set knows them:
    one that does not hold any more, and the later one that says what does.
    """

    id: str
    groups: tuple[Group, ...]
    items: tuple[Item, ...]
    questions: tuple[Question, ...]
    corrections: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # no part of the checksum of made data

    def moment(self, question: Question) -> Moment:
        """When and where ``question`` is asked, and of how much."""
        items = len(self.items) if question.after is None else question.after
        return Moment(items, question.time, question.asked_in)

    @property
    def start(self) -> int:
        """How many items are in memory before the first question: all, unless the corpus grows between questions."""
        return min((self.moment(question).items for question in self.questions), default=len(self.items))

    def candidates(self, question: Question) -> tuple[int, int]:
        """How many items, and how many groups that hold one, could be returned when ``question`` is asked."""
        items = self.items[: self.moment(question).items]
        return len(items), len({item.group for item in items})


@dataclass(frozen=True, slots=True)
class Dataset:
    """A loaded data set.

    ``granularity`` names what an item is ("turn"), ``group_granularity`` what ``gold_groups`` are ("session"; '' when
    no question has any), ``selection`` which questions are asked; all are shown beside every figure. ``sha256`` is the
    checksum of the file(s) as read. ``dropped`` counts what was left out, by reason.
    """

    name: str
    granularity: str
    selection: str
    corpora: tuple[Corpus, ...]
    sha256: str
    source: str
    dropped: dict[str, int] = field(default_factory=dict)
    group_granularity: str = ""

    def counts(self) -> dict[str, int]:
        """Corpora, items and questions, in numbers."""
        return {
            "corpora": len(self.corpora),
            "items": sum(len(corpus.items) for corpus in self.corpora),
            "questions": sum(len(corpus.questions) for corpus in self.corpora),
        }

    def first(self, questions: int) -> Dataset:
        """The same data with its first ``questions`` questions only; corpora left without any are dropped."""
        return replace(
            self,
            selection=f"{self.selection}, first {questions} questions only",
            corpora=tuple(_first(self.corpora, questions)),
        )


def _first(corpora: tuple[Corpus, ...], questions: int) -> Iterator[Corpus]:
    for corpus in corpora:
        if questions <= 0:
            return
        yield replace(corpus, questions=corpus.questions[:questions])
        questions -= len(corpus.questions)

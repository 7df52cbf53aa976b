"""What a data set looks like once it is loaded: corpora that hold items (what can be found) and questions.

Every loader makes these, every system and metric reads only these. Ids are unique within their corpus.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that can be retrieved, e.g. a turn of a conversation.

    ``group`` is the id of its group. ``time`` is timezone-aware UTC, or None when the data set gives none;
    ``speaker`` is '' when nobody said it.
    """

    id: str
    group: str
    text: str
    time: datetime | None = None
    speaker: str = ""

    @property
    def content(self) -> str:
        """What every system gets to read: ``speaker: text``, or the text alone."""
        return f"{self.speaker}: {self.text}" if self.speaker else self.text


@dataclass(frozen=True, slots=True)
class Group:
    """What items hang under, e.g. a session. ``title`` is readable text; ``time`` as in Item."""

    id: str
    title: str
    time: datetime | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """Something to ask a corpus. ``gold`` holds the ids of the items that are its evidence: one or more, none twice."""

    id: str
    text: str
    gold: tuple[str, ...]
    category: str = ""


@dataclass(frozen=True, slots=True)
class Corpus:
    """One history with its questions; systems load one at a time. ``groups`` and ``items`` are in time order."""

    id: str
    groups: tuple[Group, ...]
    items: tuple[Item, ...]
    questions: tuple[Question, ...]


@dataclass(frozen=True, slots=True)
class Dataset:
    """A loaded data set.

    ``granularity`` names what an item is ("turn"), ``selection`` which questions are asked; both are shown beside every
    figure. ``sha256`` is the checksum of the file(s) as read. ``dropped`` counts what was left out, by reason.
    """

    name: str
    granularity: str
    selection: str
    corpora: tuple[Corpus, ...]
    sha256: str
    source: str
    dropped: dict[str, int] = field(default_factory=dict)

    def counts(self) -> dict[str, int]:
        """Corpora, items and questions, in numbers."""
        return {
            "corpora": len(self.corpora),
            "items": sum(len(corpus.items) for corpus in self.corpora),
            "questions": sum(len(corpus.questions) for corpus in self.corpora),
        }

    def first(self, questions: int) -> Dataset:
        """The same data with its first ``questions`` questions only; corpora left without any are dropped."""
        return Dataset(
            name=self.name,
            granularity=self.granularity,
            selection=f"{self.selection}, first {questions} questions only",
            corpora=tuple(_first(self.corpora, questions)),
            sha256=self.sha256,
            source=self.source,
            dropped=self.dropped,
        )


def _first(corpora: tuple[Corpus, ...], questions: int) -> Iterator[Corpus]:
    for corpus in corpora:
        if questions <= 0:
            return
        yield Corpus(corpus.id, corpus.groups, corpus.items, corpus.questions[:questions])
        questions -= len(corpus.questions)

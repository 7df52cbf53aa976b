"""One life, lived online: sessions come one by one, some of what is there is forgotten, and questions come in between.

A session is one memory: an agent that keeps what was said as it was said. Those of a project hang under the task of the
project; what belongs to none hangs under the root. The policy is the library's own and sees what every agent has: the
tree, the times, the types, the weights, and which memories its own searches have delivered. It sees neither which
session a later question needs nor what the data set calls a distractor.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from eval.embedding import SharedEmbedder
from eval.types import Corpus, Group, Question
from hybridmem import Memory
from hybridmem.config import Config

#: What a session is in memory.
TYPE = "event"


@dataclass(frozen=True, slots=True)
class Asked:
    """A question and what became of what it needs. ``forgotten`` and ``found`` are some of ``needed``: what was gone
    already, and what is among the first k hits. ``in_memory`` sessions had come so far, ``gone`` of them forgotten.
    """

    id: str
    needed: tuple[str, ...]
    forgotten: tuple[str, ...]
    found: tuple[str, ...]
    in_memory: int
    gone: int


class Life:
    """One person's history in a store of its own, of which a share is forgotten as it grows."""

    def __init__(
        self,
        corpus: Corpus,
        directory: Path,
        config: Config,
        embedder: SharedEmbedder,
        *,
        policy: Mapping[str, Any] | None,
        share: float,
        loose: Sequence[str] = (),
        k: int = 10,
    ) -> None:
        """
        :param policy: as ``Memory.forget(policy=…)`` takes it; None: nothing is forgotten.
        :param share: of the sessions that have come, forgotten at any moment, rounded down.
        :param loose: groups whose sessions belong to no task.
        """
        self._corpus = corpus
        self._policy = policy
        self._share = share
        self._loose = frozenset(loose)
        self._k = k
        self._clock = _Clock(corpus)
        self._memory = Memory.open(
            directory, namespace=("eval", corpus.id), config=config, embedder=embedder, clock=self._clock
        )
        self._tasks: dict[str, str] = {}
        self._sessions: dict[str, str] = {}
        self._forgotten: set[str] = set()

    def live(self) -> Iterator[Asked]:
        """Lives it through; yields a record for each question, in their order."""
        waiting = list(self._corpus.questions)
        with self._memory:
            items = 0
            for group, contents in _sessions(self._corpus):
                while waiting and self._corpus.moment(waiting[0]).items <= items:
                    yield self._ask(waiting.pop(0))
                self._write(group, contents)
                items += len(contents)
                self._forget()
            for question in waiting:
                yield self._ask(question)

    def _write(self, group: Group, contents: Sequence[str]) -> None:
        self._clock.reach(group.time)
        parent = "root" if group.parent in self._loose else self._task(group.parent)
        node = self._memory.add("\n".join(contents), type=TYPE, parent=parent, occurred_at=group.time)
        self._sessions[node.id] = group.id
        self._memory.flush()

    def _ask(self, question: Question) -> Asked:
        self._clock.reach(question.time)
        if question.asked_in and question.asked_in not in self._loose:
            self._task(question.asked_in)
        hits = self._memory.search(question.text, self._k, types=[TYPE])
        found = {self._sessions[hit.id] for hit in hits}
        needed = question.gold_groups
        return Asked(
            question.id,
            needed,
            tuple(one for one in needed if one in self._forgotten),
            tuple(one for one in needed if one in found),
            len(self._sessions),
            len(self._forgotten),
        )

    def _forget(self) -> None:
        due = math.floor(self._share * len(self._sessions) + 1e-9) - len(self._forgotten)
        if self._policy is not None and due > 0:
            report = self._memory.forget(policy=dict(self._policy), limit=due)
            self._forgotten.update(self._sessions[id_] for id_ in report.ids if id_ in self._sessions)

    def _task(self, project: str) -> str:
        """The task of a project, active from here on; started if it is not there."""
        if project not in self._tasks:
            title = next(group.title for group in self._corpus.groups if group.id == project)
            self._tasks[project] = self._memory.start_task(title, parent="root").id
        active = self._memory.active_task()
        if active is None or active.id != self._tasks[project]:
            self._memory.switch_task(self._tasks[project])
        return self._tasks[project]


def _sessions(corpus: Corpus) -> Iterator[tuple[Group, list[str]]]:
    """Each session with what was said in it, in their order; an empty one is left out."""
    by_id = {group.id: group for group in corpus.groups}
    said: dict[str, list[str]] = {}
    for item in corpus.items:
        said.setdefault(item.group, []).append(item.content)
    yield from ((by_id[id_], contents) for id_, contents in said.items())


class _Clock:
    """Stands at the day of the newest session that has come."""

    def __init__(self, corpus: Corpus) -> None:
        self._now = next(group.time for group in corpus.groups if group.time is not None)

    def reach(self, moment: datetime | None) -> None:
        self._now = max(self._now, moment or self._now)

    def now(self) -> datetime:
        return self._now

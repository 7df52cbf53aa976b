"""One life, lived online: sessions come one by one, some of what is there is forgotten, and questions come in between.

A session is one memory: an agent that keeps what was said as it was said. Those of a project hang under the task of the
project; what belongs to none hangs under the root, and has no name. The policy is the library's own and sees what every
agent has: the tree, the times, the types, the weights, and which memories its own searches have delivered. It sees
neither which session a later question needs nor what the data set calls a distractor.

Nothing is flushed: a search embeds what it has to rank itself, and so few memories are all ranked exactly, so that the
life is that of an agent, but for Chroma, which none of it would ask.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from eval.types import Corpus, Group, Question
from hybridmem import Memory
from hybridmem.config import Config
from hybridmem.errors import HybridMemError
from hybridmem.ports import Embedder

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


def unnamed(corpus: Corpus, loose: Sequence[str]) -> Corpus:
    """The history as an agent meets it: the groups ``loose`` at its root are not there, and what hung under them hangs
    under the root, with no title."""
    groups = tuple(
        replace(group, parent="", title="") if group.parent in loose else group
        for group in corpus.groups
        if group.id not in loose
    )
    asked = tuple(
        replace(question, asked_in="") if question.asked_in in loose else question for question in corpus.questions
    )
    return replace(corpus, groups=groups, questions=asked)


class Life:
    """One person's history in a store of its own, of which a share is forgotten as it grows."""

    def __init__(
        self,
        corpus: Corpus,
        directory: Path,
        config: Config,
        embedder: Embedder,
        *,
        policy: Mapping[str, Any] | None,
        share: float,
        k: int = 10,
    ) -> None:
        """
        :param corpus: an :func:`unnamed` one.
        :param policy: as ``Memory.forget(policy=…)`` takes it; None: nothing is forgotten.
        :param share: of the sessions that have come, forgotten at any moment, rounded down.
        """
        self._corpus = corpus
        self._policy = policy
        self._share = share
        self._k = k
        self._clock = _Clock(corpus)
        self._memory = Memory.open(
            directory, namespace=("eval", corpus.id), config=config, embedder=embedder, clock=self._clock
        )
        self._tasks: dict[str, str] = {}
        self._sessions: dict[str, str] = {}
        self._forgotten: set[str] = set()

    def live(self) -> Iterator[Asked]:
        """Lives it through; yields a record for each question, in their order.

        :raises HybridMemError: a search was not what it should be.
        """
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
        parent = self._task(group.parent) if group.parent else "root"
        node = self._memory.add("\n".join(contents), type=TYPE, parent=parent, occurred_at=group.time)
        self._sessions[node.id] = group.id

    def _ask(self, question: Question) -> Asked:
        self._clock.reach(question.time)
        if question.asked_in:
            self._task(question.asked_in)
        hits = self._memory.search(question.text, self._k, types=[TYPE])
        if hits.warnings:
            raise HybridMemError("hybridmem answered degraded: " + "; ".join(hits.warnings))
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
            report = self._memory.forget(policy={**self._policy, "types": [TYPE]}, limit=due)
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

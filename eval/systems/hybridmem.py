"""hybridmem itself: one namespace per history, its groups as a tree of tasks under the root, the items below them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from itertools import groupby

from eval.systems.base import Setup
from eval.types import Corpus, Group, Item, Moment
from hybridmem import Memory
from hybridmem.errors import HybridMemError

#: What time it is for a history without times: any fixed moment, so that two runs give the same numbers.
_SOME_TIME = datetime(2000, 1, 1, tzinfo=timezone.utc)


class TreeMemory:
    """A Memory in a temporary directory, asked as a user would ask it, with the configuration of the experiment.

    The history is lived through: its clock stands at the time of each group while that is written, and each group is a
    task that is started under the task of its parent, and finished once its last item is in. A question is asked when
    it is the time of the question or of the newest item, whichever is later; so recency means what it would mean to an
    agent. The task of the group that the question is asked in is then the active one; for a question that names none
    the active task is what reading left: none, once all are finished.
    """

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._memory: Memory | None = None

    def load(self, corpus: Corpus) -> None:
        self.close()
        self._corpus = corpus
        self._groups = {group.id: group for group in corpus.groups}
        self._types = sorted({item.type for item in corpus.items})
        self._last: dict[str, int] = {}
        for place, item in enumerate(corpus.items):
            self._last.update((group.id, place) for group in self._upwards(item.group))
        self._items: dict[str, str] = {}
        self._tasks: dict[str, str] = {}
        self._have = 0
        self._clock = _HistoryClock()
        for first in corpus.groups[:1]:
            self._clock.reach(first.time)
        self._memory = Memory.open(
            self._setup.directory / "store",
            namespace=("eval", corpus.id),
            config=self._setup.config,
            embedder=self._setup.embedder,
            clock=self._clock,
        )
        self._take(corpus.start)

    def advance(self, moment: Moment) -> None:
        self._take(moment.items)
        self._clock.reach(moment.time)
        if moment.group:
            memory, id_ = self._open(), self._task(moment.group)
            task = memory.get(id_).task
            if task is not None and task.status in ("done", "failed"):
                memory.update_task(id_, status="open")
            active = memory.active_task()
            if active is None or active.id != id_:
                memory.switch_task(id_)

    def search(self, question: str, k: int) -> list[str]:
        result = self._open().search(question, k, types=self._types, scope=self._scope(question))
        _refuse(result.warnings)
        return [self._items[hit.id] for hit in result if hit.id in self._items]

    def context(self, question: str, token_budget: int) -> tuple[str, list[str]]:
        context = self._open().context(question, token_budget=token_budget, scope=self._scope(question))
        _refuse(context.warnings)
        cut = {id_ for id_, _ in context.shortened}  # what is not shown whole may lack the very sentence
        return context.text, [
            self._items[hit.id] for hit in context.hits if hit.id in self._items and hit.id not in cut
        ]

    def close(self) -> None:
        if self._memory is not None:
            self._memory.close()
            self._memory = None

    def _scope(self, question: str) -> str:
        """Where to look: everywhere. An ablation narrows it."""
        return "auto"

    def _take(self, items: int) -> None:
        """Reads on until the first ``items`` of the history are in memory, and indexed."""
        if items <= self._have:
            return
        memory = self._open()
        for group_id, run in groupby(self._corpus.items[self._have : items], key=lambda item: item.group):
            batch = list(run)
            task = self._task(group_id)
            self._clock.reach(self._groups[group_id].time)
            self._store(batch, task)
            for item in batch:
                self._clock.reach(item.time)
            self._have += len(batch)
            for group in self._upwards(group_id):
                if self._last[group.id] < self._have:
                    memory.finish_task(self._tasks[group.id])
        pending = memory.flush()
        if pending:
            raise HybridMemError(f"{pending} memories of {self._corpus.id} could not be indexed: {_reasons(memory)}")

    def _store(self, batch: Sequence[Item], task: str) -> None:
        """Writes items below the task of their group."""
        nodes = self._open().add_many(
            {"content": item.content, "type": item.type, "parent": task, "occurred_at": item.time} for item in batch
        )
        self._items.update((node.id, item.id) for node, item in zip(nodes, batch, strict=True))

    def _task(self, group_id: str) -> str:
        """The id of the task of a group; started, with those above it, when it is not there yet."""
        for group in reversed(list(self._upwards(group_id))):
            if group.id not in self._tasks:
                self._clock.reach(group.time)
                above = self._tasks[group.parent] if group.parent else None
                self._tasks[group.id] = self._open().start_task(group.title, parent=above).id
        return self._tasks[group_id]

    def _upwards(self, group_id: str) -> Iterator[Group]:
        """A group and those above it, the nearest first."""
        while group_id:
            yield self._groups[group_id]
            group_id = self._groups[group_id].parent

    def _open(self) -> Memory:
        if self._memory is None:
            raise RuntimeError("load a corpus first")
        return self._memory


def _reasons(memory: Memory) -> str:
    """Why memories wait: each stuck one says it; that there is no model at all is said by a search."""
    stuck = {reason for _, reason in memory.stats().stuck}
    return "; ".join(sorted(stuck) or memory.search("?").warnings) or "no reason given"


def _refuse(warnings: tuple[str, ...]) -> None:
    """A degraded search (no embedder, broken index) is a failed run, not a bad score."""
    if warnings:
        raise HybridMemError("hybridmem answered degraded: " + "; ".join(warnings))


class _HistoryClock:
    """Stands at the latest moment reached."""

    def __init__(self) -> None:
        self._reached: datetime | None = None

    def reach(self, moment: datetime | None) -> None:
        if moment is not None:
            self._reached = max(moment, self._reached or moment)

    def now(self) -> datetime:
        return self._reached or _SOME_TIME

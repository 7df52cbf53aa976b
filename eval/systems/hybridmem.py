"""hybridmem itself: one namespace per history, a task per group under its root, the items as events below."""

from __future__ import annotations

from datetime import datetime, timezone

from eval.systems.base import Setup
from eval.types import Corpus
from hybridmem import Memory
from hybridmem.errors import HybridMemError

#: What time it is for a history without times: any fixed moment, so that two runs give the same numbers.
_SOME_TIME = datetime(2000, 1, 1, tzinfo=timezone.utc)


class TreeMemory:
    """A Memory in a temporary directory, asked as a user would ask it, with the configuration of the experiment.

    The history is lived through: its clock stands at the time of each group while that is written, and each group is a
    task that is started and finished. So no task is active when the questions come, and it is then the time of the
    newest item: recency means what it would mean to an agent that asks right after the last thing that happened.
    """

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._memory: Memory | None = None

    def load(self, corpus: Corpus) -> None:
        self.close()
        clock = _HistoryClock()
        for group in corpus.groups[:1]:
            clock.reach(group.time)
        memory = self._memory = Memory.open(
            self._setup.directory / "store",
            namespace=("eval", corpus.id),
            config=self._setup.config,
            embedder=self._setup.embedder,
            clock=clock,
        )
        self._items: dict[str, str] = {}
        for group in corpus.groups:
            items = [item for item in corpus.items if item.group == group.id]
            clock.reach(group.time)
            task = memory.start_task(group.title)
            nodes = memory.add_many(
                {"content": item.content, "type": "event", "parent": task, "occurred_at": item.time} for item in items
            )
            self._items.update((node.id, item.id) for node, item in zip(nodes, items, strict=True))
            for item in items:
                clock.reach(item.time)
            memory.finish_task(task.id)
        pending = memory.flush()
        if pending:
            raise HybridMemError(f"{pending} memories of {corpus.id} could not be indexed: {_reasons(memory)}")

    def search(self, question: str, k: int) -> list[str]:
        result = self._open().search(question, k, types=["event"])
        _refuse(result.warnings)
        return [self._items[hit.id] for hit in result if hit.id in self._items]

    def context(self, question: str, token_budget: int) -> tuple[str, list[str]]:
        context = self._open().context(question, token_budget=token_budget)
        _refuse(context.warnings)
        return context.text, [self._items[hit.id] for hit in context.hits if hit.id in self._items]

    def close(self) -> None:
        if self._memory is not None:
            self._memory.close()
            self._memory = None

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

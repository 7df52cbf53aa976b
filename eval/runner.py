"""Makes one run of an experiment: system by system, history by history, question by question. Writes nothing."""

from __future__ import annotations

import contextlib
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eval import figures, metrics
from eval.embedding import SharedEmbedder
from eval.experiment import Experiment, Run
from eval.systems.base import Factory, Setup, System, ranks
from eval.types import Corpus, Dataset, Question
from hybridmem.errors import HybridMemError
from hybridmem.ports import TokenCounter

#: Called with what is going on and how many questions were answered since the last call.
Progress = Callable[[str, int], None]
Log = list[dict[str, Any]]

#: How much deeper a ranking is read at a time, until it has as many groups as the largest k asks for.
_DEEPER = 4


def run(
    plan: Run,
    dataset: Dataset,
    systems: Mapping[str, Factory],
    *,
    embedder: SharedEmbedder,
    counter: TokenCounter,
    progress: Progress = lambda what, answered: None,
) -> dict[str, Any]:
    """The measurements, ready for JSON: ``data``, ``metrics`` and ``tests`` per system, and the ``questions`` logs.

    :raises InvalidInput: a k is not below the number of candidates of every history.
    :raises HybridMemError: a system failed, or returned what it may not. An error is never counted as a miss.
    """
    histories = [_History(corpus, counter) for corpus in dataset.corpora]
    _refuse_large_k(plan.experiment, dataset, histories)
    logs: dict[str, Log] = {}
    for name, factory in systems.items():
        with tempfile.TemporaryDirectory(prefix="hybridmem-eval-") as directory:
            setup = Setup(Path(directory), plan.config, embedder, counter, plan.seed)
            with contextlib.closing(factory(setup)) as system:
                asker = _Asker(name, system, plan.experiment, embedder, counter, progress)
                logs[name] = [entry for history in histories for entry in asker.ask(history)]
    return {
        "data": _describe(dataset, plan.experiment, logs, histories, counter),
        "embedding_ms_per_query": _median([seconds * 1000.0 for seconds in embedder.query_seconds]),
        **figures.of_run(logs, plan.experiment, plan.seed),
        "questions": logs,
    }


class _History:
    """A corpus with what has to be known of it at each moment, counted once."""

    def __init__(self, corpus: Corpus, counter: TokenCounter) -> None:
        self.corpus = corpus
        self.group_of = {item.id: item.group for item in corpus.items}
        self.place_of = {item.id: place for place, item in enumerate(corpus.items)}
        self._counter = counter
        self._tokens: dict[int, int] = {}
        self._groups = [0]
        seen: set[str] = set()
        for item in corpus.items:
            seen.add(item.group)
            self._groups.append(len(seen))

    def candidates(self, question: Question) -> dict[str, int]:
        """How many items and groups could be returned."""
        items = self.corpus.moment(question).items
        return {"items": items, "groups": self._groups[items]}

    def full_tokens(self, items: int) -> int:
        """Tokens of everything that is in memory."""
        if items not in self._tokens:
            text = "\n".join(item.content for item in self.corpus.items[:items])
            self._tokens[items] = self._counter.count(text)
        return self._tokens[items]

    def blind(self) -> Corpus:
        """The corpus as a system gets it: with neither the words nor the evidence of its questions."""
        questions = tuple(replace(question, text="", gold=(), gold_groups=()) for question in self.corpus.questions)
        return replace(self.corpus, questions=questions)


@dataclass(frozen=True, slots=True)
class _Asker:
    """One system, asked every question of one history after the other."""

    name: str
    system: System
    experiment: Experiment
    embedder: SharedEmbedder
    counter: TokenCounter
    progress: Progress

    def ask(self, history: _History) -> Log:
        self.progress(f"{self.name}: reading {history.corpus.id}", 0)
        self.system.load(history.blind())
        log: Log = []
        for question in history.corpus.questions:
            self.system.advance(history.corpus.moment(question))
            log.append(self._entry(history, question))
            self.progress(f"{self.name}: {history.corpus.id}", 1)
        return log

    def _entry(self, history: _History, question: Question) -> dict[str, Any]:
        items = history.corpus.moment(question).items
        entry = {
            "id": question.id,
            "corpus": history.corpus.id,
            "category": question.category,
            "gold": list(question.gold),
            "gold_groups": list(question.gold_groups),
            "candidates": history.candidates(question),
            "full_tokens": history.full_tokens(items),
        }
        if not ranks(self.system):
            return entry | {"contexts": {figures.ALL: self._context(history, question, None)}}
        retrieved, seconds = self._search(history, question, max(self.experiment.ks))
        return entry | {
            "retrieved": retrieved,
            "retrieved_groups": self._groups(history, question, retrieved),
            "ms": seconds * 1000.0,
            "contexts": {str(budget): self._context(history, question, budget) for budget in self.experiment.budgets},
        }

    def _search(self, history: _History, question: Question, k: int) -> tuple[list[str], float]:
        """The ids, and the seconds it took without the embedding of the question: that costs every system the same."""
        embedding_before, began = self.embedder.seconds, time.perf_counter()
        retrieved = self.system.search(question.text, k)
        seconds = time.perf_counter() - began - (self.embedder.seconds - embedding_before)
        self._check(retrieved, history, question)
        if len(retrieved) > k:
            raise HybridMemError(f"{self.name} returned {len(retrieved)} items where {k} were asked for")
        return retrieved, seconds

    def _groups(self, history: _History, question: Question, retrieved: list[str]) -> list[str]:
        """The best groups, as many as the largest k; the ranking of items is read as deep as that takes."""
        wanted = max(self.experiment.group_ks, default=0)
        if not question.gold_groups or not wanted:
            return []
        depth = max(self.experiment.ks)
        ranking = metrics.group_ranking(retrieved, history.group_of)
        while len(ranking) < wanted and len(retrieved) == depth:
            depth *= _DEEPER
            retrieved, _ = self._search(history, question, depth)
            ranking = metrics.group_ranking(retrieved, history.group_of)
        return ranking[:wanted]

    def _context(self, history: _History, question: Question, budget: int | None) -> dict[str, Any]:
        """One context; ``budget`` None: of a system that knows none."""
        embedding_before, began = self.embedder.seconds, time.perf_counter()
        text, shown = self.system.context(question.text, budget or 0)
        seconds = time.perf_counter() - began - (self.embedder.seconds - embedding_before)
        self._check(shown, history, question)
        tokens = self.counter.count(text)
        if budget is not None and tokens > budget:
            raise HybridMemError(
                f"{self.name} made a context of {tokens} tokens ({self.counter.name}) for a budget of {budget}"
            )
        recall = {}
        if question.gold:
            recall["items"] = metrics.recall(shown, question.gold, max(1, len(shown)))
        if question.gold_groups:
            groups = metrics.group_ranking(shown, history.group_of)
            recall["groups"] = metrics.recall(groups, question.gold_groups, max(1, len(groups)))
        return {"tokens": tokens, "items": len(shown), "recall": recall, "ms": seconds * 1000.0}

    def _check(self, ids: Sequence[str], history: _History, question: Question) -> None:
        if len(set(ids)) < len(ids):
            raise HybridMemError(f"{self.name} returned an item twice: {', '.join(ids)}")
        strange = set(ids) - history.place_of.keys()
        if strange:
            raise HybridMemError(f"{self.name} returned ids not in the history: {', '.join(sorted(strange))}")
        items = history.corpus.moment(question).items
        early = [id_ for id_ in ids if history.place_of[id_] >= items]
        if early:
            raise HybridMemError(f"{self.name} returned items of the future of {question.id}: {', '.join(early)}")


def _refuse_large_k(experiment: Experiment, dataset: Dataset, histories: Sequence[_History]) -> None:
    """Of a history that grows, early questions may have too few candidates: they are left out of that figure, and
    counted. But some question must have enough."""
    for granularity, ks in (("items", experiment.ks), ("groups", experiment.group_ks)):
        for history in histories:
            sizes = [
                history.candidates(question)[granularity]
                for question in history.corpus.questions
                if figures.gold(question, granularity)
            ]
            if sizes:
                for k in ks:
                    metrics.check_k(k, max(sizes), f"{dataset.name} {history.corpus.id} ({granularity})")


def _describe(
    dataset: Dataset,
    experiment: Experiment,
    logs: Mapping[str, Log],
    histories: Sequence[_History],
    counter: TokenCounter,
) -> dict[str, Any]:
    log = next(iter(logs.values()))
    full = [history.full_tokens(len(history.corpus.items)) for history in histories]
    names = {"items": dataset.granularity}
    if dataset.group_granularity:
        names["groups"] = dataset.group_granularity
    return {
        "name": dataset.name,
        "source": dataset.source,
        "sha256": dataset.sha256,
        "granularity": names,
        "selection": dataset.selection,
        **dataset.counts(),
        "dropped": dataset.dropped,
        "token_counter": counter.name,
        "full_history_tokens": statistics.fmean(full),
        **figures.of_candidates(log, experiment),
    }


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None

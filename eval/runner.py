"""Runs an experiment: system by system, history by history, question by question. Writes and prints nothing."""

from __future__ import annotations

import contextlib
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from eval import metrics
from eval.embedding import SharedEmbedder
from eval.experiment import Experiment
from eval.systems.base import Factory, Setup, System
from eval.types import Corpus, Dataset, Question
from hybridmem.config import Config
from hybridmem.errors import HybridMemError
from hybridmem.ports import Embedder, TokenCounter

#: Called with what is going on and how many questions were answered since the last call.
Progress = Callable[[str, int], None]


def run(
    experiment: Experiment,
    dataset: Dataset,
    systems: Mapping[str, Factory],
    *,
    config: Config,
    embedder: Embedder,
    counter: TokenCounter,
    progress: Progress = lambda what, answered: None,
) -> dict[str, Any]:
    """The measurements, ready for JSON: ``data``, ``metrics`` per system, and the ``questions`` log per system.

    :raises InvalidInput: a k is not below the number of items of every history.
    :raises HybridMemError: a system failed, or returned what it may not. An error is never counted as a miss.
    """
    for corpus in dataset.corpora:
        for k in experiment.ks:
            metrics.check_k(k, len(corpus.items), f"{dataset.name} {corpus.id}")
    shared = SharedEmbedder(embedder)
    full = {corpus.id: _full_tokens(corpus, counter) for corpus in dataset.corpora}
    logs: dict[str, list[dict[str, Any]]] = {}
    for name, factory in systems.items():
        with tempfile.TemporaryDirectory(prefix="hybridmem-eval-") as directory:
            setup = Setup(Path(directory), config, shared, counter)
            with contextlib.closing(factory(setup)) as system:
                logs[name] = [
                    entry
                    for corpus in dataset.corpora
                    for entry in _ask(name, system, corpus, experiment, shared, counter, progress)
                ]
    return {
        "data": _describe(dataset, experiment, full, counter),
        "embedding_ms_per_query": _median([seconds * 1000.0 for seconds in shared.query_seconds]),
        "metrics": {name: summarise(log, experiment, full) for name, log in logs.items()},
        "questions": logs,
    }


def summarise(
    log: Sequence[Mapping[str, Any]], experiment: Experiment, full_tokens: Mapping[str, int]
) -> dict[str, Any]:
    """The figures of one system from its question log; averages are over questions."""
    result: dict[str, Any] = {}
    for k in experiment.ks:
        for name, metric in metrics.METRICS.items():
            values = [metric(entry["retrieved"], entry["gold"], k) for entry in log]
            result[f"{name}@{k}"] = statistics.fmean(values)
            if name == "recall":
                low, high = metrics.bootstrap_interval(values, seed=experiment.seed)
                result[f"recall@{k}_interval"] = [low, high]
    tokens = [entry["context_tokens"] for entry in log]
    result["context_tokens"] = statistics.median(tokens)
    result["context_tokens_max"] = max(tokens)
    result["context_recall"] = statistics.fmean(entry["context_recall"] for entry in log)
    result["compression"] = statistics.fmean(
        metrics.compression(entry["context_tokens"], full_tokens[entry["corpus"]]) for entry in log
    )
    result["ms_per_query"] = statistics.median(entry["ms"] for entry in log)
    return result


def _ask(
    name: str,
    system: System,
    corpus: Corpus,
    experiment: Experiment,
    shared: SharedEmbedder,
    counter: TokenCounter,
    progress: Progress,
) -> list[dict[str, Any]]:
    progress(f"{name}: reading {corpus.id}", 0)
    system.load(corpus)
    known = {item.id for item in corpus.items}
    log: list[dict[str, Any]] = []
    for question in corpus.questions:
        embedding_before, began = shared.seconds, time.perf_counter()
        retrieved = system.search(question.text, max(experiment.ks))
        # Embedding the question costs every vector system the same, and the second one finds it cached: left out.
        seconds = time.perf_counter() - began - (shared.seconds - embedding_before)
        text, shown = system.context(question.text, experiment.token_budget)
        for ids in (retrieved, shown):
            _check(name, ids, known)
        if len(retrieved) > max(experiment.ks):
            raise HybridMemError(f"{name} returned {len(retrieved)} items where {max(experiment.ks)} were asked for")
        tokens = counter.count(text)
        if tokens > experiment.token_budget:
            raise HybridMemError(
                f"{name} made a context of {tokens} tokens ({counter.name}) for a budget of {experiment.token_budget}"
            )
        log.append(_entry(corpus, question, retrieved, shown, tokens, seconds, experiment))
        progress(f"{name}: {corpus.id}", 1)
    return log


def _entry(
    corpus: Corpus,
    question: Question,
    retrieved: list[str],
    shown: list[str],
    tokens: int,
    seconds: float,
    experiment: Experiment,
) -> dict[str, Any]:
    recalls = {f"recall@{k}": metrics.recall(retrieved, question.gold, k) for k in experiment.ks}
    return {
        "id": question.id,
        "corpus": corpus.id,
        "category": question.category,
        "gold": list(question.gold),
        "retrieved": retrieved,
        **recalls,
        "context_tokens": tokens,
        "context_items": len(shown),
        "context_recall": metrics.recall(shown, question.gold, max(1, len(shown))),
        "ms": seconds * 1000.0,
    }


def _check(name: str, ids: Sequence[str], known: set[str]) -> None:
    if len(set(ids)) < len(ids):
        raise HybridMemError(f"{name} returned an item twice: {', '.join(ids)}")
    strange = set(ids) - known
    if strange:
        raise HybridMemError(f"{name} returned ids that are not in the history: {', '.join(sorted(strange))}")


def _describe(
    dataset: Dataset, experiment: Experiment, full: Mapping[str, int], counter: TokenCounter
) -> dict[str, Any]:
    sizes = [(len(corpus.items), len(corpus.questions)) for corpus in dataset.corpora]
    questions = sum(count for _, count in sizes)
    return {
        "name": dataset.name,
        "source": dataset.source,
        "sha256": dataset.sha256,
        "granularity": dataset.granularity,
        "selection": dataset.selection,
        **dataset.counts(),
        "dropped": dataset.dropped,
        "token_counter": counter.name,
        "full_history_tokens": statistics.fmean(full.values()),
        "chance": {
            f"recall@{k}": sum(metrics.chance_recall(k, items) * count for items, count in sizes) / questions
            for k in experiment.ks
        },
    }


def _full_tokens(corpus: Corpus, counter: TokenCounter) -> int:
    return counter.count("\n".join(item.content for item in corpus.items))


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None

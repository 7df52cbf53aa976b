"""The whole of it: every policy at every share on every history, and once with nothing forgotten."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np

from eval import experiment, results, significance
from eval.cache import VectorCache
from eval.datasets import DATASETS
from eval.embedding import SharedEmbedder
from eval.forgetting.online import Asked, Life, unnamed
from eval.forgetting.plan import NOTHING, Plan, Way
from eval.studies import Progress
from hybridmem import embed
from hybridmem.errors import InvalidInput

#: What is counted of each question, in this order: needed sessions, and those of them that were forgotten and found.
_Counts = np.ndarray[Any, np.dtype[np.float64]]
_NEEDED, _FORGOTTEN, _FOUND = 0, 1, 2


class Forgetting:
    """One experiment, ready to run."""

    unit = "questions"

    def __init__(self, plan: Plan, ways: Sequence[Way], data: Path, cache: Path | None = None) -> None:
        """
        :param cache: the file of a VectorCache; None: vectors are kept for as long as this object is.
        :raises ConfigError: there is no such data set.
        :raises InvalidInput: its questions are not asked online, or no session is evidence.
        """
        self._plan = plan
        self._ways = list(ways)
        self._data = data
        self._cache = cache
        self._dataset = experiment.pick(DATASETS, plan.dataset, "data set")(data)
        self._corpora = [unnamed(corpus, plan.loose) for corpus in self._dataset.corpora]
        for corpus in self._corpora:
            if any(question.after is None or not question.gold_groups for question in corpus.questions):
                raise InvalidInput(f"dataset: {plan.dataset} has questions that are not asked while its history grows")
        vectors = None if cache is None else VectorCache(cache)
        self._embedder = SharedEmbedder(embed.create(self._ways[0].config.embedding), vectors)

    @property
    def steps(self) -> int:
        """How many questions are asked, all in all."""
        return sum(len(corpus.questions) for corpus in self._corpora) * len(self._ways)

    def run(self, progress: Progress) -> dict[str, Any]:
        """The result document."""
        lives = self._lives(progress)
        grouped: dict[tuple[str, float], list[list[Asked]]] = {}
        for way, asked in zip(self._ways, lives, strict=True):
            grouped.setdefault((way.label, way.share), []).append(asked)
        counts = {key: _counted(several) for key, several in grouped.items()}
        nothing = counts[NOTHING, 0.0]
        lead = next(iter(self._plan.policies))
        histories = [corpus.id for corpus in self._corpora for _ in corpus.questions]
        found = [
            {
                "policy": label,
                "share": share,
                "lives": len(grouped[label, share]),
                "share_of_sessions": _share_gone(grouped[label, share]),
                **_figures(counts[label, share], self._plan.seed),
                "recall_lost": _mean(_recall(nothing) - _recall(counts[label, share]), self._plan.seed),
                "p": _p_value(counts[label, share], counts[lead, share], self._plan.seed),
                "histories": _by_history(counts[label, share], histories),
            }
            for label, share in grouped
            if label != NOTHING
        ]
        return {
            "format": results.FORMAT,
            results.FORGETTING: {
                "plan": self._plan.model_dump(mode="json"),
                "dataset": {**self._dataset.counts(), "name": self._dataset.name, "sha256": self._dataset.sha256},
                "nothing_forgotten": _figures(nothing, self._plan.seed),
                "policies": found,
            },
            "config": self._ways[0].config.model_dump(mode="json"),
            "provenance": results.provenance(self._embedder.identity),
            "questions": {
                "columns": [[f"{label} {share:g}" for label, share in counts]],
                "counts": list(_log(lives[0], counts)),
            },
        }

    # Living

    def live(self, way: int, corpus: int) -> list[Asked]:
        """One history, lived in one way; by their places."""
        one = self._ways[way]
        with tempfile.TemporaryDirectory(prefix="hybridmem-eval-") as folder:
            life = Life(
                self._corpora[corpus],
                Path(folder) / "store",
                one.config,
                self._embedder,
                policy=one.policy,
                share=one.share,
                k=self._plan.k,
            )
            return list(life.live())

    def _lives(self, progress: Progress) -> list[list[Asked]]:
        """What was asked in each way, through all histories."""
        done: dict[tuple[int, int], list[Asked]] = {}
        # The first way meets every text: after it the others find all vectors in the cache.
        for corpus in range(len(self._corpora)):
            done[0, corpus] = self.live(0, corpus)
            progress(NOTHING, len(done[0, corpus]))
        places = [(way, corpus) for way in range(1, len(self._ways)) for corpus in range(len(self._corpora))]
        for place, asked in self._spread(places):
            done[place] = asked
            progress(f"{self._ways[place[0]].label} {self._ways[place[0]].share:.0%}", len(asked))
        return [
            [one for corpus in range(len(self._corpora)) for one in done[way, corpus]] for way in range(len(self._ways))
        ]

    def _spread(self, places: Sequence[tuple[int, int]]) -> Iterator[tuple[tuple[int, int], list[Asked]]]:
        """Each life, as it is done: over all cores, if the vectors are where other processes can read them."""
        workers = min(os.cpu_count() or 1, len(places))
        if self._cache is None or workers < 2:
            yield from ((place, self.live(*place)) for place in places)
            return
        made = (self._plan, self._ways, self._data, self._cache)
        # Not forked: the connection to the cache must not be shared.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(workers, mp_context=context, initializer=_start, initargs=made) as pool:
            waiting = {pool.submit(_live, *place): place for place in places}
            for one in as_completed(waiting):
                yield waiting[one], one.result()


_here: Forgetting


def _start(plan: Plan, ways: Sequence[Way], data: Path, cache: Path) -> None:
    """Makes the experiment in a process of the pool."""
    global _here
    _here = Forgetting(plan, ways, data, cache)


def _live(way: int, corpus: int) -> list[Asked]:
    return _here.live(way, corpus)


# Counting


def _counted(lives: Sequence[Sequence[Asked]]) -> _Counts:
    """(n, 3) for each question, the mean over the lives."""
    counts = [[[len(one.needed), len(one.forgotten), len(one.found)] for one in asked] for asked in lives]
    return np.asarray(np.mean(counts, axis=0, dtype=np.float64))


def _recall(counts: _Counts) -> _Counts:
    return np.asarray(counts[:, _FOUND] / counts[:, _NEEDED])


def _figures(counts: _Counts, seed: int) -> dict[str, Any]:
    """Mis-forgetting over all needs of all questions, and the mean recall of a question, with their intervals."""
    low, high = significance.ratio_interval(counts[:, _FORGOTTEN], counts[:, _NEEDED], seed=seed)
    needed, forgotten = counts[:, _NEEDED].sum(), counts[:, _FORGOTTEN].sum()
    return {
        "needed": int(needed),
        "forgotten": float(forgotten),
        "mis_forgetting": {"mean": float(forgotten / needed), "low": low, "high": high},
        "recall": _mean(_recall(counts), seed),
    }


def _mean(values: _Counts, seed: int) -> dict[str, float]:
    low, high = significance.intervals(values[:, None], seed=seed)[0]
    return {"mean": float(values.mean()), "low": float(low), "high": float(high)}


def _p_value(counts: _Counts, lead: _Counts, seed: int) -> float:
    """The paired test of the first policy against this one, by what was forgotten, question by question."""
    return float(significance.p_values((counts - lead)[:, [_FORGOTTEN]], seed=seed)[0])


def _by_history(counts: _Counts, histories: Sequence[str]) -> dict[str, list[float]]:
    """[forgotten, needed] of each history."""
    names = np.array(histories)
    return {
        name: [float(counts[names == name, _FORGOTTEN].sum()), float(counts[names == name, _NEEDED].sum())]
        for name in dict.fromkeys(histories)
    }


def _share_gone(lives: Sequence[Sequence[Asked]]) -> float:
    """The share of the sessions in memory that were forgotten, as it was when the questions were asked."""
    asked = [one for life in lives for one in life]
    return sum(one.gone for one in asked) / max(1, sum(one.in_memory for one in asked))


def _log(asked: Sequence[Asked], counts: dict[tuple[str, float], _Counts]) -> Iterator[dict[str, Any]]:
    """Of each question what it needs, and by column how much of that was forgotten and found; means over seeds."""
    for place, one in enumerate(asked):
        rows = [counted[place].tolist() for counted in counts.values()]
        yield {
            "id": one.id,
            "needed": len(one.needed),
            "forgotten": [round(row[_FORGOTTEN], 3) for row in rows],
            "found": [round(row[_FOUND], 3) for row in rows],
        }

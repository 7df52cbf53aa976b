"""The runs of an experiment one after the other: data and models are loaded once, finished runs are passed over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval import experiment, results, runner
from eval.cache import VectorCache
from eval.datasets import DATASETS
from eval.embedding import SharedEmbedder
from eval.experiment import Run
from eval.systems import SYSTEMS
from eval.systems.base import Factory
from eval.types import Dataset
from hybridmem import embed, tokens
from hybridmem.config import EmbeddingConfig


@dataclass(frozen=True, slots=True)
class Done:
    """A run that has its result file. ``made`` is False when that was there already."""

    file: Path
    result: dict[str, Any]
    made: bool


class Batch:
    """Makes runs, and keeps between them what they share."""

    def __init__(self, data: Path, out: Path, *, limit: int | None = None, cache: VectorCache | None = None) -> None:
        """
        :param data: the folder with a folder per data set, or the folder or file of one; made data needs none.
        :param out: the folder for the result files.
        :param limit: ask only the first so many questions of each data set.
        """
        self._data = data
        self._out = out
        self._limit = limit
        self._cache = cache
        self._datasets: dict[str, Dataset] = {}
        self._embedders: dict[EmbeddingConfig, SharedEmbedder] = {}

    def questions(self, runs: Sequence[Run]) -> int:
        """How many questions there are to answer, each system counted; loads the data, so that what is missing or
        misspelt is found before anything is measured.

        :raises ConfigError: there is no data set or system of that name.
        :raises NotFound: the data is not there.
        """
        return sum(self._dataset(run).counts()["questions"] * len(_systems(run)) for run in runs)

    def make(self, run: Run, *, again: bool, progress: runner.Progress) -> Done:
        """Measures and writes a result file.

        :param again: whether to measure what has been measured with the same code, configuration, data and model.
        """
        dataset, embedder = self._dataset(run), self._embedder(run.config.embedding)
        known = results.head(run, embedder.identity, dataset.sha256, self._limit)
        file = self._out / results.file_name(known)
        there = None if again else results.finished(file, known["fingerprint"])
        if there is not None:
            progress("already there", dataset.counts()["questions"] * len(run.experiment.systems))
            return Done(file, there, made=False)
        counter = tokens.token_counter()
        measured = runner.run(run, dataset, _systems(run), embedder=embedder, counter=counter, progress=progress)
        result = results.complete(known, measured)
        results.write(file, result)
        return Done(file, result, made=True)

    def _dataset(self, run: Run) -> Dataset:
        if run.dataset not in self._datasets:
            load = experiment.pick(DATASETS, run.dataset, "data set")
            dataset: Dataset = load(self._data)
            self._datasets[run.dataset] = dataset if self._limit is None else dataset.first(self._limit)
        return self._datasets[run.dataset]

    def _embedder(self, config: EmbeddingConfig) -> SharedEmbedder:
        if config not in self._embedders:
            self._embedders[config] = SharedEmbedder(embed.create(config), self._cache)
        return self._embedders[config]


def _systems(run: Run) -> dict[str, Factory]:
    return {name: experiment.pick(SYSTEMS, name, "system") for name in run.experiment.systems}

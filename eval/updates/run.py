"""Corrections of the synthetic set, written in three ways, and asked about with the weights on and off."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from eval import experiment, results
from eval.cache import VectorCache
from eval.datasets import synthetic
from eval.embedding import SharedEmbedder
from eval.systems.base import Setup
from eval.systems.hybridmem import TreeMemory
from eval.types import Corpus, Item, Question
from hybridmem import config, embed, tokens
from hybridmem.errors import InvalidInput

#: How an agent says that something has changed: as any other memory; with a feedback that names what contradicts what;
#: in the place of what held before.
WAYS = ("plain", "feedback", "supersede")
#: The weights on, as they are by default, and off: relevance alone, and no correction recognised.
WEIGHTS: Mapping[str, Mapping[str, Any]] = {"on": {}, "off": {"retrieval": {"omega": 0.0, "corrections": False}}}
#: Hits that are looked at.
K = 40
#: Only what the user asks about now: questions of this kind have a corrected answer.
KIND = "update"
#: Called with what is being done, after every question.
Progress = Callable[[str, int], None]


@dataclass(frozen=True, slots=True)
class Asked:
    """A question about something that was corrected: the places of the newer and of the older note among the hits, from
    0; None: it is not among them."""

    id: str
    language: str
    newer: int | None
    older: int | None

    @property
    def right(self) -> bool | None:
        """Whether the newer one comes first; None: neither is among the hits."""
        if self.newer is None and self.older is None:
            return None
        return self.newer is not None and (self.older is None or self.newer < self.older)


class Updates:
    """The runs of some seeds, ready to be asked."""

    def __init__(self, seeds: Sequence[int], cache: VectorCache | None = None) -> None:
        self._seeds = tuple(seeds)
        self._corpora = [corpus for seed in seeds for corpus in synthetic.generate(seed).corpora]
        self._embedder = SharedEmbedder(embed.create(config.Config().embedding), cache)

    @property
    def steps(self) -> int:
        """How many questions are asked, all in all."""
        return len(WAYS) * len(WEIGHTS) * sum(len(list(_asked(corpus))) for corpus in self._corpora)

    def run(self, progress: Progress) -> dict[str, Any]:
        """The result document."""
        found: list[dict[str, Any]] = []
        logs: dict[str, list[dict[str, Any]]] = {}
        for way in WAYS:
            for weights, changes in WEIGHTS.items():
                records = list(self._records(way, changes, f"{way}, weights {weights}", progress))
                found.append({"way": way, "weights": weights, **_counts(records)})
                logs[f"{way} {weights}"] = [asdict(record) for record in records]
        return {
            "format": results.FORMAT,
            results.UPDATES: {"seeds": list(self._seeds), "runs": len(self._corpora), "k": K, "found": found},
            "provenance": results.provenance(self._embedder.identity),
            "questions": logs,
        }

    def _records(self, way: str, changes: Mapping[str, Any], doing: str, progress: Progress) -> Iterator[Asked]:
        plain = experiment.memory_config("default", changes, Path("eval updates"))
        for corpus in self._corpora:
            with tempfile.TemporaryDirectory() as folder:
                memory = Writing(Setup(Path(folder), plain, self._embedder, tokens.token_counter()), way)
                memory.load(corpus)
                try:
                    for question in _asked(corpus):
                        memory.advance(corpus.moment(question))
                        yield _judged(question, corpus, memory.search(question.text, K))
                        progress(doing, 1)
                finally:
                    memory.close()


class Writing(TreeMemory):
    """hybridmem, told of corrections in one of WAYS. Everything else is written as in every other experiment."""

    def __init__(self, setup: Setup, way: str) -> None:
        super().__init__(setup)
        self._way = way

    def load(self, corpus: Corpus) -> None:
        self._corrects = {late: early for early, late in corpus.corrections}
        super().load(corpus)

    def _store(self, batch: Sequence[Item], task: str) -> None:
        if self._way == "plain":
            super()._store(batch, task)
            return
        for corrects, run in groupby(batch, key=lambda item: item.id in self._corrects):
            items = list(run)
            if not corrects or self._way == "feedback":
                super()._store(items, task)
            for item in items if corrects else ():
                self._correct(item)

    def _correct(self, item: Item) -> None:
        memory, ids = self._open(), {item: node for node, item in self._items.items()}
        early = ids[self._corrects[item.id]]
        if self._way == "feedback":
            memory.feedback(early, contradicted_by=ids[item.id])
            return
        self._clock.reach(item.time)
        self._items[memory.supersede(early, item.content, type=item.type).id] = item.id


def parse(seeds: str) -> list[int]:
    """Seeds separated by commas. :raises InvalidInput: something else."""
    try:
        found = [int(part) for part in seeds.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < 0:
        raise InvalidInput(f"--seeds: must be whole numbers from 0, separated by commas, not {seeds!r}")
    return found


def file_name(result: Mapping[str, Any]) -> str:
    """``updates-<short sha>[-dirty].json``."""
    git = result["provenance"]["git"]
    return f"updates-{(git['sha'] or 'uncommitted')[:10]}{'-dirty' if git['sha'] and git['dirty'] else ''}.json"


def _asked(corpus: Corpus) -> Iterator[Question]:
    yield from (question for question in corpus.questions if question.category == KIND)


def _judged(question: Question, corpus: Corpus, hits: Sequence[str]) -> Asked:
    places = {item: place for place, item in enumerate(hits)}
    newer = question.gold[0]
    older = next(early for early, late in corpus.corrections if late == newer)
    return Asked(question.id, corpus.id.rpartition("-")[2], places.get(newer), places.get(older))


def _counts(records: Sequence[Asked]) -> dict[str, Any]:
    """Of the pairs of which one is among the hits, the share in which the newer one comes first; by language too."""
    languages = sorted({record.language for record in records})
    return {
        "pairs": len(records),
        "neither": sum(record.right is None for record in records),
        "newer_first": _share(records),
        "by_language": {name: _share([one for one in records if one.language == name]) for name in languages},
        "newer_at_5": sum(record.newer is not None and record.newer < 5 for record in records) / max(1, len(records)),
    }


def _share(records: Sequence[Asked]) -> float | None:
    judged = [record.right for record in records if record.right is not None]
    return sum(judged) / len(judged) if judged else None

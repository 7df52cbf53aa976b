"""Whether of two memories of the same thing the one that holds comes first, with the weights on and off.

On the synthetic set each pair is a note and its correction, written in several ways. On a published data set it is what
a question needs of its newest session and of an older one.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from eval import experiment, results, significance
from eval.cache import VectorCache
from eval.datasets import DATASETS, synthetic
from eval.embedding import SharedEmbedder
from eval.studies import Progress
from eval.systems.base import Setup
from eval.systems.hybridmem import TreeMemory
from eval.types import Corpus, Item, Question
from eval.updates.plan import Plan
from hybridmem import config, embed, tokens
from hybridmem.errors import InvalidInput

#: Of the synthetic questions those that have a corrected answer.
CORRECTED = "update"
#: How sessions of a published data set are written.
PUBLISHED = "as published"


@dataclass(frozen=True, slots=True)
class Asked:
    """A question about something that has changed: the places of the newer and of the older evidence among the hits,
    from 0; None: it is not among them. ``kind`` is the language, or '' where there is only one."""

    id: str
    kind: str
    newer: int | None
    older: int | None

    @property
    def right(self) -> bool | None:
        """Whether the newer one comes first; None: neither is among the hits."""
        if self.newer is None and self.older is None:
            return None
        return self.newer is not None and (self.older is None or self.newer < self.older)


@dataclass(frozen=True, slots=True)
class _Part:
    """What is asked of some histories, written in one way: ``asked`` says of each which questions, ``pair`` which items
    hold the newer and the older evidence of one."""

    data: str
    way: str
    corpora: tuple[Corpus, ...]

    def asked(self, corpus: Corpus) -> list[Question]:
        """All questions of a published one were chosen when it was read."""
        return [one for one in corpus.questions if self.way == PUBLISHED or one.category == CORRECTED]

    def judged(self, question: Question, corpus: Corpus, hits: Sequence[str]) -> Asked:
        places = {item: place for place, item in enumerate(hits)}
        newer, older = _by_session(question, corpus) if self.way == PUBLISHED else _by_note(question, corpus)
        kind = "" if self.way == PUBLISHED else corpus.id.rpartition("-")[2]
        return Asked(question.id, kind, _first(places, newer), _first(places, older))


class Updates:
    """One experiment, ready to run."""

    unit = "questions"

    def __init__(self, plan: Plan, configs: Mapping[str, config.Config], data: Path, cache: Path | None = None) -> None:
        """
        :param configs: by the labels of ``plan.weights``.
        :param cache: the file of a VectorCache; None: nothing is kept.
        :raises ConfigError: there is no such data set. NotFound: its data is not there.
        :raises InvalidInput: there is nothing to ask.
        """
        self._plan = plan
        self._configs = dict(configs)
        self._parts = [*_synthetic(plan), *_published(plan, data)]
        if not any(part.asked(corpus) for part in self._parts for corpus in part.corpora):
            raise InvalidInput("seeds, sessions: there is no question about something that has changed")
        vectors = None if cache is None else VectorCache(cache)
        self._embedder = SharedEmbedder(embed.create(next(iter(self._configs.values())).embedding), vectors)

    @property
    def steps(self) -> int:
        """How many questions are asked, all in all."""
        questions = sum(len(part.asked(corpus)) for part in self._parts for corpus in part.corpora)
        return len(self._configs) * questions

    def run(self, progress: Progress) -> dict[str, Any]:
        """The result document."""
        found: list[dict[str, Any]] = []
        logs: dict[str, list[dict[str, Any]]] = {}
        for part in self._parts:
            for label, settings in self._configs.items():
                doing = f"{part.data}, {part.way}, weights {label}"
                records = list(self._records(part, settings, doing, progress))
                found.append(
                    {"data": part.data, "way": part.way, "weights": label, **_figures(records, self._plan.seed)}
                )
                logs[f"{part.data}: {part.way}, weights {label}"] = [asdict(record) for record in records]
        return {
            "format": results.FORMAT,
            results.UPDATES: {"plan": self._plan.model_dump(mode="json"), "found": found},
            "configs": {label: one.model_dump(mode="json") for label, one in self._configs.items()},
            "provenance": results.provenance(self._embedder.identity),
            "questions": logs,
        }

    def _records(self, part: _Part, settings: config.Config, doing: str, progress: Progress) -> Iterator[Asked]:
        for corpus in part.corpora:
            with tempfile.TemporaryDirectory(prefix="hybridmem-eval-") as folder:
                memory = Writing(Setup(Path(folder), settings, self._embedder, tokens.token_counter()), part.way)
                memory.load(corpus)
                try:
                    for question in part.asked(corpus):
                        memory.advance(corpus.moment(question))
                        yield part.judged(question, corpus, memory.search(question.text, self._plan.k))
                        progress(doing, 1)
                finally:
                    memory.close()


class Writing(TreeMemory):
    """hybridmem, told of corrections in one way. Everything else is written as in every other experiment."""

    def __init__(self, setup: Setup, way: str) -> None:
        super().__init__(setup)
        self._way = way

    def load(self, corpus: Corpus) -> None:
        self._corrects = {late: early for early, late in corpus.corrections}
        super().load(corpus)

    def _store(self, batch: Sequence[Item], task: str) -> None:
        if self._way not in ("feedback", "supersede"):
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


# What is asked


def _synthetic(plan: Plan) -> Iterator[_Part]:
    for label, seeds in plan.seeds.items():
        corpora = tuple(corpus for seed in seeds for corpus in synthetic.generate(seed).corpora)
        yield from (_Part(f"synthetic, {label}", way, corpora) for way in plan.ways)


def _published(plan: Plan, data: Path) -> Iterator[_Part]:
    for name, category in plan.sessions.items():
        dataset = experiment.pick(DATASETS, name, "data set")(data)
        yield _Part(dataset.name, PUBLISHED, tuple(_changed(dataset.corpora, category)))


def _changed(corpora: Iterable[Corpus], category: str) -> Iterator[Corpus]:
    """Those with questions of the category whose evidence is in several sessions, which are all that they keep."""
    for corpus in corpora:
        kept = tuple(one for one in corpus.questions if one.category == category and len(one.gold_groups) > 1)
        if kept:
            yield Corpus(corpus.id, corpus.groups, corpus.items, kept)


def _by_note(question: Question, corpus: Corpus) -> tuple[set[str], set[str]]:
    newer = question.gold[0]
    return {newer}, {early for early, late in corpus.corrections if late == newer}


def _by_session(question: Question, corpus: Corpus) -> tuple[set[str], set[str]]:
    """Evidence of the newest session, and of the others: the turns that are marked in each, or else all of it."""
    places = {group.id: place for place, group in enumerate(corpus.groups)}
    newest = max(question.gold_groups, key=lambda id_: places[id_])

    def held(group: str) -> set[str]:
        turns = {item.id for item in corpus.items if item.group == group}
        return turns & set(question.gold) or turns

    return held(newest), {turn for group in question.gold_groups if group != newest for turn in held(group)}


def _first(places: Mapping[str, int], items: Iterable[str]) -> int | None:
    return min((places[item] for item in items if item in places), default=None)


# Figures


def _figures(records: Sequence[Asked], seed: int) -> dict[str, Any]:
    """Of the pairs of which one is among the hits, the share in which the newer one comes first; by kind too."""
    kinds = sorted({record.kind for record in records} - {""})
    return {
        "pairs": len(records),
        "neither": sum(record.right is None for record in records),
        "newer_first": _share([record.right for record in records], seed),
        "by_kind": {kind: _share([one.right for one in records if one.kind == kind], seed) for kind in kinds},
        "newer_at_5": _share([record.newer is not None and record.newer < 5 for record in records], seed),
    }


def _share(values: Sequence[bool | None], seed: int) -> dict[str, float] | None:
    """The share of True among those that are known, with its interval; None: none is known."""
    known = np.array([value for value in values if value is not None], dtype=np.float64)
    if not len(known):
        return None
    low, high = significance.intervals(known[:, None], seed=seed)[0]
    return {"mean": float(known.mean()), "low": float(low), "high": float(high)}

"""C062: a good figure cannot come from the sizes, the labels or chance: eighty questions, in Chinese and in English."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from cases.bilingual import memories, questions

from eval import runner
from eval.embedding import SharedEmbedder
from eval.experiment import Experiment, Run
from eval.systems import SYSTEMS
from eval.systems.hybridmem import TreeMemory
from eval.types import Corpus, Dataset, Group, Item, Moment, Question
from hybridmem.config import Config
from hybridmem.embed.hashing import HashingEmbedder
from hybridmem.errors import EmbeddingUnavailable, HybridMemError, InvalidInput
from hybridmem.tokens import EstimatedCounter

EXPERIMENT = Experiment(name="chance", datasets=("x",), systems=("x",), ks=(1, 5), group_ks=(), budgets=(), seeds=(0,))
QUIET = Config.model_validate({"index": {"background": False}})


def is_chinese(text: str) -> bool:
    return any("\u4e00" <= character <= "\u9fff" for character in text)


def dataset(language: str, prefix: str = "m") -> Dataset:
    """All 160 memories, and the questions that are asked in Chinese (also with English words in them) or in English.

    :param prefix: what the ids of the memories, the gold among them, begin with.
    """
    groups = tuple(Group(f"g{number}", task) for number, task in enumerate(memories()))
    texts = [(group.id, text) for group, below in zip(groups, memories().values(), strict=True) for text in below]
    items = tuple(Item(f"{prefix}{number}", group, text) for number, (group, text) in enumerate(texts))
    id_of = {item.text: item.id for item in items}
    asked = tuple(
        Question(f"q{number}", one.question, (id_of[one.answer],))
        for number, one in enumerate(questions())
        if is_chinese(one.question) == (language == "zh")
    )
    return Dataset("bilingual", "memory", language, (Corpus(language, groups, items, asked),), "0", "made here")


def run(data: Dataset, system: Any, seed: int = 0, experiment: Experiment = EXPERIMENT) -> dict[str, Any]:
    return runner.run(
        Run(experiment, QUIET, "x", seed), data, {"x": system}, embedder=SharedEmbedder(HashingEmbedder()),
        counter=EstimatedCounter(),
    )  # fmt: skip


def hit_rate(result: dict[str, Any], k: int) -> float:
    return float(result["metrics"]["x"]["figures"][f"items hit@{k}"]["mean"])


def retrieved(result: dict[str, Any]) -> list[list[str]]:
    return [entry["retrieved"] for entry in result["questions"]["x"]]


class Empty(TreeMemory):
    """hybridmem, asked everything and told nothing."""

    def load(self, corpus: Corpus) -> None:
        super().load(replace(corpus, groups=(), items=(), questions=()))
        self._types = ["event"]

    def advance(self, moment: Moment) -> None:
        pass


both = pytest.mark.parametrize("language", ["zh", "en"])


@both
def test_a_random_ranker_scores_near_chance_and_the_result_says_what_chance_is(language: str) -> None:
    """C062: over sixty seeds, at both cut-offs, within four standard errors."""
    data = dataset(language)
    results = [run(data, SYSTEMS["random"], seed) for seed in range(60)]
    for k in (1, 5):
        rates = [hit_rate(result, k) for result in results]
        assert results[0]["data"]["chance"][f"items recall@{k}"] == pytest.approx(k / 160)
        draws = len(rates) * len(data.corpora[0].questions)
        error = 4 * math.sqrt(k / 160 * (1 - k / 160) / draws)
        assert sum(rates) / len(rates) == pytest.approx(k / 160, abs=error)


@both
def test_an_empty_store_scores_zero(language: str) -> None:
    """C062: hybridmem itself without a memory, not a stand-in for it."""
    result = run(dataset(language), Empty)
    assert retrieved(result) == [[] for _ in retrieved(result)]
    assert hit_rate(result, 1) == hit_rate(result, 5) == 0.0


@both
@pytest.mark.parametrize("k", [160, 161, 1000])
def test_k_as_large_as_the_history_is_refused(language: str, k: int) -> None:
    """C062: returning everything is not retrieval; nothing runs."""
    experiment = EXPERIMENT.model_copy(update={"ks": (5, k)})
    with pytest.raises(InvalidInput, match=f"k={k} is not below the 160 candidates of bilingual {language}"):
        run(dataset(language), Empty, experiment=experiment)


@both
@pytest.mark.parametrize("name", ["hybridmem", "bm25", "random"])
def test_the_same_seed_gives_the_same_numbers(language: str, name: str) -> None:
    """C062: every ranking, not only the mean."""
    first, second = (run(dataset(language), SYSTEMS[name], seed=3) for _ in range(2))
    assert retrieved(first) == retrieved(second)
    assert hit_rate(first, 5) == hit_rate(second, 5)


@both
@pytest.mark.parametrize("name", ["hybridmem", "bm25"])
def test_ids_and_labels_are_no_hint(language: str, name: str) -> None:
    """C062: with the label in the id of every memory, and in the words of every question, nothing is found by it."""
    plain, labelled = dataset(language), dataset(language, "gold-answer-")
    assert retrieved(run(labelled, SYSTEMS[name])) == [
        [f"gold-answer-{id_.removeprefix('m')}" for id_ in ids] for ids in retrieved(run(plain, SYSTEMS[name]))
    ]
    (corpus,) = labelled.corpora
    told = replace(
        labelled,
        corpora=(replace(corpus, questions=tuple(replace(one, text=one.gold[0]) for one in corpus.questions)),),
    )
    assert hit_rate(run(told, SYSTEMS[name]), 5) < 0.2


@both
def test_copies_of_the_answer_are_not_the_answer(language: str) -> None:
    """C062: a store full of duplicates of the gold does not score by returning those; nor does one copy count twice."""
    (corpus,) = dataset(language).corpora
    question = corpus.questions[0]
    gold = next(item for item in corpus.items if item.id == question.gold[0])
    copies = tuple(replace(gold, id=f"copy{number}") for number in range(10))
    data = replace(dataset(language), corpora=(replace(corpus, items=(*corpus.items, *copies), questions=(question,)),))

    class Copies(Empty):
        def search(self, question: str, k: int) -> list[str]:
            return [f"copy{number}" for number in range(k)]

    assert hit_rate(run(data, Copies), 5) == 0.0


@both
def test_a_question_counts_once(language: str) -> None:
    """C062: the mean is over as many questions as there are, whatever was answered."""
    result = run(dataset(language), SYSTEMS["hybridmem"])
    figure = result["metrics"]["x"]["figures"]["items hit@5"]
    (corpus,) = dataset(language).corpora
    assert figure["n"] == len(corpus.questions) == len({one.text for one in corpus.questions})
    found = sum(bool(set(entry["gold"]) & set(entry["retrieved"][:5])) for entry in result["questions"]["x"])
    assert figure["mean"] == pytest.approx(found / len(corpus.questions))
    assert 0.5 < figure["mean"] < 1.0


@both
def test_a_failing_embedder_is_an_error_and_no_miss(language: str) -> None:
    """C062: neither while reading nor, of one question only, while asking."""
    last = dataset(language).corpora[0].questions[-1].text

    class Down(HashingEmbedder):
        def __init__(self, verb: str) -> None:
            super().__init__()
            self._verb = verb

        def embed_documents(self, texts: Sequence[str]) -> Any:
            if self._verb == "reading":
                raise EmbeddingUnavailable("the endpoint is down 服务不可用")
            return super().embed_documents(texts)

        def embed_query(self, text: str) -> Any:
            if self._verb == "asking" and text == last:
                raise EmbeddingUnavailable("the endpoint is down 服务不可用")
            return super().embed_query(text)

    for verb in ("reading", "asking"):
        with pytest.raises(HybridMemError, match="endpoint is down"):
            runner.run(
                Run(EXPERIMENT, QUIET, "x", 0), dataset(language), {"x": SYSTEMS["hybridmem"]},
                embedder=SharedEmbedder(Down(verb)), counter=EstimatedCounter(),
            )  # fmt: skip

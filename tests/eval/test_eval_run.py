"""Runs: what a system is told and may not do, what counts and what does not, and where vectors come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eval import metrics, runner
from eval.cache import VectorCache
from eval.datasets import locomo
from eval.embedding import SharedEmbedder
from eval.experiment import Experiment, Run
from eval.systems import SYSTEMS
from eval.systems.base import Setup, fill
from eval.types import Corpus, Dataset, Group, Item, Moment, Question
from hybridmem import embed
from hybridmem.config import Config, EmbeddingConfig
from hybridmem.errors import EmbeddingUnavailable, HybridMemError, InvalidInput
from hybridmem.ports import Embedder, Vectors
from hybridmem.tokens import token_counter

# bpe_openai opens its own data in an old way when it is imported first.
pytestmark = pytest.mark.filterwarnings("ignore:open_binary is deprecated:DeprecationWarning")

EXPERIMENT = Experiment(
    name="tiny", datasets=("locomo",), systems=("x",), ks=(1, 5, 10), group_ks=(1,), budgets=(30, 60), seeds=(7,)
)


class Characters:
    """Counts a token per character, so that budgets can be checked by eye."""

    name = "characters"

    def count(self, text: str) -> int:
        return len(text)


class Scripted:
    """A system that answers every question alike."""

    def __init__(self, retrieved: Sequence[str], text: str = "", shown: Sequence[str] = ()) -> None:
        self.retrieved, self.text, self.shown = list(retrieved), text, list(shown)
        self.closed = False

    def __call__(self, setup: Setup) -> Scripted:
        return self

    def load(self, corpus: Corpus) -> None:
        pass

    def advance(self, moment: Moment) -> None:
        pass

    def search(self, question: str, k: int) -> list[str]:
        return self.retrieved

    def context(self, question: str, token_budget: int) -> tuple[str, list[str]]:
        return self.text, self.shown

    def close(self) -> None:
        self.closed = True


def _hashing() -> Embedder:
    return embed.create(EmbeddingConfig(provider="hashing"))


def _run(dataset: Dataset, system: Any, experiment: Experiment = EXPERIMENT) -> dict[str, Any]:
    return _run_all(dataset, {"x": system}, experiment)


def _run_all(dataset: Dataset, systems: dict[str, Any], experiment: Experiment = EXPERIMENT) -> dict[str, Any]:
    plan = Run(experiment, Config(), "locomo", 7)
    return runner.run(plan, dataset, systems, embedder=SharedEmbedder(_hashing()), counter=Characters())


def _means(result: dict[str, Any], system: str = "x") -> dict[str, float]:
    return {name: figure["mean"] for name, figure in result["metrics"][system]["figures"].items()}


def _growing() -> Dataset:
    """Twelve turns in four sessions, asked twice on the way and once at the end."""
    groups = tuple(Group(f"s{number}", f"Session 会话 {number}") for number in range(4))
    items = tuple(Item(f"i{number}", f"s{number // 3}", f"text {number} 文本") for number in range(12))
    questions = (
        Question("early", "text 1", ("i1",), gold_groups=("s0",), after=3),
        Question("middle", "text 4", ("i4",), gold_groups=("s1", "s0"), after=6),
        Question("late", "text 11", ("i11",), gold_groups=("s3",), after=12),
    )
    return Dataset("set", "turn", "all", (Corpus("c", groups, items, questions),), "0", "made here", {}, "session")


class TestChance:
    def test_an_empty_store_scores_zero(self, data_folder: Path) -> None:
        result = _run(locomo.load(data_folder), Scripted([]))
        assert set(_means(result).values()) == {0.0}
        assert len(_means(result)) == len(metrics.METRICS) * len(EXPERIMENT.ks) + len(EXPERIMENT.budgets)
        recall = result["metrics"]["x"]["figures"]["items recall@10"]
        assert (recall["low"], recall["high"], recall["n"]) == (0.0, 0.0, 6)
        context = result["metrics"]["x"]["contexts"]["60"]
        assert (context["tokens"], context["tokens_max"], context["compression"]) == (0, 0, 1.0)

    def test_the_random_system_scores_what_the_result_calls_chance_at_every_seed(self, tmp_path: Path) -> None:
        items = tuple(Item(f"i{number}", "g", f"text {number} 文本") for number in range(100))
        questions = tuple(Question(f"q{number}", f"问题 {number}", (f"i{number % 100}",)) for number in range(1500))
        dataset = Dataset("set", "turn", "all", (Corpus("c", (), items, questions),), "0", "made here")
        means = []
        for seed in (0, 1):
            plan = Run(EXPERIMENT, Config(), "locomo", seed)
            shared = SharedEmbedder(_hashing())
            again = [
                runner.run(plan, dataset, {"x": SYSTEMS["random"]}, embedder=shared, counter=Characters())
                for _ in range(2)
            ]
            assert again[0]["data"]["chance"]["items recall@10"] == pytest.approx(0.1)
            means.append(_means(again[0])["items recall@10"])
            assert means[-1] == pytest.approx(0.1, abs=0.03)
            assert [entry["retrieved"] for entry in again[0]["questions"]["x"]] == [
                entry["retrieved"] for entry in again[1]["questions"]["x"]
            ]
        assert means[0] != means[1]

    def test_k_as_large_as_the_history_is_refused_before_anything_runs(self, data_folder: Path) -> None:
        system = Scripted(["D2:1"])
        experiment = EXPERIMENT.model_copy(update={"ks": (5, 16)})
        with pytest.raises(InvalidInput, match="k=16 is not below the 16 candidates of LoCoMo conv-en"):
            _run(locomo.load(data_folder), system, experiment)
        assert not system.closed

    def test_so_is_k_as_large_as_the_number_of_groups(self) -> None:
        with pytest.raises(InvalidInput, match=r"k=4 is not below the 4 candidates of set c \(groups\)"):
            _run(_growing(), Scripted([]), EXPERIMENT.model_copy(update={"group_ks": (4,)}))

    def test_a_text_that_repeats_the_gold_is_not_gold(self) -> None:
        items = (Item("gold", "g", "发票 42"), *(Item(f"copy{number}", "g", "发票 42") for number in range(15)))
        corpus = Corpus("c", (), items, (Question("q", "发票 42", ("gold",)),))
        result = _run(Dataset("set", "turn", "all", (corpus,), "0", "made"), Scripted(["copy0", "gold"]))
        assert (_means(result)["items recall@1"], _means(result)["items recall@5"]) == (0.0, 1.0)

    def test_a_budget_in_which_everything_fits_is_told(self, data_folder: Path) -> None:
        experiment = EXPERIMENT.model_copy(update={"budgets": (60, 100_000)})
        data = _run(locomo.load(data_folder), Scripted([]), experiment)["data"]
        assert data["everything_fits"] == {"100000": 6}


class TestGrowing:
    def test_a_system_gets_each_moment_and_neither_words_nor_gold(self) -> None:
        seen: list[Any] = []

        class Curious(Scripted):
            def load(self, corpus: Corpus) -> None:
                seen.append(corpus.start)
                assert all(not question.text and not question.gold for question in corpus.questions)
                assert not any(question.gold_groups for question in corpus.questions)

            def advance(self, moment: Moment) -> None:
                seen.append(moment.items)

        _run(_growing(), Curious([]))
        assert seen == [3, 3, 6, 12]

    def test_what_comes_later_may_not_be_returned(self) -> None:
        with pytest.raises(HybridMemError, match="items of the future of early: i7"):
            _run(_growing(), Scripted(["i1", "i7"]))

    def test_questions_with_too_few_candidates_are_left_out_and_counted(self) -> None:
        result = _run(_growing(), Scripted(["i1"]))
        figures = result["metrics"]["x"]["figures"]
        assert [figures[f"items recall@{k}"]["n"] for k in (1, 5, 10)] == [3, 2, 1]
        assert figures["groups recall@1"]["n"] == 2
        assert result["data"]["too_few"] == {"items recall@5": 1, "items recall@10": 2, "groups recall@1": 1}
        assert result["data"]["chance"]["items recall@5"] == pytest.approx((5 / 6 + 5 / 12) / 2)

    def test_full_history_means_what_is_in_memory(self) -> None:
        log = _run(_growing(), Scripted([]))["questions"]["x"]
        assert [entry["full_tokens"] for entry in log] == sorted({entry["full_tokens"] for entry in log})

    @pytest.mark.parametrize("name", [name for name in SYSTEMS if name != "full"])
    def test_every_system_goes_along(self, name: str) -> None:
        plan = Run(EXPERIMENT, Config.model_validate({"index": {"background": False}}), "locomo", 7)
        shared = SharedEmbedder(_hashing())
        result = runner.run(plan, _growing(), {"x": SYSTEMS[name]}, embedder=shared, counter=token_counter())
        log = result["questions"]["x"]
        assert [entry["candidates"]["items"] for entry in log] == [3, 6, 12]
        if name not in ("random", "newest", "latest_of_project"):
            assert log[2]["retrieved"][0] == "i11"
            assert log[2]["retrieved_groups"] == ["s3"]


class TestGroups:
    def test_the_ranking_is_read_until_there_are_enough_groups(self) -> None:
        items = tuple(Item(f"i{number}", f"g{number // 25}", f"text {number}") for number in range(100))
        question = Question("q", "?", (), gold_groups=("g3",))
        dataset = Dataset("set", "turn", "all", (Corpus("c", (), items, (question,)),), "0", "made", {}, "session")
        asked: list[int] = []

        class InOrder(Scripted):
            def search(self, question: str, k: int) -> list[str]:
                asked.append(k)
                return [item.id for item in items[:k]]

        result = _run(dataset, InOrder([]), EXPERIMENT.model_copy(update={"group_ks": (1, 3)}))
        assert asked == [10, 40, 160]
        (entry,) = result["questions"]["x"]
        assert (len(entry["retrieved"]), entry["retrieved_groups"]) == (10, ["g0", "g1", "g2"])
        assert "items recall@1" not in _means(result)
        assert _means(result)["groups recall@3"] == 0.0

    def test_a_group_is_in_a_context_when_one_of_its_items_is(self) -> None:
        result = _run(_growing(), Scripted([], "text", ["i1", "i0"]))
        assert _means(result)["groups recall in 60 tokens"] == pytest.approx((1 + 0.5 + 0) / 3)
        assert _means(result)["items recall in 60 tokens"] == pytest.approx(1 / 3)


class TestPairs:
    def test_each_other_system_is_tested_against_hybridmem(self, data_folder: Path) -> None:
        dataset = locomo.load(data_folder)
        systems = {"hybridmem": Scripted(["D2:1"]), "worse": Scripted([]), "same": Scripted(["D2:1"])}
        result = _run_all(_english(dataset), systems)
        assert set(result["tests"]) == {"worse", "same"}
        worse, same = (result["tests"][name]["items recall@5"] for name in ("worse", "same"))
        assert worse["difference"] == pytest.approx(1 / 3)
        assert worse["low"] <= worse["difference"] <= worse["high"]
        assert worse["p"] == 1.0  # one question of three says nothing
        assert same == {"difference": 0.0, "low": 0.0, "high": 0.0, "p": 1.0}

    def test_without_hybridmem_there_is_nothing_to_test(self, data_folder: Path) -> None:
        assert _run(locomo.load(data_folder), Scripted([]))["tests"] == {"x": {}}

    def test_the_full_history_has_contexts_and_no_ranking(self, data_folder: Path) -> None:
        systems = {"hybridmem": Scripted([]), "full": SYSTEMS["full"]}
        result = _run_all(locomo.load(data_folder), systems)
        full = result["metrics"]["full"]
        assert full["search_ms"] is None
        assert {name: figure["mean"] for name, figure in full["figures"].items()} == {"items recall in all tokens": 1.0}
        assert full["contexts"]["all"]["compression"] == 0.0
        assert result["tests"]["full"] == {}


def _english(dataset: Dataset) -> Dataset:
    return replace(dataset, corpora=dataset.corpora[:1])


@pytest.mark.parametrize(
    ("system", "message"),
    [
        (Scripted(["D2:1", "D2:1"]), "returned an item twice"),
        (Scripted(["D9:9"]), "not in the history: D9:9"),
        (Scripted([f"D2:{number}" for number in range(1, 9)] + ["D10:1", "D10:2", "D10:3"]), "returned 11 items"),
        (Scripted([], "长" * 61), "context of 61 tokens"),
        (Scripted([], "", ["D9:9"]), "not in the history: D9:9"),
    ],
)
def test_a_system_that_cheats_ends_the_run_and_is_closed(data_folder: Path, system: Scripted, message: str) -> None:
    with pytest.raises(HybridMemError, match=message):
        _run(locomo.load(data_folder), system)
    assert system.closed


def test_a_failing_embedder_is_an_error_and_not_a_miss(data_folder: Path) -> None:
    class Broken:
        identity = _hashing().identity

        def embed_documents(self, texts: Sequence[str]) -> Vectors:
            return _hashing().embed_documents(texts)

        def embed_query(self, text: str) -> Vectors:
            raise EmbeddingUnavailable("the endpoint is down")

    for name in ("chroma", "hybridmem"):
        with pytest.raises(HybridMemError, match="endpoint is down"):
            runner.run(
                Run(EXPERIMENT, Config(), "locomo", 7),
                locomo.load(data_folder),
                {name: SYSTEMS[name]},
                embedder=SharedEmbedder(Broken()),
                counter=Characters(),
            )


class Recording:
    """A model that notes what it is asked."""

    def __init__(self) -> None:
        self.identity = _hashing().identity
        self.asked: list[str] = []

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        self.asked.extend(texts)
        return _hashing().embed_documents(texts)

    def embed_query(self, text: str) -> Vectors:
        self.asked.append(text)
        return _hashing().embed_query(text)


class TestVectors:
    TEXTS = tuple(f"shared text 共享 {number}" for number in range(100))

    def test_each_text_goes_to_the_model_once_and_comes_back_in_order(self) -> None:
        model = Recording()
        shared = SharedEmbedder(model)
        vectors = shared.embed_documents([*self.TEXTS, self.TEXTS[0]])
        assert (vectors == _hashing().embed_documents([*self.TEXTS, self.TEXTS[0]])).all()
        assert (shared.embed_documents(self.TEXTS[:3]) == vectors[:3]).all()
        for _ in range(2):
            assert (shared.embed_query(self.TEXTS[0]) == _hashing().embed_query(self.TEXTS[0])).all()
        assert model.asked == [*self.TEXTS, self.TEXTS[0]]
        assert len(shared.query_seconds) == 1
        assert shared.embed_documents([]).shape == (0, 256)

    def test_a_cache_outlives_the_process_and_gives_the_very_same_numbers(self, tmp_path: Path) -> None:
        models = [Recording(), Recording()]
        found = []
        for model in models:
            vectors = VectorCache(tmp_path / "below" / "vectors.db")
            shared = SharedEmbedder(model, vectors)
            found.append((shared.embed_documents(self.TEXTS), shared.embed_query("问题")))
            vectors.close()
        assert [len(model.asked) for model in models] == [101, 0]
        assert (found[0][0] == found[1][0]).all()
        assert (found[0][1] == found[1][1]).all()

    def test_a_document_is_no_query_and_another_revision_is_another_model(self, tmp_path: Path) -> None:
        vectors = VectorCache(tmp_path / "vectors.db")
        identity = _hashing().identity
        vectors.put(identity, "document", [("文本", np.ones(256, dtype=np.float32))])
        assert list(vectors.get(identity, "document", ["文本", "other"])) == ["文本"]
        assert vectors.get(identity, "query", ["文本"]) == {}
        assert vectors.get(replace(identity, revision="2"), "document", ["文本"]) == {}
        vectors.close()

    def test_a_damaged_cache_is_an_error_that_says_which_file_to_delete(self, tmp_path: Path) -> None:
        file = tmp_path / "vectors.db"
        file.write_bytes(b"no database " * 1000)
        with pytest.raises(HybridMemError, match=r"vectors\.db: the cache of vectors cannot be used.*may be deleted"):
            VectorCache(file)


def test_a_context_is_filled_line_by_line_and_never_over_the_budget() -> None:
    lines = [("a", "报销单已退回"), ("b", "x" * 50), ("c", "ok"), ("d", "no room")]
    assert fill(lines, 11, Characters()) == ("报销单已退回\nok", ["a", "c"])
    assert fill(lines, 1, Characters()) == ("", [])


@pytest.mark.parametrize("name", ["hybridmem", "chroma", "bm25"])
def test_a_system_finds_a_text_asked_for_in_its_own_words(data_folder: Path, tmp_path: Path, name: str) -> None:
    counter = token_counter()
    setup = Setup(tmp_path / name, Config(), SharedEmbedder(_hashing()), counter)
    setup.directory.mkdir()
    system = SYSTEMS[name](setup)
    try:
        # Loading the second replaces the first: nothing of it may come back.
        for corpus in locomo.load(data_folder).corpora:
            system.load(corpus)
            for item in (corpus.items[0], corpus.items[6]):
                assert item.id in system.search(item.content, 2)
                text, shown = system.context(item.content, 120)
                assert item.id in shown
                assert item.text in text
                assert counter.count(text) <= 120
                assert set(shown) <= {known.id for known in corpus.items}
    finally:
        system.close()


def test_the_newest_window_reads_nothing_and_returns_the_end(data_folder: Path, tmp_path: Path) -> None:
    system = SYSTEMS["newest"](Setup(tmp_path, Config(), SharedEmbedder(_hashing()), Characters()))
    system.load(locomo.load(data_folder).corpora[0])
    assert system.search("anything 任何", 3) == ["D10:8", "D10:7", "D10:6"]

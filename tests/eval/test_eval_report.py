"""Tables, plots and the report: made from result files, and from nothing else."""

from __future__ import annotations

import copy
import json
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from eval import cli, results, runner, tables
from eval.embedding import SharedEmbedder
from eval.experiment import Experiment, Run
from eval.systems.base import Setup
from eval.types import Corpus, Dataset, Group, Item, Moment, Question
from hybridmem import config, embed
from hybridmem.config import EmbeddingConfig

# bpe_openai opens its own data in an old way when it is imported first.
pytestmark = pytest.mark.filterwarnings("ignore:open_binary is deprecated:DeprecationWarning")

QUESTIONS = 12


class Words:
    name = "words"

    def count(self, text: str) -> int:
        return len(text.split())


class Finds:
    """Finds the evidence of the first so many questions, at the first place."""

    def __init__(self, found: int) -> None:
        self._found = found

    def __call__(self, setup: Setup) -> Finds:
        return self

    def load(self, corpus: Corpus) -> None:
        pass

    def advance(self, moment: Moment) -> None:
        pass

    def search(self, question: str, k: int) -> list[str]:
        number = int(question.split()[-1])
        return [f"i{number}" if number < self._found else f"i{number + 1}"]

    def context(self, question: str, token_budget: int) -> tuple[str, list[str]]:
        return "two words", self.search(question, 1)

    def close(self) -> None:
        pass


def _result(
    found: dict[str, int],
    *,
    name: str = "tiny",
    dataset: str = "locomo",
    memory: dict[str, Any] | None = None,
    **values: Any,
) -> dict[str, Any]:
    """A result in which each system finds the evidence of so many of the twelve questions."""
    items = tuple(Item(f"i{number}", f"s{number % 4}", f"文本 text {number}") for number in range(40))
    questions = tuple(
        Question(f"q{number}", f"问题 {number}", (f"i{number}",), gold_groups=(f"s{number % 4}",))
        for number in range(QUESTIONS)
    )
    groups = tuple(Group(f"s{number}", f"s{number}") for number in range(4))
    data = Dataset("Made | up", "turn", "all", (Corpus("c", groups, items, questions),), "0", "test", {}, "session")
    experiment = Experiment(
        name=name,
        datasets=(dataset,),
        systems=tuple(found),
        ks=(5, 10),
        group_ks=(2,),
        budgets=(8, 16),
        memory=memory or {},
    )
    plan = Run(experiment, config.Config(), dataset, **values)
    embedder = SharedEmbedder(embed.create(EmbeddingConfig(provider="hashing")))
    systems = {system: Finds(number) for system, number in found.items()}
    measured = runner.run(plan, data, systems, embedder=embedder, counter=Words())
    return results.complete(results.head(plan, embedder.identity, data.sha256), measured)


@pytest.fixture
def single() -> dict[str, Any]:
    return _result({"hybridmem": 9, "hybridmem:no-tree": 6, "bm25": 3})


def _texts(rows: Sequence[Sequence[tables.Cell]]) -> list[list[str]]:
    return [[cell.text for cell in row] for row in rows]


class TestTables:
    def test_say_their_granularity_and_how_sure_they_are(self, single: dict[str, Any]) -> None:
        items, groups, contexts = tables.of_result(single)
        assert "turn level" in items.title
        assert "session level" in groups.title
        assert "turn evidence shown within a token budget" in contexts.title
        rows = _texts(items.rows)
        assert [row[:3] for row in rows] == [
            ["hybridmem", "75.0", "75.0"],
            ["hybridmem:no-tree", "50.0", "50.0"],
            ["bm25", "25.0", "25.0"],
        ]
        behind, p = rows[2][5:7]
        assert behind.startswith("+50.0 (+")
        # Six questions in one direction and none in the other: 2 of 64 sign assignments are as far out.
        assert float(p) == pytest.approx(2 / 64, abs=0.01)
        assert rows[0][5:7] == ["", ""]
        low, high = map(float, rows[0][4].split("–"))
        assert low < 75.0 < high

    def test_mark_the_best_of_each_column_only(self, single: dict[str, Any]) -> None:
        items = tables.of_result(single)[0]
        assert [[cell.best for cell in row[1:3]] for row in items.rows] == [
            [True, True],
            [False, False],
            [False, False],
        ]

    def test_show_compression_beside_recall_at_each_budget(self, single: dict[str, Any]) -> None:
        contexts = tables.of_result(single)[2]
        # 40 items of three words, and a context of two words.
        assert _texts(contexts.rows)[0][1:3] == ["75.0 (98.3)", "75.0 (98.3)"]
        assert contexts.columns[1:3] == ("8\ntokens", "16\ntokens")

    def test_of_a_sweep_have_a_row_for_each_point_that_makes_a_difference(self) -> None:
        key = "memory.retrieval.tree"
        points = [
            _result({"hybridmem": number, "bm25": 4}, point={key: value}) for number, value in ((6, 0.0), (9, 0.5))
        ]
        sheet = tables.of_points(points)
        assert sheet.columns[:2] == ("system", "retrieval.tree")
        assert [row[:3] for row in _texts(sheet.rows)] == [
            ["hybridmem", "0.0", "50.0"],
            ["hybridmem", "0.5", "75.0"],
            ["bm25", "any", "33.3"],
        ]

    def test_of_all_data_sets_average_seeds_and_then_data_sets(self) -> None:
        runs = [
            _result({"hybridmem": 12}, dataset="locomo"),
            _result({"hybridmem": 6}, dataset="realmem", seed=1),
            _result({"hybridmem": 3}, dataset="realmem", seed=2),
        ]
        sheet = tables.overview(runs)
        assert [column.split("\n")[0] for column in sheet.columns] == ["system", "locomo", "realmem", "mean"]
        assert _texts(sheet.rows) == [["hybridmem", "100.0", "37.5", "68.8"]]

    def test_of_all_data_sets_join_experiments_with_the_same_memory_only(self) -> None:
        runs = [
            _result({"hybridmem": 12}, name="one", dataset="locomo"),
            _result({"hybridmem": 6}, name="two", dataset="realmem"),
            _result({"hybridmem": 3}, name="three", dataset="realmem", memory={"retrieval": {"omega": 0.3}}),
        ]
        assert _texts(tables.overview(runs[:2]).rows) == [["hybridmem", "100.0", "50.0", "75.0"]]
        assert _texts(tables.overview(runs).rows) == [
            ["hybridmem", "{}", "100.0", "50.0", "75.0"],
            ["hybridmem", '{"retrieval": {"omega": 0.3}}', "–", "25.0", "–"],
        ]

    def test_markdown_has_as_many_cells_in_every_row(self, single: dict[str, Any]) -> None:
        for sheet in tables.of_result(single):
            lines = [line for line in sheet.markdown().splitlines() if line.startswith("|")]
            assert len(lines) == 2 + len(sheet.rows)
            assert {line.replace("\\|", "").count("|") for line in lines} == {1 + len(sheet.columns)}
        assert "**75.0**" in tables.of_result(single)[0].markdown()


def _write(folder: Path, *found: dict[str, Any]) -> list[Path]:
    files = [folder / results.file_name(result) for result in found]
    for file, result in zip(files, found, strict=True):
        results.write(file, result)
    return files


def _ask(*arguments: object) -> list[str]:
    done = CliRunner().invoke(cli.app, list(map(str, arguments)))
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines()


def _size(file: Path) -> tuple[int, int]:
    """Width and height of a PNG file, in pixels."""
    content = file.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", content[16:24])
    return width, height


class TestFiles:
    def test_a_report_has_every_table_and_plot_and_runs_nothing(
        self, single: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        other = _result({"hybridmem": 3, "bm25": 3}, name="other", dataset="madial-zh")
        _write(tmp_path / "runs", single, other)

        def run(*arguments: Any, **options: Any) -> None:
            raise AssertionError("a report measures nothing")

        monkeypatch.setattr(runner, "run", run)
        monkeypatch.setattr(embed, "create", run)
        printed = _ask("report", tmp_path / "runs", "--out", tmp_path / "report")
        report, *plots = map(Path, printed)
        text = report.read_text(encoding="utf-8")
        for sheet in [*tables.of_result(single), *tables.of_result(other)]:
            assert sheet.markdown() in text
        assert {plot.name for plot in plots} == {
            "tiny-locomo-recall.png",
            "tiny-locomo-ablation.png",
            "tiny-locomo-latency.png",
            "other-madial-zh-recall.png",
            "other-madial-zh-latency.png",
        }
        for plot in plots:
            assert f"({plot.name})" in text
            width, height = _size(plot)
            assert min(width, height) > 200

    def test_a_sweep_of_one_number_is_drawn_against_it(self, tmp_path: Path) -> None:
        points = [
            _result({"hybridmem": number, "bm25": 3}, point={"memory.retrieval.tree": value})
            for number, value in ((9, 0.5), (6, 0.0))
        ]
        printed = _ask("plot", *_write(tmp_path, *points), "--out", tmp_path / "plots")
        assert "tiny-locomo-sweep.png" in [Path(file).name for file in printed]

    def test_tables_are_printed_drawn_as_markdown_and_as_json(self, single: dict[str, Any], tmp_path: Path) -> None:
        (file,) = _write(tmp_path, single)
        assert any("hybridmem:no-tree" in line for line in _ask("table", file))
        assert any(line.startswith("| hybridmem | **75.0** |") for line in _ask("table", file, "--markdown"))
        (document,) = json.loads("\n".join(_ask("table", file, "--json")))
        assert document["metrics"] == json.loads(json.dumps(single["metrics"]))
        assert "questions" not in document

    def test_without_matplotlib_one_line_says_how_to_install_it(
        self, single: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (file,) = _write(tmp_path, single)
        for module in ("plots", "study_plots", "paper"):
            monkeypatch.delitem(sys.modules, f"eval.{module}", raising=False)
            monkeypatch.delattr(f"eval.{module}", raising=False)
        for module in ("matplotlib", "matplotlib.axes", "matplotlib.figure", "matplotlib.ticker"):
            monkeypatch.setitem(sys.modules, module, None)
        done = CliRunner().invoke(cli.app, ["plot", str(file), "--out", str(tmp_path / "plots")])
        assert (done.exit_code, done.stdout) == (1, "")
        assert "pip install 'hybridmem[eval]'" in done.stderr

    def test_results_of_another_version_are_refused(self, single: dict[str, Any], tmp_path: Path) -> None:
        old = copy.deepcopy(single) | {"format": 1}
        (file,) = _write(tmp_path, old)
        done = CliRunner().invoke(cli.app, ["table", str(file)])
        assert (done.exit_code, "another version" in done.stderr) == (2, True)

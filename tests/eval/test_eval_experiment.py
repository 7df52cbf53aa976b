"""The experiment file: one YAML, checked to the letter, and the runs it falls into."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eval import experiment, studies
from eval.consolidation import plan as consolidation
from eval.datasets import DATASETS
from eval.forgetting import plan as forgetting
from eval.systems import SYSTEMS
from eval.systems.ablations import CHANGES
from eval.updates import plan as updates
from hybridmem import config
from hybridmem.errors import ConfigError

MINIMAL = "name: mine\ndatasets: locomo\nsystems: [bm25]\n"
PLANS: dict[str, Any] = {"consolidation": consolidation.load, "forgetting": forgetting.load, "updates": updates.load}
IN_REPOSITORY = sorted((experiment.CONFIGS / "experiments").glob("*.yaml"))


def _load(tmp_path: Path, text: str) -> tuple[experiment.Experiment, list[experiment.Run]]:
    file = tmp_path / "mine.yaml"
    file.write_text(text, encoding="utf-8")
    return experiment.load(file)


def test_memory_is_laid_over_the_base_section_by_section(tmp_path: Path) -> None:
    found, (run,) = _load(tmp_path, MINIMAL + "memory:\n  retrieval: {omega: 0.3}\n")
    assert (found.ks, found.budgets, found.base) == ((5, 10, 20), (256, 512, 1024, 2048, 4096), "default")
    assert run.config == config.load(overrides={"retrieval.omega": 0.3, "weights.count_uses": False})


def test_without_memory_it_is_the_default_configuration_and_no_answer_depends_on_those_before(tmp_path: Path) -> None:
    """What is delivered is not counted, unless the experiment is about that."""
    assert _load(tmp_path, MINIMAL)[1][0].config == config.load(overrides={"weights.count_uses": False})
    counting = _load(tmp_path, MINIMAL + "memory:\n  weights: {count_uses: true}\n")[1][0].config
    assert counting == config.Config()


@pytest.mark.parametrize("file", IN_REPOSITORY, ids=lambda file: file.name)
def test_every_experiment_in_the_repository_loads_and_is_named_like_its_file(file: Path) -> None:
    kind = experiment.read(file).get("kind")
    if kind is not None:  # one of eval.studies has a shape of its own
        plan, _ = PLANS[kind](file)
        assert plan.name == file.stem
        return
    found, runs = experiment.load(file)
    assert found.name == file.stem
    assert {run.dataset for run in runs} <= set(DATASETS)
    assert set(found.systems) <= set(SYSTEMS)


def test_the_shape_of_every_kind_of_experiment_is_tested() -> None:
    kinds = {experiment.read(file).get("kind") for file in IN_REPOSITORY} - {None}
    assert kinds == set(PLANS) == set(studies.KINDS)


def test_every_ablation_changes_the_default_configuration_by_keys_that_exist() -> None:
    changed = [config.load(overrides=changes) for changes in CHANGES.values()]
    assert len(changed) == 5
    for each in changed:
        assert each != config.Config()
    assert {f"hybridmem:{name}" for name in [*CHANGES, "hard-cut"]} <= set(SYSTEMS)


class TestRuns:
    def test_there_is_one_for_each_data_set_seed_and_grid_point(self, tmp_path: Path) -> None:
        _, runs = _load(
            tmp_path,
            "name: mine\ndatasets: [locomo, realmem]\nsystems: [bm25]\nseeds: [1, 2]\n"
            "sweep:\n  memory.retrieval.tree: [0, 0.25, 0.5]\n  ks: [[5], [5, 10]]\n",
        )
        assert len(runs) == 2 * 2 * 3 * 2
        assert [(run.dataset, run.seed) for run in runs[:: 3 * 2]] == [
            ("locomo", 1),
            ("locomo", 2),
            ("realmem", 1),
            ("realmem", 2),
        ]
        second = runs[1]
        assert second.point == {"memory.retrieval.tree": 0, "ks": [5, 10]}
        assert second.experiment.ks == (5, 10)
        assert (second.experiment.datasets, second.experiment.seeds, second.experiment.sweep) == (("locomo",), (1,), {})
        assert [run.config.retrieval.tree for run in runs[:6]] == [0.0, 0.0, 0.25, 0.25, 0.5, 0.5]

    def test_a_point_wins_over_memory_and_leaves_the_rest_of_it(self, tmp_path: Path) -> None:
        _, runs = _load(
            tmp_path,
            MINIMAL + "memory:\n  retrieval: {omega: 0.3, tree: 0.9}\nsweep:\n  memory.retrieval.tree: [0.1]\n"
            "  memory.weights.half_life_days_by_type.fact: [7]\n",
        )
        memory = runs[0].config
        assert (memory.retrieval.omega, memory.retrieval.tree) == (0.3, 0.1)
        assert memory.weights.half_life_days_by_type["fact"] == 7.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (MINIMAL + "bugdets: [5]\n", "unknown key 'bugdets'; did you mean 'budgets'"),
        ("name: mine\ndataset: locomo\nsystems: [bm25]\n", "unknown key 'dataset'; did you mean 'datasets'"),
        (MINIMAL + "memory: {retrieval: {omgea: 0.3}}\n", "memory .*'retrieval.omgea'; did you mean 'retrieval.omega'"),
        (MINIMAL + "memory: {retrieval: {omega: 3}}\n", r"memory .*retrieval\.omega: .*less than 1"),
        (MINIMAL + "base: defualt\n", "no configs/defualt.yaml; there are: default"),
        (MINIMAL + "ks: [10, 5]\n", "ks: must be whole numbers above 0, rising"),
        (MINIMAL + "group_ks: [0]\n", "group_ks: must be whole numbers above 0, rising"),
        (MINIMAL + "budgets: [512, 512]\n", "budgets: must be whole numbers above 0, rising"),
        (MINIMAL + "ks: []\n", "ks: "),
        (MINIMAL + "seeds: [-1]\n", "seeds: must be whole numbers from 0"),
        (MINIMAL + "seeds: [3, 3]\n", "seeds: names something twice"),
        (MINIMAL + "sweep: {memory.retrieval.omgea: [0]}\n", "'memory.retrieval.omgea' .*'memory.retrieval.omega'"),
        (MINIMAL + "sweep: {retrieval.omega: [0]}\n", "'retrieval.omega' to vary; .*'memory.retrieval.omega'"),
        (MINIMAL + "sweep: {seeds: [1]}\n", "no key 'seeds' to vary"),
        (MINIMAL + "sweep: {memory.retrieval.omega: []}\n", "memory.retrieval.omega has no values"),
        (MINIMAL + "sweep: {memory.retrieval.omega: [0.1, 7]}\n", r"retrieval\.omega: .*less than 1"),
        (MINIMAL + "sweep: {ks: [[5], [10, 5]]}\n", "ks: must be whole numbers above 0, rising"),
        ("name: mine\ndatasets: locomo\nsystems: [bm25, bm25]\n", "systems: names something twice"),
        ("name: My Run\ndatasets: locomo\nsystems: [bm25]\n", "name: "),
        ("name: mine\nsystems: [bm25]\n", "the key 'datasets' is missing"),
        ("- a\n", "must hold keys and values"),
        ("a: [\n", "not valid YAML"),
    ],
)
def test_a_wrong_key_or_value_is_an_error_that_names_file_and_key(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=rf"mine\.yaml: .*{message}"):
        _load(tmp_path, text)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing\.yaml: there is no such file"):
        experiment.load(tmp_path / "nothing.yaml")


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"no system 'chrome'; did you mean 'chroma'\? \(there are: chroma, bm25\)"):
        experiment.pick({"chroma": 1, "bm25": 2}, "chrome", "system")

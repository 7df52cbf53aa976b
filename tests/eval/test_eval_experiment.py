"""The experiment file: one YAML, checked to the letter."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval import experiment
from hybridmem import config
from hybridmem.errors import ConfigError

MINIMAL = "name: mine\ndataset: locomo\nsystems: [bm25]\n"


def _load(tmp_path: Path, text: str) -> tuple[experiment.Experiment, config.Config]:
    file = tmp_path / "mine.yaml"
    file.write_text(text, encoding="utf-8")
    return experiment.load(file)


def test_memory_is_laid_over_the_base_section_by_section(tmp_path: Path) -> None:
    found, memory = _load(tmp_path, MINIMAL + "memory:\n  retrieval: {omega: 0.3}\n")
    assert (found.ks, found.token_budget, found.base) == ((5, 10, 20), 1024, "default")
    assert memory == config.load(overrides={"retrieval.omega": 0.3})


def test_without_memory_it_is_the_default_configuration(tmp_path: Path) -> None:
    assert _load(tmp_path, MINIMAL)[1] == config.Config()


@pytest.mark.parametrize(
    "file", sorted((experiment.CONFIGS / "experiments").glob("*.yaml")), ids=lambda file: file.name
)
def test_every_experiment_in_the_repository_loads_and_is_named_like_its_file(file: Path) -> None:
    assert experiment.load(file)[0].name == file.stem


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (MINIMAL + "token_buget: 5\n", "unknown key 'token_buget'; did you mean 'token_budget'"),
        (MINIMAL + "memory: {retrieval: {omgea: 0.3}}\n", "memory .*'retrieval.omgea'; did you mean 'retrieval.omega'"),
        (MINIMAL + "memory: {retrieval: {omega: 3}}\n", r"memory .*retrieval\.omega: .*less than or equal to 1"),
        (MINIMAL + "base: defualt\n", "no configs/defualt.yaml; there are: default"),
        (MINIMAL + "ks: [10, 5]\n", "ks: must be whole numbers above 0, rising"),
        (MINIMAL + "ks: []\n", "ks: "),
        ("name: mine\ndataset: locomo\nsystems: [bm25, bm25]\n", "names a system twice"),
        ("name: My Run\ndataset: locomo\nsystems: [bm25]\n", "name: "),
        ("name: mine\nsystems: [bm25]\n", "the key 'dataset' is missing"),
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

"""The experiment file: one YAML that says what is run on which data. Complete in itself but for ``base``.

A misspelt key is an error that names the file, the key and the nearest key that exists. An experiment falls into runs:
one for each data set, seed and point of the grid that ``sweep`` spans.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from hybridmem import config
from hybridmem.config import keys as _config_keys
from hybridmem.errors import ConfigError

CONFIGS = Path(__file__).resolve().parents[1] / "configs"
#: Over every base, unless the experiment says otherwise: an answer must not depend on the questions asked before it.
_UNCOUNTED = {"weights": {"count_uses": False}}

#: What a sweep cannot vary: the name of it all, and what is varied by other keys already.
_FIXED = frozenset({"name", "datasets", "seeds", "memory", "sweep"})


class Experiment(BaseModel):
    """What an experiment file holds. Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: Names the result files; lower-case letters, digits, - and _.
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")
    #: Names of ``eval.datasets.DATASETS``: a list, or one.
    datasets: tuple[str, ...] = Field(min_length=1)
    #: Names of ``eval.systems.SYSTEMS``, in the order of the table.
    systems: tuple[str, ...] = Field(min_length=1)
    #: The cut-offs at which metrics of items (e.g. turns) are reported; each below the number of items.
    ks: tuple[int, ...] = Field(default=(5, 10, 20), min_length=1)
    #: The same for groups (e.g. sessions), where a data set says which groups hold evidence; may be empty.
    group_ks: tuple[int, ...] = (5, 10)
    #: Tokens that a context may take; may be empty: then no contexts are made.
    budgets: tuple[int, ...] = (256, 512, 1024, 2048, 4096)
    #: Seeds of everything random: intervals, tests and the random system. A list, or one.
    seeds: tuple[int, ...] = Field(default=(0,), min_length=1)
    #: ``configs/<base>.yaml``, the memory configuration that ``memory`` changes.
    base: str = "default"
    #: Keys of hybridmem's configuration that differ from ``base``.
    memory: dict[str, Any] = Field(default_factory=dict)
    #: Dotted keys of this file (``memory.retrieval.tree``, ``ks``) to the values that each takes in turn.
    sweep: dict[str, list[Any]] = Field(default_factory=dict)

    @field_validator("datasets", "seeds", mode="before")
    @classmethod
    def _one_or_more(cls, value: Any) -> Any:
        return (value,) if isinstance(value, (str, int)) else value

    @field_validator("ks", "group_ks", "budgets")
    @classmethod
    def _rising(cls, numbers: tuple[int, ...]) -> tuple[int, ...]:
        if min(numbers, default=1) < 1 or list(numbers) != sorted(set(numbers)):
            raise ValueError("must be whole numbers above 0, rising, none twice")
        return numbers

    @field_validator("datasets", "systems", "seeds")
    @classmethod
    def _once(cls, names: tuple[Any, ...]) -> tuple[Any, ...]:
        if len(set(names)) < len(names):
            raise ValueError("names something twice")
        return names

    @field_validator("seeds")
    @classmethod
    def _usable(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        if min(seeds) < 0:
            raise ValueError("must be whole numbers from 0")
        return seeds

    @field_validator("sweep")
    @classmethod
    def _known(cls, sweep: dict[str, list[Any]]) -> dict[str, list[Any]]:
        for key, values in sweep.items():
            _check_key(key)
            if not values:
                raise ValueError(f"{key} has no values")
        return sweep


@dataclass(frozen=True, slots=True)
class Run:
    """One data set, one seed and one point of the grid of an experiment; every value is decided.

    ``experiment`` has the values of ``point`` in place, and its ``datasets``, ``seeds`` and ``sweep`` are what is left
    of them here: this data set, this seed, nothing. ``point`` holds the swept keys and their values, in order.
    """

    experiment: Experiment
    config: config.Config
    dataset: str
    seed: int = 0
    point: Mapping[str, Any] | None = None


def load(path: Path) -> tuple[Experiment, list[Run]]:
    """Reads an experiment file; every run that comes of it is checked before any is made.

    The runs go through the data sets, for each through its seeds, and for each through the grid.

    :raises ConfigError: the file or its base cannot be read, a key is unknown, or a value is out of range.
    """
    raw = read(path)
    experiment = _validated(raw, path)
    runs = [
        _run(experiment, path, dataset, seed, dict(zip(experiment.sweep, values, strict=True)))
        for dataset in experiment.datasets
        for seed in experiment.seeds
        for values in itertools.product(*experiment.sweep.values())
    ]
    return experiment, runs


def merge(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` with ``changes`` laid over it, section by section; neither is altered."""
    merged = dict(base)
    for key, value in changes.items():
        below = merged.get(key)
        merged[key] = merge(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return merged


def pick(table: Mapping[str, Any], name: str, what: str) -> Any:
    """The entry ``name`` of a table of names.

    :raises ConfigError: there is none; the message names the nearest and all there are.
    """
    if name in table:
        return table[name]
    raise ConfigError(f"there is no {what} {name!r}{_hint(name, list(table))} (there are: {', '.join(table)})")


def _run(experiment: Experiment, path: Path, dataset: str, seed: int, point: dict[str, Any]) -> Run:
    changes: dict[str, Any] = {}
    for key, value in point.items():
        *sections, last = key.split(".")
        nested: dict[str, Any] = {last: value}
        for section in reversed(sections):
            nested = {section: nested}
        changes = merge(changes, nested)
    left = {"datasets": (dataset,), "seeds": (seed,), "sweep": {}}
    decided = _validated({**merge(experiment.model_dump(), changes), **left}, path)
    return Run(decided, memory_config(decided.base, decided.memory, path), dataset, seed, point)


def memory_config(name: str, changes: Mapping[str, Any], path: Path) -> config.Config:
    """``configs/<name>.yaml`` with ``changes`` over it, for the experiment in the file ``path``.

    :raises ConfigError: there is no such file, or what comes of it is no configuration.
    """
    base = CONFIGS / f"{name}.yaml"
    if not base.is_file():
        known = ", ".join(sorted(file.stem for file in CONFIGS.glob("*.yaml")))
        raise ConfigError(f"{path}: base: there is no configs/{name}.yaml; there are: {known}")
    try:
        return config.load(merge(merge(read(base), _UNCOUNTED), changes))
    except ConfigError as error:
        reason = str(error).removeprefix("configuration: ")
        raise ConfigError(f"{path}: memory (over base {name!r}): {reason}") from error


def _check_key(key: str) -> None:
    """Refuses a key that a sweep cannot vary; what lies below a table of the memory's configuration is left to it."""
    known = [name for name in Experiment.model_fields if name not in _FIXED]
    known += [f"memory.{name}" for name in _config_keys()]
    if not any(key == name or (key.startswith(f"{name}.") and name.startswith("memory.")) for name in known):
        raise ValueError(f"there is no key {key!r} to vary{_hint(key, known)}")


def _validated(raw: Mapping[str, Any], path: Path) -> Experiment:
    try:
        return Experiment.model_validate(raw)
    except ValidationError as error:
        raise ConfigError(f"{path}: " + "; ".join(_describe(item) for item in error.errors())) from error


def read(path: Path) -> dict[str, Any]:
    """The keys and values of a YAML file. :raises ConfigError: it is not there, or holds something else."""
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: is not valid YAML: {error}") from error
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: must hold keys and values, not {type(data).__name__}")
    return data


def _describe(item: Any) -> str:
    key = ".".join(str(part) for part in item["loc"])
    if item["type"] == "extra_forbidden":
        return f"unknown key {key!r}{_hint(key, list(Experiment.model_fields))}"
    if item["type"] == "missing":
        return f"the key {key!r} is missing"
    return f"{key}: {item['msg'].removeprefix('Value error, ')} (given: {item.get('input')!r})"


def _hint(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    return f"; did you mean {near[0]!r}?" if near else ""

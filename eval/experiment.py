"""The experiment file: one YAML that says what is run on which data. Complete in itself but for ``base``.

A misspelt key is an error that names the file, the key and the nearest key that exists.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from hybridmem import config
from hybridmem.errors import ConfigError

CONFIGS = Path(__file__).resolve().parents[1] / "configs"


class Experiment(BaseModel):
    """What an experiment file holds. Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: Names the result file; lower-case letters, digits, - and _.
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")
    #: A name of ``eval.datasets.DATASETS``.
    dataset: str
    #: Names of ``eval.systems.SYSTEMS``, in the order of the table.
    systems: tuple[str, ...] = Field(min_length=1)
    #: The cut-offs at which metrics are reported; each below the number of candidates.
    ks: tuple[int, ...] = Field(default=(5, 10, 20), min_length=1)
    #: Tokens that a context may take.
    token_budget: int = Field(default=1024, ge=1)
    #: Seed of the bootstrap.
    seed: int = 0
    #: ``configs/<base>.yaml``, the memory configuration that ``memory`` changes.
    base: str = "default"
    #: Keys of hybridmem's configuration that differ from ``base``.
    memory: dict[str, Any] = Field(default_factory=dict)

    @field_validator("ks")
    @classmethod
    def _rising(cls, ks: tuple[int, ...]) -> tuple[int, ...]:
        if min(ks) < 1 or list(ks) != sorted(set(ks)):
            raise ValueError("must be whole numbers above 0, rising, none twice")
        return ks

    @field_validator("systems")
    @classmethod
    def _once(cls, systems: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(systems)) < len(systems):
            raise ValueError("names a system twice")
        return systems


def load(path: Path) -> tuple[Experiment, config.Config]:
    """Reads an experiment file, and the memory configuration that comes of its ``base`` and ``memory``.

    :raises ConfigError: the file or its base cannot be read, a key is unknown, or a value is out of range.
    """
    try:
        experiment = Experiment.model_validate(_read(path))
    except ValidationError as error:
        raise ConfigError(f"{path}: " + "; ".join(_describe(item) for item in error.errors())) from error
    base = CONFIGS / f"{experiment.base}.yaml"
    if not base.is_file():
        known = ", ".join(sorted(file.stem for file in CONFIGS.glob("*.yaml")))
        raise ConfigError(f"{path}: base: there is no configs/{experiment.base}.yaml; there are: {known}")
    try:
        return experiment, config.load(merge(_read(base), experiment.memory))
    except ConfigError as error:
        reason = str(error).removeprefix("configuration: ")
        raise ConfigError(f"{path}: memory (over base {experiment.base!r}): {reason}") from error


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
    near = difflib.get_close_matches(name, table, n=1, cutoff=0.4)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ConfigError(f"there is no {what} {name!r}{hint} (there are: {', '.join(table)})")


def _read(path: Path) -> dict[str, Any]:
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
        near = difflib.get_close_matches(key, Experiment.model_fields, n=1, cutoff=0.4)
        return f"unknown key {key!r}" + (f"; did you mean {near[0]!r}?" if near else "")
    if item["type"] == "missing":
        return f"the key {key!r} is missing"
    return f"{key}: {item['msg'].removeprefix('Value error, ')} (given: {item.get('input')!r})"

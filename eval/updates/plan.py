"""The file of an experiment on what holds now."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from eval import experiment
from hybridmem import config
from hybridmem.errors import ConfigError

#: How an agent says that something has changed: as any other memory; with a feedback that names what contradicts what;
#: in the place of what held before.
Way = Literal["plain", "feedback", "supersede"]


class Plan(BaseModel):
    """What the file holds. Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: Tells what the experiment is; see eval.studies.
    kind: Literal["updates"]
    #: Names the result file; lower-case letters, digits, - and _.
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")
    #: Label → seeds of the data set "synthetic". Each label is reported apart.
    seeds: dict[str, tuple[int, ...]] = Field(default_factory=dict)
    #: How the corrections of these are written, each in turn.
    ways: tuple[Way, ...] = ("plain", "feedback", "supersede")
    #: Name of ``eval.datasets.DATASETS`` → category of its questions whose evidence is in several sessions, of which
    #: the newest holds. They are written as they are published.
    sessions: dict[str, str] = Field(default_factory=dict)
    #: Label → keys of hybridmem's configuration that differ from ``base`` and ``memory``.
    weights: dict[str, dict[str, Any]] = Field(min_length=1)
    #: Hits that are looked at.
    k: int = Field(default=40, ge=1)
    #: Of intervals.
    seed: int = Field(default=0, ge=0)
    #: ``configs/<base>.yaml``, the memory configuration that ``memory`` changes.
    base: str = "default"
    #: Keys of hybridmem's configuration that differ from ``base``.
    memory: dict[str, Any] = Field(default_factory=dict)


def load(path: Path) -> tuple[Plan, dict[str, config.Config]]:
    """Reads such an experiment, and the configuration of each of its ``weights``.

    :raises ConfigError: a file cannot be read, a key is unknown, or a value is out of range.
    """
    raw = experiment.read(path)
    try:
        plan = Plan.model_validate(raw)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
        raise ConfigError(f"{path}: {problems}") from error
    return plan, {
        label: experiment.memory_config(plan.base, experiment.merge(plan.memory, changes), path)
        for label, changes in plan.weights.items()
    }

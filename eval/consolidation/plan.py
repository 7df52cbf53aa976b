"""The file of a consolidation experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from eval import experiment
from hybridmem import config
from hybridmem.errors import ConfigError


class Plan(BaseModel):
    """What the file holds. Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: Tells what the experiment is; see eval.studies.
    kind: Literal["consolidation"]
    #: Names the result file; lower-case letters, digits, - and _.
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")
    #: Label → seeds of the synthetic runs, each of which gives ``runs`` of them. Each label is reported apart.
    seeds: dict[str, tuple[int, ...]] = Field(min_length=1)
    #: Runs of a seed, and in each tasks and nodes, as in eval.datasets.synthetic.
    runs: int = Field(default=3, ge=1)
    tasks: int = Field(default=9, ge=1)
    nodes: int = Field(default=300, ge=1)
    #: How often everything is consolidated.
    passes: int = Field(default=3, ge=1)
    #: Notes of chatter that each task gets before each further pass, so that there is something to summarise again.
    later_notes: int = Field(default=8, ge=1)
    #: ``configs/<base>.yaml``, the memory configuration that ``memory`` changes.
    base: str = "default"
    #: Keys of hybridmem's configuration that differ from ``base``.
    memory: dict[str, Any] = Field(default_factory=dict)


def load(path: Path) -> tuple[Plan, config.Config]:
    """Reads a consolidation experiment, and the configuration that it runs with.

    :raises ConfigError: a file cannot be read, a key is unknown, or a value is out of range.
    """
    raw = experiment.read(path)
    try:
        plan = Plan.model_validate(raw)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
        raise ConfigError(f"{path}: {problems}") from error
    return plan, experiment.memory_config(plan.base, plan.memory, path)

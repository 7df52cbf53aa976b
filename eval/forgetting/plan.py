"""The file of a forgetting experiment: which policies, how much each forgets, on which data.

Like the other experiments (hybridmem's configuration is ``base`` with ``memory`` over it), and told from them by its
keys ``policies`` and ``shares``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from eval import experiment
from hybridmem import config
from hybridmem.errors import ConfigError


class Plan(BaseModel):
    """What the file holds. Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: Names the result file; lower-case letters, digits, - and _.
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")
    #: A name of ``eval.datasets.DATASETS``; its questions are asked while the history grows and need sessions.
    dataset: str
    #: Label → a policy as ``Memory.forget(policy=…)`` takes it. The first is the one that the others are compared with.
    policies: dict[str, dict[str, Any]] = Field(min_length=1)
    #: Shares of the sessions so far that are forgotten, each in (0, 1).
    shares: tuple[float, ...] = Field(min_length=1)
    #: Groups at the root that are no task: their sessions are given without a name, under the person.
    loose: tuple[str, ...] = ()
    #: The cut-off of retrieval.
    k: int = Field(default=10, ge=1)
    #: Of everything random.
    seed: int = Field(default=0, ge=0)
    #: ``configs/<base>.yaml``, the memory configuration that ``memory`` changes.
    base: str = "default"
    #: Keys of hybridmem's configuration that differ from ``base``.
    memory: dict[str, Any] = Field(default_factory=dict)

    @field_validator("shares")
    @classmethod
    def _rising(cls, shares: tuple[float, ...]) -> tuple[float, ...]:
        if list(shares) != sorted(set(shares)) or not 0.0 < shares[0] <= shares[-1] < 1.0:
            raise ValueError("must rise, each above 0 and below 1")
        return shares


def load(path: Path) -> tuple[Plan, config.Config]:
    """Reads a forgetting experiment, and the configuration that it runs with.

    :raises ConfigError: a file cannot be read, a key is unknown, or a value is out of range.
    """
    raw = experiment.read(path)
    try:
        plan = Plan.model_validate(raw)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
        raise ConfigError(f"{path}: {problems}") from error
    return plan, experiment.memory_config(plan.base, plan.memory, path)

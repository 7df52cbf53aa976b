"""The file of a forgetting experiment: which policies, how much each forgets, on which data.

Like the other experiments: hybridmem's configuration is ``base`` with ``memory`` over it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from eval import experiment
from hybridmem import config
from hybridmem.errors import ConfigError, InvalidInput

#: What the life without any forgetting is called.
NOTHING = "nothing"


class Plan(BaseModel):
    """What the file holds. Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: Tells what the experiment is; see eval.studies.
    kind: Literal["forgetting"]
    #: Names the result file; lower-case letters, digits, - and _.
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")
    #: A name of ``eval.datasets.DATASETS``; its questions are asked while the history grows and need sessions.
    dataset: str
    #: Label → a policy as ``Memory.forget(policy=…)`` takes it. The first is the one that the others are compared with.
    policies: dict[str, dict[str, Any]] = Field(min_length=1)
    #: Label → keys of hybridmem's configuration that differ; each is lived with the first policy, beside it.
    variants: dict[str, dict[str, Any]] = Field(default_factory=dict)
    #: Shares of the sessions so far that are forgotten, each in (0, 1).
    shares: tuple[float, ...] = Field(min_length=1)
    #: Of the policies that draw: each is lived once with every seed, and the lives count together.
    random_seeds: tuple[int, ...] = Field(default=(0,), min_length=1)
    #: Groups at the root that are no task: their sessions are given without a name, under the person.
    loose: tuple[str, ...] = ()
    #: The cut-off of retrieval.
    k: int = Field(default=10, ge=1)
    #: Of intervals and tests.
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

    @model_validator(mode="after")
    def _told_apart(self) -> Plan:
        labels = [NOTHING, *self.policies, *self.variants]
        if len(set(labels)) < len(labels):
            raise ValueError(f"policies and variants: a label stands twice, or is {NOTHING!r}")
        return self


@dataclass(frozen=True, slots=True)
class Way:
    """One way to live: ``policy`` as ``Memory.forget(policy=…)`` takes it, None: nothing is forgotten; ``share`` of the
    sessions forgotten; ``config`` of the memory. Ways with one ``label`` and ``share`` count together."""

    label: str
    share: float
    policy: dict[str, Any] | None
    config: config.Config


def ways(plan: Plan, path: Path) -> Iterator[Way]:
    """All that are lived, the one that forgets nothing first.

    :raises ConfigError: what a policy or a variant holds cannot be.
    """
    settings = experiment.memory_config(plan.base, plan.memory, path)
    yield Way(NOTHING, 0.0, None, settings)
    first = next(iter(plan.policies.values()))
    lived = [(label, policy, settings) for label, policy in plan.policies.items()]
    for label, changes in plan.variants.items():
        changed = experiment.memory_config(plan.base, experiment.merge(plan.memory, changes), path)
        lived.append((label, first, changed))
    for label, policy, settings in lived:
        is_drawn = policy.get("policy") == "random" and "seed" not in policy
        for share in plan.shares:
            for drawn in [{"seed": seed} for seed in plan.random_seeds] if is_drawn else [{}]:
                # The policy says which, the share how many.
                whole = {**policy, **drawn, "max_nodes": 0}
                config.policy(whole)
                yield Way(label, share, whole, settings)


def load(path: Path) -> tuple[Plan, list[Way]]:
    """Reads a forgetting experiment, and all that is to be lived.

    :raises ConfigError: a file cannot be read, a key is unknown, or a value is out of range.
    """
    raw = experiment.read(path)
    try:
        plan = Plan.model_validate(raw)
        return plan, list(ways(plan, path))
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
        raise ConfigError(f"{path}: {problems}") from error
    except InvalidInput as error:
        raise ConfigError(f"{path}: policies: {error}") from error

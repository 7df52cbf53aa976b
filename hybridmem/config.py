"""Configuration: one validated object, whatever its source. Every default here equals ``configs/default.yaml``.

A key that does not exist is an error that names the file, the key and the nearest key that does. Values may contain
``${NAME}``, replaced from the environment; an unset one is an error.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from hybridmem.config_file import read
from hybridmem.errors import ConfigError, InvalidInput, shown


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class StoreConfig(Section):
    durability: Literal["full", "process"] = "full"
    busy_timeout_seconds: float = Field(default=5.0, ge=0.0, le=3600.0)
    layout: Literal["shared", "separate"] = "shared"
    secure_delete: bool = True


class EmbeddingConfig(Section):
    provider: Literal["auto", "bundled", "sentence-transformers", "openai", "hashing"] = "auto"
    model: str | None = None
    local_files_only: bool = False
    base_url: str | None = None
    api_key_env: str = "OPENAI_API_KEY"
    dimension: int | None = Field(default=None, ge=1, le=65536)
    batch_size: int = Field(default=64, ge=1, le=4096)
    piece_tokens: int = Field(default=128, ge=16, le=32_768)
    piece_overlap: int = Field(default=32, ge=0)
    timeout_seconds: float = Field(default=30.0, gt=0.0, le=3600.0)
    retries: int = Field(default=3, ge=0, le=20)

    @model_validator(mode="after")
    def _model_named_where_needed(self) -> EmbeddingConfig:
        if self.provider in ("sentence-transformers", "openai") and not self.model:
            raise ValueError(f"embedding.model must be set when embedding.provider is {self.provider!r}")
        if self.provider in ("bundled", "hashing") and self.model:
            raise ValueError(f"embedding.model must not be set: {self.provider!r} has no choice of models")
        if self.provider == "openai" and not self.base_url:
            raise ValueError("embedding.base_url must be set when embedding.provider is 'openai'")
        return self

    @model_validator(mode="after")
    def _overlap_within_a_piece(self) -> EmbeddingConfig:
        if 2 * self.piece_overlap > self.piece_tokens:
            raise ValueError("embedding.piece_overlap must be at most half of embedding.piece_tokens")
        return self


class IndexConfig(Section):
    background: bool = True
    batch_size: int = Field(default=256, ge=1, le=5000)
    exact_limit: int = Field(default=10_000, ge=0, le=1_000_000)
    cache_mb: int = Field(default=512, ge=0, le=1_000_000)
    close_wait_seconds: float = Field(default=30.0, ge=0.0, le=3600.0)
    url: str | None = None
    timeout_seconds: float = Field(default=5.0, gt=0.0, le=3600.0)
    headers_env: dict[str, str] = {}

    @field_validator("url")
    @classmethod
    def _plain_address(cls, url: str | None) -> str | None:
        if url is None:
            return None
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise ValueError(f"index.url must be an address such as http://127.0.0.1:8000: {error}") from None
        if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
            raise ValueError("index.url must be an address such as http://127.0.0.1:8000")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError("index.url must be an address alone; secrets go into headers, see index.headers_env")
        return url.rstrip("/")


class WeightConfig(Section):
    importance: float = Field(default=0.5, ge=0.0)
    recency: float = Field(default=0.2, ge=0.0)
    confidence: float = Field(default=0.2, ge=0.0)
    frequency: float = Field(default=0.1, ge=0.0)
    count_uses: bool = True
    curve: Literal["half_life", "ebbinghaus"] = "half_life"
    half_life_days: float = Field(default=30.0, gt=0.0)
    half_life_days_by_type: dict[str, float] = {"preference": 365.0, "fact": 180.0, "decision": 90.0}
    default_importance: dict[str, float] = {"preference": 0.9, "task": 0.8, "decision": 0.8, "fact": 0.6, "event": 0.5,
                                            "note": 0.4}  # fmt: skip
    other_importance: float = Field(default=0.5, ge=0.0, le=1.0)
    importance_estimator: Literal["type", "rules"] = "type"
    default_confidence: float = Field(default=0.7, ge=0.0, le=1.0)

    @model_validator(mode="after")
    def _usable(self) -> WeightConfig:
        if self.importance + self.recency + self.confidence + self.frequency <= 0:
            raise ValueError("at least one of weights.importance, recency, confidence, frequency must be above 0")
        for name, value in self.default_importance.items():
            if not 0.0 <= value <= 1.0:
                raise ValueError(f"weights.default_importance.{name} must lie in [0, 1], not {value}")
        for name, value in self.half_life_days_by_type.items():
            if value <= 0.0:
                raise ValueError(f"weights.half_life_days_by_type.{name} must be above 0, not {value}")
        return self


class RetrievalConfig(Section):
    k: int = Field(default=10, ge=0, le=10_000)
    blend: Literal["linear", "bounded"] = "linear"
    omega: float = Field(default=0.1, ge=0.0, lt=1.0)
    vector: float = Field(default=1.0, ge=0.0)
    lexical: float = Field(default=0.9, ge=0.0)
    tree: float = Field(default=0.5, ge=0.0, le=1.0)
    neighbour: float = Field(default=0.35, ge=0.0, le=1.0)
    speaker: float = Field(default=0.15, ge=0.0, le=1.0)
    date: float = Field(default=0.1, ge=0.0, le=1.0)
    recent: float = Field(default=0.15, ge=0.0, le=1.0)
    tree_decay: float = Field(default=1.0, ge=0.0, le=1.0)
    vote_share: float = Field(default=0.5, ge=0.0)
    active_task_prior: float = Field(default=0.5, ge=0.0, le=1.0)
    corrections: bool = True
    widen_below: float = Field(default=0.4, ge=0.0, le=1.0)
    located_subtrees: int = Field(default=5, ge=1, le=1000)
    diversity: float = Field(default=0.0, ge=0.0, le=1.0)
    reranker: str | None = Field(default=None, min_length=1)
    rerank_candidates: int = Field(default=50, ge=1, le=10_000)

    @model_validator(mode="after")
    def _usable(self) -> RetrievalConfig:
        if self.vector + self.lexical <= 0:
            raise ValueError("at least one of retrieval.vector and retrieval.lexical must be above 0")
        return self


class ContextConfig(Section):
    token_budget: int = Field(default=1000, ge=1, le=10_000_000)
    order: Literal["tree", "time", "score"] = "tree"
    candidates: int = Field(default=50, ge=1, le=10_000)
    format: Literal["text", "markdown", "messages", "json"] = "text"
    dates: bool | None = None
    relevance_floor: float = Field(default=0.0, ge=0.0, le=1.0)


class CheckpointConfig(Section):
    every_operations: int = Field(default=100, ge=0)
    every_seconds: float = Field(default=300.0, ge=0.0)
    backup_every_hours: float = Field(default=0.0, ge=0.0)
    keep_backups: int = Field(default=5, ge=0)


#: What each forgetting policy needs besides, or may have, of the parameters that are not common to all.
_OWN_PARAMETERS = {"decay": "threshold", "age": "days", "random": "seed"}
#: Policies that go on for as long as there is more than a cap, and so need one.
_CAPPED = ("least_weight", "least_recently_used", "newest", "random")


class Policy(Section):
    """A forgetting policy with its parameters; see hybridmem.policies for what each does.

    ``threshold`` (decay): in [0, 1]. ``days`` (age): since the last activity, > 0. ``seed`` (random): ≥ 0.
    ``max_nodes``, ``max_tokens``, ``max_share``: caps; nothing goes once no more than each of those given is left of
    the memories that the policy counts (``max_share`` is a share, in [0, 1], of what there is when it begins).
    ``types``: only memories of these types; None: of all. ``within``: only below the node of this id; None: everywhere.
    """

    policy: Literal["decay", "least_weight", "age", "least_recently_used", "newest", "random"]
    threshold: float | None = Field(default=None, ge=0.0, le=1.0)
    days: float | None = Field(default=None, gt=0.0, le=1_000_000.0)
    seed: int | None = Field(default=None, ge=0, le=2**32 - 1)
    max_nodes: int | None = Field(default=None, ge=0)
    max_tokens: int | None = Field(default=None, ge=0)
    max_share: float | None = Field(default=None, ge=0.0, le=1.0)
    types: tuple[str, ...] | None = Field(default=None, min_length=1)
    within: str | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _fits(self) -> Policy:
        for owner, name in _OWN_PARAMETERS.items():
            if self.policy != owner and getattr(self, name) is not None:
                raise ValueError(f"{name} is a parameter of the policy {owner!r}, not of {self.policy!r}")
        if self.policy == "age" and self.days is None:
            raise ValueError("the policy 'age' needs days: how many without any activity are too many")
        if self.policy in _CAPPED and not self.has_cap:
            raise ValueError(f"the policy {self.policy!r} needs max_nodes, max_tokens or max_share")
        return self

    @property
    def has_cap(self) -> bool:
        return (self.max_nodes, self.max_tokens, self.max_share) != (None, None, None)


def policy(value: Policy | Mapping[str, Any] | str) -> Policy:
    """A policy from its name, or from a mapping with ``policy`` and its parameters.

    :raises InvalidInput: there is no such policy or parameter, one is missing, or a value is out of range.
    """
    if isinstance(value, Policy):
        return value
    if not isinstance(value, (str, Mapping)):
        raise InvalidInput(
            f"policy: must be the name of a policy, a mapping with 'policy' and its parameters, a list of these, or "
            f"'configured', not {shown(value)}"
        )
    given = {"policy": value} if isinstance(value, str) else dict(value)
    try:
        return Policy.model_validate(given)
    except ValidationError as error:
        raise InvalidInput("policy: " + "; ".join(_wrong_parameter(item) for item in error.errors())) from None


def _wrong_parameter(item: Any) -> str:
    name = ".".join(str(part) for part in item["loc"])
    if item["type"] == "extra_forbidden":
        near = difflib.get_close_matches(name, Policy.model_fields, n=1, cutoff=0.4)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        return f"unknown parameter {shown(name)}{hint} Known: {', '.join(Policy.model_fields)}"
    message = item["msg"].removeprefix("Value error, ")
    if name in ("", "policy"):  # the message begins with the word
        return f"{message} (given: {shown(item.get('input'))})" if name else message
    return f"{name}: {message} (given: {shown(item.get('input'))})"


class ForgettingConfig(Section):
    policies: list[Policy] = []
    batch: int = Field(default=500, ge=1, le=100_000)
    retention_days: float | None = Field(default=30.0, ge=0.0, le=1_000_000.0)
    every_operations: int | None = Field(default=None, ge=1)
    every_seconds: float | None = Field(default=None, gt=0.0, le=1e9)
    limit: int = Field(default=1000, ge=1)
    recency: float = Field(default=1.0, ge=0.0)
    task: float = Field(default=1.0, ge=0.0)
    opening: float = Field(default=0.5, ge=0.0)
    frequency: float = Field(default=0.3, ge=0.0)
    importance: float = Field(default=3.0, ge=0.0)
    confidence: float = Field(default=1.0, ge=0.0)
    half_place: float = Field(default=8.0, gt=0.0)

    @model_validator(mode="after")
    def _usable(self) -> ForgettingConfig:
        coefficients = (self.recency, self.task, self.opening, self.frequency, self.importance, self.confidence)
        if sum(coefficients) <= 0:
            raise ValueError(
                "at least one of forgetting.recency, task, opening, frequency, importance, confidence must be above 0"
            )
        return self


class ConsolidationConfig(Section):
    summarizer: Literal["extractive", "openai"] = "extractive"
    budget_share: float = Field(default=0.3, gt=0.0, lt=1.0)
    min_tokens: int = Field(default=100, ge=1)
    model: str | None = None
    base_url: str | None = None
    api_key_env: str = "OPENAI_API_KEY"
    timeout_seconds: float = Field(default=60.0, gt=0.0, le=3600.0)
    retries: int = Field(default=3, ge=0, le=20)

    @model_validator(mode="after")
    def _endpoint_named_where_needed(self) -> ConsolidationConfig:
        for name in ("model", "base_url"):
            if (self.summarizer == "openai") != bool(getattr(self, name)):
                needs = "must be set" if self.summarizer == "openai" else "must not be set"
                raise ValueError(f"consolidation.{name} {needs} when consolidation.summarizer is {self.summarizer!r}")
        return self


class EncryptionConfig(Section):
    enabled: bool = False
    key: str | None = Field(default="env:HYBRIDMEM_KEY", pattern=r"^(env|file):.+$")


class AuditConfig(Section):
    enabled: bool = True
    reads: bool = True
    queries: Literal["hash", "plain", "none"] = "hash"
    flush_seconds: float = Field(default=1.0, ge=0.0, le=3600.0)
    retention_days: float | None = Field(default=None, gt=0.0, le=1_000_000.0)


class ErasureConfig(Section):
    summaries: Literal["remake", "flag"] = "remake"
    wait_seconds: float = Field(default=10.0, ge=0.0, le=3600.0)


class Config(Section):
    store: StoreConfig = StoreConfig()
    encryption: EncryptionConfig = EncryptionConfig()
    embedding: EmbeddingConfig = EmbeddingConfig()
    index: IndexConfig = IndexConfig()
    weights: WeightConfig = WeightConfig()
    retrieval: RetrievalConfig = RetrievalConfig()
    context: ContextConfig = ContextConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    forgetting: ForgettingConfig = ForgettingConfig()
    consolidation: ConsolidationConfig = ConsolidationConfig()
    audit: AuditConfig = AuditConfig()
    erasure: ErasureConfig = ErasureConfig()


def load(
    source: str | Path | Mapping[str, Any] | Config | None = None, overrides: Mapping[str, Any] | None = None
) -> Config:
    """Reads and validates a configuration.

    :param source: a YAML file, a mapping, a Config, or None for the defaults.
    :param overrides: dotted keys to values, e.g. ``{"retrieval.k": 5}``; they win over the source.
    :raises ConfigError: the file cannot be read or parsed, a key is unknown, a value out of range, or a NAME unset.
    """
    if isinstance(source, Config):
        name, data = "configuration", source.model_dump()
    elif isinstance(source, (str, Path)):
        name, data = str(source), read(Path(source))
    else:
        name, data = "configuration", dict(source or {})
    try:
        data = _expand(data, name, "")
    except RecursionError:
        raise ConfigError(f"{name}: is nested far deeper than any key of a configuration is") from None
    for key, value in (overrides or {}).items():
        _set(data, key, value)
    try:
        return Config.model_validate(data)
    except ValidationError as error:
        raise ConfigError(f"{name}: " + "; ".join(_describe(item) for item in error.errors())) from None


def _expand(value: Any, name: str, key: str) -> Any:
    """Replaces ``${NAME}`` in strings from the environment."""
    if isinstance(value, dict):
        return {k: _expand(v, name, f"{key}.{k}".lstrip(".")) for k, v in value.items()}
    if isinstance(value, list):
        return [_expand(v, name, key) for v in value]
    if not isinstance(value, str):
        return value

    def replace(match: re.Match[str]) -> str:
        found = os.environ.get(match.group(1))
        if found is None:
            raise ConfigError(f"{name}: {key}: the environment variable {match.group(1)} is not set")
        return found

    return re.sub(r"\$\{(\w+)\}", replace, value)


def _set(data: dict[str, Any], dotted: str, value: Any) -> None:
    *parents, last = dotted.split(".")
    for part in parents:
        inner = data.get(part)
        data[part] = dict(inner) if isinstance(inner, Mapping) else {}
        data = data[part]
    data[last] = value


def keys(model: type[BaseModel] = Config, prefix: str = "") -> list[str]:
    """Every dotted key of the configuration, in order."""
    found: list[str] = []
    for name, info in model.model_fields.items():
        kind = info.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            found += keys(kind, f"{prefix}{name}.")
        else:
            found.append(prefix + name)
    return found


def _describe(item: Any) -> str:
    key = ".".join(str(part) for part in item["loc"])
    if item["type"] == "extra_forbidden":
        sections = list(Config.model_fields)
        near = difflib.get_close_matches(key, keys() + sections, n=1, cutoff=0.4)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        return f"unknown key {shown(key)}{hint}"
    message, given = item["msg"].removeprefix("Value error, "), item.get("input")
    where = f"{key}: " if key else ""
    said = f" (given: {shown(given)})" if not isinstance(given, (dict, BaseModel)) else ""
    if key == "encryption.key":
        message = "must be env:NAME or file:PATH"
    if key in ("encryption", "encryption.key"):
        said = " (what is there is not shown: it may be a key)"
    return f"{where}{message}{said}"

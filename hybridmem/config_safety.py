"""The sections of the configuration that are about keeping people's data safe, and what every section is."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


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

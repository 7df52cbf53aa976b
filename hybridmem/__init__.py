"""hybridmem: memory for long-running AI agents. ``from hybridmem import Memory`` is all that most programs need."""

from hybridmem.config import Config
from hybridmem.errors import (
    ConfigError,
    Conflict,
    EmbeddingMismatch,
    EmbeddingUnavailable,
    HybridMemError,
    IndexUnavailable,
    InvalidInput,
    NotFound,
    StoreBusy,
    StoreClosed,
    StoreDamaged,
    StoreFull,
    StoreTooNew,
)
from hybridmem.memory import Memory
from hybridmem.types import (
    Checkpoint,
    Context,
    Hit,
    ImportReport,
    Node,
    Operation,
    ResumePoint,
    ScoreDetails,
    SearchResult,
    Stats,
    Task,
)

__version__ = "0.1.0"

__all__ = [
    "Checkpoint",
    "Config",
    "ConfigError",
    "Conflict",
    "Context",
    "EmbeddingMismatch",
    "EmbeddingUnavailable",
    "Hit",
    "HybridMemError",
    "ImportReport",
    "IndexUnavailable",
    "InvalidInput",
    "Memory",
    "Node",
    "NotFound",
    "Operation",
    "ResumePoint",
    "ScoreDetails",
    "SearchResult",
    "Stats",
    "StoreBusy",
    "StoreClosed",
    "StoreDamaged",
    "StoreFull",
    "StoreTooNew",
    "Task",
    "__version__",
]

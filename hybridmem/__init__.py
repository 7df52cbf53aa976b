"""hybridmem: memory for long-running AI agents. ``from hybridmem import Memory`` is all that most programs need.

Names are loaded when they are first used, so that ``import hybridmem`` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hybridmem.backup_restore import restore_backup
    from hybridmem.changes import Change, HistoryEntry, NodeChange, Pruned, PruneReport, PurgeReport, RestoreReport
    from hybridmem.config import Config, Policy
    from hybridmem.consolidated import Consolidated, ConsolidationReport
    from hybridmem.doctor import repair, verify
    from hybridmem.erase_check import verify_erasure
    from hybridmem.erased import ErasureCheck, ErasureReceipt
    from hybridmem.errors import (
        AccessDenied,
        ConfigError,
        Conflict,
        EmbeddingMismatch,
        EmbeddingUnavailable,
        EncryptionError,
        HybridMemError,
        IndexUnavailable,
        InvalidInput,
        NotFound,
        RerankerUnavailable,
        StoreBusy,
        StoreClosed,
        StoreDamaged,
        StoreFull,
        StoreTooNew,
        SummarizerUnavailable,
        TaskClaimed,
    )
    from hybridmem.findings import Finding, Report
    from hybridmem.memory import Memory
    from hybridmem.ports import KeyProvider
    from hybridmem.principals import Grant, Principal, SharedSubtree
    from hybridmem.reencrypt import ReencryptReport, encrypt
    from hybridmem.results import (
        Context,
        Dropped,
        DuplicateGroup,
        Hit,
        Kept,
        Lookalikes,
        Merged,
        NearDuplicates,
        Observed,
        ScoreDetails,
        SearchResult,
    )
    from hybridmem.types import (
        AuditEntry,
        AuditPruned,
        Backup,
        Checkpoint,
        Claim,
        ImportReport,
        Node,
        Operation,
        ReembedReport,
        RestoredBackup,
        ResumePoint,
        StateChange,
        Stats,
        Task,
    )
    from hybridmem.users import erase_user, export_user

__version__ = "0.1.0"

__all__ = [
    "AccessDenied",
    "AuditEntry",
    "AuditPruned",
    "Backup",
    "Change",
    "Checkpoint",
    "Claim",
    "Config",
    "ConfigError",
    "Conflict",
    "Consolidated",
    "ConsolidationReport",
    "Context",
    "Dropped",
    "DuplicateGroup",
    "EmbeddingMismatch",
    "EmbeddingUnavailable",
    "EncryptionError",
    "ErasureCheck",
    "ErasureReceipt",
    "Finding",
    "Grant",
    "HistoryEntry",
    "Hit",
    "HybridMemError",
    "ImportReport",
    "IndexUnavailable",
    "InvalidInput",
    "Kept",
    "KeyProvider",
    "Lookalikes",
    "Memory",
    "Merged",
    "NearDuplicates",
    "Node",
    "NodeChange",
    "NotFound",
    "Observed",
    "Operation",
    "Policy",
    "Principal",
    "PruneReport",
    "Pruned",
    "PurgeReport",
    "ReembedReport",
    "ReencryptReport",
    "Report",
    "RerankerUnavailable",
    "RestoreReport",
    "RestoredBackup",
    "ResumePoint",
    "ScoreDetails",
    "SearchResult",
    "SharedSubtree",
    "StateChange",
    "Stats",
    "StoreBusy",
    "StoreClosed",
    "StoreDamaged",
    "StoreFull",
    "StoreTooNew",
    "SummarizerUnavailable",
    "Task",
    "TaskClaimed",
    "__version__",
    "encrypt",
    "erase_user",
    "export_user",
    "repair",
    "restore_backup",
    "verify",
    "verify_erasure",
]

#: Where the public names live, in the order in which they are looked for.
_MODULES = (
    "hybridmem.errors", "hybridmem.types", "hybridmem.results", "hybridmem.changes", "hybridmem.consolidated",
    "hybridmem.erased", "hybridmem.findings", "hybridmem.config", "hybridmem.principals", "hybridmem.memory",
    "hybridmem.backup_restore", "hybridmem.doctor", "hybridmem.users", "hybridmem.erase_check", "hybridmem.ports",
    "hybridmem.reencrypt",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in __all__:
        for module in _MODULES:
            found = vars(importlib.import_module(module)).get(name)
            if found is not None:
                globals()[name] = found
                return found
    raise AttributeError(f"module 'hybridmem' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

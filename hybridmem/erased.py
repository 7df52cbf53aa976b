"""What erasing gives back. Like hybridmem.types, frozen and without behaviour beyond reading themselves."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from typing import Any

from hybridmem.types import jsonable


@dataclass(frozen=True, slots=True)
class ErasureReceipt:
    """What was erased, or with ``dry_run`` would be, without a word of it.

    ``scope`` is node, subtree, namespace or user. ``ids`` are the SHA-256 of ``salt`` and the public id of each memory
    that went, ``namespaces`` those of ``salt`` and the names (as JSON) of each namespace that went whole. ``counts``
    tells how many memories, revisions, words (entries of the lexical index), vectors, log entries, labels, claims and
    so on, and data ``keys`` that were destroyed; of the files: ``backups`` that were rewritten, ``backup_memories``
    erased in them, ``files_removed`` and ``bytes_removed`` of what was set aside. ``summaries`` says what became of
    those that quoted it. ``scanned`` are the files that were rewritten or read, each with its bytes. ``related`` counts
    memories that stay, and that this one was merged with, replaced or contradicted: they may say the same.

    ``complete`` False: ``left`` says what may still hold it, and why; whoever has the store open finishes it, and so
    does ``hybridmem verify-erasure --finish``. ``digest`` is over all the rest.
    """

    scope: str
    at: str
    salt: str
    ids: tuple[str, ...]
    namespaces: tuple[str, ...]
    counts: dict[str, int]
    summaries: dict[str, int]
    related: int
    versions: dict[str, str]
    scanned: tuple[tuple[str, int], ...] = ()
    left: tuple[str, ...] = ()
    complete: bool = False
    dry_run: bool = False
    finished_at: str | None = None
    digest: str = ""

    def to_dict(self) -> dict[str, Any]:
        return jsonable(asdict(self))  # type: ignore[no-any-return]

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> ErasureReceipt:
        """What :meth:`to_dict` gave."""
        lists = {name: tuple(values[name]) for name in ("ids", "namespaces", "left")}
        scanned = tuple((str(name), int(size)) for name, size in values["scanned"])
        return cls(**{**values, **lists, "scanned": scanned})

    def sealed(self) -> ErasureReceipt:
        """With its digest."""
        return replace(self, digest=self.right_digest())

    def right_digest(self) -> str:
        """What the digest has to be."""
        said = {name: value for name, value in self.to_dict().items() if name != "digest"}
        text = json.dumps(said, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        return "sha256:" + hashlib.sha256(text.encode("utf-8")).hexdigest()

    def hashed(self, text: str) -> str:
        """A public id, or names as JSON, as this receipt has it."""
        return hash_with(self.salt, text)


def hash_with(salt: str, text: str) -> str:
    return hashlib.sha256(f"{salt}:{text}".encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class ErasureCheck:
    """What ``verify-erasure`` found: ``receipts`` that were looked at, ``found`` what of it is there, in words without
    contents; ``notes`` what is not wrong, but not as it was right after; ``scanned`` files or tables and their size."""

    receipts: int
    found: tuple[str, ...]
    notes: tuple[str, ...]
    scanned: tuple[tuple[str, int], ...]

    @property
    def ok(self) -> bool:
        return not self.found

    def to_dict(self) -> dict[str, Any]:
        return {"ok": self.ok, **jsonable(asdict(self))}

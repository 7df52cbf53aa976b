"""What verify() and repair() say of a store: frozen values without behaviour beyond reading themselves."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from hybridmem.types import Namespace, jsonable

#: error: a memory, or what finds it, is wrong. warning: nothing is wrong in SQLite; something waits, or Chroma's
#: disposable copy of the vectors is.
Severity = Literal["error", "warning"]

#: How many ids a finding names at most; ``count`` says how many there are.
SHOWN_IDS = 20


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, in one namespace or (None) in the store as a whole.

    ``kind`` is one word, see hybridmem.store.kinds. ``count`` says how many nodes, rows or vectors are meant, ``ids``
    names the first SHOWN_IDS of the nodes by their public ids. ``repairable`` says whether repair() mends it, ``fix``
    what to do.
    """

    kind: str
    severity: Severity
    namespace: Namespace | None
    count: int
    ids: tuple[str, ...]
    message: str
    repairable: bool
    fix: str

    def to_dict(self) -> dict[str, Any]:
        return jsonable(asdict(self))  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Report:
    """The state of a store, or (``namespace`` not None) of one namespace in it.

    ``findings`` is what is wrong now; of repair(), what is left. ``mended`` is what repair() found and mended.
    ``counts`` are numbers of what was looked at: namespaces, nodes, operations, embedded (nodes with a vector in
    SQLite), pending (nodes that wait for the model or the index; no fault), vectors (those in Chroma; missing if it was
    not looked at). ``notes`` say what could not be looked at and why. ``aside`` are the files to which repair() moved
    what was damaged.
    """

    path: str
    namespace: Namespace | None
    findings: tuple[Finding, ...]
    counts: dict[str, int]
    mended: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    aside: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing at all is wrong."""
        return not self.findings

    def to_dict(self) -> dict[str, Any]:
        return {"ok": self.ok, **jsonable(asdict(self))}

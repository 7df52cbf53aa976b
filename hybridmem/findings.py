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

    ``kind`` is a key of KINDS. ``count`` says how many nodes, rows or vectors are meant, ``ids``
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


@dataclass(frozen=True, slots=True)
class Kind:
    """What findings of one kind have in common; their number follows ``says``."""

    severity: Severity
    repairable: bool
    says: str
    fix: str


_RESTORE = "restore a backup (hybridmem restore-backup); nothing in the database is touched"
_REPAIR = "run repair() or hybridmem doctor --fix"

KINDS: dict[str, Kind] = {
    # The file
    "restore": Kind(
        "warning",
        True,
        "restore from a backup that was cut off; the rest was not looked at",
        "open the store once, or run repair(): that finishes it",
    ),
    "database": Kind("error", False, "database that cannot be used", _RESTORE),
    "integrity": Kind("error", False, "places where SQLite finds the file damaged", _RESTORE),
    "schema": Kind("warning", True, "older schema; the rest was not looked at", "open the store once, or run repair()"),
    "unreadable": Kind("error", False, "checks that damaged rows have stopped", _RESTORE),
    "reference": Kind("error", False, "rows that refer to a row that is not there", _RESTORE),
    "settings": Kind("error", False, "settings of the store that cannot be read", _RESTORE),
    "index_files": Kind("warning", True, "note about the index files that cannot be read", _REPAIR),
    # The log
    "log": Kind("error", False, "operation log that was edited", "restore a backup if it matters; nothing mends it"),
    "checkpoint": Kind("error", False, "checkpoints that contradict the log", "do not restore them"),
    "replay": Kind(
        "error", False, "differences between the tree and what the log says of it", "restore a backup if they matter"
    ),
    "lost": Kind("error", True, "memories that the log knows and the tree has not", _REPAIR),
    "contentless": Kind("error", False, "memories whose content is nowhere in the database", _RESTORE),
    "unlogged": Kind("error", True, "memories that the log does not know", _REPAIR),
    "sealed": Kind("error", False, "values that were changed, moved or never sealed, and do not open", _RESTORE),
    "audit": Kind(
        "error", False, "audit trail that was tampered with", "find out who did it; nothing mends it, and it goes on"
    ),
    # The tree
    "root": Kind("error", True, "faults of the root of the tree", _REPAIR),
    "parent": Kind("error", True, "memories whose parent is missing or in another namespace", _REPAIR),
    "loop": Kind("error", True, "memories that lie below themselves", _REPAIR),
    "path": Kind("error", True, "memories whose path or depth does not follow from their parents", _REPAIR),
    "counter": Kind("error", True, "wrong counter of memories", _REPAIR),
    "values": Kind("error", True, "memories with a value out of its range", _REPAIR),
    "metadata": Kind("error", True, "contents whose metadata is not a JSON object", _REPAIR),
    "revision": Kind("error", True, "memories whose current content is not their own or is missing", _REPAIR),
    "derived": Kind("error", True, "memories whose hash, length or speaker does not follow from the content", _REPAIR),
    "lexical": Kind("error", True, "entries of the lexical index that are missing, extra or wrong", _REPAIR),
    "task": Kind("error", True, "tasks without a status, or statuses of what is no task", _REPAIR),
    "active": Kind("error", True, "active pointers to what is gone, not live, or no task", _REPAIR),
    # The vectors
    "embedding": Kind("error", True, "memories whose vector is damaged, incomplete, or of another content", _REPAIR),
    "unembedded": Kind("error", True, "memories without a vector that nothing will give one", _REPAIR),
    "outbox": Kind("error", True, "requests to index what is not there", _REPAIR),
    "stuck": Kind("warning", True, "memories whose vector could not be made", "run repair() or flush() to try again"),
    "chroma_files": Kind("warning", True, "damaged vector index; searching goes on without it", _REPAIR),
    "chroma_missing": Kind("warning", True, "vectors that Chroma lacks", _REPAIR),
    "chroma_extra": Kind("warning", True, "vectors that Chroma should not have", _REPAIR),
}


def finding(kind: str, namespace: Namespace | None, count: int, ids: tuple[str, ...] = (), detail: str = "") -> Finding:
    """A finding of a kind of KINDS; ``detail`` says more than the number does."""
    known = KINDS[kind]
    number = "" if detail and count == 1 else f": {count}"
    message = known.says + number + (f" ({detail})" if detail else "")
    return Finding(kind, known.severity, namespace, count, ids[:SHOWN_IDS], message, known.repairable, known.fix)

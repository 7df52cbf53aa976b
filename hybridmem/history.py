"""Where the history of one memory is told: every operation on it, and what it changed from what to what."""

from __future__ import annotations

from typing import Any

from hybridmem.changes import Change, HistoryEntry
from hybridmem.feedback import REASONS
from hybridmem.store import log, tree
from hybridmem.store.rows import from_micros
from hybridmem.store.workspace import Workspace
from hybridmem.types import Operation

#: What is told, by its name in the log: the field of Node or Task.
_FIELDS = {
    "parent": "parent_id", "type": "type", "importance": "importance", "confidence": "confidence", "uses": "uses",
    "pinned": "pinned", "state": "state", "replaced_by": "replaced_by", "status": "status", "next_step": "next_step",
    "finished_at": "finished_at",
}  # fmt: skip
#: What a node has where the operation that made it says nothing else.
_NEW = {"uses": 0, "pinned": False, "state": "live", "replaced_by": ""}


def history(workspace: Workspace, id: str) -> list[HistoryEntry]:
    """Every operation on a node, oldest first; see :meth:`hybridmem.Memory.history`."""
    with workspace.read() as tx:
        key = tree.key(tx, workspace.id, id)
        operations = log.about(tx, workspace.id, key.uid)
        revisions = log.revisions(tx, key.id)
    found: list[HistoryEntry] = []
    known: dict[str, Any] = {}
    version: int | None = None
    for operation in operations:
        values = _values(operation, key.uid, revisions)
        changes = {name: Change(known.get(name), value) for name, value in values.items() if known.get(name) != value}
        known |= values
        if operation.kind not in (*log.CLAIMS, *log.SHARING, "use", log.PURGE):  # which leave it as it is
            version = _version(operation, key.uid)
        found.append(
            HistoryEntry(
                operation.sequence, operation.kind, operation.agent, operation.at, version, changes, _reasons(operation)
            )
        )
    return found


def _sets(operation: Operation, uid: str) -> dict[str, Any]:
    """What an operation sets of this node, whatever the node was called then (an imported root gives another id)."""
    effects = log.effects(operation.kind, operation.node_id, operation.payload)
    if operation.kind in log.MANY:
        return next(values for one, values in effects if one == uid)
    return effects[0][1] if effects else {}  # a claim sets nothing


def _reasons(operation: Operation) -> dict[str, Any]:
    if operation.kind != "feedback":
        return {}
    return {name: operation.payload[name] for name in REASONS if name in operation.payload}


def _version(operation: Operation, uid: str) -> int | None:
    version = _sets(operation, uid).get("version")
    return None if version is None else int(version)


def _values(operation: Operation, uid: str, revisions: dict[int, tuple[Any, dict[str, Any]]]) -> dict[str, Any]:
    """The fields that an operation sets, as Node and Task have them."""
    said = _sets(operation, uid)
    if operation.kind in ("add", "namespace"):
        said = _NEW | said
    values = {field: said[name] for name, field in _FIELDS.items() if name in said}
    if "pinned" in values:
        values["pinned"] = bool(values["pinned"])
    if "replaced_by" in values:
        values["replaced_by"] = values["replaced_by"] or None
    if values.get("finished_at") is not None:
        values["finished_at"] = from_micros(values["finished_at"])
    if said.get("revision") in revisions:
        values["content"], values["metadata"] = revisions[said["revision"]]
    return values

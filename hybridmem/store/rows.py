"""How rows of the database become values and back: times, JSON, ids."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import sqlite3
import threading
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from hybridmem.types import Node, State, Task

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

#: What :func:`to_node` reads, in this order; ``n`` is the node, ``p`` its parent, ``r`` its revision, ``t`` its task.
NODE_COLUMNS = """n.uid, p.uid, n.type, r.content, n.importance, n.confidence, r.metadata, n.state, n.pinned, n.uses,
    n.version, n.depth, n.agent, n.created_at, n.updated_at, n.active_at, r.structured,
    t.status, t.next_step, t.started_at, t.finished_at, n.replaced_by"""
NODE_TABLES = """node n JOIN revision r ON r.id = n.revision_id
    LEFT JOIN node p ON p.id = n.parent_id LEFT JOIN task t ON t.node_id = n.id"""


@dataclass(frozen=True, slots=True)
class Key:
    """A node as the store addresses it; never shown outside. ``version`` is the one read in this transaction."""

    id: int
    uid: str
    parent_id: int | None
    path: str
    depth: int
    type: str
    version: int
    state: State = "live"


class Part(int):
    """The number of a namespace of which only some branches may be addressed: whatever looks a node up by its public id
    in it finds no other. Which ones is set anew in every transaction, for the thread that is in it; none before."""

    def __new__(cls, namespace: int) -> Part:
        part = super().__new__(cls, namespace)
        part._local = threading.local()
        return part

    _local: threading.local

    @property
    def branches(self) -> tuple[tuple[str, bool], ...]:
        """The paths of their tops, each with whether what is not live is there as well."""
        found: tuple[tuple[str, bool], ...] = getattr(self._local, "branches", ())
        return found

    @branches.setter
    def branches(self, value: tuple[tuple[str, bool], ...]) -> None:
        self._local.branches = value

    def reaches(self, path: str, state: str = "live") -> bool:
        """Whether a node lies in one of the branches, and is there for whoever looks."""
        return any(path.startswith(top) and (state == "live" or whole) for top, whole in self.branches)


def new_uid() -> str:
    """80 random bits as 16 lower-case letters and digits: short in a prompt, no two alike in practice."""
    return base64.b32encode(secrets.token_bytes(10)).decode("ascii").lower()


def to_micros(moment: datetime) -> int:
    """Microseconds since 1970 UTC; exact for every aware datetime."""
    return (moment - EPOCH) // timedelta(microseconds=1)


def from_micros(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)


def dump(value: Any) -> str:
    """Canonical JSON: sorted keys, no blanks, Chinese as it is; the same value always gives the same bytes."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def content_key(content: str) -> str:
    """Recognises exact repeats of a content, tagged with its algorithm."""
    return "blake2b:" + hashlib.blake2b(content.encode("utf-8"), digest_size=16).hexdigest()


#: The content key of the empty content, which no memory has but one that is purged (hybridmem.store.purged).
PURGED_KEY = content_key("")


def to_node(row: sqlite3.Row | tuple[Any, ...], *, created: bool = True) -> Node:
    """A row of NODE_COLUMNS as a Node."""
    task = None
    if row[17] is not None:
        task = Task(row[17], row[18], from_micros(row[19]), None if row[20] is None else from_micros(row[20]))
    return Node(
        id=row[0],
        parent_id=row[1],
        type=row[2],
        content=row[3],
        importance=row[4],
        confidence=row[5],
        metadata=json.loads(row[6]),
        state=row[7],
        pinned=bool(row[8]),
        uses=row[9],
        version=row[10],
        depth=row[11],
        agent=row[12],
        created_at=from_micros(row[13]),
        updated_at=from_micros(row[14]),
        active_at=from_micros(row[15]),
        structured=bool(row[16]),
        replaced_by=row[21] or None,
        task=task,
        created=created,
    )


def subtree_range(path: str) -> tuple[str, str]:
    """Lower (inclusive) and upper (exclusive) bound of the paths of a node and everything below it.

    A path ends in '/', and '0' is the character after '/', so the upper bound is the path with its last '/' as '0'.
    """
    return path, path[:-1] + "0"

"""Where the memory is read by id and along the tree as it was at a moment in the past."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from hybridmem import inputs
from hybridmem.errors import NotFound
from hybridmem.store import rewind
from hybridmem.store.past import Past
from hybridmem.store.paths import path_ids
from hybridmem.store.rows import Key, to_micros
from hybridmem.store.workspace import Workspace
from hybridmem.types import STATES, Node


class Earlier:
    """The reading verbs with ``as_of``; see :class:`hybridmem.Memory` for what each promises.

    Each costs one reading of the rows of the namespace and of its log.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def get(self, id: str, as_of: Any) -> Node:
        with self._workspace.read() as tx:
            then = self._past(tx, as_of)
            return self._nodes(tx, then, [self._key(tx, then, id).id])[0]

    def children(self, id: str | None, as_of: Any, *, offset: int, limit: int | None) -> list[Node]:
        with self._workspace.read() as tx:
            then = self._past(tx, as_of)
            found = then.children(self._key(tx, then, id).id)
            return self._nodes(tx, then, found[offset : None if limit is None else offset + limit])

    def ancestors(self, id: str, as_of: Any) -> list[Node]:
        with self._workspace.read() as tx:
            then = self._past(tx, as_of)
            return self._nodes(tx, then, path_ids(self._key(tx, then, id).path)[:-1])

    def walk(self, id: str | None, as_of: Any) -> list[Node]:
        """All at once: in the next transaction the past may have to be read anew."""
        with self._workspace.read() as tx:
            then = self._past(tx, as_of)
            rows = then.scan(self._key(tx, then, id).path, STATES)
            return self._nodes(tx, then, [row[0] for row in rows])

    def _past(self, tx: sqlite3.Connection, as_of: Any) -> Past:
        moment = to_micros(inputs.moment("as_of", as_of))
        return rewind.at(tx, self._workspace.id, moment, self._workspace.agent)

    def _key(self, tx: sqlite3.Connection, then: Past, id: str | None) -> Key:
        key = self._workspace.start(tx, id)  # what is not here at all is said in the same words
        found = then.find(key.uid)
        if found is None:
            raise NotFound(f"id: {key.uid!r} was not there yet at that time (as_of)")
        return found

    def _nodes(self, tx: sqlite3.Connection, then: Past, ids: Sequence[int]) -> list[Node]:
        found = then.nodes(tx, ids)
        return [found[one] for one in ids]

"""What a search is narrowed to besides its scope: types, times, metadata."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridmem import inputs
from hybridmem.errors import InvalidInput
from hybridmem.index.view import Pool
from hybridmem.store import tree
from hybridmem.store.rows import to_micros


@dataclass(frozen=True, slots=True)
class Filters:
    """Checked filters; None lets everything pass. Times in microseconds since 1970 UTC."""

    types: tuple[str, ...] | None = None
    since: int | None = None
    until: int | None = None
    metadata: dict[str, Any] | None = None

    @classmethod
    def of(
        cls,
        types: Sequence[str] | None = None,
        since: Any = None,
        until: Any = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Filters:
        """Checks what a caller gave.

        :raises InvalidInput: names the filter and what is accepted.
        """
        if isinstance(types, str):
            raise InvalidInput(f"types: must be a list of types such as [{types!r}], not one text")
        return cls(
            types=None if types is None else tuple(inputs.node_type(kind) for kind in types),
            since=None if since is None else to_micros(inputs.moment("since", since)),
            until=None if until is None else to_micros(inputs.moment("until", until)),
            metadata=inputs.metadata(metadata) or None,
        )

    def mask(self, tx: sqlite3.Connection, pool: Pool) -> NDArray[np.bool_]:
        """(n,) which nodes of the pool pass: of one of the types, created from ``since`` (inclusive) to ``until``
        (exclusive), and with every one of the metadata values."""
        passes = np.ones(len(pool), dtype=np.bool_)
        if self.types is not None:
            passes &= np.isin(pool.types, list(self.types))
        if self.since is not None:
            passes &= pool.created_at >= self.since
        if self.until is not None:
            passes &= pool.created_at < self.until
        if self.metadata is not None:
            passes &= self._with_metadata(tx, pool, passes)
        return passes

    def _with_metadata(self, tx: sqlite3.Connection, pool: Pool, candidates: NDArray[np.bool_]) -> NDArray[np.bool_]:
        wanted = self.metadata or {}
        found = tree.metadata(tx, pool.ids[candidates].tolist())
        return np.array(
            [
                all(name in found.get(node_id, {}) and found[node_id][name] == value for name, value in wanted.items())
                for node_id in pool.ids.tolist()
            ],
            dtype=np.bool_,
        )

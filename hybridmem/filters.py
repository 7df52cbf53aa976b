"""What a search is narrowed to besides its scope: types, states, times, metadata."""

from __future__ import annotations

import difflib
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from hybridmem import inputs
from hybridmem.errors import InvalidInput, shown
from hybridmem.index.pool import Pool
from hybridmem.store.rows import to_micros
from hybridmem.types import STATES, Node, State, TaskStatus

#: Words that are taken for a state, and what to say.
_NO_STATES = {
    "active": "did you mean 'live'?",
    **dict.fromkeys(get_args(TaskStatus), "that is the status of a task, not the state of a memory: see tasks()"),
}


class Source(Protocol):
    """Where nodes are read: hybridmem.store.tree as they are, hybridmem.store.past as they were. By internal id."""

    def nodes(self, tx: sqlite3.Connection, ids: Sequence[int]) -> dict[int, Node]: ...

    def openings(self, tx: sqlite3.Connection, ids: Sequence[int], characters: int) -> dict[int, str]: ...

    def titles(self, tx: sqlite3.Connection, ids: Sequence[int]) -> dict[int, tuple[str, ...]]: ...

    def metadata(self, tx: sqlite3.Connection, ids: Sequence[int]) -> dict[int, dict[str, Any]]: ...

    def not_live(self, tx: sqlite3.Connection, ids: Sequence[int]) -> dict[int, str]: ...


@dataclass(frozen=True, slots=True)
class Filters:
    """Checked filters; None lets everything pass. Times in microseconds since 1970 UTC."""

    types: tuple[str, ...] | None = None
    since: int | None = None
    until: int | None = None
    metadata: dict[str, Any] | None = None
    states: tuple[State, ...] = ("live",)

    @classmethod
    def of(
        cls,
        types: Sequence[str] | None = None,
        since: Any = None,
        until: Any = None,
        metadata: Mapping[str, Any] | None = None,
        states: Sequence[str] | None = None,
    ) -> Filters:
        """Checks what a caller gave.

        :raises InvalidInput: names the filter and what is accepted.
        """
        wanted = ["live"] if states is None else inputs.listed("states", states)
        return cls(
            types=None if types is None else tuple(inputs.node_type(kind) for kind in inputs.listed("types", types)),
            since=None if since is None else to_micros(inputs.moment("since", since)),
            until=None if until is None else to_micros(inputs.moment("until", until)),
            metadata=inputs.metadata(metadata) or None,
            states=tuple(dict.fromkeys(_state(one) for one in wanted)),
        )

    @property
    def gathered(self) -> tuple[State, ...]:
        """The states of what is scored: live nodes always, since the others hang below them and in their light."""
        return tuple(state for state in STATES if state == "live" or state in self.states)

    def mask(self, tx: sqlite3.Connection, pool: Pool, source: Source) -> NDArray[np.bool_]:
        """(n,) which nodes of the pool pass: of one of the types, in one of the states, created from ``since``
        (inclusive) to ``until`` (exclusive), and with every one of the metadata values."""
        passes = np.ones(len(pool), dtype=np.bool_)
        if self.types is not None:
            passes &= np.isin(pool.types, list(self.types))
        if self.states != ("live",):
            found = source.not_live(tx, pool.ids.tolist())
            passes &= np.array([found.get(one, "live") in self.states for one in pool.ids.tolist()], dtype=np.bool_)
        if self.since is not None:
            passes &= pool.created_at >= self.since
        if self.until is not None:
            passes &= pool.created_at < self.until
        if self.metadata is not None:
            passes &= self._with_metadata(tx, pool, passes, source)
        return passes

    def _with_metadata(
        self, tx: sqlite3.Connection, pool: Pool, candidates: NDArray[np.bool_], source: Source
    ) -> NDArray[np.bool_]:
        wanted = self.metadata or {}
        found = source.metadata(tx, pool.ids[candidates].tolist())
        return np.array(
            [
                all(name in found.get(node_id, {}) and found[node_id][name] == value for name, value in wanted.items())
                for node_id in pool.ids.tolist()
            ],
            dtype=np.bool_,
        )


def _state(value: Any) -> State:
    if value in STATES:
        return value  # type: ignore[no-any-return]
    message = f"states: must be among {', '.join(STATES)}, not {shown(value)}"
    word = value if isinstance(value, str) and len(value) <= 64 else ""
    near = difflib.get_close_matches(word, STATES, n=1)
    hint = _NO_STATES.get(word) or (f"did you mean {near[0]!r}?" if near else "")
    raise InvalidInput(f"{message}; {hint}" if hint else message)

"""What changed: the values that history and restore give. Like hybridmem.types, frozen and without behaviour."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from hybridmem.types import jsonable


@dataclass(frozen=True, slots=True)
class Change:
    """One field from what to what. A field that was not there before (a node that is new) comes from None."""

    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One operation on a node: when, by whom, and what it changed, by the names of the fields of Node and Task.

    ``version`` is the node's after the operation; None where the log, of an earlier version, does not say it.
    ``changes`` may be empty: a claim, or the operation said again what was so already. ``reasons`` is what a feedback
    gave as such: helpful, confirmed, confirmed_by, contradicted_by, note.
    """

    sequence: int
    kind: str
    agent: str
    at: datetime
    version: int | None
    changes: dict[str, Change]
    reasons: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return jsonable(asdict(self))  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Pruned:
    """A memory that a policy has forgotten, or would have but for ``reason``: the retention in [0, 1] that it had."""

    id: str
    policy: str
    retention: float
    reason: str


@dataclass(frozen=True, slots=True)
class PruneReport:
    """What forgetting by policy did, or with ``dry_run`` would do: ``pruned`` in the order in which they went, children
    before their parents, and ``held``: what the policies would have taken, but is protected.

    ``left`` counts the live memories of the namespace afterwards, the root left out. ``sequences`` are the entries of
    the log, one for each transaction; none in a dry run or if nothing went, and ``note`` says so.
    """

    pruned: tuple[Pruned, ...]
    held: tuple[Pruned, ...]
    left: int
    dry_run: bool
    sequences: tuple[int, ...] = ()
    note: str = ""

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(one.id for one in self.pruned)

    def to_dict(self) -> dict[str, Any]:
        counts = {"ids": list(self.ids), "count": len(self.pruned), "held_count": len(self.held)}
        return {"operation": "forget", **jsonable(asdict(self)), **counts}


@dataclass(frozen=True, slots=True)
class PurgeReport:
    """What ``purge_forgotten`` did, or with ``dry_run`` would do: the ``ids`` of the memories whose content is gone for
    good, the longest forgotten first.

    ``kept`` counts the forgotten memories that can still be brought back, among them ``pinned``: those whose time was
    over, but that are pinned. ``sequences`` are the entries of the log, one for each transaction.
    """

    ids: tuple[str, ...]
    kept: int
    pinned: int
    dry_run: bool
    sequences: tuple[int, ...] = ()
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {"operation": "purge_forgotten", **jsonable(asdict(self)), "count": len(self.ids)}


@dataclass(frozen=True, slots=True)
class NodeChange:
    """What a restore changes of one node, by the names of the fields of Node and Task, each from now to then.
    ``title`` is the first line of its content as it is now."""

    id: str
    title: str
    changes: dict[str, Change]


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """What a restore did, or with ``dry_run`` would do, to bring the memory back to how it was after entry ``to``.

    ``removed`` are forgotten now, as they were then or were not there; ``added`` are not forgotten any more; ``moved``
    hang elsewhere, ``changed`` have other contents, metadata, weights, pins, states, task values or times of activity.
    One node may be in several of them, with what belongs there. ``active`` says of each agent whose place changed from
    which (task, node) to which.

    ``sequence`` is the entry of the log that did it and ``checkpoint`` the number of the checkpoint written with it;
    both None if nothing was written: a dry run, or ``note`` says that nothing differs. ``unsaid`` tells what the log,
    written by an earlier version, does not say of that time, and what was left as it is therefore. ``held_back`` are
    the ids of those that were there then, but have been purged since: they stay forgotten, and what hung under one
    of them hangs under the nearest memory above that is there.
    """

    to: int
    dry_run: bool
    added: tuple[NodeChange, ...]
    removed: tuple[NodeChange, ...]
    moved: tuple[NodeChange, ...]
    changed: tuple[NodeChange, ...]
    active: dict[str, Change]
    sequence: int | None = None
    checkpoint: int | None = None
    unsaid: tuple[str, ...] = ()
    note: str = ""
    held_back: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing differs between then and now."""
        return not (self.added or self.removed or self.moved or self.changed or self.active)

    def to_dict(self) -> dict[str, Any]:
        return jsonable(asdict(self))  # type: ignore[no-any-return]

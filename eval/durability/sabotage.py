"""Breaks the product on purpose, from outside and in the agents' processes only, to see that the harness notices."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from hybridmem.store import log, outbox, workspace


def _outbox() -> None:
    """Nobody is told that a node waits for its vector."""
    outbox.queue = lambda tx, namespace, node_id: None
    outbox.queue_all = lambda tx, namespace, ids: None


def _log() -> None:
    """The log row is written by a transaction of its own, after that of the change."""
    later = threading.local()
    append, leave = log.append, workspace.WriteTransaction.__exit__

    def remember(tx: sqlite3.Connection, namespace: int, **entry: Any) -> int:
        sequence, _ = log.head(tx, namespace)
        rows = later.__dict__.setdefault("rows", [])
        rows.append((namespace, entry))
        return sequence + len(rows)

    def exit_and_log(
        self: workspace.WriteTransaction,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        rows = later.__dict__.pop("rows", [])
        leave(self, kind, error, trace)
        if kind is None and rows:
            with self._connections.write() as tx:
                for namespace, entry in rows:
                    append(tx, namespace, **entry)

    log.append = remember
    workspace.WriteTransaction.__exit__ = exit_and_log  # type: ignore[method-assign, assignment]


#: What can be broken, by the name of ``--sabotage``.
KINDS: dict[str, Callable[[], None]] = {"outbox": _outbox, "log": _log}

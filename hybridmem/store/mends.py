"""How each fault that hybridmem.store.checks finds in SQLite is mended; nothing that is a memory is ever deleted.

What changes a memory or where it hangs is logged as a new operation, like any other write; what is derived (paths,
counters, terms, vectors) is made again from what it is derived from. A mend that fails is undone by itself and leaves
its fault to be reported.
"""

from __future__ import annotations

import logging
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from hybridmem.store import checks, log, mend_rows, mend_tree, unlocking
from hybridmem.store.checks import Fault
from hybridmem.store.mender import Mender

logger = logging.getLogger("hybridmem")

#: Kind of fault → its mend, in stages: each builds on what those before it have mended, and may find less to do.
STAGES: tuple[dict[str, Callable[[Mender, Sequence[Fault]], None]], ...] = (
    {"values": mend_rows.values, "metadata": mend_rows.metadata, "lost": mend_tree.bring_back},
    {"revision": mend_rows.revision, "root": mend_tree.root},
    {"parent": mend_tree.hang, "loop": mend_tree.hang},
    {"path": mend_tree.paths, "counter": mend_tree.counter, "task": mend_rows.task},
    {"unlogged": mend_tree.log_anew, "derived": mend_rows.derived, "active": mend_rows.active},
    {
        "lexical": mend_rows.lexical_index,
        "embedding": mend_rows.embedding,
        "outbox": mend_rows.requests,
        "unembedded": mend_rows.queue,
        "stuck": mend_rows.retry,
        "index_files": mend_rows.index_files,
    },
)
#: The kinds that are mended here.
KINDS = frozenset(kind for stage in STAGES for kind in stage)


def mend(tx: sqlite3.Connection, only: int | None, agent: str, now: int) -> None:
    """Mends all that can be mended, in the namespace ``only`` or (None) in all. To be called in a write transaction."""
    # Nodes that come back may refer to each other in any order.
    tx.execute("PRAGMA defer_foreign_keys = ON")
    mender = Mender(tx, agent, now)
    mended: dict[int, Counter[str]] = {}
    tried: set[Fault] = set()
    while found := _found(tx, only) - tried:
        stage = next(one for one in STAGES if any(fault.kind in one for fault in found))
        for kind, how in stage.items():
            faults = [fault for fault in found if fault.kind == kind]
            tried.update(faults)
            if faults and _succeeds(tx, partial(how, mender, faults)):
                for fault in faults:
                    if fault.namespace is not None:
                        mended.setdefault(fault.namespace, Counter())[kind] += 1
    for space, counts in sorted(mended.items()):
        mender.record(space, log.REPAIR, None, {"nodes": [], "mended": dict(counts)})


def _found(tx: sqlite3.Connection, only: int | None) -> set[Fault]:
    with unlocking.leniently(tx):
        return {fault for fault in checks.faults(tx, only) if fault.kind in KINDS}


def _succeeds(tx: sqlite3.Connection, step: Callable[[], None]) -> bool:
    """Does one step, or nothing of it."""
    tx.execute("SAVEPOINT mend")
    try:
        step()
    except Exception as error:
        tx.execute("ROLLBACK TO mend")
        logger.warning("this could not be mended: %s: %s", type(error).__name__, error)
        return False
    finally:
        tx.execute("RELEASE mend")
    return True

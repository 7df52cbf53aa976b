"""Where a store tells about itself: numbers, and what waits and why."""

from __future__ import annotations

import contextlib
from pathlib import Path

from hybridmem.embed.model import Model
from hybridmem.indexing import Indexer
from hybridmem.store import outbox, points
from hybridmem.store.workspace import Workspace
from hybridmem.tending import Tending
from hybridmem.types import Stats


def stats(workspace: Workspace, model: Model, indexer: Indexer, tending: Tending) -> Stats:
    """One consistent look at a namespace; the size is that of the whole store on disk."""
    recorded = model.recorded()
    with workspace.read() as tx:
        return Stats(
            namespace=workspace.namespace,
            nodes=points.node_count(tx, workspace.id),
            **points.counts(tx, workspace.id),
            vectors=outbox.embedded(tx, workspace.id),
            pending=outbox.waiting(tx, workspace.id),
            stuck=tuple(outbox.stuck(tx, workspace.id)),
            embedding_model=recorded.identity.describe() if recorded else None,
            index=indexer.state,
            index_reason=indexer.trouble,
            index_url=workspace.config.index.url,
            size_bytes=_size(workspace.directory),
            forgetting_failures=tending.failures,
            forgetting_problem=tending.problem,
        )


def _size(directory: Path) -> int:
    """Bytes of all files below a directory; those that the index removes meanwhile are passed over."""
    total = 0
    for file in directory.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            total += file.stat().st_size if file.is_file() else 0
    return total

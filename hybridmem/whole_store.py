"""A store without a namespace: for whoever runs it, to erase across namespaces and to finish what was cut off."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hybridmem import keys
from hybridmem.cleanse import Cleansing
from hybridmem.config import Config
from hybridmem.embed.model import Model, choose
from hybridmem.erase import Receipts
from hybridmem.index.server import Server
from hybridmem.indexing import Indexer
from hybridmem.ports import Embedder, KeyProvider, SystemClock
from hybridmem.store.connect import Connections
from hybridmem.store.rows import to_micros


@dataclass(frozen=True, slots=True)
class WholeStore:
    connections: Connections
    cleansing: Cleansing
    receipts: Receipts


@contextlib.contextmanager
def open_whole(
    path: Path,
    config: Config,
    embedder: Embedder | None = None,
    master_key: KeyProvider | bytes | None = None,
) -> Iterator[WholeStore]:
    """Opens a store that is there; nothing runs behind it.

    :raises NotFound: there is no store at ``path``.
    """
    connections = Connections(
        path,
        durability=config.store.durability,
        busy_timeout=config.store.busy_timeout_seconds,
        create=False,
        secure_delete=config.store.secure_delete,
        keys=keys.provider(config.encryption, master_key),
    )
    try:
        model = Model(connections, lambda known: choose(known, config.embedding, embedder))
        indexer = Indexer.configured(connections, model, config, Server.of(config.index))
        try:
            clock = SystemClock()

            def now() -> int:
                return to_micros(clock.now())

            cleansing = Cleansing(connections, indexer, config.erasure, now)
            yield WholeStore(connections, cleansing, Receipts(connections, cleansing, now))
        finally:
            indexer.close(0.0)
    finally:
        connections.close()

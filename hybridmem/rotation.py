"""Another master key for a store: its data keys are wrapped anew, and nothing else changes."""

from __future__ import annotations

import logging
from contextlib import closing
from pathlib import Path

from hybridmem import keys
from hybridmem.audit import Call
from hybridmem.config import Config
from hybridmem.errors import EncryptionError
from hybridmem.ports import KeyProvider, SystemClock
from hybridmem.store import audit, data_keys, layout, points, resealing, rewriting, snapshot
from hybridmem.store.connect import Connections
from hybridmem.store.data_keys import Keyring
from hybridmem.store.rows import to_micros

logger = logging.getLogger("hybridmem")
#: Seconds to wait for those who read an old state of the store.
WAIT_SECONDS = 1.0
#: The verb in the audit trail, which is that of the method of Memory.
VERB = "rotate_master_key"


def rotate(connections: Connections, keyring: Keyring, new: KeyProvider) -> int:
    """Wraps the data keys of a store by another master key, and leaves none that the old one has wrapped: neither in
    the write-ahead log, nor in the pages of the database that the log is to replace. Returns how many there are."""
    with connections.write() as tx:
        count = resealing.rotate(tx, new)
    connections.keys = keyring.provider = new
    why = rewriting.empty_log(connections.database, WAIT_SECONDS)
    if why is not None:
        logger.warning("the old master key may open data keys in the files until everybody has closed them: %s", why)
    return count


def master_of(directory: Path) -> str | None:
    """The id of the master key of a store; None: it is not encrypted."""
    with closing(snapshot.take(directory)) as tx:
        mark = data_keys.marked(tx)
    return None if mark is None else mark["master"]


def rotate_each(
    path: Path, new: KeyProvider, *, config: Config, agent: str, master_key: KeyProvider | bytes | None = None
) -> int:
    """Does so for all encrypted stores of a directory of the layout ``separate``. Cut off, run it again: those that
    have the new master key already are left as they are. Returns how many data keys were wrapped.

    :raises EncryptionError: none is encrypted, or the old master key is missing or another one.
    """
    old = keys.provider(config.encryption, master_key)
    found = {one: master_of(one) for one in layout.stores(path) if layout.is_store(one)}
    if not any(found.values()):
        raise EncryptionError(f"{path}: none of its namespaces is encrypted; hybridmem encrypt makes them so")
    return sum(
        _rotate(one, old, new, config, agent)
        for one, master in found.items()
        if master is not None and master != new.id
    )


def _rotate(directory: Path, old: KeyProvider | None, new: KeyProvider, config: Config, agent: str) -> int:
    connections = Connections(
        directory,
        durability=config.store.durability,
        busy_timeout=config.store.busy_timeout_seconds,
        create=False,
        keys=old,
    )
    with closing(connections):
        assert connections.keyring is not None
        count = rotate(connections, connections.keyring, new)
        now = to_micros(SystemClock().now())
        if config.audit.enabled:
            with connections.write() as tx:
                for space in points.namespaces(tx):
                    audit.append(tx, space, agent, now, [Call(VERB, now, detail={"count": count})], "none")
    return count

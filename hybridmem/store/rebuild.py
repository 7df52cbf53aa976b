"""A store made again from a backup and the log, and how it compares with the one that is there."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from hybridmem.config import EncryptionConfig
from hybridmem.keys import provider
from hybridmem.ports import KeyProvider
from hybridmem.store import digest
from hybridmem.store.connect import Connections
from hybridmem.store.derive import derive
from hybridmem.store.directory import DATABASE_NAME
from hybridmem.store.replay import replay


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What :func:`rebuild` found. ``live`` and ``replayed`` are digests (hybridmem.store.digest) of the tree as it is
    and as the log gives it; ``operations`` counts those replayed.

    ``problems`` says what the log could not say: its entries come from an earlier version, or a content is not there.
    Where there are any, different digests prove nothing. ``differences`` names what differs, at most 20 things.
    """

    live: str
    replayed: str
    operations: int
    problems: tuple[str, ...]
    differences: tuple[str, ...] = ()

    @property
    def agree(self) -> bool:
        return self.live == self.replayed


def rebuild(
    source: Path, backup: Path | None, target: Path, *, searchable: bool = False, keys: KeyProvider | None = None
) -> Rebuilt:
    """Makes a store from a backup of another one and that one's log.

    :param source: the directory of the store whose log is replayed, all of its namespaces; it is only read.
    :param backup: a database file made from it earlier, which is only read; None: begin with the first entry.
    :param target: a directory for the new store; made if it is not there.
    :param searchable: also bring the lexical index, the embeddings that are still right, and the outbox in order, so
        that the new store can take the place of the old one. Comparing needs none of that.
    :param keys: the master key of an encrypted store; None: the one in HYBRIDMEM_KEY, if there is one.
    :raises StoreDamaged: the backup is not an earlier state of this store.
    """
    target.mkdir(parents=True, exist_ok=True)
    if backup is not None:
        shutil.copyfile(backup, target / DATABASE_NAME)
    master = provider(EncryptionConfig(), keys)
    old = Connections(source, create=False, keys=master)
    try:
        new = Connections(target, durability="process", keys=master)
        try:
            with old.read() as live:
                with new.write() as tx:
                    done = replay(live, tx)
                    if searchable:
                        derive(live, tx, done.changed)
                with new.read() as replayed:
                    digests = digest.digest(live), digest.digest(replayed)
                    differing = digests[0] != digests[1]
                    found = digest.differences(live, replayed) if differing else []
            return Rebuilt(*digests, done.operations, done.problems, tuple(found))
        finally:
            new.close()
    finally:
        old.close()

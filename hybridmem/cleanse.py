"""The files after an erasure: the vector index, backups, what was set aside, free pages and the write-ahead log.

Killed at any moment, it is done again from the beginning: each step leaves whole files, and the receipt says that it is
not finished until the last of them is clean. Whoever has the store open next finishes it.
"""

from __future__ import annotations

import logging
import shutil
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from hybridmem import faults
from hybridmem.backup import LOCK, backup_files
from hybridmem.config import ErasureConfig
from hybridmem.erased import ErasureReceipt
from hybridmem.errors import EncryptionError, HybridMemError, IndexUnavailable, StoreBusy
from hybridmem.index import health
from hybridmem.index.projection import CLEAN
from hybridmem.indexing import Indexer
from hybridmem.replacing import UNFINISHED, remove_unfinished
from hybridmem.store import cleansing, points, receipts, resealing, rewriting, tombstones
from hybridmem.store.connect import Connections
from hybridmem.store.directory import ASIDE, CHECKPOINTS, RESTORED, VECTORS
from hybridmem.store.lock import alone
from hybridmem.store.rows import from_micros
from hybridmem.store.waiting import pause

logger = logging.getLogger("hybridmem")
#: Seconds between two looks whether an erasure is not finished.
LOOK_SECONDS = 30.0
#: Called with (what is being done, steps done, steps in all).
Progress = Callable[[str, int, int], object]


@dataclass
class Outcome:
    """What one run did. ``left``: what may still hold something erased."""

    scanned: list[tuple[str, int]] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    backups: int = 0
    backup_memories: int = 0
    files_removed: int = 0
    bytes_removed: int = 0


class Cleansing:
    """Of one store, by one handle of it."""

    def __init__(
        self, connections: Connections, indexer: Indexer, config: ErasureConfig, now: Callable[[], int]
    ) -> None:
        """:param now: the time in microseconds since 1970 UTC."""
        self._connections = connections
        # The indexer knows the chores, which know this: a circle would keep a handle that nobody holds any more.
        self._of_handle = weakref.ref(indexer)
        self._config = config
        self._now = now
        self._next_look = 0.0

    @property
    def _indexer(self) -> Indexer:
        found = self._of_handle()
        assert found is not None
        return found

    @property
    def is_due(self) -> bool:
        """Whether an erasure is not finished."""
        with self._connections.read() as tx:
            return bool(receipts.incomplete(tx))

    def finish_if_due(self, is_stopping: Callable[[], bool]) -> None:
        """What somebody else has begun and not finished. A failure is logged, and tried again a while later.

        :param is_stopping: whether the handle is being closed, so that nothing long is begun.
        """
        if time.monotonic() < self._next_look or is_stopping():
            return
        self._next_look = time.monotonic() + LOOK_SECONDS
        try:
            if self.is_due:
                self.finish()
        except HybridMemError as error:
            logger.warning("an erasure is not complete yet, and is tried again: %s", error)

    def finish(self, progress: Progress | None = None) -> list[ErasureReceipt]:
        """Cleans the files and finishes every receipt that is not finished; returns these as they are now."""
        with self._connections.read() as tx:
            if not receipts.incomplete(tx):
                return []
        outcome = self._run(progress or (lambda what, done, total: None))
        faults.point("erase.before_receipt")
        done = []
        with self._connections.write() as tx:
            for row, values in receipts.incomplete(tx).items():
                receipt = _finished(ErasureReceipt.from_dict(values), outcome, self._now())
                receipts.update(tx, row, receipt.to_dict(), complete=receipt.complete)
                done.append(receipt)
        for why in outcome.left:
            logger.warning("an erasure is not complete yet: %s", why)
        return done

    def inventory(self) -> dict[str, int]:
        """What a run would rewrite and remove, by the names of counts in a receipt."""
        directory = self._connections.directory
        removed = _set_aside(directory)
        return {
            "backups": len(backup_files(directory)),
            "backup_memories": 0,
            "files_removed": len(removed),
            "bytes_removed": sum(_bytes(path) for path in removed),
        }

    def _run(self, progress: Progress) -> Outcome:
        outcome = Outcome()
        directory = self._connections.directory
        backups = len(backup_files(directory))
        total = 4 + backups
        progress("words", 0, total)
        cleansing.merge_words(self._connections)
        progress("vectors", 1, total)
        self._vectors(outcome)
        faults.point("erase.after_vectors")
        self._files(outcome, lambda done: progress("backups", 2 + done, total))
        faults.point("erase.after_aside")
        progress("database", total - 1, total)
        database = self._connections.database
        rewrite = rewriting.empty_log if self._is_by_key() else rewriting.rewrite
        why = rewrite(database, self._config.wait_seconds)
        outcome.left += [why] if why else []
        outcome.scanned.append((database.name, database.stat().st_size))
        progress("done", total, total)
        return outcome

    def _is_by_key(self) -> bool:
        """Whether nobody can read any more what is in the free pages: it was sealed by keys that are destroyed."""
        with self._connections.read() as tx:
            waiting = [ErasureReceipt.from_dict(one) for one in receipts.incomplete(tx).values()]
            if resealing.is_unclean(tx):
                return False
        return all(one.scope == "namespace" and one.counts.get("keys", 0) > 0 for one in waiting)

    def _vectors(self, outcome: Outcome) -> None:
        """Waits for the process that has the index, which looks about once a second."""
        rest = self._config.wait_seconds
        try:
            while not self._indexer.renew():
                with self._connections.read() as tx:
                    if points.setting(tx, CLEAN) == receipts.generation(tx):
                        return
                if rest <= 0:
                    outcome.left.append(f"{VECTORS}: another process has the vector index open, and does not let go")
                    return
                rest -= pause()
        except IndexUnavailable as error:
            outcome.left.append(f"{VECTORS}: {error}")
        if self._indexer.server_url is not None:
            outcome.left.append(
                f"the Chroma server at {self._indexer.server_url}: the vectors leave its collections with the next "
                "indexing; its files are not this store's to rewrite"
            )

    def _files(self, outcome: Outcome, progress: Callable[[int], object]) -> None:
        directory = self._connections.directory
        folder = directory / CHECKPOINTS
        busy = f"{folder}: a backup is being made"
        try:
            if folder.is_dir():
                alone(folder / LOCK, self._config.wait_seconds, busy, lambda: self._backups(outcome, progress))
        except StoreBusy as error:
            outcome.left.append(str(error))
        for path in _set_aside(directory):
            try:
                size = _bytes(path)
                shutil.rmtree(path) if path.is_dir() else remove_unfinished(path)
                outcome.files_removed, outcome.bytes_removed = outcome.files_removed + 1, outcome.bytes_removed + size
            except OSError as error:
                outcome.left.append(f"{path.name}: cannot be removed: {error.strerror}")

    def _backups(self, outcome: Outcome, progress: Callable[[int], object]) -> None:
        """The caller holds the lock of whoever makes backups."""
        directory = self._connections.directory
        for unfinished in (directory / CHECKPOINTS).glob(f".backup-*{UNFINISHED}"):
            remove_unfinished(unfinished)
        with self._connections.read() as tx:
            wanted = tombstones.everything(tx)
        remade = self._config.summaries == "remake"
        for number, file in enumerate(backup_files(directory)):
            progress(number)
            try:
                outcome.backup_memories += cleansing.cleanse_backup(
                    file, wanted, self._now(), self._connections.keys, summaries=remade
                )
                outcome.backups += 1
                outcome.scanned.append((f"{CHECKPOINTS}/{file.name}", file.stat().st_size))
            except EncryptionError:
                outcome.left.append(
                    f"{CHECKPOINTS}/{file.name}: was made under another master key, which is needed to erase in it; "
                    "remove it, and the erasure is finished without it"
                )
            except HybridMemError as error:
                outcome.left.append(f"{CHECKPOINTS}/{file.name}: {error}")
            faults.point("erase.after_backup")


def _finished(receipt: ErasureReceipt, outcome: Outcome, at: int) -> ErasureReceipt:
    counts = dict(receipt.counts)
    for name in ("backup_memories", "files_removed", "bytes_removed"):
        counts[name] = counts.get(name, 0) + getattr(outcome, name)
    counts["backups"] = max(counts.get("backups", 0), outcome.backups)
    return replace(
        receipt,
        counts=counts,
        scanned=tuple(outcome.scanned),
        left=tuple(outcome.left),
        complete=not outcome.left,
        finished_at=from_micros(at).isoformat(),
    ).sealed()


def _set_aside(directory: Path) -> list[Path]:
    """Copies that nobody needs: of a store that a backup has replaced, of a damaged index, of what was never finished.
    Whoever restores a backup is alone with the store, so that none of it is at work now."""
    found = [directory / ASIDE] if (directory / ASIDE).exists() else []
    found += health.aside(directory / VECTORS)
    found += sorted(directory.glob(f".{RESTORED}.*{UNFINISHED}")) + sorted(directory.glob(".carried.*"))
    return found


def _bytes(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())

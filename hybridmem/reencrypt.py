"""Where a store is encrypted, encrypted anew, or made plain: a job that may be cut off at any moment and run again."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from hybridmem import config as configuration
from hybridmem import inputs, keys, rotation
from hybridmem.audit import Call
from hybridmem.config import Config
from hybridmem.embed.model import Model, choose
from hybridmem.errors import EncryptionError, HybridMemError, InvalidInput, NotFound, shown
from hybridmem.index.health import DAMAGED
from hybridmem.index.projection import DIRECTORY
from hybridmem.index.server import Server
from hybridmem.indexing import Indexer
from hybridmem.ports import Embedder, KeyProvider, SystemClock
from hybridmem.store import audit, layout, resealing, rewriting, swap
from hybridmem.store.connect import Connections
from hybridmem.store.data_keys import GIVE
from hybridmem.store.directory import ASIDE, CHECKPOINTS
from hybridmem.store.rows import to_micros
from hybridmem.store.waiting import let_others_write
from hybridmem.types import jsonable

#: Memories per transaction.
BATCH = 200
#: Seconds to wait for somebody who is just closing the store.
WAIT_SECONDS = 1.0

Progress = Callable[[int, int], object]


@dataclass(frozen=True, slots=True)
class ReencryptReport:
    """What a run did: ``sealed`` memories rewritten (roots counted), by this run.

    ``cleansed``: nothing of what was there before is left in free pages, in the write-ahead log or in the vector index;
    False: somebody had it open (``notes`` say what): run it again then. ``notes`` also tell of queries that the audit
    trail has as they were asked, with ``audit.queries: plain``. ``copies``: files in the directory of the store
    that were made before, such as backups, and hold everything as it was then: nothing has changed in them.
    """

    sealed: int
    cleansed: bool
    copies: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return jsonable(asdict(self))  # type: ignore[no-any-return]


def encrypt(
    path: str | Path,
    *,
    to: Literal["encrypted", "new", "plain"] = "encrypted",
    config: str | Path | Mapping[str, Any] | Config | None = None,
    master_key: KeyProvider | bytes | None = None,
    embedder: Embedder | None = None,
    progress: Progress | None = None,
) -> ReencryptReport:
    """Makes a store encrypted, gives an encrypted one new data keys, or makes it plain; in all its namespaces.

    What is done is kept after each batch. Cut off at any moment, run it again: it goes on where it stopped, and until
    then everything can be read and written. At the end the old keys are destroyed, and the files cleansed.

    :param to: ``"encrypted"``: a plain store becomes so, or a run that was cut off is finished; ``"new"``: new data
        keys; ``"plain"``. For the first and the last nobody else may have the store open when it begins, or ends.
    :param config: as for Memory.open(). :param master_key: likewise. :param embedder: likewise.
    :param progress: called now and then with (memories done, memories in all).
    :raises EncryptionError: no master key, or another. StoreBusy: somebody has the store open. Nothing has changed.
        Where each namespace has a directory of its own (``store.layout: separate``), one after the other is done: the
        message names the one, and those before it are done.
    :raises NotFound: there is no store.
    """
    if to not in ("encrypted", "new", "plain"):
        raise InvalidInput(f"to: must be encrypted, new or plain, not {shown(to)}")
    place, settings = inputs.path("path", path), configuration.load(config)
    if not layout.is_store(place):
        raise NotFound(f"path: there is no store at {place}")
    provider = keys.provider(settings.encryption, master_key)
    if not layout.is_separate(place):
        return _encrypt(place, to, settings, provider, embedder, progress)
    stores = [one for one in layout.stores(place) if layout.is_store(one)]
    if to != "encrypted":
        stores = [one for one in stores if rotation.master_of(one) is not None]
        if not stores:
            raise EncryptionError(f"{place}: none of its namespaces is encrypted")
    return _joined([_encrypt(one, to, settings, provider, embedder, progress) for one in stores], stores, to, settings)


def _joined(reports: Sequence[ReencryptReport], stores: Sequence[Path], to: str, settings: Config) -> ReencryptReport:
    notes = [f"{store.name}: {note}" for store, one in zip(stores, reports, strict=True) for note in one.notes]
    if to == "encrypted" and not settings.encryption.enabled:
        notes.append(
            "a namespace that is new has a store of its own, and that is plain unless encryption.enabled is true"
        )
    copies = tuple(copy for one in reports for copy in one.copies)
    return ReencryptReport(
        sum(one.sealed for one in reports), all(one.cleansed for one in reports), copies, tuple(notes)
    )


def _encrypt(
    directory: Path,
    to: str,
    settings: Config,
    provider: KeyProvider | None,
    embedder: Embedder | None,
    progress: Progress | None,
) -> ReencryptReport:
    """Of one store."""
    if provider is None:
        Connections(directory, create=False).close()  # says which key it needs, if it is encrypted
        raise EncryptionError(f"{directory}: there is no master key; {GIVE}")
    now = to_micros(SystemClock().now())
    if to == "encrypted":
        swap.alone(directory, WAIT_SECONDS, lambda: resealing.begin_encrypting(directory, provider, now))
    connections = Connections(
        directory,
        durability=settings.store.durability,
        busy_timeout=settings.store.busy_timeout_seconds,
        create=False,
        keys=provider,
    )
    try:
        model = Model(connections, lambda known: choose(known, settings.embedding, embedder))
        indexer = Indexer.configured(connections, model, settings, Server.of(settings.index))
        try:
            if connections.keyring is None:
                raise EncryptionError(f"{directory}: is not encrypted")
            with connections.write() as tx:
                if to == "plain" or (to == "new" and not resealing.is_begun(tx)):
                    resealing.begin(tx, now, plain=to == "plain")
            said = Call("encrypt", now, detail={"to": to}) if settings.audit.enabled else None
            report = _with_queries(run(connections, indexer, now, said, progress), connections, to)
        finally:
            indexer.close(0.0)
    finally:
        connections.close()
    if to == "plain" and report.cleansed:  # else it has to be run again, which needs the mark
        swap.alone(directory, WAIT_SECONDS, lambda: resealing.end_plain(directory))
    return report


def _with_queries(report: ReencryptReport, connections: Connections, to: str) -> ReencryptReport:
    """The audit trail is left as it is, whose hashes hold every word of it together."""
    with connections.read() as tx:
        asked = audit.asked_plainly(tx)
    if to == "plain" or not asked:
        return report
    note = f"{asked} entries of the audit trail have queries as they were asked; prune_audit() can remove them"
    return replace(report, notes=(*report.notes, note))


def run(
    connections: Connections, indexer: Indexer, now: int, said: Call | None, progress: Progress | None
) -> ReencryptReport:
    """Goes on with what has begun, to its end, and says so in the audit trails."""
    with connections.read() as tx:
        total = resealing.count(tx)
    sealed, is_done = 0, False
    while not is_done:
        after, done = 0, 1
        while done:
            with connections.write() as tx:
                after, done = resealing.batch(tx, after, BATCH)
            sealed += done
            if progress is not None:
                progress(min(sealed, total), total)
            let_others_write()
        with connections.write() as tx:
            is_done = resealing.finish(tx, now)
            if is_done and said is not None:
                audit.append_all(tx, resealing.AGENT, said)
    notes = _vectors(indexer)
    why = rewriting.rewrite(connections.database, WAIT_SECONDS)
    if why is None:
        with connections.write() as tx:
            resealing.set_clean(tx)
    notes += [why] if why else []
    return ReencryptReport(sealed, not notes, _copies(connections.directory), tuple(notes))


def _vectors(indexer: Indexer) -> list[str]:
    """Chroma's files made anew, and the old ones deleted: those show other vectors."""
    try:
        if not indexer.has_vectors:
            return []
        old = indexer.rebuild()
        if old is not None:
            shutil.rmtree(old)
    except (HybridMemError, OSError) as error:
        return [f"the vector index was not made anew: {error}"]
    return []


def _copies(directory: Path) -> tuple[str, ...]:
    """What lies in a store and is as old as it is."""
    backups = sorted((directory / CHECKPOINTS).glob("*.db"))
    others = [directory / ASIDE, *sorted(directory.glob(f"{DIRECTORY}{DAMAGED}*"))]
    return tuple(str(one) for one in [*backups, *(other for other in others if other.exists())])

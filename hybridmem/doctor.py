"""verify and repair: is a store what it should be, and making it so again.

verify() looks at one state of the store, from outside and read-only, so that it works on what Memory.open() refuses: at
the database itself (hybridmem.store.snapshot), at everything in it that can be recomputed (hybridmem.store.checks), and
at what Chroma's files hold (hybridmem.index.census: Chroma itself opens them in a child process only, and a copy of
them, since torn files can crash an interpreter).

repair() mends what verify() reports (hybridmem.store.mends: one transaction, nothing that is a memory is deleted),
makes Chroma anew beside the old files and swaps, and lets the model embed what has no vector. What cannot be mended is
left as it is and stays in the report with what to do.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from hybridmem import config as configuration
from hybridmem import inputs, keys
from hybridmem.audit import Call
from hybridmem.config import Config, EncryptionConfig
from hybridmem.each_store import each_store
from hybridmem.embed.model import Model, choose
from hybridmem.errors import HybridMemError, IndexUnavailable, NotFound
from hybridmem.findings import KINDS, SHOWN_IDS, Finding, Report, finding
from hybridmem.index import census, chroma, health, projection, shared
from hybridmem.index.nodes import nodes_of, piece_id
from hybridmem.index.pointers import PLACE
from hybridmem.index.server import Server
from hybridmem.indexing import Indexer
from hybridmem.pieces import MOST
from hybridmem.ports import Embedder, KeyProvider, SystemClock
from hybridmem.store import audit, checks, digest, mends, outbox, points, snapshot, swap, tree
from hybridmem.store.connect import Connections, Transaction
from hybridmem.store.directory import ASIDE, DATABASE_NAME, RESTORED
from hybridmem.store.migrations import SCHEMA_VERSION
from hybridmem.store.replay import replay as replay_log
from hybridmem.store.rows import to_micros
from hybridmem.types import Namespace

#: Kinds after which nothing in the database is touched.
HOPELESS = frozenset({"database", "integrity"})
#: Kinds that a new vector index mends.
OF_CHROMA = frozenset({"chroma_files", "chroma_missing", "chroma_extra"})
#: Kinds that opening the store mends; what else is wrong is not known before.
UNSEEN = frozenset({"restore", "schema"})
#: Who repairs a store from outside, in its log.
AGENT = "repair"
#: How many different details a finding tells.
DETAILS = 3


@each_store
def verify(
    path: str | Path,
    *,
    namespace: Namespace | None = None,
    replay: bool = False,
    master_key: KeyProvider | bytes | None = None,
) -> Report:
    """Looks at a store, and changes nothing in it; others may go on using it.

    :param path: the directory of the store. It may be damaged; nobody has to be able to open it.
    :param namespace: look at this one only; nothing in the report tells of another. None: at all of them.
    :param replay: also rebuild the whole tree from the log, in a temporary directory, and compare every field of every
        memory: some 5 s for 10,000 operations. It sees values that were changed to others that are just as possible.
    :param master_key: of an encrypted store, as for Memory.open(); None: the one in HYBRIDMEM_KEY.
    :return: ``report.ok`` and ``report.findings``. Memories that wait for their vector are no fault but are counted.
    :raises NotFound: there is no store in that directory, or no such namespace in it.
    :raises EncryptionError: it is encrypted, and this is not its master key.
    """
    directory, provider = inputs.path("path", path), keys.provider(EncryptionConfig(), master_key)
    if not directory.is_dir() or not (
        (directory / DATABASE_NAME).exists()
        or (directory / projection.DIRECTORY).exists()
        or swap.is_pending(directory)
    ):
        raise NotFound(f"path: there is no store at {directory}")
    look = _Look(directory, namespace, replay, provider)
    with shared.at_hand(directory).at_rest() as is_still:
        look.take(is_still)
    if namespace is None:
        look.notes.extend(_kept_aside(directory))
    return look.report()


@each_store
def repair(
    path: str | Path,
    *,
    config: str | Path | Mapping[str, Any] | Config | None = None,
    embedder: Embedder | None = None,
    replay: bool = False,
    master_key: KeyProvider | bytes | None = None,
) -> Report:
    """Mends what :func:`verify` finds in a store, in all its namespaces. Running it again finds nothing more to mend.

    One transaction for SQLite, which loses no memory: what hangs nowhere goes back where the log last had it, or right
    under the root; what the tree has lost comes back from the log. Then the vectors: Chroma is made anew from SQLite
    beside the old files, which are moved aside, and what has no vector is embedded, if the model can be loaded. A
    damaged database, an edited log and a content that is gone are reported, not touched.

    :param path: the directory of the store. :param config: as for Memory.open(). :param embedder: likewise.
    :param replay: as for :func:`verify`, at the end.
    :param master_key: of an encrypted store, as for Memory.open().
    :return: ``mended``, and what is left in ``findings``.
    :raises NotFound: there is no store in that directory. StoreBusy, StoreFull: SQLite cannot be written; nothing was.
    """
    settings = configuration.load(config)
    provider = keys.provider(settings.encryption, master_key)
    before = verify(path, master_key=provider)
    if {one.kind for one in before.findings} & HOPELESS:
        return before
    connections = Connections(
        inputs.path("path", path),
        durability=settings.store.durability,
        busy_timeout=settings.store.busy_timeout_seconds,
        create=False,
        keys=provider,
    )
    try:
        model = Model(connections, lambda known: choose(known, settings.embedding, embedder))
        indexer = Indexer.configured(connections, model, settings, Server.of(settings.index))
        try:
            now = to_micros(SystemClock().now())
            report = mend(connections.write, indexer, AGENT, now, before, replay=replay, provider=provider)
            if report.mended and settings.audit.enabled:
                with connections.write() as tx:
                    audit.append_all(tx, AGENT, Call("repair", now, detail={"mended": len(report.mended)}))
            return report
        finally:
            indexer.close(0.0)
    finally:
        connections.close()


def mend(
    write: Callable[[], Transaction],
    indexer: Indexer,
    agent: str,
    now: int,
    before: Report,
    *,
    replay: bool = False,
    provider: KeyProvider | None = None,
) -> Report:
    """Mends what a report of verify() tells of, and looks again.

    :param write: begins a transaction of the store. :param indexer: of the same store.
    :param agent: who does it, for the log. :param now: microseconds since 1970 UTC.
    """
    kinds = {one.kind for one in before.findings}
    notes: list[str] = []
    aside: list[str] = []
    if kinds & HOPELESS:
        return before
    if kinds & (mends.KINDS | UNSEEN):
        with write() as tx:
            mends.mend(tx, _namespace_id(tx, before.namespace), agent, now)
    try:
        if "settings" in kinds:  # whose vectors these are is not known
            raise IndexUnavailable("the settings cannot be read")
        if kinds & OF_CHROMA:
            old = indexer.rebuild()
            aside += [str(old)] if old is not None else []
        indexer.drain(retry=True)
    except HybridMemError as error:
        notes.append(f"the vectors could not be brought up to date: {error}")
    after = verify(before.path, namespace=before.namespace, replay=replay, master_key=provider)
    left = {(one.kind, one.namespace) for one in after.findings}
    return replace(
        after,
        mended=tuple(one for one in before.findings if (one.kind, one.namespace) not in left),
        notes=(*after.notes, *notes),
        aside=tuple(aside),
    )


class _Look:
    """One look at a store, as it goes on."""

    def __init__(
        self, directory: Path, namespace: Namespace | None, replay: bool, provider: KeyProvider | None
    ) -> None:
        self._provider = provider
        self._directory = directory
        self._namespace = namespace
        self._replay = replay
        self._findings: list[Finding] = []
        self._counts: dict[str, int] = {}
        self.notes: list[str] = []

    def report(self) -> Report:
        order = list(KINDS)
        found = sorted(self._findings, key=lambda one: (order.index(one.kind), one.namespace or ()))
        return Report(str(self._directory), self._namespace, tuple(found), self._counts, notes=tuple(self.notes))

    def take(self, is_still: bool) -> None:
        if swap.is_pending(self._directory):  # what lies there is no store until somebody has finished that
            self._add("restore", detail=RESTORED)
            return
        try:
            conn = snapshot.take(self._directory)
        except sqlite3.Error as error:
            self._add("database", detail=f"{DATABASE_NAME}: {error}")
            return
        with closing(conn):
            try:
                if self._is_usable(conn):
                    snapshot.unlock(conn, self._provider, self._directory)
                    self._look(conn, is_still)
            except sqlite3.Error as error:
                self._add("integrity", detail=str(error))

    def _is_usable(self, conn: sqlite3.Connection) -> bool:
        reason, version = snapshot.header(conn)
        if reason is not None:
            self._add("database", detail=f"{DATABASE_NAME}: {reason}")
        elif version < SCHEMA_VERSION:
            self._add("schema", detail=f"version {version}, now {SCHEMA_VERSION}")
        elif lines := snapshot.integrity(conn):
            self._add("integrity", count=len(lines), detail="; ".join(lines[:DETAILS]))
        return not self._findings

    def _look(self, conn: sqlite3.Connection, is_still: bool) -> None:
        only = _namespace_id(conn, self._namespace)
        spaces = {one: names for one, names in points.namespaces(conn).items() if only in (None, one)}
        self._counts = {"namespaces": len(spaces), **checks.counts(conn, only)}
        self._gather(conn, checks.faults(conn, only), spaces)
        if self._replay and any(one.kind == "sealed" for one in self._findings):
            self.notes.append("the log was not replayed, since values do not open")
        elif self._replay:
            self._compare(conn, only, spaces)
        if is_still:
            self._vectors(conn, spaces)
        else:
            self.notes.append("another process has the vector index open: what Chroma holds was not compared")

    def _gather(self, conn: sqlite3.Connection, faults: Iterable[checks.Fault], spaces: dict[int, Namespace]) -> None:
        """One finding for all faults of a kind in a namespace."""
        groups: dict[tuple[str, int | None], _Group] = {}
        for fault in faults:
            groups.setdefault((fault.kind, fault.namespace), _Group()).take(fault)
        for (kind, space), group in groups.items():
            uids = [*group.uids, *(key.uid for key in tree.keys(conn, group.ids))]
            self._add(kind, spaces.get(space or -1), group.count, uids, "; ".join(group.details))

    def _compare(self, conn: sqlite3.Connection, only: int | None, spaces: dict[int, Namespace]) -> None:
        """The tree with one that is rebuilt from the log alone; nothing of another namespace is read for it."""
        with tempfile.TemporaryDirectory() as folder, closing(Connections(Path(folder), durability="process")) as other:
            try:
                with other.write() as tx:
                    done = replay_log(conn, tx, only=only)
                with other.read() as tx:
                    here, there = digest.digests(conn), digest.digests(tx)
                    for number, names in spaces.items():
                        if here[names] == there.get(names):
                            continue
                        found = digest.differences(conn, tx, only=names)
                        if number in done.unsaid:
                            self.notes.append(
                                f"{'/'.join(names)}: the log is of an earlier version and cannot say all "
                                f"({done.unsaid[number][0]}); the tree differs from it in {len(found)} things"
                            )
                        else:
                            self._add("replay", names, len(found), detail="; ".join(found[:DETAILS]))
            except (HybridMemError, sqlite3.Error, LookupError, TypeError, ValueError) as error:
                self._add("unreadable", detail=f"the log cannot be replayed: {error!r}")

    def _vectors(self, conn: sqlite3.Connection, spaces: dict[int, Namespace]) -> None:
        """What Chroma holds against what it must hold, both ways."""
        try:
            model = checks.model(conn)
            left = points.setting(conn, projection.FILES)
            place = points.setting(conn, PLACE)
        except ValueError:  # told as a fault of the settings
            return
        if model is None:
            return
        if place is not None and place[0] is not None:
            self.notes.append(f"the vectors are on the Chroma server {place[0]}, whose state was not compared")
            return
        index = self._directory / projection.DIRECTORY
        is_open = shared.at_hand(self._directory).is_open
        try:
            found = census.take(index, is_open=is_open, is_doubtful=left != health.file_state(index))
        except IndexUnavailable as error:
            self.notes.append(f"what Chroma holds was not compared: {error}")
            return
        if found.problem is not None:
            self._add("chroma_files", detail=found.problem)
            return
        total = 0
        for space, names in spaces.items():
            held = found.collections.get(chroma.collection_name(names, model[0]), frozenset())
            total += len(held)
            wanted = {
                piece_id(node_id, piece)
                for node_id, count in outbox.indexed(conn, space).items()
                for piece in range(count)
            }
            waiting = outbox.pending_ids(conn, space)
            extra = {one for one in held - wanted if one // MOST not in waiting}
            for kind, ids in (("chroma_missing", wanted - held), ("chroma_extra", extra)):
                if ids:
                    nodes = nodes_of(sorted(ids))
                    uids = [key.uid for key in tree.keys(conn, nodes[:SHOWN_IDS])]
                    detail = f"SQLite has {len(wanted)}, Chroma {len(held)}"
                    self._add(kind, names, len(ids), uids, detail)
        self._counts["vectors"] = total

    def _add(
        self, kind: str, namespace: Namespace | None = None, count: int = 1, ids: Sequence[str] = (), detail: str = ""
    ) -> None:
        self._findings.append(finding(kind, namespace, count, tuple(ids), detail))


def _kept_aside(directory: Path) -> list[str]:
    """What damage and old stores take up, since nothing ever deletes them."""
    moved = sorted(directory.glob(f"{projection.DIRECTORY}{health.DAMAGED}*"))
    places = [place for place in (directory / ASIDE, *moved) if place.exists()]
    files = [
        file for place in places for file in (place, *place.rglob("*")) if file.is_file() and not file.is_symlink()
    ]
    if not files:
        return []
    megabytes = sum(file.stat().st_size for file in files) / 1e6
    named = ", ".join(str(place) for place in places)
    return [
        f"{megabytes:.1f} MB of old and damaged files are kept in {named}; nothing uses them, so that you may delete "
        "them when you want nothing back from there"
    ]


class _Group:
    """Faults of one kind in one namespace: how many, and the first of them."""

    def __init__(self) -> None:
        self.count = 0
        self.ids: list[int] = []
        self.uids: list[str] = []
        self.details: list[str] = []

    def take(self, fault: checks.Fault) -> None:
        self.count += 1
        if fault.node_id is not None and len(self.ids) < SHOWN_IDS:
            self.ids.append(fault.node_id)
        if fault.uid is not None and len(self.uids) < SHOWN_IDS:
            self.uids.append(fault.uid)
        if fault.detail and fault.detail not in self.details and len(self.details) < DETAILS:
            self.details.append(fault.detail)


def _namespace_id(tx: sqlite3.Connection, namespace: Namespace | None) -> int | None:
    if namespace is None:
        return None
    found = points.namespace_id(tx, namespace)
    if found is None:
        raise NotFound(f"namespace: there is no {'/'.join(namespace)!r} in this store")
    return found

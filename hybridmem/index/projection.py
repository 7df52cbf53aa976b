"""The vectors of a store as Chroma holds them: one object per store directory and process, shared by all handles.

It is a projection of SQLite and can be thrown away at any moment. One process owns it at a time (OwnerLock). An owner
that closes in peace notes in SQLite what the files look like. If the next one finds them otherwise (the last was
killed, or somebody touched them), they are checked from outside before they are opened, since torn ones can crash the
interpreter. What fails is moved aside, never deleted, and everything is queued again in the outbox.

Chroma holds one vector per piece of a content (hybridmem.pieces), under the number that :func:`piece_id` makes of node
and piece (hybridmem.index.nodes): what comes out of here are nodes, each once.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hybridmem import faults
from hybridmem.errors import HybridMemError, IndexUnavailable
from hybridmem.index import chroma, health
from hybridmem.index.nodes import NodeIndex, nodes_of, piece_id
from hybridmem.index.owner import OwnerLock
from hybridmem.pieces import MOST
from hybridmem.ports import Vectors
from hybridmem.store import outbox, points
from hybridmem.store.connect import Connections

logger = logging.getLogger("hybridmem")

DIRECTORY = "vectors"
LOCK = "vectors.lock"
#: Store setting: size and time of every file at the last close; null while somebody has the index open.
FILES = "index_files"
#: Rebuilds in one process; an engine that still fails then will not get better by another.
MAX_REBUILDS = 3

_registry_guard = threading.Lock()
_registry: dict[str, Projection] = {}


def _forget_in_child() -> None:
    """After a fork: the guard may be held by a thread that does not exist here, and the objects are the parent's."""
    global _registry_guard
    _registry_guard = threading.Lock()
    _registry.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)


def share(directory: Path, user: object) -> Projection:
    """This process's projection of the store in ``directory``; give it back with :meth:`Projection.close`.

    :param user: who uses it. Asking again counts once, so a call that was interrupted may be repeated.
    """
    with _registry_guard:
        key = os.path.realpath(directory)
        found = _registry.get(key)
        if found is None:
            found = _registry[key] = Projection(directory, key)
        found.users.add(user)
        return found


def at_hand(directory: Path) -> Projection:
    """The projection that this process has of a store, or one that is for looking only."""
    with _registry_guard:
        key = os.path.realpath(directory)
        return _registry.get(key) or Projection(directory, key)


class Projection:
    """Made by :func:`share` only. Safe to use from several threads; ``connections`` is the calling handle's."""

    def __init__(self, directory: Path, key: str) -> None:
        self.users: weakref.WeakSet[object] = weakref.WeakSet()
        #: Why the index cannot be used in this process any more, or None.
        self.trouble: str | None = None
        #: Whether another process had the index when this one last wanted it.
        self.elsewhere = False
        self._key = key
        self._directory = directory / DIRECTORY
        self._lock = OwnerLock(directory / LOCK)
        self._indexes: dict[str, NodeIndex] = {}
        self._rebuilds = 0
        self._guard = threading.RLock()

    @property
    def is_open(self) -> bool:
        return bool(self._indexes)

    def push(self, connections: Connections, model_key: str, dimension: int, limit: int) -> bool:
        """Takes one batch from the outbox to Chroma. True if that may have made room for more.

        False if nothing is ready, another process owns the index, or it is in trouble.
        """
        with self._guard:
            if self.trouble is not None:
                return False
            with connections.read() as tx:
                items = outbox.ready(tx, limit)
                items = _within(items, outbox.piece_counts(tx, [item.node_id for item in items]), limit)
                vectors = outbox.vectors_of(tx, [item.node_id for item in items if item.live])
            try:
                if not items or not self._own(connections):
                    return False
                for namespace in sorted({item.namespace for item in items}):
                    index = self._index(connections, namespace, model_key, dimension)
                    mine = [item for item in items if item.namespace == namespace]
                    faults.point("index.before_upsert")
                    index.delete([item.node_id for item in mine if not item.live])
                    live = [item.node_id for item in mine if item.live and item.node_id in vectors]
                    index.replace({node_id: vectors[node_id] for node_id in live})
            except IndexUnavailable as error:
                self._rebuild(connections, error)
                return self.trouble is None
            faults.point("index.after_upsert")
            with connections.write() as tx:
                outbox.done(tx, [item.entry for item in items])
            faults.point("index.after_outbox")
            return True

    def check(self, connections: Connections, model_key: str, dimension: int) -> None:
        """Opens the index of every namespace that has vectors, which brings both into agreement."""
        with self._guard:
            if self.trouble is not None:
                return
            with connections.read() as tx:
                namespaces = [one for one in points.namespaces(tx) if outbox.embedded(tx, one)]
            try:
                if namespaces and self._own(connections):
                    for namespace in namespaces:
                        self._index(connections, namespace, model_key, dimension)
            except IndexUnavailable as error:
                self._rebuild(connections, error)

    def query(
        self, connections: Connections, namespace: int, model_key: str, dimension: int, vector: Vectors, k: int
    ) -> list[int]:
        """The internal ids of the ``k`` nearest nodes of a namespace, nearest first.

        :raises IndexUnavailable: another process owns the index, or it failed (and is being rebuilt).
        """
        with self._guard:
            if self.trouble is not None:
                raise IndexUnavailable(self.trouble)
            if not self._own(connections):
                raise IndexUnavailable("another process owns the vector index at the moment")
            try:
                return self._index(connections, namespace, model_key, dimension).query(vector, k)
            except IndexUnavailable as error:
                self._rebuild(connections, error)
                raise

    @contextmanager
    def at_rest(self) -> Iterator[bool]:
        """Nobody changes the index while this is held. False: another process has it, and may."""
        with self._guard:
            held = self._lock.held
            try:
                yield held or self._is_free()
            finally:
                if not held:
                    self._lock.release()

    def _is_free(self) -> bool:
        """Takes the lock, unless nobody can: to look at an index must not make a lock file."""
        try:
            return not self._lock.exists or self._lock.acquire()
        except IndexUnavailable:  # a read-only disk
            return True

    def replace(self, connections: Connections, build: Callable[[Path], None]) -> Path | None:
        """Lets ``build`` make an index in a directory beside, and puts it in the place of this one.

        :return: where the old files are now; None: there were none.
        :raises IndexUnavailable: another process owns the index, or ``build`` failed; the old one is as it was.
        """
        with self._guard:
            held = self._lock.held
            self._close_indexes()
            new = self._directory.with_name(f"{DIRECTORY}.new")
            try:
                if not self._lock.acquire():
                    raise IndexUnavailable("another process has the vector index open; close it, then repair again")
                shutil.rmtree(new, ignore_errors=True)  # one that was never finished
                build(new)
                with connections.write() as tx:
                    points.set_setting(tx, FILES, None)
                aside = health.move_aside(self._directory) if os.path.lexists(self._directory) else None
                new.rename(self._directory)
            except BaseException as error:
                if not held:
                    self._lock.release()
                if isinstance(error, OSError):
                    raise IndexUnavailable(f"the new vector index cannot be put in place: {error}") from error
                raise
            self.trouble, self._rebuilds = None, 0
            return aside

    def close(self, connections: Connections, user: object) -> None:
        """Gives the share back; the last one closes Chroma and lets other processes have it."""
        with _registry_guard:
            self.users.discard(user)
            if self.users:
                return
            _registry.pop(self._key, None)
        with self._guard:
            if not self._lock.held:
                return
            try:
                self._close_indexes()
                faults.point("close.after_index")
                with connections.write() as tx:
                    points.set_setting(tx, FILES, health.file_state(self._directory))
            except HybridMemError as error:
                # The next owner will check the files, which costs two seconds and nothing else.
                logger.debug("the index stays noted as open: %s", error)
            finally:
                self._lock.release()

    def _own(self, connections: Connections) -> bool:
        """Takes the lock if it is free, and then makes sure that what a killed owner left can be opened."""
        if self._lock.held:
            return True
        try:
            chroma.import_chromadb()
            chroma.refuse_fork()
        except IndexUnavailable as error:  # Chroma cannot be used in this process; its files are none the worse
            self._give_up(str(error))
            return False
        try:
            self.elsewhere = not self._lock.acquire()
        except BaseException:  # interrupted with the lock taken: held, it would count as checked
            self._lock.release()
            raise
        if self.elsewhere:
            return False
        try:
            with connections.read() as tx:
                left = points.setting(tx, FILES)
            if not self._sound(left):
                self._rebuild(connections, IndexUnavailable("its files are torn"))
            with connections.write() as tx:
                points.set_setting(tx, FILES, None)
            return True
        except IndexUnavailable as error:  # the checker could not import Chroma, which this process could
            self._give_up(str(error))
            return False
        except BaseException:
            self._lock.release()
            raise

    def _sound(self, left: dict[str, list[int]] | None) -> bool:
        """Whether the files can be opened in this process. As the last owner left them, their structure is enough."""
        if left == health.file_state(self._directory):
            return health.check_structure(self._directory) is None
        return health.healthy(self._directory, keep_open=self._lock.descriptors)

    def _index(self, connections: Connections, namespace: int, model_key: str, dimension: int) -> NodeIndex:
        with connections.read() as tx:
            name = chroma.collection_name(points.namespaces(tx)[namespace], model_key)
        index = self._indexes.get(name)
        if index is None:
            index = NodeIndex(chroma.ChromaIndex(self._directory, name, dimension))
            try:
                self._reconcile(connections, namespace, index)
            except BaseException:
                index.close()
                raise
            self._indexes[name] = index  # only now, so that one whose agreement was not reached is opened again
        return index

    def _reconcile(self, connections: Connections, namespace: int, index: NodeIndex) -> None:
        """At opening, both ways: what it should hold and does not is queued; what it holds and should not goes."""
        held = index.read()
        with connections.write() as tx:
            counts = outbox.indexed(tx, namespace)
            wanted = {piece_id(node_id, piece) for node_id, count in counts.items() for piece in range(count)}
            for node_id in nodes_of(sorted(wanted - held)):
                outbox.queue(tx, namespace, node_id)
            waiting = outbox.pending_ids(tx, namespace)
        extra = {one for one in held - wanted if one // MOST not in waiting}
        index.delete_pieces(sorted(extra))
        if extra or wanted - held:
            logger.warning("the vector index lacked %d vectors and had %d extra", len(wanted - held), len(extra))

    def _rebuild(self, connections: Connections, error: IndexUnavailable) -> None:
        """Moves the broken files aside and queues everything; the vectors are in SQLite, so no model is needed."""
        self._close_indexes()
        self._rebuilds += 1
        if self._rebuilds > MAX_REBUILDS:
            self._give_up(f"the vector index broke {self._rebuilds} times: {error}")
            return
        faults.point("rebuild.before_aside")
        try:
            aside = health.move_aside(self._directory) if self._directory.exists() else None
        except OSError as second:
            self._give_up(f"{error}; and it cannot be moved aside: {second}")
            return
        faults.point("rebuild.after_aside")
        with connections.write() as tx:
            outbox.requeue_all(tx)
        faults.point("rebuild.after_queue")
        logger.warning("rebuilding the vector index (%s)%s", error, f"; old files in {aside}" if aside else "")

    def _give_up(self, reason: str) -> None:
        self.trouble = reason
        self._close_indexes()
        self._lock.release()
        logger.warning("the vector index is unavailable, searching exactly instead: %s", reason)

    def _close_indexes(self) -> None:
        indexes, self._indexes = self._indexes, {}
        try:
            for index in indexes.values():
                index.close()
        finally:
            chroma.abandon(self._directory)  # also what an interrupt left open: nobody else here uses the directory


def _within(items: Sequence[outbox.Pending], counts: dict[int, int], limit: int) -> list[outbox.Pending]:
    """The first of the items, at least one, that have no more than ``limit`` pieces together."""
    kept: list[outbox.Pending] = []
    for item in items:
        limit -= counts.get(item.node_id, 0)
        if kept and limit < 0:
            break
        kept.append(item)
    return kept

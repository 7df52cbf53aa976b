"""The vectors of a store in Chroma's files beside it: one object per store directory and process, see ``shared``.

It is a projection of SQLite and can be thrown away at any moment. One process owns it at a time (OwnerLock). An owner
that closes in peace notes in SQLite what the files look like. If the next one finds them otherwise (the last was
killed, or somebody touched them), they are checked from outside before they are opened, since torn ones can crash the
interpreter. What fails is moved aside, never deleted, and everything is queued again in the outbox.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hybridmem import faults
from hybridmem.errors import HybridMemError, IndexUnavailable
from hybridmem.index import chroma, chroma_import, health
from hybridmem.index.hnsw import clear_room
from hybridmem.index.nodes import NodeIndex, batch, reconcile
from hybridmem.index.owner import OwnerLock
from hybridmem.index.pointers import PLACE
from hybridmem.index.server import Server
from hybridmem.ports import Vectors
from hybridmem.store import outbox, points, receipts
from hybridmem.store.connect import Connections

logger = logging.getLogger("hybridmem")

DIRECTORY = "vectors"
LOCK = "vectors.lock"
#: Store setting: size and time of every file at the last close; null while somebody has the index open.
FILES = "index_files"
#: Store setting: up to which erasure the files are free of what was erased, see hybridmem.store.receipts.
CLEAN = "index_clean"
#: Store setting: the last entry of the outbox that a new index has to take in before it may be asked; null: none.
FILLING = "index_filling"
#: Rebuilds in one process; an engine that still fails then will not get better by another.
MAX_REBUILDS = 3


class Projection:
    """Made by ``shared.share`` only. Safe to use from several threads; ``connections`` is the calling handle's."""

    #: Nobody else has the vectors, and whatever is not in the files yet is in the outbox.
    server: Server | None = None
    left = 0

    def __init__(self, directory: Path) -> None:
        #: Why the index cannot be used in this process any more, or None.
        self.trouble: str | None = None
        #: Whether another process had the index when this one last wanted it.
        self.elsewhere = False
        self._directory = directory / DIRECTORY
        self._lock = OwnerLock(directory / LOCK)
        self._indexes: dict[str, NodeIndex] = {}
        self._model: str | None = None
        #: How many erasures this process knew of when it looked last.
        self._generation = 0
        self._rebuilds = 0
        self._guard = threading.RLock()

    @property
    def state(self) -> str:
        """ready (open in this process), elsewhere (in another), unavailable (given up in this one), or not-opened."""
        if self.trouble is not None:
            return "unavailable"
        if self.elsewhere:
            return "elsewhere"
        return "ready" if self._indexes else "not-opened"

    def retry(self) -> None:
        """Tries again at once what has failed. What was given up here stays so in this process."""

    def push(self, connections: Connections, model_key: str, dimension: int, limit: int) -> bool:
        """Takes one batch from the outbox to Chroma. True if that may have made room for more.

        False if nothing is ready, another process owns the index, or it is in trouble.
        """
        with self._guard:
            self._follow(connections)
            if self.trouble is not None:
                return False
            work = batch(connections, model_key, limit)
            try:
                if not work.items or not self._own(connections, model_key):
                    return False
                for namespace in work.namespaces:
                    faults.point("index.before_upsert")
                    work.apply(namespace, self._index(connections, namespace, model_key, dimension))
            except IndexUnavailable as error:
                self._rebuild(connections, error)
                return self.trouble is None
            self._clear_room()
            faults.point("index.after_upsert")
            with connections.write() as tx:
                outbox.done(tx, [item.entry for item in work.items])
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
                if namespaces and self._own(connections, model_key):
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
            if not self._own(connections, model_key):
                raise IndexUnavailable("another process owns the vector index at the moment")
            self._follow(connections)
            if self._is_filling(connections):
                raise IndexUnavailable("the vector index is being made anew")
            try:
                return self._index(connections, namespace, model_key, dimension).query(vector, k)
            except IndexUnavailable as error:
                self._rebuild(connections, error)
                raise

    @property
    def is_open(self) -> bool:
        return bool(self._indexes)

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

    def replace(self, connections: Connections, model_key: str, build: Callable[[Path], None]) -> Path | None:
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
                    points.set_setting(tx, PLACE, [None, model_key])
                aside = health.move_aside(self._directory) if os.path.lexists(self._directory) else None
                new.rename(self._directory)
            except BaseException as error:
                if not held:
                    self._lock.release()
                if isinstance(error, OSError):
                    raise IndexUnavailable(f"the new vector index cannot be put in place: {error}") from error
                raise
            self.trouble, self._rebuilds, self._model = None, 0, model_key
            return aside

    def renew(self, connections: Connections) -> bool:
        """Removes the files: something was erased that they may hold still.
        Everything is queued for a new index, and until that has taken it in, searches are exact.

        :return: whether they are gone. False: another process has them, which starts over itself when it comes to it.
        :raises IndexUnavailable: they cannot be removed.
        """
        with self._guard:
            held = self._lock.held
            with connections.read() as tx:
                wanted, clean = receipts.generation(tx), points.setting(tx, CLEAN)
            self._generation = wanted
            if clean == wanted or (not wanted and clean is None):
                return True
            if not self._lock.exists and not self._directory.exists():  # nobody has ever made one
                with connections.write() as tx:
                    points.set_setting(tx, CLEAN, wanted)
                return True
            try:
                if not self._lock.acquire():
                    return False
                self._close_indexes()
                with connections.write() as tx:
                    points.set_setting(tx, FILES, None)
                    outbox.requeue_all(tx)
                    points.set_setting(tx, FILLING, outbox.last(tx))
                faults.point("erase.before_vectors")
                self._start_over()
                with connections.write() as tx:
                    points.set_setting(tx, FILES, None if held else health.file_state(self._directory))
                    points.set_setting(tx, CLEAN, wanted)
            except OSError as error:
                raise IndexUnavailable(f"the files of the old index cannot be removed: {error}") from error
            finally:
                if not held:
                    self._lock.release()
            return True

    def _follow(self, connections: Connections) -> None:
        """Starts the index over if something was erased since, by whatever process."""
        if not self._lock.held:
            return
        try:
            self.renew(connections)
        except IndexUnavailable as error:
            self._give_up(str(error))

    def _clear_room(self) -> None:
        """What hnswlib has never filled holds whatever was in the memory of this process: texts of any namespace of any
        store that is open in it, whether they are encrypted there or erased."""
        clear_room(self._directory)

    def _is_filling(self, connections: Connections) -> bool:
        with connections.read() as tx:
            last = points.setting(tx, FILLING)
            if last is None:
                return False
            if outbox.waits_up_to(tx, last):
                return True
        with connections.write() as tx:
            points.set_setting(tx, FILLING, None)
        return False

    def close(self, connections: Connections) -> None:
        """Closes Chroma and lets other processes have it."""
        with self._guard:
            if not self._lock.held:
                return
            try:
                self._follow(connections)
                self._close_indexes()
                faults.point("close.after_index")
                with connections.write() as tx:
                    points.set_setting(tx, FILES, health.file_state(self._directory))
            except HybridMemError as error:
                # The next owner will check the files, which costs two seconds and nothing else.
                logger.debug("the index stays noted as open: %s", error)
            finally:
                self._model = None
                self._lock.release()

    def _own(self, connections: Connections, model_key: str) -> bool:
        """Takes the lock if it is free, and then makes sure that what a killed owner left can be opened."""
        if self._lock.held and self._model == model_key:
            return True
        try:
            chroma_import.import_chromadb()
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
                left, place = points.setting(tx, FILES), points.setting(tx, PLACE)
            if place not in (None, [None, model_key]):
                self._start_over()
            elif self._model is None and not self._sound(left):
                self._rebuild(connections, IndexUnavailable("its files are torn"))
            with connections.write() as tx:
                points.set_setting(tx, FILES, None)
                points.set_setting(tx, PLACE, [None, model_key])
            self._model = model_key
            return True
        except IndexUnavailable as error:  # the checker could not import Chroma, which this process could
            self._give_up(str(error))
            return False
        except BaseException:
            self._lock.release()
            raise

    def _start_over(self) -> None:
        """Removes the files: they hold vectors of another model, or those of before a server had them."""
        self._close_indexes()
        shutil.rmtree(self._directory, ignore_errors=True)
        if self._directory.exists():
            raise IndexUnavailable(f"the outdated files in {self._directory} cannot be removed")

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
                reconcile(connections, namespace, index)
            except BaseException:
                index.close()
                raise
            self._indexes[name] = index  # only now, so that one whose agreement was not reached is opened again
        return index

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
        self._model = None
        self._lock.release()
        logger.warning("the vector index is unavailable, searching exactly instead: %s", reason)

    def _close_indexes(self) -> None:
        indexes, self._indexes = self._indexes, {}
        try:
            for index in indexes.values():
                index.close()
        finally:
            chroma.abandon(self._directory)  # also what an interrupt left open: nobody else here uses the directory
            self._clear_room()

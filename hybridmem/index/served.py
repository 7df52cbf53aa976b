"""The vectors of a store on a Chroma server (``index.url``): one object per store and process, see ``shared``.

It is a projection of SQLite, as the files of ``projection`` are, with these differences:

- Every process asks the server; only the owner (OwnerLock) writes to it, from the outbox, for all of them.
- Which collection is asked says a pointer in SQLite. Where it leads to none, or to an older state, a new collection is
  filled beside from SQLite, counted, and only then is the pointer switched and the old collection dropped; meanwhile
  search is exact. An older state is told by a number of pushes, noted on both sides, that differ.
- Names of collections are made of an id of the store. A copy of a store is told by the inode of its database and gets
  another id: so two stores on a server never share a collection.
- The server may be away. Then nothing here waits for it again for some seconds, and everything stays in the outbox.

No request is made inside of a transaction.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hybridmem.errors import IndexUnavailable
from hybridmem.index import chroma, pointers
from hybridmem.index.nodes import NodeIndex, batch, reconcile
from hybridmem.index.owner import OwnerLock
from hybridmem.index.pointers import Pointer
from hybridmem.index.projection import LOCK
from hybridmem.index.server import Server
from hybridmem.ports import Vectors
from hybridmem.store import outbox, points
from hybridmem.store.connect import Connections

logger = logging.getLogger("hybridmem")

#: Seconds until a server that gave no answer is asked again. One that answers with an error is asked less and less
#: often: the time is doubled up to LONGEST_DOUBLED times.
RETRY_SECONDS = 5.0
LONGEST_DOUBLED = 6
#: After so many searches in a row that were answered with an error a collection counts as broken.
MOST_REFUSALS = 3
#: Seconds between looks of the owner whether the collections are still there, when nothing else shows it.
LOOK_SECONDS = 10.0


@dataclass(slots=True)
class _Opened:
    """A collection that this process writes to, and how often it has been changed."""

    index: chroma.ChromaIndex
    nodes: NodeIndex
    name: str
    pushes: int = 0


@dataclass(slots=True)
class _Build:
    """A collection that is being filled: the nodes that are still to come, how the names of all collections of its
    namespace begin, and how many vectors it has got."""

    opened: _Opened
    left: list[int]
    stem: str
    vectors: int = 0


class Served:
    """Made by ``shared.share`` only. Safe to use from several threads; ``connections`` is the calling handle's."""

    def __init__(self, directory: Path, server: Server) -> None:
        self.server: Server | None = server
        #: Why the server could not be used when it was last asked, or None.
        self.trouble: str | None = None
        self._lock = OwnerLock(directory / LOCK)
        self._guard = threading.RLock()  # one at a time does the owner's work
        self._asking = threading.RLock()  # guards the client and the readers; a search waits for this one only
        self._client: chroma.ServerClient | None = None
        self._readers: dict[int, tuple[str, chroma.ChromaIndex]] = {}
        self._opened: dict[int, _Opened] = {}
        self._builds: dict[int, _Build] = {}
        self._known: set[int] = set()  # namespaces that this process has been the owner of
        self._suspect: set[int] = set()  # those whose collection is to be replaced
        self._model: str | None = None
        self._refusals: dict[int, int] = {}  # by namespace, searches in a row that were answered with an error
        self._retry_at = 0.0
        self._look_at = 0.0
        self._failures = 0
        self._has_answered = False

    @property
    def state(self) -> str:
        """ready (it has answered), building (a collection is filled anew), unavailable (see ``trouble``), or
        not-opened."""
        if self.trouble is not None:
            return "unavailable"
        if self._builds:
            return "building"
        return "ready" if self._has_answered else "not-opened"

    @property
    def left(self) -> int:
        """How many memories still have to be taken into a collection that is filled anew."""
        return sum(len(build.left) for build in list(self._builds.values()))

    def retry(self) -> None:
        """Asks the server again at once, however short ago it failed."""
        self._retry_at = 0.0

    def push(self, connections: Connections, model_key: str, dimension: int, limit: int) -> bool:
        """Takes one batch from the outbox to the server, or of a collection that is being filled. True if there may be
        more to do.

        False if nothing is ready, another process is the owner, or the server is away.
        """
        with self._guard:
            if self._is_down():
                return False
            try:
                if not self._builds and not self._push(connections, model_key, dimension, limit):
                    return False
                if self._builds:
                    self._go_on(connections, limit)
                self._has_worked()
                self._failures = 0
            except IndexUnavailable as error:
                self._forget()
                self._has_failed(error)
                return False
            return True

    def check(self, connections: Connections, model_key: str, dimension: int) -> None:
        """Looks at the collection of every namespace that has vectors; one that is not as it was left is filled anew
        by the pushes that follow."""
        with self._guard:
            if self._is_down():
                return
            with connections.read() as tx:
                namespaces = [one for one in points.namespaces(tx) if outbox.embedded(tx, one)]
            try:
                if namespaces and self._own(connections, model_key):
                    self._look(connections, dimension)
                    for namespace in namespaces:
                        self._open(connections, namespace, dimension)
                    self._has_worked()
            except IndexUnavailable as error:
                self._forget()
                self._has_failed(error)

    def query(
        self, connections: Connections, namespace: int, model_key: str, dimension: int, vector: Vectors, k: int
    ) -> list[int]:
        """The internal ids of the ``k`` nearest nodes of a namespace, nearest first. Any process may ask.

        :raises IndexUnavailable: the server is away (or was, a moment ago), or has not got the vectors yet.
        """
        with self._asking:  # whoever waits here for one that finds the server gone need not try it again
            if self._is_down():
                raise IndexUnavailable(self.trouble or "")
            if pointers.find(connections, namespace, model_key) is None:
                raise IndexUnavailable("the vectors are not on the server yet")
            try:
                try:
                    found = self._query(connections, namespace, model_key, dimension, vector, k)
                except IndexUnavailable as error:
                    if chroma.unreachable(error):
                        raise
                    # The owner has just dropped that collection, or is writing the first vectors to it.
                    self._readers.pop(namespace, None)
                    found = self._query(connections, namespace, model_key, dimension, vector, k)
            except IndexUnavailable as error:
                self._has_not_found(namespace, error)
                raise
            self._refusals.pop(namespace, None)
            self._has_worked()
            return found

    def close(self, connections: Connections) -> None:
        """Closes the connections to the server and lets another process be the owner."""
        with self._guard, self._asking:
            self._forget()
            self._lock.release()
            if self._client is not None:
                self._client.close()
                self._client = None

    def _query(
        self, connections: Connections, namespace: int, model_key: str, dimension: int, vector: Vectors, k: int
    ) -> list[int]:
        pointer = pointers.find(connections, namespace, model_key)
        if pointer is None:
            raise IndexUnavailable("the vectors are not on the server any more")
        known, reader = self._readers.get(namespace, (None, None))
        if reader is None or known != pointer.name:
            reader = chroma.ChromaIndex(self._ask(), pointer.name, dimension, create=False)
            self._readers[namespace] = (pointer.name, reader)
        return NodeIndex(reader).query(vector, k)

    # Whether the server is there

    def renew(self, connections: Connections) -> bool:
        """What was erased leaves the collections with the outbox. Makes each anew, as far as this process may."""
        with self._guard:
            self._suspect |= self._known
        return True

    def _is_down(self) -> bool:
        return self.trouble is not None and time.monotonic() < self._retry_at

    def _has_failed(self, error: IndexUnavailable) -> None:
        """Nothing that is known of the server counts any more: it may come back with another state."""
        pause = RETRY_SECONDS
        if not chroma.unreachable(error):
            pause *= 2 ** min(self._failures, LONGEST_DOUBLED)
            self._failures += 1
        if self.trouble is None:
            logger.warning("the Chroma server is unavailable, searching exactly meanwhile: %s", error)
        self.trouble = str(error)
        self._retry_at = time.monotonic() + pause
        self._look_at = 0.0
        with self._asking:
            self._readers.clear()

    def _has_not_found(self, namespace: int, error: IndexUnavailable) -> None:
        """A search failed. A server that answers is asked again by the next one, and after some failures the owner
        replaces the collection."""
        if chroma.unreachable(error):
            self._has_failed(error)
            return
        self._readers.pop(namespace, None)
        self._refusals[namespace] = self._refusals.get(namespace, 0) + 1
        if self._refusals[namespace] >= MOST_REFUSALS:
            self._suspect.add(namespace)
        self.trouble, self._look_at = str(error), 0.0

    def _has_worked(self) -> None:
        self.trouble, self._has_answered = None, True

    def _forget(self) -> None:
        self._opened.clear()
        self._builds.clear()

    def _ask(self) -> chroma.ServerClient:
        with self._asking:
            if self._client is None:
                assert self.server is not None
                self._client = chroma.ServerClient(self.server)
            return self._client

    # The work of the owner, under the guard

    def _push(self, connections: Connections, model_key: str, dimension: int, limit: int) -> bool:
        """One batch; False if there is nothing to do. It may begin to build a collection instead."""
        work = batch(connections, model_key, limit)
        is_due = bool(self._known or self._suspect) and time.monotonic() >= self._look_at
        if not (work.items or (is_due and self._lock.held)) or not self._own(connections, model_key):
            return False
        if is_due:
            self._look(connections, dimension)
        found = {one: self._open(connections, one, dimension) for one in work.namespaces}
        if self._builds:
            return True
        if not work.items:
            return False
        for namespace, opened in found.items():
            assert opened is not None
            work.apply(namespace, opened.nodes)
            opened.index.mark(opened.pushes + 1)
        with connections.write() as tx:
            outbox.done(tx, [item.entry for item in work.items])
            for namespace, opened in found.items():
                assert opened is not None
                pointers.save(tx, namespace, Pointer(opened.name, opened.pushes + 1))
        for opened in found.values():
            assert opened is not None
            opened.pushes += 1
        return True

    def _own(self, connections: Connections, model_key: str) -> bool:
        """Takes the lock if it is free, and makes sure that the pointers are about this store, server and model."""
        if self._lock.held and self._model == model_key:
            return True
        self._ask()  # first, since without chromadb this process should not be the owner
        try:
            if not self._lock.acquire():
                return False
            self._forget()
            assert self.server is not None
            pointers.claim(connections, self.server.url, model_key)
        except BaseException:
            self._lock.release()
            raise
        self._model = model_key
        return True

    def _look(self, connections: Connections, dimension: int) -> None:
        """Opens again what is not as this process left it: the server was away, or somebody has changed it."""
        for namespace, opened in list(self._opened.items()):
            if not self._is_fit(opened.index, opened.pushes):
                self._suspect.add(namespace)
        for namespace in sorted(self._known | self._suspect):
            self._open(connections, namespace, dimension)
        self._has_worked()
        self._look_at = time.monotonic() + LOOK_SECONDS

    def _open(self, connections: Connections, namespace: int, dimension: int) -> _Opened | None:
        """The collection of a namespace, as this store left it and in agreement with it; None: it is being built."""
        opened = self._opened.get(namespace)
        self._known.add(namespace)
        if namespace in self._builds or (opened is not None and namespace not in self._suspect):
            return opened
        assert self._model is not None
        pointer = pointers.find(connections, namespace, self._model)
        if pointer is not None and namespace not in self._suspect:
            try:
                index = chroma.ChromaIndex(self._ask(), pointer.name, dimension, create=False)
                if self._is_fit(index, pointer.pushes):
                    found = _Opened(index, NodeIndex(index), pointer.name, pointer.pushes)
                    reconcile(connections, namespace, found.nodes)
                    self._opened[namespace] = found
                    return found
            except IndexUnavailable as error:
                if chroma.unreachable(error):
                    raise
                logger.info("the collection %s cannot be used: %s", pointer.name, error)
        self._begin(connections, namespace, dimension, pointer)
        return None

    def _is_fit(self, index: chroma.ChromaIndex, pushes: int) -> bool:
        """Whether a collection is there and has all changes. It may have one more, of a push that was cut off: that is
        in the outbox still."""
        try:
            return index.marked() in (pushes, pushes + 1)
        except IndexUnavailable as error:
            if chroma.unreachable(error):
                raise
            return False

    def _begin(self, connections: Connections, namespace: int, dimension: int, old: Pointer | None) -> None:
        """Makes an empty collection beside the old one, which may not be there."""
        assert self._model is not None
        with connections.read() as tx:
            nodes = outbox.indexed(tx, namespace)
        stem, name = pointers.next_name(connections, namespace, self._model, old)
        self._ask().drop(stem, keep=None if old is None else old.name)  # also what a process that died has begun
        index = chroma.ChromaIndex(self._ask(), name, dimension)
        self._opened.pop(namespace, None)
        self._builds[namespace] = _Build(_Opened(index, NodeIndex(index), name), sorted(nodes), stem)
        if nodes:
            logger.warning("filling a new collection on the Chroma server: %d memories", len(nodes))

    def _go_on(self, connections: Connections, limit: int) -> None:
        """Takes a batch into a collection that is being built; when it is complete, switches to it."""
        namespace, build = next(iter(self._builds.items()))
        with connections.read() as tx:
            vectors = outbox.vectors_of(tx, build.left[:limit])
        build.opened.nodes.replace(vectors)
        written = sum(len(rows) for rows in vectors.values())
        build.left, build.vectors = build.left[limit:], build.vectors + written  # at once, since Ctrl-C may come
        if build.left:
            return
        found = build.opened.index.count()
        if found != build.vectors:
            raise IndexUnavailable(f"{build.opened.name} has {found} vectors after {build.vectors} were written to it")
        build.opened.index.mark(0)
        with connections.write() as tx:
            pointers.save(tx, namespace, Pointer(build.opened.name, 0))
        del self._builds[namespace]
        self._suspect.discard(namespace)
        self._opened[namespace] = build.opened
        with suppress(IndexUnavailable):  # goes with the next one
            self._ask().drop(build.stem, keep=build.opened.name)

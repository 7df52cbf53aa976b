"""Brings vectors up to date behind the writes: outbox → embedding → copy in SQLite → Chroma → outbox row gone.

A long content is embedded in pieces (hybridmem.pieces), all of them or none.

Any process may embed; only the one that owns the index (hybridmem.index.shared) touches Chroma, and it drains the
outbox for all. A text that cannot be embedded stays in the outbox with its reason and never holds up the others.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from hybridmem import faults
from hybridmem.config import Config, EmbeddingConfig
from hybridmem.embed.model import Model
from hybridmem.embed.texts import embed_texts
from hybridmem.errors import EmbeddingUnavailable, HybridMemError, IndexUnavailable, StoreClosed
from hybridmem.index import shared
from hybridmem.index.rebuild import build
from hybridmem.index.served import Served
from hybridmem.index.server import Server
from hybridmem.pieces import pieces
from hybridmem.ports import Vectors
from hybridmem.store import outbox
from hybridmem.store.connect import Connections

logger = logging.getLogger("hybridmem")

#: Seconds between looks for work of other processes, or for the index of an owner that died.
POLL_SECONDS = 1.0
DEFAULTS = EmbeddingConfig()

#: A node that waits, and the pieces of its content.
Cut = tuple[outbox.Pending, list[str]]

_live: weakref.WeakSet[Indexer] = weakref.WeakSet()


def _stop_all() -> None:
    """At the end of the program: a thread inside of native code must not outlive the interpreter."""
    for indexer in list(_live):
        indexer.stop()


atexit.register(_stop_all)


class Indexer:
    """One per handle. ``start()`` runs it in a thread; ``drain()`` does the same work in the caller's.

    :param batch_size: nodes, and pieces of their contents, per round; of one longer content all pieces.
    :param piece_tokens: longest piece in rough tokens, see :func:`hybridmem.pieces.pieces`.
    :param piece_overlap: rough tokens that neighbouring pieces share.
    :param server: that has the vectors; None: Chroma runs in this process.
    """

    @classmethod
    def configured(cls, connections: Connections, model: Model, config: Config, server: Server | None) -> Indexer:
        """With the sizes that the configuration gives."""
        return cls(
            connections,
            model,
            batch_size=config.index.batch_size,
            piece_tokens=config.embedding.piece_tokens,
            piece_overlap=config.embedding.piece_overlap,
            server=server,
        )

    def __init__(
        self,
        connections: Connections,
        model: Model,
        *,
        batch_size: int,
        piece_tokens: int = DEFAULTS.piece_tokens,
        piece_overlap: int = DEFAULTS.piece_overlap,
        server: Server | None = None,
    ) -> None:
        #: What the thread does when nothing waits; it is told how to ask whether the thread is to end.
        self.chore: Callable[[Callable[[], bool]], None] | None = None
        self._connections = connections
        self._model = model
        self._batch_size = batch_size
        self._piece_tokens = piece_tokens
        self._piece_overlap = piece_overlap
        self._server = server
        self._shared: shared.Vectors | None = None
        self._working = threading.RLock()
        self._sharing = threading.RLock()  # not the lock of the work: a search must not wait for a round of embedding
        self._starting = threading.Lock()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._noted = ""
        self._closed = False
        _live.add(self)

    def stop(self) -> None:
        """Ends the thread after the batch it is at; what waits stays in the outbox."""
        self._stopping.set()
        self._wake.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread() and not self._connections.is_inherited:
            thread.join()

    @property
    def state(self) -> str:
        """One word, see :class:`hybridmem.Stats`."""
        return "not-opened" if self._shared is None else self._shared.state

    @property
    def trouble(self) -> str | None:
        """Why the index is unavailable, or None."""
        return None if self._shared is None else self._shared.trouble

    def start(self) -> None:
        """Starts the thread if it is not running."""
        if self._thread is not None:
            return
        # Not the lock of the work itself: a write must never wait for a round of embedding.
        with self._starting:
            if self._thread is None and not self._stopping.is_set():
                self._thread = threading.Thread(target=self._run, name="hybridmem-indexer", daemon=True)
                try:
                    self._thread.start()
                except BaseException:  # interrupted, or no thread to be had: one that never ran cannot be waited for
                    self._thread = None
                    raise

    def notify(self) -> None:
        """There is new work."""
        self._wake.set()

    def drain(self, timeout: float | None = None, *, retry: bool = False) -> int:
        """Works until nothing waits that can be done, or ``timeout`` seconds have passed.

        :param retry: also try again what failed before.
        :return: how much still waits, in all namespaces.
        """
        self._connections.check()  # fails at once on a closed handle or after a fork, before any lock
        deadline = None if timeout is None else time.monotonic() + timeout
        if retry:
            self._model.forget_failure()
            with self._connections.write() as tx:
                outbox.retry(tx)
            self._vectors().retry()
            self._check()
        while self._round():
            if deadline is not None and time.monotonic() >= deadline:
                break
        with self._connections.read() as tx:
            return outbox.waiting(tx) + (0 if self._shared is None else self._shared.left)

    @property
    def has_vectors(self) -> bool:
        """Whether there are files of an index here: something is embedded, and no server has it."""
        return self._server is None and self._model.recorded() is not None

    def rebuild(self) -> Path | None:
        """Makes the vector index anew from the vectors in SQLite, beside the old one, and puts it in its place.

        :return: where the old files are now; None: there were none.
        :raises IndexUnavailable: another process owns the index, or Chroma cannot be used; nothing has changed.
        """
        recorded = self._model.recorded()
        if recorded is None:
            raise IndexUnavailable("nothing is embedded yet")
        files = self._vectors()
        if isinstance(files, Served):
            raise IndexUnavailable("the vectors are on a server, which is brought into agreement whenever it is used")
        make = partial(build, self._connections, recorded.key, recorded.identity.dimension)
        return files.replace(self._connections, recorded.key, make)

    @property
    def server_url(self) -> str | None:
        """Where the vectors are, if a Chroma server has them."""
        return None if self._server is None else self._server.url

    def renew(self) -> bool:
        """Has the files of the vector index removed, and all of it made anew behind the writes; see Projection."""
        files = self._vectors()
        return files.renew(self._connections)

    def embed_pending(self, namespace: int, limit: int) -> None:
        """Embeds waiting nodes of a namespace now, so that a search sees them; leaves Chroma alone.

        :param limit: how many nodes, and how many pieces: a content of more pieces waits for the next round or flush.
        :raises EmbeddingUnavailable: the model cannot be used.
        """
        with self._connections.read() as tx:
            items = outbox.unembedded(tx, limit, namespace=namespace)
        self._embed(self._portion(items, limit, at_least_one=False))

    def query(self, namespace: int, vector: Vectors, k: int) -> list[int]:
        """The nearest internal ids in a namespace by Chroma, if this process owns it.

        :raises IndexUnavailable: another process owns it, or it is broken: search exactly instead.
        """
        recorded = self._model.recorded()
        if recorded is None:
            raise IndexUnavailable("nothing is embedded yet")
        dimension = recorded.identity.dimension
        return self._vectors().query(self._connections, namespace, recorded.key, dimension, vector, k)

    def close(self, wait_seconds: float) -> None:
        """Stops the thread; finishes what waits if it was running, for up to ``wait_seconds``; gives up the index."""
        try:
            self.stop()
            if self._thread is not None and wait_seconds > 0:
                self.drain(wait_seconds)
        except HybridMemError as error:
            logger.warning("closing with memories that are not indexed yet: %s", error)
        finally:
            with self._working, self._sharing:
                self._closed = True
                if self._shared is not None:
                    shared.give_back(self._connections.directory, self._connections, self)
                    self._shared = None

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wake.clear()
            try:
                busy = self._round()
                if not busy and self.chore is not None:
                    self.chore(self._stopping.is_set)
            except StoreClosed:
                return
            except HybridMemError as error:  # the store is busy or full: the work waits in the outbox
                self._note(error)
                busy = False
            except Exception:
                if self._stopping.is_set() or not threading.main_thread().is_alive():
                    return  # the interpreter is being taken down around us
                logger.exception("the indexer goes on after an unexpected error; nothing is lost")
                busy = False
            if not busy:
                self._wake.wait(POLL_SECONDS)

    def _round(self) -> bool:
        """One batch through both stages; True if there may be more to do at once."""
        with self._working:
            with self._connections.read() as tx:
                items = outbox.unembedded(tx, self._batch_size)
            embedded = False
            try:
                embedded = self._embed(self._portion(items, self._batch_size, at_least_one=True))
            except EmbeddingUnavailable as error:
                self._note(error)
            return self._push() or embedded

    def _push(self) -> bool:
        recorded = self._model.recorded()
        if recorded is None:
            self._drop_unneeded()
            return False
        dimension = recorded.identity.dimension
        return self._vectors().push(self._connections, recorded.key, dimension, self._batch_size)

    def _drop_unneeded(self) -> None:
        """Nothing has been embedded, so nothing has to be taken out of an index: that must not wait for ever."""
        with self._connections.read() as tx:
            if not outbox.ready(tx, 1):
                return
        with self._connections.write() as tx:
            if self._model.recorded() is None:  # still, now that nobody else can write
                outbox.drop_unneeded(tx)

    def _check(self) -> None:
        recorded = self._model.recorded()
        if recorded is not None:
            self._vectors().check(self._connections, recorded.key, recorded.identity.dimension)

    def _vectors(self) -> shared.Vectors:
        with self._sharing:
            if self._closed:  # taking a share now would keep the index from other processes for ever
                raise StoreClosed(f"{self._connections.directory}: this handle is closed; open the store again")
            if self._shared is None:
                self._shared = shared.share(self._connections.directory, self._server, self)
            return self._shared

    def _portion(self, items: Sequence[outbox.Pending], limit: int, *, at_least_one: bool) -> list[Cut]:
        """What to embed at once: of the items, in order, those whose pieces fit into ``limit`` together."""
        portion: list[Cut] = []
        room = limit
        for item in items:
            parts = pieces(item.content, self._piece_tokens, self._piece_overlap)
            if len(parts) <= room or (at_least_one and not portion):
                portion.append((item, parts))
                room -= len(parts)
            if room <= 0:
                break
        return portion

    def _embed(self, portion: Sequence[Cut]) -> bool:
        """Embeds a batch and keeps the vectors; a bad one leaves its reason in the outbox. False: nothing was given."""
        if not portion:
            return False
        embedder, recorded = self._model.get()
        faults.point("index.before_embedding")
        texts = [text for _, parts in portion for text in parts]
        found = embed_texts(embedder, texts, recorded.identity.dimension)
        start = 0
        faults.point("index.before_keeping")
        with self._connections.write() as tx:
            if not self._model.is_current(tx, recorded):
                return True  # these are of a model that the store has no more
            for item, parts in portion:
                end = start + len(parts)
                reason = found.first_reason(start, end)
                if reason is None:
                    outbox.save(tx, item, found.vectors[start:end])
                else:
                    outbox.failed(tx, item, reason)
                start = end
        faults.point("index.after_keeping")
        return True

    def _note(self, error: Exception) -> None:
        """Says once what keeps memories from being indexed; they stay in the outbox."""
        if str(error) != self._noted:
            self._noted = str(error)
            logger.warning("memories wait for their vectors: %s", error)

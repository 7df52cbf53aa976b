"""Where a store changes its embedding model: every content is embedded anew, beside, and then all at once counts.

What has been embedded is kept in SQLite after each batch, so that a change that was cut off goes on where it stopped;
the old vectors are there until the new ones are complete. Search goes by words and the tree meanwhile, where the new
model is configured; where the old one still is, it goes on as before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from hybridmem.config import Config
from hybridmem.embed.model import Model, Recorded, from_json, to_json
from hybridmem.embed.texts import embed_texts
from hybridmem.embed.vectors import Checked
from hybridmem.errors import HybridMemError
from hybridmem.indexing import Indexer
from hybridmem.pieces import pieces
from hybridmem.ports import Embedder
from hybridmem.store import models
from hybridmem.store.connect import Connections
from hybridmem.store.outbox import Pending
from hybridmem.types import ReembedReport

#: Called with (how many memories have their new vectors, how many there are).
Progress = Callable[[int, int], None]


def reembed(
    connections: Connections,
    model: Model,
    indexer: Indexer,
    config: Config,
    batch_size: int,
    progress: Progress | None = None,
) -> ReembedReport:
    """See :meth:`hybridmem.Memory.reembed`."""
    before = model.recorded()
    embedder, target = model.configured()
    if before is None:  # nothing is embedded yet: it takes the configured one by itself
        before = model.get()[1]
    if before.is_same(target):
        _adopt(connections, before, target)
        return ReembedReport(before.identity.describe(), target.identity.describe(), 0, 0, 0, indexer.drain(retry=True))
    target, resumed = _begin(connections, target)
    change = _Change(connections, embedder, target, config, batch_size, progress)
    change.run()
    with connections.write() as tx:
        models.clean_up(tx)
    return ReembedReport(
        before=before.identity.describe(),
        model=target.identity.describe(),
        embedded=change.embedded,
        resumed=resumed,
        failed=len(change.failed),
        waiting=indexer.drain(retry=True),
    )


def _adopt(connections: Connections, before: Recorded, target: Recorded) -> None:
    """The vectors stay; the store only remembers where the model is found now. A change that was begun is over."""
    with connections.write() as tx:
        models.give_up(tx)
        current = models.current(tx)
        if before.identity != target.identity and current is not None:
            models.rename(tx, to_json(replace(before, identity=target.identity, number=models.number(current) + 1)))


def _begin(connections: Connections, target: Recorded) -> tuple[Recorded, int]:
    """The change as the store knows it, and how many memories an earlier run has embedded for it."""
    with connections.write() as tx:
        following = models.following(tx)
        if following is not None and from_json(following).is_same(target):
            return from_json(following), models.progress(tx)[0]
        target = replace(target, number=models.number(models.current(tx)) + 1)
        models.begin(tx, to_json(target))
        return target, 0


class _Change:
    """One run of a change to the model ``target``."""

    def __init__(
        self,
        connections: Connections,
        embedder: Embedder,
        target: Recorded,
        config: Config,
        batch_size: int,
        progress: Progress | None,
    ) -> None:
        self._connections = connections
        self._embedder = embedder
        self._target = target
        self._rule = config.embedding
        self._batch_size = batch_size
        self._progress = progress
        #: How many memories this run has embedded.
        self.embedded = 0
        #: (node, revision) → why there is no vector for it.
        self.failed: dict[tuple[int, int], str] = {}

    def run(self) -> None:
        """Embeds what there is, and what was written meanwhile, and switches. The last few follow behind as any that
        are written."""
        while self._pass() >= self._batch_size:
            pass
        with self._connections.write() as tx:
            if models.is_current(tx, to_json(self._target)):
                return  # another process has done the rest
            self._check(models.following(tx))
            models.switch(tx, self.failed)

    def _pass(self) -> int:
        """Once through all contents without new vectors; how many got some."""
        with self._connections.read() as tx:
            before, total = models.progress(tx)
        done, after = before, 0
        while True:
            self._tell(done, total)
            with self._connections.read() as tx:
                items = models.unembedded(tx, self._batch_size, after=after)
            if not items:
                return done - before
            after = items[-1].node_id
            saved = self._embed([item for item in items if (item.node_id, item.revision) not in self.failed])
            if saved is None:
                return 0
            done += saved
            self.embedded += saved

    def _embed(self, items: list[Pending]) -> int | None:
        """Embeds some contents and keeps the vectors; how many, or None: another process has completed the change."""
        parts = [pieces(item.content, self._rule.piece_tokens, self._rule.piece_overlap) for item in items]
        found = self._vectors([text for texts in parts for text in texts])
        start = saved = 0
        with self._connections.write() as tx:
            if models.is_current(tx, to_json(self._target)):
                return None
            self._check(models.following(tx))
            for item, texts in zip(items, parts, strict=True):
                end = start + len(texts)
                reason = found.first_reason(start, end)
                if reason is None:
                    models.save(tx, item, found.vectors[start:end])
                    saved += 1
                else:
                    self.failed[item.node_id, item.revision] = reason
                start = end
        return saved

    def _vectors(self, texts: list[str]) -> Checked:
        """As :func:`embed_texts`, in batches that the model can take."""
        width, size = self._target.identity.dimension, self._rule.batch_size
        found = [embed_texts(self._embedder, texts[at : at + size], width) for at in range(0, len(texts), size)]
        vectors = np.concatenate([one.vectors for one in found]) if found else np.zeros((0, width), dtype=np.float32)
        return Checked(vectors, tuple(reason for one in found for reason in one.reasons))

    def _check(self, following: dict[str, object] | None) -> None:
        if following is None or not models.is_model(following, to_json(self._target)):
            raise HybridMemError(
                f"reembed: another process has begun to change the model of this store to something else than "
                f"{self._target.identity.describe()}, or has given it up; nothing of the old vectors is lost"
            )

    def _tell(self, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(min(done, total), total)

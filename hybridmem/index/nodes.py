"""A Chroma collection in terms of nodes.

It holds one vector per piece of a content (hybridmem.pieces), under the number that :func:`piece_id` makes of node and
piece. That stays in this file: what comes out of it are nodes, each once.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from hybridmem.index import chroma
from hybridmem.pieces import MOST
from hybridmem.ports import Vectors
from hybridmem.store import models, outbox
from hybridmem.store.connect import Connections

logger = logging.getLogger("hybridmem")


def piece_id(node_id: int, piece: int) -> int:
    """The id of a piece in the vector index; ``piece`` is below hybridmem.pieces.MOST."""
    return node_id * MOST + piece


class NodeIndex:
    """The collection of a namespace in terms of nodes: each has one vector or more, and is found by any of them."""

    def __init__(self, index: chroma.ChromaIndex) -> None:
        self._index = index
        # Node → how many vectors the collection holds of it, where that is more than one: few have.
        self._counts: dict[int, int] = {}

    def read(self) -> set[int]:
        """Every piece in the collection. To be called once, before anything is written."""
        held = self._index.ids()
        for one in held:
            if one % MOST:
                node_id = one // MOST
                self._counts[node_id] = max(self._counts.get(node_id, 1), one % MOST + 1)
        return held

    def replace(self, vectors: dict[int, Vectors]) -> None:
        """Nodes with all their vectors, (p, d) each; the pieces that a node has no more go."""
        if not vectors:
            return
        self._index.delete(
            [
                piece_id(node_id, piece)
                for node_id, rows in vectors.items()
                for piece in range(len(rows), self._counts.get(node_id, 1))
            ]
        )
        ids = [piece_id(node_id, piece) for node_id, rows in vectors.items() for piece in range(len(rows))]
        self._index.upsert(ids, np.concatenate(list(vectors.values())))
        for node_id, rows in vectors.items():
            self._counts.pop(node_id, None)
            if len(rows) > 1:
                self._counts[node_id] = len(rows)

    def delete(self, nodes: Iterable[int]) -> None:
        """Removes nodes with all their vectors; unknown ones are ignored."""
        nodes = list(nodes)
        self.delete_pieces([piece_id(node, piece) for node in nodes for piece in range(self._counts.get(node, 1))])
        for node in nodes:
            self._counts.pop(node, None)

    def delete_pieces(self, ids: Sequence[int]) -> None:
        """Removes single vectors that no node should have."""
        self._index.delete(ids)

    def query(self, vector: Vectors, k: int) -> list[int]:
        """The ``k`` nearest nodes, each once, in the order of their best pieces. Needs no :meth:`read` before it."""
        wanted = k
        while True:
            pieces = self._index.query(vector, wanted)[0]
            found = nodes_of(pieces)
            if len(found) >= k or len(pieces) < wanted:
                return found[:k]
            wanted *= 2

    def close(self) -> None:
        self._index.close()


def nodes_of(pieces: Iterable[int]) -> list[int]:
    """The nodes that pieces belong to, each once, in order."""
    return list(dict.fromkeys(one // MOST for one in pieces))


def reconcile(connections: Connections, namespace: int, index: NodeIndex) -> None:
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
        level = logging.WARNING if held else logging.INFO  # an empty one was not damaged, it is new
        logger.log(level, "the vector index lacked %d vectors and had %d extra", len(wanted - held), len(extra))


@dataclass(frozen=True, slots=True)
class Batch:
    """Of the outbox: ``items``, oldest first, and the ``vectors`` of those that are live, (p, d) by node."""

    items: list[outbox.Pending]
    vectors: dict[int, Vectors]

    @property
    def namespaces(self) -> list[int]:
        return sorted({item.namespace for item in self.items})

    def apply(self, namespace: int, index: NodeIndex) -> None:
        """Brings the index of one namespace up to date with the batch."""
        mine = [item for item in self.items if item.namespace == namespace]
        index.delete([item.node_id for item in mine if not item.live])
        live = [item.node_id for item in mine if item.live and item.node_id in self.vectors]
        index.replace({node_id: self.vectors[node_id] for node_id in live})


def batch(connections: Connections, model_key: str, limit: int) -> Batch:
    """What can go to the index next: up to ``limit`` nodes, and as many pieces, but at least one node. Nothing, if the
    store has another model by now."""
    with connections.read() as tx:
        if models.current_key(tx) != model_key:
            return Batch([], {})
        items = outbox.ready(tx, limit)
        items = _within(items, outbox.piece_counts(tx, [item.node_id for item in items]), limit)
        return Batch(items, outbox.vectors_of(tx, [item.node_id for item in items if item.live]))


def _within(items: Sequence[outbox.Pending], counts: dict[int, int], limit: int) -> list[outbox.Pending]:
    """The first of the items, at least one, that have no more than ``limit`` pieces together."""
    kept: list[outbox.Pending] = []
    for item in items:
        limit -= counts.get(item.node_id, 0)
        if kept and limit < 0:
            break
        kept.append(item)
    return kept

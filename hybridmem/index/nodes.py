"""The vector index in terms of nodes: a node has one vector per piece of its content, each under an id of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from hybridmem.index import chroma
from hybridmem.pieces import MOST
from hybridmem.ports import Vectors


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
        """Every piece in the collection. To be called once, before anything else."""
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
        """The ``k`` nearest nodes, each once, in the order of their best pieces."""
        most = k + sum(self._counts.values()) - len(self._counts)  # so many vectors always belong to k nodes
        wanted = k
        while True:
            found = nodes_of(self._index.query(vector, wanted)[0])
            if len(found) >= k or wanted >= most:
                return found[:k]
            wanted = min(most, 2 * wanted)

    def close(self) -> None:
        self._index.close()


def nodes_of(pieces: Iterable[int]) -> list[int]:
    """The nodes that pieces belong to, each once, in order."""
    return list(dict.fromkeys(one // MOST for one in pieces))

"""A vector index made anew from the vectors in SQLite, without the model: everything in it is counted at the end."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hybridmem.errors import IndexUnavailable
from hybridmem.index import chroma
from hybridmem.index.nodes import piece_id
from hybridmem.store import outbox, points
from hybridmem.store.connect import Connections

#: Nodes whose vectors are in memory at once.
BATCH = 1_000


def build(connections: Connections, model_key: str, dimension: int, directory: Path) -> None:
    """Fills a new directory with what the index of every namespace must hold. What waits in the outbox follows later.

    :raises IndexUnavailable: Chroma cannot be used, or holds something else in the end.
    """
    directory.mkdir(mode=0o700)
    try:
        with connections.read() as tx:
            for namespace, names in points.namespaces(tx).items():
                counts = outbox.indexed(tx, namespace)
                if not counts:
                    continue
                index = chroma.ChromaIndex(directory, chroma.collection_name(names, model_key), dimension)
                nodes = sorted(counts)
                for start in range(0, len(nodes), BATCH):
                    vectors = outbox.vectors_of(tx, nodes[start : start + BATCH])
                    ids = [piece_id(node_id, piece) for node_id, rows in vectors.items() for piece in range(len(rows))]
                    index.upsert(ids, np.concatenate(list(vectors.values())))
                wanted = {piece_id(node_id, piece) for node_id, count in counts.items() for piece in range(count)}
                held = index.ids()
                if held != wanted:
                    raise IndexUnavailable(f"the new vector index holds {len(held)} vectors instead of {len(wanted)}")
    finally:
        chroma.abandon(directory)

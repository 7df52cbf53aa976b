"""What health.py runs in a child process, where it does no harm if a torn index crashes the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hybridmem.errors import IndexUnavailable
from hybridmem.index.chroma import engine, open_client


def answer_self(directory: Path, collections: Sequence[str]) -> None:
    """Opens the collections and asks for some of their own vectors. Meant for a child process: it may crash.

    :param collections: names, those that do not exist are passed over; none for every collection there is.

    :raises IndexUnavailable: a collection cannot be read, or does not find what it holds.
    """
    client = open_client(directory)
    try:
        with engine("check the index"):
            present = {one.name for one in client.chroma.list_collections()}
            for name in collections or sorted(present):
                if name in present:
                    _answer_self(client.chroma.get_collection(name, embedding_function=None))
    finally:
        client.close()


def _answer_self(collection: Any, samples: int = 20) -> None:
    count = collection.count()
    for place in range(min(samples, count)):
        page = collection.get(limit=1, offset=place * count // min(samples, count), include=["embeddings"])
        vector = np.asarray(page["embeddings"][0], dtype=np.float32)
        found = collection.query(query_embeddings=[vector], n_results=10, include=["distances"])
        # Not by id: many nodes may share one vector.
        if not found["ids"][0] or float(found["distances"][0][0]) > 1e-3:
            raise IndexUnavailable(f"the collection {collection.name} does not find its own vector {page['ids'][0]}")

"""Flat vectors in Chroma: one collection, no filter, the nearest k. The common way to build an agent's memory."""

from __future__ import annotations

from typing import Any

from eval.systems.base import Setup, fill, lines_of
from eval.types import Corpus, Moment

#: How deep the ranking is read to fill a context. Far more lines than the budgets in use have room for.
_DEPTH = 500
#: Wider than Chroma's own 100, at which its graph misses 0.2 % of the nearest ten here, and other ones in every run.
_SEARCH_WIDTH = 1000
_CONFIGURATION = {"hnsw": {"space": "cosine", "ef_construction": _SEARCH_WIDTH, "ef_search": _SEARCH_WIDTH}}


class FlatChroma:
    """A persistent Chroma collection, cosine distance, the run's embedder; searched so widely that it is exact."""

    def __init__(self, setup: Setup) -> None:
        # chromadb takes a second to import and reads .env of the current directory; only this system needs it.
        import chromadb
        from chromadb.config import Settings

        self._embedder = setup.embedder
        self._counter = setup.counter
        settings = Settings(_env_file=None, anonymized_telemetry=False)
        self._client: Any = chromadb.PersistentClient(path=str(setup.directory.resolve()), settings=settings)
        self._collection: Any = None

    def load(self, corpus: Corpus) -> None:
        if self._collection is not None:
            self._client.delete_collection("items")
        self._collection = self._client.create_collection(
            "items", embedding_function=None, configuration=_CONFIGURATION
        )
        self._corpus = corpus
        self._have = 0
        self._take(corpus.start)

    def advance(self, moment: Moment) -> None:
        self._take(moment.items)

    def search(self, question: str, k: int) -> list[str]:
        if not self._have:
            return []
        vector = self._embedder.embed_query(question)
        found = self._collection.query(query_embeddings=[vector], n_results=min(k, self._have), include=[])
        return list(found["ids"][0])

    def context(self, question: str, token_budget: int) -> tuple[str, list[str]]:
        ranked = self.search(question, _DEPTH)
        return fill(lines_of(self._corpus.items, ranked), token_budget, self._counter)

    def close(self) -> None:
        self._client.close()

    def _take(self, items: int) -> None:
        batch = self._client.get_max_batch_size()
        for start in range(self._have, items, batch):
            new = self._corpus.items[start : min(start + batch, items)]
            vectors = self._embedder.embed_documents([item.content for item in new])
            self._collection.add(ids=[item.id for item in new], embeddings=vectors)
        self._have = max(self._have, items)

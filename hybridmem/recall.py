"""Where memory is retrieved: locate the subtrees (softly), gather, score, take the best; and pack them for a prompt.

Up to ``index.exact_limit`` nodes in scope every one is scored exactly in numpy. Above it Chroma's nearest and the
lexical index find the subtrees, and only those, with the loose hits, are scored exactly. Nothing that Chroma says is
returned without being read again from SQLite in this namespace.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hybridmem import inputs, packing, scoring
from hybridmem.embed import checked
from hybridmem.embed.model import Model
from hybridmem.errors import HybridMemError, IndexUnavailable, InvalidInput, StoreBusy, StoreClosed, StoreFull
from hybridmem.index.exact import cosine, top_k
from hybridmem.index.view import Pool, Views
from hybridmem.indexing import Indexer
from hybridmem.ports import Vectors
from hybridmem.scoring import Floats
from hybridmem.store import lexical, points, tree
from hybridmem.store.rows import Key
from hybridmem.store.workspace import Workspace
from hybridmem.text import clean_text, query_terms
from hybridmem.tokens import token_counter
from hybridmem.types import Context, Hit, Node, ScoreDetails, SearchResult

logger = logging.getLogger("hybridmem")

#: Chroma's nearest that are asked for when a namespace is too big to be scored whole.
NEAREST = 200
#: With fewer of them inside the scope than this, the scope is scored whole.
NEAREST_INSIDE = 50
#: Lexical hits taken as loose candidates then, the rarest terms first.
LEXICAL_CANDIDATES = 500
#: Reciprocal rank fusion (Cormack, Clarke and Büttcher 2009) adds 60 to a rank; less here, since the first few matter.
RANK_OFFSET = 10.0
#: Weight of the model's own mean against the pool's, in nodes: a handful of memories has no mean worth the name.
MEAN_PRIOR = 20.0
SCOPES = ("auto", "task", "namespace")


@dataclass(frozen=True, slots=True)
class Signals:
    """All parts of the scores of a pool, (n,) each; ``vector`` and ``cosine`` are None without a query vector."""

    score: Floats
    relevance: Floats
    weight: Floats
    vector: Floats | None
    cosine: Floats | None
    lexical: Floats
    tree: Floats
    neighbour: Floats
    recency: Floats
    frequency: Floats


class Recall:
    """The read verbs of one workspace that rank; see :class:`hybridmem.Memory` for what each promises."""

    def __init__(self, workspace: Workspace, model: Model, indexer: Indexer) -> None:
        self._workspace = workspace
        self._model = model
        self._indexer = indexer
        self._views = Views(workspace.id)
        self._guard = threading.Lock()

    def search(
        self, query: str, k: int | None = None, *, scope: str = "auto", types: Sequence[str] | None = None
    ) -> SearchResult:
        wanted = self._workspace.config.retrieval.k if k is None else inputs.count("k", k)
        text = clean_text("query", query)
        if isinstance(types, str):
            raise InvalidInput(f"types: must be a list of types such as [{types!r}], not one text")
        kinds = None if types is None else [inputs.node_type(kind) for kind in types]
        return self._ranked(text, wanted, scope, kinds)

    def context(
        self,
        query: str | None = None,
        *,
        token_budget: int | None = None,
        order: str | None = None,
        scope: str = "auto",
    ) -> Context:
        settings = self._workspace.config.context
        budget = settings.token_budget if token_budget is None else inputs.count("token_budget", token_budget)
        order = inputs.one_of("order", settings.order if order is None else order, ("tree", "time", "score"))
        text = None if query is None else clean_text("query", query)
        found = self._ranked(text, settings.candidates, scope, None)
        with self._workspace.read() as tx:
            chain = self._chain(tx)
        counter = token_counter()
        packed = packing.pack(
            ancestors=chain,
            hits=found.hits,
            token_budget=budget,
            order=order,  # type: ignore[arg-type]
            counter=counter,
        )
        return Context(
            text=packed.text,
            tokens=packed.tokens,
            token_budget=budget,
            hits=packed.shown,
            ancestors=packed.ancestors,
            dropped=packed.dropped,
            counter=counter.name,
            warnings=found.warnings,
        )

    def weights(self, ids: Sequence[str]) -> dict[str, float]:
        with self._workspace.read() as tx:
            keys = [key for one in ids if (key := tree.find(tx, self._workspace.id, one)) is not None]
            pool = self._views.selection(tx, [], [key.id for key in keys])
        _, _, weight = self._weight(pool)
        places = pool.positions([key.id for key in keys])
        return {key.uid: float(weight[place]) for key, place in zip(keys, places, strict=True) if place >= 0}

    # Locate → gather → score → top k

    def _ranked(self, query: str | None, k: int, scope: str, types: Sequence[str] | None) -> SearchResult:
        self._workspace.connections.check()  # fails at once on a closed handle or after a fork, before any lock
        warnings: list[str] = []
        if k == 0:
            with self._workspace.read() as tx:
                self._scope(tx, scope)
            return SearchResult(())
        vector = None if query is None else self._query_vector(query, warnings)
        terms = [] if query is None else query_terms(query)
        # Without a query every node counts: its weight needs no vector, so nothing has to be located first.
        nearest = None if query is None else self._nearest(scope, vector)
        with self._guard, self._workspace.read() as tx:
            base = self._scope(tx, scope)
            pool, postings = self._gather(tx, base, nearest, terms)
            active, _ = points.active(tx, self._workspace.id, self._workspace.agent)
            prior = active if query is not None and scope != "namespace" else None
            signals = self._score(pool, postings, terms, vector, query is None, prior)
            eligible = pool.depth > 0
            if types is not None:
                eligible &= np.isin(pool.types, list(types))
            if query is not None:
                eligible &= signals.relevance > 0
            best = [int(i) for i in top_k(np.where(eligible, signals.score, -1.0), k) if eligible[i]]
            return SearchResult(self._hits(tx, pool, signals, postings, best), tuple(warnings))

    def _query_vector(self, query: str, warnings: list[str]) -> Vectors | None:
        """The query's embedding, after the few memories that still wait have been embedded; None if there is none."""
        try:
            self._embed_pending(warnings)
            embedder, recorded = self._model.get()
            found = checked(np.asarray(embedder.embed_query(query))[None, :], 1, recorded.identity.dimension)
            if found.reasons[0] is None:
                row: Vectors = found.vectors[0]
                return row
            warnings.append(f"the query has no usable vector ({found.reasons[0]}); lexical and tree search only")
        except (InvalidInput, StoreClosed):
            raise  # a wrong configuration, a closed handle: not for a search to pass over
        except HybridMemError as error:  # no model, or the store is busy just when it would be recorded
            warnings.append(f"lexical and tree search only: {error}")
        except Exception as error:  # an embedder is foreign code; a search must not fail with it
            logger.warning("the embedder failed on a query: %r", error)
            warnings.append(f"lexical and tree search only: the embedder failed: {error!r}")
        return None

    def _embed_pending(self, warnings: list[str]) -> None:
        try:
            self._indexer.embed_pending(self._workspace.id, self._workspace.config.embedding.batch_size)
        except (StoreBusy, StoreFull) as error:  # reading goes on while nobody can write
            warnings.append(f"what was written last is found by its words only: {error}")

    def _scope(self, tx: sqlite3.Connection, scope: str) -> Key:
        """The node at and below which to search."""
        if scope not in SCOPES:
            return tree.key(tx, self._workspace.id, inputs.name("scope", scope))
        if scope == "task":
            task_id, _ = points.active(tx, self._workspace.id, self._workspace.agent)
            if task_id is not None:
                return tree.by_id(tx, task_id)
        return self._workspace.root(tx)

    def _nearest(self, scope: str, vector: Vectors | None) -> list[int] | None:
        """Chroma's nearest internal ids, best first, if the scope is too big to score whole; None: score it whole.

        Asked outside of any transaction: opening the index may write to the store.
        """
        with self._workspace.read() as tx:
            path, limit = self._scope(tx, scope).path, self._workspace.config.index.exact_limit
            if tree.count_below(tx, path, limit + 1) <= limit:
                return None
        if vector is None:
            return []
        try:
            found = self._indexer.query(self._workspace.id, vector, NEAREST)
        except (IndexUnavailable, StoreBusy, StoreFull) as error:  # opening the index may have to write
            logger.info("searching exactly: %s", error)
            return None
        with self._workspace.read() as tx:
            inside = sum(key.path.startswith(path) for key in tree.keys(tx, found))
        # In a branch that is far from the query Chroma's nearest lie outside: then only looking at all of it is right.
        return found if inside >= min(NEAREST_INSIDE, len(found)) else None

    def _gather(
        self, tx: sqlite3.Connection, base: Key, nearest: list[int] | None, terms: list[str]
    ) -> tuple[Pool, dict[str, tuple[scoring.Ints, scoring.Ints]]]:
        """The pool to score, and the postings of the query's terms in it."""
        found = lexical.postings(tx, self._workspace.id, terms)
        pool = self._views.subtree(tx, base.path) if nearest is None else self._locate(tx, base, nearest, found)
        postings = {}
        for term, rows in found.items():
            positions = pool.positions([row[0] for row in rows])
            inside = positions >= 0
            if inside.any():
                counts = np.array([row[1] for row in rows], dtype=np.int64)
                postings[term] = (positions[inside], counts[inside])
        return pool, postings

    def _locate(
        self, tx: sqlite3.Connection, base: Key, nearest: list[int], found: dict[str, list[tuple[int, int]]]
    ) -> Pool:
        """Too many nodes to score all: the nearest by vector, the lexical hits, and the subtrees they hang in."""
        inside = self._inside(tx, base, nearest)
        for rows in sorted(found.values(), key=len):  # the rarest terms say most
            if len(inside) >= NEAREST + LEXICAL_CANDIDATES:
                break
            inside |= self._inside(tx, base, [row[0] for row in rows], limit=LEXICAL_CANDIDATES)
        paths = self._best_subtrees(tx, base, list(inside.values()))
        return self._views.selection(tx, paths, list(inside))

    def _inside(
        self, tx: sqlite3.Connection, base: Key, ids: Sequence[int], limit: int | None = None
    ) -> dict[int, Key]:
        """The first ``limit`` of these nodes that lie in the scope, in the given order."""
        if base.parent_id is None:  # everything does
            ids = ids[:limit]
        found = {key.id: key for key in tree.keys(tx, ids) if key.path.startswith(base.path)}
        kept = [one for one in dict.fromkeys(ids) if one in found][:limit]
        return {one: found[one] for one in kept}

    def _best_subtrees(self, tx: sqlite3.Connection, base: Key, hits: Sequence[Key]) -> list[str]:
        """The paths of the parents that most of the best hits share (reciprocal ranks), while they fit the limit."""
        parents = tree.parents(tx, [key.id for key in hits])
        votes: dict[int, float] = {}
        for rank, key in enumerate(hits):
            parent = parents.get(key.id)
            if parent is not None and parent.depth > base.depth:
                votes[parent.id] = votes.get(parent.id, 0.0) + 1.0 / (rank + RANK_OFFSET)
        by_id = {parent.id: parent for parent in parents.values()}
        room = self._workspace.config.index.exact_limit or NEAREST
        paths: list[str] = []
        for parent_id in sorted(votes, key=lambda one: -votes[one])[
            : self._workspace.config.retrieval.located_subtrees
        ]:
            size = tree.count_below(tx, by_id[parent_id].path, room + 1)
            if size <= room:
                paths.append(by_id[parent_id].path)
                room -= size
        return paths

    def _score(
        self,
        pool: Pool,
        postings: dict[str, tuple[scoring.Ints, scoring.Ints]],
        terms: list[str],
        vector: Vectors | None,
        weights_alone: bool,
        prior: int | None,
    ) -> Signals:
        """Every signal of every node in the pool, by the formulas of hybridmem.scoring."""
        config = self._workspace.config.retrieval
        subtree = pool.subtree
        match = scoring.lexical(postings, terms, pool.lengths, pool.end, subtree)
        raw, by_vector = self._vector(pool, vector)
        base = scoring.base_relevance(by_vector, pool.embedded, match.nodes, (config.vector, config.lexical))
        votes = scoring.votes(base if by_vector is None else by_vector, pool.parent, subtree, config.tree_decay)
        located = scoring.located(match.subtrees, votes, config.vote_share)
        if prior is not None:
            place = pool.positions([prior])[0]
            if place >= 0:
                located[place] = min(1.0, located[place] + config.active_task_prior)
        share = scoring.tree_share(located, pool.parent, subtree, config.tree_decay)
        beside = scoring.neighbours(base, pool.parent)
        relevance = scoring.relevance(base, share, beside, (config.tree, config.neighbour))
        recency, frequency, weight = self._weight(pool)
        score = weight if weights_alone else scoring.blended(relevance, weight, config.omega, config.blend)
        return Signals(score, relevance, weight, by_vector, raw, match.nodes, share, beside, recency, frequency)

    def _vector(self, pool: Pool, vector: Vectors | None) -> tuple[Floats | None, Floats | None]:
        """(cosine, calibrated) of each node to the query; calibrated after the common direction of the texts is taken
        out of both. Sentence models crowd all texts into one cone; what is left without it tells them apart (Mu and
        Viswanath 2018, "All-but-the-Top"): LoCoMo development recall@10 by vectors alone 59.2 against 53.2.
        """
        recorded = self._model.recorded()
        if vector is None or recorded is None or not pool.embedded.any():
            return None, None
        raw = cosine(pool.vectors, vector).astype(np.float64)
        count = float(pool.embedded.sum())
        mean = (count * pool.mean + MEAN_PRIOR * recorded.calibration.mean) / (count + MEAN_PRIOR)
        centred = pool.vectors - mean
        query = vector - mean
        norms = np.linalg.norm(centred, axis=1) * np.linalg.norm(query)
        cosines = np.divide(centred @ query, norms, out=np.zeros(len(pool)), where=norms > 1e-9)
        scaled = scoring.calibrated(cosines, recorded.calibration.floor, recorded.calibration.ceiling)
        # Rounded, since a row's place in the matrix changes the last bits, and equal texts must score alike.
        return raw, np.where(pool.embedded, np.round(scaled, 6), 0.0)

    def _weight(self, pool: Pool) -> tuple[Floats, Floats, Floats]:
        """(recency, frequency, weight) of each node at this moment."""
        weights = self._workspace.config.weights
        by_type = weights.half_life_days_by_type
        days = np.array([by_type.get(str(kind), weights.half_life_days) for kind in pool.types], dtype=np.float64)
        age = (self._workspace.now() - pool.active_at) / 1e6
        recency = scoring.recency(age, days * 86_400.0)
        frequency = scoring.frequency(pool.uses)
        coefficients = (weights.importance, weights.recency, weights.confidence, weights.frequency)
        return recency, frequency, scoring.weight(pool.importance, recency, pool.confidence, frequency, coefficients)

    def _hits(
        self,
        tx: sqlite3.Connection,
        pool: Pool,
        signals: Signals,
        postings: dict[str, tuple[scoring.Ints, scoring.Ints]],
        best: list[int],
    ) -> tuple[Hit, ...]:
        nodes = tree.nodes(tx, [int(pool.ids[i]) for i in best])
        titles = tree.titles(tx, [int(pool.ids[i]) for i in best])
        hits = []
        for i in best:
            node = nodes.get(int(pool.ids[i]))
            if node is None:
                continue
            words = tuple(term for term, (positions, _) in postings.items() if i in positions)
            hits.append(Hit(node, float(signals.score[i]), _details(pool, signals, i), titles[int(pool.ids[i])], words))
        return tuple(hits)

    def _chain(self, tx: sqlite3.Connection) -> list[Node]:
        """root → active task; the root alone if there is none."""
        task_id, _ = points.active(tx, self._workspace.id, self._workspace.agent)
        key = tree.by_id(tx, task_id) if task_id else self._workspace.root(tx)
        return [*tree.ancestors(tx, key), tree.node(tx, key)]


def _details(pool: Pool, signals: Signals, i: int) -> ScoreDetails:
    known = signals.vector is not None and signals.cosine is not None and bool(pool.embedded[i])
    return ScoreDetails(
        relevance=float(signals.relevance[i]),
        weight=float(signals.weight[i]),
        vector=float(signals.vector[i]) if known else None,  # type: ignore[index]
        lexical=float(signals.lexical[i]),
        tree=float(signals.tree[i]),
        neighbour=float(signals.neighbour[i]),
        importance=float(pool.importance[i]),
        recency=float(signals.recency[i]),
        confidence=float(pool.confidence[i]),
        frequency=float(signals.frequency[i]),
        cosine=float(signals.cosine[i]) if known else None,  # type: ignore[index]
    )

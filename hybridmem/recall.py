"""Where memory is retrieved: locate the subtrees (softly), gather, score, take the best; and pack them for a prompt."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hybridmem import corrections, inputs, packing, ranking, recalled, rerank
from hybridmem.dates import moments
from hybridmem.embed import checked
from hybridmem.embed.model import Model, Recorded, turned
from hybridmem.errors import HybridMemError, InvalidInput, NotFound, StoreBusy, StoreClosed, StoreFull
from hybridmem.filters import Filters, Source
from hybridmem.index.pool import Pool
from hybridmem.indexing import Indexer
from hybridmem.locate import Gathered, Locator
from hybridmem.pieces import last_piece
from hybridmem.ports import Reranker, Vectors
from hybridmem.ranking import Postings, Question, Signals
from hybridmem.results import Context, Hit, Located, SearchResult
from hybridmem.store import grants, models, outbox, rewind, sealing, tree
from hybridmem.store.past import Past
from hybridmem.store.paths import path_ids
from hybridmem.store.rows import from_micros, to_micros
from hybridmem.store.workspace import Workspace
from hybridmem.tokens import token_counter
from hybridmem.types import Node

logger = logging.getLogger("hybridmem")

FORMATS = ("text", "markdown", "messages", "json")
#: How many located subtrees a trace tells of.
TRACED = 10
#: Memories without a vector that a warning counts; there may be more.
COUNTED = 1_000
#: With diversity: how many of the best are looked at for each hit that is wanted.
CANDIDATES = 5


class Beside(Protocol):
    """What others share with the workspace of a recall: hybridmem.sharing.Others."""

    def within(self, query: str | None, k: int, scope: str, filters: Filters, trace: bool) -> SearchResult | None: ...

    def merged(self, own: SearchResult, query: str | None, k: int, filters: Filters, trace: bool) -> SearchResult: ...

    def weights(self, ids: Sequence[str]) -> dict[str, float]: ...


class Recall:
    """The read verbs of one workspace that rank; see :class:`hybridmem.Memory` for what each promises."""

    def __init__(
        self, workspace: Workspace, model: Model, indexer: Indexer, reranker: Callable[[], Reranker] | None = None
    ) -> None:
        """:param reranker: gives the reranker, loaded, or raises RerankerUnavailable; None: there is none."""
        self._reranker = reranker
        self._workspace = workspace
        self._model = model
        self._indexer = indexer
        self._locator = Locator(workspace, indexer)
        #: What others share with this workspace; set by whoever knows of them.
        self.others: Beside | None = None
        self._guard = threading.RLock()  # a signal handler may search in the middle of a search

    def search(
        self,
        query: str,
        k: int | None = None,
        *,
        scope: str = "auto",
        trace: bool = False,
        filters: Filters,
        as_of: Any = None,
        shared: bool = True,
    ) -> SearchResult:
        wanted = self._workspace.config.retrieval.k if k is None else inputs.count("k", k)
        moment = None if as_of is None else to_micros(inputs.moment("as_of", as_of))
        found = self._found(inputs.query(query), wanted, scope, filters, trace, moment, shared)
        self._delivered(found.hits, moment)
        return found

    def context(
        self,
        query: str | None = None,
        *,
        token_budget: int | None = None,
        order: str | None = None,
        scope: str = "auto",
        format: str | None = None,
        filters: Filters,
        as_of: Any = None,
        shared: bool = True,
    ) -> Context:
        settings = self._workspace.config.context
        shape = inputs.one_of("format", settings.format if format is None else format, FORMATS)
        budget = settings.token_budget if token_budget is None else inputs.count("token_budget", token_budget)
        order = inputs.one_of("order", settings.order if order is None else order, ("tree", "time", "score"))
        text = None if query is None else inputs.query(query)
        moment = None if as_of is None else to_micros(inputs.moment("as_of", as_of))
        found = self._found(text, settings.candidates, scope, filters, False, moment, shared)
        with self._workspace.read() as tx:
            chain = self._chain(tx, moment)
        counter = token_counter()
        packed = packing.pack(
            ancestors=chain,
            hits=found.hits,
            token_budget=budget,
            order=order,  # type: ignore[arg-type]
            counter=counter,
            format=shape,  # type: ignore[arg-type]
            dates=settings.dates,
            floor=settings.relevance_floor,
        )
        self._delivered(packed.shown, moment)
        warnings = found.warnings
        if not packed.shown and not packed.ancestors and (found.hits or len(chain) > 1):
            warnings = (*warnings, f"a token_budget of {budget} has no room for anything; give more")
        return Context(
            text=packed.text,
            tokens=packed.tokens,
            token_budget=budget,
            hits=packed.shown,
            ancestors=packed.ancestors,
            dropped=packed.dropped,
            counter=counter.name,
            format=shape,  # type: ignore[arg-type]
            shortened=packed.shortened,
            warnings=warnings,
        )

    def weights(self, ids: Sequence[str]) -> dict[str, float]:
        ids = inputs.listed("ids", ids)
        with self._workspace.read() as tx:
            keys = [key for one in ids if (key := tree.find(tx, self._workspace.id, one)) is not None]
            pool = self._locator.these(tx, [key.id for key in keys])
        _, _, weight = ranking.weigh(pool, self._workspace.config.weights, self._workspace.now())
        places = pool.positions([key.id for key in keys])
        found = {key.uid: float(weight[place]) for key, place in zip(keys, places, strict=True) if place >= 0}
        missing = [one for one in ids if one not in found]
        return found | (self.others.weights(missing) if missing and self.others is not None else {})

    def _delivered(self, hits: Sequence[Hit], as_of: int | None) -> None:
        """Counts one use of each, in memory. Looking at the past, or at what is forgotten, is none."""
        if as_of is None and self._workspace.config.weights.count_uses:
            self._workspace.uses.count(
                hit.id for hit in hits if hit.node.state != "forgotten" and hit.node.owner is None
            )

    def _found(
        self, query: str | None, k: int, scope: str, filters: Filters, trace: bool, as_of: int | None, shared: bool
    ) -> SearchResult:
        """One's own, and what others share."""
        others = self.others if inputs.flag("shared", shared) and as_of is None else None
        try:
            own = self._ranked(query, k, scope, filters, trace, as_of)
        except NotFound:
            within = None if others is None or scope == "task" else others.within(query, k, scope, filters, trace)
            if within is None:
                raise
            return within
        if others is None or scope not in ("auto", "namespace"):
            return own
        return others.merged(own, query, k, filters, trace)

    # Locate → gather → score → top k

    def _ranked(
        self, query: str | None, k: int, scope: str, filters: Filters, trace: bool, as_of: int | None
    ) -> SearchResult:
        workspace, config = self._workspace, self._workspace.config
        workspace.connections.check()  # fails at once on a closed handle or after a fork, before any lock
        warnings: list[str] = []
        if k == 0 or as_of is None:  # a wrong scope is told before a model is loaded and what waits is embedded
            with workspace.read() as tx:
                self._locator.scope(tx, scope, self._past(tx, as_of))
        if k == 0:
            return SearchResult(())
        # First of all, since it is an error if it was configured and cannot be loaded.
        reranker = None if self._reranker is None or query is None else self._reranker()
        recorded = self._model.recorded()
        vector = None
        if query is not None and (asked := self._query_vector(query, warnings)) is not None:
            vector, recorded = asked
        if recorded is not None and workspace.connections.keyring is not None:
            with workspace.read() as tx:
                recorded = turned(tx, workspace.id, recorded)
                vector = None if vector is None else sealing.turned(tx, workspace.id, vector)
        now = workspace.now() if as_of is None else min(as_of, workspace.now())
        named = [] if query is None else moments(query, from_micros(now))
        terms = [] if query is None else recalled.terms(query, named)
        # Without a query every node counts: its weight needs no vector, so nothing has to be located first.
        # With a filter neither may the scope be cut down first, to what is near but does not pass (C022).
        whole = query is None or as_of is not None or filters != Filters()
        nearest = None if whole else self._locator.nearest(scope, vector, warnings)
        with self._guard, workspace.read() as tx:
            if not self._model.is_current(tx, recorded):
                recorded = None
                if vector is not None:  # of another model than those in the store: they cannot be compared
                    vector, nearest = None, None if nearest is None else []
                    warnings.append("lexical and tree search only: the embedding model was changed during this search")
            self._locator.follow(models.current_key(tx))
            then = self._past(tx, as_of)
            if then is not None and then.held_back():
                warnings.append(f"{len(then.held_back())} memories of that time are purged, and cannot be found")
            source: Source = tree if then is None else then
            base = self._locator.scope(tx, scope, then)
            task = self._locator.active_task(tx, then)
            prior = task.id if task is not None and query is not None and scope != "namespace" else None
            question = Question(query, terms, vector, prior, named)
            found = self._locator.gather(tx, base, nearest, terms, filters.gathered, then)
            allowed = (found.pool.depth > 0) & filters.mask(tx, found.pool, source)
            signals = self._scored(found, question, recorded, now, allowed)
            if nearest is not None and signals.relevance.max(initial=0.0) < config.retrieval.widen_below:
                found = self._locator.gather(tx, base, None, terms, filters.gathered, then)
                allowed = (found.pool.depth > 0) & filters.mask(tx, found.pool, source)
                signals = self._scored(found, question, recorded, now, allowed)
            pool = found.pool
            eligible = allowed if query is None else allowed & (signals.relevance > 0)
            wanted = self._wanted(k, reranker)
            positions = self._permitted(
                tx, pool, ranking.best(signals.score, eligible, max(wanted, corrections.CANDIDATES))
            )
            correcting = config.retrieval.corrections and query is not None
            if correcting:
                instead = recalled.instead(tx, pool, positions, allowed) if then is None else []
                instead = self._permitted(tx, pool, instead)
                correcting = bool(instead) or recalled.announced(tx, pool, positions, source)
                positions += [place for place in instead if place not in positions]
            if reranker is not None or not correcting:
                positions = positions[:wanted]
            located = self._located(tx, pool, signals, source) if trace else ()
            hits = self._hits(tx, pool, signals, found.postings, positions, source)
            places = recalled.places(pool, positions, hits) if correcting or config.retrieval.diversity > 0.0 else {}
        # Outside of the transaction and the lock: a reranker may take seconds.
        if reranker is not None and query is not None:
            hits = self._reranked(reranker, query, hits, warnings)
        if correcting:
            hits = corrections.corrected(hits, places, recorded.calibration.mean if recorded else None)
        if config.retrieval.diversity > 0.0 and recorded is not None and hits:
            vectors = np.stack([places[hit.id].vector for hit in hits])
            hits = recalled.diverse(hits, vectors, recorded.calibration, config.retrieval.diversity, k)
        return SearchResult(hits[:k], tuple(warnings), located)

    def _scored(
        self, found: Gathered, question: Question, recorded: Recorded | None, now: int, allowed: NDArray[np.bool_]
    ) -> Signals:
        config = self._workspace.config
        calibration = recorded.calibration if recorded else None
        return ranking.rank(
            found.pool,
            found.postings,
            found.steps,
            question,
            calibration,
            config.retrieval,
            config.weights,
            now,
            allowed,
        )

    def _wanted(self, k: int, reranker: Reranker | None) -> int:
        """How many of the best a reranker reads, or diversity chooses from."""
        settings = self._workspace.config.retrieval
        if reranker is not None:
            return max(k, settings.rerank_candidates)
        return k * CANDIDATES if settings.diversity > 0.0 else k

    def _reranked(self, reranker: Reranker, query: str, hits: tuple[Hit, ...], warnings: list[str]) -> tuple[Hit, ...]:
        """The hits by what the reranker says; as they are, with a warning, if it fails: better those than none."""
        settings = self._workspace.config.retrieval
        try:
            return rerank.reranked(reranker, query, hits, settings.omega, settings.blend)
        except Exception as error:  # a reranker is foreign code; a search must not be lost with it
            logger.warning("the reranker failed on a query: %r", error)
            warnings.append(f"not reranked, the order is that of the stages before: the reranker failed: {error!r}")
            return hits

    def _past(self, tx: sqlite3.Connection, as_of: int | None) -> Past | None:
        return None if as_of is None else rewind.at(tx, self._workspace.id, as_of, self._workspace.agent)

    def _query_vector(self, query: str, warnings: list[str]) -> tuple[Vectors, Recorded] | None:
        """The query's embedding, and by which model, after the few memories that still wait have been embedded; None if
        there is none."""
        try:
            self._embed_pending(warnings)
            embedder, recorded = self._model.get()
            asked = last_piece(query, self._workspace.config.embedding.piece_tokens)
            found = checked(np.asarray(embedder.embed_query(asked))[None, :], 1, recorded.identity.dimension)
            if found.reasons[0] is None:
                return found.vectors[0], recorded
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
            return
        self._count_waiting(warnings)

    def _count_waiting(self, warnings: list[str]) -> None:
        with self._workspace.read() as tx:
            left = outbox.without_vector(tx, self._workspace.id, COUNTED)
        if left:
            more = " or more" if left == COUNTED else ""
            warnings.append(
                f"{left}{more} memories have no vector yet and are found by their words and in the tree only; "
                "flush() (hybridmem index) makes the vectors"
            )

    # What is returned

    def _permitted(self, tx: sqlite3.Connection, pool: Pool, places: Sequence[int]) -> list[int]:
        """Those of the best that are this namespace's, asked again by the rows themselves: fail closed."""
        found = grants.places(tx, [int(pool.ids[i]) for i in places])
        kept = [i for i in places if found[int(pool.ids[i])][0] == self._workspace.id]
        if len(kept) < len(places):
            logger.error("a search reached a memory of another namespace; it was left out")
        return kept

    def _hits(
        self,
        tx: sqlite3.Connection,
        pool: Pool,
        signals: Signals,
        postings: Postings,
        places: Sequence[int],
        source: Source,
    ) -> tuple[Hit, ...]:
        ids = [int(pool.ids[i]) for i in places]
        nodes, titles = source.nodes(tx, ids), source.titles(tx, ids)
        matching = {term: ranking.among(places, positions) for term, (positions, _) in postings.items()}
        hits = []
        for place, (i, node_id) in enumerate(zip(places, ids, strict=True)):
            words = tuple(term for term, found in matching.items() if found[place])
            details = recalled.details(pool, signals, i)
            hits.append(Hit(nodes[node_id], float(signals.score[i]), details, titles[node_id], words))
        return tuple(hits)

    def _located(self, tx: sqlite3.Connection, pool: Pool, signals: Signals, source: Source) -> tuple[Located, ...]:
        """The subtrees with the highest scores, best first."""
        places = ranking.best(signals.located, signals.located > 0, TRACED)
        nodes = source.nodes(tx, [int(pool.ids[i]) for i in places])
        return tuple(
            Located(
                id=nodes[int(pool.ids[i])].id,
                title=tree.title(nodes[int(pool.ids[i])].content),
                score=float(signals.located[i]),
                nodes=int(pool.end[i] - i),
            )
            for i in places
        )

    def _chain(self, tx: sqlite3.Connection, as_of: int | None) -> list[Node]:
        """root → active task; the root alone if there is none. As it is, or as it was."""
        then = self._past(tx, as_of)
        source: Source = tree if then is None else then
        ids = path_ids((self._locator.active_task(tx, then) or self._workspace.root(tx)).path)
        nodes = source.nodes(tx, ids)
        return [nodes[one] for one in ids if then is None or one not in then.purged]

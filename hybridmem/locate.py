"""Where a search looks: the scope, and in a big one the subtrees that the best hits point to.

Up to ``index.exact_limit`` nodes in scope all of them are the pool. Above it Chroma's nearest and the lexical index
find the subtrees, and only those, with the loose hits, are scored. Nothing that Chroma says is used without being read
again from SQLite in this namespace.
"""

from __future__ import annotations

import logging
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from hybridmem import inputs
from hybridmem.errors import IndexUnavailable, NotFound, StoreBusy, StoreFull, shown
from hybridmem.index.pool import Pool
from hybridmem.index.view import Views
from hybridmem.indexing import Indexer
from hybridmem.ports import Vectors
from hybridmem.ranking import Postings
from hybridmem.store import lexical, log, points, tree
from hybridmem.store.past import Past
from hybridmem.store.rows import Key
from hybridmem.store.workspace import Workspace
from hybridmem.text import terms as terms_of
from hybridmem.types import State

logger = logging.getLogger("hybridmem")

#: Chroma's nearest that are asked for when a scope is too big to be scored whole.
NEAREST = 200
#: With fewer of them inside the scope than this, the scope is scored whole.
NEAREST_INSIDE = 50
#: Lexical hits taken as loose candidates then, the rarest terms first.
LEXICAL_CANDIDATES = 500
#: Reciprocal rank fusion (Cormack, Clarke and Büttcher 2009) adds 60 to a rank; less here, since the first few matter.
RANK_OFFSET = 10.0
#: Paths of which it is remembered whether they are small enough to be scored whole.
MOST_COUNTED = 1_000
#: What is searched unless other states are asked for.
LIVE: tuple[State, ...] = ("live",)


@dataclass(frozen=True, slots=True)
class Gathered:
    """What a search scores, with the postings of the query's terms in it: in contents, and in what comes next in the
    tasks."""

    pool: Pool
    postings: Postings
    steps: Postings


class Locator:
    """Finds the pool of a search in one workspace. Not thread-safe: the handle locks around :meth:`gather`."""

    def __init__(self, workspace: Workspace, indexer: Indexer) -> None:
        self._workspace = workspace
        self._indexer = indexer
        self._views = Views(workspace.id, workspace.config.index.cache_mb)
        self._model: str | None = None
        # Path → sequence of the log, and whether it was small then. Of no lock's: several threads may ask at once.
        self._small: dict[str, tuple[int, bool]] = {}

    def follow(self, model_key: str | None) -> None:
        """To be called before :meth:`gather`: forgets the vectors of any other model than the store has."""
        if model_key != self._model:
            self._views = Views(self._workspace.id, self._workspace.config.index.cache_mb)
            self._model = model_key

    def scope(self, tx: sqlite3.Connection, scope: str, past: Past | None = None) -> Key:
        """The node at and below which to search, as it is or as it was in the ``past``.

        :raises NotFound: ``scope`` is neither auto, task, namespace nor an id here; or "task" without an active task.
        """
        if scope in ("auto", "namespace"):
            return self._workspace.root(tx)
        if scope == "task":
            task = self.active_task(tx, past)
            if task is None:
                then = "has no active task" if past is None else "had no active task at that time"
                raise NotFound(f"scope: this agent {then}; start one, or search with scope='auto'")
            return task
        found = tree.find(tx, self._workspace.id, inputs.name("scope", scope)) if past is None else past.find(scope)
        if found is None:
            then = "there is no node" if past is None else "at that time there was no node"
            raise NotFound(f"scope: must be auto, task, namespace or the id of a node; {then} {shown(scope)} here")
        return found

    def active_task(self, tx: sqlite3.Connection, past: Past | None = None) -> Key | None:
        """The task that is, or was, active for this agent."""
        if past is not None:
            return past.active_task()
        task_id, _ = points.active(tx, self._workspace.id, self._workspace.agent)
        return None if task_id is None else tree.by_id(tx, task_id)

    def nearest(self, scope: str, vector: Vectors | None, warnings: list[str]) -> list[int] | None:
        """Chroma's nearest internal ids, best first, if the scope is too big to score whole; None: score it whole.
        ``warnings`` gets one more if that is since the index is unavailable.

        Asked outside of any transaction: opening the index may write to the store.
        """
        with self._workspace.read() as tx:
            path = self.scope(tx, scope).path
            if self._is_small(tx, path):
                return None
        if vector is None:
            return []
        try:
            found = self._indexer.query(self._workspace.id, vector, NEAREST)
        except (IndexUnavailable, StoreBusy, StoreFull) as error:  # opening the index may have to write
            logger.info("searching exactly: %s", error)
            if self._indexer.state == "unavailable":
                warnings.append(f"the vector index is unavailable, so every memory in scope was compared: {error}")
            return None
        with self._workspace.read() as tx:
            inside = sum(_is_live_below(key, path) for key in tree.keys(tx, found))
        # In a branch that is far from the query Chroma's nearest lie outside: then only looking at all of it is right.
        return found if inside >= min(NEAREST_INSIDE, len(found)) else None

    def _is_small(self, tx: sqlite3.Connection, path: str) -> bool:
        """Whether all below a path is scored. Counted once as long as nobody writes: it takes longer than the rest."""
        sequence, _ = log.head(tx, self._workspace.id)
        known = self._small.get(path)
        if known is not None and known[0] == sequence:
            return known[1]
        limit = self._workspace.config.index.exact_limit
        if len(self._small) >= MOST_COUNTED:
            self._small.clear()
        small = tree.count_below(tx, path, limit + 1) <= limit
        self._small[path] = (sequence, small)
        return small

    def gather(
        self,
        tx: sqlite3.Connection,
        base: Key,
        nearest: list[int] | None,
        terms: Sequence[str],
        states: Sequence[State] = LIVE,
        past: Past | None = None,
    ) -> Gathered:
        """The pool to score.

        :param states: nodes in any of these; others than live ones are in no index, so that all are scored then.
        :param past: as they were then; again all are scored.
        """
        pool, postings = self._gathered(tx, base, nearest, terms, states, past)
        steps = points.next_steps(tx, self._workspace.id) if past is None else past.next_steps(tx)
        return Gathered(pool, postings, _in_pool(pool, _step_postings(steps, terms)))

    def _gathered(
        self,
        tx: sqlite3.Connection,
        base: Key,
        nearest: list[int] | None,
        terms: Sequence[str],
        states: Sequence[State],
        past: Past | None,
    ) -> tuple[Pool, Postings]:
        namespace = self._workspace.id
        if past is not None:
            pool = self._views.of(tx, past.scan(base.path, states), without=past.rewritten)
            return pool, _in_pool(pool, past.postings(lexical.postings(tx, namespace, terms), terms))
        if tuple(states) == LIVE and nearest is not None:
            found = lexical.postings(tx, namespace, terms)
            pool = self._located(tx, base, nearest, found)
            return pool, _in_pool(pool, found)
        if tuple(states) == LIVE:
            pool = self._views.subtree(tx, base.path)
            words = self._views.words(tx, base.path)
            if words is not None:
                return pool, words.postings(terms)
        else:
            pool = self._views.of(tx, tree.scan(tx, namespace, [base.path], states=states))
        return pool, _in_pool(pool, self._postings(tx, pool, terms))

    def _postings(self, tx: sqlite3.Connection, pool: Pool, terms: Sequence[str]) -> dict[str, list[tuple[int, int]]]:
        """Of the namespace, or at least of what is in the pool: by whichever way reads less."""
        namespace = self._workspace.id
        if len(pool):
            low, high = int(pool.ids.min()), int(pool.ids.max())
            if high - low < points.node_count(tx, namespace) // 2:
                return lexical.postings_between(tx, namespace, terms, low, high)
        return lexical.postings(tx, namespace, terms)

    def these(self, tx: sqlite3.Connection, ids: Sequence[int]) -> Pool:
        """Just these nodes."""
        return self._views.selection(tx, [], ids)

    def _located(
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
        """The first ``limit`` of these nodes that are live and lie in the scope, in the given order."""
        kept: dict[int, Key] = {}
        start, most = 0, len(ids) if limit is None else limit
        size = most
        while start < len(ids) and len(kept) < most:
            page = ids[start : start + size]
            found = {key.id: key for key in tree.keys(tx, page) if _is_live_below(key, base.path)}
            kept.update((one, found[one]) for one in page if one in found)
            start, size = start + size, 2 * size  # what was forgotten or lies elsewhere must not take their places
        return dict(list(kept.items())[:most])

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
        most = self._workspace.config.retrieval.located_subtrees
        paths: list[str] = []
        for parent_id in sorted(votes, key=lambda one: -votes[one])[:most]:
            size = tree.count_below(tx, by_id[parent_id].path, room + 1)
            if size <= room:
                paths.append(by_id[parent_id].path)
                room -= size
        return paths


def _is_live_below(key: Key, path: str) -> bool:
    """Whether a node is live and hangs at or below a path: neither Chroma nor the lexical index says so."""
    return key.state == "live" and key.path.startswith(path)


def _step_postings(steps: Mapping[int, str], asked: Sequence[str]) -> dict[str, list[tuple[int, int]]]:
    """The terms that are asked for, in what comes next in each task: (internal id, how often)."""
    found: dict[str, list[tuple[int, int]]] = {}
    for node_id, step in steps.items():
        counted = _counted(step)
        for term in asked:
            if term in counted:
                found.setdefault(term, []).append((node_id, counted[term]))
    return found


@lru_cache(maxsize=10_000)
def _counted(text: str) -> Counter[str]:
    return Counter(terms_of(text))


def _in_pool(pool: Pool, found: dict[str, list[tuple[int, int]]]) -> Postings:
    """Postings by internal id as postings by position, in the order of these, for what is in the pool."""
    postings = {}
    for term, rows in found.items():
        ids, counts = np.array(rows, dtype=np.int64).T
        positions = pool.positions(ids)
        order = np.argsort(positions)
        if len(order := order[positions[order] >= 0]):
            postings[term] = (positions[order], counts[order])
    return postings

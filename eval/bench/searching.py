"""Search and context on one store, beside Chroma and numpy, and whether what they return is right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eval.bench.planted import PROJECTS, Asked, PlantedEmbedder, number, uid
from eval.bench.rivals import BruteForce, FilteredChroma, same
from eval.bench.stores import Store
from eval.bench.timing import Times, ratio
from hybridmem import Memory
from hybridmem.embed.probe import probe
from hybridmem.errors import HybridMemError

K = 10
#: Whose subtree is searched: the one that has exactly a tenth of the nodes.
PROJECT = 0
TOKENS = 1_000
#: Relevance is the vector's alone and score is relevance alone.
VECTORS_ALONE = {
    "lexical": 0.0,
    "tree": 0.0,
    "neighbour": 0.0,
    "speaker": 0.0,
    "date": 0.0,
    "active_task_prior": 0.0,
    "omega": 0.0,
}
#: Above any store: every node in scope is scored.
EXHAUSTIVE = {"exact_limit": 1_000_000}
#: What one pass delivers must not weigh more in the next.
UNCOUNTED = {"count_uses": False}


@dataclass(frozen=True, slots=True)
class Rounds:
    """How often things are done. ``searches``: questions; ``cold``: new handles; ``opens``; ``adds``; ``checkpoints``;
    ``processes``: new processes for each store that is opened; ``unindexed``: operations of one that is killed."""

    searches: int = 40
    cold: int = 5
    opens: int = 15
    adds: int = 200
    processes: int = 5
    checkpoints: int = 100
    unindexed: int = 10_000


def subtree(store: Store, rounds: Rounds) -> dict[str, Any]:
    """Searches below one node, hybridmem, Chroma and numpy in turns: ``search`` when the subtree was searched before,
    ``search_first`` on a new handle, ``search_other`` when another subtree was searched in between."""
    span = store.planted.project(PROJECT)
    asked, scope, elsewhere = _asked(store, rounds), uid(span.start), uid(store.planted.project(PROJECT + 1).start)
    embedder = knowing(store, asked)
    exact = BruteForce(store.planted.vectors(PROJECT), span.start)
    warm, first, other, context = (Times(embedder.spent) for _ in range(4))
    by_chroma, by_numpy = Times(), Times()
    for question in asked[: rounds.cold]:
        with store.open(embedder) as memory:
            first.of(search, memory, question, scope)
    found, true = [], []
    with FilteredChroma(store.rival) as rival, store.open(embedder) as memory:
        for question in asked[: rounds.cold]:
            search(memory, question, elsewhere)
            other.of(search, memory, question, scope)
        rival.query(asked[0].vector, K, PROJECT)
        for question in asked:
            warm.of(search, memory, question, scope)
            found.append(by_chroma.of(rival.query, question.vector, K, PROJECT))
            true.append(by_numpy.of(exact.nearest, question.vector, K))
            context.of(_context, memory, question, scope)
    times = {
        "search": warm.summary(),
        "search_first": first.summary(),
        "search_other": other.summary(),
        "context": context.summary(),
        "chroma_where": by_chroma.summary(),
        "numpy": by_numpy.summary(),
    }
    return {
        "nodes": len(span),
        "times": times,
        "chroma_where_of_search": ratio(times["chroma_where"], times["search"]),
        "chroma_where_of_search_first": ratio(times["chroma_where"], times["search_first"]),
        "search_of_numpy": ratio(times["search"], times["numpy"]),
        "chroma_where_recall": _common(found, true),
    }


def whole(store: Store, rounds: Rounds) -> dict[str, Any]:
    """The same in the whole namespace, where hybridmem may locate first and Chroma needs no filter."""
    asked = _spread(store, rounds)
    embedder = knowing(store, asked)
    warm, first, context, by_chroma = *(Times(embedder.spent) for _ in range(3)), Times()
    with FilteredChroma(store.rival) as rival, store.open(embedder) as memory:
        rival.query(asked[0].vector, K, None)
        first.of(search, memory, asked[0], "namespace")
        for question in asked:
            warm.of(search, memory, question, "namespace")
            by_chroma.of(rival.query, question.vector, K, None)
            context.of(_context, memory, question, "namespace")
    times = {
        "search": warm.summary(),
        "search_first": first.summary(),
        "context": context.summary(),
        "chroma": by_chroma.summary(),
    }
    return {"nodes": store.planted.nodes, "times": times, "search_of_chroma": ratio(times["search"], times["chroma"])}


def identity(store: Store, rounds: Rounds) -> dict[str, Any]:
    """How many searches return exactly the ten that they should.

    ``vectors``: with vectors alone, against brute force by the same formula over the planted vectors of the subtree.
    ``exhaustive``: with the default configuration, against the same with every node in scope scored. ``whole``: that in
    the whole namespace, where locating may leave something out; ``whole_common`` is the share that both have.
    """
    asked, spread = _asked(store, rounds), _spread(store, rounds)[: 2 * rounds.cold]
    embedder = knowing(store, [*asked, *spread])
    calibration = probe(embedder).calibration
    start = store.planted.project(PROJECT).start
    scope, brute = uid(start), BruteForce(store.planted.vectors(PROJECT), start)
    with store.open(embedder, retrieval=VECTORS_ALONE, weights=UNCOUNTED) as memory:
        by_vectors = [search(memory, question, scope) for question in asked]
    with store.open(embedder, weights=UNCOUNTED) as memory:
        by_default = [search(memory, question, scope) for question in asked]
        located = [search(memory, question, "namespace") for question in spread]
    with store.open(embedder, index=EXHAUSTIVE, weights=UNCOUNTED) as memory:
        by_all = [search(memory, question, scope) for question in asked]
        complete = [search(memory, question, "namespace") for question in spread]
    expected = [brute.ranked(question.vector, calibration, K) for question in asked]
    return {
        "asked": len(asked),
        "vectors": sum(same(found, *wanted) for found, wanted in zip(by_vectors, expected, strict=True)),
        "exhaustive": sum(found == wanted for found, wanted in zip(by_default, by_all, strict=True)),
        "whole_asked": len(spread),
        "whole": sum(found == wanted for found, wanted in zip(located, complete, strict=True)),
        "whole_common": _common(located, complete),
    }


def knowing(store: Store, asked: Sequence[Asked]) -> PlantedEmbedder:
    """An embedder that knows the vectors of these questions."""
    embedder = PlantedEmbedder(store.planted)
    embedder.learn([question.text for question in asked], np.stack([question.vector for question in asked]))
    return embedder


def search(memory: Memory, question: Asked, scope: str) -> list[int]:
    """The numbers of the nodes that hybridmem finds."""
    found = memory.search(question.text, K, scope=scope)
    if found.warnings:
        raise HybridMemError(f"a search was not what is measured: {found.warnings[0]}")
    return [number(hit.id) for hit in found]


def _context(memory: Memory, question: Asked, scope: str) -> None:
    memory.context(question.text, token_budget=TOKENS, scope=scope)


def _asked(store: Store, rounds: Rounds) -> list[Asked]:
    return store.planted.questions(PROJECT, rounds.searches)


def _spread(store: Store, rounds: Rounds) -> list[Asked]:
    """Half as many questions, about all projects in turns."""
    each = -(-rounds.searches // (2 * PROJECTS))
    lists = [store.planted.questions(project, each) for project in range(PROJECTS)]
    return [question for row in zip(*lists, strict=True) for question in row]


def _common(found: Sequence[Sequence[int]], wanted: Sequence[Sequence[int]]) -> float:
    """The share of what is wanted that was found, on average."""
    shares = [len(set(one) & set(other)) / max(1, len(other)) for one, other in zip(found, wanted, strict=True)]
    return round(sum(shares) / len(shares), 4)

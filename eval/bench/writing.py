"""Durable writes on one store, beside a bare INSERT; and the search that follows a write."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from eval.bench.planted import Planted, uid
from eval.bench.rivals import BareInsert
from eval.bench.searching import PROJECT, Rounds, knowing, search
from eval.bench.stores import Store
from eval.bench.timing import Times, ratio
from hybridmem import Memory

_CONFIG = {"index": {"background": False}}


def writes(store: Store, rounds: Rounds) -> dict[str, Any]:
    """``add`` one node per transaction and ``insert`` one row per transaction, in turns, both safe from a power cut;
    and ``search_after_add``: the first search of a subtree after something was added elsewhere in the namespace.

    On a copy of the store, so that the next run finds the same one.
    """
    asked = store.planted.questions(PROJECT, rounds.cold)
    embedder = knowing(store, asked)
    # Not into the subtree that is searched, which may have just as many nodes as are scored whole (index.exact_limit).
    parent, scope = uid(store.planted.project(PROJECT + 1).start), uid(store.planted.project(PROJECT).start)
    add, insert, after = Times(), Times(), Times(embedder.spent)
    # Beside the store, since a folder for temporary files may lie in memory, where a durable write costs nothing.
    with tempfile.TemporaryDirectory(dir=store.directory.parent) as folder:
        copy = store.copy(Path(folder) / "store")
        bare = BareInsert(Path(folder) / "bare.db")
        texts = _texts(store.planted, rounds.adds)
        with Memory.open(copy, embedder=embedder, config=_CONFIG) as memory:
            memory.add("项目 scratch", parent=parent)  # the first write of a handle notes the session too
            for text in texts:
                add.of(lambda given: memory.add(given, parent=parent), text)
                insert.of(bare.insert, text)
            for question in asked:  # embeds what was added, a batch per search
                search_until_embedded(memory, question.text, scope)
            for question in asked:
                memory.add(f"after 之后 {question.text}", parent=parent)
                after.of(search, memory, question, scope)
        bare.close()
    times = {"add": add.summary(), "insert": insert.summary(), "search_after_add": after.summary()}
    return {"times": times, "add_of_insert": ratio(times["add"], times["insert"])}


def search_until_embedded(memory: Memory, text: str, scope: str) -> None:
    """Searches until nothing waits for its vector any more."""
    while memory.search(text, 1, scope=scope).warnings:
        pass


def _texts(planted: Planted, count: int) -> list[str]:
    found: list[str] = []
    for session in planted.sessions(PROJECT):
        found += [f"again 再次 {text}" for text in planted.texts(session)]
        if len(found) >= count:
            break
    return found[:count]

"""Does everything in a store agree with everything else? Looked at from outside, trusting none of the product's checks.

Each function returns what is wrong, in words; nothing means that all is well.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from hybridmem import Memory
from hybridmem.config import EmbeddingConfig
from hybridmem.embed.hashing import HashingEmbedder
from hybridmem.index import ChromaIndex, collection_name
from hybridmem.index.nodes import piece_id
from hybridmem.index.projection import DIRECTORY
from hybridmem.pieces import pieces
from hybridmem.ports import Vectors
from hybridmem.store import lexical, log, outbox, points
from hybridmem.store.directory import DATABASE_NAME
from hybridmem.store.paths import path_ids
from hybridmem.text import terms

#: Kinds of log entries that make a node, and those that raise its version by one.
BIRTHS = ("add", "namespace")
CHANGES = ("update", "move", "pin", "confirm", "task.update", "task.finish")
_RULE = EmbeddingConfig()


def of_database(tx: sqlite3.Connection, path: Path) -> list[str]:
    """What is in SQLite: the file itself, the log, the tree, the words, and that every node has its vector or waits."""
    return [*_file(path), *_log(tx), *_tree(tx), *_words(tx), *_vectors(tx)]


def _file(path: Path) -> Iterator[str]:
    with closing(sqlite3.connect(path / DATABASE_NAME)) as raw:
        for check, right in (("integrity_check", [("ok",)]), ("foreign_key_check", [])):
            found = raw.execute(f"PRAGMA {check}").fetchall()
            if found != right:
                yield f"{check}: {found[:3]}"
        try:
            raw.execute("INSERT INTO lexical (lexical, rank) VALUES ('integrity-check', 1)")
        except sqlite3.DatabaseError as error:
            yield f"the lexical index is malformed: {error}"
        raw.rollback()


def _log(tx: sqlite3.Connection) -> Iterator[str]:
    """The chain holds, and of every node it has the birth and each change of version."""
    for namespace in points.namespaces(tx):
        broken = log.broken_at(tx, namespace)
        if broken is not None:
            yield f"the log is broken at {broken}"
        entries = Counter(
            tx.execute("SELECT node_uid, kind FROM operation WHERE namespace_id = ?", (namespace,)).fetchall()
        )
        for entry in log.since(tx, namespace, 0):
            if entry.kind in log.STATE_CHANGES:  # names the nodes that it changed in its payload
                entries.update((uid, "update") for uid, *_ in entry.payload["states"])
        for uid, version in tx.execute("SELECT uid, version FROM node WHERE namespace_id = ?", (namespace,)).fetchall():
            births = sum(entries[uid, kind] for kind in BIRTHS)
            changes = sum(entries[uid, kind] for kind in CHANGES)
            if births != 1 or changes != version - 1:
                yield f"{uid} is at version {version}, the log has {births} births and {changes} changes of it"


def _tree(tx: sqlite3.Connection) -> Iterator[str]:
    """Paths, depths and counters follow from the parents."""
    for namespace in points.namespaces(tx):
        rows = tx.execute("SELECT id, parent_id, path, depth FROM node WHERE namespace_id = ?", (namespace,)).fetchall()
        parents = {row[0]: row[1] for row in rows}
        if sum(parent is None for parent in parents.values()) != 1:
            yield f"namespace {namespace} has not one root"
        for node_id, _, path, depth in rows:
            chain = [node_id]
            while (parent := parents.get(chain[-1])) is not None and parent not in chain:
                chain.append(parent)
            if path_ids(path) != chain[::-1] or depth != len(chain) - 1:
                yield f"the path of {node_id} is {path} at depth {depth}, its ancestors are {chain}"
        counted = points.node_count(tx, namespace)
        if counted != len(rows) - 1:
            yield f"{len(rows) - 1} nodes are counted as {counted}"


def contents(tx: sqlite3.Connection) -> dict[int, tuple[int, str]]:
    """Internal id → revision and content of what must be found: every live node that is no root."""
    rows = tx.execute(
        """SELECT n.id, n.revision_id, r.content FROM node n JOIN revision r ON r.id = n.revision_id
        WHERE n.state = 'live' AND n.parent_id IS NOT NULL"""
    ).fetchall()
    return {row[0]: (row[1], row[2]) for row in rows}


def _words(tx: sqlite3.Connection) -> Iterator[str]:
    """The lexical index has the words of every live node as it is now, and none of what is not there."""
    live = contents(tx)
    for node_id, (_, content) in live.items():
        if sorted(lexical.indexed(tx, node_id)) != sorted(terms(content)):
            yield f"the lexical index has other words of {node_id} than {content[-60:]!r}"
    known = {row[0] for row in tx.execute("SELECT id FROM node").fetchall()}
    for row in tx.execute("SELECT rowid FROM lexical").fetchall():
        if row[0] not in known:
            yield f"the lexical index has {row[0]}, which is no node"


def _vectors(tx: sqlite3.Connection) -> Iterator[str]:
    """Every live node has the vectors of its present content, or waits for them."""
    waiting = {row[0] for row in tx.execute("SELECT node_id FROM outbox").fetchall()}
    revisions = dict(tx.execute("SELECT node_id, revision_id FROM embedding").fetchall())
    live = contents(tx)
    for node_id, (revision, _) in live.items():
        if revisions.get(node_id) != revision and node_id not in waiting:
            yield f"{node_id} has no vector of its present content and does not wait for one"
    right = [node_id for node_id, (revision, _) in live.items() if revisions.get(node_id) == revision]
    kept = outbox.vectors_of(tx, right)
    for node_id in right:
        wanted = right_vectors(live[node_id][1])
        if kept[node_id].shape != wanted.shape or not np.allclose(kept[node_id], wanted, atol=1e-6):
            yield f"SQLite holds another vector of {node_id} than that of its content"


def right_vectors(content: str) -> Vectors:
    """(p, d) the embedder's vector of each piece of a content."""
    embedder = HashingEmbedder(32)
    return embedder.embed_documents(pieces(content, _RULE.piece_tokens, _RULE.piece_overlap))


def of_chroma(memory: Memory, tx: sqlite3.Connection, probes: Sequence[str]) -> tuple[list[str], list[str]]:
    """After a flush: Chroma holds the right vectors of what is live, and no other; and finds the probes by theirs.

    :param memory: open in this process, and the owner of the index; nobody uses another namespace of its store.
    :param probes: public ids.
    :return: what is wrong; and which of the probes Chroma does not find though it holds them. Of the latter a few in
        ten thousand are to be expected, without any kill: its graph is approximate, and where vectors are replaced and
        deleted, now and then no link leads to one any more.
    """
    wanted: dict[int, Any] = {}
    for node_id, (_, content) in contents(tx).items():
        wanted.update((piece_id(node_id, place), row) for place, row in enumerate(right_vectors(content)))
    recorded = points.setting(tx, "embedding")
    if recorded is None:
        return [f"no embedding model is recorded, with {len(wanted)} vectors to be made"] if wanted else [], []
    numbers = dict(tx.execute("SELECT uid, id FROM node").fetchall())
    key = json.dumps(recorded["identity"], ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    index = ChromaIndex(memory.path / DIRECTORY, collection_name(memory.namespace, key), 32)
    try:
        pieces_of = {uid: piece_id(numbers[uid], 0) for uid in probes}
        return [*_held(index, wanted)], [*_missed(index, wanted, pieces_of)]
    finally:
        index.close()


def _held(index: ChromaIndex, wanted: Mapping[int, Any]) -> Iterator[str]:
    held = index.ids()
    if lacking := sorted(wanted.keys() - held):
        yield f"Chroma lacks {len(lacking)} vectors: {lacking[:5]}"
    if ghosts := sorted(held - wanted.keys()):
        yield f"Chroma has {len(ghosts)} ghosts: {ghosts[:5]}"
    both = sorted(held & wanted.keys())
    if not both:
        return
    page = index._collection.get(ids=[str(one) for one in both], include=["embeddings"])
    for id_, vector in zip(page["ids"], page["embeddings"], strict=True):
        if not np.allclose(vector, wanted[int(id_)], atol=1e-5):
            yield f"Chroma holds another vector of {id_} than that of its content"


def _missed(index: ChromaIndex, wanted: Mapping[int, Any], probes: Mapping[str, int]) -> Iterator[str]:
    for uid, piece in probes.items():
        if piece in wanted:
            found, cosines = index.query(wanted[piece], 10)
            # Ten others with the very same vector would push it out.
            if piece not in found and (not cosines or cosines[-1] < 1.0 - 1e-4):
                yield uid

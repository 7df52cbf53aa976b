"""The lexical index: FTS5 over our own terms, one posting list per namespace and term.

Every term carries its namespace ("7:发票"), so that a lookup touches only the owner's postings: statistics, cost and
results of one namespace do not depend on another. Postings are read through fts5vocab, which gives term frequencies,
or for a part of a namespace with the term as one quoted string: nothing of a query is ever parsed as FTS syntax. BM25
is computed from them in hybridmem.scoring.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence

from hybridmem.store import sealing
from hybridmem.store.rows import dump
from hybridmem.store.unlocking import ring
from hybridmem.text import terms


def index(tx: sqlite3.Connection, namespace: int, node_id: int, terms: Sequence[str]) -> None:
    """Makes ``terms`` (with repeats) the indexed terms of a node, whatever it had before."""
    remove(tx, node_id)
    if terms:
        tx.execute(
            "INSERT INTO lexical (rowid, terms) VALUES (?, ?)",
            (node_id, " ".join(f"{namespace}:{term}" for term in sealing.tokens(tx, namespace, terms))),
        )


def remove(tx: sqlite3.Connection, node_id: int) -> None:
    tx.execute("DELETE FROM lexical WHERE rowid = ?", (node_id,))


def postings(tx: sqlite3.Connection, namespace: int, terms: Sequence[str]) -> dict[str, list[tuple[int, int]]]:
    """For each term that occurs: (internal node id, term frequency) in order of ids."""
    found, forms = {}, coder(tx, namespace)
    for term in terms:
        rows = [
            row
            for form in forms(term)
            for row in tx.execute(
                "SELECT doc FROM lexical_instance WHERE term = ?", (f"{namespace}:{form}",)
            ).fetchall()
        ]
        if rows:
            found[term] = sorted(Counter([row[0] for row in rows]).items())
    return found


def postings_between(
    tx: sqlite3.Connection, namespace: int, terms: Sequence[str], low: int, high: int
) -> dict[str, list[tuple[int, int]]]:
    """The same for the nodes with internal ids from ``low`` to ``high`` alone, without reading the postings of others.

    The term is one quoted string of the FTS language: a quote in it is written twice, and nothing else has a meaning.
    """
    found, forms = {}, coder(tx, namespace)
    for term in terms:
        kept: list[tuple[int, int]] = []
        for form in forms(term):
            word = f"{namespace}:{form}"
            rows = tx.execute(
                "SELECT rowid, terms FROM lexical WHERE lexical MATCH ? AND rowid BETWEEN ? AND ? ORDER BY rowid",
                ('"' + word.replace('"', '""') + '"', low, high),
            ).fetchall()
            counted = [(node_id, text.split(" ").count(word)) for node_id, text in rows]
            kept += [row for row in counted if row[1]]
        if kept:
            found[term] = sorted(kept)
    return found


def coder(tx: sqlite3.Connection, namespace: int) -> Callable[[str], tuple[str, ...]]:
    """What :func:`terms_of` gives where a term stands: itself, or in an encrypted store its keyed hash; while one is
    being encrypted there may be both."""
    return sealing.coder(tx, namespace)


def terms_of(tx: sqlite3.Connection, namespace: int, ids: Sequence[int]) -> list[tuple[int, list[str]]]:
    """The indexed terms of nodes of a namespace, for those that have any: (internal node id, terms with repeats). In an
    encrypted store they are keyed hashes, equal for equal terms; see :func:`coder`."""
    rows = tx.execute(
        "SELECT rowid, terms FROM lexical WHERE rowid IN (SELECT value FROM json_each(?))", (dump(list(ids)),)
    ).fetchall()
    # Every term begins with the namespace, so it is cut off at once from all of them.
    prefix = f"{namespace}:"
    return [(node_id, text[len(prefix) :].split(f" {prefix}")) for node_id, text in rows if text.startswith(prefix)]


def said_terms(tx: sqlite3.Connection, namespace: int, ids: Sequence[int]) -> list[tuple[int, list[str]]]:
    """As :func:`terms_of`, the terms themselves whatever is indexed; for few nodes: it may read their contents."""
    if ring(tx) is None:
        return terms_of(tx, namespace, ids)
    rows = tx.execute(
        """SELECT n.id, r.content FROM node n JOIN revision r ON r.id = n.revision_id
        WHERE n.namespace_id = ? AND n.parent_id IS NOT NULL AND n.id IN (SELECT value FROM json_each(?))""",
        (namespace, dump(list(ids))),
    ).fetchall()
    return [(node_id, terms(content)) for node_id, content in rows]


def indexed(tx: sqlite3.Connection, node_id: int) -> list[str]:
    """The indexed terms of a node, for checks."""
    row = tx.execute("SELECT terms FROM lexical WHERE rowid = ?", (node_id,)).fetchone()
    return [term.split(":", 1)[1] for term in row[0].split(" ")] if row else []


def remove_strays(tx: sqlite3.Connection, namespace: int | None) -> None:
    """Removes the entries of nodes that are not there, in one namespace or (None) in all."""
    tx.execute(
        """DELETE FROM lexical WHERE rowid IN (SELECT rowid FROM lexical
        WHERE rowid NOT IN (SELECT id FROM node) AND (? IS NULL OR substr(terms, 1, ?) = ?))""",
        (namespace, len(f"{namespace}:"), f"{namespace}:"),
    )


def rebuild(tx: sqlite3.Connection) -> None:
    """Makes all postings again from the entries."""
    tx.execute("INSERT INTO lexical (lexical) VALUES ('rebuild')")

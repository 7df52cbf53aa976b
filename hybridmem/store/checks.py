"""What can be recomputed about a store, recomputed and compared: the tree, the log, the lexical index, the vectors.

Each check reads in pages, trusts nothing that it reads, and yields a :class:`Fault` for every row that is wrong.
``only`` is the namespace to look at, None: all. Kinds are those of hybridmem.findings. How each is mended is in
hybridmem.store.mends.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hybridmem.errors import StoreDamaged
from hybridmem.speakers import speaker
from hybridmem.store import audit, log, models, points, sealing, unopened
from hybridmem.store.paths import path_segment
from hybridmem.store.shape import loops
from hybridmem.text import terms
from hybridmem.types import ROOT_TYPE, STATES, TASK_TYPE

#: Rows read at once.
PAGE = 1_000
#: Times that a datetime can hold: the years 1 to 9999, in microseconds since 1970.
EARLIEST, LATEST = -62_135_596_800_000_000, 253_402_300_799_999_999
#: How far from 1 the length of a vector may be, by rounding.
LENGTH_TOLERANCE = 1e-2


@dataclass(frozen=True, slots=True)
class Fault:
    """One row that is wrong. ``namespace`` None: of the store as a whole; ``uid`` None: it is about no one node."""

    kind: str
    namespace: int | None
    node_id: int | None = None
    uid: str | None = None
    detail: str = ""


Check = Callable[[sqlite3.Connection, "int | None"], Iterable[Fault]]
_WITHIN = "(? IS NULL OR n.namespace_id = ?)"


def faults(tx: sqlite3.Connection, only: int | None) -> Iterator[Fault]:
    """Everything that is wrong. A check that damaged rows stop becomes a fault of kind ``unreadable`` itself."""
    for check in CHECKS:
        try:
            yield from check(tx, only)
        except Exception as error:
            name = check.__name__.strip("_").replace("_", " ")
            yield Fault("unreadable", None, detail=f"{name}: {type(error).__name__}: {error}")


def model(tx: sqlite3.Connection) -> tuple[str, int] | None:
    """(key, dimension) of the embedding model that the store was built with; None before the first embedding.

    :raises ValueError: what is recorded cannot be read.
    """
    value = points.setting(tx, "embedding")
    if value is None:
        return None
    try:
        return models.key(value), int(value["identity"]["dimension"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"the recorded embedding model is incomplete: {error!r}") from error


def counts(tx: sqlite3.Connection, only: int | None) -> dict[str, int]:
    """How much there is: nodes (roots not counted), operations, nodes with a vector, nodes that wait for theirs."""
    tables = {
        "nodes": "node WHERE parent_id IS NOT NULL AND",
        "operations": "operation WHERE",
        "embedded": "embedding WHERE piece = 0 AND",
        "pending": "outbox WHERE",
    }
    return {
        name: int(
            tx.execute(f"SELECT count(*) FROM {table} (? IS NULL OR namespace_id = ?)", (only, only)).fetchone()[0]
        )
        for name, table in tables.items()
    }


def _pages(tx: sqlite3.Connection, sql: str, *values: Any) -> Iterator[tuple[Any, ...]]:
    """The rows of a statement whose first column is the id that it is ordered and cut off by."""
    last = -(2**63)
    while rows := tx.execute(sql, (*values, last, PAGE)).fetchall():
        last = rows[-1][0]
        yield from rows


def _shape(tx: sqlite3.Connection, only: int | None) -> Iterator[Fault]:
    """One root, every parent there and in the same namespace, no loop."""
    spaces = set(points.namespaces(tx)) if only is None else {only}
    parents: dict[int, int | None] = {}
    homes: dict[int, int] = {}
    rooted: set[int] = set()
    sql = f"""SELECT n.id, n.namespace_id, n.parent_id, n.type FROM node n WHERE {_WITHIN}
        AND n.id > ? ORDER BY n.id LIMIT ?"""
    for node_id, space, parent, type_ in _pages(tx, sql, only, only):
        parents[node_id], homes[node_id] = parent, space
        is_first = parent is None and type_ == ROOT_TYPE and space not in rooted
        if is_first:
            rooted.add(space)
        elif parent is None or type_ == ROOT_TYPE:
            yield Fault("root", space, node_id, detail="a node without a parent, or of type root, that is not the root")
    for space in sorted(spaces - rooted):
        yield Fault("root", space, detail="there is none")
    for node_id, parent in parents.items():
        if parent is not None and homes.get(parent) != homes[node_id]:
            yield Fault("parent", homes[node_id], node_id)
    for circle in loops(parents):
        for node_id in circle:
            yield Fault("loop", homes[node_id], node_id, detail=f"a circle of {len(circle)}")


def _paths(tx: sqlite3.Connection, only: int | None) -> Iterator[Fault]:
    """Where each path is its parent's and one more step, all of them follow from the root's."""
    sql = f"""SELECT n.id, n.namespace_id, n.depth - coalesce(p.depth, -1),
            substr(n.path, 1, length(coalesce(p.path, '/'))) = coalesce(p.path, '/'),
            substr(n.path, length(coalesce(p.path, '/')) + 1, 64)
        FROM node n LEFT JOIN node p ON p.id = n.parent_id
        WHERE {_WITHIN} AND n.id > ? ORDER BY n.id LIMIT ?"""
    for node_id, space, steps, begins, rest in _pages(tx, sql, only, only):
        if steps != 1 or not begins or rest != path_segment(node_id):
            yield Fault("path", space, node_id)


def _counters(tx: sqlite3.Connection, only: int | None) -> Iterator[Fault]:
    rows = tx.execute(
        """SELECT s.id, s.nodes, (SELECT count(*) FROM node WHERE namespace_id = s.id AND parent_id IS NOT NULL)
        FROM namespace s WHERE ? IS NULL OR s.id = ?""",
        (only, only),
    ).fetchall()
    for space, kept, counted in rows:
        if kept != counted:
            yield Fault("counter", space, detail=f"it says {kept}, there are {counted}")


def _values(tx: sqlite3.Connection, only: int | None) -> Iterator[Fault]:
    sql = f"""SELECT n.id, n.namespace_id FROM node n WHERE {_WITHIN} AND NOT (
            n.importance BETWEEN 0 AND 1 AND n.confidence BETWEEN 0 AND 1 AND n.uses >= 0 AND n.pinned IN (0, 1)
            AND n.version >= 1 AND n.state IN {STATES!r} AND n.type != ''
            AND n.created_at BETWEEN {EARLIEST} AND {LATEST} AND n.updated_at BETWEEN {EARLIEST} AND {LATEST}
            AND n.active_at BETWEEN {EARLIEST} AND {LATEST}
        ) AND n.id > ? ORDER BY n.id LIMIT ?"""
    for node_id, space in _pages(tx, sql, only, only):
        yield Fault("values", space, node_id)


def _revisions(tx: sqlite3.Connection, only: int | None) -> Iterator[Fault]:
    sql = f"""SELECT n.id, n.namespace_id, EXISTS (SELECT 1 FROM revision WHERE node_id = n.id) FROM node n
        LEFT JOIN revision r ON r.id = n.revision_id
        WHERE {_WITHIN} AND r.node_id IS NOT n.id AND n.id > ? ORDER BY n.id LIMIT ?"""
    for node_id, space, has_another in _pages(tx, sql, only, only):
        yield Fault("revision" if has_another else "contentless", space, node_id)


def _metadata(tx: sqlite3.Connection, only: int | None) -> Iterator[Fault]:
    """Of every revision, old ones too: history and as_of read them."""
    sql = f"""SELECT r.id, n.namespace_id, n.id FROM revision r JOIN node n ON n.id = r.node_id WHERE {_WITHIN}
        AND r.metadata IS NOT NULL
        AND CASE WHEN json_valid(r.metadata) THEN json_type(r.metadata) != 'object' ELSE 1 END
        AND r.id > ? ORDER BY r.id LIMIT ?"""
    for _, space, node_id in _pages(tx, sql, only, only):
        yield Fault("metadata", space, node_id)


def _contents(tx: sqlite3.Connection, only: int | None) -> Iterator[Fault]:
    """What is derived from a content, and the terms under which it is found."""
    sql = f"""SELECT n.id, n.namespace_id, n.type, n.state, n.content_key, n.terms, n.speaker, r.content, r.metadata,
            l.terms FROM node n JOIN revision r ON r.id = n.revision_id LEFT JOIN lexical l ON l.rowid = n.id
        WHERE {_WITHIN} AND r.content IS NOT NULL AND r.metadata IS NOT NULL AND n.id > ? ORDER BY n.id LIMIT ?"""
    for node_id, space, type_, state, key, length, who, content, metadata, indexed in _pages(tx, sql, only, only):
        words = [] if type_ == ROOT_TYPE else terms(content)
        is_key = key in sealing.content_keys(tx, space, content)
        if not is_key or length != len(words) or not _says(tx, who, spoken(type_, content, metadata)):
            yield Fault("derived", space, node_id)
        if not _is_indexed(tx, space, words, indexed) and not (indexed is None and state != "live"):
            yield Fault("lexical", space, node_id, detail="missing" if indexed is None else "wrong terms")


def _says(tx: sqlite3.Connection, who: str, said: str) -> bool:
    try:
        return sealing.voices(tx, [who]) == [said]
    except StoreDamaged:
        return False


def _is_indexed(tx: sqlite3.Connection, space: int, words: list[str], indexed: str | None) -> bool:
    """Whether these are the terms in the index, by whichever key."""
    if not words:
        return indexed is None
    forms = zip(*map(sealing.coder(tx, space), words), strict=True)
    return any(indexed == " ".join(f"{space}:{one}" for one in form) for form in forms)


def _sealed(tx: sqlite3.Connection, only: int | None) -> Iterator[Fault]:
    """Every value of an encrypted store opens where it stands."""
    for space, node_id, detail in unopened.find(tx, only):
        yield Fault("sealed", space, node_id, detail=detail)


def spoken(type_: str, content: str, metadata: str) -> str:
    """Who said it, as the column has it. Metadata that cannot be read say nothing: they are a fault of their own."""
    try:
        value = json.loads(metadata)
    except ValueError:
        value = None
    return "" if type_ == ROOT_TYPE else speaker(content, value if isinstance(value, dict) else {})


def _lexical_rows(tx: sqlite3.Connection, only: int | None) -> Iterator[Fault]:
    """Entries of no node; and postings that do not agree with the entries they were made from."""
    rows = tx.execute("SELECT rowid, terms FROM lexical WHERE rowid NOT IN (SELECT id FROM node)").fetchall()
    for _, text in rows:
        space = _number(text.partition(":")[0])
        if only is None or space == only:
            yield Fault("lexical", space, detail="an entry of no memory")
    postings = dict(tx.execute("SELECT doc, count(*) FROM lexical_instance GROUP BY doc").fetchall())
    sql = f"""SELECT n.id, n.namespace_id, l.terms FROM node n JOIN lexical l ON l.rowid = n.id
        WHERE {_WITHIN} AND n.id > ? ORDER BY n.id LIMIT ?"""
    for node_id, space, text in _pages(tx, sql, only, only):
        if postings.get(node_id, 0) != text.count(" ") + 1:
            yield Fault("lexical", space, node_id, detail="postings that do not agree with their entry")


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _tasks(tx: sqlite3.Connection, only: int | None) -> Iterator[Fault]:
    sql = f"""SELECT n.id, n.namespace_id, t.node_id IS NULL FROM node n LEFT JOIN task t ON t.node_id = n.id
        WHERE {_WITHIN} AND ((n.type = '{TASK_TYPE}') != (t.node_id IS NOT NULL)
            OR t.status NOT IN ('open', 'paused', 'done', 'failed')) AND n.id > ? ORDER BY n.id LIMIT ?"""
    for node_id, space, missing in _pages(tx, sql, only, only):
        yield Fault("task", space, node_id, detail="no status" if missing else "a status that does not fit")


def wrong_pointers(tx: sqlite3.Connection, only: int | None) -> list[tuple[int, str, bool, bool]]:
    """(namespace, agent, whether the active task is wrong, whether the active node is)."""
    rows = tx.execute(
        """SELECT a.namespace_id, a.agent,
            a.task_id IS NOT NULL AND (t.id IS NULL OR t.namespace_id != a.namespace_id OR t.state != 'live'
                OR t.type != 'task'),
            a.node_id IS NOT NULL AND (n.id IS NULL OR n.namespace_id != a.namespace_id OR n.state != 'live')
        FROM active a LEFT JOIN node t ON t.id = a.task_id LEFT JOIN node n ON n.id = a.node_id
        WHERE ? IS NULL OR a.namespace_id = ? ORDER BY 1, 2""",
        (only, only),
    ).fetchall()
    return [(space, agent, bool(task), bool(node)) for space, agent, task, node in rows if task or node]


def _active(tx: sqlite3.Connection, only: int | None) -> Iterator[Fault]:
    for space, agent, task, _ in wrong_pointers(tx, only):
        yield Fault("active", space, detail=f"the active {'task' if task else 'node'} of agent {agent!r}")


def _chain(tx: sqlite3.Connection, only: int | None) -> Iterator[Fault]:
    """The log has no gap and no edited entry; checkpoints agree with it."""
    for space in points.namespaces(tx) if only is None else (only,):
        broken = log.broken_at(tx, space)
        if broken is not None:
            yield Fault("log", space, detail=f"from sequence number {broken} on, its hashes do not follow")
    rows = tx.execute(
        """SELECT c.namespace_id, c.number FROM checkpoint c
        LEFT JOIN operation o ON o.namespace_id = c.namespace_id AND o.sequence = c.sequence
        WHERE (? IS NULL OR c.namespace_id = ?) AND c.digest IS NOT coalesce(o.hash, CASE c.sequence WHEN 0 THEN ? END)
        ORDER BY c.id""",
        (only, only, log.START),
    ).fetchall()
    for space, number in rows:
        yield Fault("checkpoint", space, detail=f"checkpoint {number}")


def _audit(tx: sqlite3.Connection, only: int | None) -> Iterator[Fault]:
    """The audit trail has no gap, no edited entry, and all that its note says; see hybridmem.store.audit."""
    for space in points.namespaces(tx) if only is None else (only,):
        broken = audit.broken(tx, space)
        if broken is not None:
            yield Fault("audit", space, detail=broken)


def _logged(tx: sqlite3.Connection, only: int | None) -> Iterator[Fault]:
    """Every memory has an entry that made it, and every such entry has its memory."""
    sql = """SELECT o.id, o.namespace_id, o.node_uid FROM operation o
        LEFT JOIN node n ON n.namespace_id = o.namespace_id AND n.uid = o.node_uid
        WHERE (? IS NULL OR o.namespace_id = ?) AND o.kind = 'add' AND n.id IS NULL
        AND o.id > ? ORDER BY o.id LIMIT ?"""
    for _, space, uid in _pages(tx, sql, only, only):
        yield Fault("lost", space, uid=uid)
    sql = f"""SELECT n.id, n.namespace_id FROM node n WHERE {_WITHIN} AND n.type != '{ROOT_TYPE}'
        AND (n.namespace_id, n.uid) NOT IN (SELECT namespace_id, node_uid FROM operation WHERE kind = 'add')
        AND n.id > ? ORDER BY n.id LIMIT ?"""
    for node_id, space in _pages(tx, sql, only, only):
        yield Fault("unlogged", space, node_id)


def _embeddings(tx: sqlite3.Connection, only: int | None) -> Iterator[Fault]:
    """Vectors of the right length, pieces complete, of the content that is current, in the right namespace."""
    try:
        known = model(tx)
    except ValueError:  # a fault of the settings
        return
    sql = f"""SELECT e.id, n.namespace_id, n.id, e.vector FROM embedding e JOIN node n ON n.id = e.node_id
        WHERE {_WITHIN} AND e.id > ? ORDER BY e.id LIMIT ?"""
    bad = {
        node_id: space
        for _, space, node_id, vector in _pages(tx, sql, only, only)
        if known is None or len(vector) != 4 * known[1] or not _is_unit(vector)
    }
    rows = tx.execute(
        f"""SELECT n.id, n.namespace_id FROM embedding e JOIN node n ON n.id = e.node_id WHERE {_WITHIN}
        GROUP BY n.id HAVING min(e.piece) != 0 OR max(e.piece) != count(*) - 1
            OR min(e.namespace_id = n.namespace_id) = 0
            OR (min(e.revision_id = n.revision_id) = 0 AND n.id NOT IN (SELECT node_id FROM outbox))""",
        (only, only),
    ).fetchall()
    bad.update(rows)
    for node_id, space in sorted(bad.items()):
        yield Fault("embedding", space, node_id)


def _is_unit(vector: bytes) -> bool:
    values = np.frombuffer(vector, dtype="<f4").astype(np.float64)
    return bool(np.isfinite(values).all() and abs(np.linalg.norm(values) - 1.0) < LENGTH_TOLERANCE)


def _requests(tx: sqlite3.Connection, only: int | None) -> Iterator[Fault]:
    """Each live node has a vector, or waits for one, or failed with a reason; and no request is about nothing."""
    sql = f"""SELECT n.id, n.namespace_id FROM node n WHERE {_WITHIN} AND n.state = 'live' AND n.type != '{ROOT_TYPE}'
        AND NOT EXISTS (SELECT 1 FROM embedding WHERE node_id = n.id)
        AND NOT EXISTS (SELECT 1 FROM outbox WHERE node_id = n.id) AND n.id > ? ORDER BY n.id LIMIT ?"""
    for node_id, space in _pages(tx, sql, only, only):
        yield Fault("unembedded", space, node_id)
    sql = """SELECT o.id, o.namespace_id FROM outbox o LEFT JOIN node n ON n.id = o.node_id
        WHERE (? IS NULL OR o.namespace_id = ?) AND n.namespace_id IS NOT o.namespace_id
        AND o.id > ? ORDER BY o.id LIMIT ?"""
    for _, space in _pages(tx, sql, only, only):
        yield Fault("outbox", space)
    sql = f"""SELECT o.id, n.namespace_id, n.id, o.reason FROM outbox o JOIN node n ON n.id = o.node_id
        WHERE {_WITHIN} AND o.reason IS NOT NULL AND o.id > ? ORDER BY o.id LIMIT ?"""
    for _, space, node_id, reason in _pages(tx, sql, only, only):
        yield Fault("stuck", space, node_id, detail=sealing.opened_reason(tx, node_id, reason))


def _references(tx: sqlite3.Connection, only: int | None) -> Iterator[Fault]:
    """Foreign keys, but for those that have a check of their own. They tell of no namespace: only in a look at all."""
    if only is not None:
        return
    named = {"node": "parent", "active": "active", "embedding": "embedding"}
    rows = tx.execute('SELECT "table", count(*), "parent" FROM pragma_foreign_key_check GROUP BY 1, 3').fetchall()
    for table, count, target in rows:
        if target == "namespace" or table not in named:
            yield Fault("reference", None, detail=f"{count} rows of {table} without their {target}")
    rows = tx.execute("SELECT 1 FROM embedding WHERE node_id NOT IN (SELECT id FROM node) LIMIT 1").fetchall()
    for _ in rows:
        yield Fault("embedding", None, detail="vectors of no memory")


def _settings(tx: sqlite3.Connection, only: int | None) -> Iterator[Fault]:
    for (key,) in tx.execute("SELECT key FROM setting WHERE NOT json_valid(value)").fetchall():
        yield Fault("index_files" if key == "index_files" else "settings", None, detail=key)
    try:
        model(tx)
    except json.JSONDecodeError:
        pass  # told above
    except ValueError as error:
        yield Fault("settings", None, detail=str(error))


CHECKS: tuple[Check, ...] = (
    _sealed, _shape, _paths, _counters, _values, _revisions, _metadata, _contents, _lexical_rows, _tasks, _active,
    _chain, _audit, _logged, _embeddings, _requests, _references, _settings,
)  # fmt: skip

"""A store with something of everything in it, and ways to damage it behind its back: one for each thing that verify
checks, and more."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hybridmem import Memory

CONFIG: dict[str, Any] = {"embedding": {"provider": "hashing", "dimension": 32}, "index": {"background": False}}
ACME, ZHANG = ("acme",), ("acme", "张三")
LONG = "停机窗口是 Saturday 凌晨，数据库迁移 the migration of the database takes three hours。" * 12


def open_(store: Path, namespace: tuple[str, ...] = ACME) -> Memory:
    return Memory.open(store, namespace=namespace, agent="bot", config=CONFIG)


def make(store: Path) -> dict[str, str]:
    """Tasks, facts, decisions, updates, moves, a long content, another namespace; indexed and closed. Names → ids."""
    with open_(store) as memory:
        claim = memory.start_task("企业报销任务 expense claim", next_step="提交报销单")
        fact = memory.add("用户张三，部门研发部", type="fact", importance=0.9)
        event = memory.add("财务退回 the invoice 发票不清晰", type="event", parent=fact)
        memory.add("李四说可以 Bob says yes", type="decision", metadata={"speaker": "李四"}, id="decision1")
        note = memory.add("a note", parent="root", metadata={"k": 1})
        memory.update(note.id, content="改过的 changed note", metadata={"键": "值"})
        memory.move(note.id, event.id)
        memory.add(LONG, id="long1")
        done = memory.start_task("子任务 sub-task", parent="active")
        memory.finish_task(outcome="完成了 finished")
        memory.add("最后一条 the last", id="last1")
        memory.checkpoint("everything 全部")
        assert memory.flush() == 0
        root = memory.root().id
    with open_(store, ZHANG) as memory:
        other = memory.add("张三喜欢喝茶 prefers tea", type="preference")
        assert memory.flush() == 0
    return {
        "root": root, "claim": claim.id, "fact": fact.id, "event": event.id, "note": note.id, "done": done.id,
        "other": other.id, "decision": "decision1", "long": "long1", "last": "last1",
    }  # fmt: skip


def edit(store: Path, sql: str, ids: Mapping[str, str]) -> None:
    """Runs statements as somebody with the sqlite3 program might: foreign keys and checks off. ``{name}`` in them
    stands for the internal id of a node, ``{name.uid}`` for its public id."""
    with contextlib.closing(sqlite3.connect(store / "tree.db")) as conn:
        conn.execute("PRAGMA ignore_check_constraints = ON")
        for name, uid in ids.items():
            row = conn.execute("SELECT id FROM node WHERE uid = ?", (uid,)).fetchone()
            sql = sql.replace(f"{{{name}}}", str(row[0]) if row else "0").replace(f"{{{name}.uid}}", f"'{uid}'")
        conn.executescript(sql)


@dataclass(frozen=True)
class Damage:
    """``sql`` damages the store of :func:`make`; verify finds exactly ``kinds``, repair leaves exactly ``left``.
    ``restored``: after the repair every memory is as before. ``agrees``: the tree is what the log says then."""

    sql: str
    kinds: frozenset[str]
    left: frozenset[str] = frozenset()
    restored: bool = True
    agrees: bool = True


def _damage(sql: str, kinds: str, left: str = "", *, restored: bool = True, agrees: bool = True) -> Damage:
    return Damage(sql, frozenset(kinds.split()), frozenset(left.split()), restored, agrees)


DAMAGES: dict[str, Damage] = {
    "a node that is its own parent": _damage("UPDATE node SET parent_id = id WHERE id = {event}", "loop path"),
    "a loop of three": _damage("UPDATE node SET parent_id = {note} WHERE id = {fact}", "loop path"),
    "a parent that is not there": _damage("UPDATE node SET parent_id = 99999 WHERE id = {event}", "parent path"),
    "a parent in another namespace": _damage("UPDATE node SET parent_id = {other} WHERE id = {fact}", "parent path"),
    "a root below its child": _damage(
        "UPDATE node SET parent_id = {fact} WHERE id = {root}", "root loop path counter"
    ),
    "a second root": _damage("UPDATE node SET parent_id = NULL WHERE id = {event}", "root path counter"),
    "a root of another type": _damage(
        "UPDATE node SET type = 'note' WHERE id = {root}", "root unlogged derived lexical unembedded"
    ),
    "a second node of type root": _damage("UPDATE node SET type = 'root' WHERE id = {event}", "root derived lexical"),
    "a root that is gone": _damage("DELETE FROM node WHERE id = {root}", "root parent path reference"),
    "a leaf that is gone": _damage(
        "DELETE FROM node WHERE id = {note}", "lost counter lexical embedding reference chroma_extra"
    ),
    "an inner node that is gone": _damage(
        "DELETE FROM node WHERE id = {fact}", "lost parent path counter lexical embedding reference chroma_extra"
    ),
    "a task that is gone": _damage(
        "DELETE FROM node WHERE id = {claim}",
        "lost parent path counter lexical embedding reference active chroma_extra",
    ),
    "a branch that is gone": _damage(
        "DELETE FROM node WHERE id IN ({fact}, {event}, {note})",
        "lost counter lexical embedding reference chroma_extra",
    ),
    "a wrong path": _damage("UPDATE node SET path = '/x/' WHERE id = {event}", "path"),
    "a wrong depth": _damage("UPDATE node SET depth = 77 WHERE id = {fact}", "path"),
    "a wrong counter": _damage("UPDATE namespace SET nodes = nodes + 3 WHERE id = 1", "counter"),
    "an importance above 1": _damage("UPDATE node SET importance = 7.5 WHERE id = {event}", "values"),
    "a confidence without end": _damage(
        "UPDATE node SET confidence = 9e999 WHERE id = {event}", "values"
    ),
    "negative uses": _damage("UPDATE node SET uses = -3 WHERE id = {event}", "values"),
    "an unknown state": _damage(
        "UPDATE node SET state = 'gone' WHERE id = {event}", "values chroma_extra"
    ),
    "a time beyond all years": _damage(
        f"UPDATE node SET created_at = {10**18} WHERE id = {{event}}", "values"
    ),
    "no version": _damage("UPDATE node SET version = 0 WHERE id = {event}", "values"),
    "metadata that are no JSON": _damage(
        "UPDATE revision SET metadata = '{oops' WHERE node_id = {event}", "metadata", restored=False
    ),
    "metadata that are a list": _damage(
        "UPDATE revision SET metadata = '[1]' WHERE node_id = {event}", "metadata", restored=False
    ),
    "the content of another node": _damage(
        "UPDATE node SET revision_id = (SELECT revision_id FROM node WHERE id = {fact}) WHERE id = {event}",
        "revision derived lexical embedding",
    ),
    "a content that is not there": _damage(
        "UPDATE node SET revision_id = 99999 WHERE id = {event}", "revision embedding"
    ),
    "no content at all": _damage(
        "DELETE FROM revision WHERE node_id = {event}", "contentless", "contentless", restored=False
    ),
    "a wrong hash of the content": _damage("UPDATE node SET content_key = 'x' WHERE id = {fact}", "derived"),
    "a wrong number of terms": _damage("UPDATE node SET terms = 99 WHERE id = {fact}", "derived"),
    "a wrong speaker": _damage("UPDATE node SET speaker = 'eve' WHERE id = {decision}", "derived"),
    "a lexical entry that is missing": _damage("DELETE FROM lexical WHERE rowid = {event}", "lexical"),
    "a lexical entry with other terms": _damage(
        "UPDATE lexical SET terms = '1:foo 1:bar' WHERE rowid = {event}", "lexical"
    ),
    "a lexical entry of no node": _damage("INSERT INTO lexical (rowid, terms) VALUES (4242, '1:foo')", "lexical"),
    "a lexical entry without postings": _damage(
        "CREATE TEMP TABLE kept AS SELECT rowid AS id, terms FROM lexical WHERE rowid = {event};"
        "DELETE FROM lexical WHERE rowid = {event};"
        "INSERT INTO lexical_content SELECT * FROM kept",
        "lexical",
    ),
    "an open task without a status": _damage("DELETE FROM task WHERE node_id = {claim}", "task"),
    "a finished task without a status": _damage("DELETE FROM task WHERE node_id = {done}", "task"),
    "a task with an unknown status": _damage("UPDATE task SET status = 'odd' WHERE node_id = {done}", "task"),
    "a task of another type": _damage("UPDATE node SET type = 'note' WHERE id = {claim}", "task active"),
    "an active task that is none": _damage(
        "UPDATE active SET task_id = {fact} WHERE namespace_id = 1", "active", restored=False
    ),
    "an active task of another namespace": _damage(
        "UPDATE active SET task_id = {other} WHERE namespace_id = 1", "active", restored=False
    ),
    "an active node that is gone": _damage(
        "UPDATE active SET node_id = 99999 WHERE namespace_id = 1", "active", restored=False
    ),
    "an active node that is archived": _damage(
        "UPDATE node SET state = 'archived' WHERE id = {last}", "active chroma_extra", restored=False, agrees=False
    ),
    "an edited entry of the log": _damage(
        "UPDATE operation SET payload = '{}' WHERE namespace_id = 1 AND sequence = 3", "log", "log"
    ),
    "a reordered log": _damage(
        "UPDATE operation SET sequence = -1 WHERE namespace_id = 1 AND sequence = 3;"
        "UPDATE operation SET sequence = 3 WHERE namespace_id = 1 AND sequence = 4;"
        "UPDATE operation SET sequence = 4 WHERE namespace_id = 1 AND sequence = -1",
        "log checkpoint",
        "log checkpoint",
    ),
    "a gap in the log": _damage(
        "DELETE FROM operation WHERE namespace_id = 1 AND kind = 'move'", "log", "log"
    ),
    "a log cut off at its end": _damage(
        "DELETE FROM operation WHERE namespace_id = 1 AND sequence = (SELECT max(sequence) FROM operation "
        "WHERE namespace_id = 1)",
        "checkpoint unlogged",
        "checkpoint",
    ),
    "a memory that is gone, and an edited log": _damage(
        "UPDATE operation SET payload = '{}' WHERE namespace_id = 1 AND sequence = 3;"
        "DELETE FROM node WHERE id = {note}",
        "log lost counter lexical embedding reference chroma_extra",
        "log",
    ),
    "a checkpoint with another digest": _damage(
        "UPDATE checkpoint SET digest = 'x' WHERE namespace_id = 1 AND number = 1", "checkpoint", "checkpoint"
    ),
    "a node put in by hand": _damage(
        "INSERT INTO revision (id, node_id, version, content, structured, metadata) "
        "VALUES (5000, 5000, 1, '手写的 by hand', 0, '{}');"
        "INSERT INTO node (id, namespace_id, uid, parent_id, path, depth, type, revision_id, content_key, importance, "
        "confidence, agent, created_at, updated_at, active_at) "
        "VALUES (5000, 1, 'byhand', {fact}, '', 0, 'note', 5000, '', 0.5, 0.5, 'me', 1, 1, 1)",
        "path counter unlogged derived lexical unembedded",
        restored=False,
    ),
    "a vector of another width": _damage(
        "UPDATE embedding SET vector = x'0000803f' WHERE node_id = {fact}", "embedding"
    ),
    "a vector of length 0": _damage(
        "UPDATE embedding SET vector = zeroblob(128) WHERE node_id = {fact}", "embedding"
    ),
    "a vector with NaN": _damage(
        "UPDATE embedding SET vector = CAST(substr(vector, 1, 124) || x'0000c07f' AS BLOB) WHERE node_id = {fact}",
        "embedding",
    ),
    "a vector of an older content": _damage(
        "UPDATE embedding SET revision_id = 1 WHERE node_id = {note}", "embedding"
    ),
    "a piece that is missing": _damage(
        "DELETE FROM embedding WHERE node_id = {long} AND piece = 1", "embedding chroma_extra"
    ),
    "a vector in another namespace": _damage(
        "UPDATE embedding SET namespace_id = 2 WHERE node_id = {fact}", "embedding"
    ),
    "a node without a vector": _damage(
        "DELETE FROM embedding WHERE node_id = {fact}", "unembedded chroma_extra"
    ),
    "a request about nothing": _damage("INSERT INTO outbox (namespace_id, node_id) VALUES (1, 99999)", "outbox"),
    "a request from another namespace": _damage(
        "INSERT INTO outbox (namespace_id, node_id) VALUES (1, {other})", "outbox chroma_extra"
    ),
    "a vector that could not be made": _damage(
        "INSERT INTO outbox (namespace_id, node_id, attempts, reason) VALUES (1, {fact}, 1, 'the embedder failed')",
        "stuck",
    ),
    "an unreadable model": _damage("UPDATE setting SET value = '{' WHERE key = 'embedding'", "settings", "settings"),
    "an unreadable note about the index": _damage(
        "UPDATE setting SET value = '{' WHERE key = 'index_files'", "index_files"
    ),
    "a namespace that is gone": _damage(
        "DELETE FROM namespace WHERE id = 2", "reference", "reference", restored=False
    ),
    "an edited audit entry": _damage("UPDATE audit SET agent = '别人' WHERE sequence = 3", "audit", "audit"),
    "a deleted audit entry": _damage("DELETE FROM audit WHERE sequence = 3", "audit", "audit"),
    "the newest audit entries deleted": _damage("DELETE FROM audit WHERE sequence > 3", "audit", "audit"),
    "the notes of the newest audit entries deleted": _damage("DELETE FROM audit_head", "audit", "audit"),
}  # fmt: skip

"""Every public method of a handle, and how the tests of isolation call it: whoever adds a method has to add a line."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hybridmem import Memory

#: What is no call on the data of a namespace: the name of the handle's own things, opening and closing.
NOT_CALLS = {"agent", "close", "config", "namespace", "open", "path"}
#: What is about the whole store by design, whatever the namespace; backups are tested by what they say.
OF_THE_STORE = {"backup", "backups", "reembed", "rotate_master_key"}


@dataclass(frozen=True)
class Own:
    """What a namespace holds, by id; ``canary`` is in each of its texts and in no other namespace's."""

    canary: str
    task: str
    done: str
    fact: str
    event: str
    note: str
    twin: str
    forgotten: str
    archived: str
    purged: str
    summary: str
    checkpoint: str
    folder: Path


Call = Callable[[Memory, Own], Any]

#: Reading. Each gives something of what is there.
READS: dict[str, Call] = {
    "active_task": lambda m, own: m.active_task(),
    "ancestors": lambda m, own: m.ancestors(own.fact),
    "audit": lambda m, own: m.audit(),
    "checkpoints": lambda m, own: m.checkpoints(),
    "children": lambda m, own: m.children(own.task),
    "context": lambda m, own: [
        m.context("secret 秘密", token_budget=4_000, scope=scope, format=shape)
        for scope, shape in (("auto", "text"), ("task", "markdown"), ("namespace", "messages"), (own.task, "json"))
    ],
    "grants": lambda m, own: m.grants(),
    "groups": lambda m, own: m.groups(),
    "shared": lambda m, own: m.shared(),
    "get": lambda m, own: [m.get(one) for one in (own.fact, own.forgotten, own.archived)],
    "history": lambda m, own: m.history(own.fact),
    "near_duplicates": lambda m, own: m.near_duplicates(threshold=0.1),
    "operations": lambda m, own: m.operations(),
    "pending": lambda m, own: m.pending(),
    "resume": lambda m, own: m.resume(),
    "root": lambda m, own: m.root(),
    "search": lambda m, own: [
        m.search("secret 秘密", 500, scope=scope, states=states, trace=True)
        for scope in ("auto", "namespace", own.task)
        for states in (["live"], ["live", "archived", "superseded", "forgotten"])
    ],
    "stats": lambda m, own: m.stats(),
    "tasks": lambda m, own: m.tasks(),
    "verify": lambda m, own: m.verify(replay=True),
    "walk": lambda m, own: list(m.walk()),
    "weights": lambda m, own: m.weights([own.fact, own.event]),
}

#: Writing, in an order in which each has something to do.
WRITES: dict[str, Call] = {
    "add": lambda m, own: m.add(f"new 新的 {own.canary}", type="event", parent=own.task),
    "add_many": lambda m, own: m.add_many([{"content": f"more 更多 {own.canary} {n}"} for n in range(3)]),
    "observe": lambda m, own: m.observe([{"role": "user", "content": f"请记住 remember {own.canary}"}]),
    "erase_namespace": lambda m, own: m.erase_namespace(everything=True, dry_run=True),
    "export": lambda m, own: m.export(own.folder / "out.jsonl"),
    "import_": lambda m, own: m.import_(own.folder / "out.jsonl"),
    "update": lambda m, own: m.update(own.event, content=f"updated 改过 {own.canary}"),
    "supersede": lambda m, own: m.supersede(own.fact, f"now 现在 {own.canary}"),
    "feedback": lambda m, own: m.feedback(own.event, helpful=True),
    "merge_duplicates": lambda m, own: m.merge_duplicates(own.note, [own.twin]),
    "unmerge": lambda m, own: m.unmerge(own.note),
    "move": lambda m, own: m.move(own.event, "root"),
    "pin": lambda m, own: m.pin(own.event),
    "start_task": lambda m, own: m.start_task(f"other 别的 {own.canary}", parent="root"),
    "update_task": lambda m, own: m.update_task(own.task, next_step=f"then 然后 {own.canary}"),
    "switch_task": lambda m, own: m.switch_task(own.task),
    "claim_task": lambda m, own: m.claim_task(own.task, seconds=60),
    "release_task": lambda m, own: m.release_task(own.task),
    "finish_task": lambda m, own: m.finish_task(own.task),
    "checkpoint": lambda m, own: m.checkpoint(f"label 标签 {own.canary}"),
    "unconsolidate": lambda m, own: m.unconsolidate(own.summary),
    "consolidate": lambda m, own: m.consolidate(own.done),
    "unarchive": lambda m, own: m.unarchive(own.archived),
    "archive": lambda m, own: m.archive(own.archived),
    "restore_forgotten": lambda m, own: m.restore_forgotten(own.forgotten),
    "forget": lambda m, own: [m.forget(own.forgotten), m.forget(policy={"policy": "least_weight", "max_nodes": 0})],
    "purge_forgotten": lambda m, own: m.purge_forgotten(0),
    "restore": lambda m, own: m.restore(checkpoint=own.checkpoint),
    "erase": lambda m, own: m.erase(own.note),
    "set_group": lambda m, own: m.set_group(f"team 组 {own.canary}", [f"user:nobody-{own.canary}"]),
    "share": lambda m, own: m.share(own.task, f"group:team 组 {own.canary}"),
    "unshare": lambda m, own: [m.unshare(one.id) for one in m._sharing.grants()],
    "export_audit": lambda m, own: m.export_audit(own.folder / "audit.jsonl"),
    "prune_audit": lambda m, own: m.prune_audit(0),
    "flush": lambda m, own: m.flush(),
    "repair": lambda m, own: m.repair(),
}


def imported_below(m: Memory, id: str) -> Any:
    """A file brought in below a node."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "chat.json"
        file.write_text('[{"role": "user", "content": "x"}]', encoding="utf-8")
        return m.import_(file, parent=id)


#: Calls by an id, with another namespace's: what a caller could guess or have been told.
BY_ID: dict[str, Callable[[Memory, str], Any]] = {
    "add": lambda m, id: m.add("x", parent=id),
    "add_many": lambda m, id: m.add_many([{"content": "x", "parent": id}]),
    "ancestors": lambda m, id: m.ancestors(id),
    "archive": lambda m, id: m.archive(id),
    "children": lambda m, id: m.children(id),
    "claim_task": lambda m, id: m.claim_task(id, seconds=60),
    "consolidate": lambda m, id: m.consolidate(id),
    "context": lambda m, id: m.context("x", scope=id),
    "erase": lambda m, id: m.erase(id, subtree=True),
    "feedback": lambda m, id: m.feedback(id, helpful=True),
    "finish_task": lambda m, id: m.finish_task(id),
    "forget": lambda m, id: m.forget(id, subtree=True),
    "get": lambda m, id: m.get(id),
    "history": lambda m, id: m.history(id),
    "import_": imported_below,
    "merge_duplicates": lambda m, id: m.merge_duplicates(id, [id + "x"]),
    "move": lambda m, id: m.move(id, "root"),
    "near_duplicates": lambda m, id: m.near_duplicates(id),
    "observe": lambda m, id: m.observe(["x"], parent=id),
    "pin": lambda m, id: m.pin(id),
    "release_task": lambda m, id: m.release_task(id),
    "restore_forgotten": lambda m, id: m.restore_forgotten(id),
    "search": lambda m, id: m.search("x", scope=id),
    "share": lambda m, id: m.share(id, "user:nobody"),
    "start_task": lambda m, id: m.start_task("x", parent=id),
    "supersede": lambda m, id: m.supersede(id, "x"),
    "switch_task": lambda m, id: m.switch_task(id),
    "unarchive": lambda m, id: m.unarchive(id),
    "unconsolidate": lambda m, id: m.unconsolidate(id),
    "unmerge": lambda m, id: m.unmerge(id),
    "update": lambda m, id: m.update(id, content="x"),
    "update_task": lambda m, id: m.update_task(id, next_step="x"),
    "walk": lambda m, id: list(m.walk(id)),
}


def others(store: Path, namespace: int) -> dict[str, list[Any]]:
    """Every row of every table that belongs to another namespace than the one with this internal id."""
    return _rows(store, f"!= {namespace}")


def rows_of(store: Path, namespace: int) -> dict[str, list[Any]]:
    """Every row of every table that belongs to the namespace with this internal id."""
    return _rows(store, f"= {namespace}")


def number_of(store: Path, m: Memory) -> int:
    """The internal id of a handle's namespace."""
    with closing(sqlite3.connect(store / "tree.db")) as conn:
        ((found,),) = conn.execute(
            "SELECT namespace_id FROM node WHERE uid = ? AND depth = 0", (m.root().id,)
        ).fetchall()
    return int(found)


def _rows(store: Path, condition: str) -> dict[str, list[Any]]:
    nodes = f"SELECT id FROM node WHERE namespace_id {condition}"
    tables = {
        "namespace": f"id {condition}",
        **dict.fromkeys(
            (
                "node",
                "operation",
                "checkpoint",
                "active",
                "audit",
                "audit_head",
                "grants",
                "grant_member",
                "tombstone",
                "erasure",
            ),
            f"namespace_id {condition}",
        ),
        **dict.fromkeys(("revision", "task", "embedding"), f"node_id IN ({nodes})"),
        "lexical": f"rowid IN ({nodes})",
    }
    with closing(sqlite3.connect(store / "tree.db")) as conn:
        return {table: conn.execute(f"SELECT * FROM {table} WHERE {one}").fetchall() for table, one in tables.items()}

"""Pointers, checkpoints, sessions and settings: where an agent stands, and where it stood."""

from __future__ import annotations

import json
import sqlite3
from typing import Any, Literal

from hybridmem import faults
from hybridmem.store import log, sealing
from hybridmem.store.rows import NODE_COLUMNS, NODE_TABLES, Key, dump, from_micros, subtree_range, to_node
from hybridmem.types import Checkpoint, Namespace, Node

_CHECKPOINT_COLUMNS = """number, label, reason, sequence, at, agent, active_task, active_node, decision_path,
    nodes, digest"""


# Settings and namespaces


def setting(tx: sqlite3.Connection, key: str) -> Any:
    """The value of a store setting, or None."""
    text = setting_text(tx, key)
    return None if text is None else json.loads(text)


def setting_text(tx: sqlite3.Connection, key: str) -> str | None:
    """The value of a store setting as JSON, or None."""
    row = tx.execute("SELECT value FROM setting WHERE key = ?", (key,)).fetchone()
    return None if row is None else str(row[0])


def set_setting(tx: sqlite3.Connection, key: str, value: Any) -> None:
    tx.execute("INSERT OR REPLACE INTO setting (key, value) VALUES (?, ?)", (key, dump(value)))


def drop_setting(tx: sqlite3.Connection, key: str) -> None:
    tx.execute("DELETE FROM setting WHERE key = ?", (key,))


def drop_settings(tx: sqlite3.Connection, prefix: str) -> None:
    """Takes away every setting whose key begins so."""
    tx.execute("DELETE FROM setting WHERE substr(key, 1, length(?)) = ?", (prefix, prefix))


def tended(tx: sqlite3.Connection, namespace: int) -> tuple[int, int]:
    """(sequence, time) of when forgetting by schedule was last begun in a namespace; if never, of its beginning."""
    found = setting(tx, f"forgetting.{namespace}")
    if found is not None:
        return int(found[0]), int(found[1])
    row = tx.execute("SELECT created_at FROM namespace WHERE id = ?", (namespace,)).fetchone()
    return 0, int(row[0])


def set_tended(tx: sqlite3.Connection, namespace: int, sequence: int, at: int) -> None:
    set_setting(tx, f"forgetting.{namespace}", [sequence, at])


def namespace_id(tx: sqlite3.Connection, namespace: Namespace) -> int | None:
    row = tx.execute("SELECT id FROM namespace WHERE key = ?", (dump(list(namespace)),)).fetchone()
    return int(row[0]) if row else None


def make_namespace(tx: sqlite3.Connection, namespace: Namespace, at: int) -> int:
    cursor = tx.execute("INSERT INTO namespace (key, created_at) VALUES (?, ?)", (dump(list(namespace)), at))
    assert cursor.lastrowid is not None
    sealing.make_key(tx, cursor.lastrowid, at)
    return cursor.lastrowid


def namespaces(tx: sqlite3.Connection) -> dict[int, Namespace]:
    return {
        row[0]: tuple(json.loads(row[1]))
        # the key of an erased one is no array, see hybridmem.store.tombstones
        for row in tx.execute("SELECT id, key FROM namespace WHERE substr(key, 1, 1) = '[' ORDER BY id").fetchall()
    }


def is_there(tx: sqlite3.Connection, namespace: int) -> bool:
    """Whether a namespace has not been erased."""
    row = tx.execute("SELECT 1 FROM namespace WHERE id = ? AND substr(key, 1, 1) = '['", (namespace,)).fetchone()
    return row is not None


# Tasks and active pointers


def set_task(
    tx: sqlite3.Connection, key: Key, *, status: str, next_step: str | None, started_at: int, finished_at: int | None
) -> None:
    step, key_id = sealing.text(sealing.writing_to(tx, key.id), next_step, key.id, "next_step")
    tx.execute(
        """INSERT OR REPLACE INTO main.task (node_id, status, next_step, started_at, finished_at, key_id)
        VALUES (?, ?, ?, ?, ?, ?)""",
        (key.id, status, step, started_at, finished_at, key_id),
    )


def task(tx: sqlite3.Connection, key: Key) -> tuple[str, str | None, int, int | None] | None:
    """(status, next step, started at, finished at) of a task node."""
    row: tuple[str, str | None, int, int | None] | None = tx.execute(
        "SELECT status, next_step, started_at, finished_at FROM task WHERE node_id = ?", (key.id,)
    ).fetchone()
    return row


def next_steps(tx: sqlite3.Connection, namespace: int) -> dict[int, str]:
    """What comes next in each live task that says so, by internal id; finishing a task clears it."""
    rows = tx.execute(
        """SELECT n.id, t.next_step FROM node n JOIN task t ON t.node_id = n.id
        WHERE n.namespace_id = ? AND n.type = 'task' AND n.state = 'live' AND t.next_step IS NOT NULL""",
        (namespace,),
    ).fetchall()
    return dict(rows)


def active(tx: sqlite3.Connection, namespace: int, agent: str) -> tuple[int | None, int | None]:
    """The internal ids of the active task and the active node of an agent."""
    row = tx.execute(
        "SELECT task_id, node_id FROM active WHERE namespace_id = ? AND agent = ?", (namespace, agent)
    ).fetchone()
    return (row[0], row[1]) if row else (None, None)


def active_after(
    tx: sqlite3.Connection, namespace: int, agent: str, sequence: int
) -> tuple[str | None, str | None, bool] | None:
    """(active task, active node, whether that is certain) of an agent after an entry of the log, as public ids; None if
    it stood nowhere.

    Entries of earlier versions did not say it: then the last checkpoint tells, and it is certain only if the agent has
    written nothing since.
    """
    said = tx.execute(
        """SELECT o.sequence, p.value FROM operation o, json_each(o.payload, '$.active') p
        WHERE o.namespace_id = ? AND o.sequence <= ? AND p.key = ? ORDER BY o.sequence DESC LIMIT 1""",
        (namespace, sequence, agent),
    ).fetchone()
    noted = tx.execute(
        """SELECT sequence, active_task, active_node FROM checkpoint
        WHERE namespace_id = ? AND agent = ? AND sequence <= ? ORDER BY number DESC LIMIT 1""",
        (namespace, agent, sequence),
    ).fetchone()
    since = max(said[0] if said else 0, noted[0] if noted else 0)
    silent = tx.execute(
        f"""SELECT 1 FROM operation WHERE namespace_id = ? AND agent = ? AND sequence > ? AND sequence <= ?
        AND kind IN ({", ".join("?" * len(log.POINTING))}) AND json_type(payload, '$.version') IS NULL LIMIT 1""",
        (namespace, agent, since, sequence, *sorted(log.POINTING)),
    ).fetchone()
    if noted and (said is None or noted[0] > said[0]):
        return noted[1], noted[2], silent is None
    if said is None:
        return None if silent is None else (None, None, False)
    task, node = json.loads(said[1])
    return task, node, True


def set_active(tx: sqlite3.Connection, namespace: int, agent: str, task_id: int | None, node_id: int | None) -> None:
    tx.execute(
        "INSERT OR REPLACE INTO active (namespace_id, agent, task_id, node_id) VALUES (?, ?, ?, ?)",
        (namespace, agent, task_id, node_id),
    )


def agents(tx: sqlite3.Connection, namespace: int) -> list[tuple[str, str | None, str | None]]:
    """(agent, active task, active node) of everyone who has written, public ids."""
    return tx.execute(
        """SELECT a.agent, t.uid, n.uid FROM active a LEFT JOIN node t ON t.id = a.task_id
        LEFT JOIN node n ON n.id = a.node_id WHERE a.namespace_id = ? ORDER BY a.agent""",
        (namespace,),
    ).fetchall()


def below(
    tx: sqlite3.Connection,
    namespace: int,
    key: Key,
    type: Literal["decision", "task"],
    *,
    limit: int | None = None,
    open_only: bool = False,
) -> list[Node]:
    """The decisions or tasks below a node, newest first; with ``open_only`` only tasks that are not finished.

    Costs what there is of that type below the node, however big the store is: both types have partial indexes, one by
    place, and one in the order of insertion for all that the root has. SQLite would not know which is the shorter way.
    """
    low, high = subtree_range(key.path)
    index = f"node_{type}" if key.parent_id is None else f"node_{type}_place"
    tables = NODE_TABLES.replace("node n", f"node n INDEXED BY {index}", 1)
    rows = tx.execute(
        f"""SELECT {NODE_COLUMNS} FROM {tables} WHERE n.namespace_id = ? AND n.type = '{type}'
            AND n.path > ? AND n.path < ? AND n.state = 'live'
            {"AND t.status IN ('open', 'paused')" if open_only else ""} ORDER BY n.id DESC LIMIT ?""",
        (namespace, low, high, -1 if limit is None else limit),
    ).fetchall()
    return [to_node(row) for row in rows]


def tasks(tx: sqlite3.Connection, namespace: int) -> dict[int, dict[str, Any]]:
    """Status, next step and times of every task by internal id."""
    names = ("status", "next_step", "started_at", "finished_at")
    rows = tx.execute(
        """SELECT t.node_id, t.status, t.next_step, t.started_at, t.finished_at FROM task t
        JOIN node n ON n.id = t.node_id WHERE n.namespace_id = ? AND n.type = 'task'""",
        (namespace,),
    ).fetchall()
    return {row[0]: dict(zip(names, row[1:], strict=True)) for row in rows}


def change_task(tx: sqlite3.Connection, node_id: int, values: dict[str, Any]) -> None:
    """Sets columns of a task."""
    if "next_step" in values:
        step, key_id = sealing.text(sealing.writing_to(tx, node_id), values["next_step"], node_id, "next_step")
        values = {**values, "next_step": step, "key_id": key_id}
    assignments = ", ".join(f"{name} = ?" for name in values)
    tx.execute(f"UPDATE main.task SET {assignments} WHERE node_id = ?", (*values.values(), node_id))


# Checkpoints


def add_checkpoint(tx: sqlite3.Connection, namespace: int, **columns: Any) -> int:
    """Writes a checkpoint and returns its number within the namespace."""
    row = tx.execute(
        "SELECT coalesce(max(number), 0) + 1 FROM checkpoint WHERE namespace_id = ?", (namespace,)
    ).fetchone()
    label, key_id = sealing.text(sealing.writing(tx, namespace), columns.get("label"), row[0], "label")
    columns = {**columns, "label": label, "key_id": key_id}
    names = ["namespace_id", "number", *columns]
    marks = ", ".join("?" * len(names))
    tx.execute(
        f"INSERT INTO main.checkpoint ({', '.join(names)}) VALUES ({marks})", (namespace, row[0], *columns.values())
    )
    faults.point("checkpoint.after_row")
    return int(row[0])


def checkpoints(tx: sqlite3.Connection, namespace: int, *, limit: int | None = None) -> list[Checkpoint]:
    """Newest first."""
    rows = tx.execute(
        f"SELECT {_CHECKPOINT_COLUMNS} FROM checkpoint WHERE namespace_id = ? ORDER BY number DESC LIMIT ?",
        (namespace, -1 if limit is None else limit),
    ).fetchall()
    return [
        Checkpoint(
            id=row[0],
            label=row[1],
            reason=row[2],
            sequence=row[3],
            at=from_micros(row[4]),
            agent=row[5],
            active_task_id=row[6],
            active_node_id=row[7],
            decision_path=tuple(json.loads(row[8])),
            nodes=row[9],
            digest=row[10],
        )
        for row in rows
    ]


def last_checkpoint(tx: sqlite3.Connection, namespace: int) -> tuple[int, int]:
    """(sequence, time) of the newest checkpoint; (0, 0) if there is none."""
    row = tx.execute(
        "SELECT sequence, at FROM checkpoint WHERE namespace_id = ? ORDER BY number DESC LIMIT 1", (namespace,)
    ).fetchone()
    return (row[0], row[1]) if row else (0, 0)


# Sessions


def open_session(tx: sqlite3.Connection, namespace: int, agent: str, process: str, at: int) -> int:
    cursor = tx.execute(
        "INSERT INTO session (namespace_id, agent, process, opened_at) VALUES (?, ?, ?, ?)",
        (namespace, agent, process, at),
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def close_session(tx: sqlite3.Connection, session: int, at: int, *, resumed: bool) -> None:
    """Notes that a run ended in order, and whether it had been told that an earlier one had not."""
    tx.execute("UPDATE session SET closed_at = ?, resumed = ? WHERE id = ?", (at, resumed, session))


def unclosed_sessions(tx: sqlite3.Connection, namespace: int, agent: str, *, before: int | None) -> list[str]:
    """The processes of the runs of an agent (those before session ``before``) that did not close and that no later run
    has taken up: one that was told of it, wrote, and closed in order."""
    rows = tx.execute(
        """SELECT process FROM session WHERE namespace_id = ? AND agent = ? AND closed_at IS NULL
        AND (? IS NULL OR id < ?) AND id > (SELECT coalesce(max(id), 0) FROM session
            WHERE namespace_id = ? AND agent = ? AND resumed = 1 AND closed_at IS NOT NULL)""",
        (namespace, agent, before, before, namespace, agent),
    ).fetchall()
    return [row[0] for row in rows]


# Counting


def counts(tx: sqlite3.Connection, namespace: int) -> dict[str, Any]:
    """Numbers for stats(), the root excluded."""

    def grouped(column: str) -> dict[str, int]:
        return dict(
            tx.execute(
                f"""SELECT {column}, count(*) FROM node WHERE namespace_id = ? AND parent_id IS NOT NULL
                GROUP BY {column} ORDER BY 2 DESC, 1""",
                (namespace,),
            ).fetchall()
        )

    def one(sql: str) -> int:
        return int(tx.execute(sql, (namespace,)).fetchone()[0])

    return {
        "by_type": grouped("type"),
        "by_state": grouped("state"),
        "depth": one("SELECT coalesce(max(depth), 0) FROM node WHERE namespace_id = ?"),
        "operations": one("SELECT count(*) FROM operation WHERE namespace_id = ?"),
        "checkpoints": one("SELECT count(*) FROM checkpoint WHERE namespace_id = ?"),
        "open_tasks": one(
            """SELECT count(*) FROM task t JOIN node n ON n.id = t.node_id
            WHERE n.namespace_id = ? AND n.state = 'live' AND t.status IN ('open', 'paused')"""
        ),
    }


def node_count(tx: sqlite3.Connection, namespace: int) -> int:
    """Nodes of the namespace, its root not counted; kept with every insert, so it costs the same at any size."""
    return int(tx.execute("SELECT nodes FROM namespace WHERE id = ?", (namespace,)).fetchone()[0])

"""Files in and out: our own JSON Lines (loses nothing), the plain tree JSON of simple implementations, chat messages.

JSON Lines: a header, then one line per node, parents first, then one line per agent with its active pointers.
Tree JSON: ``{"root_id", "active_node_id", "nodes": {id: {id, parent_id, content, node_type, timestamp, weight, …}}}``;
what that format has no name for travels in the extra key ``hybridmem`` of each node.
Chat: a list of ``{"role", "content"}`` or an object with such a list under ``messages``; or one such object per line.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from hybridmem import faults, inputs, sealed_file
from hybridmem.errors import EncryptionError, InvalidInput, NotFound
from hybridmem.ports import KeyProvider
from hybridmem.records import (
    Record,
    from_chat,
    from_lines,
    from_tree,
    name_messages,
    order_parents_first,
    to_record,
    to_tree_node,
)
from hybridmem.replacing import replace_file
from hybridmem.store import data_keys, points, states, tombstones, tree
from hybridmem.store.directory import refuse_own
from hybridmem.store.paths import path_ids
from hybridmem.store.rows import Key, to_micros
from hybridmem.store.workspace import Workspace
from hybridmem.types import ROOT_TYPE, TASK_TYPE, ImportReport
from hybridmem.write import Draft, Parent, Writer, refuse_forgotten

EXPORT_FORMATS = ("jsonl", "tree")
IMPORT_FORMATS = ("auto", "jsonl", "tree", "chat")
VERSION = 1
#: Bytes of one file that import_ reads.
MAX_FILE_BYTES = 2_000_000_000


def export(workspace: Workspace, file: Path, format: str, *, plain: bool = False) -> int:
    """Writes one consistent state of the namespace; the file appears whole or not at all. Returns the nodes written.

    :param plain: write what anybody can read, also of an encrypted store.
    :raises InvalidInput: an unknown format, or the file is part of a store. StoreFull: the file cannot be written.
    :raises EncryptionError: the store was given another master key since this handle was opened.
    """
    inputs.one_of("format", format, EXPORT_FORMATS)
    refuse_own(file)
    with workspace.read() as tx:
        keys = None if plain or workspace.connections.keyring is None else workspace.connections.keys
        if keys is not None:
            data_keys.check(tx, keys)
        return replace_file(file, lambda path: _write(tx, workspace, path, format, keys))


def import_(workspace: Workspace, writer: Writer, file: Path, format: str, parent: Parent) -> ImportReport:
    """Reads a file in one transaction. A record whose id is already here with the same content is skipped.

    A whole export into a namespace that is still empty takes over its root, active pointers and all; into one that is
    not, its top-level nodes hang under the root (trees and chats: under ``parent``).

    :raises InvalidInput: the file is not of the format, or a record in it is wrong (named by line or id), or an id is
        already here with another content. NotFound: there is no such file.
    :raises EncryptionError: the file is sealed, and the master key of this handle is not the one.
    """
    inputs.one_of("format", format, IMPORT_FORMATS)
    text = read_text(file)
    if sealed_file.is_sealed(text):
        try:
            text = sealed_file.opened(text, workspace.connections.keys)
        except (InvalidInput, EncryptionError) as error:
            raise type(error)(f"{file}: {error}") from error
    kind = _detect(text, file) if format == "auto" else format
    try:
        records, pointers = {"jsonl": from_lines, "tree": from_tree, "chat": from_chat}[kind](text)
        records = order_parents_first(records)
    except InvalidInput as error:
        raise InvalidInput(f"{file}: {error}") from error
    with workspace.write() as tx:
        return _Importer(tx, workspace, writer, kind, str(file)).store(records, pointers, parent)


class _Importer:
    """One import inside its transaction."""

    def __init__(self, tx: sqlite3.Connection, workspace: Workspace, writer: Writer, kind: str, file: str) -> None:
        self._tx = tx
        self._workspace = workspace
        self._writer = writer
        self._kind = kind
        self._file = file
        self._keys: dict[str, Key] = {}
        self._moments: dict[str, int] = {}

    def store(self, records: list[Record], pointers: dict[str, Any], parent: Parent) -> ImportReport:
        tx, workspace = self._tx, self._workspace
        root = workspace.root(tx)
        empty = points.node_count(tx, workspace.id) == 0
        top = root if self._kind == "jsonl" or (empty and self._kind == "tree") else self._writer.parent_key(tx, parent)
        added = skipped = held = 0
        if self._kind == "chat":
            name_messages(records, top.uid)
        for record in records:
            if record.type == ROOT_TYPE:
                is_new = empty and self._kind != "chat" and not self._is_erased(record)
                self._keys[record.id or ""] = self._take_root(root, record) if is_new else top
                continue
            above = top if record.parent_id is None else self._keys[record.parent_id]
            known = tree.find(tx, workspace.id, record.id) if record.id is not None else None
            if known is None and self._is_erased(record):
                key, held = above, held + 1  # what hangs below it comes one place higher
            elif known is not None:
                is_held = self._is_held_back(known, record)
                key = known
                skipped, held = skipped + (not is_held), held + is_held
            else:
                key = self._insert(record, above)
                added += 1
            if record.id is not None:
                self._keys[record.id] = key
            faults.point("import.after_record")
        tree.touch(tx, self._moments)
        active = self._point(pointers, empty)
        if added or active:
            payload = {"format": self._kind, "added": added, "skipped": skipped, "active": active}
            workspace.record(tx, "import", None, payload)
            workspace.checkpoint(tx, "import")
        return ImportReport(self._kind, added, skipped, self._workspace.root(tx).uid, held)

    def _take_root(self, root: Key, record: Record) -> Key:
        """An empty namespace becomes the imported one: its root gets the exported id, content and metadata."""
        try:
            uid, metadata = inputs.name("id", record.id), inputs.metadata(record.metadata)
            content, _ = inputs.content(record.content)
            revision = tree.adopt_root(self._tx, root, uid=uid, content=content, metadata=metadata)
            history = self._history(record)
            tree.set_history(self._tx, root, **history)
        except InvalidInput as error:
            raise InvalidInput(f"{self._file}: {record.where}: {error}") from error
        self._workspace.record(self._tx, "root", uid, {"was": root.uid, "revision": revision, **history})
        return self._workspace.root(self._tx)

    def _insert(self, record: Record, above: Key) -> Key:
        try:
            if record.state != "forgotten":
                if above.state == "forgotten" and tree.node(self._tx, above).is_purged:  # nothing can be there
                    above = states.nearest_live_above(self._tx, above, ())
                refuse_forgotten("parent_id", above)
            draft = self._draft(record)
            extra: dict[str, Any] = {
                "uses": inputs.count("uses", record.uses),
                "pinned": int(record.pinned),
                "state": record.state,
                "replaced_by": record.replaced_by or "",
            }
            history = self._history(record)
            key = self._writer.insert(self._tx, draft, above, history=history, **extra)
            self._moments[key.path] = history["active_at"]
            if record.type == TASK_TYPE:
                self._set_task(key, record, history)
            return key
        except (InvalidInput, RecursionError) as error:
            raise InvalidInput(f"{self._file}: {record.where}: {error}") from error

    def _history(self, record: Record) -> dict[str, Any]:
        """The past of a node that the file tells of, as tree.set_history() takes it."""

        def micros(field: str, value: Any, otherwise: int) -> int:
            return otherwise if value is None else to_micros(inputs.moment(field, value))

        created = micros("created_at", record.created_at, self._workspace.now())
        return {
            "version": record.version,
            "created_at": created,
            "updated_at": micros("updated_at", record.updated_at, created),
            "active_at": micros("active_at", record.active_at, created),
            "agent": self._workspace.agent if record.agent is None else inputs.name("agent", record.agent),
        }

    def _draft(self, record: Record) -> Draft:
        """What was purged where it was exported comes as it is there: empty, as nothing else may be."""
        is_purged = record.state == "forgotten" and not record.content
        draft = self._writer.draft(
            "purged" if is_purged else json.loads(record.content) if record.structured else record.content,
            type=record.type,
            importance=record.importance,
            confidence=record.confidence,
            metadata=record.metadata,
            occurred_at=record.created_at,
            id=record.id,
        )
        return replace(draft, content="") if is_purged else draft

    def _set_task(self, key: Key, record: Record, history: Mapping[str, Any]) -> None:
        given = record.task or {}
        status = inputs.one_of("status", given.get("status", "open"), ("open", "paused", "done", "failed"))
        step = inputs.optional_text("next_step", given.get("next_step"))
        started, finished = (
            None if given.get(name) is None else to_micros(inputs.moment(name, given[name]))
            for name in ("started_at", "finished_at")
        )
        task: dict[str, Any] = {
            "status": status, "next_step": step,
            "started_at": history["created_at"] if started is None else started, "finished_at": finished,
        }  # fmt: skip
        points.set_task(self._tx, key, **task)
        self._workspace.record(self._tx, "task.import", key.uid, {"version": history["version"], **task})

    def _is_erased(self, record: Record) -> bool:
        workspace = self._workspace
        return record.id is not None and tombstones.has(self._tx, workspace.id, workspace.namespace, record.id)

    def _is_held_back(self, known: Key, record: Record) -> bool:
        """Whether it is purged here. :raises InvalidInput: what is here says something else."""
        here = tree.node(self._tx, known)
        if here.is_purged:
            return True
        if record.state == "forgotten" and not record.content:  # purged where it was exported
            return False
        if here.content != record.content or here.type != record.type:
            raise InvalidInput(
                f"{self._file}: {record.where}: the id {known.uid!r} is already in this namespace with another "
                "content; import into an empty namespace, or change the id in the file"
            )
        return False

    def _point(self, pointers: dict[str, Any], empty: bool) -> dict[str, list[str | None]]:
        """Active pointers come along only into a namespace that was empty: nobody's place is moved under his feet.
        Returns what the log is to say of them."""
        if not empty:
            return {}
        active: dict[str, list[str | None]] = {}
        for agent, (task, node) in pointers.items():
            who = self._workspace.agent if agent == "" else inputs.name("agent", agent)
            task_key, node_key = self._keys.get(task or ""), self._keys.get(node or "")
            if task_key is not None and task_key.type != TASK_TYPE:
                raise InvalidInput(f"{self._file}: the active task of {who!r} is a {task_key.type}, not a task")
            if task_key is None and node_key is not None and agent == "":
                task_key = self._enclosing_task(node_key)
            active |= self._workspace.point(self._tx, task_key, node_key, agent=who)
        return active

    def _enclosing_task(self, key: Key) -> Key | None:
        """The nearest open task at or above a node: what was active where only the active node is known."""
        for node_id in reversed(path_ids(key.path)):
            found = tree.by_id(self._tx, node_id)
            task = points.task(self._tx, found)
            if task is not None and task[0] == "open":
                return found
        return None


def _write(tx: sqlite3.Connection, workspace: Workspace, file: Path, format: str, keys: KeyProvider | None) -> int:
    with file.open("w", encoding="utf-8", newline="\n") as out:
        write = _write_lines if format == "jsonl" else _write_tree
        if keys is None:
            return write(tx, workspace, out)
        sealed = sealed_file.SealedWriter(out, keys)
        count = write(tx, workspace, sealed)
        sealed.end()
        return count


def _write_lines(tx: sqlite3.Connection, workspace: Workspace, out: TextIO | sealed_file.SealedWriter) -> int:
    def line(value: Mapping[str, Any]) -> None:
        out.write(json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n")

    line({"kind": "hybridmem", "version": VERSION, "namespace": list(workspace.namespace)})
    count = 0
    for node in tree.pages(tx, workspace.root(tx)):
        line({"kind": "node", **to_record(node)})
        count += node.type != ROOT_TYPE
    for agent, task, active in points.agents(tx, workspace.id):
        line({"kind": "active", "agent": agent, "task_id": task, "node_id": active})
    return count


def _write_tree(tx: sqlite3.Connection, workspace: Workspace, out: TextIO | sealed_file.SealedWriter) -> int:
    nodes = {node.id: to_tree_node(node) for node in tree.pages(tx, workspace.root(tx))}
    agents = points.agents(tx, workspace.id)
    mine = next((node for agent, _, node in agents if agent == workspace.agent), None)
    document = {
        "root_id": workspace.root(tx).uid,
        "active_node_id": mine,
        "nodes": nodes,
        "hybridmem": {"active": {agent: [task, node] for agent, task, node in agents}},
    }
    out.write(json.dumps(document, ensure_ascii=False, allow_nan=False, indent=1) + "\n")
    return len(nodes) - 1


def read_text(file: Path) -> str:
    """The text of a file of up to MAX_FILE_BYTES, in UTF-8, with or without a mark at its beginning.

    :raises NotFound: there is none. InvalidInput: too large, not UTF-8, or it cannot be read.
    """
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise InvalidInput(f"{file}: is larger than {MAX_FILE_BYTES:,} bytes; split it")
        return file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise NotFound(f"{file}: there is no such file") from None
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{file}: is not UTF-8 text: {error}") from error
    except OSError as error:
        raise InvalidInput(f"{file}: cannot be read: {error}") from error


def _detect(text: str, file: Path) -> str:
    """Which format a file is in, by its first value."""
    if not text.strip():
        raise InvalidInput(f"{file}: is empty")
    head, _, _ = text.lstrip().partition("\n")
    value = None
    for part in (head, text):  # lines of JSON, or one document
        try:
            value = json.loads(part)
            break
        except (ValueError, RecursionError):
            continue
    if isinstance(value, list):
        return "chat"
    if isinstance(value, dict):
        if value.get("kind") == "hybridmem":
            return "jsonl"
        if "nodes" in value:
            return "tree"
        if "messages" in value or "role" in value:
            return "chat"
    raise InvalidInput(
        f"{file}: the format is not recognised; expected hybridmem JSON Lines, a tree with 'root_id' and 'nodes', or "
        "chat messages with 'role' and 'content'; name it with format="
    )

"""The records of import and export files, and how each format is read into them. Pure."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from hybridmem.errors import InvalidInput, shown
from hybridmem.inputs import MAX_COUNT, as_json
from hybridmem.types import ROOT_TYPE, TASK_TYPE, Node, jsonable

#: Agent name of pointers in files that do not say whose they are: the importing agent's.
ANYONE = ""

Pointers = dict[str, tuple[str | None, str | None]]


@dataclass(slots=True)
class Record:
    """One node in a file; None means that the file does not say. ``where`` names it in error messages."""

    where: str
    id: str | None
    parent_id: str | None
    type: str
    content: str
    structured: bool = False
    importance: float | None = None
    confidence: float | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    created_at: Any = None
    updated_at: Any = None
    active_at: Any = None
    agent: str | None = None
    state: str = "live"
    pinned: bool = False
    uses: int = 0
    version: int = 1
    task: dict[str, Any] | None = None
    replaced_by: str | None = None


_EXACT = (
    "structured", "importance", "confidence", "metadata", "created_at", "updated_at", "active_at", "agent", "state",
    "pinned", "uses", "version", "task", "replaced_by",
)  # fmt: skip
_STATES = ("live", "archived", "superseded", "forgotten")


def to_record(node: Node) -> dict[str, Any]:
    """A node as a line of our own format."""
    return {"id": node.id, "parent_id": node.parent_id, "type": node.type, "content": node.content, **_details(node)}


def to_tree_node(node: Node) -> dict[str, Any]:
    """A node in the plain tree format; what that has no name for is under ``hybridmem``."""
    return {
        "id": node.id,
        "parent_id": node.parent_id,
        "content": node.content,
        "node_type": node.type,
        "timestamp": node.created_at.isoformat(),
        "weight": node.importance,
        "hybridmem": _details(node),
    }


def from_lines(text: str) -> tuple[list[Record], Pointers]:
    """Our own JSON Lines."""
    records, pointers = [], {}
    for number, value in _lines(text):
        where = f"line {number}"
        kind = value.get("kind")
        if kind == "hybridmem":
            if value.get("version") != 1:
                raise InvalidInput(
                    f"{where}: version {shown(value.get('version'))} of the format is not known; upgrade hybridmem"
                )
        elif kind == "node":
            given = {key: item for key, item in value.items() if key != "kind"}
            unknown = set(given) - {"id", "parent_id", "type", "content", *_EXACT}
            if unknown:
                raise InvalidInput(f"{where}: unknown key {shown(sorted(unknown)[0])}")
            records.append(_exact(where, given, given.get("type"), given))
        elif kind == "active":
            agent = _text(where, "agent", value.get("agent"))
            pointers[agent] = (_id(where, value.get("task_id")), _id(where, value.get("node_id")))
        else:
            raise InvalidInput(f"{where}: 'kind' must be hybridmem, node or active, not {shown(kind)}")
    return records, pointers


def from_tree(text: str) -> tuple[list[Record], Pointers]:
    """The plain tree: ``nodes`` is an object by id or a list."""
    document = _object(_parse("the file", text), "the file")
    nodes = document.get("nodes")
    values = list(nodes.values()) if isinstance(nodes, dict) else nodes
    if not isinstance(values, list):
        raise InvalidInput("'nodes' must be an object of nodes by id, or a list of nodes")
    root_id = _id("root_id", document.get("root_id"))
    records = [_tree_record(f"node {position}", value, root_id) for position, value in enumerate(values, 1)]
    if root_id is not None and all(record.id != root_id for record in records):
        raise InvalidInput(f"'root_id' is {shown(root_id)}, but there is no such node")
    own = document.get("hybridmem")
    active = own.get("active") if isinstance(own, dict) else None
    if isinstance(active, dict):
        return records, {agent: _pair(value) for agent, value in active.items()}
    return records, {ANYONE: (None, _id("active_node_id", document.get("active_node_id")))}


def from_chat(text: str) -> tuple[list[Record], Pointers]:
    """Chat messages in order: each becomes an event with its role in the metadata, tool calls and all."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = [value for _, value in _lines(text)]
    if isinstance(document, dict):
        document = document.get("messages", [document])
    if not isinstance(document, list):
        raise InvalidInput("a chat must be a list of messages, or an object with such a list under 'messages'")
    return [record for position, value in enumerate(document, 1) for record in _message(position, value)], {}


def name_messages(records: list[Record], parent: str) -> None:
    """Gives chat messages, which have no ids, one that says which they are: the same message, after the same ones,
    under the same parent. Importing a chat again, or the longer one that it has become, adds what is new.
    """
    previous = parent
    for record in records:
        said = json.dumps([previous, record.content, record.metadata, str(record.created_at)], sort_keys=True)
        digest = hashlib.sha256(said.encode("utf-8", "surrogatepass")).digest()
        previous = record.id = base64.b32encode(digest[:10]).decode("ascii").lower()


def order_parents_first(records: list[Record]) -> list[Record]:
    """The same records with every parent before its children, otherwise in the order of the file.

    :raises InvalidInput: two records share an id, a parent is missing, parents form a loop, or there are two roots.
    """
    roots = [record for record in records if record.type == ROOT_TYPE]
    for record in roots[1:]:
        raise InvalidInput(f"{record.where}: a second root; {roots[0].where} is one already")
    if roots and roots[0].parent_id is not None:
        raise InvalidInput(f"{roots[0].where}: a node of type 'root' has no parent")
    by_id: dict[str, Record] = {}
    children: dict[str, list[Record]] = {}
    for record in records:
        if record.id is None:
            continue
        if record.id in by_id:
            raise InvalidInput(f"{record.where}: the id {shown(record.id)} appears twice")
        by_id[record.id] = record
    tops = []
    for record in records:
        if record.parent_id is None:
            tops.append(record)
        elif record.parent_id not in by_id:
            raise InvalidInput(f"{record.where}: the parent {shown(record.parent_id)} is not in the file")
        else:
            children.setdefault(record.parent_id, []).append(record)
    ordered: list[Record] = []
    todo = tops[::-1]
    while todo:
        record = todo.pop()
        ordered.append(record)
        todo += reversed(children.get(record.id or "", [])) if record.id is not None else ()
    if len(ordered) < len(records):
        done = {id(record) for record in ordered}
        stray = next(record for record in records if id(record) not in done)
        raise InvalidInput(f"{stray.where}: its parents form a loop")
    return ordered


def _details(node: Node) -> dict[str, Any]:
    task = None
    if node.task is not None:
        task = {
            "status": node.task.status,
            "next_step": node.task.next_step,
            "started_at": node.task.started_at,
            "finished_at": node.task.finished_at,
        }
    values = {name: getattr(node, name) for name in _EXACT if name != "task"}
    return jsonable({**values, "task": task})  # type: ignore[no-any-return]


def _exact(where: str, given: Mapping[str, Any], type: Any, details: Mapping[str, Any]) -> Record:
    record = Record(
        where, _id(where, given.get("id")), _id(where, given.get("parent_id")), _text(where, "type", type),
        _text(where, "content", given.get("content")),
        **{name: details[name] for name in _EXACT if details.get(name) is not None},
    )  # fmt: skip
    if record.id is None:
        raise InvalidInput(f"{where}: 'id' is missing")
    record.replaced_by = _id(where, record.replaced_by)
    if record.state not in _STATES:
        raise InvalidInput(f"{where}: 'state' must be one of {', '.join(_STATES)}, not {shown(record.state)}")
    for name, least in (("version", 1), ("uses", 0)):
        value = getattr(record, name)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= MAX_COUNT:
            raise InvalidInput(f"{where}: {name!r} must be a whole number from {least}, not {shown(value)}")
    for name in ("structured", "pinned"):
        if not isinstance(getattr(record, name), bool):
            raise InvalidInput(f"{where}: {name!r} must be true or false, not {shown(getattr(record, name))}")
    if (record.type == TASK_TYPE) != isinstance(record.task, dict):
        raise InvalidInput(
            f"{where}: 'task' must be an object on a node of type task, and only there: {shown(record.task)}"
        )
    if record.structured:
        _parse(where, record.content)
    return record


def _tree_record(where: str, value: Any, root_id: Any) -> Record:
    given = _object(value, where)
    type = given.get("node_type", given.get("type", "note"))
    # A root with a type of its own is a memory like any other and hangs under the root of the namespace.
    is_root = root_id is not None and _id(where, given.get("id")) == root_id and given.get("parent_id") is None
    kind = ROOT_TYPE if is_root and given.get("node_type", given.get("type", ROOT_TYPE)) == ROOT_TYPE else type
    own = given.get("hybridmem")
    if isinstance(own, dict):
        return _exact(where, given, kind, own)
    content = given.get("content")
    text, structured = (content, False) if isinstance(content, str) else (as_json("content", content), True)
    known = {"id", "parent_id", "content", "node_type", "type", "timestamp", "weight", "children", "children_ids"}
    extra = {key: item for key, item in given.items() if key not in known}
    metadata = extra.pop("metadata", None)
    return Record(
        where,
        _id(where, given.get("id")),
        _id(where, given.get("parent_id")),
        _text(where, "node_type", kind),
        text if text.strip() or kind != ROOT_TYPE else "root",
        structured=structured,
        importance=_weight(where, given.get("weight")),
        metadata={**(metadata if isinstance(metadata, dict) else {}), **extra},
        created_at=_timestamp(where, given.get("timestamp")),
        task={} if kind == TASK_TYPE else None,
    )


def _message(position: int, value: Any) -> Iterator[Record]:
    where = f"message {position}"
    given = _object(value, where)
    role = _text(where, "role", given.get("role"))
    metadata = {key: item for key, item in given.items() if key not in ("content", "timestamp", "created_at")}
    content = given.get("content")
    if isinstance(content, list):  # parts: text and others, as the larger chat APIs have them
        parts = [str(part.get("text") or "") if isinstance(part, dict) else str(part) for part in content]
        content = "\n".join(part for part in parts if part)
    if content is None or (isinstance(content, str) and not content.strip()):
        if not any(given.get(key) for key in ("tool_calls", "function_call")):
            return  # an empty message says nothing
        content = json.dumps(given.get("tool_calls") or given.get("function_call"), ensure_ascii=False)
    yield Record(
        where, None, None, "event", _text(where, "content", content),
        metadata=metadata | {"role": role},
        created_at=_timestamp(where, given.get("timestamp", given.get("created_at"))),
    )  # fmt: skip


def _lines(text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    # Not splitlines(): U+2028 and its like are text inside JSON strings.
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield number, _object(json.loads(line), f"line {number}")
            except (ValueError, RecursionError) as error:
                if isinstance(error, InvalidInput):
                    raise
                raise InvalidInput(f"line {number}: is not JSON: {error}") from error


def _parse(where: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{where}: is not JSON: {error}") from error


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInput(f"{where}: must be a JSON object, not {type(value).__name__}")
    return value


def _text(where: str, name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"{where}: {name!r} must be text, not {shown(value)}")
    return value


def _id(where: str, value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return _text(where, "id", value)


def _weight(where: str, value: Any) -> float | None:
    """Simple implementations keep one weight, often 0 … 1, sometimes 0 … 10 or more; it becomes the importance."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value or value < 0:
        raise InvalidInput(f"{where}: 'weight' must be a number from 0, not {shown(value)}")
    return float(value) if value < 1 else 1.0  # a whole number may be too large for a float


def _timestamp(where: str, value: Any) -> Any:
    """ISO text as it is; a number is seconds since 1970."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return datetime.fromtimestamp(value, timezone.utc)
        except (ValueError, OverflowError, OSError):
            raise InvalidInput(f"{where}: timestamp {shown(value)} is not a time") from None
    return value


def _pair(value: Any) -> tuple[str | None, str | None]:
    if not isinstance(value, list) or len(value) != 2:
        raise InvalidInput(f"'active' must give [task id, node id] for each agent, not {shown(value)}")
    return _id("active", value[0]), _id("active", value[1])

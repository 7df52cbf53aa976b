"""The values that go in and out of hybridmem: frozen, slotted, without behaviour beyond reading themselves.

Conventions, everywhere: times are timezone-aware UTC datetimes; importance, confidence, recency, frequency, weight,
relevance and score lie in [0, 1]; ``id`` is the public id of a node, a string of 16 lower-case letters and digits
(imported nodes keep the id they came with).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, get_args

Namespace = tuple[str, ...]
State = Literal["live", "archived", "superseded", "forgotten"]
STATES: tuple[State, ...] = get_args(State)
TaskStatus = Literal["open", "paused", "done", "failed"]
Order = Literal["tree", "time", "score"]
Format = Literal["text", "markdown", "messages", "json"]
ScopeName = Literal["auto", "task", "namespace"]

ROOT_TYPE = "root"
TASK_TYPE = "task"
DECISION_TYPE = "decision"
SUMMARY_TYPE = "summary"
#: Exact repeats of these under one parent confirm the existing node instead of making another (DESIGN section 8).
MERGED_TYPES = frozenset({"fact", "preference", "decision"})


@dataclass(frozen=True, slots=True)
class Node:
    """One memory.

    ``content`` is text; a structured value (dict, list, number) is kept as JSON text and read back by ``value``.
    ``uses`` counts confirmations and recalls. ``version`` starts at 1 and rises with every change (optimistic lock).
    ``active_at`` is the last time the node or anything below it was written or confirmed: recency counts from it.
    ``replaced_by`` is the id of the memory that stands for this one now (it superseded it, took it in, sums it up
    or, by feedback, contradicts it); None: nothing does.
    ``created`` is False when a write confirmed a node that was already there.
    ``owner`` is the namespace that shares it with this one; None: it is of this namespace. Of a shared node ``depth``
    counts from the top of what is shared, and ids that are not shared are None.
    """

    id: str
    parent_id: str | None
    type: str
    content: str
    importance: float
    confidence: float
    metadata: dict[str, Any]
    state: State
    pinned: bool
    uses: int
    version: int
    depth: int
    agent: str
    created_at: datetime
    updated_at: datetime
    active_at: datetime
    structured: bool = False
    task: Task | None = None
    replaced_by: str | None = None
    created: bool = field(default=True, compare=False)
    owner: Namespace | None = None

    @property
    def value(self) -> Any:
        """The content as it was given: the parsed value if it was structured, else the text."""
        return json.loads(self.content) if self.structured else self.content

    @property
    def is_purged(self) -> bool:
        """Whether it was forgotten for so long that its content is gone for good (it is '' then)."""
        return self.state == "forgotten" and not self.content

    def to_dict(self) -> dict[str, Any]:
        """Everything but ``created``, ready for JSON: times in ISO 8601 with offset."""
        data = jsonable(asdict(self))
        del data["created"]
        return data  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Task:
    """What a node of type ``task`` has besides: its status and what comes next (None: not said)."""

    status: TaskStatus
    next_step: str | None
    started_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class Claim:
    """That one run of an agent has a task to itself ``until`` then. ``token`` is a fencing token: higher than that of
    every claim before in this store."""

    task_id: str
    agent: str
    token: int
    until: datetime

    def to_dict(self) -> dict[str, Any]:
        return jsonable(asdict(self))  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Operation:
    """One entry of the append-only log. ``sequence`` counts from 1 within a namespace; order is by it, not by time."""

    sequence: int
    kind: str
    node_id: str | None
    agent: str
    at: datetime
    payload: dict[str, Any]
    hash: str

    def to_dict(self) -> dict[str, Any]:
        return jsonable(asdict(self))  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One entry of the audit trail: which call (``verb``: the name of the method, ``open``, ``close``) of which agent
    about which node, and how it ended: ``outcome`` is ``ok`` or the name of the error.

    ``sequence`` counts from 1 within a namespace, in the order in which entries were written; ``at`` is when the call
    was. ``detail`` has numbers, flags and known words of what was asked for, for a call that wrote
    ``"operations": [first, last]`` of the log, and never what a memory says. ``hash`` is over the entry before and
    every field.
    """

    sequence: int
    at: datetime
    agent: str
    verb: str
    node_id: str | None
    outcome: str
    detail: dict[str, Any]
    hash: str

    def explain(self) -> str:
        """One line that says who did what."""
        about = f" {self.node_id}" if self.node_id else ""
        said = ", ".join(f"{name} {value}" for name, value in self.detail.items())
        when = self.at.isoformat(timespec="seconds")
        return f"{self.sequence}. {when} {self.agent}: {self.verb}{about}: {self.outcome}" + (f" ({said})" * bool(said))

    def to_dict(self) -> dict[str, Any]:
        return jsonable(asdict(self))  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class AuditPruned:
    """What prune_audit did, or with ``dry_run`` would do: how many entries it ``removed``, up to the number ``to``
    (None: none), and how many it ``kept``."""

    removed: int
    kept: int
    to: int | None
    dry_run: bool

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class StateChange:
    """What forget, restore_forgotten, archive or unarchive (``operation``) did, or with ``dry_run`` would do.

    ``id`` is the node that was named, ``ids`` are all whose state changed, in the order in which they were added;
    ``sequence`` is the entry of the log, None if there is none: nothing changed, and ``note`` says why, or a dry run.
    """

    operation: str
    id: str
    ids: tuple[str, ...]
    subtree: bool
    dry_run: bool
    sequence: int | None
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {**jsonable(asdict(self)), "count": len(self.ids)}


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A point in the log. ``decision_path`` holds the ids of the decisions under the active task, oldest first.

    ``digest`` is the hash of the operation log up to ``sequence``, which determines every node as it was then;
    ``nodes`` counts them (root excluded). ``backup`` is the backup file made with it, as long as that is there.
    """

    id: int
    label: str | None
    reason: str
    sequence: int
    at: datetime
    agent: str
    active_task_id: str | None
    active_node_id: str | None
    decision_path: tuple[str, ...]
    nodes: int
    digest: str
    backup: Path | None = None

    def to_dict(self) -> dict[str, Any]:
        return jsonable(asdict(self))  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup file: all of a store, as it was at one moment.

    ``number`` counts the files in ``checkpoints/`` of the store, 1, 2, 3 …; None for a file elsewhere. ``at`` is when
    it was made, ``bytes`` its size. ``nodes`` (the root excluded) and ``sequence`` (the last operation) are those of
    the namespace that asks; both 0 if that was not there. ``label`` is None also if it was given in another namespace.
    ``verified``: the call that returned this has read all of the file and found it whole. ``problem`` says what is
    wrong with a damaged file, None: nothing that was seen.
    """

    path: Path
    number: int | None
    label: str | None
    at: datetime
    bytes: int
    nodes: int
    sequence: int
    verified: bool
    problem: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return jsonable(asdict(self))  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class RestoredBackup:
    """What restore_backup has done: which file became the store in ``directory``, and how much it holds: nodes of all
    namespaces (roots excluded), and of how many. ``made_at``: when the backup was made; None for a file that does not
    say. ``aside`` is where the store lies that was there before; None: there was none."""

    path: Path
    directory: Path
    made_at: datetime | None
    nodes: int
    namespaces: int
    aside: Path | None

    def to_dict(self) -> dict[str, Any]:
        return jsonable(asdict(self))  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """Everything an agent needs to go on. ``path`` is root → active task → active node, the root included.

    ``interrupted`` is True when a run of this agent ended without closing, until a later one has been told so by
    resume(), has written, and has closed in order; a single command in between does not clear it. ``last_operation`` is
    what the agent did last, and ``active_task.task.next_step`` what it was about to do. ``claim`` says who has
    claimed the active task, if somebody has.
    """

    active_task: Node | None
    active_node: Node | None
    path: tuple[Node, ...]
    next_step: str | None
    decisions: tuple[Node, ...]
    open_subtasks: tuple[Node, ...]
    checkpoint: Checkpoint | None
    operations_since: tuple[Operation, ...]
    interrupted: bool
    last_operation: Operation | None
    claim: Claim | None = None

    def to_dict(self) -> dict[str, Any]:
        def node(value: Node | None) -> dict[str, Any] | None:
            return value.to_dict() if value else None

        return {
            "active_task": node(self.active_task),
            "active_node": node(self.active_node),
            "path": [n.to_dict() for n in self.path],
            "next_step": self.next_step,
            "decisions": [n.to_dict() for n in self.decisions],
            "open_subtasks": [n.to_dict() for n in self.open_subtasks],
            "checkpoint": self.checkpoint.to_dict() if self.checkpoint else None,
            "operations_since": [op.to_dict() for op in self.operations_since],
            "interrupted": self.interrupted,
            "last_operation": self.last_operation.to_dict() if self.last_operation else None,
            "claim": self.claim.to_dict() if self.claim else None,
        }


@dataclass(frozen=True, slots=True)
class Stats:
    """Numbers about one namespace and the health of the store around it.

    ``nodes`` and ``by_type`` count everything that is kept, whatever its state, and ``by_state`` how many are in which:
    so many are searched as are ``live`` there. ``open_tasks`` counts live ones. ``vectors``
    counts embedded nodes; ``pending`` those still waiting for the embedder or the index, and ``stuck`` the
    reasons of those that failed, as (id, reason). ``index`` is one word: ready, not-opened, elsewhere (another
    process has it), building (a collection on the server is filled anew) or unavailable (``index_reason`` says why). It
    tells how the last use of this handle's process went; nobody is asked for it. ``index_url`` is the server; None:
    there is none. ``forgetting_failures`` counts how often this handle could not forget by its schedule, and
    ``forgetting_problem`` says why, the last time.
    """

    namespace: Namespace
    nodes: int
    by_type: dict[str, int]
    by_state: dict[str, int]
    open_tasks: int
    depth: int
    operations: int
    checkpoints: int
    vectors: int
    pending: int
    stuck: tuple[tuple[str, str], ...]
    embedding_model: str | None
    index: str
    index_reason: str | None
    index_url: str | None
    size_bytes: int
    forgetting_failures: int = 0
    forgetting_problem: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return jsonable(asdict(self))  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What ``import_`` did. ``skipped`` counts records that were already there, id and content alike; ``held_back``
    those of memories that are purged or erased here: they stay so."""

    format: str
    added: int
    skipped: int
    root_id: str
    held_back: int = 0

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ReembedReport:
    """What ``reembed`` did: the model ``before`` and the ``model`` of the store now. ``embedded`` counts the memories
    that this run embedded, ``resumed`` those that an earlier one had; ``failed`` those that the model could not embed,
    which wait with the reason (see :class:`Stats`); ``waiting`` what still has to reach the vector index.
    """

    before: str
    model: str
    embedded: int
    resumed: int
    failed: int
    waiting: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def jsonable(value: Any) -> Any:
    """Datetimes to ISO 8601 with offset, tuples to lists, paths to text, all the way down."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, dict):
        return {key: jsonable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(item) for item in value]
    return value

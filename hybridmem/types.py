"""The values that go in and out of hybridmem: frozen, slotted, without behaviour beyond reading themselves.

Conventions, everywhere: times are timezone-aware UTC datetimes; importance, confidence, recency, frequency, weight,
relevance and score lie in [0, 1]; ``id`` is the public id of a node, a string of 16 lower-case letters and digits
(imported nodes keep the id they came with).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from datetime import datetime
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
#: Exact repeats of these under one parent confirm the existing node instead of making another (DESIGN section 8).
MERGED_TYPES = frozenset({"fact", "preference", "decision"})


@dataclass(frozen=True, slots=True)
class Node:
    """One memory.

    ``content`` is text; a structured value (dict, list, number) is kept as JSON text and read back by ``value``.
    ``uses`` counts confirmations and recalls. ``version`` starts at 1 and rises with every change (optimistic lock).
    ``active_at`` is the last time the node or anything below it was written or confirmed: recency counts from it.
    ``created`` is False when a write confirmed a node that was already there.
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
    created: bool = field(default=True, compare=False)

    @property
    def value(self) -> Any:
        """The content as it was given: the parsed value if it was structured, else the text."""
        return json.loads(self.content) if self.structured else self.content

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
class ScoreDetails:
    """All parts of a score, so that it can be recomputed by hand with the coefficients of the configuration.

    ``relevance`` blends ``vector`` (calibrated cosine; None when there was no query vector or the node has none yet),
    ``lexical`` (BM25, as a share of the best possible match), ``tree`` (the enclosing subtrees' relevance),
    ``neighbour`` (that of the siblings next to it), ``speaker`` (1 if the query is about who said it), ``date`` (how
    near it is to a time that the query names) and ``recent`` (its recency while a task is active, else 0).
    ``weight`` combines importance, recency, confidence, frequency.
    ``cosine`` is the raw cosine similarity in [-1, 1].
    ``redundancy`` is the similarity in [0, 1] to the most similar hit before this one, which decides the order together
    with the score; None without ``retrieval.diversity``.
    ``reranked`` is what a reranker said, and stands in the place of ``relevance`` in the score then; None without one.
    """

    relevance: float
    weight: float
    vector: float | None
    lexical: float
    tree: float
    neighbour: float
    speaker: float
    date: float
    importance: float
    recency: float
    confidence: float
    frequency: float
    cosine: float | None
    recent: float = 0.0
    redundancy: float | None = None
    reranked: float | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """One result of a search. ``path`` holds the contents' titles from the root's child down to the parent."""

    node: Node
    score: float
    score_details: ScoreDetails
    path: tuple[str, ...]
    matched_terms: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return self.node.id

    @property
    def content(self) -> str:
        return self.node.content

    def explain(self) -> str:
        """One line that says where the score comes from."""
        d = self.score_details
        vector = "pending" if d.vector is None else f"{d.vector:.2f}"
        where = f" (in {self.path[-1]})" if self.path and d.tree > 0 else ""
        said = (f", speaker {d.speaker:.0f}" if d.speaker else "") + (f", date {d.date:.2f}" if d.date else "")
        said += f", recent {d.recent:.2f}" if d.recent else ""
        again = "" if d.redundancy is None else f"; redundancy {d.redundancy:.2f} to the hits before it"
        judged = "" if d.reranked is None else f"reranked {d.reranked:.3f} in place of "
        words = f" (words: {', '.join(self.matched_terms)})" if self.matched_terms else ""
        return (
            f"score {self.score:.3f} = {judged}relevance {d.relevance:.3f} "
            f"[vector {vector}, lexical {d.lexical:.2f}{words}, "
            f"tree {d.tree:.2f}{where}, neighbour {d.neighbour:.2f}{said}] with weight {d.weight:.3f} "
            f"[importance {d.importance:.2f}, recency {d.recency:.2f}, confidence {d.confidence:.2f}, "
            f"frequency {d.frequency:.2f}]{again}"
        )

    def to_dict(self) -> dict[str, Any]:
        details = jsonable(asdict(self.score_details))
        return {
            "id": self.id,
            "score": self.score,
            "score_details": details,
            "path": list(self.path),
            "matched_terms": list(self.matched_terms),
            "node": self.node.to_dict(),
        }


@dataclass(frozen=True, slots=True)
class Located:
    """A subtree that a search located: its top node, the score in [0, 1], and how many nodes it has."""

    id: str
    title: str
    score: float
    nodes: int


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Ranked hits, best first; iterates and indexes like a list. ``warnings`` say what was degraded and why.

    ``located`` is filled by ``trace=True``: the subtrees that the search located, best first.
    """

    hits: tuple[Hit, ...]
    warnings: tuple[str, ...] = ()
    located: tuple[Located, ...] = ()

    def __iter__(self) -> Any:
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)

    def __getitem__(self, index: int) -> Hit:
        return self.hits[index]

    def to_dict(self) -> dict[str, Any]:
        data: dict[str, Any] = {"hits": [hit.to_dict() for hit in self.hits], "warnings": list(self.warnings)}
        if self.located:
            data["located"] = [asdict(one) for one in self.located]
        return data


@dataclass(frozen=True, slots=True)
class Context:
    """What goes into a prompt. ``hits`` are those shown, best first.

    ``text`` is a string in every ``format``; for "messages" it is the JSON of the list that ``messages`` gives.
    ``tokens`` counts all that is handed over: the text, for "messages" their contents. ``ancestors`` is the chain
    root → active task as shown; ``dropped`` lists (id, reason) of hits that are not shown, ``shortened`` of shown ones
    that are not whole. ``counter`` names what counted the tokens.
    """

    text: str
    tokens: int
    token_budget: int
    hits: tuple[Hit, ...]
    ancestors: tuple[Node, ...]
    dropped: tuple[tuple[str, str], ...]
    counter: str
    warnings: tuple[str, ...] = ()
    format: Format = "text"
    shortened: tuple[tuple[str, str], ...] = ()

    @property
    def messages(self) -> list[dict[str, str]]:
        """For the format "messages" the chat messages, each with role and content; none for any other format."""
        return json.loads(self.text) if self.format == "messages" else []

    def to_dict(self) -> dict[str, Any]:
        return {
            "format": self.format,
            "text": self.text,
            "tokens": self.tokens,
            "token_budget": self.token_budget,
            "hits": [hit.to_dict() for hit in self.hits],
            "ancestors": [node.to_dict() for node in self.ancestors],
            "dropped": [{"id": id_, "reason": reason} for id_, reason in self.dropped],
            "shortened": [{"id": id_, "reason": reason} for id_, reason in self.shortened],
            "counter": self.counter,
            "warnings": list(self.warnings),
        }


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
class Checkpoint:
    """A point in the log. ``decision_path`` holds the ids of the decisions under the active task, oldest first.

    ``digest`` is the hash of the operation log up to ``sequence``, which determines every node as it was then;
    ``nodes`` counts them (root excluded).
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

    def to_dict(self) -> dict[str, Any]:
        return jsonable(asdict(self))  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """Everything an agent needs to go on. ``path`` is root → active task → active node, the root included.

    ``interrupted`` is True when a run of this agent ended without closing, until a later one has been told so by
    resume(), has written, and has closed in order; a single command in between does not clear it. ``last_operation`` is
    what the agent did last, and ``active_task.task.next_step`` what it was about to do.
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
        }


@dataclass(frozen=True, slots=True)
class Stats:
    """Numbers about one namespace and the health of the store around it.

    ``vectors`` counts embedded nodes; ``pending`` those still waiting for the embedder or the index, and ``stuck`` the
    reasons of those that failed, as (id, reason). ``index`` is one word: ready, not-opened, elsewhere (another process
    has it), building (a collection on the server is filled anew) or unavailable (``index_reason`` says why). It tells
    how the last use of this handle's process went; nobody is asked for it. ``index_url`` is the server; None: none.
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

    def to_dict(self) -> dict[str, Any]:
        return jsonable(asdict(self))  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What ``import_`` did. ``skipped`` counts records that were already there, id and content alike."""

    format: str
    added: int
    skipped: int
    root_id: str

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
    """Datetimes to ISO 8601 with offset, tuples to lists, all the way down."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, dict):
        return {key: jsonable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(item) for item in value]
    return value

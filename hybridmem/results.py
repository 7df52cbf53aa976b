"""What retrieval returns: hits with every part of their scores, search results, contexts.

The conventions are those of :mod:`hybridmem.types`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any

from hybridmem.types import Format, Node, jsonable


@dataclass(frozen=True, slots=True)
class ScoreDetails:
    """All parts of a score, so that it can be recomputed by hand with the coefficients of the configuration.

    ``relevance`` blends ``vector`` (calibrated cosine; None when there was no query vector or the node has none yet),
    ``lexical`` (BM25, as a share of the best possible match), ``tree`` (the enclosing subtrees' relevance),
    ``neighbour`` (that of the siblings next to it), ``speaker`` (1 if the query is about who said it), ``date`` (how
    near it is to a time that the query names) and ``recent`` (its recency while a task is active, else 0).
    ``weight`` combines importance, recency, confidence, frequency; ``share`` is its share in the score, which is
    ``retrieval.omega`` unless that is above 0.1; 1 where nothing was asked.
    ``cosine`` is the raw cosine similarity in [-1, 1].
    ``redundancy`` is the similarity in [0, 1] to the most similar hit before this one, which decides the order together
    with the score; None without ``retrieval.diversity``.
    ``reranked`` is what a reranker said, and stands in the place of ``relevance`` in the score then; None without one.
    ``corrects`` is the id of the earlier hit that this one takes back, to whose score it was raised; None: none.
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
    share: float = 1.0
    redundancy: float | None = None
    reranked: float | None = None
    corrects: str | None = None


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
        raised = "" if d.corrects is None else f"; corrects {d.corrects}, with whose score it stands before it"
        words = f" (words: {', '.join(self.matched_terms)})" if self.matched_terms else ""
        return (
            f"score {self.score:.3f} = {judged}relevance {d.relevance:.3f} "
            f"[vector {vector}, lexical {d.lexical:.2f}{words}, "
            f"tree {d.tree:.2f}{where}, neighbour {d.neighbour:.2f}{said}] with weight {d.weight:.3f} "
            f"[importance {d.importance:.2f}, recency {d.recency:.2f}, confidence {d.confidence:.2f}, "
            f"frequency {d.frequency:.2f}] by its share {d.share:.3f}{again}{raised}"
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
class Kept:
    """What observe stored, or would store, of the message at ``position`` (counted from 0)."""

    position: int
    type: str
    content: str


@dataclass(frozen=True, slots=True)
class Dropped:
    """What observe did not store of the message at ``position`` (counted from 0), why, and how it begins."""

    position: int
    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class Observed:
    """What observe did with ``messages`` messages, one of which may hold several things or none.

    ``nodes`` are the memories, one for each of ``kept`` and in its order (one with ``created`` False was there already
    and is confirmed); none after a dry run. ``warnings``: what an extractor did wrong.
    """

    messages: int
    kept: tuple[Kept, ...]
    nodes: tuple[Node, ...]
    dropped: tuple[Dropped, ...]
    dry_run: bool
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        data: dict[str, Any] = jsonable(asdict(replace(self, nodes=())))
        return {**data, "nodes": [node.to_dict() for node in self.nodes]}


@dataclass(frozen=True, slots=True)
class DuplicateGroup:
    """Memories that say the same as ``keep``, the oldest of them; ``likeness`` in [0, 1] is the least to that."""

    keep: Node
    others: tuple[Node, ...]
    likeness: float


@dataclass(frozen=True, slots=True)
class Lookalikes:
    """Two memories that read alike and are two: ``differs`` says in what, such as ``"number: 4711 / 4712"``."""

    first: Node
    second: Node
    likeness: float
    differs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NearDuplicates:
    """What near_duplicates found: the largest ``groups`` and the most alike ``different`` pairs, up to the limit, of
    ``groups_found`` and ``different_found``. ``compared`` memories were looked at; ``without_vector`` of them have no
    vector yet, and are found only if their words are the same: flush() first, to find all."""

    groups: tuple[DuplicateGroup, ...]
    different: tuple[Lookalikes, ...]
    groups_found: int
    different_found: int
    compared: int
    without_vector: int
    threshold: float

    def to_dict(self) -> dict[str, Any]:
        data: dict[str, Any] = jsonable(asdict(replace(self, groups=(), different=())))
        data["groups"] = [
            {"keep": g.keep.to_dict(), "others": [node.to_dict() for node in g.others], "likeness": g.likeness}
            for g in self.groups
        ]
        data["different"] = [
            {"ids": [d.first.id, d.second.id], "likeness": d.likeness, "differs": list(d.differs)}
            for d in self.different
        ]
        return data


@dataclass(frozen=True, slots=True)
class Merged:
    """What merge_duplicates or unmerge (``operation``) did: the memory that was kept, as it is now, and the ids of the
    others; ``sequence`` is the entry of the log."""

    operation: str
    keep: Node
    ids: tuple[str, ...]
    sequence: int

    def to_dict(self) -> dict[str, Any]:
        return {
            "operation": self.operation,
            "keep": self.keep.to_dict(),
            "ids": list(self.ids),
            "sequence": self.sequence,
        }

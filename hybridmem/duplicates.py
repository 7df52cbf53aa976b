"""Where memories that say the same are found, and merged when somebody says so; never by themselves.

Compared are live memories of one type under one task. Two that read alike but differ in a number, a date, a code, a
name, a negation or an opposite, or were said by different speakers, or are events of different hours, are never
grouped: they are listed with the difference, for whoever wants to look.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from hybridmem import faults, inputs
from hybridmem.alike import grouped
from hybridmem.dates import moments
from hybridmem.embed.model import Model, turned
from hybridmem.errors import InvalidInput, shown
from hybridmem.ports import Vectors
from hybridmem.results import DuplicateGroup, Lookalikes, Merged, NearDuplicates
from hybridmem.scoring import SMALLEST
from hybridmem.speakers import speaker
from hybridmem.specifics import Comparer
from hybridmem.store import lexical, log, outbox, points, states, tree
from hybridmem.store.paths import path_ids
from hybridmem.store.rows import Key
from hybridmem.store.workspace import Workspace
from hybridmem.types import ROOT_TYPE, TASK_TYPE, Node, Operation
from hybridmem.write import Writer

#: How alike two memories are at least, in [0, 1], see hybridmem.alike.
THRESHOLD = 0.8
#: Memories of one type under one task that one call compares: the work grows with the square of it.
MAX_COMPARED = 20_000
#: Seconds between two events from which on they are two, however alike.
EVENT_SECONDS = 3600.0
#: Nodes that are read at a time.
PAGE = 5000


class Duplicates:
    """near_duplicates, merge_duplicates and unmerge of one workspace; see :class:`hybridmem.Memory`."""

    def __init__(self, workspace: Workspace, writer: Writer, model: Model) -> None:
        self._workspace = workspace
        self._writer = writer
        self._model = model

    def near(self, within: str | None, threshold: float, limit: int) -> NearDuplicates:
        least, most = inputs.unit("threshold", threshold), inputs.count("limit", limit)
        recorded = self._model.recorded()
        groups: list[DuplicateGroup] = []
        different: list[Lookalikes] = []
        compared = waiting = 0
        with self._workspace.read() as tx:
            mean = None if recorded is None else turned(tx, self._workspace.id, recorded).calibration.mean
            for ids in self._comparable(tx, self._workspace.start(tx, within, "within")):
                vectors, known = _vectors(tx, self._workspace.id, ids, mean)
                compared, waiting = compared + len(ids), waiting + len(ids) - known
                found = self._grouped(tx, ids, vectors, least)
                groups += found[0]
                different += found[1]
        groups.sort(key=lambda group: (-len(group.others), -group.likeness, group.keep.id))
        different.sort(key=lambda pair: (-pair.likeness, pair.first.id, pair.second.id))
        return NearDuplicates(
            tuple(groups[:most]), tuple(different[:most]), len(groups), len(different), compared, waiting, least
        )

    def merge(self, keep: str, others: Sequence[str]) -> Merged:
        if isinstance(others, str) or not isinstance(others, Sequence) or not others:
            raise InvalidInput(f"others: must be a list of ids with at least one, not {shown(others)}")
        workspace = self._workspace
        with workspace.write() as tx:
            target = self._writer.key(tx, keep)
            keys = [self._writer.key(tx, one) for one in others]
            self._refuse(tx, target, keys)
            kept, gone = tree.node(tx, target), [tree.node(tx, key) for key in keys]
            after = {
                "confidence": 1.0 - (1.0 - kept.confidence) * 0.5 ** len(gone),
                "uses": min(kept.uses + sum(1 + node.uses for node in gone), inputs.MAX_COUNT),
            }
            retired = {"state": "superseded", "replaced_by": target.uid}
            sequence = self._change(
                tx, "merge", target, [(key, retired) for key in keys], after,
                {
                    "before": {"confidence": kept.confidence, "uses": kept.uses},
                    **log.marks({node.id: node.replaced_by for node in gone}),
                },
            )  # fmt: skip
            return Merged("merge", tree.node(tx, target), tuple(key.uid for key in keys), sequence)

    def unmerge(self, id: str) -> Merged:
        workspace = self._workspace
        with workspace.write() as tx:
            target = self._writer.key(tx, id)
            merge, keys = self._last_merge(tx, target)
            if merge is None:
                raise InvalidInput(f"id: no memory is merged into {target.uid!r} now, so that there is nothing to undo")
            for key in keys:
                if (above := states.highest_forgotten_above(tx, key)) is not None:
                    raise InvalidInput(
                        f"id: {key.uid!r} hangs below {above!r}, which is forgotten; bring that back first"
                    )
            marks = merge.payload.get("marks", {})
            back = [(key, {"state": "live", "replaced_by": marks.get(key.uid, "")}) for key in keys]
            kept = tree.node(tx, target)
            values = {"confidence": kept.confidence, "uses": kept.uses}
            if not _is_undone(tx, workspace.id, merge, target.uid):
                values = _without(kept, merge, target.uid)
            extra = {"undoes": merge.sequence}
            sequence = self._change(tx, "unmerge", target, back, values, extra)
            return Merged("unmerge", tree.node(tx, target), tuple(key.uid for key in keys), sequence)

    def _last_merge(self, tx: sqlite3.Connection, target: Key) -> tuple[Operation | None, list[Key]]:
        """The last merge into a node of which anything is merged still, and what that is: it may have been undone when
        some of it was forgotten, or a restore may have undone it or that. None: there is none."""
        namespace = self._workspace.id
        entries = [one for one in log.about(tx, namespace, target.uid) if one.node_id == target.uid]
        for merge in reversed([one for one in entries if one.kind == "merge"]):
            uids = [uid for uid, _ in merge.payload["nodes"] if uid != target.uid]
            keys = [key for uid in uids if (key := tree.find(tx, namespace, uid))]
            if keys := [key for key in keys if self._is_merged(tx, key, target, merge)]:
                return merge, keys
        return None, []

    def _is_merged(self, tx: sqlite3.Connection, key: Key, target: Key, merge: Operation) -> bool:
        """Still, and not superseded by the same one since."""
        if key.state != "superseded" or tree.node(tx, key).replaced_by != target.uid:
            return False
        since = (one for one in log.about(tx, self._workspace.id, key.uid) if one.sequence > merge.sequence)
        return not any((one.kind, one.node_id) == ("supersede", key.uid) for one in since)

    def _change(
        self,
        tx: sqlite3.Connection,
        kind: str,
        target: Key,
        others: Sequence[tuple[Key, dict[str, Any]]],
        values: dict[str, Any],
        extra: dict[str, Any],
    ) -> int:
        """Sets all of it as one operation."""
        workspace = self._workspace
        nodes: list[list[Any]] = []
        for key, columns in (*others, (target, values)):
            tree.change(tx, key, workspace.now(), **columns)
            nodes.append([key.uid, {"version": key.version + 1, **columns}])
        faults.point("merge.after_rows")
        outbox.queue_all(tx, workspace.id, [key.id for key, _ in others])
        payload: dict[str, Any] = {"nodes": nodes, **extra}
        active: dict[str, list[str | None]] = {}
        uids = {key.uid for key, _ in others}
        for agent, task_uid, node_uid in points.agents(tx, workspace.id):
            if kind == "merge" and node_uid in uids:
                task = None if task_uid is None else tree.find(tx, workspace.id, task_uid)
                active |= workspace.point(tx, task, target, agent=agent)
        sequence = workspace.record(tx, kind, target.uid, payload | ({"active": active} if active else {}))
        workspace.checkpoint_if_due(tx)
        return sequence

    def _refuse(self, tx: sqlite3.Connection, target: Key, keys: Sequence[Key]) -> None:
        if len({key.id for key in keys} | {target.id}) != len(keys) + 1:
            raise InvalidInput("others: names a memory twice, or the one that is to be kept")
        for key in (target, *keys):
            if key.type in (TASK_TYPE, ROOT_TYPE):
                raise InvalidInput(f"id: {key.uid!r} is of type {key.type}, which is never merged")
            if key.type != target.type:
                raise InvalidInput(f"others: {key.uid!r} is a {key.type}, but {target.uid!r} a {target.type}")
            if key.state != "live":
                raise InvalidInput(f"id: {key.uid!r} is {key.state}; only live memories are merged")
        for key in keys:
            if tree.node(tx, key).pinned:
                raise InvalidInput(
                    f"others: {key.uid!r} is pinned; call pin({key.uid!r}, False) first, or keep that one"
                )
            if below := states.count_below(tx, key, ("live",)):
                raise InvalidInput(f"others: {key.uid!r} has {below} live memories below it; move them first")

    def _comparable(self, tx: sqlite3.Connection, key: Key) -> list[list[int]]:
        """The internal ids of live memories of one type under one task, in the order they were added."""
        rows = tree.scan(tx, self._workspace.id, [key.path])
        tasks = {row[0] for row in rows if row[3] == TASK_TYPE}
        found: dict[tuple[int, str], list[int]] = defaultdict(list)
        for row in rows:
            node_id, type, path = row[0], row[3], row[9]
            if type not in (TASK_TYPE, ROOT_TYPE):
                task = next((one for one in reversed(path_ids(path)[:-1]) if one in tasks), 0)
                found[task, type].append(node_id)
        for ids in found.values():
            if len(ids) > MAX_COMPARED:
                raise InvalidInput(
                    f"within: {len(ids):,} memories of one type hang under one task, {MAX_COMPARED:,} can be compared; "
                    "name a smaller subtree"
                )
        return [sorted(ids) for ids in found.values() if len(ids) > 1]

    def _grouped(
        self, tx: sqlite3.Connection, ids: list[int], vectors: Vectors, threshold: float
    ) -> tuple[list[DuplicateGroup], list[Lookalikes]]:
        terms: dict[int, frozenset[str]] = {}
        nodes: dict[int, Node] = {}
        for start in range(0, len(ids), PAGE):
            page = ids[start : start + PAGE]
            terms |= {one: frozenset(own) for one, own in lexical.terms_of(tx, self._workspace.id, page)}
            nodes |= tree.nodes(tx, page)
        words = [terms.get(one, frozenset()) for one in ids]
        compare = _Comparison([nodes[one] for one in ids])
        found = grouped(vectors, words, threshold, compare.differences)
        groups = [
            DuplicateGroup(nodes[ids[first]], tuple(nodes[ids[one]] for one in others), how)
            for first, others, how in found.groups
        ]
        return groups, [Lookalikes(nodes[ids[a]], nodes[ids[b]], how, what) for a, b, how, what in found.different]


class _Comparison:
    """In what nodes differ that makes them two memories."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._dates: dict[int, frozenset[Any]] = {}
        self._contents = Comparer()

    def differences(self, one: int, other: int) -> tuple[str, ...]:
        a, b = self._nodes[one], self._nodes[other]
        found = [] if a.content == b.content else list(self._contents.differences(a.content, b.content))
        # "Yesterday" is another day in each of two memories of different days.
        if self._of(one) != self._of(other):
            found.append("date: they name different times")
        said, heard = speaker(a.content, a.metadata), speaker(b.content, b.metadata)
        if said != heard:
            found.append(f"speaker: {said or '-'} / {heard or '-'}")
        apart = abs((a.created_at - b.created_at).total_seconds())
        if a.type == "event" and apart > EVENT_SECONDS:
            found.append(f"time: the events are {apart / 3600:.0f} hours apart")
        if a.structured != b.structured:
            found.append("kind: one is structured, the other text")
        return tuple(found)

    def _of(self, position: int) -> frozenset[Any]:
        if position not in self._dates:
            node = self._nodes[position]
            self._dates[position] = frozenset(moments(node.content, node.created_at))
        return self._dates[position]


def _vectors(tx: sqlite3.Connection, namespace: int, ids: list[int], mean: Vectors | None) -> tuple[Vectors, int]:
    """(n, d) one vector of length 1 for each node, the mean of its pieces less what all texts share, zeros where there
    is none; and how many have one."""
    owners, matrix = outbox.pieces_of(tx, namespace, np.array(ids, dtype=np.int64))
    width = matrix.shape[1] if len(owners) else 1
    found: Vectors = np.zeros((len(ids), width), dtype=np.float32)
    if mean is None or not len(owners):
        return found, 0
    rows = np.searchsorted(np.array(ids, dtype=np.int64), owners)
    np.add.at(found, rows, matrix - mean)
    norms = np.linalg.norm(found, axis=1, keepdims=True)
    found = np.where(norms > SMALLEST, found / np.maximum(norms, SMALLEST), 0.0).astype(np.float32)
    return found, int(np.count_nonzero(norms > SMALLEST))


def _is_undone(tx: sqlite3.Connection, namespace: int, merge: Operation, uid: str) -> bool:
    """Whether a kept node has lost what a merge gave it: an unmerge took it, and no restore has given it back."""
    unmerges = [one for one in log.about(tx, namespace, uid) if one.kind == "unmerge"]
    undone = [(one.sequence, None) for one in unmerges if one.payload["undoes"] == merge.sequence]
    known = [(0, False)]
    for sequence, back_to in sorted([*undone, *log.restores(tx, namespace)], key=lambda pair: pair[0]):
        then = back_to is None or next(was for at, was in reversed(known) if at <= back_to)
        known.append((sequence, then))
    return known[-1][1]


def _without(node: Node, merge: Operation, keep: str) -> dict[str, Any]:
    """Confidence and uses of a kept node without what a merge gave it; what came to it since stays:
    the share of the doubt that confirmations took, or of the confidence that contradictions did."""
    before = merge.payload["before"]
    after = next(values for uid, values in merge.payload["nodes"] if uid == keep)
    now, confidence = node.confidence, before["confidence"]
    if now > after["confidence"]:  # so there is a doubt that a confirmation has made smaller
        confidence = 1.0 - (1.0 - now) * (1.0 - confidence) / (1.0 - after["confidence"])
    elif now < after["confidence"]:
        confidence *= now / after["confidence"]
    return {"confidence": confidence, "uses": max(0, node.uses - (after["uses"] - before["uses"]))}

"""What differs between a namespace now and as it was, and making it so again, all nodes at once."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hybridmem.speakers import speaker
from hybridmem.store import branches, lexical, outbox, points, rewind, sealing, tree
from hybridmem.store.past import Past, Row
from hybridmem.store.rows import dump
from hybridmem.text import terms
from hybridmem.types import State

#: What is compared of a node's row, besides its parent and its revision.
_PLAIN = ("type", "importance", "confidence", "uses", "pinned", "state", "replaced_by", "active_at")
#: What is compared of a task.
TASK = ("status", "next_step", "finished_at")
#: Of a revision: content, whether it is JSON, metadata (JSON).
Revision = tuple[str, bool, str]


@dataclass(slots=True)
class Difference:
    """A node that is to be another: each value as (now, then), under the names that the log uses.

    ``revisions`` are the contents of now and then, where content or metadata differ.
    """

    row: Row
    values: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    revisions: tuple[Revision, Revision] | None = None

    def set(self, version: int, before: Mapping[str, State]) -> dict[str, Any]:
        """What the log says of it. ``before``: the states that those had which were forgotten then, by public id."""
        found = {"version": version, **{name: then for name, (_, then) in self.values.items()}}
        # Bringing it back from being forgotten gives it the state that it had before, as it would have then.
        state = before.get(self.row.uid, self.values["state"][0]) if found.get("state") == "forgotten" else None
        return found | ({} if state is None else {"before": state})


def differences(tx: sqlite3.Connection, namespace: int, then: Past) -> list[Difference]:
    """All nodes that differ, in the order they were added. What was not there is to be forgotten and stays as it is
    otherwise; and so does what is purged, but for where it hangs: that is no content."""
    tasks = points.tasks(tx, namespace)
    found: list[Difference] = []
    now = rewind.present(tx, namespace)
    uids = {row.id: row.uid for row in now.values()}
    for row in sorted(now.values(), key=lambda row: row.id):
        old = then.row(row.uid)
        one = Difference(row)
        if old is None:
            _compare(one, "state", row.state, "forgotten")
        else:
            above = then.above(old)
            if row.parent_id is not None and above is not None:
                _compare(one, "parent", uids[row.parent_id], uids[above])
            if row.id in then.purged:
                found += [one] if one.values else []
                continue
            for name in _PLAIN:
                _compare(one, name, getattr(row, name), getattr(old, name))
            _compare(one, "revision", row.revision_id, old.revision_id)
            task = tasks.get(row.id, {})
            for name, value in then.task_values(row.id).items():
                _compare(one, name, task.get(name), value)
        if one.values:
            found.append(one)
    _read_revisions(tx, found)
    return [one for one in found if one.values]


def apply(tx: sqlite3.Connection, namespace: int, found: Sequence[Difference], at: int) -> None:
    """Makes every node what it was: versions rise, and all that follows a content or a state follows."""
    keys = {key.id: key for key in tree.keys(tx, [one.row.id for one in found])}
    parents = {one.values["parent"][1] for one in found if "parent" in one.values}
    places = {uid: tree.key(tx, namespace, uid).id for uid in parents}
    for one in found:
        columns = {name: then for name, (_, then) in one.values.items() if name in _PLAIN}
        if "parent" in one.values:
            columns["parent_id"] = places[one.values["parent"][1]]
        tree.change(tx, keys[one.row.id], at, **columns, **_revised(tx, namespace, one))
        if not one.values.keys().isdisjoint(TASK):
            points.change_task(tx, one.row.id, {name: one.values[name][1] for name in TASK if name in one.values})
    branches.rehang(tx, [one.row.id for one in found if "parent" in one.values])
    outbox.queue_all(tx, namespace, [one.row.id for one in found if "state" in one.values])


def _compare(one: Difference, name: str, now: Any, then: Any) -> None:
    if now != then:
        one.values[name] = (now, then)


def _read_revisions(tx: sqlite3.Connection, found: Sequence[Difference]) -> None:
    """Another revision that says the same is no difference."""
    pairs = [one for one in found if "revision" in one.values]
    rows = tx.execute(
        "SELECT id, content, structured, metadata FROM revision WHERE id IN (SELECT value FROM json_each(?))",
        (dump([revision for one in pairs for revision in one.values["revision"]]),),
    ).fetchall()
    known: Mapping[int, Revision] = {row[0]: (row[1], bool(row[2]), row[3]) for row in rows}
    for one in pairs:
        now, then = (known[revision] for revision in one.values["revision"])
        if now == then:
            del one.values["revision"]
        else:
            one.revisions = (now, then)


def _revised(tx: sqlite3.Connection, namespace: int, one: Difference) -> dict[str, Any]:
    """The columns that follow another revision; lexical index and embedding are brought in line."""
    if one.revisions is None:
        return {}
    revision = one.values["revision"][1]
    (content_now, _, _), (content, _, metadata) = one.revisions
    key = sealing.writing(tx, namespace)
    columns = {"revision_id": revision, "content_key": sealing.content_key(key, content)}
    if one.row.parent_id is None:  # the root is not searched
        return columns
    if content == content_now:
        outbox.keep_embedding(tx, one.row.id, revision)
    else:
        lexical.index(tx, namespace, one.row.id, terms(content))
        outbox.drop_embedding(tx, one.row.id)
        outbox.queue(tx, namespace, one.row.id)
    return columns | {
        "terms": len(terms(content)),
        "speaker": sealing.voice(key, speaker(content, json.loads(metadata))),
    }

"""Where somebody says what a memory was worth: feedback moves its confidence and its importance, by the formulas of
:mod:`hybridmem.scoring`, and notes why.

What speaks for a memory is an activity of it, so that it is recent again; what speaks against it is none.
"""

from __future__ import annotations

import sqlite3
from typing import Any

from hybridmem import inputs, scoring
from hybridmem.errors import InvalidInput, NotFound
from hybridmem.store import tree
from hybridmem.store.rows import to_micros
from hybridmem.store.workspace import Workspace
from hybridmem.types import ROOT_TYPE, Node
from hybridmem.write import Writer

#: Characters that a note may have: it is kept in the log for good.
MAX_NOTE = 1_000
#: What a feedback says besides what it sets, by its names in the log.
REASONS = ("helpful", "confirmed", "confirmed_by", "contradicted_by", "note")


class Feedback:
    """The feedback of one workspace; see :meth:`hybridmem.Memory.feedback` for what it promises."""

    def __init__(self, workspace: Workspace, writer: Writer) -> None:
        self._workspace = workspace
        self._writer = writer

    def give(
        self,
        id: str,
        *,
        helpful: bool | None = None,
        confirmed: bool | None = None,
        importance: float | None = None,
        confirmed_by: str | None = None,
        contradicted_by: str | None = None,
        note: str | None = None,
    ) -> Node:
        reasons = {
            "helpful": None if helpful is None else inputs.flag("helpful", helpful),
            "confirmed": _verdict(confirmed, confirmed_by, contradicted_by),
            "confirmed_by": confirmed_by,
            "contradicted_by": contradicted_by,
            "note": _note(note),
        }
        set_to = None if importance is None else inputs.unit("importance", importance)
        if reasons["helpful"] is None and reasons["confirmed"] is None and set_to is None:
            raise InvalidInput(
                "feedback: says nothing; give helpful, confirmed, confirmed_by, contradicted_by or importance"
            )
        with self._workspace.write() as tx:
            key = self._writer.key(tx, id)
            if key.type == ROOT_TYPE:
                raise InvalidInput("id: the root of a namespace has no weight that could change")
            for name in ("confirmed_by", "contradicted_by"):
                self._must_be_another(tx, name, reasons[name], key.uid)
            node = tree.node(tx, key)
            columns = _moved(node, reasons["helpful"], reasons["confirmed"], set_to)
            if reasons["confirmed"] is not None and node.state == "live":  # what superseded it stays what it is
                columns["replaced_by"] = contradicted_by or ""
            payload = columns | {name: value for name, value in reasons.items() if value is not None}
            if False in (reasons["helpful"], reasons["confirmed"]):
                # What speaks against a memory must not make it recent: it was active last when it was before.
                payload["active_at"] = to_micros(node.active_at)
            self._writer.changed(tx, key, "feedback", payload, **columns)
            return tree.node(tx, key)

    def _must_be_another(self, tx: sqlite3.Connection, field: str, id: Any, uid: str) -> None:
        """:raises NotFound: there is no such node here. InvalidInput: it is the memory itself."""
        if id is None:
            return
        try:
            found = tree.key(tx, self._workspace.id, id)
        except (InvalidInput, NotFound) as error:
            raise type(error)(f"{field}: {str(error).removeprefix('id: ')}") from None
        if found.uid == uid:
            raise InvalidInput(f"{field}: {uid!r} cannot be a reason for itself; name another memory")


def _moved(node: Node, helpful: Any, confirmed: Any, importance: float | None) -> dict[str, Any]:
    """The columns that a feedback sets, with their new values."""
    columns: dict[str, Any] = {}
    if confirmed is not None:
        columns["confidence"] = (scoring.confirmed if confirmed else scoring.contradicted)(node.confidence)
    if importance is not None:
        columns["importance"] = importance
    elif helpful is not None:
        columns["importance"] = (scoring.helped if helpful else scoring.misled)(node.importance)
    if helpful:
        columns["uses"] = min(node.uses + 1, inputs.MAX_COUNT)
    return columns


def _verdict(confirmed: bool | None, confirmed_by: str | None, contradicted_by: str | None) -> bool | None:
    """Confirmed (True), contradicted (False) or neither. :raises InvalidInput: both are said."""
    said = {
        None if confirmed is None else inputs.flag("confirmed", confirmed),
        None if confirmed_by is None else True,
        None if contradicted_by is None else False,
    } - {None}
    if len(said) > 1:
        raise InvalidInput("confirmed: it cannot be confirmed and contradicted at once; give two feedbacks")
    return said.pop() if said else None


def _note(note: str | None) -> str | None:
    text = inputs.optional_text("note", note)
    if text is not None and len(text) > MAX_NOTE:
        raise InvalidInput(f"note: may have up to {MAX_NOTE:,} characters, not {len(text):,}; add it as a memory")
    return text

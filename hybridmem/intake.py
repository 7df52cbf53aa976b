"""Where raw output of agents becomes memories: messages → turns → gate → extractor → one write, as add_many does it.

Everything that takes time (reading the messages, an extractor that asks a language model) happens before the
transaction; what is stored is all of what passes the gate, or nothing.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from hybridmem import inputs
from hybridmem.errors import InvalidInput, shown
from hybridmem.extracting import RuleExtractor
from hybridmem.gate import Gate
from hybridmem.messages import FORMATS, from_text, turns, unwrapped
from hybridmem.ports import Extract, Extractor, Turn
from hybridmem.results import Dropped, Kept, Observed
from hybridmem.store import tree
from hybridmem.store.rows import new_uid
from hybridmem.store.workspace import Workspace
from hybridmem.types import ROOT_TYPE, TASK_TYPE, Node
from hybridmem.write import Parent, Writer

logger = logging.getLogger("hybridmem")

#: Messages of one call: its transaction takes seconds then, which other writers wait for (store.busy_timeout_seconds).
MAX_MESSAGES = 10_000
#: Characters of one text that is read as messages.
MAX_CHARACTERS = 200_000_000
#: How many of the memories stored last under the parent are looked through for repeats.
LOOKED_BACK = 2000
#: Characters of a dropped message that the reply shows.
SHOWN = 80

Messages = str | Mapping[str, Any] | Iterable[Any]


class Intake:
    """observe() of one workspace; see :class:`hybridmem.Memory`."""

    def __init__(self, workspace: Workspace, writer: Writer, extractor: Extractor | None) -> None:
        self._workspace = workspace
        self._writer = writer
        self._extractor = RuleExtractor() if extractor is None else extractor

    def observe(self, messages: Messages, *, parent: Parent, format: str, dry_run: bool) -> Observed:
        inputs.one_of("format", format, FORMATS)
        dry_run = inputs.flag("dry_run", dry_run)
        given = _listed(messages, format)
        found = [_checked(turn) for turn in turns(given)]
        above, stored = self._around(parent)
        gate, kept, dropped = Gate.after(stored), [], []
        for turn in found:
            reason = gate.reason(turn, _content(turn))
            if reason is None:
                kept.append(turn)
            else:
                dropped.append(Dropped(turn.position, reason, _shown(turn)))
        extracts, warnings = self._extracted(kept)
        items, told = _items(kept, extracts, above)
        nodes = () if dry_run else tuple(self._writer.add_many(items))
        return Observed(len(given), tuple(told), nodes, tuple(dropped), dry_run, tuple(warnings))

    def _around(self, parent: Parent) -> tuple[str, list[tuple[str, str]]]:
        """The id of the parent, which "node" must not name anew for each item; and what is stored there already."""
        with self._workspace.read() as tx:
            key = self._writer.parent_key(tx, parent)
            nodes = tree.nodes(tx, tree.newest_below(tx, key, LOOKED_BACK)).values()
            return key.uid, [pair for node in nodes if "source" not in node.metadata for pair in _said(node)]

    def _extracted(self, kept: Sequence[Turn]) -> tuple[dict[int, list[Extract]], list[str]]:
        """What the extractor finds, by turn; what is wrong with it is left out, with a warning."""
        name, warnings = type(self._extractor).__name__, []
        by_turn: dict[int, list[Extract]] = defaultdict(list)
        try:
            found: list[Any] = list(self._extractor.extract(tuple(kept))) if kept else []
        except Exception as error:  # foreign code: no memory is lost with it
            warnings.append(f"extractor: {name} failed, everything is stored as it came: {error!r}")
            found = []
        for number, extract in enumerate(found):
            try:
                by_turn[_usable(extract, len(kept))].append(extract)
            except InvalidInput as error:
                warnings.append(f"extractor: {name} gave something that cannot be stored, item {number}: {error}")
        for warning in warnings:
            logger.warning("%s", warning)
        return by_turn, warnings


def _listed(messages: Messages, format: str) -> list[tuple[int, Any]]:
    if isinstance(messages, str):
        if len(messages) > MAX_CHARACTERS:
            raise InvalidInput(f"messages: has {len(messages):,} characters, {MAX_CHARACTERS:,} are accepted; split it")
        given = from_text(messages, format)
    elif not isinstance(messages, Iterable) or isinstance(messages, (bytes, bytearray)):
        raise InvalidInput(f"messages: must be a list of messages, or text, not {type(messages).__name__}")
    elif format != "auto":
        raise InvalidInput(
            f"format: {shown(format)} says how to read a text; leave it out where messages are given as a list"
        )
    else:
        found = unwrapped(messages) if isinstance(messages, Mapping) else islice(messages, MAX_MESSAGES + 1)
        given = list(enumerate(found))
    if len(given) > MAX_MESSAGES:
        raise InvalidInput(f"messages: there are more than {MAX_MESSAGES:,}; observe them in several calls")
    return given


def _checked(turn: Turn) -> Turn:
    """:raises InvalidInput: what would be stored of it is refused by the store; names the message."""
    where = f"messages[{turn.position}]"
    try:
        if turn.text.strip():
            inputs.content(_content(turn))
        at = None if turn.at is None else inputs.moment("timestamp", turn.at)
        inputs.metadata(_metadata(turn))  # with what else is kept there: the role, the speaker
        return replace(turn, at=at, metadata=inputs.metadata(turn.metadata))
    except InvalidInput as error:
        blank = "is blank" in str(error)  # of invisible characters alone: nothing to store, nothing to complain about
        if blank:
            return replace(turn, text="")
        raise InvalidInput(f"{where}.{error}") from error


def _content(turn: Turn) -> str:
    """What is stored of a turn: calls and results begin with the tool, so that they say what they are about."""
    if turn.kind == "call":
        return f"{turn.tool}({turn.text})"
    if turn.kind == "result" and turn.tool:
        return f"{turn.tool}: {turn.text}"
    return turn.text


def _said(node: Node) -> list[tuple[str, str]]:
    """Role and content of a stored node as the gate compares them, and the same with its time."""
    role = str(node.metadata.get("role") or "log")
    return [(role, node.content), (role, f"{node.created_at.isoformat()} {node.content}")]


def _usable(extract: Any, turns: int) -> int:
    """The number of its turn. :raises InvalidInput: it cannot be stored."""
    if not isinstance(extract, Extract):
        raise InvalidInput(f"must be a hybridmem.ports.Extract, not {type(extract).__name__}")
    if isinstance(extract.turn, bool) or not isinstance(extract.turn, int) or not 0 <= extract.turn < turns:
        raise InvalidInput(
            f"turn: must be the number of one of {turns} turns, counted from 0, not {shown(extract.turn)}"
        )
    if inputs.node_type(extract.type) in (TASK_TYPE, ROOT_TYPE):
        raise InvalidInput(f"type: {extract.type!r} is not for memories; tasks are made with start_task()")
    if not isinstance(extract.content, str):
        raise InvalidInput(f"content: must be text, not {shown(extract.content)}")
    inputs.content(extract.content)
    if extract.importance is not None:
        inputs.unit("importance", extract.importance)
    return extract.turn


def _items(
    kept: Sequence[Turn], extracts: Mapping[int, Sequence[Extract]], parent: str
) -> tuple[list[dict[str, Any]], list[Kept]]:
    """What add_many is to store, and what the reply says of it."""
    items: list[dict[str, Any]] = []
    told: list[Kept] = []
    for number, turn in enumerate(kept):
        content, found = _content(turn), list(extracts.get(number, ()))
        whole = next((one for one in found if one.content.strip() == turn.text.strip()), None)
        rest = [one for one in found if one is not whole]
        item: dict[str, Any] = {
            "content": content,
            "parent": parent,
            "metadata": _metadata(turn),
            "occurred_at": turn.at,
        }
        item["type"] = whole.type if whole else "note" if turn.role.casefold() in ("system", "developer") else "event"
        if whole is not None and whole.importance is not None:
            item["importance"] = whole.importance
        source = new_uid() if rest else None
        if source:
            item["id"] = source
        batch = [item]
        for one in rest:
            metadata = {**_metadata(turn), "source": source}
            about: dict[str, Any] = {"content": one.content, "type": one.type, "parent": parent, "occurred_at": turn.at}
            batch.append({**about, "metadata": metadata, "importance": one.importance})
        items += batch
        told += [Kept(turn.position, one["type"], one["content"]) for one in batch]
    return items, told


def _metadata(turn: Turn) -> dict[str, Any]:
    own = {"role": turn.role, "speaker": turn.speaker, "tool": turn.tool, "failed": turn.failed}
    return {**turn.metadata, **{name: value for name, value in own.items() if value}}


def _shown(turn: Turn) -> str:
    text = " ".join((turn.text if turn.kind != "other" else "").split())
    if not text and turn.tool:
        text = json.dumps(turn.tool, ensure_ascii=False)
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"

"""The verbs of Memory that take raw output in and keep what is in free of doubles; each hands over to its own file."""

from __future__ import annotations

from typing import TypeVar

from hybridmem.indexing import Indexer
from hybridmem.intake import Intake, Messages
from hybridmem.ports import Extractor
from hybridmem.results import Observed
from hybridmem.store.workspace import Workspace
from hybridmem.write import Parent, Writer

T = TypeVar("T")


class IntakeVerbs:
    """See :class:`hybridmem.Memory`."""

    def __init__(self, workspace: Workspace, indexer: Indexer, writer: Writer, extractor: Extractor | None) -> None:
        self._workspace = workspace
        self._indexer = indexer
        self._intake = Intake(workspace, writer, extractor)

    def observe(
        self, messages: Messages, *, parent: Parent = "task", format: str = "auto", dry_run: bool = False
    ) -> Observed:
        """Stores what an agent, its user and its tools said and did, as it comes: chat messages, tool calls and their
        results, lines of a log. Noise stays out, and the reply says what was dropped and why. One transaction: all
        that passes is stored, or, if anything is wrong with any message, nothing.

        Turns, calls and results become events with ``role``, ``speaker``, ``tool``, ``failed`` and whatever else the
        message has in their metadata, and their time if one is given; system messages become notes. A decision, a
        preference or a fact that an extractor finds in a turn (by default: explicit words such as 决定, "I prefer",
        "remember that") is stored beside it, with the id of the turn under ``source`` in its metadata.

        Observing a conversation again, or the longer one that it has become, stores what is new: a message that is
        stored under the parent already is dropped as a repeat. Spoken turns count as repeats if neither has a time, or
        their times are equal; to keep every one of several equal turns, give them times.

        :param messages: a list of messages as OpenAI, Anthropic and agent frameworks have them (``role``, ``content``
            as text or parts, ``tool_calls``, results), of records of a log (``message``, ``timestamp``, ``level``), of
            lines; an object with such a list under ``messages`` or ``history``; or one text. At most 10,000.
        :param parent: where they hang, as in :meth:`add`.
        :param format: how a text is read: ``"chat"`` (one JSON document), ``"jsonl"`` (an object per line),
            ``"lines"``; ``"auto"``: what it looks like.
        :param dry_run: store nothing and say what would be stored and dropped.
        :raises InvalidInput: names the message (``messages[3]``, counted from 0), the field and the value.
        :raises NotFound: the parent does not exist in this namespace.
        """
        return self._stored(self._intake.observe(messages, parent=parent, format=format, dry_run=dry_run))

    def _stored(self, result: T) -> T:
        """There may be work for the indexer now."""
        if self._workspace.config.index.background:
            self._indexer.start()
            self._indexer.notify()
        return result

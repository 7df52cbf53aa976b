"""The verbs of Memory that take raw output in and keep what is in free of doubles; each hands over to its own file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from hybridmem.audit import audited
from hybridmem.duplicates import THRESHOLD, Duplicates
from hybridmem.embed.model import Model
from hybridmem.indexing import Indexer
from hybridmem.intake import Intake, Messages
from hybridmem.ports import Extractor
from hybridmem.results import Merged, NearDuplicates, Observed
from hybridmem.store.workspace import Workspace
from hybridmem.write import Parent, Writer

T = TypeVar("T")


class IntakeVerbs:
    """See :class:`hybridmem.Memory`."""

    def __init__(
        self, workspace: Workspace, indexer: Indexer, writer: Writer, model: Model, extractor: Extractor | None
    ) -> None:
        self._workspace = workspace
        self._indexer = indexer
        self._intake = Intake(workspace, writer, extractor)
        self._duplicates = Duplicates(workspace, writer, model)

    @audited("parent", keep=("format", "dry_run"))
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

    @audited("within", reads=True, keep=("threshold", "limit"))
    def near_duplicates(
        self, within: str | None = None, *, threshold: float = THRESHOLD, limit: int = 100
    ) -> NearDuplicates:
        """Memories that say the same in nearly the same words: live ones of one type under one task. Changes nothing.

        What reads alike but differs in a number, date, code, name, negation or opposite, in who said it, or in the hour
        of an event, is never in a group: it is listed under ``different`` with the difference. 10,000 memories of one
        type under one task take a few seconds, more than 20,000 are refused.

        :param within: only at and below the node with this id; None: all of the namespace.
        :param threshold: how alike at least, in [0, 1]: the mean of the cosine of the vectors and of the share of words
            that both have.
        :param limit: how many groups, and how many pairs that differ, are listed; all are counted.
        """
        return self._duplicates.near(within, threshold, limit)

    @audited("keep")
    def merge_duplicates(self, keep: str, others: Sequence[str]) -> Merged:
        """Lets one memory stand for others that say the same: these leave every search and context (state superseded,
        with ``replaced_by``), and each halves the doubt about the one that is kept and adds its uses to it, as an exact
        repeat would. One operation; :meth:`unmerge` undoes it, and so does :meth:`restore`.

        Nothing is compared here: whoever calls it has decided. :meth:`near_duplicates` tells what might be meant.

        :param keep: the id of a live memory. :param others: ids of live memories of its type.
        :raises InvalidInput: another type or state, a task, a pinned memory, or one with live memories below it, among
            the others. NotFound: there is no such node in this namespace.
        """
        return self._stored(self._duplicates.merge(keep, others))

    @audited("id")
    def unmerge(self, id: str) -> Merged:
        """Undoes the last merge into a memory: the others are live again, and it loses the confidence and the uses that
        they gave it; what has come to it since stays. Called again, it undoes the merge before.

        :param id: of the memory that was kept.
        :raises InvalidInput: nothing is merged into it now. NotFound: there is no such node in this namespace.
        """
        return self._stored(self._duplicates.unmerge(id))

    def _stored(self, result: T) -> T:
        """There may be work for the indexer now."""
        if self._workspace.config.index.background:
            self._indexer.start()
            self._indexer.notify()
        return result

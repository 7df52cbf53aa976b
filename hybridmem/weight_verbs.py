"""The verbs of Memory that say what became of a memory: superseded, confirmed, contradicted, of use or not.

Like :mod:`hybridmem.verbs`, each hands the call to the file of its verb.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from hybridmem.audit import audited
from hybridmem.feedback import Feedback
from hybridmem.store.workspace import Workspace
from hybridmem.supersede import Superseding
from hybridmem.types import Node
from hybridmem.write import Writer

T = TypeVar("T")


class WeightVerbs:
    """See :class:`hybridmem.Memory`."""

    def __init__(self, workspace: Workspace, writer: Writer) -> None:
        self._feedback = Feedback(workspace, writer)
        self._superseding = Superseding(workspace, writer)

    if TYPE_CHECKING:  # of TreeVerbs

        def _written(self, result: T) -> T: ...

    @audited("id")
    def supersede(
        self,
        id: str,
        content: Any,
        *,
        type: str | None = None,
        importance: float | None = None,
        confidence: float | None = None,
        metadata: Mapping[str, Any] | None = None,
        expected_version: int | None = None,
    ) -> Node:
        """Writes what holds now in the place of a memory that held before, in one transaction.

        The old one is marked ``superseded``, with ``replaced_by`` the id of the new one, and leaves every search,
        context and list at once; ``get``, ``history``, ``as_of`` and ``search(states=["superseded"])`` still have it.
        What hangs below it moves to the new one, its pin goes over, and an agent whose active node it was stands at the
        new one. :meth:`restore` to the entry before undoes it. To mend what was never right, use :meth:`update`.

        :param content: what holds now; given like the content of :meth:`add`, and not what the old one says.
        :param type: None: that of the old one. Likewise ``importance``.
        :param confidence: None: weights.default_confidence, since the doubts about the old one are not about the new.
        :param metadata: merged into that of the old one; a None value removes its key.
        :param expected_version: the version of the old one that you read; refused if somebody has changed it since.
        :return: the new memory, beside the old one. An exact repeat of a fact, preference or decision that is there
            already is confirmed instead, as by :meth:`add`, and comes back with ``created=False``.
        :raises InvalidInput: it is a task, the root, archived, forgotten, or superseded already; or it says that.
        :raises Conflict: it is at another version; carries both. :raises NotFound: no such node here.
        """
        return self._written(
            self._superseding.supersede(
                id, content, type=type, importance=importance, confidence=confidence, metadata=metadata,
                expected_version=expected_version,
            )
        )  # fmt: skip

    @audited("id", keep=("helpful", "confirmed", "importance"))
    def feedback(
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
        """Says what a memory was worth. :meth:`history` tells of each: when, by whom, why, and what it moved from what
        to what.

        What speaks for a memory makes it recent again; what speaks against it does not, so that it never gains.

        :param helpful: True: importance goes a tenth of the way to 1, and it counts as one use. False: a tenth of the
            way to 0.
        :param confirmed: True: half of the doubt goes (confidence c becomes 1 - (1 - c) / 2). False, contradicted: half
            of the confidence goes (c / 2).
        :param importance: in [0, 1]: from now on this; ``helpful`` only counts the use then.
        :param confirmed_by: the id of the memory that confirms it, such as a later event; means ``confirmed=True``.
        :param contradicted_by: the id of the one that contradicts it; means ``confirmed=False``. If that one holds in
            its place, :meth:`supersede` says so.
        :param note: why, up to 1,000 characters; kept in the log.
        :raises InvalidInput: nothing is said, or that it is confirmed and contradicted; or it is the root, forgotten,
            or its own reason. :raises NotFound: no such node here.
        """
        return self._written(
            self._feedback.give(
                id, helpful=helpful, confirmed=confirmed, importance=importance, confirmed_by=confirmed_by,
                contradicted_by=contradicted_by, note=note,
            )
        )  # fmt: skip

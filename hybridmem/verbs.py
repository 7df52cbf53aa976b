"""The verbs of Memory that walk and change the tree; Memory itself adds retrieving, recovering and operating.

Each checks nothing and decides nothing: it hands the call to the file of its verb and wakes the indexer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from hybridmem import faults, inputs
from hybridmem.audit import audited
from hybridmem.claims import Claims
from hybridmem.earlier import Earlier
from hybridmem.forget import Forgetting
from hybridmem.indexing import Indexer
from hybridmem.ports import ImportanceEstimator
from hybridmem.store import tree
from hybridmem.store.workspace import Workspace
from hybridmem.tasks import Tasks
from hybridmem.tending import Tending
from hybridmem.types import Claim, Node, StateChange
from hybridmem.write import Parent, Writer

T = TypeVar("T")


class TreeVerbs:
    """See :class:`hybridmem.Memory`."""

    if TYPE_CHECKING:  # of ForgetVerbs
        _tending: Tending

    def __init__(self, workspace: Workspace, indexer: Indexer, estimator: ImportanceEstimator | None = None) -> None:
        self._workspace = workspace
        self._indexer = indexer
        self._writer = Writer(workspace, estimator)
        self._claims = Claims(workspace)
        self._tasks = Tasks(workspace, self._writer, self._claims)
        self._earlier = Earlier(workspace)
        self._forgetting = Forgetting(workspace)

    # Reading by id and along the tree

    @audited("id", reads=True)
    def get(self, id: str, *, as_of: Any = None) -> Node:
        """The node with this id, in whatever state.

        :param as_of: as it was at this moment, a datetime (naive means UTC) or ISO 8601 text; None: as it is.
        :raises NotFound: there is none in this namespace, or it was not there yet.
        """
        if as_of is not None:
            return self._earlier.get(id, as_of)
        with self._workspace.read() as tx:
            return tree.node(tx, tree.key(tx, self._workspace.id, id))

    @audited(reads=True)
    def root(self) -> Node:
        """The root of this namespace: made with it, parent of everything that has no other."""
        with self._workspace.read() as tx:
            return tree.node(tx, self._workspace.root(tx))

    @audited("id", reads=True, keep=("offset", "limit"))
    def children(
        self, id: str | None = None, *, offset: int = 0, limit: int | None = None, as_of: Any = None
    ) -> list[Node]:
        """The live nodes right below one (None: the root), in the order they were added.

        :param offset: how many to skip. :param limit: how many at most; None: all.
        :param as_of: as in :meth:`get`.
        """
        start, most = inputs.count("offset", offset), None if limit is None else inputs.count("limit", limit)
        if as_of is not None:
            return self._earlier.children(id, as_of, offset=start, limit=most)
        with self._workspace.read() as tx:
            return tree.children(tx, self._workspace.start(tx, id), offset=start, limit=most)

    @audited("id", reads=True)
    def ancestors(self, id: str, *, as_of: Any = None) -> list[Node]:
        """The chain from the root down to the node's parent; ``as_of`` as in :meth:`get`."""
        if as_of is not None:
            return self._earlier.ancestors(id, as_of)
        with self._workspace.read() as tx:
            return tree.ancestors(tx, tree.key(tx, self._workspace.id, id))

    @audited("id", reads=True)
    def walk(self, id: str | None = None, *, as_of: Any = None) -> Iterator[Node]:
        """A node (None: the root) and everything below it, parents first, siblings in the order they were added; in
        every state, also what is archived or forgotten.

        Reads in pages, so it never holds the whole tree; what others write meanwhile may or may not appear. With
        ``as_of`` (as in :meth:`get`) it reads the whole subtree at once.
        """
        if as_of is not None:
            yield from self._earlier.walk(id, as_of)
            return
        with self._workspace.read() as tx:
            key = self._workspace.start(tx, id)
        after = ""
        while True:
            with self._workspace.read() as tx:
                page = tree.walk(tx, key, after=after)
            if not page:
                return
            after = page[-1][0]
            yield from (node for _, node in page)

    # Writing

    @audited("id", makes=True)
    def add(
        self,
        content: Any,
        *,
        type: str = "note",
        parent: Parent = "task",
        importance: float | None = None,
        confidence: float | None = None,
        metadata: Mapping[str, Any] | None = None,
        occurred_at: Any = None,
        id: str | None = None,
    ) -> Node:
        """Stores one memory and makes it the active node.

        :param content: text, kept byte for byte; or a dict, list or number, kept as JSON. Up to 8 MB.
        :param type: event, fact, preference, decision, note, summary, or any lower-case word. Tasks: start_task().
        :param parent: where it hangs: a node, an id, ``"task"`` (the active task, else the root), ``"decision"`` (the
            last decision under the active task), ``"node"`` (the active node) or ``"root"``.
        :param importance: in [0, 1]; None: what the estimator says (weights.importance_estimator), or
            the default of its type.
        :param confidence: in [0, 1]; None: weights.default_confidence.
        :param metadata: JSON values under text keys.
        :param occurred_at: when it happened, a datetime (naive means UTC) or ISO 8601 text; None: now.
        :param id: an id of your own, new in this namespace; None: one is made.
        :return: the node. An exact repeat of a fact, preference or decision under the same parent confirms the one
            that is there (confidence and uses rise; its importance and metadata stay: use update() for those) and comes
            back with ``created=False``.
        :raises InvalidInput: a value is wrong, or the content is blank; the message names the field.
        :raises NotFound: the parent does not exist in this namespace.
        """
        return self._written(
            self._writer.add(
                content, type=type, parent=parent, importance=importance, confidence=confidence, metadata=metadata,
                occurred_at=occurred_at, id=id,
            )
        )  # fmt: skip

    @audited()
    def add_many(self, items: Iterable[Mapping[str, Any]]) -> list[Node]:
        """Stores a batch in one transaction: all of it or, if anything is wrong with any item, nothing.

        :param items: mappings with ``content`` and, if wanted, the other arguments of :meth:`add`. ``parent`` may also
            be a whole number: the position of an earlier item of the batch, counted from 0.
        :raises InvalidInput: names the position, the field and what is accepted.
        """
        return self._written(self._writer.add_many(items))

    @audited("id")
    def update(
        self,
        id: str,
        *,
        content: Any = None,
        type: str | None = None,
        importance: float | None = None,
        confidence: float | None = None,
        metadata: Mapping[str, Any] | None = None,
        expected_version: int | None = None,
    ) -> Node:
        """Changes what is given and leaves the rest; the old content is not found any more, but stays as a revision.

        :param metadata: merged into the old; a None value removes its key.
        :param expected_version: the version you read; the update is refused if somebody has changed the node since.
        :raises Conflict: it is at another version; carries both. :raises NotFound: no such node here.
        """
        return self._written(
            self._writer.update(
                id, content=content, type=type, importance=importance, confidence=confidence, metadata=metadata,
                expected_version=expected_version,
            )
        )  # fmt: skip

    @audited("id")
    def move(self, id: str, parent: Parent, *, expected_version: int | None = None) -> Node:
        """Hangs a node, with all below it, under another parent.

        :raises InvalidInput: the root cannot move, and nothing can move below itself.
        """
        return self._written(self._writer.move(id, parent, expected_version=expected_version))

    @audited("id", keep=("pinned",))
    def pin(self, id: str, pinned: bool = True) -> Node:
        """Protects a node from ever being forgotten, or (False) lifts that."""
        return self._written(self._writer.pin(id, pinned))

    # Forgetting and archiving

    @audited("id", keep=("subtree", "dry_run"))
    def restore_forgotten(self, id: str, *, subtree: bool = False, dry_run: bool = False) -> StateChange:
        """Brings a forgotten memory back under its parent, in the state in which it was: live, archived or superseded.

        It is found at once; its vector is the one it had, so that no model is needed.

        :param subtree: with everything forgotten below it, whenever that was forgotten.
        :param dry_run: change nothing and say what would come back, or raise what would be raised.
        :raises InvalidInput: a node above it is forgotten; the message names the topmost one: bring that back first.
        :raises NotFound: there is no such node in this namespace.
        """
        return self._state_changed("restore_forgotten", id, subtree, dry_run)

    @audited("id", keep=("subtree", "dry_run"))
    def archive(self, id: str, *, subtree: bool = True, dry_run: bool = False) -> StateChange:
        """Archives a live memory with all that is live below it: kept for good, and searched only when asked for with
        ``states=["archived"]``. Writing below an archived node is possible; what is written there is live.

        :param subtree: False: only this memory; refused if there is anything live below it.
        :param dry_run: change nothing and say what would be archived, or raise what would be raised.
        :raises InvalidInput: as for :meth:`forget`, but pinned memories may be archived.
        :raises NotFound: there is no such node in this namespace.
        """
        return self._state_changed("archive", id, subtree, dry_run)

    @audited("id", keep=("subtree", "dry_run"))
    def unarchive(self, id: str, *, subtree: bool = True, dry_run: bool = False) -> StateChange:
        """Makes an archived memory live again, with all that is archived below it, but for what a summary stands for
        that is there or comes back with it: unconsolidate() brings that back.

        :param subtree: False: only this memory.
        :param dry_run: change nothing and say what would come back.
        :raises NotFound: there is no such node in this namespace.
        """
        return self._state_changed("unarchive", id, subtree, dry_run)

    # Tasks

    @audited(makes=True)
    def start_task(
        self,
        title: str,
        *,
        next_step: str | None = None,
        parent: Parent | None = None,
        importance: float | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Node:
        """Starts a task and makes it the active one: new memories hang under it.

        :param next_step: what comes next; resume() and context() tell it.
        :param parent: None: under the root; ``"active"``: a sub-task of the active task; or a node or id.
        """
        return self._written(
            self._tasks.start(title, next_step=next_step, parent=parent, importance=importance, metadata=metadata)
        )

    @audited("id")
    def switch_task(self, id: str) -> Node:
        """Makes an open or paused task the active one (a paused one is open again).

        :raises InvalidInput: it is not a task, or it is finished.
        """
        return self._written(self._tasks.switch(id))

    @audited("id", makes=True, keep=("status",))
    def update_task(
        self,
        id: str | None = None,
        *,
        title: str | None = None,
        next_step: str | None = None,
        status: str | None = None,
        token: int | None = None,
    ) -> Node:
        """Changes a task (None: the active one). Tell the next step before you take it: a crash then loses nothing.

        :param next_step: blank text takes it away.
        :param status: ``"open"`` (also opens a finished task again) or ``"paused"``.
        :param token: that of the claim, where it was made by another run (see :meth:`claim_task`).
        :raises NotFound: there is no active task, or no such node. TaskClaimed: another run has claimed it.
            InvalidInput: the token is of a claim that is over.
        """
        return self._written(self._tasks.update(id, title=title, next_step=next_step, status=status, token=token))

    @audited("id", makes=True, keep=("status",))
    def finish_task(
        self, id: str | None = None, *, status: str = "done", outcome: str | None = None, token: int | None = None
    ) -> Node:
        """Finishes a task (None: the active one); its nearest open ancestor task becomes active.

        :param status: ``"done"`` or ``"failed"``.
        :param outcome: kept as an event under the task.
        :param token: that of the claim, where it was made by another run (see :meth:`claim_task`).
        :raises TaskClaimed: another run has claimed it. InvalidInput: the token is of a claim that is over.
        """
        return self._written(self._tasks.finish(id, status=status, outcome=outcome, token=token))

    @audited("id", makes=True, keep=("seconds", "outlives"))
    def claim_task(
        self, id: str | None = None, *, seconds: float = 300.0, token: int | None = None, outlives: bool = False
    ) -> Claim:
        """Takes a task (None: the active one) for this run alone: until the claim is over nobody else can update,
        finish or claim it. So two agents that resume the same task do not take the same step twice. Claiming again
        makes the claim last longer; finishing the task ends it.

        :param seconds: how long it lasts, in (0, 86,400].
        :param token: that of the claim, to go on with one that another run has made.
        :param outlives: False: it ends with this run, closed or killed. True: by time alone. A clock that is set back
            by more than a day ends both.
        :return: the claim with its fencing token, which is higher than that of any claim before in this store.
        :raises TaskClaimed: another run has claimed it. :raises InvalidInput: it is finished, or no task; or the token
            is of a claim that is over, after which others may have had the task.
        """
        return self._claims.claim(id, seconds=seconds, token=token, outlives=outlives)

    @audited("id", makes=True)
    def release_task(self, id: str | None = None, *, token: int | None = None) -> bool:
        """Gives a claimed task free again; False if nobody had claimed it.

        :raises TaskClaimed: another run has claimed it.
        """
        return self._claims.release(id, token=token)

    @audited(reads=True, keep=("status",))
    def tasks(self, status: Sequence[str] = ("open", "paused", "done", "failed")) -> list[Node]:
        """The tasks with any of these statuses, in the order they were started."""
        return self._tasks.list(status)

    @audited(reads=True)
    def active_task(self) -> Node | None:
        """The task that new memories of this agent hang under; None: the root."""
        return self._tasks.active()

    def _state_changed(self, kind: str, id: str, subtree: bool, dry_run: bool) -> StateChange:
        result = self._forgetting.change(kind, id, subtree=subtree, dry_run=dry_run)
        return result if result.sequence is None else self._written(result)

    def _written(self, result: T) -> T:
        """There is work for the indexer now."""
        if self._workspace.config.index.background:
            self._indexer.start()
            self._indexer.notify()
        else:
            self._tending.run_if_due()
        faults.point("write.before_return")
        return result

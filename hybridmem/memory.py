"""Memory: the one class users need. It wires the parts and hands each call to the file of its verb."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from hybridmem import config as configuration
from hybridmem import files, inputs, observe
from hybridmem.config import Config
from hybridmem.embed.model import Model, choose
from hybridmem.indexing import Indexer
from hybridmem.ports import Clock, Embedder, SystemClock
from hybridmem.recall import Recall
from hybridmem.recover import Recovery
from hybridmem.store import points, tree
from hybridmem.store.connect import Connections
from hybridmem.store.workspace import Workspace
from hybridmem.tasks import Tasks
from hybridmem.types import (
    Checkpoint,
    Context,
    ImportReport,
    Namespace,
    Node,
    Operation,
    ResumePoint,
    SearchResult,
    Stats,
)
from hybridmem.write import Parent, Writer

T = TypeVar("T")


class Memory:
    """The memory of one agent in one namespace of a store. Open it with :meth:`open`; a context manager.

    Safe to share between threads; several processes may open the same store at once. After a fork, open it again in
    the child. Every write is durable when it returns and does not wait for the embedding model, which follows behind.

    Any call may raise StoreBusy (another writer took longer than ``store.busy_timeout_seconds``), StoreFull,
    StoreDamaged or StoreClosed; a call that raises has changed nothing, and may be repeated.
    """

    def __init__(self, workspace: Workspace, model: Model, indexer: Indexer) -> None:
        """Not for users: call :meth:`open`."""
        self._workspace = workspace
        self._model = model
        self._indexer = indexer
        self._writer = Writer(workspace)
        self._tasks = Tasks(workspace, self._writer)
        self._recall = Recall(workspace, model, indexer)
        self._recovery = Recovery(workspace)
        self._closed = False

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        namespace: Sequence[str] = ("default",),
        agent: str = "default",
        config: str | Path | Mapping[str, Any] | Config | None = None,
        embedder: Embedder | None = None,
        clock: Clock | None = None,
    ) -> Memory:
        """Opens a store, or creates it. Cheap: loads neither the model nor Chroma.

        :param path: the directory of the store; made with mode 0700 if missing.
        :param namespace: whose memory this is: a tuple of names, matched whole. Another namespace sees nothing of it.
        :param agent: who writes; each agent has its own active task in a namespace.
        :param config: a YAML file, a mapping, a Config, or None for the defaults (see configs/default.yaml).
        :param embedder: an embedder of your own (see hybridmem.ports.Embedder); it wins over the configuration.
        :param clock: where the time comes from; None: the machine's clock.
        :raises InvalidInput: a bad namespace or agent, or the path is a file.
        :raises ConfigError: the configuration is wrong; the message names the file, the key and the nearest key.
        :raises StoreDamaged: ``tree.db`` is not a hybridmem store. StoreTooNew: made by a later version.
        """
        settings = configuration.load(config)
        names, who = inputs.namespace(namespace), inputs.name("agent", agent)
        connections = Connections(
            Path(path), durability=settings.store.durability, busy_timeout=settings.store.busy_timeout_seconds
        )
        try:
            workspace = Workspace(connections, names, who, settings, clock or SystemClock())
        except BaseException:
            connections.close()
            raise
        model = Model(connections, lambda known: choose(known, settings.embedding, embedder))
        indexer = Indexer(connections, model, batch_size=settings.index.batch_size)
        return cls(workspace, model, indexer)

    @property
    def path(self) -> Path:
        """The directory of the store."""
        return self._workspace.directory

    @property
    def namespace(self) -> Namespace:
        return self._workspace.namespace

    @property
    def agent(self) -> str:
        return self._workspace.agent

    @property
    def config(self) -> Config:
        return self._workspace.config

    # Reading by id and along the tree

    def get(self, id: str) -> Node:
        """The node with this id. :raises NotFound: there is none in this namespace."""
        with self._workspace.read() as tx:
            return tree.node(tx, tree.key(tx, self._workspace.id, id))

    def root(self) -> Node:
        """The root of this namespace: made with it, parent of everything that has no other."""
        with self._workspace.read() as tx:
            return tree.node(tx, self._workspace.root(tx))

    def children(self, id: str | None = None, *, offset: int = 0, limit: int | None = None) -> list[Node]:
        """The nodes right below one (None: the root), in the order they were added.

        :param offset: how many to skip. :param limit: how many at most; None: all.
        """
        start, most = inputs.count("offset", offset), None if limit is None else inputs.count("limit", limit)
        with self._workspace.read() as tx:
            return tree.children(tx, self._workspace.start(tx, id), offset=start, limit=most)

    def ancestors(self, id: str) -> list[Node]:
        """The chain from the root down to the node's parent."""
        with self._workspace.read() as tx:
            return tree.ancestors(tx, tree.key(tx, self._workspace.id, id))

    def walk(self, id: str | None = None) -> Iterator[Node]:
        """A node (None: the root) and everything below it, parents first, siblings in the order they were added.

        Reads in pages, so it never holds the whole tree; what others write meanwhile may or may not appear.
        """
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
        :param importance: in [0, 1]; None: the default of its type (weights.default_importance).
        :param confidence: in [0, 1]; None: weights.default_confidence.
        :param metadata: JSON values under text keys.
        :param occurred_at: when it happened, a datetime (naive means UTC) or ISO 8601 text; None: now.
        :param id: an id of your own, new in this namespace; None: one is made.
        :return: the node. An exact repeat of a fact, preference or decision under the same parent confirms the one
            that is there (confidence and uses rise) and comes back with ``created=False``.
        :raises InvalidInput: a value is wrong, or the content is blank; the message names the field.
        :raises NotFound: the parent does not exist in this namespace.
        """
        return self._written(
            self._writer.add(
                content, type=type, parent=parent, importance=importance, confidence=confidence, metadata=metadata,
                occurred_at=occurred_at, id=id,
            )
        )  # fmt: skip

    def add_many(self, items: Iterable[Mapping[str, Any]]) -> list[Node]:
        """Stores a batch in one transaction: all of it or, if anything is wrong with any item, nothing.

        :param items: mappings with ``content`` and, if wanted, the other arguments of :meth:`add`. ``parent`` may also
            be a whole number: the position of an earlier item of the batch, counted from 0.
        :raises InvalidInput: names the position, the field and what is accepted.
        """
        return self._written(self._writer.add_many(items))

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

    def move(self, id: str, parent: Parent, *, expected_version: int | None = None) -> Node:
        """Hangs a node, with all below it, under another parent.

        :raises InvalidInput: the root cannot move, and nothing can move below itself.
        """
        return self._written(self._writer.move(id, parent, expected_version=expected_version))

    def pin(self, id: str, pinned: bool = True) -> Node:
        """Protects a node from ever being forgotten, or (False) lifts that."""
        return self._written(self._writer.pin(id, pinned))

    # Tasks

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

    def switch_task(self, id: str) -> Node:
        """Makes an open or paused task the active one (a paused one is open again).

        :raises InvalidInput: it is not a task, or it is finished.
        """
        return self._written(self._tasks.switch(id))

    def update_task(
        self,
        id: str | None = None,
        *,
        title: str | None = None,
        next_step: str | None = None,
        status: str | None = None,
    ) -> Node:
        """Changes a task (None: the active one). Tell the next step before you take it: a crash then loses nothing.

        :param next_step: blank text takes it away.
        :param status: ``"open"`` (also opens a finished task again) or ``"paused"``.
        :raises NotFound: there is no active task, or no such node.
        """
        return self._written(self._tasks.update(id, title=title, next_step=next_step, status=status))

    def finish_task(self, id: str | None = None, *, status: str = "done", outcome: str | None = None) -> Node:
        """Finishes a task (None: the active one); its nearest open ancestor task becomes active.

        :param status: ``"done"`` or ``"failed"``.
        :param outcome: kept as an event under the task.
        """
        return self._written(self._tasks.finish(id, status=status, outcome=outcome))

    def active_task(self) -> Node | None:
        """The task that new memories of this agent hang under; None: the root."""
        return self._tasks.active()

    # Retrieving

    def search(
        self, query: str, k: int | None = None, *, scope: str = "auto", types: Sequence[str] | None = None
    ) -> SearchResult:
        """The memories that answer a query best, best first: locate (softly), gather, score, top k.

        :param query: any text; nothing in it is syntax.
        :param k: how many at most, ≥ 0; None: retrieval.k.
        :param scope: ``"auto"``: all of the namespace, the active task's subtree preferred a little; ``"namespace"``:
            without that; ``"task"``: only below the active task; or the id of a node: only at and below it.
        :param types: only nodes of these types.
        :return: hits with ``score``, ``score_details`` and ``explain()``; ``warnings`` say what was missing (the model
            could not be loaded: lexical and tree signals alone have ranked).
        """
        return self._recall.search(query, k, scope=scope, types=types)

    def context(
        self,
        query: str | None = None,
        *,
        token_budget: int | None = None,
        order: str | None = None,
        scope: str = "auto",
    ) -> Context:
        """The chain of the active task and the best memories, packed for a prompt within a token budget.

        :param query: None: the weights alone decide, as an agent needs right after resume().
        :param token_budget: tokens that ``text`` may have, all of it counted, ≥ 1; None: context.token_budget. Counted
            with o200k if bpe-openai is installed, else by an estimate that is on the safe side.
        :param order: ``"tree"``, ``"time"`` (oldest first) or ``"score"``; None: context.order.
        :param scope: as in :meth:`search`.
        """
        return self._recall.context(query, token_budget=token_budget, order=order, scope=scope)

    def weights(self, ids: Sequence[str]) -> dict[str, float]:
        """The weight in [0, 1] that each of these nodes has at this moment; ids that are not here are left out."""
        return self._recall.weights(ids)

    # Recovering

    def checkpoint(self, label: str | None = None) -> Checkpoint:
        """Marks this point in the log. Task changes, every N operations and every M seconds do so by themselves."""
        return self._recovery.checkpoint(label)

    def checkpoints(self) -> list[Checkpoint]:
        """All of them, newest first."""
        return self._recovery.checkpoints()

    def resume(self) -> ResumePoint:
        """Everything to go on with: active task and path, next step, decisions, what happened since the last
        checkpoint, and whether the last run of this agent was interrupted."""
        return self._recovery.resume()

    def operations(self, since: int = 0) -> list[Operation]:
        """The log after sequence number ``since``, oldest first."""
        return self._recovery.operations(since)

    # Files

    def export(self, file: str | Path, *, format: str = "jsonl") -> int:
        """Writes all memories of this namespace to a file, whole or not at all; returns how many.

        :param format: ``"jsonl"`` (loses nothing) or ``"tree"`` (the plain tree JSON of simple implementations).
        """
        return files.export(self._workspace, Path(file), format)

    def import_(self, file: str | Path, *, format: str = "auto", parent: Parent = "task") -> ImportReport:
        """Reads memories from a file, all of them or none; what is already there is skipped.

        :param format: ``"jsonl"``, ``"tree"``, ``"chat"`` (messages with role and content), or ``"auto"``.
        :param parent: where imported chat messages, and trees of another store, hang.
        """
        return self._written(files.import_(self._workspace, self._writer, Path(file), format, parent))

    # Operating

    def stats(self) -> Stats:
        """Numbers about this namespace, and what waits for its vector and why."""
        return observe.stats(self._workspace, self._model, self._indexer)

    def flush(self, timeout: float | None = None) -> int:
        """Embeds and indexes what waits, in this thread, and tries again what failed.

        :param timeout: seconds to work at most; None: until done. :return: how many still wait, e.g. since another
            process owns the index and will do it.
        """
        return self._indexer.drain(timeout, retry=True)

    def close(self) -> None:
        """Lets the index catch up for up to index.close_wait_seconds and closes. May be called more than once.

        Nothing depends on it: what is not indexed yet is durable and is indexed by the next process.
        """
        if self._closed:
            return
        self._closed = True
        workspace = self._workspace
        try:
            self._indexer.close(self.config.index.close_wait_seconds)
            if workspace.session is not None:
                with workspace.connections.write() as tx:
                    points.close_session(tx, workspace.session, workspace.now())
        finally:
            workspace.connections.close()

    def __enter__(self) -> Memory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Memory({str(self.path)!r}, namespace={self.namespace!r}, agent={self.agent!r})"

    def _written(self, result: T) -> T:
        """There is work for the indexer now."""
        if self.config.index.background:
            self._indexer.start()
            self._indexer.notify()
        return result

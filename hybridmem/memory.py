"""Memory: the one class users need. It wires the parts and hands each call to the file of its verb."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from hybridmem import config as configuration
from hybridmem import faults, files, inputs, keys, observe
from hybridmem.audit import audited
from hybridmem.audit_verbs import AuditVerbs
from hybridmem.chores import Chores
from hybridmem.config import Config
from hybridmem.embed import create_reranker
from hybridmem.embed.model import Model, choose
from hybridmem.encryption_verbs import EncryptionVerbs
from hybridmem.erase_verbs import EraseVerbs
from hybridmem.errors import InvalidInput
from hybridmem.filters import Filters
from hybridmem.forget_verbs import ForgetVerbs
from hybridmem.index.server import Server
from hybridmem.indexing import Indexer
from hybridmem.intake_verbs import IntakeVerbs
from hybridmem.ports import (
    Clock,
    Embedder,
    Extractor,
    ImportanceEstimator,
    KeyProvider,
    Reranker,
    Summarizer,
    SystemClock,
)
from hybridmem.recall import Recall
from hybridmem.recovery_verbs import RecoveryVerbs
from hybridmem.reembed import reembed
from hybridmem.results import Context, SearchResult
from hybridmem.share_verbs import ShareVerbs, with_doors
from hybridmem.store import layout, outbox, points
from hybridmem.store.connect import Connections
from hybridmem.store.workspace import Workspace
from hybridmem.summary_verbs import SummaryVerbs
from hybridmem.types import ImportReport, Namespace, ReembedReport, Stats
from hybridmem.verbs import TreeVerbs
from hybridmem.weight_verbs import WeightVerbs
from hybridmem.write import Parent

EMBEDDER_NAMES = ("identity", "embed_documents", "embed_query")


@with_doors
class Memory(
    TreeVerbs, WeightVerbs, IntakeVerbs, ForgetVerbs, RecoveryVerbs, SummaryVerbs, AuditVerbs, EncryptionVerbs,
    EraseVerbs, ShareVerbs,
):  # fmt: skip
    """The memory of one agent in one namespace of a store. Open it with :meth:`open`; a context manager.

    Safe to share between threads; several processes may open the same store at once. After a fork, open it again in
    the child. Every write is durable when it returns and does not wait for the embedding model, which follows behind.

    Any call may raise StoreBusy (another writer took longer than ``store.busy_timeout_seconds``), StoreFull,
    StoreDamaged or StoreClosed; a call that raises has changed nothing, and may be repeated.
    """

    def __init__(
        self,
        workspace: Workspace,
        model: Model,
        indexer: Indexer,
        reranker: Callable[[], Reranker] | None = None,
        importance_estimator: ImportanceEstimator | None = None,
        extractor: Extractor | None = None,
        summarizer: Summarizer | None = None,
    ) -> None:
        """Not for users: call :meth:`open`."""
        TreeVerbs.__init__(self, workspace, indexer, importance_estimator)
        WeightVerbs.__init__(self, workspace, self._writer)
        IntakeVerbs.__init__(self, workspace, indexer, self._writer, model, extractor)
        ForgetVerbs.__init__(self, workspace)
        RecoveryVerbs.__init__(self, workspace, indexer)
        AuditVerbs.__init__(self, workspace)
        SummaryVerbs.__init__(self, workspace, indexer, self._writer, self._claims, summarizer)
        EncryptionVerbs.__init__(self, workspace)
        EraseVerbs.__init__(self, workspace, indexer, self._writer, self._summarizer)
        indexer.chore = Chores(workspace, self._tending, self._backups, self._audit, self._cleansing).run
        self._model = model
        self._recall = Recall(workspace, model, indexer, reranker)
        ShareVerbs.__init__(self, workspace, indexer, model, self._recall, reranker, importance_estimator, extractor)
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
        reranker: Reranker | None = None,
        importance_estimator: ImportanceEstimator | None = None,
        extractor: Extractor | None = None,
        summarizer: Summarizer | None = None,
        clock: Clock | None = None,
        create: bool = True,
        master_key: KeyProvider | bytes | None = None,
    ) -> Memory:
        """Opens a store, or creates it. Cheap: loads neither the model nor Chroma.

        :param path: the directory of the store; made with mode 0700 if missing. With ``store.layout: separate`` the
            one below which each namespace has its own.
        :param namespace: whose memory this is: a tuple of names, matched whole. Another namespace sees nothing of it.
        :param agent: who writes; each agent has its own active task in a namespace.
        :param config: a YAML file, a mapping, a Config, or None for the defaults (see configs/default.yaml).
        :param embedder: an embedder of your own (see hybridmem.ports.Embedder); it wins over the configuration.
        :param reranker: a reranker of your own (see hybridmem.ports.Reranker): the last stage of every search, and of
            every context with a query; it wins over retrieval.reranker. If it fails on a query, the result is that of
            the stages before, and its warnings say so.
        :param importance_estimator: one of your own (see hybridmem.ports.ImportanceEstimator), asked for every memory
            that comes without an importance; it wins over the configuration. If it fails, the default stands.
        :param extractor: one of your own (see hybridmem.ports.Extractor): what it finds in the turns that are kept by
            :meth:`observe` is stored beside them; None: explicit words. If it fails, the turns are stored all the same.
        :param summarizer: a summariser of your own for consolidate() (see hybridmem.ports.Summarizer); it wins over
            consolidation.summarizer.
        :param clock: where the time comes from; None: the machine's clock.
        :param create: False: make neither the store nor the namespace, for programs that only read.
        :param master_key: of an encrypted store: 32 bytes, or a KeyProvider that has it elsewhere; it wins over
            encryption.key. A new store is made encrypted with it, and one that is not encrypted is refused.
        :raises EncryptionError: the store is encrypted and the master key is missing or another one, or it is not
            encrypted and should be; nothing has changed.
        :raises NotFound: with ``create=False``, there is no such store, or no such namespace in it.
        :raises InvalidInput: a bad namespace or agent, or the path is a file.
        :raises ConfigError: the configuration is wrong; the message names the file, the key and the nearest key.
        :raises RerankerUnavailable: retrieval.reranker is set, but sentence-transformers is not installed, or it is a
            path that leads to no model. A model that cannot be loaded raises it from the first search.
        :raises StoreDamaged: ``tree.db`` is not a hybridmem store. StoreTooNew: made by a later version.
        """
        settings = configuration.load(config)
        names, who = inputs.namespace(namespace), inputs.name("agent", agent)
        # On the type, since asking the object itself may load its model.
        if embedder is not None and not all(hasattr(type(embedder), name) for name in EMBEDDER_NAMES):
            raise InvalidInput("embedder: must have identity, embed_documents() and embed_query(); see ports.Embedder")
        if reranker is not None and not hasattr(type(reranker), "scores"):
            raise InvalidInput("reranker: must have scores(); see ports.Reranker")
        if importance_estimator is not None and not hasattr(type(importance_estimator), "importance"):
            raise InvalidInput("importance_estimator: must have importance(); see ports.ImportanceEstimator")
        if extractor is not None and not hasattr(type(extractor), "extract"):
            raise InvalidInput("extractor: must have extract(); see ports.Extractor")
        if summarizer is not None and not hasattr(type(summarizer), "summarize"):
            raise InvalidInput("summarizer: must have summarize(); see ports.Summarizer")
        ranker = create_reranker(settings.retrieval, settings.embedding) if reranker is None else lambda: reranker
        server = Server.of(settings.index)
        provider = keys.provider(settings.encryption, master_key)
        separate = settings.store.layout == "separate"
        connections = Connections(
            layout.place(inputs.path("path", path), names, settings.store.layout, create=create),
            durability=settings.store.durability,
            busy_timeout=settings.store.busy_timeout_seconds,
            create=create,
            secure_delete=settings.store.secure_delete,
            keys=provider,
            encrypt=settings.encryption.enabled or master_key is not None,
        )
        try:
            if separate:
                layout.refuse_others(connections, names)
            workspace = Workspace(connections, names, who, settings, clock or SystemClock(), create=create)
        except BaseException:
            connections.close()
            raise
        model = Model(connections, lambda known: choose(known, settings.embedding, embedder))
        indexer = Indexer.configured(connections, model, settings, server)
        return cls(workspace, model, indexer, ranker, importance_estimator, extractor, summarizer)

    @property
    def path(self) -> Path:
        """The directory of the store; with ``store.layout: separate`` that of this namespace."""
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

    # Retrieving

    @audited("scope", reads=True, keep=("k", "scope", "states", "trace"), query="query")
    def search(
        self,
        query: str,
        k: int | None = None,
        *,
        scope: str = "auto",
        types: Sequence[str] | None = None,
        states: Sequence[str] | None = None,
        since: Any = None,
        until: Any = None,
        metadata: Mapping[str, Any] | None = None,
        as_of: Any = None,
        trace: bool = False,
        shared: bool = True,
    ) -> SearchResult:
        """The memories that answer a query best, best first: locate (softly), gather, score, top k.

        :param query: any text; nothing in it is syntax.
        :param k: how many at most, ≥ 0; None: retrieval.k.
        :param scope: ``"auto"``: all of the namespace; an active task's subtree, and what is recent then, preferred.
            ``"namespace"``: without that; ``"task"``: only below the active task; or the id of a node: at and below it.
        :param types: only nodes of these types.
        :param states: only nodes in these states: live, archived, superseded, forgotten; None: live ones.
        :param since: only what happened from this moment on; a datetime (naive means UTC) or ISO 8601 text.
        :param until: only what happened before this moment.
        :param metadata: only nodes with each of these metadata values.
        :param as_of: search the memory as it was at this moment (given like ``since``; a date alone is 00:00 UTC): what
            was written later is not there, what was changed later is as it was, and recency, words such as "yesterday",
            the active task and every path are those of then. "Written" means by this store: what was imported, or
            happened earlier (``occurred_at``), is there from the moment it was stored. Of a content that has been
            replaced since no vector is kept: it is found by its words and in the tree. All in scope is scored exactly,
            so that it takes longer in a big store.
        :param trace: also tell which subtrees were located (``result.located``).
        :param shared: also what others share with this one (see :meth:`shared`), marked with ``node.owner``; not with
            ``scope="task"`` or ``as_of``. False: one's own alone.
        :return: hits with ``score``, ``score_details`` and ``explain()``; ``warnings`` say what was missing (the model
            could not be loaded: lexical and tree signals alone have ranked).
        """
        filters = Filters.of(types, since, until, metadata, states)
        return self._recall.search(query, k, scope=scope, trace=trace, filters=filters, as_of=as_of, shared=shared)

    @audited("scope", reads=True, keep=("token_budget", "order", "scope", "format", "states"), query="query")
    def context(
        self,
        query: str | None = None,
        *,
        token_budget: int | None = None,
        order: str | None = None,
        scope: str = "auto",
        format: str | None = None,
        types: Sequence[str] | None = None,
        states: Sequence[str] | None = None,
        since: Any = None,
        until: Any = None,
        metadata: Mapping[str, Any] | None = None,
        as_of: Any = None,
        shared: bool = True,
    ) -> Context:
        """The chain of the active task and the best memories, packed for a prompt within a token budget.

        :param query: None: the weights alone decide, as an agent needs right after resume().
        :param token_budget: tokens that ``text`` may have, all of it counted, ≥ 1; None: context.token_budget. Counted
            with o200k if bpe-openai is installed, else by an estimate that is on the safe side.
        :param order: ``"tree"``, ``"time"`` (oldest first) or ``"score"``; None: context.order.
        :param scope: as in :meth:`search`.
        :param format: ``"text"``, ``"markdown"``, ``"messages"`` (chat messages, see ``context.messages``) or
            ``"json"``; None: context.format.
        :param types: this and ``states``, ``since``, ``until``, ``metadata``: as in :meth:`search`. They choose among
            the memories; the chain of the active task is always shown.
        :param shared: as in :meth:`search`; what is another's is marked with its owner.
        :param as_of: as in :meth:`search`; the chain is that of the task that was active then, as it was.
        """
        filters = Filters.of(types, since, until, metadata, states)
        return self._recall.context(
            query, token_budget=token_budget, order=order, scope=scope, format=format, filters=filters, as_of=as_of,
            shared=shared,
        )  # fmt: skip

    @audited(reads=True)
    def weights(self, ids: Sequence[str]) -> dict[str, float]:
        """The weight in [0, 1] that each of these nodes has at this moment; ids that are not here are left out."""
        return self._recall.weights(ids)

    # Files

    @audited(keep=("format",))
    def export(self, file: str | Path, *, format: str = "jsonl", plain: bool = False) -> int:
        """Writes all memories of this namespace to a file, whole or not at all; returns how many.

        :param format: ``"jsonl"`` (every memory with all its fields, and the active pointers; not the log, old
            revisions or checkpoints) or ``"tree"`` (the plain tree JSON of simple implementations).
        :param plain: False: the file of an encrypted store is sealed, line by line, by its master key; import_() opens
            it again. True: anybody can read it.
        """
        return files.export(self._workspace, inputs.path("file", file), format, plain=plain)

    @audited("parent", keep=("format",))
    def import_(self, file: str | Path, *, format: str = "auto", parent: Parent = "task") -> ImportReport:
        """Reads memories from a file, all of them or none; what is already there is skipped, so that importing a file
        again, or a chat that has grown, adds only what is new.

        :param format: ``"jsonl"``, ``"tree"``, ``"chat"`` (messages with role and content), or ``"auto"``.
        :param parent: where imported chat messages, and trees of another store, hang.
        """
        return self._written(files.import_(self._workspace, self._writer, inputs.path("file", file), format, parent))

    # Operating

    @audited(reads=True)
    def stats(self) -> Stats:
        """Numbers about this namespace, and what waits for its vector and why."""
        return observe.stats(self._workspace, self._model, self._indexer, self._tending)

    @audited(reads=True)
    def pending(self) -> int:
        """How many nodes of this namespace still wait for their vector; cheap."""
        with self._workspace.read() as tx:
            return outbox.waiting(tx, self._workspace.id)

    @audited()
    def flush(self, timeout: float | None = None) -> int:
        """Embeds and indexes what waits, in this thread, and tries again what failed; writes the uses that wait.

        :param timeout: seconds to work at most; None: until done. :return: how many still wait, e.g. since another
            process owns the index and will do it.
        """
        wait = inputs.patience("timeout", timeout)
        self._workspace.flush_uses()
        self._workspace.flush_trail()
        return self._indexer.drain(wait, retry=True)

    @audited(keep=("batch_size",))
    def reembed(
        self, *, batch_size: int | None = None, progress: Callable[[int, int], None] | None = None
    ) -> ReembedReport:
        """Makes the configured embedding model that of the store: embeds every content anew, in all namespaces.

        What is done is kept after each batch: cut off at any moment, a second call goes on where the first stopped. The
        old vectors stay until the new ones are complete; then these take their place in one transaction, and the index
        is filled with them. Ids, contents and the tree are not touched, and other calls go on meanwhile.

        :param batch_size: memories per transaction, ≥ 1; None: index.batch_size.
        :param progress: called now and then with (memories done, memories in all).
        :raises EmbeddingUnavailable: the configured model cannot be loaded or reached; what is done is kept.
        """
        size = self.config.index.batch_size if batch_size is None else inputs.count("batch_size", batch_size)
        if size < 1:
            raise InvalidInput(f"batch_size: must be at least 1, not {size}")
        return reembed(self._workspace.connections, self._model, self._indexer, self.config, size, progress)

    def close(self) -> None:
        """Lets the index catch up for up to index.close_wait_seconds and closes. May be called more than once.

        Nothing depends on it: what is not indexed yet is durable and is indexed by the next process.
        """
        if self._closed:
            return
        workspace = self._workspace
        if workspace.connections.is_inherited:  # a fork: everything here belongs to the parent
            workspace.connections.close()
            return
        try:
            self._closed = True
            workspace.stop_flushing()
            if workspace.session is None:
                workspace.trail.end()
            workspace.flush_uses()
            workspace.flush_trail()
            if workspace.session is not None:  # a command that writes ends before the thread comes to it
                self._tending.run_if_due()
                self._audit.prune_if_due()
            faults.point("close.before_index")
            self._indexer.close(self.config.index.close_wait_seconds)
            faults.point("close.before_session")
            workspace.trail.end()
            if workspace.session is not None:
                with workspace.write_waiting() as tx:
                    points.close_session(tx, workspace.session, workspace.now(), resumed=workspace.resumed)
        except BaseException:
            self._indexer.close(0.0)  # interrupted, perhaps before it gave up the index, which others may want
            raise
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

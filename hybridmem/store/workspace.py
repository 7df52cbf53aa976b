"""What every verb works with: one namespace of one store, seen by one agent."""

from __future__ import annotations

import logging
import sqlite3
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

from hybridmem import faults
from hybridmem.audit import Call, Trail, Visit
from hybridmem.config import Config
from hybridmem.errors import HybridMemError, NotFound, StoreBusy, StoreClosed, StoreFull
from hybridmem.ports import Clock
from hybridmem.store import audit, log, points, tree, uses
from hybridmem.store.connect import Connections, Transaction
from hybridmem.store.processes import process_name
from hybridmem.store.rows import Key, dump, new_uid, to_micros
from hybridmem.types import ROOT_TYPE, Namespace
from hybridmem.uses import Uses

logger = logging.getLogger("hybridmem")

#: Seconds after which entries of the audit trail that could not be written at once are tried again.
RETRY_SECONDS = 1.0


class Workspace:
    """The connections of a store bound to a namespace and an agent; nothing here can change which.

    :param namespace: its tree is made, with its root, if it is not there.
    :param create: False: raise NotFound instead.
    """

    def __init__(
        self,
        connections: Connections,
        namespace: Namespace,
        agent: str,
        config: Config,
        clock: Clock,
        *,
        create: bool = True,
    ) -> None:
        self.connections = connections
        self.namespace = namespace
        self.agent = agent
        self.config = config
        self.clock = clock
        self.session: int | None = None
        #: Whether this run has been told that an earlier one was cut off.
        self.resumed = False
        #: What this handle has delivered, and not written yet.
        self.uses = Uses()
        #: Its ``moment``: what time it is for this thread while it writes.
        self.writing = threading.local()
        self.id = self._find_or_make(create)
        #: What the calls of this handle leave in the audit trail.
        self.trail = Trail(config.audit, self.now())
        self._later: threading.Timer | None = None

    @property
    def directory(self) -> Path:
        return self.connections.directory

    def now(self) -> int:
        """The time in microseconds since 1970 UTC. It stands still within a write, so that no moment divides one."""
        now = to_micros(self.clock.now())  # always read: a clock may stop a write in its middle, to show a crash
        moment: int | None = getattr(self.writing, "moment", None)
        return now if moment is None else moment

    def write(self) -> Transaction:
        """One durable transaction; the first one of a run also notes that the run began."""
        return WriteTransaction(self)

    def write_waiting(self) -> Transaction:
        """One durable transaction that is no write of this agent, and takes along what waits of the audit trail."""
        return _Recording(self)

    def read(self) -> Transaction:
        """One state of the store.

        :raises NotFound: the namespace has been erased, by whatever process.
        """
        return _Read(self)

    def check_there(self, tx: sqlite3.Connection) -> None:
        """:raises NotFound: the namespace has been erased since this handle was opened."""
        if not points.is_there(tx, self.id):
            raise NotFound("namespace: it has been erased since this handle was opened; open it again for an empty one")

    def record(self, tx: sqlite3.Connection, kind: str, node_uid: str | None, payload: dict[str, object]) -> int:
        """Logs an operation of this agent."""
        self.writing.about = node_uid
        return log.append(
            tx, self.id, kind=kind, node_uid=node_uid, agent=self.agent, at=self.now(), payload=dict(payload)
        )

    def write_uses(self, tx: sqlite3.Connection) -> dict[str, int]:
        """Takes the counts of what was delivered along in a write, and returns them: they are to be put back if that
        does not succeed. If they alone cannot be written, they wait on, and the write is none the worse for it."""
        counts = self.uses.take()
        if not counts:
            return counts
        try:
            tx.execute("SAVEPOINT uses")
            nodes = uses.add(tx, self.id, counts)
            if nodes:
                self.record(tx, uses.USE, None, {"nodes": nodes})
            tx.execute("RELEASE uses")
        except BaseException as error:
            self.uses.put_back(counts)
            if not isinstance(error, Exception) or not tx.in_transaction:  # given up by SQLite, on a full disk
                raise
            tx.execute("ROLLBACK TO uses")
            tx.execute("RELEASE uses")
            logger.warning("what was delivered could not be counted, and is tried again: %r", error)
            return {}
        return counts

    def flush_uses(self) -> None:
        """Writes the counts by themselves. If that fails they wait on: nobody's call is to fail with them."""
        counts: dict[str, int] = {}
        if not self.uses:
            return
        try:
            with self.write_waiting() as tx:
                counts = self.write_uses(tx)
        except HybridMemError as error:
            self.uses.put_back(counts)
            logger.info("what was delivered is not counted yet: %s", error)

    # The audit trail

    def succeeded(self, call: Call, counts: Mapping[str, Any], *, may_wait: bool) -> None:
        """A call has ended well: leaves its entry, unless its own transaction has done so."""
        if call.sequence is None:
            call.detail.update(counts)
            self._leave(call, may_wait)

    def failed(self, call: Call, error: BaseException, *, may_wait: bool) -> None:
        """A call has failed. One that had written before has its entry, and gets a second one that says how it ended:
        what it wrote stays. Nothing is raised, since the caller has an error already."""
        began = {} if call.sequence is None else {"began": call.sequence}
        said = Call(call.verb, call.at, call.node, call.makes, {**call.detail, **began}, call.query)
        said.outcome = type(error).__name__
        try:
            said.at = self.now() if said.at is None else said.at
            is_hopeless = isinstance(error, (StoreBusy, StoreFull, StoreClosed)) or not isinstance(error, Exception)
            self._leave(said, may_wait or is_hopeless)
        except Exception as problem:
            logger.warning("the audit trail has no entry of a call that failed: %r", problem)

    def write_trail(
        self, tx: sqlite3.Connection, call: Call | None, before: int
    ) -> tuple[Sequence[Call], Sequence[Visit]]:
        """Writes the entries that wait, and that of the call that is writing; returns them.

        :param before: the number of the last operation of the log before the call.
        """
        own = []
        if call is not None:
            self.trail.begin()
            own = [replace(call, detail=dict(call.detail))]  # if this is rolled back, the call has said nothing yet
            last = log.head(tx, self.id)[0]
            if last > before:
                own[0].detail["operations"] = [before + 1, last]
                if call.makes and call.node is None:
                    own[0].node = self.writing.about
        calls = [*self.trail.waiting(), *own]
        if calls:
            audit.append(tx, self.id, self.agent, self.now(), calls, self.config.audit.queries)
        visits = self.trail.visits()
        for one in visits:
            audit.append(tx, one.namespace, one.agent, self.now(), [one.call], "none")
        return calls, visits

    def flush_trail(self) -> None:
        """Writes the entries that wait. If that fails they wait on: nobody's call is to fail with them."""
        if not len(self.trail):
            return
        try:
            with self.write_waiting():
                pass
            faults.point("audit.after_flush")
        except HybridMemError as error:
            logger.info("the audit trail is not written yet: %s", error)

    def _leave(self, call: Call, may_wait: bool) -> None:
        self.trail.wait(call)
        if not may_wait or self.config.audit.flush_seconds == 0:
            self.flush_trail()
        self._flush_later()

    def _flush_later(self) -> None:
        """Has a thread write what waits, and try it again until it is written."""
        if not len(self.trail) or self._later is not None or not self.config.index.background:
            return
        self._later = later = threading.Timer(
            self.config.audit.flush_seconds or RETRY_SECONDS, _flush_now, [weakref.ref(self)]
        )
        later.daemon = True
        later.start()

    def flush_now(self) -> None:
        """What that thread does."""
        self._later = None
        self.flush_trail()
        self._flush_later()

    def stop_flushing(self) -> None:
        """Nothing is written later any more: the handle is being closed."""
        if self._later is not None:
            self._later.cancel()

    def point(
        self, tx: sqlite3.Connection, task: Key | None, node: Key | None, *, agent: str | None = None
    ) -> dict[str, list[str | None]]:
        """Sets the active task and node of an agent (None: of this one); returns what the log is to say of it."""
        faults.point("task.before_pointer")
        who = self.agent if agent is None else agent
        points.set_active(tx, self.id, who, task.id if task else None, node.id if node else None)
        return {who: [task.uid if task else None, node.uid if node else None]}

    def checkpoint(self, tx: sqlite3.Connection, reason: str, label: str | None = None) -> int:
        """Writes a checkpoint of this agent's position; returns its number.

        Costs the same at any size of the store: the digest is the head of the hash-chained log, which determines
        the tree, and the decision path reads decisions only.
        """
        sequence, digest = log.head(tx, self.id)
        task_id, node_id = points.active(tx, self.id, self.agent)
        task = tree.by_id(tx, task_id) if task_id else None
        decisions = points.below(tx, self.id, task, "decision") if task else []
        return points.add_checkpoint(
            tx,
            self.id,
            label=label,
            reason=reason,
            sequence=sequence,
            at=self.now(),
            agent=self.agent,
            active_task=task.uid if task else None,
            active_node=tree.by_id(tx, node_id).uid if node_id else None,
            decision_path=dump([decision.id for decision in reversed(decisions)]),
            nodes=points.node_count(tx, self.id),
            digest=digest,
        )

    def checkpoint_if_due(self, tx: sqlite3.Connection) -> None:
        """The automatic checkpoint: after N operations, or at the first write after M seconds."""
        rule = self.config.checkpoint
        sequence, at = points.last_checkpoint(tx, self.id)
        head, _ = log.head(tx, self.id)
        by_count = rule.every_operations > 0 and head - sequence >= rule.every_operations
        # A checkpoint that lies ahead is none to wait for: the clock has been set back since.
        by_time = rule.every_seconds > 0 and at > 0 and abs(self.now() - at) >= rule.every_seconds * 1_000_000
        if by_count or by_time:
            self.checkpoint(tx, "operations" if by_count else "time")

    def root(self, tx: sqlite3.Connection) -> Key:
        return tree.root(tx, self.id)

    def reachable(self, key: Key, verb: str) -> Key:
        """The key itself, of what encloses a node that is to go elsewhere.

        :raises AccessDenied: a guest (hybridmem.guest) has no business there.
        """
        return key

    def start(self, tx: sqlite3.Connection, id: str | None, field: str = "id") -> Key:
        """The node with this id, or the root for None: where reading along the tree begins."""
        return self.root(tx) if id is None else tree.key(tx, self.id, id, field=field)

    def _find_or_make(self, create: bool) -> int:
        with self.connections.read() as tx:
            found = points.namespace_id(tx, self.namespace)
        if found is not None:
            return found
        if not create:
            name = "/".join(self.namespace)
            raise NotFound(f"namespace: there is no {name!r} in this store; writing to it makes one")
        with self.connections.write() as tx:
            # Another process may have made it since.
            found = points.namespace_id(tx, self.namespace)
            if found is not None:
                return found
            now = self.now()
            made = points.make_namespace(tx, self.namespace, now)
            root, revision = tree.insert(
                tx, made, None, uid=new_uid(), type=ROOT_TYPE, content="/".join(self.namespace), structured=False,
                metadata={}, importance=0.5, confidence=1.0, agent=self.agent, terms=0, speaker="", at=now,
            )  # fmt: skip
            log.append(
                tx, made, kind="namespace", node_uid=root.uid, agent=self.agent, at=now,
                payload={
                    "version": 1, "namespace": list(self.namespace), "revision": revision, "type": ROOT_TYPE,
                    "importance": 0.5, "confidence": 1.0,
                },
            )  # fmt: skip
            faults.point("namespace.before_commit")
            return made


class _Read(Transaction):
    """Of :meth:`Workspace.read`."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace.connections, writing=False)
        self._workspace = workspace

    def _begin(self, caller: FrameType) -> sqlite3.Connection:
        tx = super()._begin(caller)
        self._workspace.check_there(tx)
        return tx


def _flush_now(known: weakref.ref[Workspace]) -> None:
    """Knows no handle: one that nobody holds any more must be gone at once, with its lock on the store."""
    workspace = known()
    if workspace is not None:
        workspace.flush_now()


class _Recording(Transaction):
    """Of :meth:`Workspace.write_waiting`."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace.connections, writing=True)
        self._workspace = workspace
        #: The call whose entry this transaction has; None: it has another, or none.
        self._call: Call | None = None
        #: The number of the last operation before it.
        self._before = 0
        self._entries: Sequence[Call] = ()
        self._visits: Sequence[Visit] = ()

    def _commit(self) -> None:
        if self._held is not None and self._held.transaction is self:
            self._entries, self._visits = self._workspace.write_trail(self._held.conn, self._call, self._before)
        super()._commit()

    def _end(self) -> None:
        try:
            if (self._entries or self._visits) and not self._is_undone:
                self._workspace.trail.written(self._entries, self._visits)
                if self._call is not None:
                    self._call.sequence = self._entries[-1].sequence
            self._entries, self._visits = (), ()
        finally:
            super()._end()


class WriteTransaction(_Recording):
    """Of :meth:`Workspace.write`."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self._opens_session = False
        self._stops_time = False
        self._counted: dict[str, int] = {}

    def _begin(self, caller: FrameType) -> sqlite3.Connection:
        tx, workspace = super()._begin(caller), self._workspace
        workspace.check_there(tx)
        self._stops_time = True
        workspace.writing.moment = to_micros(workspace.clock.now())
        if workspace.session is None:
            self._opens_session = True
            workspace.session = points.open_session(tx, workspace.id, workspace.agent, process_name(), workspace.now())
        # First of all, as it was delivered before: a restore takes it back, and a checkpoint has it.
        self._counted = workspace.write_uses(tx)
        call = workspace.trail.current
        if call is not None and call.sequence is None:
            self._call, self._before = call, log.head(tx, workspace.id)[0]
            workspace.writing.about = None
        return tx

    def _end(self) -> None:
        try:
            if self._opens_session and self._is_undone:
                self._workspace.session = None  # while the others still wait for the lock
            if self._counted and self._is_undone:
                self._workspace.uses.put_back(self._counted)
            self._counted = {}
            if self._stops_time:
                self._workspace.writing.moment = None
        finally:
            super()._end()

"""What every verb works with: one namespace of one store, seen by one agent."""

from __future__ import annotations

import logging
import os
import socket
import sqlite3
import threading
from pathlib import Path
from types import FrameType

from hybridmem import faults
from hybridmem.config import Config
from hybridmem.errors import HybridMemError, NotFound
from hybridmem.ports import Clock
from hybridmem.store import log, points, tree, uses
from hybridmem.store.connect import Connections, Transaction
from hybridmem.store.rows import Key, dump, new_uid, to_micros
from hybridmem.types import ROOT_TYPE, Namespace
from hybridmem.uses import Uses

logger = logging.getLogger("hybridmem")


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
        return _Write(self)

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
            with self.connections.write() as tx:
                counts = self.write_uses(tx)
        except HybridMemError as error:
            self.uses.put_back(counts)
            logger.info("what was delivered is not counted yet: %s", error)

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

    def start(self, tx: sqlite3.Connection, id: str | None) -> Key:
        """The node with this id, or the root for None: where reading along the tree begins."""
        return self.root(tx) if id is None else tree.key(tx, self.id, id)

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


class _Write(Transaction):
    """Of :meth:`Workspace.write`."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace.connections, writing=True)
        self._workspace = workspace
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


def process_name() -> str:
    """Identifies this process on this machine, safe against reuse of its number."""
    return f"{socket.gethostname()}:{os.getpid()}:{_started(os.getpid())}"


def is_running(process: str) -> bool:
    """Whether the process of a session still lives. One on another machine counts as living: we cannot know."""
    host, pid, started = process.rsplit(":", 2)
    if host != socket.gethostname():
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it exists and belongs to somebody else
    return _started(int(pid)) == started


def _started(pid: int) -> str:
    """The start time of a process in clock ticks since boot, '' where the system does not tell (or a zombie's '')."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return ""
    return "" if fields[0] == "Z" else fields[19]

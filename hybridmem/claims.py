"""Where a task is claimed, so that two agents that have resumed it do not take the same step twice.

A claim is a lease: it ends by itself, so that nobody waits for ever for a process that was killed. Its token is a
fencing token (Kleppmann 2016, "How to do distributed locking"): it rises with every claim of the store, so that
whatever the agent works on outside can refuse one that is lower than another it has seen.
"""

from __future__ import annotations

import sqlite3

from hybridmem import inputs
from hybridmem.errors import InvalidInput, NotFound, TaskClaimed, shown
from hybridmem.store import claims, points, tree
from hybridmem.store.claims import Held
from hybridmem.store.processes import is_running
from hybridmem.store.rows import Key, from_micros
from hybridmem.store.workspace import Workspace
from hybridmem.types import TASK_TYPE, Claim
from hybridmem.write import refuse_forgotten

#: Seconds that a claim may last at most: a day.
LONGEST = 86_400.0


class Claims:
    """The claim verbs of one workspace; see :class:`hybridmem.Memory` for what each promises."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def claim(self, id: str | None, *, seconds: float, token: int | None, outlives: bool) -> Claim:
        lasts, outlives = inputs.seconds("seconds", seconds, LONGEST), inputs.flag("outlives", outlives)
        known = None if token is None else inputs.count("token", token)
        workspace = self._workspace
        with workspace.write() as tx:
            key = self.task_key(tx, id)
            status = points.task(tx, key)
            if status is None or status[0] in ("done", "failed"):
                raise InvalidInput(f"id: the task {key.uid!r} is finished; there is nothing to claim")
            self.must_be_free(tx, key, known)
            held, session = claims.of(tx, key.id), workspace.session
            assert session is not None  # a write opens it
            until = workspace.now() + int(lasts * 1_000_000)
            if held is not None and self._is_mine(held, known):
                token = held.token
                claims.extend(tx, token, session, outlives=outlives, until=until)
            else:
                token = claims.take(tx, key.id, session, outlives=outlives, until=until)
            workspace.record(tx, "task.claim", key.uid, {"token": token, "until": until})
            return Claim(key.uid, workspace.agent, token, from_micros(until))

    def release(self, id: str | None, *, token: int | None) -> bool:
        known = None if token is None else inputs.count("token", token)
        with self._workspace.write() as tx:
            key = self.task_key(tx, id)
            held = claims.of(tx, key.id)
            if held is None:
                return False
            self.must_be_free(tx, key, known)
            claims.drop(tx, key.id)
            self._workspace.record(tx, "task.release", key.uid, {"token": held.token})
            return True

    def of(self, tx: sqlite3.Connection, key: Key) -> Claim | None:
        """Who has claimed a task, if anybody has now."""
        held = claims.of(tx, key.id)
        if held is None or not self._holds(held):
            return None
        return Claim(key.uid, held.agent, held.token, from_micros(held.until))

    def must_be_free(self, tx: sqlite3.Connection, key: Key, token: int | None) -> None:
        """:raises TaskClaimed: another run has claimed the task, and ``token`` is not that claim's.
        :raises InvalidInput: ``token`` is that of a claim which is over: somebody else may have had the task since."""
        held = claims.of(tx, key.id)
        if held is not None and self._is_mine(held, token):
            return
        if held is None or not self._holds(held):
            if token is not None:
                raise InvalidInput(
                    f"token: {shown(token)} is not that of the last claim on {key.uid!r}, which is free now; look at "
                    "the task again, and claim it anew without a token"
                )
            return
        until = from_micros(held.until)
        raise TaskClaimed(
            f"{key.uid}: is claimed by another run of agent {held.agent!r} until {until.isoformat()}; work on another "
            "task, wait, or give the token of that claim",
            agent=held.agent,
            until=until,
        )

    def task_key(self, tx: sqlite3.Connection, id: str | None) -> Key:
        """The key of a task, or for None of the active one."""
        if id is not None:
            key = refuse_forgotten("id", tree.key(tx, self._workspace.id, id))
            if key.type != TASK_TYPE:
                raise InvalidInput(f"id: {key.uid!r} is a {key.type}, not a task")
            return key
        task_id, _ = points.active(tx, self._workspace.id, self._workspace.agent)
        if task_id is None:
            raise NotFound("task: this agent has no active task; name one, or start one with start_task()")
        return tree.by_id(tx, task_id)

    def _is_mine(self, held: Held, token: int | None) -> bool:
        return held.token == token or held.session == self._workspace.session

    def _holds(self, held: Held) -> bool:
        """Until its time is over, and no longer than the run that made it, unless it is to outlive that. What ends
        further ahead than any claim can was made before the clock was set back."""
        left = held.until - self._workspace.now()
        if not 0 < left <= 2 * LONGEST * 1_000_000:
            return False
        return held.outlives or not (held.closed or not is_running(held.process))

"""Where it is decided what one namespace may see and do in another: one resolver, asked in every transaction.

A guest is a :class:`Workspace` on the owner's namespace of which only the shared branches can be addressed. It is made
for one call. Each of its transactions first asks, in the state of the store that it reads, which grants are in effect,
so that the call after a revocation, or after the end of a grant, finds nothing, in whatever process.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import FrameType

from hybridmem.audit import Call, Trail, Visit
from hybridmem.errors import AccessDenied, NotFound
from hybridmem.inputs import MAX_NAME
from hybridmem.principals import Principal, at_least
from hybridmem.store import grants, tree
from hybridmem.store.connect import Transaction
from hybridmem.store.grants import Granted
from hybridmem.store.rows import Key, Part, dump
from hybridmem.store.workspace import Workspace, WriteTransaction
from hybridmem.types import Namespace, Node
from hybridmem.uses import Uses


def stored(principal: Principal) -> str:
    """A principal as it is stored, see hybridmem.store.grants."""
    if principal.kind == "group":
        return dump(["group", principal.name])
    names = list(principal.names)
    return dump(["user", names] if principal.kind == "user" else ["agent", names, principal.name])


@dataclass(frozen=True, slots=True)
class Place:
    """A node of another namespace that is shared with this one, and all the grants in effect that reach it."""

    key: Key
    owner: Namespace
    namespace: int
    grants: tuple[Granted, ...]

    @property
    def rights(self) -> str:
        return max((one.rights for one in self.grants), key=("read", "write", "admin").index)


class Resolver:
    """What is shared with one workspace, as it is in a transaction."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        me = (Principal.user(workspace.namespace), Principal.agent(workspace.namespace, workspace.agent))
        self._principals = [stored(one) for one in me]
        # Grant → up to which entry its owner's log was read for the latest time, and that time.
        self._latest: dict[str, tuple[int, int]] = {}

    def in_effect(self, tx: sqlite3.Connection) -> list[Granted]:
        """The grants to this workspace that hold now, the oldest first. One indexed look-up where there are none."""
        found = grants.given_to(tx, self._principals, self._workspace.id)
        return [one for one in found if not self.is_over(tx, one)]

    def is_over(self, tx: sqlite3.Connection, grant: Granted) -> bool:
        """Whether a grant has ended: by the clock, or by any time that its owner's log has noted since it was given, so
        that a clock that is set back does not bring it back."""
        if grant.expires_at is None:
            return False
        if self._workspace.now() >= grant.expires_at:
            return True
        after, before = self._latest.get(grant.uid, (grant.sequence, 0))
        sequence, at = grants.latest(tx, grant.namespace, after)
        latest = max(at, before)
        self._latest[grant.uid] = (sequence, latest)
        return latest >= grant.expires_at

    def place(self, tx: sqlite3.Connection, id: str) -> Place | None:
        """Where a public id leads that is not one of this namespace; of several owners the one who gave first."""
        given = self.in_effect(tx)
        if not given or tree.find(tx, self._workspace.id, id) is not None:
            return None
        for namespace in dict.fromkeys(one.namespace for one in given):
            key = tree.find(tx, namespace, id)
            if key is None:
                continue
            over = tuple(one for one in given if one.namespace == namespace and key.path.startswith(one.top.path))
            if over and reached(over, key.path, key.state):
                return Place(key, over[0].owner, namespace, over)
        return None

    def shown(self, tx: sqlite3.Connection, node: Node, namespace: int) -> Node | None:
        """A node of another namespace as this one may see it: with its owner, and without ids and depths of what is
        not shared. None: it is not shared, or not any more."""
        given = [one for one in self.in_effect(tx) if one.namespace == namespace]
        part = Part(namespace)
        part.branches = branches(given)
        key = tree.find(tx, part, node.id)
        if key is None:
            return None
        top = min((one.top.depth for one in given if key.path.startswith(one.top.path)), default=0)
        return replace(
            node,
            owner=given[0].owner,
            depth=key.depth - top,
            parent_id=_seen(tx, part, node.parent_id),
            replaced_by=_seen(tx, part, node.replaced_by),
        )


def _seen(tx: sqlite3.Connection, part: Part, id: str | None) -> str | None:
    return id if id is not None and tree.find(tx, part, id) is not None else None


def branches(given: Sequence[Granted], need: str = "read") -> tuple[tuple[str, bool], ...]:
    """Of grants in one namespace: the paths that they open for ``need``, each with whether what is not live is seen."""
    return tuple((one.top.path, at_least(one.rights, "write")) for one in given if at_least(one.rights, need))


def reached(given: Sequence[Granted], path: str, state: str) -> bool:
    """Whether a node is there for whoever has these grants in its namespace."""
    return any(path.startswith(top) and (state == "live" or whole) for top, whole in branches(given))


def tops(given: Sequence[Granted]) -> list[Granted]:
    """The grants whose subtree lies in that of no other; of several with the same top the first."""
    found: list[Granted] = []
    for one in sorted(given, key=lambda grant: (grant.namespace, len(grant.top.path), grant.id)):
        if not any(one.namespace == top.namespace and one.top.path.startswith(top.top.path) for top in found):
            found.append(one)
    return sorted(found, key=lambda grant: grant.id)


def label(workspace: Workspace) -> str:
    """What the owner's log calls a guest: ``agent:acme/li-si:bot``; no longer than the name of an agent may be."""
    said = str(Principal.agent(workspace.namespace, workspace.agent))
    return (
        said if len(said) <= MAX_NAME else f"{said[: MAX_NAME - 50]}…{hashlib.sha256(said.encode()).hexdigest()[:40]}"
    )


class Guest(Workspace):
    """The workspace of one call in another's namespace; see the module.

    It has no active task or node of its own there, opens no run, makes no checkpoints and counts no uses: nothing of
    the owner's is moved by being read.
    """

    id: Part

    def __init__(self, host: Workspace, resolver: Resolver, namespace: int, owner: Namespace, need: str) -> None:
        """:param need: the right that every transaction needs."""
        self.connections = host.connections
        self.namespace = owner
        self.agent = label(host)
        self.config = host.config
        self.clock = host.clock
        self.session = 0
        self.resumed = True
        self.uses = Uses()
        self.writing = threading.local()
        self.trail = _GuestTrail(host.config.audit, host.now())
        self._host = host
        self._later = None
        self.id = Part(namespace)
        self.need = need
        self.resolver = resolver

    def admit(self, tx: sqlite3.Connection) -> None:
        """:raises NotFound: nothing is shared for that any more."""
        self.id.branches = ()
        given = [one for one in self.resolver.in_effect(tx) if one.namespace == int(self.id)]
        self.id.branches = branches(given, self.need)
        if not self.id.branches:
            raise NotFound("id: there is no such node in this namespace")

    def told_owner(self, call: Call) -> None:
        """The owner's audit trail gets an entry of what was read here: like those of one's own reading calls it waits,
        in the handle of the guest."""
        self._host.trail.visited(Visit(int(self.id), self.agent, call))

    def write(self) -> Transaction:
        return _GuestWrite(self)

    def read(self) -> Transaction:
        return _GuestRead(self)

    def checkpoint_if_due(self, tx: sqlite3.Connection) -> None:
        """Left to the owner, by whose configuration they are made."""

    def point(
        self, tx: sqlite3.Connection, task: Key | None, node: Key | None, *, agent: str | None = None
    ) -> dict[str, list[str | None]]:
        """Others' pointers follow what is moved or forgotten; a guest has none."""
        return {} if agent is None else super().point(tx, task, node, agent=agent)

    def root(self, tx: sqlite3.Connection) -> Key:
        """:raises NotFound: always: what a guest reads or writes has to be named."""
        raise NotFound("parent: what is shared has to be named by its id")

    def reachable(self, key: Key, verb: str) -> Key:
        if not self.id.reaches(key.path):
            who = "/".join(self.namespace)
            raise AccessDenied(f"id: is the top of what is shared; only {who} can {verb} it")
        return key


class _GuestTrail(Trail):
    """What a guest leaves in the owner's audit trail by itself: its writes, in their transactions. What it has read is
    told there by the handle that it belongs to."""

    def begin(self) -> None:
        """It opens nothing."""

    def wants(self, reads: bool) -> bool:
        return not reads and super().wants(reads)


class _GuestRead(Transaction):
    def __init__(self, guest: Guest) -> None:
        super().__init__(guest.connections, writing=False)
        self._guest = guest

    def _begin(self, caller: FrameType) -> sqlite3.Connection:
        tx = super()._begin(caller)
        self._guest.admit(tx)
        return tx


class _GuestWrite(WriteTransaction):
    def __init__(self, guest: Guest) -> None:
        super().__init__(guest)
        self._guest = guest

    def _begin(self, caller: FrameType) -> sqlite3.Connection:
        tx = super()._begin(caller)
        self._guest.admit(tx)
        return tx

"""One object per store directory and process holds its vectors, and all handles of the process share it."""

from __future__ import annotations

import os
import threading
import weakref
from pathlib import Path

from hybridmem.errors import IndexUnavailable
from hybridmem.index.projection import Projection
from hybridmem.index.served import Served
from hybridmem.index.server import Server
from hybridmem.store.connect import Connections

Vectors = Projection | Served

_guard = threading.Lock()
#: Real path of a store → who holds its vectors, and for whom.
_registry: dict[str, tuple[Vectors, weakref.WeakSet[object]]] = {}


def _forget_in_child() -> None:
    """After a fork: the guard may be held by a thread that does not exist here, and the objects are the parent's."""
    global _guard
    _guard = threading.Lock()
    _registry.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)


def share(directory: Path, server: Server | None, user: object) -> Vectors:
    """What holds the vectors of the store in ``directory`` for this process; give it back with :func:`give_back`.

    :param user: who uses it. Asking again counts once, so a call that was interrupted may be repeated.
    :raises IndexUnavailable: another handle of this process has its vectors in another place.
    """
    with _guard:
        key = os.path.realpath(directory)
        found, users = _registry.get(key) or (None, weakref.WeakSet())
        if found is None:
            found = Projection(directory) if server is None else Served(directory, server)
        elif found.server != server:
            raise IndexUnavailable(
                f"index.url is {server and server.url!r}, but another handle of this process has the vectors of this "
                f"store at {found.server and found.server.url!r}; one of them has to go"
            )
        users.add(user)
        _registry[key] = (found, users)
        return found


def at_hand(directory: Path) -> Projection:
    """The files of a store as this process has them, or for looking only."""
    with _guard:
        found, _ = _registry.get(os.path.realpath(directory)) or (None, None)
        return found if isinstance(found, Projection) else Projection(directory)


def give_back(directory: Path, connections: Connections, user: object) -> None:
    """Ends the share of a user; the last one closes the index and lets other processes have it."""
    with _guard:
        key = os.path.realpath(directory)
        found, users = _registry.get(key) or (None, weakref.WeakSet())
        users.discard(user)
        if found is None or users:
            return
        del _registry[key]
    found.close(connections)

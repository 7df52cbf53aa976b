"""Where the vectors of a store are, as SQLite knows it, and how its collections on a server are called."""

from __future__ import annotations

import secrets
import sqlite3
from dataclasses import dataclass
from hashlib import sha256

from hybridmem.store import points
from hybridmem.store.connect import Connections
from hybridmem.store.rows import dump

#: Store setting: where the vectors were taken last, [url or null, key of the model]. What is anywhere else is outdated.
PLACE = "index_of"
#: Store setting: {"id", "inode"}, what the names of collections are made of, and of which file.
STORE = "index_store"
#: Store setting, one per namespace: [collection, pushes].
POINTER = "index_server:"


@dataclass(frozen=True, slots=True)
class Pointer:
    """``name`` of the collection that has the vectors of a namespace, and how many ``pushes`` changed it."""

    name: str
    pushes: int


def claim(connections: Connections, url: str, model_key: str) -> None:
    """The owner will take the vectors of this model to this server. Pointers to anything else go; and a store that is
    the copy of another gets its own id."""
    place, inode = [url, model_key], connections.database.stat().st_ino
    with connections.write() as tx:
        store = points.setting(tx, STORE)
        if store is None or store["inode"] != inode:
            points.set_setting(tx, STORE, {"id": secrets.token_hex(16), "inode": inode})
        if points.setting(tx, PLACE) != place:
            points.drop_settings(tx, POINTER)
            points.set_setting(tx, PLACE, place)


def find(connections: Connections, namespace: int, model_key: str) -> Pointer | None:
    """Where the vectors of a namespace are; None: nowhere as vectors of this store and this model."""
    with connections.read() as tx:
        stem, found = _stem(tx, connections, namespace), points.setting(tx, f"{POINTER}{namespace}")
    if stem is None or found is None or not found[0].startswith(_of_model(stem, model_key)):
        return None
    return Pointer(found[0], found[1])


def save(tx: sqlite3.Connection, namespace: int, pointer: Pointer) -> None:
    points.set_setting(tx, f"{POINTER}{namespace}", [pointer.name, pointer.pushes])


def next_name(connections: Connections, namespace: int, model_key: str, old: Pointer | None) -> tuple[str, str]:
    """How the names of all collections of a namespace begin, whatever the model, and the name of one that is to replace
    the ``old``. The store must have been claimed."""
    with connections.read() as tx:
        stem = _stem(tx, connections, namespace)
    assert stem is not None
    generation = 1 if old is None else 1 + int(old.name.rsplit("-", 1)[1])
    return stem, f"{_of_model(stem, model_key)}{generation}"


def _stem(tx: sqlite3.Connection, connections: Connections, namespace: int) -> str | None:
    """None as long as no owner has given the store an id."""
    store = points.setting(tx, STORE)
    if store is None or store["inode"] != connections.database.stat().st_ino:
        return None
    return f"hm-{_digest(store['id'] + dump(list(points.namespaces(tx)[namespace])), 32)}-"


def _of_model(stem: str, model_key: str) -> str:
    return f"{stem}{_digest(model_key, 12)}-"


def _digest(text: str, length: int) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:length]

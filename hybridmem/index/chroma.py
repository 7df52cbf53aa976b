"""Chroma, embedded or on a server: the only place that uses chromadb, and that knows what it raises.

What this file guards against, all of it measured with chromadb 1.5.9:

- ``import chromadb`` can fail or be redirected by its surroundings: see ``chroma_import``.
- Two clients on one directory lose vectors, in one process too if the path is spelt differently. So there is one client
  per real path and process, counted; between processes, hold an ``OwnerLock``.
- After a fork the engine's threads are gone and every call hangs: a child of a process that used Chroma is refused.
- ``get_or_create_collection`` silently keeps another metric; a NaN query gives an arbitrary order; documents stay on
  disk after deletion, so none are ever handed over.
- Errors are of chromadb, of httpx, of Python and of Rust (panics are no ``Exception``): all become IndexUnavailable.
- ``chromadb.HttpClient`` waits for ever, and asks the server before it is used: ``ServerClient`` does neither.
"""

from __future__ import annotations

import importlib
import json
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from hybridmem.errors import IndexUnavailable
from hybridmem.index.chroma_import import import_chromadb, settings
from hybridmem.index.exact import checked_query, checked_vectors
from hybridmem.index.server import Server
from hybridmem.ports import Vectors

#: Chroma takes at most 5,461 records per call.
BATCH = 5_000
#: ``ef_search`` 200 keeps recall near 1 up to k = 200 (default 100); ``sync_threshold`` 1000 writes the files rarely,
#: which is when a crash can tear them, without making single writes slow.
HNSW = {"space": "cosine", "ef_search": 200, "sync_threshold": 1_000}
#: Key of the number that is noted with a collection.
MARK = "pushes"

_lock = threading.RLock()
_shared: dict[str, _Shared] = {}
#: Process in which Chroma's threads run, or None.
_engine_process: int | None = None


def _forget_in_child() -> None:
    """After a fork the lock may be held by a thread that exists in the parent only."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)


def collection_name(namespace: tuple[str, ...], model_key: str) -> str:
    """The collection of a namespace and an embedding model: the same for the same input, different for any other.

    Hashed, because Chroma allows 3 to 512 of ``[a-zA-Z0-9._-]`` only and namespaces may hold anything.
    """
    exact = json.dumps([list(namespace), model_key], ensure_ascii=True, separators=(",", ":"))
    return f"hm-{sha256(exact.encode('ascii')).hexdigest()[:48]}"


class ChromaIndex:
    """A ``VectorIndex`` in one Chroma collection, cosine. Safe to share between threads; not over a fork.

    For a directory the caller must hold its ``OwnerLock`` for as long as this is open; for a server, to write.
    """

    def __init__(self, place: Path | ServerClient, collection: str, dimension: int, *, create: bool = True) -> None:
        """Opens or creates; imports chromadb (1.2 s) the first time.

        :param place: the directory of the index, made with mode 0700 if missing; or a server, which stays open.
        :param collection: see ``collection_name``.
        :param dimension: width of every vector, ≥ 1.
        :param create: False: raise IndexUnavailable if there is no such collection.
        :raises IndexUnavailable: chromadb cannot be imported or opened, the server does not answer, or the collection
            has another metric or width.
        """
        self._name = collection
        self._dimension = dimension
        self._process = os.getpid()
        self._client: Client | ServerClient | None = open_client(place) if isinstance(place, Path) else place
        try:
            with engine("open the index"):
                chroma = self._client.chroma
                self._collection = (
                    chroma.get_or_create_collection(
                        collection, embedding_function=None, configuration={"hnsw": dict(HNSW)}
                    )
                    if create
                    else chroma.get_collection(collection, embedding_function=None)
                )
                # Not ``.configuration``, which warns of deprecation when there is no embedding function.
                space = (self._collection.configuration_json.get("hnsw") or {}).get("space")
                width = self._collection._model.dimension
            if space != HNSW["space"]:
                raise IndexUnavailable(f"the collection {collection} measures {space}, not {HNSW['space']}")
            if width not in (None, dimension):
                raise IndexUnavailable(f"the collection {collection} holds vectors of {width} numbers, not {dimension}")
        except BaseException:
            self.close()
            raise

    def upsert(self, ids: Sequence[int], vectors: Vectors) -> None:
        """Adds or replaces; ``vectors`` has shape (n, d). Of an id given twice the last vector counts.

        :raises IndexUnavailable: wrong shape, NaN, infinity or a zero vector (nothing is stored then), or the engine.
        """
        rows = checked_vectors(ids, vectors, self._dimension)
        last = {int(one): position for position, one in enumerate(ids)}
        keys, positions = list(last), list(last.values())
        with self._use("write vectors"):
            for start in range(0, len(keys), BATCH):
                part = slice(start, start + BATCH)
                self._collection.upsert(ids=[str(one) for one in keys[part]], embeddings=rows[positions[part]])

    def delete(self, ids: Sequence[int]) -> None:
        """Removes; unknown ids are ignored. The vectors' bytes stay on disk until the index is rebuilt."""
        keys = sorted({int(one) for one in ids})
        with self._use("delete vectors"):
            for start in range(0, len(keys), BATCH):
                self._collection.delete(ids=[str(one) for one in keys[start : start + BATCH]])

    def query(self, vector: Vectors, k: int) -> tuple[list[int], list[float]]:
        """The ``k`` nearest ids with their cosine similarity in [-1, 1], nearest first; approximate.

        :raises IndexUnavailable: the vector has the wrong length or holds NaN or infinity, or the engine fails.
        """
        query = checked_query(vector, self._dimension)
        with self._use("search"):
            if k <= 0:
                return [], []
            found = self._collection.query(query_embeddings=[query], n_results=k, include=["distances"])
            ids = [int(one) for one in found["ids"][0]]
            return ids, [min(1.0, max(-1.0, 1.0 - float(distance))) for distance in found["distances"][0]]

    def ids(self) -> set[int]:
        """Every id in the index."""
        with self._use("list ids"):
            found: set[int] = set()
            while True:
                page = self._collection.get(include=[], limit=BATCH, offset=len(found))["ids"]
                found.update(int(one) for one in page)
                if len(page) < BATCH:
                    return found

    def count(self) -> int:
        """How many vectors are in the index."""
        with self._use("count"):
            return int(self._collection.count())

    def mark(self, number: int) -> None:
        """Notes a number beside the vectors, which :meth:`marked` finds again."""
        with self._use("mark the index"):
            self._collection.modify(metadata={MARK: number})

    def marked(self) -> int | None:
        """The number that was noted last, as whoever holds the vectors has it now; None: none was."""
        with self._use("look at the index"):
            assert self._client is not None
            found = self._client.chroma.get_collection(self._name, embedding_function=None).metadata or {}
            return None if found.get(MARK) is None else int(found[MARK])

    def close(self) -> None:
        """Gives up the directory; the last index on it closes Chroma. May be called more than once."""
        client, self._client = self._client, None
        if isinstance(client, Client):
            client.close()

    @contextmanager
    def _use(self, verb: str) -> Iterator[None]:
        if self._client is None:
            raise IndexUnavailable("the vector index was closed")
        if self._process != os.getpid():
            raise IndexUnavailable("the vector index came over a fork; open the store again in the child process")
        with engine(verb):
            yield


class _Shared:
    """The one client of a directory in this process, and how many use it."""

    def __init__(self, chroma: Any) -> None:
        self.chroma = chroma
        self.users = 0


class Client:
    """One user's share of the process's Chroma client for a directory. ``chroma`` is the client itself."""

    def __init__(self, path: str, shared: _Shared) -> None:
        self._path = path
        self._shared: _Shared | None = shared
        self.chroma: Any = shared.chroma

    def close(self) -> None:
        """Closes Chroma when this was the last user. Never raises, may be called more than once."""
        if _engine_process != os.getpid():  # over a fork: closing would hang, and what is open belongs to the parent
            self._shared = None
            return
        with _lock:
            shared, self._shared = self._shared, None
            if shared is None:
                return
            shared.users -= 1
            if shared.users == 0:
                if _shared.get(self._path) is shared:
                    del _shared[self._path]
                # Nothing can be done about a failing close, and the index is disposable.
                with suppress(IndexUnavailable), engine("close the index"):
                    shared.chroma.close()


def open_client(directory: Path) -> Client:
    """The process's client for a directory, shared by all who open it by whatever spelling of the path.

    :raises IndexUnavailable: chromadb cannot be imported, the directory cannot be opened, or this process is a fork of
        one that used Chroma.
    """
    refuse_fork()
    with _lock:
        path = os.path.realpath(directory)
        shared = _shared.get(path)
        if shared is None:
            with engine("open the index"):
                Path(path).mkdir(mode=0o700, parents=True, exist_ok=True)
                shared = _Shared(_persistent_client(path))
            _shared[path] = shared
        shared.users += 1
        return Client(path, shared)


def abandon(directory: Path) -> None:
    """Closes the process's client for a directory under all who use it: their next call raises IndexUnavailable.

    For a directory that is about to be moved or removed; without this a later index at the same path would share the
    client of the old files.
    """
    if _engine_process != os.getpid():
        return
    with _lock:
        shared = _shared.pop(os.path.realpath(directory), None)
        if shared is not None:
            with suppress(IndexUnavailable), engine("close the index"):
                shared.chroma.close()


def refuse_fork() -> None:
    """:raises IndexUnavailable: this process is a fork of one that used Chroma."""
    if _engine_process not in (None, os.getpid()):
        raise IndexUnavailable(
            "Chroma was used before this process was forked and would hang here; "
            "start the process with the 'spawn' method, or open the store only after the fork"
        )


@contextmanager
def engine(verb: str) -> Iterator[None]:
    """Whatever the engine raises becomes IndexUnavailable."""
    refuse_fork()
    try:
        yield
    except (IndexUnavailable, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # a Rust panic derives from BaseException
        text = (str(error).strip() or "no message").splitlines()[0]
        raise IndexUnavailable(f"cannot {verb}: Chroma says {type(error).__name__}: {text}") from error


class ServerClient:
    """As much of ``chromadb.HttpClient`` as is needed here. Making one asks the server nothing."""

    def __init__(self, server: Server) -> None:
        """:raises IndexUnavailable: chromadb cannot be imported."""
        with engine("speak to the server"):
            given = settings(
                chroma_api_impl="chromadb.api.fastapi.FastAPI",
                chroma_server_host=server.url,
                chroma_server_http_port=0,  # that of the url counts, but something must be given
            )
            httpx = importlib.import_module("httpx")
            system = importlib.import_module("chromadb.config").System(given)
            self._api = system.instance(importlib.import_module("chromadb.api").ServerAPI)
            self._collection = importlib.import_module("chromadb.api.models.Collection").Collection
            headers = {**self._api._session.headers, **dict(server.headers)}
            self._api._session.close()
            local = httpx.URL(server.url).host in ("127.0.0.1", "::1", "localhost")
            # A proxy of the environment leads out of this machine: what is on it is not reached through one.
            self._api._session = httpx.Client(timeout=server.timeout_seconds, headers=headers, trust_env=not local)

    @property
    def chroma(self) -> ServerClient:
        return self

    def get_or_create_collection(self, name: str, *, embedding_function: None, configuration: dict[str, Any]) -> Any:
        return self._of(self._api.get_or_create_collection(name=name, configuration=configuration))

    def get_collection(self, name: str, *, embedding_function: None) -> Any:
        return self._of(self._api.get_collection(name=name))

    def drop(self, prefix: str, keep: str | None) -> None:
        """Deletes every collection whose name begins so, except the one to keep.

        :raises IndexUnavailable: the server does not answer.
        """
        with engine("delete a collection"):
            for name in [one.name for one in self._api.list_collections() if one.name.startswith(prefix)]:
                if name != keep:
                    self._api.delete_collection(name)

    def close(self) -> None:
        """Closes the connections to the server."""
        self._api._session.close()

    def _of(self, model: Any) -> Any:
        return self._collection(client=self._api, model=model, embedding_function=None)


def unreachable(error: BaseException | None) -> bool:
    """Whether this came of a server that gave no answer at all; False: it answered, with an error."""
    transport = importlib.import_module("httpx").TransportError
    while error is not None:
        if isinstance(error, transport):
            return True
        error = error.__cause__ or error.__context__
    return False


def _persistent_client(path: str) -> Any:
    global _engine_process
    chromadb = import_chromadb()
    given = settings(
        chroma_api_impl="chromadb.api.rust.RustBindingsAPI",
        allow_reset=False,
        is_persistent=True,
        persist_directory=path,
    )
    _engine_process = os.getpid()
    try:
        return chromadb.PersistentClient(path, given)
    except BaseException:
        # Chroma keeps the half-made system of a failed client and would hand it to the next one on this path.
        shared = importlib.import_module("chromadb.api.shared_system_client").SharedSystemClient
        for kept in (shared._identifier_to_system, getattr(shared, "_identifier_to_refcount", {})):
            kept.pop(path, None)
        raise

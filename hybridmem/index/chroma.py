"""Chroma, embedded: the only ``import chromadb``, and the only place that knows what it raises.

What this file guards against, all of it measured with chromadb 1.5.9:

- ``import chromadb`` takes 1.2 s and reads ``.env`` of the current directory and a good many environment variables;
  either can make it fail or redirect it. It is imported at first use, and sees neither (``_isolated``).
- Two clients on one directory lose vectors, in one process too if the path is spelt differently. So there is one client
  per real path and process, counted; between processes, hold an ``OwnerLock``.
- After a fork the engine's threads are gone and every call hangs: a child of a process that used Chroma is refused.
- ``get_or_create_collection`` silently keeps another metric; a NaN query gives an arbitrary order; documents stay on
  disk after deletion, so none are ever handed over.
- Errors are of chromadb, of Python and of Rust (panics are no ``Exception``): all become IndexUnavailable.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import json
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from hybridmem.errors import IndexUnavailable
from hybridmem.index.exact import checked_query, checked_vectors
from hybridmem.ports import Vectors

#: Chroma takes at most 5,461 records per call.
BATCH = 5_000
#: ``ef_search`` 200 keeps recall near 1 up to k = 200 (default 100); ``sync_threshold`` 1000 writes the files rarely,
#: which is when a crash can tear them, without making single writes slow.
HNSW = {"space": "cosine", "ef_search": 200, "sync_threshold": 1_000}

_lock = threading.RLock()
_shared: dict[str, _Shared] = {}
_settings_class: Any = None
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

    The caller must hold the directory's ``OwnerLock`` for as long as this is open.
    """

    def __init__(self, directory: Path, collection: str, dimension: int) -> None:
        """Opens or creates; imports chromadb (1.2 s) the first time.

        :param directory: of the index, made with mode 0700 if missing.
        :param collection: see ``collection_name``.
        :param dimension: width of every vector, ≥ 1.
        :raises IndexUnavailable: chromadb cannot be imported or opened, or the collection has another metric or width.
        """
        self._dimension = dimension
        self._client: Client | None = open_client(directory)
        try:
            with _engine("open the index"):
                self._collection = self._client.chroma.get_or_create_collection(
                    collection, embedding_function=None, configuration={"hnsw": dict(HNSW)}
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

    def close(self) -> None:
        """Gives up the directory; the last index on it closes Chroma. May be called more than once."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    @contextmanager
    def _use(self, verb: str) -> Iterator[None]:
        if self._client is None:
            raise IndexUnavailable("the vector index was closed")
        with _engine(verb):
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
                with suppress(IndexUnavailable), _engine("close the index"):
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
            with _engine("open the index"):
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
            with suppress(IndexUnavailable), _engine("close the index"):
                shared.chroma.close()


def answer_self(directory: Path, collections: Sequence[str]) -> None:
    """Opens the collections and asks for some of their own vectors. Meant for a child process: it may crash.

    :param collections: names, those that do not exist are passed over; none for every collection there is.

    :raises IndexUnavailable: a collection cannot be read, or does not find what it holds.
    """
    client = open_client(directory)
    try:
        with _engine("check the index"):
            present = {one.name for one in client.chroma.list_collections()}
            for name in collections or sorted(present):
                if name in present:
                    _answer_self(client.chroma.get_collection(name, embedding_function=None))
    finally:
        client.close()


def _answer_self(collection: Any, samples: int = 20) -> None:
    count = collection.count()
    for place in range(min(samples, count)):
        page = collection.get(limit=1, offset=place * count // min(samples, count), include=["embeddings"])
        vector = np.asarray(page["embeddings"][0], dtype=np.float32)
        found = collection.query(query_embeddings=[vector], n_results=10, include=["distances"])
        # Not by id: many nodes may share one vector.
        if not found["ids"][0] or float(found["distances"][0][0]) > 1e-3:
            raise IndexUnavailable(f"the collection {collection.name} does not find its own vector {page['ids'][0]}")


def refuse_fork() -> None:
    """:raises IndexUnavailable: this process is a fork of one that used Chroma."""
    if _engine_process not in (None, os.getpid()):
        raise IndexUnavailable(
            "Chroma was used before this process was forked and would hang here; "
            "start the process with the 'spawn' method, or open the store only after the fork"
        )


@contextmanager
def _engine(verb: str) -> Iterator[None]:
    """Whatever the engine raises becomes IndexUnavailable."""
    refuse_fork()
    try:
        yield
    except (IndexUnavailable, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # a Rust panic derives from BaseException
        text = (str(error).strip() or "no message").splitlines()[0]
        raise IndexUnavailable(f"cannot {verb}: Chroma says {type(error).__name__}: {text}") from error


def _persistent_client(path: str) -> Any:
    global _settings_class, _engine_process
    chromadb = import_chromadb()
    if _settings_class is None:
        _settings_class = _isolated(chromadb.config.Settings)
    settings = _settings_class(
        _env_file=None,
        chroma_api_impl="chromadb.api.rust.RustBindingsAPI",
        anonymized_telemetry=False,
        allow_reset=False,
        is_persistent=True,
        persist_directory=path,
    )
    _engine_process = os.getpid()
    try:
        return chromadb.PersistentClient(path, settings)
    except BaseException:
        # Chroma keeps the half-made system of a failed client and would hand it to the next one on this path.
        shared = importlib.import_module("chromadb.api.shared_system_client").SharedSystemClient
        for kept in (shared._identifier_to_system, getattr(shared, "_identifier_to_refcount", {})):
            kept.pop(path, None)
        raise


def _isolated(settings: Any) -> Any:
    """Chroma's Settings, reading neither ``.env`` nor the environment: only what is passed in, and the defaults."""
    return type(
        "Settings", (settings,), {"settings_customise_sources": classmethod(_only_arguments), "__module__": __name__}
    )


def _only_arguments(cls: Any, settings_cls: Any, init_settings: Any, *others: Any, **more: Any) -> tuple[Any, ...]:
    return (init_settings,)


def import_chromadb() -> ModuleType:
    """Imports chromadb such that the Settings it builds while it is imported are isolated too.

    :raises IndexUnavailable: it is not installed, or its import fails. While the interpreter is being taken down,
        what the import raises comes through as it is: then nothing is wrong with Chroma.
    """
    if sys.modules.get("chromadb") is not None:
        return importlib.import_module("chromadb")
    hook = _SettingsHook()
    try:
        sys.meta_path.insert(0, hook)
        return importlib.import_module("chromadb")
    except ModuleNotFoundError as error:
        raise IndexUnavailable(f"Chroma cannot be imported: {error}; run: pip install 'chromadb>=1.5.9,<2'") from error
    except Exception as error:
        if not threading.main_thread().is_alive():
            raise
        raise IndexUnavailable(f"Chroma cannot be imported: {error!r}") from error
    finally:
        if hook in sys.meta_path:
            sys.meta_path.remove(hook)
        hook.restore()


class _SettingsHook(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Isolates ``chromadb.config.Settings`` right after its module ran, and lets go of it after the import.

    A program that uses chromadb itself thus gets its own ``.env`` back; only the import is not at its mercy.
    """

    def __init__(self) -> None:
        self._real: Any = None
        self._settings: Any = None
        self._env_file: Any = None

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname != "chromadb.config":
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            self._real, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: Any) -> Any:
        return self._real.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._real.exec_module(module)
        self._settings = module.Settings
        # Both are needed: the file is read before anybody asks which sources count.
        self._env_file = self._settings.model_config.get("env_file")
        self._settings.model_config["env_file"] = None
        self._settings.settings_customise_sources = classmethod(_only_arguments)

    def restore(self) -> None:
        if self._settings is not None:
            self._settings.model_config["env_file"] = self._env_file
            del self._settings.settings_customise_sources

"""Everything held about a user, across the namespaces of a store: told in one file, or erased. Both choose alike.

That is each namespace one of whose names is the user (whole, case-sensitive); and elsewhere the memories that the user
said: whose ``speaker`` or ``user`` in the metadata is the user, or that begin with the name as a speaker's. It crosses
namespaces, so it is for whoever runs the store, and no method of a handle.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from hybridmem import config as configuration
from hybridmem import inputs, keys
from hybridmem.cleanse import Progress
from hybridmem.config import Config
from hybridmem.erase import Gone
from hybridmem.erased import ErasureReceipt
from hybridmem.memory import Memory
from hybridmem.ports import Embedder, KeyProvider
from hybridmem.replacing import replace_file
from hybridmem.store import held, points
from hybridmem.store.connect import Connections
from hybridmem.store.directory import refuse_own
from hybridmem.types import Namespace
from hybridmem.whole_store import open_whole

#: Who erases, in the log.
AGENT = "operator"


def export_user(
    path: str | Path,
    user: str,
    file: str | Path,
    *,
    config: str | Path | dict[str, Any] | Config | None = None,
    master_key: KeyProvider | bytes | None = None,
) -> int:
    """Writes everything that a store holds about a user to a JSON file: of each memory all its revisions with metadata,
    its weights, times and log entries; of a whole namespace also its tasks, checkpoints and runs.

    :return: how many memories. The same that :func:`erase_user` erases.
    :param master_key: of an encrypted store, as for Memory.open(). The file is not sealed.
    :raises NotFound: there is no store. InvalidInput: the user is no name, or the file is part of a store.
    """
    name, target, place = inputs.name("user", user), inputs.path("file", file), inputs.path("path", path)
    refuse_own(target)
    provider = keys.provider(configuration.load(config).encryption, master_key)
    with (
        closing(Connections(place, create=False, keys=provider)) as connections,
        connections.read() as tx,
    ):
        spaces = {names: _selected(tx, namespace, names, name) for namespace, names in points.namespaces(tx).items()}
        told: list[dict[str, Any]] = []
        for namespace, names in points.namespaces(tx).items():
            chosen = spaces[names]
            if chosen is None or chosen:
                told.append({"namespace": list(names), **held.about(tx, namespace, chosen)})
        document = {"kind": "hybridmem-user", "version": 1, "user": name, "namespaces": told}

        def write(temporary: Path) -> None:
            temporary.write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")

        replace_file(target, write)
        return sum(len(one["memories"]) for one in told)


def erase_user(
    path: str | Path,
    user: str,
    *,
    dry_run: bool = False,
    config: str | Path | dict[str, Any] | Config | None = None,
    embedder: Embedder | None = None,
    master_key: KeyProvider | bytes | None = None,
    progress: Progress | None = None,
) -> ErasureReceipt:
    """Erases everything that :func:`export_user` tells of, as Memory.erase() and erase_namespace() do: one transaction
    and receipt for each namespace, then the files once, and one receipt for all. Cut off, the same call goes on.

    What others have written below a memory of the user moves to the nearest place above that stays.

    :return: one receipt for all. :raises NotFound: there is no store.
    """
    name, place, settings = inputs.name("user", user), inputs.path("path", path), configuration.load(config)
    provider = keys.provider(settings.encryption, master_key)
    with (
        closing(Connections(place, create=False, keys=provider)) as connections,
        connections.read() as tx,
    ):
        spaces = {names: _selected(tx, namespace, names, name) for namespace, names in points.namespaces(tx).items()}
    concerned = {names: chosen for names, chosen in spaces.items() if chosen is None or chosen}
    quiet = settings.model_copy(update={"index": settings.index.model_copy(update={"background": False})})
    given: dict[str, Any] = {"agent": AGENT, "config": quiet, "embedder": embedder, "master_key": provider}
    gone = Gone()
    for names, chosen in concerned.items():
        with Memory.open(path, namespace=names, create=False, **given) as memory:
            gone.add(_erase_in(memory, name, whole=chosen is None, dry_run=dry_run))
    with open_whole(inputs.path("path", path), settings, embedder, provider) as store:
        row = None
        if not dry_run:
            with store.connections.write() as tx:
                row = store.receipts.begin(tx, "user", gone, None)
        return store.receipts.finish("user", gone, row, progress)


def _erase_in(memory: Memory, user: str, *, whole: bool, dry_run: bool) -> Gone:
    if whole:
        return memory._erasing.whole("user", dry_run=dry_run)[0]
    workspace = memory._workspace

    def choose(tx: sqlite3.Connection) -> Sequence[str]:
        return held.said_by(tx, workspace.id, user)

    return memory._erasing.memories(choose, "user", dry_run=dry_run)[0]


def _selected(tx: sqlite3.Connection, namespace: int, names: Namespace, user: str) -> list[str] | None:
    """The public ids of what is held about a user in a namespace; None: all of it."""
    return None if user in names else held.said_by(tx, namespace, user)

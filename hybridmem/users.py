"""Everything held about a user, across the namespaces of a store: told in one file, or erased. Both choose alike.

That is each namespace one of whose names is the user (whole, case-sensitive); and elsewhere the memories that the user
said: whose ``speaker`` or ``user`` in the metadata is the user, or that begin with the name as a speaker's. It crosses
namespaces, so it is for whoever runs the store, and no method of a handle.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from hybridmem import config as configuration
from hybridmem import inputs, keys
from hybridmem.audit import Call, called
from hybridmem.cleanse import Progress
from hybridmem.config import Config
from hybridmem.erase import Gone
from hybridmem.erased import ErasureReceipt
from hybridmem.errors import NotFound
from hybridmem.memory import Memory
from hybridmem.ports import Embedder, KeyProvider, SystemClock
from hybridmem.replacing import replace_file
from hybridmem.store import audit, held, layout, points
from hybridmem.store.connect import Connections
from hybridmem.store.directory import refuse_own
from hybridmem.store.rows import to_micros
from hybridmem.types import Namespace
from hybridmem.whole_store import open_whole

#: Counts of a receipt that are of the files of one store.
FILE_COUNTS = ("backups", "backup_memories", "files_removed", "bytes_removed")
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

    That is each namespace with this name among its names, and in the others the memories that the user said: with this
    name as ``speaker`` or ``user`` in the metadata, or at the beginning, as in "zhang-san: …". Not what others said
    about the user.

    The audit trail of each namespace that is told of gets an entry first.

    :param user: one name, whole and case-sensitive: ``"zhang-san"``, not ``"acme/zhang-san"``. :return: how many
        memories; 0 if nothing is held, or the name is another. The same that :func:`erase_user` erases.
    :param master_key: of an encrypted store, as for Memory.open(). The file is not sealed.
    :raises NotFound: there is no store. InvalidInput: the user is no name, or the file is part of a store.
    """
    name, target, place = inputs.name("user", user), inputs.path("file", file), inputs.path("path", path)
    refuse_own(target)
    settings = configuration.load(config)
    provider = keys.provider(settings.encryption, master_key)
    told: list[dict[str, Any]] = []
    for store in layout.stores(place):
        told += _told(store, name, provider, is_audited=settings.audit.enabled)
    document = {"kind": "hybridmem-user", "version": 1, "user": name, "namespaces": told}

    def write(temporary: Path) -> None:
        temporary.write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")

    replace_file(target, write)
    return sum(len(one["memories"]) for one in told)


def _told(store: Path, user: str, provider: KeyProvider | None, *, is_audited: bool) -> list[dict[str, Any]]:
    """What one store holds about a user, namespace by namespace."""
    told, counts = [], {}
    with closing(Connections(store, create=False, keys=provider)) as connections, connections.read() as tx:
        for namespace, names in points.namespaces(tx).items():
            chosen = _selected(tx, namespace, names, user)
            if chosen is None or chosen:
                told.append({"namespace": list(names), **held.about(tx, namespace, chosen)})
                counts[namespace] = len(told[-1]["memories"])
    if is_audited and counts:
        _note(store, provider, counts)
    return told


def _note(store: Path, provider: KeyProvider | None, counts: Mapping[int, int]) -> None:
    """Says in each trail how many memories are told of."""
    at = to_micros(SystemClock().now())
    with closing(Connections(store, create=False, keys=provider)) as connections, connections.write() as tx:
        for namespace, count in counts.items():
            audit.append(tx, namespace, AGENT, at, [Call("export_user", at, detail={"memories": count})], "none")


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

    What others have written below a memory of the user moves to the nearest place above that stays. A name of which
    nothing is held is no error: ``receipt.counts`` has no ``memories`` then.

    :return: one receipt for all. :raises NotFound: there is no store.
    """
    name, place, settings = inputs.name("user", user), inputs.path("path", path), configuration.load(config)
    provider = keys.provider(settings.encryption, master_key)
    rule = {"layout": "separate" if layout.is_separate(place) else "shared"}
    quiet = settings.model_copy(
        update={
            "index": settings.index.model_copy(update={"background": False}),
            "store": settings.store.model_copy(update=rule),
        }
    )
    given: dict[str, Any] = {"agent": AGENT, "config": quiet, "embedder": embedder, "master_key": provider}
    gone, stores = Gone(), layout.stores(place)
    concerned = {store: found for store in stores if (found := _concerned(store, name, provider))}
    for found in concerned.values():
        for names, whole in found.items():
            with Memory.open(place, namespace=names, create=False, **given) as memory:
                gone.add(_erase_in(memory, name, whole=whole, dry_run=dry_run))
    receipts = []
    for store in concerned or stores[:1]:
        with open_whole(store, settings, embedder, provider) as opened:
            row = None
            if not dry_run:
                with opened.connections.write() as tx:
                    row = opened.receipts.begin(tx, "user", gone, None)
            receipts.append(opened.receipts.finish("user", gone, row, progress))
    if not receipts:
        raise NotFound(f"path: there is no store below {place}")
    return receipts[0] if len(receipts) == 1 else _joined(list(concerned), receipts)


def _concerned(store: Path, user: str, provider: KeyProvider | None) -> dict[Namespace, bool]:
    """The namespaces of a store that hold something about a user, and whether they are his."""
    with closing(Connections(store, create=False, keys=provider)) as connections, connections.read() as tx:
        chosen = {names: _selected(tx, namespace, names, user) for namespace, names in points.namespaces(tx).items()}
    return {names: one is None for names, one in chosen.items() if one is None or one}


def _joined(stores: Sequence[Path], receipts: Sequence[ErasureReceipt]) -> ErasureReceipt:
    """One receipt for several stores. Each has kept its own, of all that was erased and of its own files."""
    each = list(zip(stores, receipts, strict=True))
    files = {name: sum(one.counts.get(name, 0) for one in receipts) for name in FILE_COUNTS}
    return replace(
        receipts[-1],
        counts=dict(sorted({**receipts[-1].counts, **files}.items())),
        scanned=tuple((f"{store.name}/{file}", size) for store, one in each for file, size in one.scanned),
        left=tuple(f"{store.name}: {why}" for store, one in each for why in one.left),
        complete=all(one.complete for one in receipts),
    ).sealed()


def _erase_in(memory: Memory, user: str, *, whole: bool, dry_run: bool) -> Gone:
    workspace = memory._workspace

    def choose(tx: sqlite3.Connection) -> Sequence[str]:
        return held.said_by(tx, workspace.id, user)

    def erase() -> Gone:
        if whole:
            return memory._erasing.whole("user", dry_run=dry_run)[0]
        return memory._erasing.memories(choose, "user", dry_run=dry_run)[0]

    return called(workspace, "erase_user", erase, dry_run=dry_run)


def _selected(tx: sqlite3.Connection, namespace: int, names: Namespace, user: str) -> list[str] | None:
    """The public ids of what is held about a user in a namespace; None: all of it."""
    return None if user in names else held.said_by(tx, namespace, user)

"""From a backup file back to a store. The old one is never deleted: it goes to ``aside/`` of its directory, whole.

The file is checked, copied beside the database under a temporary name, made ready, and checked again. Then one rename
decides (hybridmem.store.swap): killed before it, the old store is there; after it, the restored one.
"""

from __future__ import annotations

from pathlib import Path

from hybridmem import faults, inputs, keys
from hybridmem.config import EncryptionConfig
from hybridmem.errors import InvalidInput, StoreDamaged, StoreFull
from hybridmem.index.projection import CLEAN as INDEX_CLEAN
from hybridmem.index.projection import FILES as INDEX_FILES
from hybridmem.index.projection import FILLING as INDEX_FILLING
from hybridmem.index.projection import LOCK as INDEX_LOCK
from hybridmem.ports import KeyProvider, SystemClock
from hybridmem.replacing import UNFINISHED, remove_unfinished, replace_file
from hybridmem.store import backup as stored
from hybridmem.store import layout, swap
from hybridmem.store.carried import carry
from hybridmem.store.directory import ASIDE, CHECKPOINTS, DATABASE_NAME, LOCK, RESTORED
from hybridmem.store.processes import is_running
from hybridmem.store.receipts import GENERATION
from hybridmem.store.rows import from_micros, to_micros
from hybridmem.types import RestoredBackup

#: Seconds to wait for somebody who is just closing the store.
WAIT_SECONDS = 1.0
#: What may lie in a directory that has no store, or has lost it.
NO_STORE = (LOCK, INDEX_LOCK, CHECKPOINTS, ASIDE)


def restore_backup(
    file: str | Path,
    directory: str | Path,
    *,
    replace: bool = False,
    master_key: KeyProvider | bytes | None = None,
) -> RestoredBackup:
    """Makes a store of a backup file, with everything that was in it: every namespace, the log, tasks and pointers.

    Nobody may have the store open. Chroma's index is built anew from the vectors in the backup, by whoever opens the
    store; until then searches are exact. A run that had not ended when the backup was made counts as interrupted
    (``resume().interrupted``), as what it did afterwards is not there; unless its process is alive, and goes on with
    the store it has. Claims on tasks are as they were, and the tokens of later ones higher than any given out before.

    Interrupted, killed or out of space, it has either not happened, or is finished by whoever opens the store next;
    to run it again is right in both cases.

    :param file: a backup; any name will do. It stays as it is.
    :param directory: of the store; made with mode 0700 if missing.
    :param replace: the directory may have a store: its database, write-ahead log and index are moved into
        ``aside/<time>/`` there, from where a mistake can be undone by hand; ``checkpoints/`` stays.
    :param master_key: of an encrypted backup, as for Memory.open(); None: the one in HYBRIDMEM_KEY. It must be the one
        that the store had when the backup was made.
    :raises EncryptionError: it is missing, or another one.
    :raises InvalidInput: there is a store and ``replace`` is False; or there is something else, which is never
        replaced; or the file is the database of an open store; or, with ``store.layout: separate``, the directory is
        that of another namespace.
    :raises NotFound: there is no such file. StoreDamaged: it is damaged, or no backup. StoreTooNew: made by a later
        version. StoreBusy: somebody has the store open. StoreFull: no room, or no rights. Nothing has changed then.
    """
    source, target = inputs.path("file", file), inputs.path("directory", directory)
    contents = stored.verify(source)
    provider = keys.provider(EncryptionConfig(), master_key)
    stored.unlock(source, provider)
    layout.refuse_foreign(target, contents.facts.namespaces)
    _make(target)
    aside = swap.alone(target, WAIT_SECONDS, lambda: _replace(source, target, contents, replace, provider))
    return RestoredBackup(
        path=source,
        directory=target,
        made_at=from_micros(contents.record.at) if contents.record else None,
        nodes=contents.facts.nodes,
        namespaces=len(contents.facts.namespaces),
        aside=aside,
    )


def _replace(
    source: Path, target: Path, contents: stored.Contents, replace: bool, provider: KeyProvider | None
) -> Path | None:
    """Where the old store is now, None: there was none. The caller is alone."""
    was_begun = swap.is_pending(target)
    aside = swap.finish(target)
    if was_begun and _is_done(target, contents):
        return aside
    _must_be_free(target, replace)
    for left in target.glob(f".{RESTORED}.*{UNFINISHED}"):  # of one that was killed
        remove_unfinished(left)
    _stage(source, target, contents, provider)
    faults.point("backup_restore.after_decision")
    return swap.finish(target)


def _stage(source: Path, target: Path, contents: stored.Contents, provider: KeyProvider | None) -> None:
    def write(path: Path) -> None:
        copied = stored.prepare(
            source,
            path,
            is_running,
            unset=(INDEX_FILES, INDEX_FILLING, INDEX_CLEAN, GENERATION),
            at=to_micros(SystemClock().now()),
            carry=lambda made: carry(target, made, provider),
        )
        if not copied.holds_what(contents.facts):
            raise StoreDamaged(f"{source}: changed while it was read; nothing was restored")
        faults.point("backup_restore.after_copy")

    def check(path: Path, _: None) -> None:
        stored.verify(path)
        faults.point("backup_restore.before_decision")

    replace_file(target / RESTORED, write, check=check)


def _make(directory: Path) -> None:
    if directory.exists() and not directory.is_dir():
        raise InvalidInput(f"directory: {directory} is a file; a store is a directory")
    try:
        directory.mkdir(parents=True, mode=0o700, exist_ok=True)
    except OSError as error:
        raise StoreFull(f"{directory}: the store directory cannot be made: {error}") from error


def _must_be_free(directory: Path, replace: bool) -> None:
    names = {entry.name for entry in directory.iterdir() if not entry.name.endswith(UNFINISHED)}
    is_store = bool(names.intersection(swap.OLD))
    if is_store and not replace:
        raise InvalidInput(
            f"directory: there is a store in {directory}; name an empty directory, or ask for it to be replaced"
        )
    other = sorted(names - set(NO_STORE))
    if not is_store and other:
        raise InvalidInput(f"directory: {directory} is neither empty nor a store: it has {other[0]!r} in it")


def _is_done(directory: Path, contents: stored.Contents) -> bool:
    """After finishing what was cut off: whether that was the restoring of this very backup."""
    stored.verify(directory / DATABASE_NAME)
    return stored.is_copy_of(directory / DATABASE_NAME, contents)

"""What lies in the directory of a store, and whether a directory may be one."""

from __future__ import annotations

import os
from pathlib import Path

from hybridmem.errors import InvalidInput, StoreDamaged, StoreFull

#: The truth. Nobody but SQLite may open it, see :func:`refuse_foreign`.
DATABASE_NAME = "tree.db"
#: Chroma's files, which can be rebuilt.
VECTORS = "vectors"
#: Held by everybody who has the store open, see hybridmem.store.swap.
LOCK = "store.lock"
#: Held by whoever rewrites the whole database, see hybridmem.store.waiting.
REWRITING = "rewriting.lock"
#: Backup files.
CHECKPOINTS = "checkpoints"
#: What a restored backup has taken the place of.
ASIDE = "aside"
#: A restored database that is to take the place of the old one, see hybridmem.store.swap.
RESTORED = f"{DATABASE_NAME}.restored"
#: In a directory that has a store for each namespace below it, see hybridmem.store.layout.
MARKER = "hybridmem.layout"
#: What a store consists of; whatever begins with VECTORS does as well.
OWN = frozenset(
    {
        DATABASE_NAME,
        *(f"{DATABASE_NAME}-{end}" for end in ("wal", "shm", "journal")),
        RESTORED,
        LOCK,
        REWRITING,
        CHECKPOINTS,
        ASIDE,
    }
)
#: Bytes: SQLite's smallest page.
SMALLEST_DATABASE = 512
NOT_A_DATABASE = "is not an SQLite database; move it away, or restore it from a copy"


def refuse_foreign(database: Path) -> None:
    """SQLite takes a very short file of anything for an empty database, and would overwrite it.

    Asks the system for the size only. Opening the file here and closing it again would drop every lock that SQLite
    holds on it in this process (POSIX locks belong to the process), and another process that closes the store would
    then take the write-ahead log away, with all that is written to it from here on.
    """
    try:
        size = database.stat().st_size
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreFull(f"{database}: cannot be read: {error}") from error
    log = database.with_name(database.name + "-wal")
    if not size and (database.parent / VECTORS).exists() and not _has_bytes(log):
        raise StoreDamaged(f"{database}: is empty, but the store has been in use; restore it from a copy")
    if 0 < size < SMALLEST_DATABASE:
        raise StoreDamaged(f"{database}: {NOT_A_DATABASE}")


def _has_bytes(file: Path) -> bool:
    return file.exists() and file.stat().st_size > 0


def make_private(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, mode=0o700, exist_ok=True)  # another process may be making it too
    except FileExistsError:
        raise InvalidInput(f"path: {directory} is a file; a store is a directory") from None
    except OSError as error:
        raise StoreFull(f"{directory}: the store directory cannot be made: {error}") from error


def refuse_own(file: Path) -> None:
    """Nothing may be written over what a store consists of, whether it is open or not, and by which name or link ever.

    Nor under such a name beside the directories of a store that has one for each namespace: that would look like a
    store of the other layout, and neither could be opened.

    :raises InvalidInput: the file is part of a store.
    """
    target = Path(os.path.realpath(file))
    for above in target.parents:
        name = target.relative_to(above).parts[0]
        is_own = name in OWN or name.startswith(VECTORS)
        is_marker = name == MARKER and target.parent == above
        if (is_own and any((above / one).exists() for one in (DATABASE_NAME, RESTORED, MARKER))) or is_marker:
            raise InvalidInput(
                f"file: {file} is the database of a store, or belongs to it ({above}); name another file"
            )

"""SQLite's errors as ours: what each means for the caller, and what to do."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from hybridmem.errors import HybridMemError, StoreBusy, StoreClosed, StoreDamaged, StoreFull
from hybridmem.store.directory import DATABASE_NAME, NOT_A_DATABASE


@contextlib.contextmanager
def translated(directory: Path, busy_timeout: float) -> Iterator[None]:
    """Turns SQLite's errors into ours."""
    try:
        yield
    except sqlite3.Error as error:
        raise translate(error, directory, busy_timeout) from error


def translate(error: sqlite3.Error, directory: Path, busy_timeout: float) -> HybridMemError:
    """The error of our tree that says what an SQLite error means for the caller."""
    text = str(error)
    if "closed database" in text:  # close() in another thread, while this one was at work
        return closed(directory)
    if "locked" in text or "busy" in text:
        return busy(directory, busy_timeout)
    if "full" in text or "readonly" in text or "disk I/O" in text or "unable to open" in text:
        return StoreFull(
            f"{directory}: cannot be written ({text}); nothing was stored. Free space or mend the permissions, "
            "then try again"
        )
    if "not a database" in text:
        return StoreDamaged(f"{directory / DATABASE_NAME}: {NOT_A_DATABASE}")
    if "malformed" in text or "no such table" in text:
        return StoreDamaged(f"{directory / DATABASE_NAME}: {text}")
    return HybridMemError(f"{directory}: SQLite says: {text}")


def busy(directory: Path, busy_timeout: float) -> StoreBusy:
    return StoreBusy(
        f"{directory}: another writer held the store for more than {busy_timeout:g} s (store.busy_timeout_seconds); "
        "nothing was written, try again"
    )


def nested(directory: Path) -> StoreBusy:
    return StoreBusy(
        f"{directory}: this thread is in the middle of a transaction of this store, from which a signal handler or a "
        "callback tried to write; nothing was written, try again after it"
    )


def closed(directory: Path) -> StoreClosed:
    return StoreClosed(f"{directory}: this handle is closed; open the store again")

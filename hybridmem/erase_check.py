"""Whether what a receipt says is gone is gone: asked of every row, vector and backup again."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hybridmem import config as configuration
from hybridmem import inputs
from hybridmem.backup import backup_files
from hybridmem.config import Config
from hybridmem.erased import ErasureCheck, ErasureReceipt
from hybridmem.errors import HybridMemError, InvalidInput, NotFound, shown
from hybridmem.index import health
from hybridmem.ports import KeyProvider
from hybridmem.store import backup, cleansing, layout, leftovers, receipts
from hybridmem.store.connect import Connections
from hybridmem.store.directory import ASIDE, CHECKPOINTS, VECTORS
from hybridmem.whole_store import open_whole


def load_receipt(file: str | Path) -> ErasureReceipt:
    """A receipt that ``erase --json`` printed, or ``receipt.to_dict()`` as JSON.

    :raises NotFound: there is no such file. InvalidInput: it is no receipt.
    """
    try:
        return ErasureReceipt.from_dict(json.loads(inputs.path("file", file).read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise NotFound(f"{file}: there is no such file") from None
    except InvalidInput as error:
        raise InvalidInput(f"{file}: is no receipt of an erasure: {error}") from error
    except (OSError, ValueError, RecursionError) as error:  # of JSON: not UTF-8, not JSON, nested too deep
        why = error.strerror if isinstance(error, OSError) else type(error).__name__
        raise InvalidInput(f"{file}: is no receipt of an erasure: it cannot be read as JSON ({why})") from error


def verify_erasure(
    path: str | Path,
    wanted: Sequence[ErasureReceipt] | None = None,
    *,
    finish: bool = False,
    config: str | Path | Mapping[str, Any] | Config | None = None,
    master_key: KeyProvider | bytes | None = None,
) -> ErasureCheck:
    """Looks for what was erased by the hashes in receipts: in every row of the database and of each numbered backup, in
    the words and the vectors; and whether files lie about that should be gone.

    :param wanted: None: all receipts that the store has.
    :param finish: first finish what was cut off.
    """
    place, settings = inputs.path("path", path), configuration.load(config)
    wanted = None if wanted is None else [_receipt(one) for one in inputs.listed("wanted", wanted)]
    checks, stores = [], layout.stores(place)
    for directory in stores:
        with open_whole(directory, settings, master_key=master_key) as store:
            if finish:
                store.cleansing.finish()
            checks.append(_checked(store.connections, wanted))
    return checks[0] if stores == [place] else _joined(stores, checks)


def _receipt(given: Any) -> ErasureReceipt:
    """Made by whomever: with the kinds of values that it must have."""
    if not isinstance(given, ErasureReceipt):
        raise InvalidInput(f"wanted: must be receipts of erasures, not {shown(given)}; load_receipt() reads one")
    return ErasureReceipt.from_dict(given.to_dict())


def _joined(stores: Sequence[Path], checks: Sequence[ErasureCheck]) -> ErasureCheck:
    """One check of several stores, each with its own receipts."""
    each = list(zip(stores, checks, strict=True))
    return ErasureCheck(
        max((check.receipts for check in checks), default=0),
        tuple(f"{store.name}: {one}" for store, check in each for one in check.found),
        tuple(f"{store.name}: {one}" for store, check in each for one in check.notes),
        tuple((f"{store.name}/{file}", size) for store, check in each for file, size in check.scanned),
    )


def _checked(connections: Connections, wanted: Sequence[ErasureReceipt] | None) -> ErasureCheck:
    directory = connections.directory
    with connections.read() as tx:
        kept = [ErasureReceipt.from_dict(one) for one in receipts.all_of(tx, None)]
        looked_at = kept if wanted is None else list(wanted)
        found = _wrong(looked_at, kept)
        here = [
            f"{connections.database.name}: {one}" for receipt in looked_at for one in leftovers.left_of(tx, receipt)
        ]
    found += here
    scanned = [(connections.database.name, connections.database.stat().st_size)]
    for file in backup_files(directory):
        name = f"{CHECKPOINTS}/{file.name}"
        try:
            with backup.reading(file) as conn:
                found += [f"{name}: {one}" for receipt in looked_at for one in leftovers.left_of(conn, receipt)]
            scanned.append((name, file.stat().st_size))
        except HybridMemError as error:
            found.append(f"{name}: cannot be read: {error}")
    found += [f"{path.name}: is still there" for path in health.aside(directory / VECTORS)]
    if (directory / ASIDE).exists():
        found.append(f"{ASIDE}: a store that was replaced is there; it may hold what was erased")
    free, log = cleansing.state_of(connections)
    notes = [f"{connections.database.name}: {free} free pages"] if free else []
    notes += [f"{connections.database.name}-wal: {log} bytes"] if log else []
    return ErasureCheck(len(looked_at), tuple(dict.fromkeys(found)), tuple(notes), tuple(scanned))


def _wrong(looked_at: Sequence[ErasureReceipt], kept: Sequence[ErasureReceipt]) -> list[str]:
    """What is wrong with the receipts themselves."""
    found = []
    complete = {one.salt for one in kept if one.complete}
    for one in looked_at:
        if one.digest != one.right_digest():
            found.append(f"the receipt of {one.at} has been changed: its digest does not fit")
        if one.dry_run:
            found.append(f"the receipt of {one.at} is that of a dry run: nothing was erased")
        elif not one.complete and one.salt not in complete:
            with contextlib.suppress(StopIteration):
                one = next(other for other in kept if other.salt == one.salt)
            found += [f"the erasure of {one.at} is not complete: {why}" for why in one.left or ("it was cut off",)]
    return found

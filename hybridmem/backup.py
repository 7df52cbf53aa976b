"""Backups: a copy of the whole store in one file, made while everybody goes on writing, and checked by opening it.

In ``checkpoints/`` of the store they are numbered. A file there has its name only after it was read whole and found to
hold what was copied; what a killed process left unfinished goes at the next backup. One is made at a time.
"""

from __future__ import annotations

import contextlib
import logging
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TypeVar

from hybridmem import faults, inputs
from hybridmem.errors import HybridMemError, InvalidInput, StoreBusy, StoreDamaged, StoreFull
from hybridmem.ports import KeyProvider
from hybridmem.replacing import UNFINISHED, remove_unfinished, replace_file
from hybridmem.store import backup as stored
from hybridmem.store import layout
from hybridmem.store.directory import CHECKPOINTS, refuse_own
from hybridmem.store.lock import alone
from hybridmem.store.rows import from_micros
from hybridmem.store.workspace import Workspace
from hybridmem.types import Backup, Checkpoint, Namespace

logger = logging.getLogger("hybridmem")

#: The name of a backup in ``checkpoints/``: its number and when it was made (UTC).
NAME = re.compile(r"backup-(\d{6,})-\d{8}T\d{6}Z\.db")
LOCK = "backups.lock"
#: Seconds between two looks whether an automatic backup is due, and after one that failed.
LOOK_SECONDS = 60.0
RETRY_SECONDS = 3600.0

Progress = Callable[[int, int], object]
T = TypeVar("T")


class Stopped(HybridMemError):
    """The handle is being closed; an automatic backup is given up."""


class Backups:
    """The backups of one store, made for one workspace; see :class:`hybridmem.Memory` for what each verb promises."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._directory = workspace.directory / CHECKPOINTS
        self._next_look = 0.0

    def make(
        self,
        file: str | Path | None,
        label: str | None,
        progress: Progress | None = None,
        *,
        checkpoint: Checkpoint | None = None,
    ) -> Backup:
        checked = None if label is None else inputs.name("label", label)
        self._workspace.connections.check()
        if file is not None:
            return self._write(self._elsewhere(inputs.path("file", file)), checked, checkpoint, progress)
        wait = self._workspace.config.store.busy_timeout_seconds
        return self._alone(wait, lambda: self._add(checked, checkpoint, progress))

    def listed(self, *, verify: bool = False) -> list[Backup]:
        workspace = self._workspace
        return list_backups(workspace.directory, workspace.namespace, verify=verify, keys=workspace.connections.keys)

    def attached(self, checkpoints: Sequence[Checkpoint]) -> list[Checkpoint]:
        """Checkpoints with the backup files that were made with them. The number alone would not do: since then an
        earlier backup may have been restored, and the numbers given out again."""
        found = {}
        for path, _ in _files(self._directory):
            record = _record(path)
            if record is not None and tuple(record.namespace) == self._workspace.namespace:
                found[record.checkpoint, record.digest] = path
        return [replace(one, backup=found.get((one.id, one.digest))) for one in checkpoints]

    def make_if_due(self, is_stopping: Callable[[], bool]) -> None:
        """The automatic backup, made by a thread behind the writes. A failure is logged, and tried again later."""
        hours = self._workspace.config.checkpoint.backup_every_hours
        if not hours or time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + LOOK_SECONDS

        def look(_: int, __: int) -> None:
            if is_stopping():
                raise Stopped("the handle is being closed")

        try:
            if self._is_due(hours):
                # Asked again: somebody else may have made one meanwhile.
                self._alone(0.0, lambda: self._is_due(hours) and self._add(None, None, look))
        except (Stopped, StoreBusy):
            return
        except HybridMemError as error:
            self._next_look = time.monotonic() + RETRY_SECONDS
            logger.warning("the automatic backup failed, and is tried again in an hour: %s", error)

    def _is_due(self, hours: float) -> bool:
        for path, _ in _files(self._directory):
            try:
                contents = stored.look(path)
            except HybridMemError:
                continue
            if contents.record is None:
                continue
            age = abs(self._workspace.now() - contents.record.at)  # ahead of now: the clock has been set back since
            then = {names: head[1:] for names, head in contents.facts.namespaces.items()}
            return age >= hours * 3_600_000_000 and then != stored.heads(self._workspace.connections)
        return True

    def _add(self, label: str | None, checkpoint: Checkpoint | None, progress: Progress | None) -> Backup:
        """Makes the next numbered one; the caller holds the lock."""
        for left in self._directory.glob(f".backup-*{UNFINISHED}"):  # nobody else is at work here: it was killed
            remove_unfinished(left)
        number = max((number for _, number in _files(self._directory)), default=0) + 1
        moment = from_micros(self._workspace.now()).strftime("%Y%m%dT%H%M%SZ")
        made = self._write(self._directory / f"backup-{number:06}-{moment}.db", label, checkpoint, progress)
        faults.point("backup.after_rename")
        _retire(self._directory, self._workspace.config.checkpoint.keep_backups, newest=made.path)
        return made

    def _write(self, file: Path, label: str | None, checkpoint: Checkpoint | None, progress: Progress | None) -> Backup:
        workspace = self._workspace
        record = stored.Record(
            at=workspace.now(),
            namespace=list(workspace.namespace),
            agent=workspace.agent,
            label=label,
            checkpoint=checkpoint.id if checkpoint else None,
            digest=checkpoint.digest if checkpoint else None,
        )

        def write(path: Path) -> stored.Facts:
            found = stored.copy(workspace.connections, path, record, progress)
            faults.point("backup.after_copy")
            return found

        def check(path: Path, facts: stored.Facts) -> None:
            try:
                stored.verify(path, facts)
            except StoreDamaged as error:
                raise StoreDamaged(
                    f"{workspace.directory}: no backup was made, since the copy is not sound and so the store may not "
                    f"be either; earlier backups are as they were. {error}"
                ) from error
            faults.point("backup.before_rename")

        facts = replace_file(file, write, check=check)
        return _described(file, stored.Contents(record, facts), workspace.namespace, verified=True)

    def _elsewhere(self, file: Path) -> Path:
        """:raises InvalidInput: the file is a database that somebody uses, part of a store, or one of those that are
        numbered here."""
        if Path(f"{file}-wal").exists():
            raise InvalidInput(f"file: {file} is the database of a store; name another file")
        if file.parent.resolve() == self._directory.resolve():
            raise InvalidInput(f"file: backups in {self._directory} get their names themselves; give no file")
        refuse_own(file)
        return file

    def _alone(self, wait_seconds: float, action: Callable[[], T]) -> T:
        try:
            self._directory.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise StoreFull(f"{self._directory}: cannot be made: {error.strerror}") from error
        busy = (
            f"{self._directory}: another backup of this store took longer than {wait_seconds:g} s "
            "(store.busy_timeout_seconds); try again"
        )
        return alone(self._directory / LOCK, wait_seconds, busy, action)


def list_backups(
    directory: Path, namespace: Namespace, *, verify: bool = False, keys: KeyProvider | None = None
) -> list[Backup]:
    """The backups in ``checkpoints/`` of the store in ``directory``, newest first; the store itself is not opened."""
    found = []
    place = layout.directory_of(directory, namespace) if layout.is_separate(directory) else directory
    for path, _ in _files(place / CHECKPOINTS):
        with contextlib.suppress(FileNotFoundError):  # removed meanwhile
            found.append(_seen(path, namespace, verify, keys))
    return found


def backup_files(directory: Path) -> list[Path]:
    """The numbered backup files of the store in ``directory``, newest first."""
    return [path for path, _ in _files(directory / CHECKPOINTS)]


def _files(directory: Path) -> list[tuple[Path, int]]:
    """Those that have the name of a backup, with their numbers, newest first."""
    if not directory.is_dir():
        return []
    named = ((path, NAME.fullmatch(path.name)) for path in directory.iterdir())
    found = [(path, int(match[1])) for path, match in named if match and path.is_file()]
    return sorted(found, key=lambda one: one[1], reverse=True)


def _seen(path: Path, namespace: Namespace, verify: bool, keys: KeyProvider | None) -> Backup:
    try:
        contents = stored.verify(path, keys=keys) if verify else stored.look(path, keys)
    except HybridMemError as error:
        return _described(path, None, namespace, verified=False, problem=str(error))
    return _described(path, contents, namespace, verified=verify)


def _described(
    path: Path, contents: stored.Contents | None, namespace: Namespace, *, verified: bool, problem: str | None = None
) -> Backup:
    state, match = path.stat(), NAME.fullmatch(path.name)
    record = contents.record if contents else None
    nodes, sequence, _ = contents.facts.namespaces.get(namespace, (0, 0, "")) if contents else (0, 0, "")
    return Backup(
        path=path,
        number=int(match[1]) if match else None,
        label=record.label if record and tuple(record.namespace) == namespace else None,
        at=from_micros(record.at) if record else datetime.fromtimestamp(state.st_mtime, timezone.utc),
        bytes=state.st_size,
        nodes=nodes,
        sequence=sequence,
        verified=verified,
        problem=problem,
    )


def _record(path: Path) -> stored.Record | None:
    """None also for a damaged file."""
    try:
        return stored.look(path).record
    except HybridMemError:
        return None


def _retire(directory: Path, keep: int, *, newest: Path) -> None:
    """Removes the oldest backups without a label. Never a file that we cannot read (somebody may want to rescue it),
    nor ``newest``, which has just been checked; the others count towards ``keep`` only if they open."""
    if keep == 0:
        return
    kept = 0
    for path, _ in _files(directory):
        record = _record(path)
        if record is None or record.label is not None:
            continue
        kept += 1
        if kept > keep and path != newest:
            try:
                path.unlink()
            except OSError as error:
                logger.warning("%s: an old backup cannot be removed: %s", path, error.strerror)

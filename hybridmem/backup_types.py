"""What backup, backups and restore_backup hand back. Conventions as in :mod:`hybridmem.types`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from hybridmem.types import jsonable


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup file: all of a store, as it was at one moment.

    ``number`` counts the files in ``checkpoints/`` of the store, 1, 2, 3 …; None for a file elsewhere. ``at`` is when
    it was made, ``bytes`` its size. ``nodes`` (the root excluded) and ``sequence`` (the last operation) are those of
    the namespace that asks; both 0 if that was not there. ``label`` is None also if it was given in another namespace.
    ``verified``: the call that returned this has read all of the file and found it whole. ``problem`` says what is
    wrong with a damaged file, None: nothing that was seen.
    """

    path: Path
    number: int | None
    label: str | None
    at: datetime
    bytes: int
    nodes: int
    sequence: int
    verified: bool
    problem: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return jsonable(asdict(self))  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class RestoredBackup:
    """What restore_backup has done: which file became the store in ``directory``, and how much it holds: nodes of all
    namespaces (roots excluded), and of how many. ``made_at``: when the backup was made; None for a file that does not
    say. ``aside`` is where the store lies that was there before; None: there was none."""

    path: Path
    directory: Path
    made_at: datetime | None
    nodes: int
    namespaces: int
    aside: Path | None

    def to_dict(self) -> dict[str, Any]:
        return jsonable(asdict(self))  # type: ignore[no-any-return]

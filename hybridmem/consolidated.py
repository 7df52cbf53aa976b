"""What consolidating gives back. Like hybridmem.types, frozen and without behaviour beyond reading themselves."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from hybridmem.types import jsonable


@dataclass(frozen=True, slots=True)
class Consolidated:
    """A branch that became a summary, or with ``dry_run`` would.

    ``id`` is the head of the branch, ``title`` the first line of it, ``summary_id`` the summary (None: a dry run) and
    ``summary`` its text. ``sources`` are the ids of what was archived, in the order in which things happened, and
    ``left`` those that were left alone, each with the reason. ``tokens_before`` counts the contents of the sources,
    ``tokens_after`` the summary. ``details_before`` counts the different numbers with their units, dates, codes,
    paths, commands and the like in the sources, ``details_kept`` those of them that stand in the summary.
    """

    id: str
    title: str
    summary_id: str | None
    summary: str
    sources: tuple[str, ...]
    left: tuple[tuple[str, str], ...]
    tokens_before: int
    tokens_after: int
    details_before: int
    details_kept: int


@dataclass(frozen=True, slots=True)
class ConsolidationReport:
    """What consolidate() did, or with ``dry_run`` would do. ``skipped`` are the heads of the branches that were left as
    they are, each with the reason; ``note`` says why nothing was looked at. ``tokens_before`` and ``tokens_after`` are
    the sums over ``branches``."""

    dry_run: bool
    branches: tuple[Consolidated, ...]
    skipped: tuple[tuple[str, str], ...]
    tokens_before: int
    tokens_after: int
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        return jsonable(asdict(self))  # type: ignore[no-any-return]

"""Commands that turn branches into summaries and back: consolidate, unconsolidate."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from hybridmem.cli.forgetting import DryRun
from hybridmem.cli.memories import Id
from hybridmem.cli.options import Options, command
from hybridmem.cli.output import Reply, console
from hybridmem.consolidated import ConsolidationReport
from hybridmem.types import StateChange

if TYPE_CHECKING:
    from rich.console import Console

    from hybridmem.memory import Memory

#: Memories that were left alone, and branches that were skipped, that are printed for people; --json has them all.
SHOWN = 20


def register(app: typer.Typer) -> None:
    """Adds the commands of this file."""
    command(app, "consolidate")(consolidate)
    command(app, "unconsolidate")(unconsolidate)


def consolidate(
    options: Options,
    id: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(metavar="[ID]", help="A finished task, or a memory with all below it; else all such tasks."),
    ] = None,
    older_than: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option("--older-than", metavar="DAYS", help="Only what had no activity for so long, of open tasks too."),
    ] = None,
    dry_run: DryRun = False,
) -> Reply:
    """Turn finished tasks, and old memories, into summaries.

    What a summary stands for is archived: searched with --state archived, shown by its id, and brought back by
    unconsolidate. Left alone is what is pinned, not finished, or where an agent is at work.
    """
    with options.open() as memory:
        return _reply(_with_progress(memory, id, older_than, dry_run))


def unconsolidate(options: Options, id: Id, dry_run: DryRun = False) -> Reply:
    """Bring back what a summary stands for; the summary is forgotten."""
    with options.open() as memory:
        found = memory.unconsolidate(id, dry_run=dry_run)
    return Reply(found.to_dict(), lambda screen: _print_back(screen, found))


def _with_progress(memory: Memory, id: str | None, older_than: float | None, dry_run: bool) -> ConsolidationReport:
    screen = console(sys.stderr)
    if not screen.is_terminal:
        return memory.consolidate(id, older_than=older_than, dry_run=dry_run)
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=screen, transient=True) as progress:
        bar = progress.add_task("summarising", total=None)
        return memory.consolidate(
            id,
            older_than=older_than,
            dry_run=dry_run,
            progress=lambda done, total: progress.update(bar, completed=done, total=total),
        )


def _reply(found: ConsolidationReport) -> Reply:
    def text(screen: Console) -> None:
        if found.note:
            screen.print(found.note, soft_wrap=True)
        would = "would become" if found.dry_run else "became"
        for one in found.branches:
            screen.print(
                f"{one.title}: {len(one.sources)} memories {would} {one.summary_id or 'a summary'}, "
                f"{one.tokens_before} → {one.tokens_after} tokens, {one.details_kept} of {one.details_before} details",
                soft_wrap=True,
            )
            for id, reason in one.left[:SHOWN]:
                screen.print(f"  left alone: {id} {reason}", style="dim", soft_wrap=True)
        for id, reason in found.skipped[:SHOWN]:
            screen.print(f"skipped {id}: {reason}", style="dim", soft_wrap=True)
        more = len(found.skipped) - SHOWN
        if more > 0:
            screen.print(f"… {more} more skipped; --json lists all", style="dim", soft_wrap=True)

    return Reply(found.to_dict(), text)


def _print_back(screen: Console, found: StateChange) -> None:
    would = "would be brought back" if found.dry_run else "brought back"
    screen.print(f"{len(found.ids)} {would}" + (f"; {found.note}" if found.note else ""), soft_wrap=True)

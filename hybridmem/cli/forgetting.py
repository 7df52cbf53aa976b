"""Commands that change the state of memories: forget, restore-forgotten, archive, unarchive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hybridmem.cli.memories import Id
from hybridmem.cli.options import Options, command
from hybridmem.cli.output import Reply
from hybridmem.types import StateChange

if TYPE_CHECKING:
    from rich.console import Console

#: Ids that are printed for people; --json has them all.
SHOWN = 20
#: What a verb has done, and would do in a dry run.
DONE = {
    "forget": ("forgotten", "would be forgotten"),
    "restore_forgotten": ("brought back", "would be brought back"),
    "archive": ("archived", "would be archived"),
    "unarchive": ("live again", "would be live again"),
}

Subtree = Annotated[bool, typer.Option("--subtree", help="With everything below it.")]
WithBelow = Annotated[bool, typer.Option("--subtree/--no-subtree", help="With everything below it, or only it.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]


def register(app: typer.Typer) -> None:
    """Adds the commands of this file."""
    command(app, "forget")(forget)
    command(app, "restore-forgotten")(restore_forgotten)
    command(app, "archive")(archive)
    command(app, "unarchive")(unarchive)


def forget(options: Options, id: Id, subtree: Subtree = False, dry_run: DryRun = False) -> Reply:
    """Forget a memory; restore-forgotten brings it back.

    It leaves every search, context and list at once. Refused for what is pinned, for tasks that are not finished, and
    for what encloses the place where an agent is at work.
    """
    with options.open() as memory:
        return _reply(memory.forget(id, subtree=subtree, dry_run=dry_run))


def restore_forgotten(options: Options, id: Id, subtree: Subtree = False, dry_run: DryRun = False) -> Reply:
    """Bring a forgotten memory back, as it was.

    hybridmem tree --forgotten shows what is forgotten.
    """
    with options.open() as memory:
        return _reply(memory.restore_forgotten(id, subtree=subtree, dry_run=dry_run))


def archive(options: Options, id: Id, subtree: WithBelow = True, dry_run: DryRun = False) -> Reply:
    """Archive a memory and all below it.

    Kept for good, and searched only with --state archived.
    """
    with options.open() as memory:
        return _reply(memory.archive(id, subtree=subtree, dry_run=dry_run))


def unarchive(options: Options, id: Id, subtree: WithBelow = True, dry_run: DryRun = False) -> Reply:
    """Make an archived memory, and all below it, live again."""
    with options.open() as memory:
        return _reply(memory.unarchive(id, subtree=subtree, dry_run=dry_run))


def _reply(found: StateChange) -> Reply:
    def text(screen: Console) -> None:
        if found.note:
            screen.print(found.note, soft_wrap=True)
            return
        screen.print(f"{len(found.ids)} {DONE[found.operation][found.dry_run]}", soft_wrap=True)
        for id in found.ids[:SHOWN]:
            screen.print(f"  {id}", style="dim", soft_wrap=True)
        if len(found.ids) > SHOWN:
            screen.print(f"  … {len(found.ids) - SHOWN} more; --json lists all", style="dim", soft_wrap=True)

    return Reply(found.to_dict(), text)

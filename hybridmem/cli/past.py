"""Commands about how it was: history and restore."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from hybridmem.changes import Change, HistoryEntry, NodeChange, RestoreReport
from hybridmem.cli.forgetting import DryRun
from hybridmem.cli.memories import Id
from hybridmem.cli.options import Options, command
from hybridmem.cli.output import Reply, cut, one_line

if TYPE_CHECKING:
    from rich.console import Console

    from hybridmem import Memory

#: Memories that are printed for people of each kind; --json has them all.
SHOWN = 20
#: Columns that a value from and a value to may have.
WIDTH = 50


def register(app: typer.Typer) -> None:
    """Adds the commands of this file."""
    command(app, "history")(history)
    command(app, "restore")(restore)


def history(options: Options, id: Id) -> Reply:
    """Show what was ever done to a memory, oldest first.

    When, by whom, and what changed from what to what.
    """
    with options.open(create=False) as memory:
        found = memory.history(id)
    return Reply({"history": [entry.to_dict() for entry in found]}, lambda screen: _print_history(screen, found))


def restore(
    options: Options,
    checkpoint: Annotated[Optional[str], typer.Option(metavar="X", help="A label, or a number.")] = None,  # noqa: UP045
    sequence: Annotated[Optional[int], typer.Option(metavar="N", help="After this operation.")] = None,  # noqa: UP045
    dry_run: DryRun = False,
) -> Reply:
    """Bring the memory back to how it was.

    By a new operation, so that another restore undoes it. What was added since is forgotten, not deleted. A label that
    looks like a number is taken for a label if there is one.
    """
    with options.open(create=False) as memory:
        found = memory.restore(checkpoint=_meant(memory, checkpoint), sequence=sequence, dry_run=dry_run)
    return Reply(found.to_dict(), lambda screen: _print_report(screen, found))


def _meant(memory: Memory, checkpoint: str | None) -> str | int | None:
    if checkpoint is None or not checkpoint.isdecimal() or len(checkpoint) > 15:
        return checkpoint
    labels = {one.label for one in memory.checkpoints()}
    return checkpoint if checkpoint in labels else int(checkpoint)


def _print_history(screen: Console, found: list[HistoryEntry]) -> None:
    for entry in found:
        when = entry.at.isoformat(timespec="seconds")
        version = "" if entry.version is None else f"  version {entry.version}"
        screen.print(
            f"operation {entry.sequence:>6}  {entry.kind:<12} {when}  {one_line(entry.agent)}{version}", soft_wrap=True
        )
        _print_changes(screen, entry.changes)
        if entry.reasons:
            told = ", ".join(f"{name}: {value}" for name, value in entry.reasons.items())
            screen.print(f"    since        {one_line(told)}", style="dim", soft_wrap=True)


def _print_report(screen: Console, found: RestoreReport) -> None:
    if found.note:
        screen.print(found.note, soft_wrap=True)
    parts = (
        ("to bring back" if found.dry_run else "brought back", found.added),
        ("to forget" if found.dry_run else "forgotten", found.removed),
        ("to move" if found.dry_run else "moved", found.moved),
        ("to change" if found.dry_run else "changed", _told(found.changed)),
    )
    for name, nodes in parts:
        if nodes:
            screen.print(f"{len(nodes)} {name}", soft_wrap=True)
        for node in nodes[:SHOWN]:
            screen.print(f"  {node.id}  {cut(node.title, WIDTH)}", style="dim", soft_wrap=True)
            _print_changes(screen, node.changes)
        if len(nodes) > SHOWN:
            screen.print(f"  … {len(nodes) - SHOWN} more; --json lists all", style="dim", soft_wrap=True)
    for agent, change in found.active.items():
        screen.print(
            f"agent {one_line(agent)} {'would stand' if found.dry_run else 'stands'} elsewhere", soft_wrap=True
        )
        _print_changes(screen, {"task": Change(change.before[0], change.after[0])})
    if found.held_back:
        screen.print(f"{len(found.held_back)} held back: their content is purged", style="yellow", soft_wrap=True)
    for line in found.unsaid:
        screen.print(line, style="yellow", soft_wrap=True)
    if found.checkpoint is not None:
        screen.print(f"restored by operation {found.sequence}, checkpoint {found.checkpoint}", soft_wrap=True)


def _told(changed: tuple[NodeChange, ...]) -> list[NodeChange]:
    """What people want to see: not those of which only the time of the last activity is another one."""
    return [node for node in changed if node.changes.keys() != {"active_at"}]


def _print_changes(screen: Console, changes: dict[str, Change]) -> None:
    for name, change in changes.items():
        if name != "active_at" and (change.before, change.after) != (None, None):
            screen.print(
                f"    {name:<12} {_short(change.before)} → {_short(change.after)}", style="dim", soft_wrap=True
            )


def _short(value: Any) -> str:
    return "-" if value is None else cut(one_line(str(value)), WIDTH)

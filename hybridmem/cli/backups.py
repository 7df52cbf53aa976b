"""Commands about backup files: backup, backups, restore-backup."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from hybridmem.cli.options import Options, command
from hybridmem.cli.output import Reply, console, one_line
from hybridmem.errors import NotFound

if TYPE_CHECKING:
    from rich.console import Console

    from hybridmem.types import Backup


def register(app: typer.Typer) -> None:
    """Adds the commands of this file."""
    for name, function in (("backup", backup), ("backups", backups), ("restore-backup", restore)):
        command(app, name)(function)


def backup(
    options: Options,
    file: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(metavar="[FILE]", help="Where to; without it a new file in checkpoints/ of the store."),
    ] = None,
    label: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--label", help="What it is good for; a backup with a label is kept until you remove it."),
    ] = None,
) -> Reply:
    """Copy the whole store into one file while others go on writing.

    Every namespace is in it. The copy is opened and checked before it gets its name; a failure leaves nothing behind.
    """
    with options.open() as memory:
        made = _with_progress(lambda progress: memory.backup(file, label=label, progress=progress))
    return Reply(made.to_dict(), lambda screen: _print(screen, made))


def backups(
    options: Options,
    verify: Annotated[bool, typer.Option("--verify", help="Read each one whole and check it.")] = False,
) -> Reply:
    """List the backup files of the store, newest first.

    Works also when the store itself cannot be opened. Damaged ones are listed with what is wrong.
    """
    from hybridmem import keys
    from hybridmem.backup import list_backups

    if not options.path.is_dir():
        raise NotFound(f"there is no store at {options.path}; name one with --store PATH or HYBRIDMEM_STORE")
    provider = keys.provider(options.configuration().encryption)
    found = list_backups(options.path, options.names, verify=verify, keys=provider)

    def text(screen: Console) -> None:
        for item in found:
            _print(screen, item)
        if not found:
            screen.print("no backups", style="dim")

    return Reply({"backups": [item.to_dict() for item in found]}, text)


def restore(
    options: Options,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A backup file.")],
    directory: Annotated[str, typer.Argument(metavar="DIR", help="The directory of the store, new or empty.")],
    replace: Annotated[
        bool, typer.Option("--replace", help="A store that is there is moved aside, into DIR/aside/; never deleted.")
    ] = False,
) -> Reply:
    """Make a store of a backup file, with every namespace that was in it.

    Nobody may have the store open. Cut off at any moment, it may be run again.
    """
    from hybridmem import keys
    from hybridmem.backup_restore import restore_backup

    provider = keys.provider(options.configuration().encryption)
    done = restore_backup(file, directory, replace=replace, master_key=provider)

    def text(screen: Console) -> None:
        line = f"restored {done.nodes} memories (namespaces: {done.namespaces}) into {one_line(directory)}"
        screen.print(line, soft_wrap=True)
        if done.aside is not None:
            screen.print(f"the old store is in {one_line(str(done.aside))}", soft_wrap=True)

    return Reply(done.to_dict(), text)


def _with_progress(make: Callable[[Callable[[int, int], object] | None], Backup]) -> Backup:
    """Shows a bar on stderr if that is a terminal."""
    screen = console(sys.stderr)
    if not screen.is_terminal:
        return make(None)
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("copying"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen, transient=True) as progress:
        bar = progress.add_task("copying", total=None)
        return make(lambda done, total: progress.update(bar, completed=done, total=total))


def _print(screen: Console, item: Backup) -> None:
    if item.problem is not None:
        screen.print(
            f"damaged     {one_line(str(item.path))}: {one_line(item.problem)}", soft_wrap=True, style="yellow"
        )
        return
    number = "" if item.number is None else f"{item.number:>4}"
    screen.print(
        f"backup {number:>4}  operation {item.sequence:>6}  {item.nodes:>6} memories  {item.bytes / 1e6:>8.1f} MB  "
        f"{item.at.isoformat(timespec='seconds')}  {'checked' if item.verified else 'not read'}  "
        f"{one_line(item.label or '-')}  {one_line(str(item.path))}",
        soft_wrap=True,
    )

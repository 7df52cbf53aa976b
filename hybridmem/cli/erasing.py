"""Commands that erase for good, and show that it is gone: erase, verify-erasure."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from hybridmem.cli.options import Options, command
from hybridmem.cli.output import NOBODY, Reply, console, one_line
from hybridmem.errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import Console

    from hybridmem.cleanse import Progress
    from hybridmem.erased import ErasureReceipt

#: Something that was erased is there still.
FOUND = 13


def register(app: typer.Typer) -> None:
    """Adds the commands of this file."""
    command(app, "erase")(erase)
    command(app, "verify-erasure")(verify)


def erase(
    options: Options,
    id: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(metavar="[ID]", help="The id of a memory; or give --everything or --user."),
    ] = None,
    subtree: Annotated[bool, typer.Option("--subtree", help="With everything below it.")] = False,
    everything: Annotated[bool, typer.Option("--everything", help="All of the namespace, and no other.")] = False,
    user: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--user",
            metavar="NAME",
            help="Each namespace with this name among its names, and what the user said in others; "
            "zhang-san, not acme/zhang-san.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be erased.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask. Nothing brings back what is erased.")] = False,
) -> Reply:
    """Erase for good: rows, words, vectors, log, backups, free pages.

    Backups and exports in other places are not reached. The receipt has no contents; keep it, and give it to
    verify-erasure.
    """
    if sum((id is not None, everything, user is not None)) != 1:
        raise InvalidInput("erase: give one of an ID, --everything and --user NAME, and no more")
    if subtree and id is None:
        raise InvalidInput("--subtree: belongs to an ID")
    if not (yes or dry_run):
        _ask()
    if user is not None:
        from hybridmem.users import erase_user

        receipt = erase_user(options.path, user, dry_run=dry_run, config=options.configuration(), progress=_progress())
    else:
        with options.open() as memory:
            if id is not None:
                receipt = memory.erase(id, subtree=subtree, dry_run=dry_run, progress=_progress())
            else:
                receipt = memory.erase_namespace(everything=True, dry_run=dry_run, progress=_progress())
    nothing = user is not None and not (receipt.ids or receipt.namespaces)
    return Reply(receipt.to_dict(), lambda screen: _print(screen, receipt), [NOBODY.format(user)] if nothing else [])


def verify(
    options: Options,
    receipt: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(metavar="[RECEIPT]", help="A file with what erase --json printed; else all receipts here."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All receipts that the store has.")] = False,
    finish: Annotated[bool, typer.Option("--finish", help="First finish what was cut off.")] = False,
) -> Reply:
    """Look whether what was erased is gone: from every row, word, vector and backup.

    Ends with 13 if something is there still.
    """
    from hybridmem.erase_check import load_receipt, verify_erasure

    if receipt is not None and every:
        raise InvalidInput("verify-erasure: give either a RECEIPT or --all, and not both")
    wanted = None if receipt is None else [load_receipt(receipt)]
    check = verify_erasure(options.path, wanted, finish=finish, config=options.configuration())

    def text(screen: Console) -> None:
        for one in check.found:
            screen.print(one_line(one), soft_wrap=True, style="yellow")
        for one in check.notes:
            screen.print(one_line(one), soft_wrap=True, style="dim")
        files = sum(size for _, size in check.scanned)
        verdict = "nothing is left" if check.ok else f"{len(check.found)} things are left"
        screen.print(f"{check.receipts} receipts, {len(check.scanned)} files ({files / 1e6:.1f} MB): {verdict}")

    return Reply(check.to_dict(), text, exit_code=0 if check.ok else FOUND)


def _ask() -> None:
    if not sys.stdin.isatty():
        raise InvalidInput("--yes: nothing brings back what is erased; say --yes, or see with --dry-run what would go")
    if not typer.confirm("Nothing brings back what is erased. Go on?", err=True):
        raise InvalidInput("erase: not confirmed; nothing was erased")


def _progress() -> Progress | None:
    """A line on stderr for each step, if that is a terminal."""
    screen = console(sys.stderr)
    if not screen.is_terminal:
        return None
    return lambda what, done, total: screen.print(f"{done}/{total} {what}", style="dim")


def _print(screen: Console, receipt: ErasureReceipt) -> None:
    done = "would be erased" if receipt.dry_run else "erased"
    counts = {name: number for name, number in receipt.counts.items() if number}
    backups, rewritten = counts.pop("backups", 0), "to rewrite" if receipt.dry_run else "rewritten"
    said = ", ".join(f"{name} {number}" for name, number in counts.items()) or "nothing"
    screen.print(f"{done}: {said}{f'; backups {rewritten}: {backups}' if backups else ''}", soft_wrap=True)
    if receipt.summaries:
        screen.print(f"summaries: {', '.join(f'{k} {v}' for k, v in receipt.summaries.items())}", soft_wrap=True)
    if receipt.related:
        screen.print(f"{receipt.related} memories that replaced it or were merged with it stay", soft_wrap=True)
    for why in receipt.left:
        screen.print(f"not clean yet: {one_line(why)}", soft_wrap=True, style="yellow")
    if not receipt.dry_run:
        screen.print(f"receipt {receipt.digest}", soft_wrap=True, style="dim")

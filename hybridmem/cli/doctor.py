"""The command that looks at a whole store, and mends it: doctor."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from hybridmem import inputs
from hybridmem.cli.options import Options, command
from hybridmem.cli.output import Reply, console, is_ascii, one_line

if TYPE_CHECKING:
    from rich.console import Console

    from hybridmem.findings import Finding, Report

#: Exit code when something is wrong, or is still wrong after --fix.
FOUND = 13
#: Ids of a finding that are printed for people.
SHOWN = 3


def register(app: typer.Typer) -> None:
    """Adds the command of this file."""
    command(app, "doctor")(doctor)


def doctor(
    options: Options,
    path: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(metavar="[PATH]", help="The directory of the store, instead of --store."),
    ] = None,
    fix: Annotated[bool, typer.Option("--fix", help="Mend what is found. No memory is ever deleted.")] = False,
    replay: Annotated[
        bool, typer.Option("--replay", help="Also rebuild the tree from the log, and compare every field.")
    ] = False,
) -> Reply:
    """Check a store, all namespaces of it, and with --fix mend it.

    Recomputes all that can be recomputed: the tree, the log, the lexical index, the vectors in SQLite and in Chroma.
    Without --fix nothing is changed, and a store is looked at that cannot be opened any more.

    Exit code 0: all is well. 13: something is wrong, or is left after --fix; each line says what to do.
    """
    from hybridmem import doctor as doctors
    from hybridmem import keys

    store = inputs.path("path", path) if path is not None else options.path
    with _busy(f"checking {store}" if not fix else f"checking and mending {store}"):
        if fix:
            found = doctors.repair(store, config=options.configuration(), replay=replay)
        else:
            provider = keys.provider(options.configuration().encryption)
            found = doctors.verify(store, replay=replay, master_key=provider)
    exit_code = 0 if found.ok else FOUND
    return Reply(found.to_dict(), lambda screen: _print(screen, found), found.notes, exit_code)


def _busy(text: str) -> contextlib.AbstractContextManager[object]:
    """Something that moves on stderr meanwhile, if that is a terminal."""
    screen = console(sys.stderr)
    return screen.status(one_line(text)) if screen.is_terminal else contextlib.nullcontext()


def _print(screen: Console, report: Report) -> None:
    if report.mended:
        _print_table(screen, "mended", report.mended, with_fix=False)
    if report.findings:
        _print_table(screen, "left" if report.mended else "found", report.findings, with_fix=True)
    for file in report.aside:
        screen.print(f"moved aside: {file}", soft_wrap=True)
    counts = ", ".join(f"{name} {number}" for name, number in report.counts.items())
    if report.ok:
        screen.print(f"all is well: {counts or 'nothing was counted'}", style="green", soft_wrap=True)
    else:
        screen.print(
            f"{len(report.findings)} findings; {counts or 'nothing was counted'}", style="bold red", soft_wrap=True
        )


def _print_table(screen: Console, title: str, findings: tuple[Finding, ...], *, with_fix: bool) -> None:
    from rich import box
    from rich.table import Table

    table = Table(
        title=title, title_justify="left", box=box.ASCII if is_ascii(screen) else box.SIMPLE_HEAD, expand=True
    )
    table.add_column("severity")
    table.add_column("kind")
    table.add_column("namespace")
    table.add_column("what", ratio=3)
    if with_fix:
        table.add_column("what to do", ratio=2)
    for one in findings:
        ids = ", ".join(one.ids[:SHOWN]) + (", …" if one.count > SHOWN and one.ids else "")
        cells = [
            one.severity,
            one.kind,
            one_line("/".join(one.namespace)) if one.namespace else "-",
            one_line(one.message + (f" ({ids})" if ids else "")),
            *([one.fix] if with_fix else []),
        ]
        table.add_row(*cells, style="yellow" if one.severity == "warning" else None)
    screen.print(table)

"""The command about who did what: audit."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from hybridmem.cli.forgetting import DryRun
from hybridmem.cli.options import Options, command
from hybridmem.cli.output import Reply, one_line
from hybridmem.errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import Console

    from hybridmem.types import AuditEntry, AuditPruned

#: Entries that are shown where nobody says how many.
LIMIT = 100


def register(app: typer.Typer) -> None:
    """Adds the commands of this file."""
    command(app, "audit")(audit)


def audit(
    options: Options,
    verb: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--verb", metavar="NAME", help="Only these calls, by the name of the method: add, get, search …"),
    ] = None,
    by: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--by", metavar="AGENT", help="Only what this agent did."),
    ] = None,
    node: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--node", metavar="ID", help="Only what is about this memory."),
    ] = None,
    since: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--since", metavar="TIME", help="Only from this moment on, ISO 8601."),
    ] = None,
    until: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--until", metavar="TIME", help="Only before this moment."),
    ] = None,
    outcome: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--outcome", metavar="NAME", help="ok, failed (any error), or the name of an error."),
    ] = None,
    limit: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--limit", help=f"How many at most, the newest (default {LIMIT})."),
    ] = None,
    after: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--after", metavar="N", help="Only after entry N, and of these the first: to read on."),
    ] = None,
    export: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--export", metavar="FILE", help="All that fit as JSON lines into a file, whole or not at all."),
    ] = None,
    prune: Annotated[bool, typer.Option("--prune", help="Remove what is older than audit.retention_days.")] = False,
    older_than: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option("--older-than", metavar="DAYS", help="With --prune: what is older than this."),
    ] = None,
    dry_run: DryRun = False,
) -> Reply:
    """Show who did what in the namespace, and when.

    Every call of every agent, also those that failed; never what a memory says. hybridmem doctor tells whether anybody
    has tampered with it.
    """
    filters = {"verb": verb, "agent": by, "node": node, "since": since, "until": until, "outcome": outcome}
    given = [name for name, value in {**filters, "limit": limit, "after": after}.items() if value is not None]
    if prune and (given or export is not None):
        raise InvalidInput("--prune: removes the oldest, whatever they are; give no filter and no --export with it")
    if not prune and (older_than is not None or dry_run):
        raise InvalidInput("--older-than, --dry-run: belong to --prune")
    if export is not None and (limit is not None or after is not None):
        raise InvalidInput("--export: has all that fit; give no --limit and no --after")
    with options.open() as memory:
        if prune:
            return _pruned(memory.prune_audit(older_than, dry_run=dry_run))
        if export is not None:
            count = memory.export_audit(export, **filters)
            line = f"exported {count} entries to {one_line(export)}"
            return Reply({"file": export, "entries": count}, lambda screen: screen.print(line, soft_wrap=True))
        found = memory.audit(**filters, limit=LIMIT if limit is None else limit, after=after)
    return Reply({"entries": [one.to_dict() for one in found]}, lambda screen: _print(screen, found))


def _print(screen: Console, found: list[AuditEntry]) -> None:
    from rich.box import ASCII2, SIMPLE
    from rich.table import Table

    from hybridmem.cli.output import is_ascii

    table = Table(box=ASCII2 if is_ascii(screen) else SIMPLE)
    for name in ("entry", "when", "who", "did", "to", "and it was", "details"):
        table.add_column(name, justify="right" if name == "entry" else "left", overflow="fold")
    for one in found:
        when = one.at.isoformat(sep=" ", timespec="seconds").removesuffix("+00:00")
        texts = (str(one.sequence), when, one.agent, one.verb, one.node_id or "", one.outcome, _details(one.detail))
        table.add_row(*(one_line(text) for text in texts))
    screen.print(table)
    screen.print(f"{len(found)} entries, times in UTC")


def _details(detail: dict[str, Any]) -> str:
    """Of a hash its beginning: enough to see that two are the same."""
    shown = (
        (name, value[:20] if isinstance(value, str) and value.startswith(("hmac-", "sha256:")) else value)
        for name, value in detail.items()
    )
    return ", ".join(f"{name} {json.dumps(value, ensure_ascii=False)}" for name, value in shown)


def _pruned(found: AuditPruned) -> Reply:
    done = "would be removed" if found.dry_run else "removed"
    line = f"{found.removed} entries {done}, {found.kept} kept"
    return Reply(found.to_dict(), lambda screen: screen.print(line))

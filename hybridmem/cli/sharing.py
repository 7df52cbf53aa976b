"""Commands that share: share, unshare, grants, shared, group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Optional

import typer

from hybridmem.cli.memories import Id
from hybridmem.cli.options import Options, command
from hybridmem.cli.output import Reply, cut, visible
from hybridmem.principals import Grant

if TYPE_CHECKING:
    from rich.console import Console

#: Columns that the title of a shared subtree may have.
WIDTH = 50


def register(app: typer.Typer) -> None:
    """Adds the commands of this file."""
    command(app, "share")(share)
    command(app, "unshare")(unshare)
    command(app, "grants")(grants)
    command(app, "shared")(shared)
    command(app, "group")(group)


def share(
    options: Options,
    id: Id,
    principal: Annotated[
        str, typer.Argument(metavar="PRINCIPAL", help="user:acme/li-si, agent:acme/li-si:bot, or group:claims-team.")
    ],
    rights: Annotated[str, typer.Option("--rights", help="read, write or admin.")] = "read",
    expires: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--expires",
            metavar="TIME",
            help="Until when, ISO 8601; UTC without an offset, and a date alone is 00:00. Default: until unshare.",
        ),
    ] = None,
) -> Reply:
    """Share a memory with all below it.

    Names with / : or [ in them are given as JSON: user:["acme/x","li"], agent:[["acme/x","li"],"a:b"].
    """
    with options.open() as memory:
        made = memory.share(id, principal, rights, expires)
    return Reply(made.to_dict(), lambda screen: _print_grant(screen, made))


def unshare(
    options: Options, grant: Annotated[str, typer.Argument(metavar="GRANT", help="The id of a grant.")]
) -> Reply:
    """Take a grant back; the other's next call finds nothing any more."""
    with options.open() as memory:
        memory.unshare(grant)
    return Reply({"revoked": grant}, lambda screen: screen.print(f"revoked  {visible(grant)}", soft_wrap=True))


def grants(options: Options) -> Reply:
    """List what this namespace shares, and with whom."""
    with options.open() as memory:
        found = memory.grants()

    def text(screen: Console) -> None:
        for one in found:
            _print_grant(screen, one)

    return Reply({"grants": [one.to_dict() for one in found]}, text)


def shared(options: Options) -> Reply:
    """List what others share with this namespace."""
    with options.open() as memory:
        found = memory.shared()

    def text(screen: Console) -> None:
        for one in found:
            until = "" if one.expires is None else f"  until {one.expires.isoformat(timespec='seconds')}"
            owner = visible("/".join(one.owner))
            screen.print(
                f"{one.root.id}  {one.rights}  by {owner}{until}  {cut(one.root.content, WIDTH)}", soft_wrap=True
            )

    return Reply({"shared": [one.to_dict() for one in found]}, text)


def group(
    options: Options,
    name: Annotated[Optional[str], typer.Argument(metavar="NAME", help="Which to define; none: list all.")] = None,  # noqa: UP045
    members: Annotated[Optional[list[str]], typer.Argument(metavar="[MEMBER]...", help="Users and agents.")] = None,  # noqa: UP045
) -> Reply:
    """Define a group to share with, or list them.

    The members that are given are all it has; with none the group is gone.
    """
    with options.open() as memory:
        if name is not None:
            memory.set_group(name, members or [])
        found = {team: [str(one) for one in those] for team, those in memory.groups().items()}

    def text(screen: Console) -> None:
        for team, those in found.items():
            screen.print(f"{visible(team)}: {visible(', '.join(those))}", soft_wrap=True)

    return Reply({"groups": found}, text)


def _print_grant(screen: Console, one: Grant) -> None:
    until = "" if one.expires is None else f"  until {one.expires.isoformat(timespec='seconds')}"
    over = "  (over)" if one.expired else ""
    screen.print(f"{one.id}  {one.node_id}  {one.rights}  {visible(str(one.principal))}{until}{over}", soft_wrap=True)

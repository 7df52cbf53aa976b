"""Commands that change the state of memories: forget, restore-forgotten, archive, unarchive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from hybridmem.cli.memories import Id
from hybridmem.cli.options import Options, command
from hybridmem.cli.output import Reply
from hybridmem.errors import InvalidInput
from hybridmem.types import StateChange

if TYPE_CHECKING:
    from rich.console import Console

    from hybridmem.changes import PruneReport, PurgeReport

#: Means the policies of the configuration, as in Memory.forget().
CONFIGURED = "configured"
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
    command(app, "purge-forgotten")(purge_forgotten)
    command(app, "archive")(archive)
    command(app, "unarchive")(unarchive)


def forget(
    options: Options,
    id: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(metavar="[ID]", help="The id of a memory, as add, search and tree print it; or give --policy."),
    ] = None,
    subtree: Subtree = False,
    policy: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--policy",
            metavar="NAME",
            help="decay, least_weight, age, least_recently_used, newest or random, with its parameters by --set, e.g. "
            "--set max_nodes=1000; or configured: those of forgetting.policies.",
        ),
    ] = None,
    within: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--within", metavar="ID", help="With --policy: only what is below this memory."),
    ] = None,
    limit: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--limit", help="With --policy: how many go at most."),
    ] = None,
    dry_run: DryRun = False,
) -> Reply:
    """Forget a memory, or what a policy chooses; restore-forgotten brings it back.

    It leaves every search, context and list at once. Refused for what is pinned, for tasks that are not finished, and
    for what encloses the place where an agent is at work; a policy leaves these, and says so.
    """
    parameters, rest = _parameters(options.settings)
    if (id is None) == (policy is None):
        raise InvalidInput("forget: give either an ID or --policy NAME, and not both")
    if parameters and policy in (None, CONFIGURED):
        raise InvalidInput(
            f"--set {next(iter(parameters))}: belongs to the policy that --policy names, and to no other"
        )
    given = replace(options, settings=rest)
    with given.open() as memory:
        if id is not None:
            _refuse_with_id(within, limit)
            return _reply(memory.forget(id, subtree=subtree, dry_run=dry_run))
        if subtree:
            raise InvalidInput("--subtree: belongs to an ID; --within limits a policy to what is below a memory")
        chosen = CONFIGURED if policy == CONFIGURED else {"policy": policy, **parameters}
        return _pruned(memory.forget(policy=chosen, within=within, limit=limit, dry_run=dry_run))


def restore_forgotten(options: Options, id: Id, subtree: Subtree = False, dry_run: DryRun = False) -> Reply:
    """Bring a forgotten memory back, as it was.

    hybridmem tree --forgotten shows what is forgotten.
    """
    with options.open() as memory:
        return _reply(memory.restore_forgotten(id, subtree=subtree, dry_run=dry_run))


def purge_forgotten(
    options: Options,
    older_than: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option("--older-than", metavar="DAYS", help="Forgotten for so long; else forgetting.retention_days."),
    ] = None,
    limit: Annotated[Optional[int], typer.Option("--limit", help="How many at most.")] = None,  # noqa: UP045
    dry_run: DryRun = False,
) -> Reply:
    """Take away for good what forgotten memories said.

    Only of those forgotten for longer than they can be brought back; their places in the tree stay. Nothing brings the
    content back but a backup or an export.
    """
    with options.open(create=False) as memory:
        found = memory.purge_forgotten(older_than, limit=limit, dry_run=dry_run)
    return Reply(found.to_dict(), lambda screen: _print_purged(screen, found))


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


def _parameters(settings: Sequence[str]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Those of the ``--set`` that are parameters of a policy, which have no dot; and those for the configuration."""
    from hybridmem.config_file import parse_yaml

    parameters: dict[str, Any] = {}
    rest: list[str] = []
    for setting in settings:
        key, separator, value = setting.partition("=")
        if not separator or "." in key:
            rest.append(setting)
            continue
        try:
            parameters[key.strip()] = parse_yaml(f"--set {key}", value)
        except InvalidInput as error:
            raise InvalidInput(str(error)) from None
    return parameters, tuple(rest)


def _refuse_with_id(within: str | None, limit: int | None) -> None:
    for name, value in (("--within", within), ("--limit", limit)):
        if value is not None:
            raise InvalidInput(f"{name}: belongs to --policy, not to an ID")


def _pruned(found: PruneReport) -> Reply:
    def text(screen: Console) -> None:
        screen.print(f"{len(found.pruned)} {DONE['forget'][found.dry_run]}, {found.left} live left", soft_wrap=True)
        for one in found.pruned[:SHOWN]:
            screen.print(f"  {one.id}  {one.policy}: {one.reason}", style="dim", soft_wrap=True)
        if len(found.pruned) > SHOWN:
            screen.print(f"  … {len(found.pruned) - SHOWN} more; --json lists all", style="dim", soft_wrap=True)
        if found.held:
            screen.print(f"{len(found.held)} protected", soft_wrap=True)
        for one in found.held[:SHOWN]:
            screen.print(f"  {one.id}  {one.reason}", style="dim", soft_wrap=True)

    return Reply(found.to_dict(), text)


def _print_purged(screen: Console, found: PurgeReport) -> None:
    done = "would be purged" if found.dry_run else "purged"
    pinned = f", {found.pinned} of them only since pinned" if found.pinned else ""
    screen.print(f"{len(found.ids)} {done}, {found.kept} can still be brought back{pinned}", soft_wrap=True)
    for id in found.ids[:SHOWN]:
        screen.print(f"  {id}", style="dim", soft_wrap=True)
    if len(found.ids) > SHOWN:
        screen.print(f"  … {len(found.ids) - SHOWN} more; --json lists all", style="dim", soft_wrap=True)


def _reply(found: StateChange) -> Reply:
    def text(screen: Console) -> None:
        if found.note:
            screen.print(found.note, soft_wrap=True)
        if not found.ids:
            return
        screen.print(f"{len(found.ids)} {DONE[found.operation][found.dry_run]}", soft_wrap=True)
        for id in found.ids[:SHOWN]:
            screen.print(f"  {id}", style="dim", soft_wrap=True)
        if len(found.ids) > SHOWN:
            screen.print(f"  … {len(found.ids) - SHOWN} more; --json lists all", style="dim", soft_wrap=True)

    return Reply(found.to_dict(), text)

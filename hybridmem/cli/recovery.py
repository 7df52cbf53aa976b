"""Commands that recover: resume and checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from hybridmem.cli.options import Options, command
from hybridmem.cli.output import Reply, cut, one_line
from hybridmem.errors import InvalidInput
from hybridmem.types import Checkpoint

if TYPE_CHECKING:
    from rich.console import Console

#: Operations since the checkpoint that are printed for people.
SHOWN_OPERATIONS = 10


def register(app: typer.Typer) -> None:
    """Adds the commands of this file."""
    command(app, "resume")(resume)
    command(app, "checkpoint")(checkpoint)


def resume(options: Options) -> Reply:
    """Say where the agent was and what comes next.

    Prints the active task, its next step, the last decisions, open sub-tasks, whether the last run was interrupted
    and during what, and what happened since the last checkpoint.
    """
    with options.open() as memory:
        point = memory.resume().to_dict()
    return Reply(point, lambda screen: print_resume(screen, point))


def checkpoint(
    options: Options,
    label: Annotated[Optional[str], typer.Argument(metavar="[LABEL]", help="A name for this point.")] = None,  # noqa: UP045
    listed: Annotated[bool, typer.Option("--list", help="Show the checkpoints, newest first, and write none.")] = False,
    backup: Annotated[
        bool, typer.Option("--backup", help="Make a backup file with it, see: hybridmem backup.")
    ] = False,
) -> Reply:
    """Mark this point in the log.

    Task changes, and every so many operations and seconds (checkpoint.*), do so by themselves.
    """
    if listed and label is not None:
        raise InvalidInput("checkpoint: give a label or --list, not both")
    if listed and backup:
        raise InvalidInput("checkpoint: give --backup or --list, not both")
    with options.open(create=not listed) as memory:
        found = memory.checkpoints() if listed else [memory.checkpoint(label, backup=backup)]

    def text(screen: Console) -> None:
        for item in found:
            _print_checkpoint(screen, item)
        if not found:
            screen.print("no checkpoints", style="dim")

    data = {"checkpoints": [item.to_dict() for item in found]} if listed else found[0].to_dict()
    return Reply(data, text)


def print_resume(screen: Console, point: dict[str, Any]) -> None:
    """A resume point (as ``ResumePoint.to_dict()`` gives it) for people."""
    from rich.text import Text

    def line(name: str, value: str, style: str = "") -> None:
        screen.print(Text.assemble((f"{name:<12}", "dim"), (value, style)), soft_wrap=True)

    room = max(screen.width - 14, 40)
    task = point["active_task"]
    if task is None:
        line("task", "none is active; start one with: hybridmem task start TITLE")
    else:
        line("task", f"{cut(task['content'], room)} [{task['task']['status']}]", "bold")
    if point["claim"]:
        line("claimed", f"by {point['claim']['agent']} until {point['claim']['until']}", "yellow")
    line("path", " › ".join(cut(node["content"], 30) for node in point["path"]))
    line("next step", one_line(point["next_step"] or "-"), "bold cyan" if point["next_step"] else "")
    for name, key in (("decided", "decisions"), ("open", "open_subtasks")):
        for node in point[key]:
            line(name, cut(node["content"], room))
    line("last run", _last_run(point), "bold yellow" if point["interrupted"] else "")
    since, checkpoint_ = point["operations_since"], point["checkpoint"]
    where = "the beginning" if checkpoint_ is None else f"checkpoint {checkpoint_['id']} ({_name(checkpoint_)})"
    line("log", f"{len(since)} operations since {where}")
    for operation in since[-SHOWN_OPERATIONS:]:
        line("", f"{operation['sequence']:>6}  {operation['kind']:<12} {operation['node_id'] or ''}", "dim")


def _last_run(point: dict[str, Any]) -> str:
    if not point["interrupted"]:
        return "ended in order"
    last = point["last_operation"]
    did = f"; the last thing stored was operation {last['sequence']} ({last['kind']})" if last else ""
    during = f", before or during the step: {one_line(point['next_step'])}" if point["next_step"] else ""
    return f"interrupted: it ended without closing{did}{during}"


def _print_checkpoint(screen: Console, item: Checkpoint) -> None:
    screen.print(
        f"checkpoint {item.id:>4}  operation {item.sequence:>6}  {item.nodes:>6} memories  "
        f"{item.at.isoformat(timespec='seconds')}  {one_line(_name(item.to_dict()))}"
        f"{f'  backup {one_line(item.backup.name)}' if item.backup else ''}",
        soft_wrap=True,
    )


def _name(item: dict[str, Any]) -> str:
    return str(item["label"] or item["reason"])

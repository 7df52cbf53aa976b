"""The commands of ``hybridmem task``: start, switch, update, finish, claim, release, list, show."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from hybridmem.cli.memories import Importance, Metadata, index_if_many, node_reply
from hybridmem.cli.options import Options, command, given_object, given_text, group_options
from hybridmem.cli.output import Reply, cut, one_line
from hybridmem.errors import NotFound
from hybridmem.types import Node

if TYPE_CHECKING:
    from rich.console import Console

NAMES = ("start", "switch", "update", "finish", "claim", "release", "list", "show")
#: How a status looks, in a UTF-8 terminal and in any other.
SYMBOLS = {"open": ("○", "o"), "paused": ("◌", "-"), "done": ("✓", "+"), "failed": ("✗", "x")}
STYLES = {"open": "cyan", "paused": "yellow", "done": "green", "failed": "red"}
#: Memories right below a task that ``task show`` prints.
SHOWN = 50

TaskId = Annotated[Optional[str], typer.Argument(metavar="[ID]", help="The id of a task; default: the active one.")]  # noqa: UP045
Token = Annotated[Optional[int], typer.Option("--token", help="That of the claim, as task claim printed it.")]  # noqa: UP045
NextStep = Annotated[Optional[str], typer.Option("--next-step", help="What comes next; resume tells it.")]  # noqa: UP045


def register(app: typer.Typer) -> None:
    """Adds the group and its commands."""
    group = typer.Typer()
    group_options(group, help="Start, switch, update, finish, claim, list and show tasks.")
    app.add_typer(group, name="task")
    commands: dict[str, Callable[..., Reply]] = {
        "start": start,
        "switch": switch,
        "update": update,
        "finish": finish,
        "claim": claim,
        "release": release,
        "list": list_,
        "show": show,
    }
    for name, function in commands.items():
        command(group, name)(function)


def start(
    options: Options,
    title: Annotated[str, typer.Argument(metavar="TITLE", help="What the task is; - reads stdin.")],
    next_step: NextStep = None,
    parent: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--parent", help="active (a sub-task of the active task) or an id; default: the root."),
    ] = None,
    importance: Importance = None,
    metadata: Metadata = None,
) -> Reply:
    """Start a task and make it the active one.

    New memories hang under the active task. Creates the store if it is not there.
    """
    text, details = given_text("title", title), given_object("metadata", metadata)
    with options.open(create=True) as memory:
        node = memory.start_task(text, next_step=next_step, parent=parent, importance=importance, metadata=details)
        index_if_many(memory)
    return node_reply(node, "started")


def switch(options: Options, id: Annotated[str, typer.Argument(metavar="ID", help="The id of a task.")]) -> Reply:
    """Make an open or paused task the active one."""
    with options.open() as memory:
        node = memory.switch_task(id)
    return node_reply(node, "now active")


def update(
    options: Options,
    id: TaskId = None,
    title: Annotated[Optional[str], typer.Option("--title", help="The new title.")] = None,  # noqa: UP045
    next_step: NextStep = None,
    status: Annotated[Optional[str], typer.Option("--status", help="open or paused.")] = None,  # noqa: UP045
    token: Token = None,
) -> Reply:
    """Change a task.

    Tell the next step before you take it: a crash then loses nothing.
    """
    with options.open() as memory:
        node = memory.update_task(id, title=title, next_step=next_step, status=status, token=token)
        index_if_many(memory)
    return node_reply(node, "updated")


def finish(
    options: Options,
    id: TaskId = None,
    status: Annotated[str, typer.Option("--status", help="done or failed.")] = "done",
    outcome: Annotated[Optional[str], typer.Option("--outcome", help="Kept as an event under the task.")] = None,  # noqa: UP045
    token: Token = None,
) -> Reply:
    """Finish a task; its nearest open ancestor task becomes active."""
    with options.open() as memory:
        node = memory.finish_task(id, status=status, outcome=outcome, token=token)
        index_if_many(memory)
    return node_reply(node, f"finished ({status})")


def claim(
    options: Options,
    id: TaskId = None,
    seconds: Annotated[float, typer.Option("--seconds", help="How long it lasts, up to a day.")] = 300.0,
    token: Token = None,
) -> Reply:
    """Take a task for yourself alone for a time, or for longer with the token of your claim.

    Nobody without the token can update, finish or claim it until then.
    """
    with options.open() as memory:
        found = memory.claim_task(id, seconds=seconds, token=token, outlives=True)

    def text(screen: Console) -> None:
        screen.print(f"{found.task_id}  claimed until {found.until.isoformat(timespec='seconds')}, token {found.token}")

    return Reply(found.to_dict(), text)


def release(options: Options, id: TaskId = None, token: Token = None) -> Reply:
    """Give a claimed task free again."""
    with options.open() as memory:
        released = memory.release_task(id, token=token)
    return Reply(
        {"released": released}, lambda screen: screen.print("released" if released else "nobody had claimed it")
    )


def list_(
    options: Options,
    status: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option("--status", help="Only open, paused, done or failed ones. Repeatable."),
    ] = None,
) -> Reply:
    """List the tasks of the namespace in the order they were started; the active one is marked."""
    with options.open() as memory:
        found = memory.tasks(status) if status else memory.tasks()
        active = memory.active_task()
    active_id = active.id if active else None

    def text(screen: Console) -> None:
        if not found:
            screen.print("no tasks", style="dim")
        for node in found:
            print_task(screen, node, active=node.id == active_id)

    return Reply({"tasks": [node.to_dict() for node in found], "active_task_id": active_id}, text)


def show(options: Options, id: TaskId = None) -> Reply:
    """Print one task with what hangs right below it."""
    with options.open() as memory:
        active = memory.active_task()
        node = memory.get(id) if id is not None else active
        if node is None:
            raise NotFound("task: this agent has no active task; name one, or start one with hybridmem task start")
        children = memory.children(node.id, limit=SHOWN)

    def text(screen: Console) -> None:
        print_task(screen, node, active=active is not None and node.id == active.id)
        for child in children:
            screen.print(
                f"    {child.id}  {child.type:<11}{cut(child.content, max(screen.width - 34, 30))}", soft_wrap=True
            )

    data: dict[str, Any] = {**node.to_dict(), "children": [child.to_dict() for child in children]}
    return Reply(data, text)


def print_task(screen: Console, node: Node, *, active: bool) -> None:
    """Status, title, id and next step of a task."""
    from rich.text import Text

    status = node.task.status if node.task else "open"
    screen.print(
        Text.assemble(
            status_text(screen, status),
            "  ",
            (cut(node.content, max(screen.width - 48, 30)), "bold" if active else ""),
            (f"  {node.id}", "dim"),
            ("  <- active", "bold cyan") if active else "",
        ),
        soft_wrap=True,
    )
    if node.task and node.task.next_step:
        screen.print(Text(f"          next: {one_line(node.task.next_step)}"), soft_wrap=True)


def status_text(screen: Console, status: str) -> tuple[str, str]:
    """A status as a symbol and a word, with its colour."""
    from hybridmem.cli.output import is_ascii

    return f"{SYMBOLS[status][is_ascii(screen)]} {status:<6}", STYLES[status]

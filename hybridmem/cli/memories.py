"""Commands that write single memories and read them back by id: add, update, move, show, and index."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from hybridmem.cli.options import Options, command, given_object, given_text
from hybridmem.cli.output import Reply, console, cut, one_line, visible
from hybridmem.types import Node

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from hybridmem.memory import Memory

#: Seconds between two moves of the progress bar.
PROGRESS_SECONDS = 0.5

Id = Annotated[str, typer.Argument(metavar="ID", help="The id of a memory, as add, search and tree print it.")]
Content = Annotated[str, typer.Argument(metavar="CONTENT", help="The text; - reads stdin, kept byte for byte.")]
Importance = Annotated[Optional[float], typer.Option("--importance", help="In [0, 1]; default: that of the type.")]  # noqa: UP045
Confidence = Annotated[Optional[float], typer.Option("--confidence", help="In [0, 1]; default 0.7.")]  # noqa: UP045
Metadata = Annotated[Optional[str], typer.Option("--metadata", metavar="JSON", help='E.g. \'{"source": "mail"}\'.')]  # noqa: UP045
Version = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option("--expected-version", help="The version you read; refused (exit 6) if somebody changed it since."),
]


def register(app: typer.Typer) -> None:
    """Adds the commands of this file."""
    for name, function in (("add", add), ("show", show), ("update", update), ("move", move), ("index", index)):
        command(app, name)(function)


def add(
    options: Options,
    content: Content,
    type: Annotated[str, typer.Option("--type", help="event, fact, preference, decision, note, summary, …")] = "note",
    parent: Annotated[
        str, typer.Option("--parent", help="task (the active one), decision, node, root, or the id of a memory.")
    ] = "task",
    importance: Importance = None,
    confidence: Confidence = None,
    metadata: Metadata = None,
    occurred_at: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--occurred-at", metavar="TIME", help="When it happened, ISO 8601; default: now."),
    ] = None,
) -> Reply:
    """Store one memory.

    Creates the store if it is not there. The memory is durable and found by its words at once. Its vector is left
    for later, so that this command need not load a
    model: the next search computes it, or hybridmem index. When more wait than index.batch_size, add does it itself.
    """
    text, details = given_text("content", content), given_object("metadata", metadata)
    with options.open(create=True) as memory:
        node = memory.add(
            text,
            type=type,
            parent=parent,
            importance=importance,
            confidence=confidence,
            metadata=details,
            occurred_at=occurred_at,
        )
        index_if_many(memory)
    verb = "added" if node.created else "confirmed (it was there already)"
    return node_reply(node, verb, created=node.created)


def show(options: Options, id: Id) -> Reply:
    """Print one memory with everything known about it."""
    with options.open() as memory:
        node = memory.get(id)
        path = [ancestor.content for ancestor in memory.ancestors(id)]

    def text(screen: Console) -> None:
        head = f"{node.id}  {node.type}  {node.state}{'  pinned' if node.pinned else ''}  version {node.version}"
        screen.print(head, style="bold", soft_wrap=True)
        if path:
            screen.print("under: " + " › ".join(cut(part, 40) for part in path), style="dim", soft_wrap=True)
        if node.task is not None:
            screen.print(
                f"status: {node.task.status}; next step: {one_line(node.task.next_step or '-')}", soft_wrap=True
            )
        screen.print(
            f"importance {node.importance:.2f}  confidence {node.confidence:.2f}  uses {node.uses}  by {node.agent}  "
            f"at {node.created_at.isoformat(timespec='seconds')}",
            soft_wrap=True,
        )
        if node.metadata:
            screen.print(f"metadata: {visible(str(node.metadata))}", soft_wrap=True)
        screen.print()
        screen.print(visible(node.content), soft_wrap=True)

    return Reply({**node.to_dict(), "path": path}, text)


def update(
    options: Options,
    id: Id,
    content: Annotated[Optional[str], typer.Option("--content", help="The new text; - reads stdin.")] = None,  # noqa: UP045
    type: Annotated[Optional[str], typer.Option("--type", help="The new type.")] = None,  # noqa: UP045
    importance: Importance = None,
    confidence: Confidence = None,
    metadata: Metadata = None,
    expected_version: Version = None,
) -> Reply:
    """Change a memory: what is given, and nothing else.

    Metadata is merged into the old; a null removes its key.
    """
    text = None if content is None else given_text("content", content)
    details = given_object("metadata", metadata)
    with options.open() as memory:
        node = memory.update(
            id,
            content=text,
            type=type,
            importance=importance,
            confidence=confidence,
            metadata=details,
            expected_version=expected_version,
        )
        index_if_many(memory)
    return node_reply(node, f"updated to version {node.version}")


def move(
    options: Options,
    id: Id,
    parent: Annotated[str, typer.Argument(metavar="PARENT", help="An id, or task, decision, node, root.")],
    expected_version: Version = None,
) -> Reply:
    """Hang a memory, with all below it, under another parent."""
    with options.open() as memory:
        node = memory.move(id, parent, expected_version=expected_version)
    return node_reply(node, f"moved under {node.parent_id}")


def index(options: Options) -> Reply:
    """Compute the vectors that wait and hand them to Chroma.

    Shows a progress bar on stderr, and tries again what failed. Never needed for a result to be right: a search
    computes the few that wait by itself. Useful after an import, or
    from a timer.
    """
    with options.open() as memory:
        waiting = flush_with_progress(memory)
        stats = memory.stats()
    data = {"waiting": waiting, "vectors": stats.vectors, "stuck": [list(item) for item in stats.stuck]}
    done = f"{stats.vectors} memories have a vector, {waiting} still wait"
    warnings = [f"{id_}: {reason}" for id_, reason in stats.stuck]
    return Reply(data, lambda screen: screen.print(done), warnings)


def node_reply(node: Node, verb: str, **extra: object) -> Reply:
    """What was written, in one line."""

    def text(screen: Console) -> None:
        screen.print(f"{verb}  {node.id}  {node.type}  {cut(node.content, max(screen.width - 50, 20))}", soft_wrap=True)

    return Reply({**node.to_dict(), **extra}, text)


def index_if_many(memory: Memory) -> None:
    """After a write: more than one batch waits for its vectors, so the next search should not have to pay for it."""
    if memory.pending() > memory.config.index.batch_size:
        flush_with_progress(memory)


def flush_with_progress(memory: Memory) -> int:
    """``memory.flush()`` with a bar on stderr if that is a terminal. Returns how many still wait."""
    screen = console(sys.stderr)
    if not screen.is_terminal:
        return memory.flush()
    with progress_bar(screen, "indexing") as progress:
        last: tuple[int, ...] = ()
        total = memory.pending()
        bar = progress.add_task("indexing", total=total)
        while True:
            waiting = memory.flush(PROGRESS_SECONDS)
            now = (memory.stats().vectors, memory.pending(), waiting)
            progress.update(bar, completed=total - min(now[1], total))
            if waiting == 0 or now == last:
                return waiting
            last = now


def progress_bar(screen: Console, verb: str) -> Progress:
    """A bar with counts and the time that is left; to be entered."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(verb), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=screen, transient=True)

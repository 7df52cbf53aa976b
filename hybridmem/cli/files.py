"""Commands about files and the store as a whole: import, export, stats, reembed, config."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from hybridmem.cli.memories import index_if_many, progress_bar
from hybridmem.cli.options import Options, command
from hybridmem.cli.output import NOBODY, Reply, console, one_line
from hybridmem.errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import Console

    from hybridmem.memory import Memory
    from hybridmem.types import ReembedReport

File = Annotated[str, typer.Argument(metavar="FILE", help="The path of the file.")]


def register(app: typer.Typer) -> None:
    """Adds the commands of this file."""
    commands = (("import", import_), ("export", export), ("stats", stats), ("reembed", reembed), ("config", config))
    for name, function in commands:
        command(app, name)(function)


def import_(
    options: Options,
    file: File,
    format: Annotated[
        str,
        typer.Option("--format", help="auto, jsonl (our export), tree (plain tree JSON) or chat (messages)."),
    ] = "auto",
    parent: Annotated[
        str, typer.Option("--parent", help="Where chats and foreign trees hang: task, root, node, or an id.")
    ] = "task",
) -> Reply:
    """Read memories from a file, all or none.

    What is already there is skipped, so it may be run again. Creates the store if it is not there.
    """
    with options.open(create=True) as memory:
        report = memory.import_(file, format=format, parent=parent)
        index_if_many(memory)
    line = f"added {report.added}, skipped {report.skipped} that were already there ({report.format})"
    if report.held_back:
        line += f", held back {report.held_back} that are purged here"
    return Reply(report.to_dict(), lambda screen: screen.print(line))


def export(
    options: Options,
    file: File,
    format: Annotated[str, typer.Option("--format", help="jsonl (every field) or tree (plain tree JSON).")] = "jsonl",
    plain: Annotated[
        bool, typer.Option("--plain", help="Readable by anybody, also of an encrypted store; else that is sealed.")
    ] = False,
    user: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--user", metavar="NAME", help="Instead all that erase --user erases, as JSON."),
    ] = None,
) -> Reply:
    """Write all memories of the namespace to a file, whole or not at all."""
    if file == "-":
        raise InvalidInput("file: an export goes to a file, whole or not at all; name one, and print it with cat")
    if user is not None:
        from hybridmem.users import export_user

        nodes = export_user(options.path, user, file, config=options.configuration())
        told = {"file": file, "format": "user", "nodes": nodes}
        return Reply(
            told,
            lambda screen: screen.print(f"exported {nodes} memories to {one_line(file)}", soft_wrap=True),
            [] if nodes else [NOBODY.format(user)],
        )
    with options.open() as memory:
        nodes = memory.export(file, format=format, plain=plain)
    data = {"file": file, "format": format, "nodes": nodes}
    return Reply(data, lambda screen: screen.print(f"exported {nodes} memories to {one_line(file)}", soft_wrap=True))


def stats(options: Options) -> Reply:
    """Numbers about the namespace, and what waits for its vector and why."""
    with options.open() as memory:
        found = memory.stats()

    def text(screen: Console) -> None:
        def counted(numbers: dict[str, int]) -> str:
            return ", ".join(f"{name} {number}" for name, number in sorted(numbers.items())) or "-"

        where = f" at {found.index_url}" if found.index_url else ""
        where += f" ({found.index_reason})" if found.index_reason else ""
        rows = {
            "namespace": "/".join(found.namespace),
            "memories": f"{found.nodes} ({counted(found.by_type)})",
            "states": counted(found.by_state),
            "open tasks": found.open_tasks,
            "depth": found.depth,
            "operations": f"{found.operations}, checkpoints {found.checkpoints}",
            "vectors": f"{found.vectors} of {found.nodes}, failed {len(found.stuck)}",
            "Chroma": f"{found.index}{where}, {found.pending} memories wait for it",
            "model": found.embedding_model or "not chosen yet: the first search or hybridmem index does",
            "size": f"{found.size_bytes / 1e6:.1f} MB",
        }
        for name, value in rows.items():
            screen.print(f"{name:<11} {one_line(str(value))}", soft_wrap=True)

    return Reply(found.to_dict(), text, [f"{id_}: {reason}" for id_, reason in found.stuck])


def reembed(options: Options) -> Reply:
    """Make the configured embedding model that of the store.

    Every content of the store is embedded anew, whatever its namespace. May be interrupted at any time: run again, it
    goes on where it stopped. Until it is done the old vectors stay.
    """
    with options.open() as memory:
        report = reembed_with_progress(memory)
    counts = f"{report.embedded + report.resumed} memories embedded, {report.failed} failed"
    line = f"{counts}: {report.before} → {report.model}"
    if report.before == report.model and not report.embedded + report.resumed + report.failed:
        line = f"nothing to do: the store has {report.model}"
    return Reply(report.to_dict(), lambda screen: screen.print(one_line(line), soft_wrap=True))


def reembed_with_progress(memory: Memory) -> ReembedReport:
    """``memory.reembed()`` with a bar on stderr if that is a terminal."""
    screen = console(sys.stderr)
    if not screen.is_terminal:
        return memory.reembed()
    with progress_bar(screen, "embedding") as progress:
        bar = progress.add_task("embedding", total=None)
        return memory.reembed(progress=lambda done, total: progress.update(bar, completed=done, total=total))


def config(options: Options) -> Reply:
    """Print the effective configuration as YAML.

    The defaults, over them the file of --config, over that each --set.
    """
    found = options.configuration().model_dump(mode="json")

    def text(screen: Console) -> None:
        import yaml

        screen.print(yaml.safe_dump(found, allow_unicode=True, sort_keys=False), end="", soft_wrap=True)

    return Reply({"config": found}, text)

"""Commands that take raw output in: observe."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hybridmem.cli.memories import index_if_many
from hybridmem.cli.options import Options, command, given_text
from hybridmem.cli.output import Reply, cut
from hybridmem.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from rich.console import Console

    from hybridmem.results import Observed


def register(app: typer.Typer) -> None:
    """Adds the commands of this file."""
    command(app, "observe")(observe)


def observe(
    options: Options,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Messages or log lines; - reads stdin.")],
    format: Annotated[
        str, typer.Option("--format", help="chat (JSON), jsonl (an object per line), lines, or auto.")
    ] = "auto",
    parent: Annotated[str, typer.Option("--parent", help="Where they hang: task, root, node, or an id.")] = "task",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be stored and dropped.")] = False,
) -> Reply:
    """Store raw output of an agent: chat messages, tool calls and results, log lines.

    Noise (repeats, empty results, progress, acknowledgements) is left out, and the reply says what and why. All or
    nothing; creates the store if it is not there.
    """
    text = given_text("file", file) if file == "-" else _read(Path(file))
    with options.open(create=not dry_run) as memory:
        found = memory.observe(text, format=format, parent=parent, dry_run=dry_run)
        if not dry_run:
            index_if_many(memory)
    return Reply(found.to_dict(), lambda screen: _show(screen, found), found.warnings)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise NotFound(f"{file}: there is no such file") from None
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{file}: is not UTF-8 text: {error}") from error
    except OSError as error:
        raise InvalidInput(f"{file}: cannot be read: {error}") from error


def _show(screen: Console, found: Observed) -> None:
    would = "would be " if found.dry_run else ""
    types = Counter(kept.type for kept in found.kept)
    counted = ", ".join(f"{name} {number}" for name, number in sorted(types.items())) or "nothing"
    line = f"{found.messages} messages: {would}stored {len(found.kept)} ({counted}), dropped {len(found.dropped)}"
    screen.print(line, soft_wrap=True)
    for reason, number in Counter(one.reason for one in found.dropped).most_common():
        first = next(one for one in found.dropped if one.reason == reason)
        shown = f"  {number} × {reason}; the first is message {first.position}: {cut(first.text, 40)}"
        screen.print(shown, style="dim", soft_wrap=True)

"""Commands that take raw output in and merge what is there twice: observe, duplicates, merge, unmerge."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from hybridmem import inputs
from hybridmem.cli.memories import Id, index_if_many
from hybridmem.cli.options import Options, command, given_text
from hybridmem.cli.output import Reply, cut, one_line

if TYPE_CHECKING:
    from rich.console import Console

    from hybridmem.results import NearDuplicates, Observed


def register(app: typer.Typer) -> None:
    """Adds the commands of this file."""
    for name, function in (("observe", observe), ("duplicates", duplicates), ("merge", merge), ("unmerge", unmerge)):
        command(app, name)(function)


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
    from hybridmem.files import read_text

    text = given_text("file", file) if file == "-" else read_text(inputs.path("file", file))
    with options.open(create=not dry_run) as memory:
        found = memory.observe(text, format=format, parent=parent, dry_run=dry_run)
        if not dry_run:
            index_if_many(memory)
    return Reply(found.to_dict(), lambda screen: _show(screen, found), found.warnings)


def duplicates(
    options: Options,
    within: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(metavar="[ID]", help="Only at and below this memory; default: the whole namespace."),
    ] = None,
    threshold: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option("--threshold", help="How alike at least, in [0, 1]; default 0.8."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", help="How many groups, and pairs that differ, to list.")] = 20,
) -> Reply:
    """Find memories that say the same.

    Changes nothing. What reads alike but differs in a number, date, code, name or negation is listed apart. hybridmem
    merge merges.
    """
    from hybridmem.duplicates import THRESHOLD

    with options.open() as memory:
        found = memory.near_duplicates(within, threshold=THRESHOLD if threshold is None else threshold, limit=limit)
    waiting = f"{found.without_vector} memories have no vector yet: run hybridmem index first, to find all"
    return Reply(found.to_dict(), lambda screen: _list(screen, found), [waiting] if found.without_vector else [])


def merge(
    options: Options,
    keep: Annotated[str, typer.Argument(metavar="KEEP", help="The id of the memory to keep.")],
    others: Annotated[list[str], typer.Argument(metavar="OTHER...", help="Ids of those that it is to stand for.")],
) -> Reply:
    """Let one memory stand for others that say the same.

    They leave every search; unmerge brings them back.
    """
    with options.open() as memory:
        found = memory.merge_duplicates(keep, others)
    line = f"merged {len(found.ids)} into {found.keep.id}; confidence {found.keep.confidence:.2f}"
    return Reply(found.to_dict(), lambda screen: screen.print(line, soft_wrap=True))


def unmerge(options: Options, id: Id) -> Reply:
    """Undo the last merge into a memory."""
    with options.open() as memory:
        found = memory.unmerge(id)
    line = f"{len(found.ids)} live again, taken out of {found.keep.id}"
    return Reply(found.to_dict(), lambda screen: screen.print(line, soft_wrap=True))


def _list(screen: Console, found: NearDuplicates) -> None:
    screen.print(
        f"{found.compared} memories compared: {found.groups_found} groups that say the same, "
        f"{found.different_found} pairs that only read alike",
        soft_wrap=True,
    )
    width = max(screen.width - 30, 20)
    for group in found.groups:
        screen.print(f"{group.likeness:.2f}  {group.keep.id}  {cut(group.keep.content, width)}", soft_wrap=True)
        for node in group.others:
            screen.print(f"      {node.id}  {cut(node.content, width)}", style="dim", soft_wrap=True)
    for pair in found.different:
        shown = f"{pair.likeness:.2f}  {pair.first.id} {pair.second.id}  differ in {one_line('; '.join(pair.differs))}"
        screen.print(shown, style="dim", soft_wrap=True)


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

"""Commands that retrieve: search and context."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from hybridmem.cli.options import Options, command, given_text
from hybridmem.cli.output import Reply, cut, one_line, visible
from hybridmem.results import SearchResult

if TYPE_CHECKING:
    from rich.console import Console

Scope = Annotated[
    str,
    typer.Option("--scope", help="auto (the active task preferred), namespace, task (only it), or an id."),
]
Types = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--type", help="Only memories of this type. Repeatable."),
]
States = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option(
        "--state", help="Only memories in this state: live (default), archived, superseded, forgotten. Repeatable."
    ),
]
AsOf = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--as-of", metavar="TIME", help="The memory as it was then, ISO 8601; a date alone is 00:00 UTC."),
]


def register(app: typer.Typer) -> None:
    """Adds the commands of this file."""
    command(app, "search")(search)
    command(app, "context")(context)


def search(
    options: Options,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Any text; - reads stdin.")],
    k: Annotated[Optional[int], typer.Option("-k", "--limit", help="Hits at most; default retrieval.k.")] = None,  # noqa: UP045
    scope: Scope = "auto",
    types: Types = None,
    states: States = None,
    as_of: AsOf = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say where each score comes from.")] = False,
) -> Reply:
    """Find the memories that answer a query, best first."""
    text = given_text("query", query)
    with options.open() as memory:
        found = memory.search(text, k, scope=scope, types=types or None, states=states or None, as_of=as_of)
    return Reply(found.to_dict(), lambda screen: print_hits(screen, found, explain=explain), found.warnings)


def context(
    options: Options,
    query: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(metavar="[QUERY]", help="Without it the weights alone decide."),
    ] = None,
    budget: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--budget", help="Tokens at most; default context.token_budget."),
    ] = None,
    order: Annotated[Optional[str], typer.Option("--order", help="tree, time or score.")] = None,  # noqa: UP045
    scope: Scope = "auto",
    format: Annotated[Optional[str], typer.Option("--format", help="text, markdown, messages or json.")] = None,  # noqa: UP045
    types: Types = None,
    states: States = None,
    as_of: AsOf = None,
) -> Reply:
    """Print what belongs into a prompt, within a token budget.

    The number of tokens goes to stderr.
    """
    text = None if query is None else given_text("query", query)
    from hybridmem.packing import OVER_BUDGET

    with options.open() as memory:
        found = memory.context(
            text,
            token_budget=budget,
            order=order,
            scope=scope,
            format=format,
            types=types or None,
            states=states or None,
            as_of=as_of,
        )

    def show(screen: Console) -> None:
        # A prompt is piped on unchanged; only a terminal is protected from what a text may contain.
        sys.stdout.write((visible(found.text) if screen.is_terminal else found.text) + "\n")
        left = sum(reason == OVER_BUDGET for _, reason in found.dropped)
        dropped = f", {left} more did not fit" if left else ""
        print(f"{found.tokens} of {found.token_budget} tokens ({found.counter}){dropped}", file=sys.stderr)

    return Reply(found.to_dict(), show, found.warnings)


def print_hits(screen: Console, found: SearchResult, *, explain: bool) -> None:
    """Rank, score, type, content, and where it hangs."""
    from rich.text import Text

    if not found.hits:
        screen.print("nothing found", style="dim")
    for rank, hit in enumerate(found.hits, 1):
        room = max(screen.width - 26, 30)
        screen.print(
            Text.assemble(
                (f"{rank:>3}. ", "dim"),
                (f"{hit.score:.3f} ", "bold cyan"),
                (f"{hit.node.type:<11}", "magenta"),
                cut(hit.content, room),
            ),
            soft_wrap=True,
        )
        path = " › ".join(one_line(part) for part in hit.path)
        screen.print(Text(f"     {hit.id}  {cut(path, room)}".rstrip(), style="dim"), soft_wrap=True)
        if explain:
            screen.print(Text(f"     {one_line(hit.explain())}", style="dim italic"), soft_wrap=True)

"""The command that lists whose memories a store holds, for who keeps the store: namespaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from hybridmem.cli.options import Options, command
from hybridmem.cli.output import Reply, one_line

if TYPE_CHECKING:
    from rich.console import Console


def register(app: typer.Typer) -> None:
    """Adds the command of this file."""
    command(app, "namespaces")(namespaces)


def namespaces(options: Options) -> Reply:
    """List the namespaces of a store, with the number of memories and the directory of each.

    Like doctor it looks at the files themselves, and so at all of them; no memory is shown. Whatever store.layout is.
    """
    from hybridmem.store.layout import is_separate, listed

    found = listed(options.path)

    def text(screen: Console) -> None:
        for one in found:
            name = one_line("/".join(one.namespace))
            screen.print(f"{one.nodes:>8} memories  {name}  {one_line(str(one.directory))}", soft_wrap=True)
        if not found:
            screen.print("no namespaces", style="dim")

    rows = [{"namespace": list(one.namespace), "nodes": one.nodes, "path": str(one.directory)} for one in found]
    return Reply({"layout": "separate" if is_separate(options.path) else "shared", "namespaces": rows}, text)

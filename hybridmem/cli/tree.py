"""The command tree, and how a tree is drawn: one line a memory, its guides left, its weight right.

Everything works on a list in preorder, without recursion, so a chain of thousands is as good as any tree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from hybridmem.cli.options import Options, command
from hybridmem.cli.output import Reply, cut, is_ascii
from hybridmem.errors import InvalidInput
from hybridmem.types import ROOT_TYPE

if TYPE_CHECKING:
    from rich.console import Console

    from hybridmem.memory import Memory

DEFAULT_DEPTH = 12
#: Levels whose guides are drawn; deeper ones say their level in figures, so that no line is all guides.
DRAWN_GUIDES = 16
BAR_CELLS = 5
#: Nodes whose weights are asked for at a time.
PAGE = 1000

#: (goes on, ends, has a sibling below, is the last, bar filled, bar empty) in UTF-8 and in ASCII.
BOXES = (("│   ", "    ", "├── ", "└── ", "▰", "▱"), ("|   ", "    ", "|-- ", "`-- ", "#", "."))
TYPE_STYLES = {
    "task": "bold",
    "event": "blue",
    "fact": "green",
    "preference": "magenta",
    "decision": "yellow",
    "summary": "cyan",
}


def register(app: typer.Typer) -> None:
    """Adds the command."""
    command(app, "tree")(tree)


def tree(
    options: Options,
    id: Annotated[Optional[str], typer.Argument(metavar="[ID]", help="Where to start; default: the root.")] = None,  # noqa: UP045
    depth: Annotated[int, typer.Option("--depth", help="Levels below the start that are drawn.")] = DEFAULT_DEPTH,
    everything: Annotated[bool, typer.Option("--all", help="Draw all levels.")] = False,
    forgotten: Annotated[bool, typer.Option("--forgotten", help="Draw what is forgotten as well.")] = False,
) -> Reply:
    """Draw the tree with weights and states.

    The active task is marked, and each task says its status and next step. The bar and the number are the weight;
    i and c are importance and confidence, all in [0, 1].
    """
    if depth < 0:
        raise InvalidInput(f"depth: must be 0 or more, not {depth}")
    with options.open() as memory:
        nodes, hidden = read_tree(memory, id, None if everything else depth, forgotten=forgotten)
    return Reply({"nodes": nodes, "hidden": hidden}, lambda screen: draw(screen, nodes, hidden))


def read_tree(
    memory: Memory, id: str | None = None, depth: int | None = None, *, forgotten: bool = False
) -> tuple[list[dict[str, Any]], int]:
    """The nodes at and below one in preorder, each ``Node.to_dict()`` with ``weight`` and ``active``.

    :param depth: levels below the start; None: all.
    :param forgotten: also what is forgotten. The start itself is always there.
    :return: (nodes, how many lie deeper).
    """
    active = memory.active_task()
    nodes: list[dict[str, Any]] = []
    hidden = 0
    top: int | None = None
    for node in memory.walk(id):
        if node.state == "forgotten" and top is not None and not forgotten:
            continue
        top = node.depth if top is None else top
        if depth is not None and node.depth - top > depth:
            hidden += 1
        else:
            nodes.append({**node.to_dict(), "active": active is not None and node.id == active.id})
    for start in range(0, len(nodes), PAGE):
        page = nodes[start : start + PAGE]
        weights = memory.weights([item["id"] for item in page])
        for item in page:
            item["weight"] = weights.get(item["id"], 0.0)
    return nodes, hidden


def draw(screen: Console, nodes: Sequence[Mapping[str, Any]], hidden: int = 0) -> None:
    """Prints what :func:`read_tree` gave."""
    from rich.text import Text

    for node, (guide, below) in zip(nodes, _guides(nodes, BOXES[is_ascii(screen)]), strict=True):
        _print_node(screen, node, guide)
        if node["task"] and node["task"]["next_step"]:
            step = cut(node["task"]["next_step"], max(screen.width - len(below) - 8, 20))
            screen.print(Text.assemble((below, "dim"), ("next: ", "dim"), (step, "italic")), soft_wrap=True)
    if hidden:
        screen.print(f"… {hidden} more below; see them with --depth N or --all", style="dim")


def _guides(nodes: Sequence[Mapping[str, Any]], box: tuple[str, ...]) -> list[tuple[str, str]]:
    """For each node what stands left of it, and left of a line that follows it."""
    goes_on, ends, middle, last, *_ = box
    top = nodes[0]["depth"] if nodes else 0
    # From below, a depth that was seen since its parent means that a sibling follows.
    is_last = [True] * len(nodes)
    seen: list[bool] = []
    for i in range(len(nodes) - 1, -1, -1):
        level = nodes[i]["depth"] - top
        seen.extend([False] * (level + 1 - len(seen)))
        is_last[i] = not seen[level]
        seen[level] = True
        del seen[level + 1 :]
    has_child = [i + 1 < len(nodes) and nodes[i + 1]["depth"] > nodes[i]["depth"] for i in range(len(nodes))]
    guides: list[tuple[str, str]] = []
    stack: list[str] = []
    for i, node in enumerate(nodes):
        level = node["depth"] - top
        del stack[max(level - 1, 0) :]
        before = "".join(stack[:DRAWN_GUIDES])
        if level > DRAWN_GUIDES:
            before += f"({level}) "
        own = "" if level == 0 else (last if is_last[i] else middle)
        if level > 0:
            stack.append(ends if is_last[i] else goes_on)
        below = "" if level == 0 else (ends if is_last[i] else goes_on)
        guides.append((before + own, before + below + (goes_on if has_child[i] else ends)))
    return guides


def _print_node(screen: Console, node: Mapping[str, Any], guide: str) -> None:
    """Guides, status, type, content cut to what is left, and the weight in a column of its own."""
    from rich.cells import cell_len
    from rich.text import Text

    from hybridmem.cli.tasks import status_text

    line = Text().append(guide, style="dim")
    if node["type"] == ROOT_TYPE:
        line.append(cut(node["content"], screen.width), style="bold")
        screen.print(line, soft_wrap=True)
        return
    if node["task"]:
        line.append(*status_text(screen, node["task"]["status"]))
        line.append(" ")
    else:
        line.append(f"{node['type']} ", style=TYPE_STYLES.get(node["type"], "white"))
    marks = _marks(node)
    column = _weight(screen, node)
    room = screen.width - cell_len(line.plain) - cell_len(marks) - len(column.plain) - 2
    line.append(cut(node["content"], max(room, 12)), style="bold" if node["task"] else "default")
    line.append(marks, style="bold cyan" if node["active"] else "dim")
    line.append(" " * max(screen.width - cell_len(line.plain) - len(column.plain), 2))
    screen.print(line.append_text(column), soft_wrap=True)


def _marks(node: Mapping[str, Any]) -> str:
    """What is special about it: active, pinned, not live, and how much the caller folded away below it."""
    found = ["<- active"] if node["active"] else []
    found += ["pinned"] if node["pinned"] else []
    found += [f"[{node['state']}]"] if node["state"] != "live" else []
    found += [f"(+{node['folded']})"] if node.get("folded") else []
    return "".join(f"  {mark}" for mark in found)


def _weight(screen: Console, node: Mapping[str, Any]) -> Any:
    from rich.text import Text

    full, empty = BOXES[is_ascii(screen)][4:]
    cells = round(node["weight"] * BAR_CELLS)
    column = Text()
    column.append(full * cells, style="cyan")
    column.append(empty * (BAR_CELLS - cells), style="dim")
    column.append(f" {node['weight']:.2f}")
    column.append(f"  i {node['importance']:.2f} c {node['confidence']:.2f}", style="dim")
    return column

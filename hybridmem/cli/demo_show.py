"""How the demo looks: what its two processes say, as text for people."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hybridmem.cli.demo_types import Story
from hybridmem.cli.output import cut, is_ascii, visible
from hybridmem.cli.tree import TYPE_STYLES, draw

if TYPE_CHECKING:
    from rich.console import Console

#: Columns that the demo uses at most; longer lines are hard to read.
MAX_WIDTH = 110


class Show:
    """Prints each part of the demo when it is known. On a quiet console all of this does nothing."""

    def __init__(self, story: Story, screen: Console) -> None:
        self._story = story
        self._screen = screen
        self._words = story.words
        self._earlier_shown = False
        self._tick = "+" if is_ascii(screen) else "✓"
        self._cross = "x" if is_ascii(screen) else "✗"
        screen.width = min(screen.width, MAX_WIDTH)

    def title(self) -> None:
        self._screen.print()
        self._screen.print(self._words["title"], style="bold")
        self._rule("first")

    def written(self, item: dict[str, Any]) -> None:
        """One acknowledged write of the first process."""
        if item["kind"] == "memory" and item["part"] == "claim":
            self._show_earlier()
            self._line(self._tick, "green", item["type"], item["content"])
        elif item["kind"] == "checkpoint":
            self._line(self._tick, "green", self._words["checkpoint"], item["label"])
        elif item["kind"] == "next_step":
            self._line(self._tick, "green", self._words["next"], item["content"])

    def killed(self, acknowledged: Sequence[dict[str, Any]]) -> None:
        self._screen.print(f"  … {self._words['step'].format(count=len(self._story.step))}", style="dim")
        self._screen.print(f"  {self._cross} {self._words['killed']}", style="bold red")

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        self._rule("second")
        yield

    def told(self, kind: str, item: dict[str, Any], acknowledged: int) -> None:
        """One message of the second process."""
        if kind == "resume":
            self._resumed(item, acknowledged)
        elif kind == "answers":
            self._answered(item)
        elif kind == "context":
            self._packed(item)

    def end(self, data: dict[str, Any], *, agent: str, kept: Path | None) -> None:
        """The tree, the numbers, and what to do next."""
        self._rule("tree")
        draw(self._screen, _folded(data["tree"]))
        self._screen.print()
        stats = data["stats"]
        key = "vectors" if stats["embedding_model"] else "no_vectors"
        numbers = {"nodes": stats["nodes"], "vectors": stats["vectors"], "pending": stats["pending"]}
        self._say(self._words[key].format(**numbers))
        if stats["embedding_model"]:
            self._say(self._words["model"].format(model=stats["embedding_model"]))
        if kept is not None:
            self._say(self._words["kept"].format(path=kept))
            self._command(f"hybridmem tree --store {kept} --namespace {'/'.join(stats['namespace'])} --agent {agent}")
        self._say(self._words["end"].format(seconds=data["seconds"]), "bold green")
        self._command(self._words["try"])
        self._screen.print()

    def _resumed(self, item: dict[str, Any], acknowledged: int) -> None:
        complete = item["found"] == acknowledged
        found = self._words["found"].format(found=item["found"], total=acknowledged)
        self._verdict(found, complete)
        in_flight = self._words["in_flight"].format(found=item["in_flight_found"], total=len(self._story.step))
        self._verdict(in_flight, item["in_flight_found"] == 0)
        self._screen.print()
        point = item["resume"]
        task = point["active_task"]
        if task is not None:
            path = " › ".join(cut(node["content"], 24) for node in point["path"])
            self._fact("task", f"{task['content']} [{task['task']['status']}]  {path}", "bold")
        for key, kinds in (("known", ("fact", "preference")), ("done", ("event",)), ("decided", ("decision",))):
            for node in item["under_task"]:
                if node["type"] in kinds:
                    self._fact(key, node["content"], TYPE_STYLES[kinds[0]])
        self._fact("last_run", self._words["interrupted" if point["interrupted"] else "in_order"], "bold red")
        self._fact("next", point["next_step"] or "-", "bold cyan")

    def _answered(self, item: dict[str, Any]) -> None:
        from rich.text import Text

        self._rule("questions")
        if item["warnings"]:
            self._say(self._words["no_model"], "yellow")
        for answer in item["answers"]:
            self._screen.print(Text.assemble(("  ? ", "dim"), (answer["question"], "bold")))
            if answer["answer"] is None:
                self._screen.print(f"    {self._words['no_answer']}", style="red")
                continue
            score = (f"{answer['score']:.3f} ", "bold cyan")
            self._screen.print(Text.assemble("    ", score, (visible(answer["answer"]), "green")))
            for line in Text(answer["explain"]).wrap(self._screen, self._screen.width - 6):
                self._screen.print(f"    {line.plain.rstrip()}", style="dim")

    def _packed(self, item: dict[str, Any]) -> None:
        from rich.panel import Panel
        from rich.text import Text

        self._rule("context")
        context = item["context"]
        self._screen.print(Panel(Text(visible(context["text"])), border_style="dim", expand=True))
        numbers = self._words["tokens"].format(
            tokens=context["tokens"],
            budget=context["token_budget"],
            full=item["full_history_tokens"],
            ratio=f"{item['compression']:g}",
            counter=context["counter"],
        )
        self._say(numbers, "bold")

    def _show_earlier(self) -> None:
        if self._earlier_shown:
            return
        self._earlier_shown = True
        chores = self._story.chores
        text = self._words["earlier"].format(
            tasks=len(chores), memories=sum(len(chore.memories) + 1 for chore in chores)
        )
        self._screen.print(f"  {self._tick} {text}", style="dim")

    def _rule(self, key: str) -> None:
        self._screen.print()
        self._screen.rule(self._words[key], align="left", style="dim")

    def _line(self, mark: str, style: str, kind: str, content: str) -> None:
        from rich.cells import cell_len
        from rich.text import Text

        space = " " * max(12 - cell_len(kind), 1)
        colour = TYPE_STYLES.get(kind, "dim")
        self._screen.print(Text.assemble(("  " + mark + " ", style), (kind + space, colour), visible(content)))

    def _fact(self, key: str, value: str, style: str = "") -> None:
        from rich.cells import cell_len
        from rich.text import Text

        name = self._words[key]
        space = " " * max(14 - cell_len(name), 1)
        self._screen.print(Text.assemble((f"  {name}{space}", "dim"), (visible(value), style)))

    def _verdict(self, text: str, good: bool) -> None:
        mark, style = (self._tick, "bold green") if good else (self._cross, "bold red")
        self._screen.print(f"  {mark} {text}", style=style)

    def _command(self, text: str) -> None:
        self._screen.print(f"    {text}", style="cyan", soft_wrap=True)

    def _say(self, text: str, style: str = "") -> None:
        self._screen.print(f"  {text}", style=style)


def _folded(nodes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tree with what hangs below the other tasks folded away, so that it fits on a screen."""
    shown: list[dict[str, Any]] = []
    for node in nodes:
        if node["depth"] <= 1:
            shown.append({**node, "folded": 0})
        elif shown[-1]["active"] or shown[-1]["depth"] > 1:
            shown.append(node)
        else:
            shown[-1]["folded"] += 1
    return shown

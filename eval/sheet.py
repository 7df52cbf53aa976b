"""What a table is, for the terminal and for Markdown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from rich.table import Table


class Cell(NamedTuple):
    """One cell; ``best`` marks the best of its column."""

    text: str
    best: bool = False


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table with its title above and its notes below. The first ``labels`` columns are text, the others numbers."""

    title: str
    columns: tuple[str, ...]
    rows: list[list[Cell]]
    notes: tuple[str, ...] = ()
    labels: int = 1

    def rich(self) -> Table:
        """For the terminal."""
        caption = "\n".join(self.notes) or None
        shown = Table(title=_plain(self.title), caption=caption, title_justify="left", caption_justify="left")
        for place, column in enumerate(self.columns):
            label = place < self.labels
            shown.add_column(_plain(column), justify="left" if label else "right", no_wrap=True)
        for row in self.rows:
            shown.add_row(*[f"[bold]{_plain(cell.text)}[/bold]" if cell.best else _plain(cell.text) for cell in row])
        return shown

    def markdown(self) -> str:
        """For a file; ends with a line break."""
        head = [column.replace("\n", " ").replace("|", "\\|") for column in self.columns]
        rule = ["---" if place < self.labels else "---:" for place in range(len(head))]
        body = [[_markdown(cell) for cell in row] for row in self.rows]
        lines = [f"| {' | '.join(row)} |" for row in [head, rule, *body]]
        notes = [f"- {note}" for note in self.notes]
        return "\n".join([f"**{self.title}**", "", *lines, *([""] if notes else []), *notes]) + "\n"


def _markdown(cell: Cell) -> str:
    text = cell.text.replace("|", "\\|").replace("\n", " ")
    return f"**{text}**" if cell.best else text


def _plain(text: str) -> str:
    """Text for rich that is not read as markup."""
    return text.replace("[", "\\[")

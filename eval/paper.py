"""What all plots share: colours, marks, and the paper. The only module that imports matplotlib."""

from __future__ import annotations

from eval import figures
from hybridmem.errors import HybridMemError

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, NullLocator
except ModuleNotFoundError as error:
    raise HybridMemError("plots need matplotlib; run: pip install 'hybridmem[eval]'") from error

__all__ = ["INK", "OTHERS", "STYLES", "Axes", "Figure", "FuncFormatter", "NullLocator", "head", "paper"]

#: Colours that stay apart for colour-blind readers (Okabe and Ito 2008), with a mark each for prints in grey.
STYLES: dict[str, tuple[str, str]] = {
    figures.REFERENCE: ("#0072B2", "o"),
    "chroma": ("#D55E00", "s"),
    "bm25": ("#009E73", "^"),
    "newest": ("#7F7F7F", "v"),
    "latest_of_project": ("#E69F00", "P"),
    "random": ("#B8B8B8", "X"),
}
OTHERS = (("#CC79A7", "D"), ("#56B4E9", "<"), ("#8C6D31", ">"), ("#5B4B8A", "*"))
INK, GRID = "#333333", "#E3E3E3"


def paper(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure of this size, in inches, and its axes."""
    # Not through pyplot: that would keep every figure, and ask for a screen.
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color("#999999")
    axes.tick_params(colors=INK, labelsize=8.5)
    axes.grid(visible=True, color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    return figure, axes


def head(axes: Axes, what: str, below: str) -> None:
    """The title, and in small letters what it is about."""
    axes.set_title(f"{what}\n", loc="left", fontsize=11, color=INK, fontweight="bold")
    axes.text(0.0, 1.02, below, transform=axes.transAxes, fontsize=8.5, color="#666666", va="bottom")

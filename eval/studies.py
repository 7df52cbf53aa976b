"""The kinds of experiments besides those that compare systems. An experiment says with ``kind`` that it is one.

Each has a folder: ``plan.py`` reads the file, ``run.py`` makes the result, ``sheets.py`` the tables of it. Adding one:
a line here, and one in eval.kinds.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from eval import experiment

#: Called with what is being done, and how many steps of it have been done since the last call.
Progress = Callable[[str, int], None]


class Study(Protocol):
    """An experiment of one of these kinds, ready to run. ``unit`` is what its ``steps`` are, in the plural."""

    unit: str

    @property
    def steps(self) -> int: ...

    def run(self, progress: Progress) -> dict[str, Any]:
        """The result document."""
        ...


def load(path: Path, data: Path, cache: Path | None = None) -> Study | None:
    """The experiment in this file; None: it says no kind, so that it compares systems.

    :param data: the folder with a folder per data set, or the folder or file of one.
    :param cache: the file of a VectorCache; None: nothing is kept.
    :raises ConfigError: the file cannot be read, its kind, a key or a value is wrong, or there is no such data set.
    :raises NotFound: the data is not there.
    """
    kind = experiment.read(path).get("kind")
    return None if kind is None else experiment.pick(KINDS, str(kind), "kind of experiment")(path, data, cache)


# Imported when asked for: with them come the library and its models.


def _consolidation(path: Path, data: Path, cache: Path | None) -> Study:
    from eval.consolidation import plan, run

    return run.Consolidating(*plan.load(path))


def _forgetting(path: Path, data: Path, cache: Path | None) -> Study:
    from eval.forgetting import plan, run

    return run.Forgetting(*plan.load(path), data, cache)


def _updates(path: Path, data: Path, cache: Path | None) -> Study:
    from eval.updates import plan, run

    return run.Updates(*plan.load(path), data, cache)


#: By what ``kind`` says.
KINDS: dict[str, Callable[[Path, Path, Path | None], Study]] = {
    "consolidation": _consolidation,
    "forgetting": _forgetting,
    "updates": _updates,
}

"""The data sets, by name. A new one is one file with a ``load(path)`` and one entry here.

A loader gets the path given as ``--data`` (a folder or the file itself) and returns a Dataset. When the data is not
there, it raises NotFound, saying what is expected and where a user gets it; when it is something else, InvalidInput.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from eval.datasets import locomo
from eval.types import Dataset

Loader = Callable[[Path], Dataset]

DATASETS: dict[str, Loader] = {"locomo": locomo.load}

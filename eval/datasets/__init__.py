"""The data sets, by name. A new one is one file with a ``load(path)`` and one entry here.

A loader gets the path given as ``--data`` (a folder or the file itself) and returns a Dataset. When the data is not
there, it raises NotFound, saying what is expected and where a user gets it; when it is something else, InvalidInput.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from eval.datasets import locomo, longmemeval, madial, realmem, synthetic
from eval.types import Dataset

Loader = Callable[[Path], Dataset]

DATASETS: dict[str, Loader] = {
    "locomo": locomo.load,
    "longmemeval": longmemeval.load,
    "realmem": realmem.load,
    "madial": madial.load,
    "madial-zh": partial(madial.load, languages=("zh",)),
    "madial-en": partial(madial.load, languages=("en",)),
    "madial-first": madial.load_first,
    "synthetic": synthetic.load,
    "synthetic-smoke": synthetic.load_smoke,
}

#: Those that are made and not read: they need no ``--data``.
BUILT_IN = frozenset({"synthetic", "synthetic-smoke"})

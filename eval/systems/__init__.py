"""The systems that are compared, by name. A new one is one file with a class like ``base.System``, and one entry here.

A class is made from a ``base.Setup``; what it needs beyond that it imports when it is made.
"""

from __future__ import annotations

from eval.systems.base import Factory
from eval.systems.bm25 import BM25
from eval.systems.chroma import FlatChroma
from eval.systems.hybridmem import TreeMemory
from eval.systems.newest import NewestWindow

SYSTEMS: dict[str, Factory] = {
    "hybridmem": TreeMemory,
    "chroma": FlatChroma,
    "bm25": BM25,
    "newest": NewestWindow,
}

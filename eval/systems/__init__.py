"""The systems that are compared, by name. A new one is one file with a class like ``base.System``, and one entry here.

A class is made from a ``base.Setup``; what it needs beyond that it imports when it is made.
"""

from __future__ import annotations

from eval.systems.ablations import CHANGES, Ablation, HardCut
from eval.systems.base import Factory
from eval.systems.bm25 import BM25
from eval.systems.chroma import FlatChroma
from eval.systems.full import FullHistory
from eval.systems.hybridmem import TreeMemory
from eval.systems.latest import LatestOfProject
from eval.systems.newest import NewestWindow
from eval.systems.random_order import RandomOrder

SYSTEMS: dict[str, Factory] = {
    "hybridmem": TreeMemory,
    **{f"hybridmem:{name}": Ablation(changes) for name, changes in CHANGES.items()},
    "hybridmem:hard-cut": HardCut,
    "chroma": FlatChroma,
    "bm25": BM25,
    "newest": NewestWindow,
    "latest_of_project": LatestOfProject,
    "random": RandomOrder,
    "full": FullHistory,
}

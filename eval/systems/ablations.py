"""hybridmem with one thing taken away, to see what that gives: a table of changes, and the one that needs code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from eval.systems.base import Setup
from eval.systems.hybridmem import TreeMemory
from hybridmem import config

#: Dotted keys of the configuration that differ, on top of what the experiment says.
CHANGES: dict[str, Mapping[str, Any]] = {
    # Each memory is judged by its own words and vector; where it hangs says nothing.
    "no-tree": {"retrieval.tree": 0.0, "retrieval.neighbour": 0.0, "retrieval.active_task_prior": 0.0},
    # Neither memories nor subtrees are matched by words; with such a share, votes alone locate a subtree.
    "no-lexical": {"retrieval.lexical": 0.0, "retrieval.vote_share": 1e9},
    # Neither memories are matched by vectors nor do vectors vote for subtrees.
    "no-vector": {"retrieval.vector": 0.0, "retrieval.vote_share": 0.0},
    # Importance, recency, confidence and frequency say nothing: relevance alone.
    "no-weights": {"retrieval.omega": 0.0},
    # A memory that takes an earlier one back stands where its own match puts it.
    "no-corrections": {"retrieval.corrections": False},
}


@dataclass(frozen=True, slots=True)
class Ablation:
    """Makes hybridmem with a changed configuration."""

    changes: Mapping[str, Any]

    def __call__(self, setup: Setup) -> TreeMemory:
        """:raises ConfigError: a key is not, or no longer, one of the configuration."""
        return TreeMemory(replace(setup, config=config.load(setup.config, overrides=self.changes)))


class HardCut(TreeMemory):
    """Only what hangs in the one subtree that is located best can be found; elsewhere nothing is.

    What a filter by project or session does, where hybridmem gives a share.
    """

    def _scope(self, question: str) -> str:
        located = self._open().search(question, 1, types=self._types, trace=True).located
        return located[0].id if located else "auto"

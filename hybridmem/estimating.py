"""Gives new memories the importance that an estimator says, if there is one and the caller has said nothing.

This is done before the transaction of the write: an estimator may take seconds, and nobody must wait for it. Of what
surrounds a memory, the terms of its parent and of what was written last under it are known to the estimator as one
number, the novelty.
"""

from __future__ import annotations

import logging
import math
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from hybridmem.config import WeightConfig
from hybridmem.importance import RuleEstimator, novelty
from hybridmem.ports import ImportanceEstimator
from hybridmem.store import lexical, tree
from hybridmem.store.rows import Key
from hybridmem.store.workspace import Workspace
from hybridmem.text import terms

logger = logging.getLogger("hybridmem")

#: How many of the memories written last under a parent the terms of a new one are compared with.
SIBLINGS = 50


def chosen(weights: WeightConfig, given: ImportanceEstimator | None) -> ImportanceEstimator | None:
    """The estimator that was given, else the one that is configured; None: the default of the type."""
    if given is not None:
        return given
    return RuleEstimator() if weights.importance_estimator == "rules" else None


class Estimating:
    """The estimator of one workspace. ``warnings`` of :meth:`filled` say where it failed."""

    def __init__(self, workspace: Workspace, estimator: ImportanceEstimator | None) -> None:
        self._workspace = workspace
        self._estimator = estimator

    def filled(self, drafts: Sequence[Any], parent_key: Callable[[sqlite3.Connection, Any], Key]) -> list[Any]:
        """The drafts (hybridmem.write.Draft), those with ``estimate`` with the importance that the estimator says."""
        if self._estimator is None or not any(draft.estimate for draft in drafts):
            return list(drafts)
        known = self._known(drafts, parent_key)
        filled = []
        for position, draft in enumerate(drafts):
            own = terms(draft.content)
            around = known.setdefault(_place(draft.parent), set())
            if isinstance(draft.parent, int) and not around:
                around.update(terms(drafts[draft.parent].content))
            if draft.estimate:
                said = self._said(self._estimator, draft, novelty(own, around), position)
                filled.append(replace(draft, importance=said))
            else:
                filled.append(draft)
            around.update(own)
        return filled

    def _known(
        self, drafts: Sequence[Any], parent_key: Callable[[sqlite3.Connection, Any], Key]
    ) -> dict[object, set[str]]:
        """By place the terms of the parent and of the newest memories under it."""
        known: dict[object, set[str]] = {}
        with self._workspace.read() as tx:
            for draft in drafts:
                place = _place(draft.parent)
                if place in known or isinstance(draft.parent, int):
                    continue
                try:
                    key = parent_key(tx, draft.parent)
                except Exception:  # the write itself will say what is wrong with it
                    known[place] = set()
                    continue
                ids = [key.id, *tree.newest_below(tx, key, SIBLINGS)]
                found = lexical.said_terms(tx, self._workspace.id, ids)
                known[place] = {term for _, own in found for term in own}
        return known

    def _said(self, estimator: ImportanceEstimator, draft: Any, new: float, position: int) -> float:
        """What the estimator says; the default of the type, with a warning, if that is no importance or it fails."""
        name = type(estimator).__name__
        try:
            said: Any = estimator.importance(draft.content, type=draft.type, default=draft.importance, novelty=new)
            number = math.nan if isinstance(said, (bool, str)) else float(said)
        except Exception as error:  # foreign code: no memory is lost with it
            logger.warning(
                "importance: %s failed on item %d, the default of its type stands: %r", name, position, error
            )
            return float(draft.importance)
        if not 0.0 <= number <= 1.0:  # NaN is neither
            logger.warning(
                "importance: %s gave %r for item %d, not a number in [0, 1]; the default of its type stands",
                name, said, position,
            )  # fmt: skip
            return float(draft.importance)
        return number


def _place(parent: Any) -> object:
    """Names the parent of a draft: a word, an id, a position or a node."""
    return getattr(parent, "id", parent)

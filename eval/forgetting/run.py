"""The whole of it: every policy at every share on every history, and once with nothing forgotten."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from eval import experiment, results, significance
from eval.cache import VectorCache
from eval.datasets import DATASETS
from eval.embedding import SharedEmbedder
from eval.forgetting.online import Asked, Life
from eval.forgetting.plan import Plan
from eval.types import Dataset
from hybridmem import embed
from hybridmem.config import Config
from hybridmem.errors import InvalidInput

#: What the life without any forgetting is called.
NOTHING = "nothing"
#: Called with what is being done, after every question.
Progress = Callable[[str, int], None]


class Forgetting:
    """One experiment, ready to run."""

    def __init__(self, plan: Plan, config: Config, data: Path, cache: VectorCache | None = None) -> None:
        """
        :raises ConfigError: there is no such data set.
        :raises InvalidInput: its questions are not asked online, or no session is evidence.
        """
        self._plan = plan
        self._config = config
        self._dataset: Dataset = experiment.pick(DATASETS, plan.dataset, "data set")(data)
        for corpus in self._dataset.corpora:
            if any(question.after is None or not question.gold_groups for question in corpus.questions):
                raise InvalidInput(f"dataset: {plan.dataset} has questions that are not asked while its history grows")
        self._embedder = SharedEmbedder(embed.create(config.embedding), cache)

    @property
    def steps(self) -> int:
        """How many questions are asked, all in all."""
        return self._dataset.counts()["questions"] * len(self._lives())

    def run(self, progress: Progress) -> dict[str, Any]:
        """The result document."""
        asked = {key: self._live(*key, progress) for key in self._lives()}
        needs = {key: _misses(records) for key, records in asked.items()}
        lead = next(iter(self._plan.policies))
        found = [
            {
                "policy": policy,
                "share": share,
                "share_of_sessions": _share_gone(asked[policy, share]),
                **_figures(asked[policy, share], self._plan.seed),
                **_against(needs[policy, share], needs[lead, share], self._plan.seed),
            }
            for policy, share in self._lives()
            if policy != NOTHING
        ]
        kept = _figures(asked[NOTHING, 0.0], self._plan.seed)
        return {
            "format": results.FORMAT,
            results.FORGETTING: {
                "plan": self._plan.model_dump(mode="json"),
                "dataset": {**self._dataset.counts(), "name": self._dataset.name, "sha256": self._dataset.sha256},
                "nothing_forgotten": kept,
                "policies": found,
            },
            "config": self._config.model_dump(mode="json"),
            "provenance": results.provenance(self._embedder.identity),
            "questions": {
                f"{policy} {share:g}": [asdict(one) for one in records] for (policy, share), records in asked.items()
            },
        }

    def _lives(self) -> list[tuple[str, float]]:
        pairs = [(policy, share) for policy in self._plan.policies for share in self._plan.shares]
        return [(NOTHING, 0.0), *pairs]

    def _live(self, label: str, share: float, progress: Progress) -> list[Asked]:
        records: list[Asked] = []
        for corpus in self._dataset.corpora:
            with tempfile.TemporaryDirectory() as folder:
                life = Life(
                    corpus,
                    Path(folder) / "store",
                    self._config,
                    self._embedder,
                    policy=self._plan.policies.get(label),
                    share=share,
                    loose=self._plan.loose,
                    k=self._plan.k,
                )
                for record in life.live():
                    records.append(record)
                    progress(f"{label} {share:.0%}", 1)
        return records


def file_name(result: Mapping[str, Any]) -> str:
    """``<experiment>-<short sha>[-dirty].json``."""
    git = result["provenance"]["git"]
    commit = git["sha"][:10] if git["sha"] else "uncommitted"
    dirty = "-dirty" if git["sha"] and git["dirty"] else ""
    return f"{result[results.FORGETTING]['plan']['name']}-{commit}{dirty}.json"


def _misses(records: Sequence[Asked]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """(n, 2): of each question how many needed sessions were forgotten, and how many it needs."""
    return np.array([[len(one.forgotten), len(one.needed)] for one in records], dtype=np.float64)


def _figures(records: Sequence[Asked], seed: int) -> dict[str, Any]:
    """Mis-forgetting over all needs of all questions, and the mean recall of a question, with their intervals."""
    needs = _misses(records)
    recall = np.array([len(one.found) / len(one.needed) for one in records])
    low, high = significance.intervals(recall[:, None], seed=seed)[0]
    return {
        "needed": int(needs[:, 1].sum()),
        "forgotten": int(needs[:, 0].sum()),
        "mis_forgetting": float(needs[:, 0].sum() / needs[:, 1].sum()),
        "recall": {"mean": float(recall.mean()), "low": float(low), "high": float(high)},
    }


def _against(needs: np.ndarray[Any, Any], lead: np.ndarray[Any, Any], seed: int) -> dict[str, Any]:
    """The paired test of the first policy against this one, question by question."""
    return {"p": float(significance.p_values((needs[:, :1] - lead[:, :1]), seed=seed)[0])}


def _share_gone(records: Sequence[Asked]) -> float:
    """The share of the sessions in memory that were forgotten, as it was when the questions were asked."""
    return float(sum(one.gone for one in records) / max(1, sum(one.in_memory for one in records)))

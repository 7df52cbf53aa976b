"""Makes a consolidation experiment: every run of every seed, lived and consolidated. The result holds, after each pass
and for each language, the ratio and the share of planted facts together."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from eval import results
from eval.consolidation.life import Life, chatter
from eval.consolidation.plan import Plan
from eval.datasets.synthetic import LANGUAGES
from eval.datasets.synthetic_run import Run
from eval.studies import Progress
from hybridmem.config import Config
from hybridmem.embed.hashing import HashingEmbedder
from hybridmem.ports import TokenCounter
from hybridmem.tokens import token_counter

_SUMS = (
    "tokens_written", "tokens_before", "tokens_after", "facts", "facts_kept", "summaries", "details_before",
    "details_kept", "originals", "recoverable",
)  # fmt: skip
#: Added to a seed: that of the later chatter, which no run of the experiment has.
_OTHER = 1_000_000


class Consolidating:
    """One experiment, ready to run."""

    unit = "passes"

    def __init__(self, plan: Plan, config: Config) -> None:
        self._plan = plan
        self._config = config

    @property
    def steps(self) -> int:
        """Passes in all."""
        return sum(map(len, self._plan.seeds.values())) * self._plan.runs * self._plan.passes

    def run(self, progress: Progress = lambda what, done: None) -> dict[str, Any]:
        """The result document.

        :raises InvalidInput: the nodes have no room for the tasks.
        """
        started = time.perf_counter()
        counter = token_counter()
        lives = [
            {
                "seeds": label,
                "seed": seed,
                "run": number + 1,
                "language": LANGUAGES[number % len(LANGUAGES)],
                "passes": self._live(seed, number, LANGUAGES[number % len(LANGUAGES)], counter, progress),
            }
            for label, seeds in self._plan.seeds.items()
            for seed in seeds
            for number in range(self._plan.runs)
        ]
        return {
            "format": results.FORMAT,
            results.CONSOLIDATION: {
                "plan": self._plan.model_dump(mode="json"),
                "counter": counter.name,
                "seeds": {
                    label: _by_language(self._plan, [life for life in lives if life["seeds"] == label])
                    for label in self._plan.seeds
                },
                "runs": lives,
                "seconds": round(time.perf_counter() - started, 1),
            },
            "config": self._config.model_dump(mode="json"),
            "provenance": results.provenance(HashingEmbedder().identity),
        }

    def _live(
        self, seed: int, number: int, language: str, counter: TokenCounter, progress: Progress
    ) -> list[dict[str, Any]]:
        """One run, and what is there after each pass."""
        plan = self._plan
        made, other = (_run(plan, one, number, language) for one in (seed, seed + _OTHER))
        later = chatter(other)
        passes = []
        with (
            tempfile.TemporaryDirectory(prefix="hybridmem-eval-") as directory,
            Life(Path(directory) / "store", made, self._config, counter) as life,
        ):
            for place in range(plan.passes):
                if place:
                    count = plan.later_notes * plan.tasks
                    life.go_on([later[(place * count + one) % len(later)] for one in range(count)])
                passes.append(life.consolidate())
                progress(f"seed {seed}, {language}", 1)
        return passes


def _run(plan: Plan, seed: int, number: int, language: str) -> Run:
    """The run that eval.datasets.synthetic makes of this seed and number."""
    return Run(Random(f"{seed}/run-{number + 1}-{language}"), language, plan.tasks, plan.nodes)


def _by_language(plan: Plan, lives: Sequence[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The figures of all runs, and of those in each language."""
    return {
        language: _figures(plan, [life for life in lives if language in ("all", life["language"])])
        for language in ("all", *sorted({life["language"] for life in lives}))
    }


def _figures(plan: Plan, lives: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """After each pass: sums over runs, and in percent ``down`` (of the tokens ever written, how many are live no more),
    ``recall`` (of planted facts), and the lowest of both in a single run."""
    figures = []
    for place in range(plan.passes):
        found = [life["passes"][place] for life in lives]
        sums = {name: sum(one[name] for one in found) for name in _SUMS}
        figures.append(
            {
                **sums,
                "down": _down(sums),
                "recall": _recall(sums),
                "least_down": min(map(_down, found)),
                "least_recall": min(map(_recall, found)),
            }
        )
    return figures


def _down(one: Mapping[str, Any]) -> float:
    return round(100.0 * (1.0 - float(one["tokens_after"]) / float(one["tokens_written"])), 2)


def _recall(one: Mapping[str, Any]) -> float:
    return round(100.0 * float(one["facts_kept"]) / float(one["facts"]), 2)

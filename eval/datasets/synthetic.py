"""Long runs of an agent, made here: seeded, in Chinese, in English and in both; needs no download and no model.

run -> corpus, task and sub-task (up to three deep) -> group, what was noted -> item. Several tasks are open at a time
and the agent goes to and fro between them. Each task finds out the same things as the others of its domain, so that for
every answer there are several notes with the same words; half of the notes do not even say whom they are about, as that
is clear from the task they are under. Names are alike, identifiers and amounts differ by one digit. Later notes correct
earlier ones; the rest is chatter.

Questions have a kind: fact, update (what holds after a correction), identifier, date, preference, decision and multi
(two answers). Most are worded differently from the note that answers them; in a run in both languages often in the
other one. The same seed and size give the same data in every process and on every machine.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

from eval.datasets.synthetic_questions import questions
from eval.datasets.synthetic_run import Run
from eval.types import Corpus, Dataset
from hybridmem.errors import InvalidInput

#: The languages of the runs, over and over again.
LANGUAGES = ("zh", "en", "mixed")


@dataclass(frozen=True, slots=True)
class Size:
    """How much is made: ``runs``, and in each ``tasks``, ``nodes`` (tasks, sub-tasks and notes) and ``questions``."""

    runs: int
    tasks: int
    nodes: int
    questions: int


DEFAULT = Size(runs=4, tasks=9, nodes=300, questions=60)
SMOKE = Size(runs=3, tasks=5, nodes=110, questions=20)


def load(path: Path | None = None) -> Dataset:
    """The default size with seed 0; ``path`` is not looked at."""
    return generate(0, DEFAULT)


def load_smoke(path: Path | None = None) -> Dataset:
    """A few seconds' worth, one run for each language; ``path`` is not looked at."""
    return generate(0, SMOKE)


def generate(seed: int, size: Size = DEFAULT) -> Dataset:
    """The runs of a seed.

    :raises InvalidInput: ``size`` has no room: fewer nodes than the tasks need, more questions than they give, or a
        number below 1.
    """
    if min(asdict(size).values()) < 1:
        raise InvalidInput(f"size: every number must be at least 1, not {size}")
    corpora = tuple(_corpus(seed, number, size) for number in range(size.runs))
    return Dataset(
        name="Synthetic",
        granularity="note",
        selection=f"seed {seed}, {size.runs} runs of {size.nodes} nodes",
        corpora=corpora,
        sha256=hashlib.sha256(repr(corpora).encode()).hexdigest(),
        source="made by eval/datasets/synthetic.py",
    )


def _corpus(seed: int, number: int, size: Size) -> Corpus:
    language = LANGUAGES[number % len(LANGUAGES)]
    name = f"run-{number + 1}-{language}"
    # A text seeds through its SHA-512 and not through hash(), which differs from process to process.
    generator = Random(f"{seed}/{name}")
    run = Run(generator, language, size.tasks, size.nodes)
    asked = questions(generator, run, name, size.questions)
    return Corpus(name, run.groups, run.items, asked, corrections=run.corrections)

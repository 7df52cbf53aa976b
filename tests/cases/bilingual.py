"""Eighty questions over 160 short memories in Chinese, English and both, written for these tests: questions80.txt.

A line is ``kind|question|memory that answers it|memory that shares its words and does not``, below a ``#`` heading that
names the task both memories hang under. Kind ``p`` is a paraphrase: it has no term in common with its answer, which is
often in the other language, so words alone only find the wrong memory. Kind ``k`` asks by a code, an id or a name that
its answer has and a near twin has not, which vectors hardly tell apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random

FILE = Path(__file__).with_name("questions80.txt")


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, the memory that answers it, and the one that only shares its words."""

    kind: str
    task: str
    question: str
    answer: str
    distractor: str


def questions() -> list[Asked]:
    """All of them, in the order of the file."""
    found: list[Asked] = []
    task = ""
    for line in FILE.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            task = line.removeprefix("#").strip()
        else:
            kind, question, answer, distractor = line.split("|")
            found.append(Asked(kind, task, question, answer, distractor))
    return found


def memories() -> dict[str, list[str]]:
    """Task → its memories, shuffled with a fixed seed, so that no answer stands beside its own distractor by rule."""
    found: dict[str, list[str]] = {}
    for one in questions():
        found.setdefault(one.task, []).extend((one.answer, one.distractor))
    for task, texts in found.items():
        Random(task).shuffle(texts)
    return found

"""What a story of the demo is made of; the stories are in demo_zh.py and demo_en.py."""

from __future__ import annotations

from dataclasses import dataclass

#: (type, content), or (type, content, importance) where the agent rates it itself.
Memory = tuple[str, str] | tuple[str, str, float]


@dataclass(frozen=True, slots=True)
class Chore:
    """Another task of the same agent: the history in which the claim must be found again."""

    title: str
    memories: tuple[Memory, ...]
    #: None: it was finished; else it is paused and this comes next.
    next_step: str | None = None


@dataclass(frozen=True, slots=True)
class Story:
    """One language of the demo. ``step`` is what the agent is doing when it is killed: one batch of writes."""

    chores: tuple[Chore, ...]
    task: str
    first_step: str
    memories: tuple[Memory, ...]
    checkpoint: str
    next_step: str
    step: tuple[Memory, ...]
    after: str
    questions: tuple[str, str, str]
    words: dict[str, str]

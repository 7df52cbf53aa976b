"""The questions of a synthetic run, of every kind alike as far as the run has answers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from random import Random

from eval.datasets.synthetic_run import Answer, Run
from eval.datasets.synthetic_words import ASK_BOTH, ASK_DATE, ASK_IDENTIFIER
from eval.types import Question
from hybridmem.errors import InvalidInput

KINDS = ("fact", "update", "identifier", "date", "preference", "decision", "multi")
#: Share of questions that avoid the words of the note.
_PARAPHRASED = 0.75
#: Share of questions about identifiers and dates that give the value and ask what it belongs to.
_BY_VALUE = 0.4


def questions(generator: Random, run: Run, name: str, count: int) -> tuple[Question, ...]:
    """``count`` questions, the kinds in turn; one answer is asked for once, and again within "multi" at most.

    :raises InvalidInput: the run has not enough answers.
    """
    makers = {kind: _of_kind(generator, run, kind) for kind in KINDS}
    found: list[Question] = []
    for kind in cycle(KINDS):
        if len(found) == count:
            break
        if not makers:
            raise InvalidInput(f"size: the tasks of {name} give {len(found)} questions, not {count}")
        if kind in makers:
            asked = next(makers[kind], None)
            if asked is None:
                del makers[kind]
            else:
                text, gold = asked
                found.append(Question(f"{name}/q{len(found)}", text, gold, kind, time=run.end))
    return tuple(found)


def _of_kind(generator: Random, run: Run, kind: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    answers = [answer for answer in run.answers if kind in ("multi", _kind(answer))]
    generator.shuffle(answers)
    if kind == "multi":
        yield from _pairs(generator, run, answers)
        return
    for answer in answers:
        language = run.pick()
        by_value = {"identifier": ASK_IDENTIFIER, "date": ASK_DATE}.get(answer.attribute.kind)
        if by_value and kind != "update" and generator.random() < _BY_VALUE:
            pattern: str = generator.choice(getattr(by_value, language))
            text = pattern.format(
                v=answer.value.en, d=getattr(run.day(answer.value), language) if kind == "date" else ""
            )
        else:
            text = _asked(generator, answer, language)
        yield text, (answer.item,)


def _pairs(generator: Random, run: Run, answers: list[Answer]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Two things about the same task, or the same thing about two tasks, in turn."""
    for number, first in enumerate(answers):
        same_task = number % 2 == 0
        seconds = [
            answer
            for answer in answers[number + 1 :]
            if (answer.task == first.task) == same_task and (answer.attribute == first.attribute) != same_task
        ]
        if seconds:
            second, language = generator.choice(seconds), run.pick()
            pattern: str = getattr(ASK_BOTH, language)
            a, b = _asked(generator, first, language), _asked(generator, second, language)
            yield pattern.format(a=a, b=b), (first.item, second.item)


def _kind(answer: Answer) -> str:
    return "update" if answer.corrected else answer.attribute.kind


def _asked(generator: Random, answer: Answer, language: str) -> str:
    wordings: tuple[str, ...] = getattr(answer.attribute.ask, language)
    pattern = generator.choice(wordings[1:]) if generator.random() < _PARAPHRASED else wordings[0]
    return pattern.format(x=getattr(answer.task.words(answer.task.domain.task), language))

"""The two processes of the demo, each a program of its own: ``python -m hybridmem.cli.demo_agent first|second``.

Each reads one JSON object from stdin and writes JSON lines to stdout. The first says each write only after it was
acknowledged, begins one more, stops half-way through its transaction, and waits there to be killed. The second opens
what is left, resumes, answers, and finishes the step.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

from hybridmem.cli.demo_story import AGENT, NAMESPACE, STORIES
from hybridmem.cli.demo_types import Story
from hybridmem.cli.tree import read_tree
from hybridmem.errors import NotFound
from hybridmem.memory import Memory
from hybridmem.ports import SystemClock
from hybridmem.tokens import token_counter

TOKEN_BUDGET = 300
#: Times that are read inside the last transaction before it stops: by then the first of its memories is inserted.
CLOCK_READINGS = 3

Say = Callable[[dict[str, Any]], None]


class StoppingClock:
    """The machine's clock, until it is told to stop: then a transaction that reads the time does not get on."""

    def __init__(self, stopped: Callable[[], None]) -> None:
        self._clock = SystemClock()
        self._stopped = stopped
        self._left: int | None = None

    def stop_after(self, readings: int) -> None:
        self._left = readings

    def now(self) -> datetime:
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                self._stopped()
                time.sleep(3600)
        return self._clock.now()


def first(given: dict[str, Any], say: Say) -> None:
    """Works through the story up to the middle of its last step."""
    story = STORIES[given["lang"]]
    clock = StoppingClock(lambda: say({"kind": "in_flight"}))
    memory = Memory.open(given["store"], namespace=NAMESPACE, agent=AGENT, config=given["config"], clock=clock)

    def acknowledged(part: str, node: Any) -> None:
        say({"kind": "memory", "part": part, "id": node.id, "type": node.type, "content": node.content})

    for chore in story.chores:
        acknowledged("earlier", memory.start_task(chore.title))
        for item in chore.memories:
            acknowledged("earlier", memory.add(**_fields(item)))
        if chore.next_step is None:
            memory.finish_task()
        else:
            memory.update_task(next_step=chore.next_step, status="paused")
    acknowledged("claim", memory.start_task(story.task, next_step=story.first_step))
    for item in story.memories:
        acknowledged("claim", memory.add(**_fields(item)))
    memory.checkpoint(story.checkpoint)
    say({"kind": "checkpoint", "label": story.checkpoint})
    memory.update_task(next_step=story.next_step)
    say({"kind": "next_step", "content": story.next_step})
    clock.stop_after(CLOCK_READINGS)
    memory.add_many([_fields(item) for item in story.step])
    say({"kind": "too_late"})


def _fields(item: Any) -> dict[str, Any]:
    """A memory of the story as the arguments of add()."""
    return dict(zip(("type", "content", "importance"), item, strict=False))


def second(given: dict[str, Any], say: Say) -> None:
    """Opens what the first left, looks, resumes, answers, and takes the step."""
    story = STORIES[given["lang"]]
    with Memory.open(given["store"], namespace=NAMESPACE, agent=AGENT, config=given["config"]) as memory:
        contents = [node.content for node in memory.walk() if node.parent_id is not None]
        point = memory.resume()
        say(
            {
                "kind": "resume",
                "found": sum(_is_there(memory, item) for item in given["acknowledged"]),
                "in_flight_found": sum(item[1] in contents for item in story.step),
                "resume": point.to_dict(),
                "under_task": [node.to_dict() for node in memory.children(point.active_task.id)]
                if point.active_task
                else [],
            }
        )
        say({"kind": "answers", **_answers(memory, story)})
        say({"kind": "context", **_context(memory, story, contents)})
        memory.add_many([_fields(item) for item in story.step])
        memory.update_task(next_step=story.after)
        memory.checkpoint()
        memory.flush()
        nodes, _ = read_tree(memory)
        say({"kind": "end", "tree": nodes, "stats": memory.stats().to_dict()})


def _is_there(memory: Memory, item: dict[str, Any]) -> bool:
    try:
        node = memory.get(item["id"])
    except NotFound:
        return False
    return bool(node.content == item["content"] and node.type == item["type"])


def _answers(memory: Memory, story: Story) -> dict[str, Any]:
    answers: list[dict[str, Any]] = []
    warnings: list[str] = []
    for question in story.questions:
        found = memory.search(question, 1)
        warnings += found.warnings
        best = found.hits[0] if found.hits else None
        answers.append(
            {
                "question": question,
                "answer": best.content if best else None,
                "score": best.score if best else None,
                "explain": best.explain() if best else None,
                "hit": best.to_dict() if best else None,
            }
        )
    return {"answers": answers, "warnings": list(dict.fromkeys(warnings))}


def _context(memory: Memory, story: Story, contents: list[str]) -> dict[str, Any]:
    """What the agent puts into its prompt to go on, against everything it ever wrote, by the same counter."""
    context = memory.context(story.next_step, token_budget=TOKEN_BUDGET)
    full = token_counter().count("\n".join(contents))
    return {
        "context": context.to_dict(),
        "full_history_tokens": full,
        "compression": round(full / max(context.tokens, 1), 1),
    }


def _main() -> None:
    # Whatever a library prints must not get between the lines that the demo reads.
    lines = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(item: dict[str, Any]) -> None:
        lines.write(json.dumps(item, ensure_ascii=True) + "\n")
        lines.flush()

    given = json.loads(sys.stdin.buffer.read())
    {"first": first, "second": second}[sys.argv[1]](given, say)


if __name__ == "__main__":
    _main()

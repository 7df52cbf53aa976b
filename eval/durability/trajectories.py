"""What agents live through: beats, made from the synthetic runs or read from logs of real agents."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from eval.datasets import synthetic
from eval.types import Corpus
from hybridmem.errors import InvalidInput, NotFound
from hybridmem.text import clean_text

#: Characters of one message that are kept: a log may hold whole files.
LONGEST = 2_000
#: Messages after which a log goes on to the next step of its task.
_STEP = 6
_DATA = synthetic.Size(runs=4, tasks=4, nodes=90, questions=1)


@dataclass(frozen=True, slots=True)
class Beat:
    """One thing that happens to an agent.

    ``start`` begins the task ``task`` (``parent``: the task it belongs to, '' for none) with ``text`` as its title;
    ``finish`` ends it; ``note`` is a memory ``text`` of ``type`` in it.
    """

    kind: Literal["start", "finish", "note"]
    task: str
    text: str = ""
    type: str = "event"
    parent: str = ""


Trajectory = tuple[Beat, ...]


def made(seed: int) -> list[Trajectory]:
    """Synthetic ones, in Chinese, in English and in both."""
    return [tuple(_of_corpus(corpus)) for corpus in synthetic.generate(seed, _DATA).corpora]


def read(folder: Path) -> list[Trajectory]:
    """Those of a folder with ``*.jsonl`` files: one message per line (``role``, ``content``, ``tool_calls``), which
    together are one trajectory, or one conversation per line (a list of messages, alone or under ``messages``).

    :raises NotFound: there is no such folder, or no such file in it.
    :raises InvalidInput: a line is no JSON, or nowhere is a message with text.
    """
    files = sorted(folder.glob("*.jsonl"))
    if not files:
        raise NotFound(f"logs: there is no *.jsonl file in {folder}")
    found = [tuple(_of_messages(messages)) for file in files for messages in _conversations(file)]
    found = [trajectory for trajectory in found if trajectory]
    if not found:
        raise InvalidInput(f"logs: no file in {folder} holds a message with role and content")
    return found


def _of_corpus(corpus: Corpus) -> Iterator[Beat]:
    groups = {group.id: group for group in corpus.groups}
    last = {item.group: number for number, item in enumerate(corpus.items)}
    started: set[str] = set()
    for number, item in enumerate(corpus.items):
        chain = [item.group]
        while parent := groups[chain[-1]].parent:
            chain.append(parent)
        for id_ in reversed(chain):
            if id_ not in started:
                started.add(id_)
                yield Beat("start", id_, groups[id_].title, parent=groups[id_].parent)
        yield Beat("note", item.group, item.text, item.type)
        if last[item.group] == number:
            yield Beat("finish", item.group)


def _conversations(file: Path) -> Iterator[list[Mapping[str, Any]]]:
    single: list[Mapping[str, Any]] = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError as error:
            raise InvalidInput(f"{file}: line {number} is no JSON: {error}") from None
        inner = value.get("messages") if isinstance(value, dict) else value
        if isinstance(inner, list):
            yield [message for message in inner if isinstance(message, dict)]
        elif isinstance(value, dict):
            single.append(value)
    if single:
        yield single


def _of_messages(messages: Sequence[Mapping[str, Any]]) -> Iterator[Beat]:
    """One task for a conversation, with a sub-task for every few messages; tool calls are decisions."""
    notes = [note for message in messages for note in _notes(message)]
    for number, (text, kind) in enumerate(notes):
        step = f"step-{number // _STEP}"
        if number == 0:
            yield Beat("start", "log", text[:80])
        if number % _STEP == 0:
            yield Beat("start", step, text[:80], parent="log")
        yield Beat("note", step, text, kind)
        if number % _STEP == _STEP - 1:
            yield Beat("finish", step)
    if notes:
        yield Beat("finish", "log")


def _notes(message: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(text, type) of what a message says and of the tools it calls, whichever of the usual shapes it has."""
    content = message.get("content")
    for part in [content] if isinstance(content, str) else content if isinstance(content, list) else []:
        if isinstance(part, str):
            yield from _note(part, "event")
        elif isinstance(part, dict) and part.get("type") == "tool_use":
            yield from _note(f"{part.get('name')} {json.dumps(part.get('input'), ensure_ascii=False)}", "decision")
        elif isinstance(part, dict):
            inner = part.get("text", part.get("content", ""))
            yield from _note(inner if isinstance(inner, str) else json.dumps(inner, ensure_ascii=False), "event")
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else []:
        made_of = call.get("function", call) if isinstance(call, dict) else {}
        yield from _note(f"{made_of.get('name')} {made_of.get('arguments', '')}", "decision")


def _note(text: str, kind: str) -> Iterator[tuple[str, str]]:
    # Half a character cannot be stored, and logs cut where they like.
    kept = text.encode("utf-8", "ignore").decode("utf-8").replace("\0", "").strip()[:LONGEST]
    with suppress(InvalidInput):  # nothing in it can be seen
        yield clean_text("message", kept), kind

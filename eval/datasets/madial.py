"""MADial-Bench (He et al. 2025): which memories would a good companion bring up now? In Chinese and in English.

language -> corpus, user -> group, memory -> item, read from the public JSON lines as they are. Every dialogue is a
question: all that is said before the test turn, names of the speakers included. All memories of all users are
candidates. Only the event of a memory is its text, not the labels of its scene and emotion.

Half of the dialogues have several test turns, at each of which the assistant brings up a memory, and one list of
relevant memories for all of them. ``load`` asks before the last one, so that what was brought up before is in the
question; ``load_first`` before the first one, which is how the authors embed the dialogues, and much harder.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal

from eval.datasets.files import find, joint_checksum, read_json_lines, reading, within
from eval.types import Corpus, Dataset, Group, Item, Question
from hybridmem.errors import InvalidInput

WHENCE = "MADial-Bench is published at github.com/hejunqing/MADial-Bench (data/ch and data/en, licence MIT)."
LANGUAGES = ("zh", "en")
#: The two users, by ``user-id``. English memories have no id, but each names exactly one of them.
USERS = {1: "Bart", 2: "Lisa"}

# <Bart>:"…" or <Assistant>: "…"; a few utterances have no speaker, or lack one of the quotation marks.
_SPEAKER = re.compile(r"<(\w+)>\s*[:：]\s*")
_MARKER = re.compile(r"<[BE]OD>")


def load_first(path: Path, languages: Sequence[str] = LANGUAGES) -> Dataset:
    """Like :func:`load`, but every dialogue ends before its first test turn."""
    return load(path, languages, turn="first")


def load(path: Path, languages: Sequence[str] = LANGUAGES, *, turn: Literal["first", "last"] = "last") -> Dataset:
    """Reads the dialogues and memories of ``languages``, given as their folder or one with a ``madial`` in it.

    The files are named ``zh_dialogue*.jsonl`` and ``zh_memory*.jsonl``, plain or gzipped, or as published,
    ``MADial-Bench-zh-dialogue.json`` and ``MADial-Bench-zh-memory.json``, there or in the published folders.

    :raises NotFound: one is not there; the message says where to get it.
    :raises InvalidInput: one is not MADial-Bench, or ``path`` is a file: one is not enough.
    """
    if path.is_file():
        raise InvalidInput(f"{path}: is a file; MADial-Bench is a folder with dialogues and memories. {WHENCE}")
    dropped: Counter[str] = Counter()
    corpora: list[Corpus] = []
    sources: list[str] = []
    checksums: list[str] = []
    for language in languages:
        dialogues = find(within(path, "madial"), _names(language, "dialogue"), WHENCE)
        memories = find(within(path, "madial"), _names(language, "memory"), WHENCE)
        asked, asked_checksum = read_json_lines(dialogues)
        held, held_checksum = read_json_lines(memories)
        items = _items(held, memories)
        questions = _questions(asked, {item.id for item in items}, language, turn, dialogues, dropped)
        groups = tuple(Group(_user(id_), name) for id_, name in USERS.items())
        corpora.append(Corpus(language, groups, items, questions))
        sources += [dialogues.name, memories.name]
        checksums += [asked_checksum, held_checksum]
    return Dataset(
        name=f"MADial-Bench ({', '.join(languages)})",
        granularity="memory",
        selection=f"dialogues before the {turn} test turn, memories of all users",
        corpora=tuple(corpora),
        sha256=joint_checksum(checksums),
        source=", ".join(sources),
        dropped={reason: count for reason, count in sorted(dropped.items()) if count},
    )


def _names(language: str, part: str) -> list[str]:
    published = f"MADial-Bench-{language}-{part}.json"
    folder = "ch" if language == "zh" else language
    return [f"{language}_{part}*.jsonl", f"{language}_{part}*.jsonl.gz", published, f"{folder}/{published}"]


def _items(lines: Sequence[Mapping[str, Any]], file: Path) -> tuple[Item, ...]:
    """In time order; those of one day as published."""
    items: dict[str, Item] = {}
    times: dict[str, datetime] = {}
    for number, line in enumerate(lines, start=1):
        with reading(file, f"line {number}", "MADial-Bench", WHENCE):
            for id_, memory in line.items():
                if id_ in items:
                    raise ValueError(f"two memories have the id {id_}")
                times[id_] = _time(memory["time"])
                items[id_] = Item(id_, _user(_owner(memory)), memory["event"], times[id_])
    return tuple(items[id_] for id_ in sorted(items, key=times.__getitem__))


def _questions(
    lines: Sequence[Mapping[str, Any]], known: set[str], language: str, turn: str, file: Path, dropped: Counter[str]
) -> tuple[Question, ...]:
    questions: list[Question] = []
    for number, line in enumerate(lines, start=1):
        with reading(file, f"line {number}", "MADial-Bench", WHENCE):
            said = line["dialogue"][: line["test-turn"][0 if turn == "first" else -1]]
            named = list(dict.fromkeys(str(id_) for id_ in line["relevant-id"]))
            gold = tuple(id_ for id_ in named if id_ in known)
            dropped["relevant ids that name no memory"] += len(named) - len(gold)
            if not gold:
                dropped["dialogues without a relevant memory"] += 1
                continue
            text = "\n".join(filter(None, map(_utterance, said)))
            questions.append(Question(f"{language}/q{number - 1}", text, gold, asked_in=_user(line["user-id"])))
    return tuple(questions)


def _utterance(text: str) -> str:
    """``Bart: …`` of ``<Bart>:"…"``; '' of the marks for begin and end."""
    return _SPEAKER.sub(r"\1: ", _MARKER.sub("", text)).strip()


def _owner(memory: Mapping[str, Any]) -> int:
    if "user-id" in memory:
        return int(memory["user-id"])
    named = [id_ for id_, name in USERS.items() if name in memory["event"]]
    if len(named) != 1:
        raise ValueError(f"neither user-id nor exactly one of {', '.join(USERS.values())} in {memory['event']!r}")
    return named[0]


def _user(id_: int) -> str:
    if id_ not in USERS:
        raise ValueError(f"there is no user {id_!r}")
    return f"user-{id_}"


def _time(text: str) -> datetime:
    """A day like 2023-12-25, without a zone: taken as UTC from midnight."""
    return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=timezone.utc)

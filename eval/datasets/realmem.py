"""RealMem (Bian et al. 2026): people who work with an assistant on several projects at once, over months.

person -> corpus, project -> group, session -> group below its project, turn -> item, read from the public JSON as it
is. The project is what stands before the ':' of ``session_identifier``. Sessions named ``Enhanced:…`` are put in
between as distractors and never needed; they stay where they are in time, below a "project" of that name, as the rule
says.

Asked online: a query turn is asked when the sessions before its own are in memory and nothing else; the earlier turns
of its own session are what the assistant sees anyway, and are neither in memory nor part of the question. What is
needed is known by session: the ``memory_session_uuids`` of the turn that answers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from eval.datasets.files import find_all, joint_checksum, read_json, reading, within
from eval.types import Corpus, Dataset, Group, Item, Question

WHENCE = "RealMem is published at github.com/AvatarMemory/RealMemBench (*_dialogues_*.json, licence Apache-2.0)."


def load(path: Path) -> Dataset:
    """Reads all ``*_dialogues_*.json`` or ``.json.gz``, given as their folder, one with a ``realmem`` in it, or a file.

    :raises NotFound: there are none; the message says where to get them.
    :raises InvalidInput: one is not RealMem.
    """
    files = find_all(within(path, "realmem"), ["*_dialogues_*.json", "*_dialogues_*.json.gz"], WHENCE)
    dropped: Counter[str] = Counter()
    corpora: dict[str, Corpus] = {}
    checksums: list[str] = []
    for file in files:
        data, checksum = read_json(file)
        checksums.append(checksum)
        with reading(file, "this file", "RealMem", WHENCE):
            corpus = _Person(data, dropped).corpus()
            if corpus.id in corpora:
                raise ValueError(f"another file is about {corpus.id} too")
            corpora[corpus.id] = corpus
    return Dataset(
        name="RealMem",
        granularity="turn",
        selection="queries, asked with the sessions before in memory",
        corpora=tuple(corpora.values()),
        sha256=joint_checksum(checksums),
        source=", ".join(file.name for file in files),
        dropped={reason: count for reason, count in sorted(dropped.items()) if count},
        group_granularity="session",
    )


class _Person:
    """One file being read, session by session."""

    def __init__(self, data: Mapping[str, Any], dropped: Counter[str]) -> None:
        self._name = str(data["_metadata"]["person_name"])
        # Sorting keeps the order as published among the sessions of one day; times have no hours.
        self._sessions = sorted(data["dialogues"], key=lambda session: _time(session["current_time"]))
        self._dropped = dropped
        self._groups: dict[str, Group] = {}
        self._items: list[Item] = []
        self._questions: list[Question] = []

    def corpus(self) -> Corpus:
        for session in self._sessions:
            self._read(session)
        return Corpus(self._name, tuple(self._groups.values()), tuple(self._items), tuple(self._questions))

    def _read(self, session: Mapping[str, Any]) -> None:
        project, _, name = session["session_identifier"].partition(":")
        id_, time = session["session_uuid"], _time(session["current_time"])
        if id_ in self._groups or id_ == project:
            raise ValueError(f"two sessions or a session and a project are called {id_}")
        # Asked first: with nothing of this session in memory.
        self._questions.extend(self._asked(session["dialogue_turns"], project, time))
        self._groups.setdefault(project, Group(project, project.replace("_", " "), time))
        title = f"Session {name.removeprefix('S').replace('_', '.')}, {time.day} {time:%B %Y}"
        self._groups[id_] = Group(id_, title, time, project)
        for place, turn in enumerate(session["dialogue_turns"], start=1):
            if turn["content"].strip():
                self._items.append(Item(f"{id_}:{place}", id_, turn["content"], time, turn["speaker"]))
            else:
                self._dropped["turns without text"] += 1

    def _asked(self, turns: Sequence[Mapping[str, Any]], project: str, time: datetime) -> Iterator[Question]:
        held = {item.group for item in self._items}
        for turn, answer in zip(turns, [*turns[1:], {}], strict=False):
            if not turn["is_query"]:
                continue
            needed = list(dict.fromkeys(answer.get("memory_session_uuids") or []))
            gold = tuple(id_ for id_ in needed if id_ in held)
            self._dropped["needed sessions that are not in memory yet"] += len(needed) - len(gold)
            if not gold:
                self._dropped["queries that need no earlier session"] += 1
                continue
            yield Question(
                f"{self._name}/{turn['query_id']}",
                turn["content"],
                (),
                str(turn["category_name"]),
                gold_groups=gold,
                time=time,
                after=len(self._items),
                asked_in=project,
            )


def _time(text: str) -> datetime:
    """A day like "2025-12-15 (Monday)", without a zone: taken as UTC from midnight."""
    match = re.match(r"\d{4}-\d\d-\d\d", text)
    if match is None:
        raise ValueError(f"{text!r} does not begin with a date like 2025-12-15")
    return datetime.fromisoformat(match.group()).replace(tzinfo=timezone.utc)

"""LongMemEval-S (Wu et al. 2025): one question each to a haystack of some fifty chat sessions of its own.

question -> corpus, session -> group, turn -> item, read from the public JSON as it is; sessions are put in time order
and numbered in it, as their published ids give away which ones hold the answer. Evidence is known twice: the turns
marked ``has_answer``, and the sessions named in ``answer_session_ids``. Questions whose id ends in ``_abs`` are not
asked: they are about something that is in no session.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from eval.datasets.files import find, read_json, reading, within
from eval.types import Corpus, Dataset, Group, Item, Question
from hybridmem.errors import InvalidInput

WHENCE = "LongMemEval is published at github.com/xiaowu0162/LongMemEval (longmemeval_s.json, licence MIT)."

# "2023/05/25 (Thu) 10:04": the day of the week is left out, as its name depends on the language of the machine.
_WEEKDAY = re.compile(r"\s*\([^)]*\)\s*")


def load(path: Path) -> Dataset:
    """Reads ``longmemeval_s*.json`` or ``.json.gz``, given as the file, its folder, or one with ``longmemeval`` in it.

    :raises NotFound: it is not there; the message says where to get it.
    :raises InvalidInput: it is not LongMemEval.
    """
    folder = within(path, "longmemeval")
    file = find(folder, ["longmemeval_s", "longmemeval_s*.json", "longmemeval_s*.json.gz"], WHENCE)
    data, checksum = read_json(file)
    if not isinstance(data, list) or not data:
        raise InvalidInput(f"{file}: is not LongMemEval: expected a list of questions. {WHENCE}")
    dropped: Counter[str] = Counter()
    corpora: dict[str, Corpus] = {}
    for number, sample in enumerate(data, start=1):
        with reading(file, f"question {number}", "LongMemEval", WHENCE):
            corpus = _corpus(sample, dropped)
            if corpus is not None and corpus.id in corpora:
                raise ValueError(f"two questions have the id {corpus.id}")
            if corpus is not None:
                corpora[corpus.id] = corpus
    return Dataset(
        name="LongMemEval-S",
        granularity="turn",
        selection="questions with an answer",
        corpora=tuple(corpora.values()),
        sha256=checksum,
        source=file.name,
        dropped={reason: count for reason, count in sorted(dropped.items()) if count},
        group_granularity="session",
    )


def _corpus(sample: Mapping[str, Any], dropped: Counter[str]) -> Corpus | None:
    name = str(sample["question_id"])
    if name.endswith("_abs"):
        dropped["questions without an answer (_abs)"] += 1
        return None
    groups: list[Group] = []
    items: list[Item] = []
    gold: list[str] = []
    gold_groups: list[str] = []
    for number, (time, published, turns) in enumerate(_sessions(sample), start=1):
        group = Group(f"S{number}", f"Session {number}, {time.day} {time:%B %Y}", time)
        groups.append(group)
        if published in sample["answer_session_ids"]:
            gold_groups.append(group.id)
        for place, turn in enumerate(turns, start=1):
            item = Item(f"{group.id}:{place}", group.id, turn["content"], time, turn["role"])
            if not item.text.strip():
                dropped["turns without text"] += 1
                continue
            items.append(item)
            if turn.get("has_answer"):
                gold.append(item.id)
    # A session may be named as an answer and have no text; it could never be returned.
    held = {item.group for item in items}
    gold_groups = [id_ for id_ in gold_groups if id_ in held]
    if not gold and not gold_groups:
        dropped["questions without evidence"] += 1
        return None
    question = Question(
        name,
        sample["question"],
        tuple(gold),
        str(sample["question_type"]),
        gold_groups=tuple(gold_groups),
        time=_time(sample["question_date"]),
    )
    return Corpus(name, tuple(groups), tuple(items), (question,))


def _sessions(sample: Mapping[str, Any]) -> list[tuple[datetime, str, Sequence[Mapping[str, Any]]]]:
    """(time, published id, turns) in time order; those of one time as published."""
    dates, ids, sessions = sample["haystack_dates"], sample["haystack_session_ids"], sample["haystack_sessions"]
    if not len(dates) == len(ids) == len(sessions):
        raise ValueError(f"{len(dates)} dates and {len(ids)} ids for {len(sessions)} sessions")
    times = [_time(date) for date in dates]
    return sorted(zip(times, ids, sessions, strict=True), key=lambda session: session[0])


def _time(text: str) -> datetime:
    """Without a zone: taken as UTC."""
    return datetime.strptime(_WEEKDAY.sub(" ", text), "%Y/%m/%d %H:%M").replace(tzinfo=timezone.utc)

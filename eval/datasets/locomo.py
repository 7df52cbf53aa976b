"""LoCoMo (Maharana et al. 2024): long conversations of two people, with questions and the turns that answer them.

conversation -> corpus, session -> group, turn -> item, read from the public JSON as it is. Only the text of a turn is
used, never the captions of its images. Questions of categories 1 to 4 are asked (multi-hop, time, open, single-hop);
category 5 has no answer in the conversation, so that nothing could be retrieved for it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from eval.datasets.files import find, read_json, within
from eval.types import Corpus, Dataset, Group, Item, Question
from hybridmem.errors import InvalidInput

WHENCE = "LoCoMo is published at github.com/snap-research/LoCoMo (data/locomo10.json, licence CC BY-NC 4.0)."
CATEGORIES = frozenset({1, 2, 3, 4})

# Evidence as published is broken in places: "D8:6; D9:17" and "D9:1 D4:4 D4:6" are several ids in one string,
# "D:11:26" has a colon too many, "D30:05" a zero; a bare "D" names nothing.
_EVIDENCE = re.compile(r"D:?(\d+):(\d+)")
_SESSION = re.compile(r"session_(\d+)")


def load(path: Path) -> Dataset:
    """Reads ``locomo*.json`` or ``locomo*.json.gz``, given as the file, its folder, or a folder ``locomo`` above it.

    :raises NotFound: it is not there; the message says where to get it.
    :raises InvalidInput: it is not LoCoMo.
    """
    file = find(within(path, "locomo"), ["locomo*.json", "locomo*.json.gz"], WHENCE)
    data, checksum = read_json(file)
    if not isinstance(data, list) or not data:
        raise InvalidInput(f"{file}: is not LoCoMo: expected a list of conversations. {WHENCE}")
    dropped: Counter[str] = Counter()
    corpora = tuple(_corpus(sample, number, file, dropped) for number, sample in enumerate(data))
    return Dataset(
        name="LoCoMo",
        granularity="turn",
        selection="categories 1–4",
        corpora=corpora,
        sha256=checksum,
        source=file.name,
        dropped={reason: count for reason, count in sorted(dropped.items()) if count},
    )


def _corpus(sample: Any, number: int, file: Path, dropped: Counter[str]) -> Corpus:
    try:
        name = str(sample.get("sample_id", f"conversation-{number}"))
        groups, items = _sessions(sample["conversation"], dropped)
        questions = tuple(_questions(sample["qa"], {item.id for item in items}, name, dropped))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        reason = f"no key {error}" if isinstance(error, KeyError) else str(error)
        raise InvalidInput(f"{file}: conversation {number + 1} is not as LoCoMo has it: {reason}. {WHENCE}") from error
    return Corpus(name, groups, items, questions)


def _sessions(conversation: Mapping[str, Any], dropped: Counter[str]) -> tuple[tuple[Group, ...], tuple[Item, ...]]:
    numbers = sorted(int(match.group(1)) for key in conversation if (match := _SESSION.fullmatch(key)))
    groups: list[Group] = []
    items: dict[str, Item] = {}
    for number in numbers:
        time = _time(conversation.get(f"session_{number}_date_time"))
        date = f", {time.day} {time:%B %Y}" if time else ""
        group = Group(f"D{number}", f"Session {number}{date}", time)
        groups.append(group)
        for turn in conversation[f"session_{number}"]:
            item = Item(_turn_id(turn["dia_id"]), group.id, turn["text"], time, turn["speaker"])
            if item.id in items:
                raise ValueError(f"two turns have the id {item.id}")
            if item.text.strip():
                items[item.id] = item
            else:
                dropped["turns without text"] += 1
    return tuple(groups), tuple(items.values())


def _questions(
    entries: Sequence[Mapping[str, Any]], known: set[str], corpus: str, dropped: Counter[str]
) -> Iterator[Question]:
    asked: set[tuple[str, frozenset[str]]] = set()
    for number, entry in enumerate(entries):
        if entry["category"] not in CATEGORIES:
            dropped[f"questions of category {entry['category']}"] += 1
            continue
        named = [_turn_id(text) for text in _ids(entry.get("evidence") or [])]
        gold = tuple(dict.fromkeys(id_ for id_ in named if id_ in known))
        dropped["evidence ids that name no turn"] += sum(id_ not in known for id_ in named)
        key = (entry["question"], frozenset(gold))
        if not gold:
            dropped["questions without evidence"] += 1
        elif key in asked:
            dropped["questions asked twice"] += 1
        else:
            asked.add(key)
            yield Question(f"{corpus}/q{number}", entry["question"], gold, str(entry["category"]))


def _ids(evidence: Sequence[str]) -> Iterator[str]:
    for text in evidence:
        for match in _EVIDENCE.finditer(text):
            yield match.group()


def _turn_id(text: str) -> str:
    match = _EVIDENCE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a turn id of the form D<session>:<turn>")
    return f"D{int(match.group(1))}:{int(match.group(2))}"


def _time(text: str | None) -> datetime | None:
    """Session times are printed as "1:56 pm on 8 May, 2023", without a zone: taken as UTC."""
    if not text:
        return None
    return datetime.strptime(text, "%I:%M %p on %d %B, %Y").replace(tzinfo=timezone.utc)

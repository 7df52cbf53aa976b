"""Reading MADial-Bench: two languages, two users, dialogues that end before the test turn."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from eval.datasets import DATASETS, madial
from hybridmem.errors import InvalidInput, NotFound

ZH_MEMORY = [
    {
        "7": {
            "time": "2023-12-25",
            "scene": "活动类",
            "emotion": "开心",
            "event": "Bart在圣诞晚会上跳舞。",
            "user-id": 1,
        }
    },
    {"2": {"time": "2012-03-07", "scene": "喜好类", "emotion": "害怕", "event": "小狗追着她跑。", "user-id": 2}},
]
EN_MEMORY = [
    {"7": {"time": "2023-12-25", "scene": "Activity", "emotion": "Happy", "event": "Bart danced at the party."}},
    {"2": {"time": "2012-03-07", "scene": "Others", "emotion": "Fear", "event": "A dog ran after Lisa."}},
]
ZH_DIALOGUE = [
    {
        "dialogue": [" <BOD>\n", " <Bart>:\"我要表演魔术！\"\n", "<Assistant>:\"记得跳舞吗？\"\n", "<Bart>：\"记得\"\n",
                     "<Assistant>:\"加油\"\n", "<EOD>\n"],
        "test-turn": [2, 4], "relevant-id": [7, 7, 99], "user-id": 1, "id": 0,
    },
    {"dialogue": ["<BOD>\n", "<Lisa>:\"狗\"\n"], "test-turn": [2], "relevant-id": [99], "user-id": 2},
]  # fmt: skip
EN_DIALOGUE = [
    {"dialogue": ["<BOD>\n", "<Lisa>: \"I met a dog.\"\n", "\"Oh!\"\n"], "test-turn": [3], "relevant-id": [2],
     "user-id": 2},
]  # fmt: skip


def _lines(file: Path, documents: Sequence[Any]) -> None:
    text = "\n".join(json.dumps(document, ensure_ascii=False) for document in documents) + "\n\n"
    raw = text.encode()
    file.write_bytes(gzip.compress(raw) if file.suffix == ".gz" else raw)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    below = tmp_path / "madial"
    below.mkdir()
    _lines(below / "zh_memory.jsonl.gz", ZH_MEMORY)
    _lines(below / "zh_dialogue_dev80.jsonl.gz", ZH_DIALOGUE)
    _lines(below / "en_memory.jsonl", EN_MEMORY)
    _lines(below / "en_dialogue.jsonl", EN_DIALOGUE)
    return tmp_path


def test_each_language_is_a_history_of_both_users_in_time_order(folder: Path) -> None:
    dataset = madial.load(folder)
    assert [corpus.id for corpus in dataset.corpora] == ["zh", "en"]
    for corpus, first in zip(dataset.corpora, ("小狗追着她跑。", "A dog ran after Lisa."), strict=True):
        assert [(group.id, group.title) for group in corpus.groups] == [("user-1", "Bart"), ("user-2", "Lisa")]
        assert [(item.id, item.group) for item in corpus.items] == [("2", "user-2"), ("7", "user-1")]
        assert corpus.items[0].content == first
        assert corpus.items[0].time == datetime(2012, 3, 7, tzinfo=timezone.utc)


def test_a_dialogue_is_asked_up_to_its_last_test_turn_or_its_first(folder: Path) -> None:
    chinese, english = madial.load(folder).corpora
    assert chinese.questions[0].text == 'Bart: "我要表演魔术！"\nAssistant: "记得跳舞吗？"\nBart: "记得"'
    assert (chinese.questions[0].gold, chinese.questions[0].asked_in) == (("7",), "user-1")
    assert english.questions[0].text == 'Lisa: "I met a dog."\n"Oh!"'
    first = madial.load_first(folder)
    assert first.corpora[0].questions[0].text == 'Bart: "我要表演魔术！"'
    assert "first test turn" in first.selection
    assert "last test turn" in madial.load(folder).selection


def test_what_is_left_out_is_counted(folder: Path) -> None:
    assert madial.load(folder).dropped == {
        "dialogues without a relevant memory": 1,
        "relevant ids that name no memory": 2,
    }


def test_one_language_can_be_had_alone_and_the_names_of_publication_work(folder: Path, tmp_path: Path) -> None:
    alone = DATASETS["madial-zh"](folder)
    assert [corpus.id for corpus in alone.corpora] == ["zh"]
    assert alone.sha256 != madial.load(folder).sha256
    published = tmp_path / "published" / "ch"
    published.mkdir(parents=True)
    _lines(published / "MADial-Bench-zh-memory.json", ZH_MEMORY)
    _lines(published / "MADial-Bench-zh-dialogue.json", ZH_DIALOGUE)
    assert DATASETS["madial-zh"](tmp_path / "published").corpora == alone.corpora


def test_a_missing_file_is_named_with_where_it_is_published(folder: Path) -> None:
    (folder / "madial" / "en_memory.jsonl").unlink()
    with pytest.raises(NotFound, match=r"en_memory\*\.jsonl.*hejunqing/MADial-Bench.*MIT"):
        madial.load(folder)
    with pytest.raises(InvalidInput, match="is a file; MADial-Bench is a folder"):
        madial.load(folder / "madial" / "en_dialogue.jsonl")


@pytest.mark.parametrize(
    ("file", "documents", "message"),
    [
        ("en_memory.jsonl", [{"1": {"time": "2023-01-01", "event": "They met."}}], "line 1 .*neither user-id nor"),
        ("en_memory.jsonl", [*EN_MEMORY, EN_MEMORY[0]], "line 3 .*two memories have the id 7"),
        ("en_memory.jsonl", [{"1": {"time": "昨天", "event": "Bart"}}], "line 1 .*昨天"),
        ("en_dialogue.jsonl", [{}], "line 1 .*no key 'dialogue'"),
        ("en_dialogue.jsonl", [EN_DIALOGUE[0] | {"user-id": 3}], "line 1 .*no user 3"),
    ],
)
def test_another_content_is_refused_by_file_and_line(
    folder: Path, file: str, documents: list[Any], message: str
) -> None:
    _lines(folder / "madial" / file, documents)
    with pytest.raises(InvalidInput, match=rf"{file}: {message}"):
        madial.load(folder)


def test_a_broken_line_is_named_by_its_number(folder: Path) -> None:
    file = folder / "madial" / "en_memory.jsonl"
    file.write_text(json.dumps(EN_MEMORY[0]) + "\n{不是\n", encoding="utf-8")
    with pytest.raises(InvalidInput, match=r"en_memory\.jsonl: line 2 cannot be read as JSON"):
        madial.load(folder)

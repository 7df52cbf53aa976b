"""Reading LoCoMo: what is kept, mended and left out, and what is said when it is not there."""

from __future__ import annotations

import gzip
import hashlib
import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from eval.datasets import locomo
from hybridmem.errors import InvalidInput, NotFound


def test_sessions_become_groups_in_the_order_of_their_numbers(data_folder: Path) -> None:
    english = locomo.load(data_folder).corpora[0]
    assert [(group.id, group.title) for group in english.groups] == [
        ("D2", "Session 2, 8 May 2023"),
        ("D10", "Session 10, 3 June 2023"),
    ]
    assert [group.time for group in english.groups] == [
        datetime(2023, 5, 8, 13, 56, tzinfo=timezone.utc),
        datetime(2023, 6, 3, 0, 5, tzinfo=timezone.utc),
    ]


def test_turns_become_items_with_their_speaker_and_without_captions(data_folder: Path) -> None:
    english, chinese = locomo.load(data_folder).corpora
    assert len(english.items) == len(chinese.items) == 16
    assert english.items[0].id == "D2:1"
    assert english.items[0].content == "Ann: I adopted a grey cat called Pepper last week."
    assert english.items[-1].group == "D10"
    assert chinese.items[1].content == "小李: 用户张三在研发部工作，喜欢短信通知。"
    assert not any("photo" in item.content for item in english.items + chinese.items)


def test_broken_evidence_is_mended_and_the_rest_is_counted(data_folder: Path) -> None:
    dataset = locomo.load(data_folder)
    assert [(question.text, question.gold) for question in dataset.corpora[0].questions] == [
        ("What is the cat called?", ("D2:1",)),
        ("Where did her sister move?", ("D2:3", "D10:3")),
        ("What did they bake and break?", ("D2:6", "D10:7")),
    ]
    assert dataset.dropped == {
        "evidence ids that name no turn": 1,
        "questions asked twice": 1,
        "questions of category 5": 1,
        "questions without evidence": 2,
    }
    assert dataset.counts() == {"corpora": 2, "items": 32, "questions": 6}


def test_plain_gzipped_folder_and_file_read_alike(
    data_folder: Path, tmp_path: Path, sample: list[dict[str, Any]]
) -> None:
    plain = tmp_path / "locomo_mine.json"
    plain.write_text(json.dumps(sample, ensure_ascii=False), encoding="utf-8")
    zipped = data_folder / "locomo10.json.gz"
    assert locomo.load(plain).corpora == locomo.load(zipped).corpora == locomo.load(data_folder).corpora
    assert locomo.load(plain).sha256 == hashlib.sha256(plain.read_bytes()).hexdigest()
    assert locomo.load(zipped).source == "locomo10.json.gz"


def test_a_folder_without_the_file_says_what_is_expected_and_where_it_is_published(tmp_path: Path) -> None:
    for missing in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(NotFound, match=r"locomo\*\.json.*snap-research/LoCoMo.*CC BY-NC 4\.0"):
            locomo.load(missing)


def test_a_folder_with_several_files_asks_for_one(data_folder: Path) -> None:
    (data_folder / "locomo_other.json").write_text("[]", encoding="utf-8")
    with pytest.raises(InvalidInput, match=r"locomo10\.json\.gz, locomo_other\.json"):
        locomo.load(data_folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"not json", "cannot be read as JSON"),
        (b"{}", "expected a list of conversations"),
        (b"[]", "expected a list of conversations"),
        (b'[{"sample_id": "x", "qa": []}]', "conversation 1 .* no key 'conversation'"),
        (b'[{"conversation": {"session_1": [{"dia_id": "T1"}]}, "qa": []}]', "conversation 1 "),
        (
            b'[{"conversation": {"session_1_date_time": "2023-05-08", "session_1": []}, "qa": []}]',
            "conversation 1 .*2023-05-08",
        ),
    ],
)
def test_another_file_is_refused_by_name(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "locomo.json"
    file.write_bytes(content)
    with pytest.raises(InvalidInput, match=rf"locomo\.json: .*{message}"):
        locomo.load(file)


def test_a_truncated_gzip_is_an_error_and_not_half_a_data_set(tmp_path: Path, sample: list[dict[str, Any]]) -> None:
    file = tmp_path / "locomo.json.gz"
    file.write_bytes(gzip.compress(json.dumps(sample).encode())[:200])
    with pytest.raises(InvalidInput, match="cannot be read as gzipped JSON"):
        locomo.load(file)


def test_a_limit_keeps_the_first_questions_and_says_so(data_folder: Path) -> None:
    dataset = locomo.load(data_folder)
    assert dataset.first(4).counts() == {"corpora": 2, "items": 32, "questions": 4}
    assert dataset.first(2).counts() == {"corpora": 1, "items": 16, "questions": 2}
    assert "first 2 questions only" in dataset.first(2).selection

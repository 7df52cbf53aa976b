"""Reading LongMemEval: sessions in time order, evidence at two granularities, and questions that are not asked."""

from __future__ import annotations

import gzip
import hashlib
import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from eval.datasets import longmemeval
from hybridmem.errors import InvalidInput, NotFound


def _question(**changes: Any) -> dict[str, Any]:
    """One question with three sessions that are not in time order; the second published one holds the answer."""
    return {
        "question_id": "q1",
        "question_type": "knowledge-update",
        "question": "我的旧球鞋现在放在哪里？ Where are my sneakers?",
        "question_date": "2023/06/23 (Fri) 07:31",
        "answer": "鞋柜",
        "answer_session_ids": ["answer_1"],
        "haystack_dates": ["2023/05/25 (Thu) 10:04", "2023/05/02 (Tue) 05:35", "2023/05/25 (Thu) 04:39"],
        "haystack_session_ids": ["ultrachat_7", "answer_1", "ultrachat_7"],
        "haystack_sessions": [
            [{"role": "user", "content": "How old is the universe?"}, {"role": "assistant", "content": "13.8 billion"}],
            [
                {"role": "user", "content": "球鞋放进鞋柜了", "has_answer": True},
                {"role": "assistant", "content": " \n", "has_answer": False},
                {"role": "user", "content": "Thanks", "has_answer": None},
            ],
            [{"role": "user", "content": "宇宙有多老？"}],
        ],
    } | changes


def _write(folder: Path, questions: list[dict[str, Any]]) -> Path:
    file = folder / "longmemeval_s.json"
    file.write_text(json.dumps(questions, ensure_ascii=False), encoding="utf-8")
    return file


def test_sessions_come_in_time_order_and_their_published_names_stay_out(tmp_path: Path) -> None:
    (corpus,) = longmemeval.load(_write(tmp_path, [_question()])).corpora
    assert [(group.id, group.title) for group in corpus.groups] == [
        ("S1", "Session 1, 2 May 2023"),
        ("S2", "Session 2, 25 May 2023"),
        ("S3", "Session 3, 25 May 2023"),
    ]
    assert [(item.id, item.content) for item in corpus.items] == [
        ("S1:1", "user: 球鞋放进鞋柜了"),
        ("S1:3", "user: Thanks"),
        ("S2:1", "user: 宇宙有多老？"),
        ("S3:1", "user: How old is the universe?"),
        ("S3:2", "assistant: 13.8 billion"),
    ]
    assert "answer" not in " ".join(item.id + item.group for item in corpus.items)
    assert corpus.items[2].time == datetime(2023, 5, 25, 4, 39, tzinfo=timezone.utc)


def test_a_question_knows_its_turns_its_sessions_and_its_time(tmp_path: Path) -> None:
    dataset = longmemeval.load(_write(tmp_path, [_question()]))
    (question,) = dataset.corpora[0].questions
    assert (question.gold, question.gold_groups, question.category) == (("S1:1",), ("S1",), "knowledge-update")
    assert question.time == datetime(2023, 6, 23, 7, 31, tzinfo=timezone.utc)
    assert (dataset.granularity, dataset.group_granularity) == ("turn", "session")
    assert dataset.corpora[0].candidates(question) == (5, 3)
    assert dataset.dropped == {"turns without text": 1}


def test_questions_about_nothing_are_not_asked_but_counted(tmp_path: Path) -> None:
    nowhere = _question(question_id="q3", answer_session_ids=["gone"], haystack_dates=[], haystack_session_ids=[])
    nowhere["haystack_sessions"] = []
    dataset = longmemeval.load(_write(tmp_path, [_question(), _question(question_id="q2_abs"), nowhere]))
    assert dataset.counts()["questions"] == 1
    assert dataset.dropped["questions without an answer (_abs)"] == 1
    assert dataset.dropped["questions without evidence"] == 1


def test_the_file_its_folder_and_the_folder_above_read_alike(tmp_path: Path) -> None:
    below = tmp_path / "longmemeval"
    below.mkdir()
    file = _write(below, [_question()])
    assert longmemeval.load(file) == longmemeval.load(below) == longmemeval.load(tmp_path)
    assert longmemeval.load(file).sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
    zipped = tmp_path / "longmemeval_s_cleaned.json.gz"
    zipped.write_bytes(gzip.compress(file.read_bytes()))
    assert longmemeval.load(zipped).corpora == longmemeval.load(file).corpora


def test_a_folder_without_the_file_says_where_it_is_published(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"longmemeval_s\*\.json.*xiaowu0162/LongMemEval.*MIT"):
        longmemeval.load(tmp_path)


@pytest.mark.parametrize(
    ("questions", "message"),
    [
        ({}, "expected a list of questions"),
        ([{"question_id": "x"}], "question 1 is not as LongMemEval has it: no key 'haystack_dates'"),
        ([_question(haystack_dates=[])], "question 1 .*0 dates and 3 ids for 3 sessions"),
        ([_question(question_date="昨天")], "question 1 .*昨天"),
        ([_question(), _question()], "question 2 .*two questions have the id q1"),
    ],
)
def test_another_file_is_refused_by_name(tmp_path: Path, questions: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=rf"longmemeval_s\.json: .*{message}"):
        longmemeval.load(_write(tmp_path, questions))

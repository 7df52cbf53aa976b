"""Reading RealMem: projects with sessions, asked online; and systems that live through such a history."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from eval.datasets import realmem
from eval.embedding import SharedEmbedder
from eval.systems.base import Setup
from eval.systems.bm25 import BM25
from eval.systems.hybridmem import TreeMemory
from eval.systems.latest import LatestOfProject
from eval.types import Corpus, Group, Item, Moment
from hybridmem import embed
from hybridmem.config import Config, EmbeddingConfig
from hybridmem.errors import InvalidInput, NotFound
from hybridmem.tokens import token_counter

# bpe_openai opens its own data in an old way when it is imported first.
pytestmark = pytest.mark.filterwarnings("ignore:open_binary is deprecated:DeprecationWarning")


def _said(*texts: str) -> list[dict[str, Any]]:
    speakers = ("User", "Assistant")
    return [
        {"speaker": speakers[place % 2], "content": text, "is_query": False, "query_id": None}
        for place, text in enumerate(texts)
    ]


def _asked(id_: str, text: str, needed: list[str]) -> list[dict[str, Any]]:
    query, answer = _said(text, "来自记忆的回答 From memory.")
    return [
        query | {"is_query": True, "query_id": id_, "category_name": "Dynamic Updating"},
        answer | {"memory_session_uuids": needed},
    ]


def _session(name: str, uuid: str, day: str, turns: list[dict[str, Any]]) -> dict[str, Any]:
    return {"session_identifier": name, "session_uuid": uuid, "current_time": day, "dialogue_turns": turns}


def _person() -> dict[str, Any]:
    """Two projects and a distractor; the last published session comes before the one above it."""
    sessions = [
        _session("Fitness_3:S1_01", "aa", "2025-12-15 (Monday)", _said("My knee hurts when I run.", "Rest it.")),
        _session("Enhanced:S100", "bb", "2025-12-15 (Monday)", _said("What is MoDL?", "A method.", " ")),
        _session("旅行_9:S1_01", "cc", "2025-12-20 (Saturday)", _said("我想去杭州看西湖。", "好的，坐高铁去。")),
        _session(
            "Fitness_3:S2_01",
            "ee",
            "2025-12-30 (Tuesday)",
            [
                *_said("Hello again.", "Welcome."),
                *_asked("Q2", "跑步的事怎么样了？ And my knee?", ["aa", "dd", "ee", "zz"]),
                *_asked("Q3", "Nothing before is needed", ["ee"]),
            ],
        ),
        _session("旅行_9:S1_02", "dd", "2025-12-25 (Thursday)", _asked("Q1", "西湖怎么去？", ["cc", "cc"])),
    ]
    return {"_metadata": {"person_name": "Ann"}, "dialogues": sessions}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    below = tmp_path / "realmem"
    below.mkdir()
    _write(below / "Ann_dialogues_256k.json", _person())
    return tmp_path


@pytest.fixture
def corpus(folder: Path) -> Corpus:
    return realmem.load(folder).corpora[0]


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    directory = tmp_path / "system"
    directory.mkdir()
    embedder = embed.create(EmbeddingConfig(provider="hashing"))
    return Setup(directory, Config(), SharedEmbedder(embedder), token_counter())


def _write(file: Path, data: Any) -> None:
    file.write_text(json.dumps(data, ensure_ascii=False), encoding="utf-8")


def test_projects_hold_sessions_in_time_order_distractors_too(corpus: Corpus) -> None:
    assert [(group.id, group.title, group.parent) for group in corpus.groups] == [
        ("Fitness_3", "Fitness 3", ""),
        ("aa", "Session 1.01, 15 December 2025", "Fitness_3"),
        ("Enhanced", "Enhanced", ""),
        ("bb", "Session 100, 15 December 2025", "Enhanced"),
        ("旅行_9", "旅行 9", ""),
        ("cc", "Session 1.01, 20 December 2025", "旅行_9"),
        ("dd", "Session 1.02, 25 December 2025", "旅行_9"),
        ("ee", "Session 2.01, 30 December 2025", "Fitness_3"),
    ]
    assert [item.id for item in corpus.items[:7]] == ["aa:1", "aa:2", "bb:1", "bb:2", "cc:1", "cc:2", "dd:1"]
    assert corpus.items[4].content == "User: 我想去杭州看西湖。"
    assert corpus.items[4].time == datetime(2025, 12, 20, tzinfo=timezone.utc)


def test_a_query_is_asked_with_the_sessions_before_in_memory_and_nothing_of_its_own(corpus: Corpus) -> None:
    first, second = corpus.questions
    assert (first.id, first.gold, first.gold_groups, first.asked_in) == ("Ann/Q1", (), ("cc",), "旅行_9")
    assert [item.group for item in corpus.items[: first.after]] == ["aa", "aa", "bb", "bb", "cc", "cc"]
    assert (second.text, second.gold_groups) == ("跑步的事怎么样了？ And my knee?", ("aa", "dd"))
    assert {item.group for item in corpus.items[: second.after]} == {"aa", "bb", "cc", "dd"}
    assert corpus.start == first.after == 6
    assert [corpus.candidates(question) for question in corpus.questions] == [(6, 3), (8, 4)]
    assert corpus.moment(second) == Moment(8, datetime(2025, 12, 30, tzinfo=timezone.utc), "Fitness_3")


def test_what_is_left_out_is_counted(folder: Path) -> None:
    dataset = realmem.load(folder)
    assert dataset.dropped == {
        "needed sessions that are not in memory yet": 3,
        "queries that need no earlier session": 1,
        "turns without text": 1,
    }
    assert (dataset.granularity, dataset.group_granularity) == ("turn", "session")


def test_every_person_is_a_history_and_each_file_counts_in_the_checksum(folder: Path) -> None:
    alone = realmem.load(folder)
    bob = _person() | {"_metadata": {"person_name": "小王"}}
    _write(folder / "realmem" / "Bob_dialogues_256k.json", bob)
    both = realmem.load(folder)
    assert [corpus.id for corpus in both.corpora] == ["Ann", "小王"]
    assert both.source == "Ann_dialogues_256k.json, Bob_dialogues_256k.json"
    assert both.sha256 != alone.sha256 == realmem.load(folder / "realmem" / "Ann_dialogues_256k.json").sha256


def test_a_folder_without_the_files_says_where_they_are_published(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"_dialogues_\*\.json.*AvatarMemory/RealMemBench.*Apache-2\.0"):
        realmem.load(tmp_path)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "this file is not as RealMem has it"),
        ({"_metadata": {"person_name": "Ann"}}, "no key 'dialogues'"),
        (
            {"_metadata": {"person_name": "Ann"}, "dialogues": [_session("a:b", "u", "昨天", [])]},
            "'昨天' does not begin with a date",
        ),
        (
            {"_metadata": {"person_name": "Ann"}, "dialogues": [_session("a:b", "u", "2025-12-15", [])] * 2},
            "two sessions .* called u",
        ),
    ],
)
def test_another_file_is_refused_by_name(tmp_path: Path, data: Any, message: str) -> None:
    _write(tmp_path / "x_dialogues_1.json", data)
    with pytest.raises(InvalidInput, match=rf"x_dialogues_1\.json: .*{message}"):
        realmem.load(tmp_path)


def test_the_latest_sessions_of_the_project_come_first_whatever_is_asked(corpus: Corpus, setup: Setup) -> None:
    system = LatestOfProject(setup)
    system.load(corpus)
    system.advance(corpus.moment(corpus.questions[0]))
    assert system.search("膝盖 knee", 4) == ["cc:2", "cc:1", "bb:2", "bb:1"]
    system.advance(corpus.moment(corpus.questions[1]))
    assert system.search("西湖", 20) == ["aa:2", "aa:1", "dd:2", "dd:1", "cc:2", "cc:1", "bb:2", "bb:1"]
    text, shown = system.context("anything 任何", 6)
    assert shown == ["aa:2"]
    assert text == "Assistant: Rest it."
    system.advance(Moment(8))
    assert system.search("?", 1) == ["dd:2"]


@pytest.mark.parametrize("factory", [TreeMemory, BM25, LatestOfProject])
def test_a_system_knows_nothing_of_what_comes_later(corpus: Corpus, setup: Setup, factory: Any) -> None:
    system = factory(setup)
    try:
        system.load(corpus)
        for question in corpus.questions:
            moment = corpus.moment(question)
            system.advance(moment)
            found = system.search("From memory. 来自记忆的回答 杭州 knee", 50)
            assert found
            assert set(found) <= {item.id for item in corpus.items[: moment.items]}
        # By now the first answer is in memory, and is found.
        assert "dd:2" in found
    finally:
        system.close()


class TestTreeMemory:
    """hybridmem as a system: the tree that it makes of a history."""

    def _lines(self, system: TreeMemory) -> list[tuple[int, str, str, str]]:
        memory = system._open()
        return [
            (len(memory.ancestors(node.id)), node.type, str(node.content), node.task.status if node.task else "")
            for node in memory.walk()
            if node.type != "root"
        ]

    def test_groups_become_tasks_under_the_task_of_their_parent_however_deep(self, setup: Setup) -> None:
        groups = (Group("a", "报销"), Group("a1", "Review", parent="a"), Group("a11", "补交材料", parent="a1"))
        items = (
            Item("i1", "a11", "发票 INV-1", type="fact"),
            Item("i2", "a", "paid", type="decision"),
            Item("i3", "a11", "done 完成"),
        )
        system = TreeMemory(setup)
        try:
            system.load(Corpus("deep", groups, items, ()))
            assert self._lines(system) == [
                (1, "task", "报销", "done"),
                (2, "task", "Review", "done"),
                (3, "task", "补交材料", "done"),
                (4, "fact", "发票 INV-1", ""),
                (4, "event", "done 完成", ""),
                (2, "decision", "paid", ""),
            ]
            assert system._open().active_task() is None
            assert set(system.search("INV-1 发票 paid", 3)) >= {"i1", "i2"}
        finally:
            system.close()

    def test_the_project_of_a_question_is_the_active_task_and_the_clock_is_at_its_time(
        self, corpus: Corpus, setup: Setup
    ) -> None:
        system = TreeMemory(setup)
        try:
            system.load(corpus)
            for question, title in zip(corpus.questions, ("旅行 9", "Fitness 3"), strict=True):
                system.advance(corpus.moment(question))
                active = system._open().active_task()
                assert active is not None
                assert active.content == title
                assert system._clock.now() == question.time
            assert len([line for line in self._lines(system) if line[2] == "Fitness 3"]) == 1
        finally:
            system.close()

    def test_a_project_that_is_over_is_opened_again_and_a_new_one_begun_when_asked_in(self, setup: Setup) -> None:
        groups = (Group("old", "旧项目"), Group("new", "New project"))
        items = (Item("i1", "old", "报销 claim"), Item("i2", "new", "later"))
        system = TreeMemory(setup)
        try:
            system.load(Corpus("c", groups, items[:1], ()))
            for group, title in (("old", "旧项目"), ("new", "New project")):
                system.advance(Moment(1, None, group))
                active = system._open().active_task()
                assert active is not None
                assert active.content == title
        finally:
            system.close()

"""C032: Chinese is found by any part of it, by words alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hybridmem import Memory

OpenMemory = Callable[..., Memory]

#: Simplified, traditional, and mixed with English.
SENTENCES = (
    "财务退回了报销单",
    "张三在研发部工作",
    "周六凌晨停机维护",
    "客户要求全额退款",
    "下周二开会讨论预算",
    "張三在研發部工作",
    "財務退回了報銷單",
    "請把發票重新上傳",
    "数据库迁移到PostgreSQL十五",
    "用户偏好SMS通知方式",
)


@pytest.fixture
def words(memory: OpenMemory) -> Memory:
    """The ten sentences, vectors and tree switched off."""
    m = memory(retrieval={"vector": 0.0, "tree": 0.0, "neighbour": 0.0})
    m.add_many({"content": sentence} for sentence in SENTENCES)
    return m


def parts(size: int) -> Iterator[str]:
    """Every different run of ``size`` characters that occurs."""
    yield from dict.fromkeys(
        sentence[start : start + size] for sentence in SENTENCES for start in range(len(sentence) - size + 1)
    )


def found(memory: Memory, query: str) -> list[str]:
    return [hit.content for hit in memory.search(query)]


def is_chinese(text: str) -> bool:
    return not any(character.isascii() for character in text)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_every_part_finds_the_sentences_that_hold_it_first(words: Memory, size: int) -> None:
    """C032: of 2, 3 and 4 characters, traditional and simplified."""
    for part in filter(is_chinese, parts(size)):
        holding = {sentence for sentence in SENTENCES if part in sentence}
        assert set(found(words, part)[: len(holding)]) == holding, part


def test_every_single_character_finds_all_sentences_that_hold_it(words: Memory) -> None:
    """C032: one character is not too short; and nothing that lacks it is returned."""
    for character in filter(is_chinese, parts(1)):
        assert set(found(words, character)) == {sentence for sentence in SENTENCES if character in sentence}, character


@pytest.mark.parametrize("space", [" ", "\u3000", "\n"], ids=["blank", "ideographic", "newline"])
def test_spaces_between_the_characters_do_not_hide_them(words: Memory, space: str) -> None:
    """C032: the same parts, spaced out; the characters count, not the blanks."""
    for part in filter(is_chinese, parts(4)):
        holding = {sentence for sentence in SENTENCES if part in sentence}
        assert holding & set(found(words, space.join(part))[:2]), part


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("迁移到PostgreSQL", "数据库迁移到PostgreSQL十五"),
        ("postgresql 迁移", "数据库迁移到PostgreSQL十五"),
        ("SMS通知", "用户偏好SMS通知方式"),
        ("偏好sms", "用户偏好SMS通知方式"),
    ],
)
def test_a_part_across_both_scripts_is_found(words: Memory, query: str, sentence: str) -> None:
    """C032: English inside Chinese without a blank."""
    assert found(words, query)[0] == sentence


def test_a_sentence_with_spaces_is_found_by_its_words(memory: OpenMemory) -> None:
    """C032: and so is one that was stored spaced out."""
    m = memory(retrieval={"vector": 0.0, "tree": 0.0, "neighbour": 0.0})
    m.add_many({"content": text} for text in ("停机 窗口 是 周六 凌晨", "無關的記憶 unrelated"))
    for query in ("停机", "凌晨", "周六凌晨", "停 机"):
        assert found(m, query)[:1] == ["停机 窗口 是 周六 凌晨"], query


@pytest.mark.parametrize("query", ["财务退款", "张三开会", "停机维护通知"])
def test_the_ranking_is_not_constant(words: Memory, query: str) -> None:
    """C032: who holds more of the question is before who holds less."""
    hits = words.search(query)
    shared = [len(set(query) & set(hit.content)) for hit in hits]
    assert len({hit.score for hit in hits}) > 1
    assert shared[0] == max(shared)


def test_what_does_not_occur_is_not_found(words: Memory) -> None:
    """C032: no hit at all for characters that nothing holds."""
    assert found(words, "鲸鱼") == []


def test_it_is_so_without_any_model(memory: OpenMemory, tmp_path: Any) -> None:
    """C032: also when no vector was ever made, and after opening the store again."""

    class NoModel:
        @property
        def identity(self) -> Any:
            raise RuntimeError("没有模型 no model")

        def embed_documents(self, texts: Any) -> Any:
            raise RuntimeError("没有模型 no model")

        embed_query = embed_documents

    with memory(embedder=NoModel()) as m:
        m.add_many({"content": sentence} for sentence in SENTENCES)
    m = memory(embedder=NoModel())
    for part in filter(is_chinese, parts(2)):
        holding = {sentence for sentence in SENTENCES if part in sentence}
        assert holding <= set(found(m, part)), part

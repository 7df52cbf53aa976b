"""More nodes than index.exact_limit: Chroma and the lexical index find the subtrees, with Chroma for real."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from hybridmem import Memory
from hybridmem.embed.hashing import HashingEmbedder
from hybridmem.ports import Vectors

OpenMemory = Callable[..., Memory]


def contents(hits: Any) -> list[str]:
    return [hit.content for hit in hits]


class RefusingBad(HashingEmbedder):
    """Cannot take any text with 坏 in it."""

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        if any("坏" in text for text in texts):
            raise RuntimeError("坏")
        return super().embed_documents(texts)


class TestLargeMode:
    """Above index.exact_limit Chroma and the lexical index find the subtrees first."""

    def fill(self, memory: Memory) -> None:
        random = np.random.default_rng(7)
        words = [f"词{i} word{i}" for i in range(400)]
        items: list[dict[str, Any]] = []
        for session in range(12):
            items.append({"content": f"会话 session {session}", "type": "summary"})
            at = len(items) - 1
            for turn in range(25):
                text = " ".join(random.choice(words, 6))
                items.append({"content": f"{text} 轮次{session * 100 + turn}", "parent": at, "type": "event"})
        memory.add_many(items)
        assert memory.flush() == 0

    @pytest.mark.parametrize("limit", [0, 50])
    def test_it_finds_the_same_best_hits_as_the_exact_mode(self, memory: OpenMemory, limit: int) -> None:
        with memory() as m:
            self.fill(m)
            nodes = list(m.walk())[1:]
            questions = [node.content for node in nodes[5::40]] + ["轮次1107", "word7 轮次3", "session 3 会话"]
            exact = {q: m.search(q, 5) for q in questions}
        m = memory(index={"exact_limit": limit})
        shared = 0
        for question, wanted in exact.items():
            found = m.search(question, 5)
            assert found.warnings == ()
            assert found[0].id == wanted[0].id, question
            shared += len({hit.id for hit in found} & {hit.id for hit in wanted})
        assert shared >= 3 * len(exact), "of the five best of the exact mode, three on average"
        assert m.stats().index == "ready", "Chroma was really asked"

    def test_a_context_without_a_question_still_shows_memories(self, memory: OpenMemory) -> None:
        m = memory(index={"exact_limit": 5})
        m.add_many({"content": f"记忆 memory {i}", "importance": i / 20} for i in range(20))
        m.flush()
        hits = m.context().hits
        assert hits
        assert "记忆 memory 19" in contents(hits)

    def test_a_scope_is_searched_however_much_lies_beside_it(self, memory: OpenMemory) -> None:
        m = memory(index={"exact_limit": 5})
        a, b = m.add("甲 branch"), m.add("乙 branch")
        m.add_many({"content": f"石英 quartz {i}", "parent": a.id} for i in range(700))
        inside = m.add_many({"content": f"石英 quartz 晶体 crystal {i}", "parent": b.id} for i in range(10))
        m.flush()
        wanted = {node.id for node in inside}
        assert {hit.id for hit in m.search("石英 quartz", 10, scope=b.id)} == wanted
        assert {hit.id for hit in m.search("石英矿 quartzite", 10, scope=b.id)} >= set(list(wanted)[:1])

    def test_an_old_vector_goes_with_its_text_even_if_the_new_one_cannot_be_made(self, memory: OpenMemory) -> None:
        m = memory(index={"exact_limit": 0}, embedder=RefusingBad())
        m.add_many({"content": f"其他 other topic {i}"} for i in range(30))
        node = m.add("财务退回发票 invoice returned")
        m.flush()
        assert m.search("财务退回发票 invoice returned")[0].score_details.vector == 1.0
        m.update(node.id, content="坏的 quartz")
        m.flush()
        assert [one for one, _ in m.stats().stuck] == [node.id]
        assert node.id not in [hit.id for hit in m.search("财务退回发票 invoice returned", 31)]
        assert m.search("quartz")[0].score_details.vector is None

    def test_namespaces_stay_apart(self, memory: OpenMemory) -> None:
        a = memory(index={"exact_limit": 0})
        b = memory(namespace=("other",), index={"exact_limit": 0})
        a.add_many({"content": f"甲的发票 invoice {i}"} for i in range(30))
        b.add_many({"content": f"乙的发票 invoice {i}"} for i in range(30))
        a.flush()
        assert all(text.startswith("甲的") for text in contents(a.search("发票 invoice", 50)))
        assert all(text.startswith("乙的") for text in contents(b.search("乙的发票 invoice", 50)))

    def test_what_was_located_is_widened_when_its_best_hit_is_weak(self, memory: OpenMemory) -> None:
        """The nearest and the rarest words lead astray here; scoring everything finds what the tree alone knows."""
        with memory() as m:
            self.fill(m)
            task = m.start_task("无名 nameless", next_step="核对运单 waybill")
            m.add_many({"content": f"无关 aside {n}", "type": "note"} for n in range(3))
            assert m.flush() == 0
        question = "运单 waybill"
        by_limit = {}
        for name, settings in {
            "exact": ({}, {}),
            "located": ({"exact_limit": 0}, {"widen_below": 0.0}),
            "widened": ({"exact_limit": 0}, {"widen_below": 1.0}),
        }.items():
            with memory(index=settings[0], retrieval=settings[1]) as m:
                by_limit[name] = [(hit.id, hit.score) for hit in m.search(question, 5, scope="namespace")]
        assert by_limit["widened"] == by_limit["exact"] != by_limit["located"]
        assert task.id in {above for above, _ in by_limit["exact"]} | {
            hit.parent_id for hit in (memory().get(one) for one, _ in by_limit["exact"])
        }

"""C024: a score is a similarity in [0, 1], higher is nearer, and a threshold on it means something."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from hybridmem import Memory
from hybridmem.index import chroma, projection

OpenMemory = Callable[..., Memory]

#: (identical to the question, related, unrelated) in Chinese, English and both.
TEXTS = {
    "zh": ("财务退回了报销单，因为发票不清晰", "发票已经重新上传", "数据库周六凌晨停机维护"),
    "en": (
        "Finance returned the expense claim because the invoice is blurred",
        "The invoice was uploaded again",
        "The database is down on Saturday night",
    ),
    "mixed": ("用户 Anna 偏好 SMS 通知", "给 Anna 的通知已发送", "zebra crossing 斑马线"),
}
WAYS: dict[str, dict[str, Any]] = {"both": {}, "vector": {"lexical": 0.0, "vote_share": 1e9}}


@pytest.mark.model
@pytest.mark.parametrize("language", TEXTS)
@pytest.mark.parametrize("way", WAYS)
class TestThreeTexts:
    """With the real model; stored in the order that would be returned if every score were equal: the worst first."""

    def opened(self, memory: OpenMemory, bundled: Any, language: str, way: str, **sections: Any) -> Memory:
        m = memory(embedder=bundled, retrieval=WAYS[way], **sections)
        for text in reversed(TEXTS[language]):
            m.add(text)
        return m

    def test_identical_before_related_before_unrelated(
        self, memory: OpenMemory, bundled: Any, language: str, way: str
    ) -> None:
        """C024: in this order, by clear steps, and all within [0, 1]."""
        found = self.opened(memory, bundled, language, way).search(TEXTS[language][0])
        assert [hit.content for hit in found] == list(TEXTS[language])
        scores = [hit.score for hit in found]
        assert all(0.0 <= score <= 1.0 for score in scores)
        assert min(one - other for one, other in pairwise(scores)) > 0.1

    def test_identical_is_near_one_and_unrelated_near_zero(
        self, memory: OpenMemory, bundled: Any, language: str, way: str
    ) -> None:
        """C024: the signal itself is a similarity, not a distance: a threshold of 0.5 keeps the first, not the last."""
        identical, _, unrelated = self.opened(memory, bundled, language, way).search(TEXTS[language][0])
        assert identical.score_details.vector > 0.9  # type: ignore[operator]
        assert identical.score_details.cosine > 0.9  # type: ignore[operator]
        assert unrelated.score_details.vector < 0.2  # type: ignore[operator]
        assert identical.score > 0.8
        assert unrelated.score < 0.5

    def test_the_floor_of_a_context_keeps_the_first_and_drops_the_last(
        self, memory: OpenMemory, bundled: Any, language: str, way: str
    ) -> None:
        """C024: context.relevance_floor, half of the best."""
        m = self.opened(memory, bundled, language, way, context={"relevance_floor": 0.5})
        context = m.context(TEXTS[language][0])
        shown = [hit.content for hit in context.hits]
        assert TEXTS[language][0] in shown
        assert TEXTS[language][2] not in shown
        assert len(context.hits) + len(context.dropped) == 3


@pytest.mark.parametrize("way", WAYS)
def test_an_empty_store_has_no_scores(memory: OpenMemory, way: str) -> None:
    """C024: no hit, no warning, no exception, also when everything is asked of Chroma."""
    for limit in (0, 10_000):
        result = memory(f"store {limit}", index={"exact_limit": limit}, retrieval=WAYS[way]).search("发票 invoice")
        assert (result.hits, result.warnings) == ((), ())


@pytest.mark.parametrize("metric", ["l2", "ip"])
def test_an_index_with_another_metric_is_never_mixed_in(memory: OpenMemory, metric: str) -> None:
    """C024: a collection that measures something else is made anew, and the ranking is that of a sound store."""
    texts = [f"发票 invoice 第{number}张 {'退回 returned ' * (number % 7)}" for number in range(40)]
    with memory("sound", index={"exact_limit": 0}) as m:
        m.add_many({"content": text} for text in texts)
        m.flush()
        wanted = [(hit.content, hit.score) for hit in m.search("退回 returned 第3张", 10)]
    with memory("foreign") as m:
        m.add_many({"content": text} for text in texts)
        m.flush()
        path = m.path
    client = chroma.open_client(path / projection.DIRECTORY)
    [name] = [collection.name for collection in client.chroma.list_collections()]
    client.chroma.delete_collection(name)
    client.chroma.create_collection(name, embedding_function=None, configuration={"hnsw": {"space": metric}})
    client.close()
    with memory("foreign", index={"exact_limit": 0}) as m:
        m.flush()
        assert [(hit.content, hit.score) for hit in m.search("退回 returned 第3张", 10)] == wanted
        assert m.stats().index == "ready"
    client = chroma.open_client(path / projection.DIRECTORY)
    [collection] = client.chroma.list_collections()
    assert collection.configuration_json["hnsw"]["space"] == "cosine"
    assert collection.count() == len(texts)
    client.close()

"""C022: filters decide before the cut to k, however many better matches lie outside them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from statistics import median
from typing import Any

import pytest

from hybridmem import Memory
from hybridmem.embed.hashing import HashingEmbedder

OpenMemory = Callable[..., Memory]

QUERY = "发票退回的原因 invoice returned reason"
NEAR = [f"发票退回的原因 invoice returned reason {number}" for number in range(500)]
#: Farther away, each with a word of the query among others.
FAR = [
    "开发票 sunny",
    "关于发票的话 a note",
    "咖啡机退回 coffee machine",
    "打印机的原因 printer",
    "聚餐发票 dinner",
]
YEAR_2020 = datetime(2020, 5, 1, tzinfo=timezone.utc)

#: Everything scored exactly; and located first, in the smallest scope here too, by Chroma and the lexical index.
EXACT, LOCATED = {"exact_limit": 10_000}, {"exact_limit": 3}
FILTERS: dict[str, dict[str, Any]] = {
    "type": {"types": ["fact"]},
    "metadata": {"metadata": {"标签": "甲"}},
    "until": {"until": datetime(2021, 1, 1, tzinfo=timezone.utc)},
    "type, metadata and time": {"types": ["fact"], "metadata": {"标签": "甲"}, "until": "2021-01-01"},
}


@pytest.fixture(scope="module", params=[EXACT, LOCATED], ids=["exact", "located"])
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Memory]]:
    """Three owners in one store, to be read only: A has the five far ones, B the 500 near ones, C both, each in a
    branch of its own."""
    store = tmp_path_factory.mktemp("filters") / "store"
    config = {"index": {"background": False, **request.param}}
    found = {
        owner: Memory.open(store, namespace=(owner,), config=config, embedder=HashingEmbedder()) for owner in "甲乙丙"
    }
    found["甲"].add_many({"content": text} for text in FAR)
    found["乙"].add_many({"content": text} for text in NEAR)
    both = found["丙"]
    near, far = both.add("近的 near", type="summary"), both.add("远的 far", type="summary", id="远的")
    both.add_many({"content": text, "type": "event", "parent": near.id, "metadata": {"标签": "乙"}} for text in NEAR)
    both.add_many(
        {"content": text, "type": "fact", "parent": far.id, "metadata": {"标签": "甲"}, "occurred_at": YEAR_2020}
        for text in FAR
    )
    assert both.flush() == 0
    yield found
    for m in found.values():
        m.close()


class TestFiveBehindFiveHundred:
    def test_another_owner_takes_no_slots(self, opened: dict[str, Memory]) -> None:
        """C022: A's five come back with k=5, and nothing of B's 500 that are nearer."""
        assert {hit.content for hit in opened["甲"].search(QUERY, 5)} == set(FAR)
        assert {hit.content for hit in opened["乙"].search(QUERY, 5)} <= set(NEAR)

    def test_a_subtree_gives_all_it_has(self, opened: dict[str, Memory]) -> None:
        """C022: the five below one node, though 500 nearer ones hang below another."""
        found = opened["丙"].search(QUERY, 5, scope="远的", types=["fact"])
        assert {hit.content for hit in found} == set(FAR)

    @pytest.mark.parametrize("name", FILTERS)
    def test_a_filter_leaves_k_that_pass_it(self, opened: dict[str, Memory], name: str) -> None:
        """C022: type, metadata, time, alone and together."""
        assert {hit.content for hit in opened["丙"].search(QUERY, 5, **FILTERS[name])} == set(FAR)


def test_the_time_of_a_search_does_not_grow_with_another_owners_data(memory: OpenMemory) -> None:
    """C022: 5,000 memories with the same words in the next namespace cost nothing to speak of."""

    def seconds(m: Memory) -> float:
        taken = []
        for _ in range(15):
            began = time.perf_counter()
            m.search(QUERY, 5)
            taken.append(time.perf_counter() - began)
        return median(taken)

    a = memory(namespace=("甲",))
    a.add_many({"content": text} for text in FAR)
    a.flush()
    alone = seconds(a)
    b = memory(namespace=("乙",))
    b.add_many({"content": f"{text} {part}"} for text in NEAR for part in range(10))
    crowded = seconds(a)
    b.search(QUERY, 5)
    assert crowded < 3 * alone + 0.005, "5,000 rows looked at would take tens of milliseconds"

"""What weights do to a search, and what no setting of them may do."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hybridmem import Memory
from hybridmem.embed.hashing import HashingEmbedder
from tests.conftest import SteerableClock, configured

OpenMemory = Callable[..., Memory]
unit = st.floats(0.0, 1.0)
slow = (HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large)
START = datetime(2026, 1, 1, tzinfo=timezone.utc)


class TestTheCurve:
    @pytest.mark.parametrize("curve", ["half_life", "ebbinghaus"])
    def test_by_ebbinghaus_what_is_recalled_fades_more_slowly(
        self, memory: OpenMemory, clock: SteerableClock, curve: str
    ) -> None:
        m = memory(
            weights={"curve": curve, "count_uses": True}, retrieval={"tree": 0.0, "neighbour": 0.0, "vector": 0.0}
        )
        m.add("财务退回发票 invoice", type="event", id="used")
        m.add("机房停机维护", type="event", id="unused")
        for _ in range(2):
            m.search("invoice")
        m.flush()
        clock.advance(days=30)
        found = {hit.id: hit.score_details.recency for hit in m.search("invoice 停机")}
        assert found["unused"] == pytest.approx(0.5)
        assert found["used"] == pytest.approx(0.5 if curve == "half_life" else 0.5 ** (1 / 3))

    def test_each_type_keeps_its_own_half_life(self, memory: OpenMemory, clock: SteerableClock) -> None:
        m = memory(weights={"curve": "ebbinghaus", "half_life_days_by_type": {"fact": 60.0}})
        m.add("发票 invoice", type="fact", id="fact")
        m.add("发票 invoice", type="event", id="event")
        clock.advance(days=60)
        found = {hit.id: hit.score_details.recency for hit in m.search("发票 invoice")}
        assert found == {"fact": pytest.approx(0.5), "event": pytest.approx(0.25)}

    def test_it_is_computed_and_never_stored(self, memory: OpenMemory, clock: SteerableClock, rows: Any) -> None:
        """Whole years pass without a row changing."""
        m = memory(weights={"curve": "ebbinghaus"})
        m.add("发票 invoice", id="a")
        m.flush()
        before, weight = rows(m), m.weights(["a"])["a"]
        clock.advance(days=3000)
        assert m.weights(["a"])["a"] < weight
        assert rows(m) == before


MEMORIES = st.lists(st.tuples(unit, unit, st.integers(0, 30), st.integers(0, 900)), min_size=2, max_size=12)
COEFFICIENTS = st.tuples(*[st.floats(0.0, 10.0)] * 4).filter(lambda found: sum(found) > 0.01)


@given(
    memories=MEMORIES,
    coefficients=COEFFICIENTS,
    omega=st.floats(0.01, 1.0),
    blend=st.sampled_from(["linear", "bounded"]),
    curve=st.sampled_from(["half_life", "ebbinghaus"]),
    text=st.sampled_from(["财务退回发票", "The invoice was returned", "R&D 部门 invoice 退回"]),
)
@settings(max_examples=60, suppress_health_check=slow)
def test_of_equal_relevance_the_weight_decides_always(
    tmp_path_factory: pytest.TempPathFactory,
    memories: list[tuple[float, float, int, int]],
    coefficients: tuple[float, float, float, float],
    omega: float,
    blend: str,
    curve: str,
    text: str,
) -> None:
    """Through a real search: the same content, written on different days with any importance, confidence and uses,
    comes back in the order of the weights, by any coefficients, share, blend and curve."""
    clock = SteerableClock()
    clock.time = START
    names = ("importance", "recency", "confidence", "frequency")
    config = configured(
        {
            "weights": {**dict(zip(names, coefficients, strict=True)), "curve": curve},
            "retrieval": {"omega": omega, "blend": blend},
        }
    )
    with Memory.open(tmp_path_factory.mktemp("s"), config=config, embedder=HashingEmbedder(), clock=clock) as m:
        for n, (importance, confidence, uses, days) in enumerate(memories):
            # A day apart at least: what was written within half a day of each other would be neighbours.
            moment = START + timedelta(days=1000 * n + days)
            clock.time = moment
            m.add(text, type="event", importance=importance, confidence=confidence, id=f"m{n}", parent="root")
            m._workspace.uses.put_back({f"m{n}": uses})
        m.flush()
        hits = m.search(text, 50).hits
    assert len(hits) == len(memories)
    assert len({hit.score_details.relevance for hit in hits}) == 1
    weights = [hit.score_details.weight for hit in hits]
    # What differs by less than rounding does is equal.
    assert all(first >= second - 1e-12 for first, second in pairwise(weights))


#: The bounds of the promise below, of omega, by the blend and by whether a task is active under which all of it hangs:
#: then what is irrelevant shares in what its task is about, so that less room is left to weight. The default is 0.1.
OMEGA = {("linear", False): 0.3, ("linear", True): 0.1, ("bounded", False): 0.5, ("bounded", True): 0.1}
TOPICS = {
    "zh": ("服务器的备用电源放在三楼机房", "备用电源放在哪里？"),
    "en": ("The spare power supply is in the server room on the third floor", "Where is the spare power supply?"),
    "mixed": ("备用 power supply 放在三楼 server room", "备用 power supply 在哪里？"),
}
OTHERS = (
    "用户喜欢喝绿茶", "The user prefers SMS over mail", "会议改到周三下午", "Lunch is at noon", "发票抬头是甲公司",
    "The budget for travel is 4,000", "张三在研发部工作", "Ann plays the violin", "客户要求英文合同",
    "Friday is a holiday", "每周五写周报", "Bob keeps two cats",
)  # fmt: skip


@pytest.mark.model
@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize(("blend", "in_task"), OMEGA)
def test_no_weight_pushes_the_only_relevant_memory_out_of_the_top_five(
    tmp_path_factory: pytest.TempPathFactory, bundled: Any, topic: str, blend: str, in_task: bool
) -> None:
    """By the real model: twelve memories about other things, pinned, as important, sure, fresh and used as can be,
    against one that answers the question and has no weight at all; by random coefficients and shares within OMEGA."""
    (answer, question), most = TOPICS[topic], OMEGA[blend, in_task]
    clock = SteerableClock()
    directory = tmp_path_factory.mktemp("s")
    random = np.random.default_rng(17)

    def opened(omega: float, coefficients: Any) -> Memory:
        names = ("importance", "recency", "confidence", "frequency")
        config = configured(
            {
                "weights": dict(zip(names, map(float, coefficients), strict=True)),
                "retrieval": {"omega": omega, "blend": blend},
            }
        )
        return Memory.open(directory, config=config, embedder=bundled, clock=clock)

    with opened(0.1, (1, 1, 1, 1)) as m:
        if in_task:
            m.start_task("项目 project")
        m.add(answer, type="note", importance=0.0, confidence=0.0, occurred_at="2001-01-01", id="answer")
        clock.advance(days=1)
        for n, text in enumerate(OTHERS):
            m.add(text, type="fact", importance=1.0, confidence=1.0, id=f"o{n}")
            m.pin(f"o{n}")
        m._workspace.uses.put_back({f"o{n}": 10**6 for n in range(len(OTHERS))})
        m.flush()
        assert (m.weights(["answer"])["answer"] < 1e-6, m.weights(["o0"])["o0"] > 0.99) == (True, True)
    least = []
    for n in range(25):
        omega = most if n < 5 else float(random.uniform(0.0, most))
        with opened(omega, random.dirichlet((0.5,) * 4)) as m:
            found = [hit.id for hit in m.search(question, 5)]
        assert "answer" in found, (omega, found)
        least.append(found.index("answer"))
    assert max(least) < 5

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

from hybridmem import ConfigError, Memory
from hybridmem.config import load
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

    @pytest.mark.parametrize("days", [5e-324, 1e308])
    @pytest.mark.parametrize("curve", ["half_life", "ebbinghaus"])
    def test_any_half_life_and_coefficients_can_be_searched_with(
        self, memory: OpenMemory, clock: SteerableClock, days: float, curve: str
    ) -> None:
        """Without a warning, to the ends of what the configuration takes: all fades by the one, nothing by the other"""
        m = memory(
            weights={"curve": curve, "half_life_days": days, "importance": 1e308, "recency": 1e308},
            retrieval={"vector": 1e308, "lexical": 1e308},
        )
        m.add("财务退回发票 invoice", type="event", id="a")
        m.search("invoice")
        m.flush()
        clock.advance(days=1)
        (hit,) = m.search("发票 invoice")
        assert (hit.score_details.recency, 0.0 < hit.score <= 1.0) == (float(days > 1), True)
        assert m.forget(policy={"policy": "decay", "threshold": 0.0}).ids == ()

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
    omega=st.floats(0.01, 0.999),
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


TOPICS = {
    "zh": ("服务器的备用电源放在三楼机房", "备用电源放在哪里？"),
    "en": ("The spare power supply is in the server room on the third floor", "Where is the spare power supply?"),
    "mixed": ("备用 power supply 放在三楼 server room", "备用 power supply 在哪里？"),
}
OTHERS = (
    "用户喜欢喝绿茶", "The user prefers SMS over mail", "会议改到周三下午", "Lunch is at noon", "发票抬头是甲公司",
    "The budget for travel is 4,000", "张三在研发部工作", "Ann plays the violin", "客户要求英文合同",
    "Friday is a holiday", "每周五写周报", "Bob keeps two cats", "他家的狗叫豆豆", "The train to Lyon leaves at nine",
    "咖啡机坏了两天", "Her favourite colour is dark green", "合同需要法务审核", "The quarterly review is on Thursday",
    "李娜下周休年假", "Our office has a new receptionist", "他正在学弹吉他", "The museum is closed on Mondays",
    "快递寄到前台", "He is allergic to peanuts", "晚饭吃了火锅", "The logo should be blue", "周末去爬山",
    "We hired two designers", "护照明年到期", "The printer needs toner", "妈妈的生日在五月",
    "She runs ten kilometres every morning", "停车位在地下二层", "The flight to Tokyo was delayed", "他不吃香菜",
    "Rent is due on the first", "孩子报名了游泳班", "The garden needs watering", "新版本下周发布",
    "They moved to Berlin", "年会在十二月举行", "The key is under the mat", "工资每月十号发",
    "The concert starts at eight", "会议室需要提前预订", "Grandpa collects stamps", "他把伞忘在地铁上",
    "The soup was too salty", "客户喜欢简短的邮件", "My bike has a flat tyre", "论文还差一章", "The hotel has a pool",
    "公司搬到了浦东", "The kids love dinosaurs", "体检安排在周五", "He supports Arsenal", "报告要用中文写",
    "The window is broken", "猫需要打疫苗", "R&D 部门的 logo 改成蓝色",
)  # fmt: skip
NAMES = ("importance", "recency", "confidence", "frequency")
#: Where the answer hangs and where the others do: under the root, under the task that is active when the question is
#: asked, or under one that is done.
WHERE = [("root", "root"), ("active", "active"), ("root", "active"), ("done", "active"), ("active", "root")]
#: Anything that the configuration takes, and the ends of it.
ANY_OMEGA = st.floats(0.0, 1.0, exclude_max=True) | st.sampled_from(
    [0.1, 0.5, 0.9, 1.0 - 1e-9, float(np.nextafter(1, 0))]
)
ANY_COEFFICIENTS = st.tuples(*[st.floats(0.0, 1.0) | st.floats(0.0, allow_infinity=False)] * 4).filter(any)
ALONE = [(1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0), (0.0, 0.0, 0.0, 1.0)]
BLENDS = ("linear", "bounded")


def weighed(m: Memory, coefficients: tuple[float, ...], omega: float, blend: str) -> None:
    """The memory goes on with other weights; to open it anew for each of many would take minutes."""
    m._workspace.config = load(
        configured(
            {"weights": dict(zip(NAMES, coefficients, strict=True)), "retrieval": {"omega": omega, "blend": blend}}
        )
    )


@pytest.mark.model
@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("where", WHERE)
def test_no_weight_pushes_the_only_relevant_memory_out_of_the_top_five(
    tmp_path: Any, bundled: Any, topic: str, where: tuple[str, str]
) -> None:
    """By the real model and a real search: 12, 30 and 60 memories about other things, pinned, and as important, sure,
    fresh and used as can be, against one that answers the question and has no weight at all; by anything that the
    configuration takes of coefficients and omega, with and without an active task."""
    (answer, question), clock = TOPICS[topic], SteerableClock()
    with Memory.open(tmp_path / "s", config=configured({}), embedder=bundled, clock=clock) as m:
        done = m.start_task("旧项目 earlier project")
        m.finish_task(done.id)
        places = {"root": "root", "done": done.id}
        if "active" in where:
            places["active"] = m.start_task("项目 project").id
        m.add(
            answer, type="note", importance=0.0, confidence=0.0, occurred_at="2001-01-01", id="answer",
            parent=places[where[0]],
        )  # fmt: skip
        added = 0

        def grow(count: int) -> None:
            nonlocal added
            for n in range(added, count):
                m.add(OTHERS[n], type="fact", importance=1.0, confidence=1.0, id=f"o{n}", parent=places[where[1]])
                m.pin(f"o{n}")
            m._workspace.uses.put_back({f"o{n}": 10**6 for n in range(added, count)})
            m.flush()
            added = count

        clock.advance(days=1)
        for count in (12, 30, 60):
            grow(count)
            assert (m.weights(["answer"])["answer"] < 1e-6, m.weights(["o0"])["o0"] > 0.99) == (True, True)

            @given(ANY_COEFFICIENTS, ANY_OMEGA, st.sampled_from(BLENDS))
            @settings(max_examples=20, deadline=None, suppress_health_check=slow)
            def holds(coefficients: tuple[float, ...], omega: float, blend: str) -> None:
                weighed(m, coefficients, omega, blend)
                assert "answer" in [hit.id for hit in m.search(question, 5)]

            holds()
            for coefficients in ALONE:
                for blend in BLENDS:
                    for omega in (0.1, 0.9):
                        weighed(m, coefficients, omega, blend)
                        found = [hit.id for hit in m.search(question, 5)]
                        assert "answer" in found, (count, coefficients, blend, omega, found)
            weighed(m, (0.5, 0.2, 0.2, 0.1), 0.1, "linear")


class TestOfEqualRelevance:
    @pytest.mark.parametrize("part", NAMES)
    @pytest.mark.parametrize("blend", BLENDS)
    @given(
        coefficients=st.tuples(*[st.floats(0.01, 10.0)] * 4),
        omega=st.floats(0.001, 0.999),
        low=st.floats(0.0, 0.9),
        step=st.floats(0.05, 0.1),
        text=st.sampled_from(["财务退回发票", "The invoice was returned", "R&D 部门 invoice 退回"]),
        is_first=st.booleans(),
    )
    @settings(max_examples=6, deadline=None, suppress_health_check=slow)
    def test_each_part_alone_decides_by_being_higher(
        self, tmp_path_factory: Any, part: str, blend: str, coefficients: tuple[float, ...], omega: float, low: float,
        step: float, text: str, is_first: bool,
    ) -> None:  # fmt: skip
        """Two memories of one content that are alike but for this part, in a real search, a third more relevant one
        beside them: the higher comes first, whichever was written first."""
        clock = SteerableClock()
        clock.time = START
        ids = ("higher", "lower") if is_first else ("lower", "higher")
        with Memory.open(
            tmp_path_factory.mktemp("s"), config=configured({}), embedder=HashingEmbedder(), clock=clock
        ) as m:
            for n, id in enumerate(ids):
                clock.time = START + timedelta(days=n)  # what was written within half a day would be neighbours
                value = low + step if id == "higher" else low
                given = {part: value} if part in ("importance", "confidence") else {}
                moment = START - timedelta(days=100 * (1.0 - value)) if part == "recency" else START
                m.add(text, type="event", id=id, parent="root", occurred_at=moment, **{**ALIKE, **given})
                m._workspace.uses.put_back({id: int(value * 100) if part == "frequency" else 3})
            clock.advance(days=100)
            m.add(f"{text} 发票 invoice", type="event", id="third", parent="root")
            m.flush()
            weighed(m, coefficients, omega, blend)
            hits = {hit.id: hit for hit in m.search(f"{text} 发票 invoice", 3)}
        order = [id for id in hits if id != "third"]
        assert hits["higher"].score_details.relevance == hits["lower"].score_details.relevance
        assert order == ["higher", "lower"]


#: What two memories have that are alike in a part.
ALIKE = {"importance": 0.5, "confidence": 0.5}


def test_the_weight_counts_in_full_for_the_best_of_those_that_pass_the_filters(memory: OpenMemory) -> None:
    """What may not be found has no say in how those that may are ranked."""
    m = memory(retrieval={"omega": 0.5})
    m.add("财务退回发票 invoice", type="fact", parent="root")
    m.add("财务退回 invoice 的发票在三楼的柜子里", type="event", parent="root")
    (hit,) = m.search("财务退回发票 invoice", types=["event"])
    assert hit.score_details.share == 0.5
    assert m.search("财务退回发票 invoice")[1].score_details.share < 0.5


@pytest.mark.parametrize("omega", [1.0, 1, 1.5, -0.1])
def test_a_search_by_weight_alone_is_refused_where_it_is_configured(tmp_path: Any, omega: float) -> None:
    """Relevance would count for nothing: whoever wants that asks without a query."""
    with pytest.raises(ConfigError, match=r"retrieval\.omega: .*(less than 1|greater than or equal to 0)"):
        Memory.open(tmp_path / "s", config=load({"retrieval": {"omega": omega}}))
    assert not (tmp_path / "s").exists()

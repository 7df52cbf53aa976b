"""The forgetting policies as pure functions: every formula stays in [0, 1] and is monotone; leaves go first; caps hold;
what is protected, or holds what is, never goes."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybridmem import ConfigError, InvalidInput, Policy
from hybridmem import config as configuration
from hybridmem.config import ForgettingConfig, WeightConfig
from hybridmem.policies import (
    MICROS_PER_DAY,
    RULES,
    THRESHOLD,
    Nodes,
    Parts,
    choose,
    openings,
    place_recency,
    places,
    retention,
    tasks,
)

RULE = ForgettingConfig()
#: The coefficients of retention, and with them its parts.
PARTS = tuple(one.name for one in fields(Parts))
NOW = 1_000 * MICROS_PER_DAY
UNIT = st.floats(0.0, 1.0)
#: Days before now; some lie ahead, as far as a datetime goes.
DAYS = st.one_of(st.integers(0, 900), st.sampled_from([-10, -3650, -2_900_000]))
CAPS = st.one_of(
    st.builds(dict, max_nodes=st.integers(0, 20)),
    st.builds(dict, max_tokens=st.integers(0, 200)),
    st.builds(dict, max_share=st.floats(0.0, 1.0)),
)


@st.composite
def trees(draw: Any, least: int = 0) -> Nodes:
    """Any tree in preorder, with anything protected."""
    n = draw(st.integers(least, 18))
    parent, chain = [], [-1]
    for i in range(n):
        chain = chain[: draw(st.integers(1, len(chain)))]
        parent.append(chain[-1])
        chain.append(i)
    forgotten = draw(st.lists(st.booleans(), min_size=n, max_size=n))
    for i in range(n):  # below what is forgotten everything is
        forgotten[i] = forgotten[i] if parent[i] < 0 or not forgotten[parent[i]] else True

    def many(values: st.SearchStrategy[Any], kind: Any) -> Any:
        return np.array(draw(st.lists(values, min_size=n, max_size=n)), dtype=kind)

    mostly = st.sampled_from([True, True, True, True, False])
    counted = many(mostly, bool) & ~np.array(forgotten, dtype=bool)
    return Nodes(
        parent=np.array(parent, dtype=np.int64),
        order=np.array(draw(st.permutations(range(n))), dtype=np.int64),
        is_task=many(st.booleans(), bool),
        importance=many(UNIT, float),
        confidence=many(UNIT, float),
        uses=many(st.integers(0, 50), np.int64),
        created_at=NOW - many(DAYS, np.int64) * MICROS_PER_DAY,
        active_at=NOW - many(DAYS, np.int64) * MICROS_PER_DAY,
        half_life=many(st.floats(1.0, 1e9), float),
        tokens=many(st.integers(1, 30), np.int64),
        forgotten=np.array(forgotten, dtype=bool),
        counted=counted,
        may_go=counted & many(mostly, bool),
    )


def plain(n: int, **given: Any) -> Nodes:
    """n memories that are alike, each a day older than the one before it, all under the root."""
    values: dict[str, Any] = {
        "parent": np.full(n, -1), "order": np.arange(n), "is_task": np.zeros(n, bool), "importance": np.full(n, 0.5),
        "confidence": np.full(n, 0.7), "uses": np.zeros(n, np.int64), "half_life": np.full(n, 30 * 86_400.0),
        "created_at": NOW - np.arange(n) * MICROS_PER_DAY, "active_at": NOW - np.arange(n) * MICROS_PER_DAY,
        "tokens": np.full(n, 10), "forgotten": np.zeros(n, bool), "counted": np.ones(n, bool),
        "may_go": np.ones(n, bool),
    }  # fmt: skip
    return Nodes(**values | {name: np.asarray(value) for name, value in given.items()})


def policies(caps: dict[str, Any]) -> list[Policy]:
    own = {"decay": {"threshold": 0.5}, "age": {"days": 200.0}, "random": {"seed": 7}}
    return [Policy(policy=name, **own.get(name, {}), **caps) for name in RULES]


class TestFormulas:
    @given(st.integers(0, 10**6), st.floats(0.1, 1e4))
    def test_recency_by_place_is_bounded_and_never_rises(self, place: int, half: float) -> None:
        here, next_ = place_recency(np.array([place, place + 1]), half)
        assert 0.0 <= next_ <= here <= 1.0
        assert place_recency(np.array([0, -1]), half).tolist() == [1.0, 0.0]

    def test_recency_by_place_halves_after_eight(self) -> None:
        assert place_recency(np.array([8, 16]), RULE.half_place).tolist() == [0.5, 0.25]

    @given(
        st.lists(UNIT, min_size=len(PARTS), max_size=len(PARTS)), st.sampled_from(PARTS), UNIT,
        st.lists(st.floats(0.0, 10.0), min_size=len(PARTS), max_size=len(PARTS)).filter(lambda many: sum(many) > 1e-6),
    )  # fmt: skip
    def test_retention_is_bounded_and_monotone_in_each_part(
        self, values: list[float], which: str, other: float, coefficients: list[float]
    ) -> None:
        rule = ForgettingConfig(**dict(zip(PARTS, coefficients, strict=True)))
        parts = {name: np.array([value, value]) for name, value in zip(PARTS, values, strict=True)}
        parts[which][1] = other
        before, after = retention(Parts(**parts), rule)
        assert 0.0 <= min(before, after) <= max(before, after) <= 1.0
        assert (after - before) * (other - parts[which][0]) >= -1e-12
        if getattr(rule, which) > 0.01 and abs(other - parts[which][0]) > 0.01:
            assert after != before, "each part counts"

    def test_the_parts_have_the_shares_that_were_measured(self) -> None:
        shares = [
            float(retention(Parts(**{one: np.array([float(one == name)]) for one in PARTS}), RULE)[0]) * 6.8
            for name in PARTS
        ]
        assert dict(zip(PARTS, shares, strict=True)) == pytest.approx(
            {"recency": 1.0, "task": 1.0, "opening": 0.5, "frequency": 0.3, "importance": 3.0, "confidence": 1.0}
        )


class TestTheTree:
    def test_a_task_is_its_own_and_what_hangs_below_is_the_nearest_ones(self) -> None:
        #       task0 ── 1 ── task2 ── 3;  4 loose
        found = tasks(np.array([-1, 0, 1, 2, -1]), np.array([True, False, True, False, False]))
        assert found.tolist() == [0, 0, 2, 2, -1]

    def test_places_count_the_newer_of_the_same_task_that_count(self) -> None:
        task = np.array([0, 0, 0, -1, 4, 4])
        created = np.array([1, 3, 2, 9, 5, 5])
        counts = np.ones(6, bool)
        assert places(task, created, np.arange(6), counts).tolist() == [2, 0, 1, 0, 1, 0]
        counts[1] = False
        assert places(task, created, np.arange(6), counts).tolist() == [1, -1, 0, 0, 1, 0]

    def test_what_hangs_under_no_task_has_its_place_among_its_like(self) -> None:
        found = places(np.array([-1, -1, 2, -1]), np.array([1, 5, 9, 3]), np.arange(4), np.ones(4, bool))
        assert found.tolist() == [2, 0, 0, 1]

    def test_the_first_memory_of_a_task_opens_it_and_the_task_itself_does_not(self) -> None:
        found = openings(
            np.array([0, 0, 0, -1]), np.array([0, 5, 5, 1]), np.arange(4), np.array([True, False, False, False])
        )
        assert found.tolist() == [False, True, False, False]

    @given(trees())
    def test_there_is_one_opening_for_each_task_that_has_memories(self, nodes: Nodes) -> None:
        task = tasks(nodes.parent, nodes.is_task)
        found = openings(task, nodes.created_at, nodes.order, nodes.is_task)
        owners = set(task[(task >= 0) & ~nodes.is_task].tolist())
        assert sorted(task[found].tolist()) == sorted(owners)


class TestEveryPolicy:
    @given(trees(), CAPS, st.one_of(st.none(), st.integers(0, 10)))
    def test_takes_leaves_that_may_go_children_before_parents_and_no_more(
        self, nodes: Nodes, caps: dict[str, Any], limit: int | None
    ) -> None:
        for policy in policies(caps):
            chosen = choose(nodes, policy, RULE, NOW, limit)
            assert len(set(chosen.going)) == len(chosen.going)
            assert limit is None or len(chosen.going) <= limit
            gone = nodes.forgotten.copy()
            for i in chosen.going:
                assert nodes.may_go[i]
                assert nodes.counted[i]
                assert gone[nodes.parent == i].all(), "something is left below it"
                assert not gone[i]
                gone[i] = True
            assert not set(chosen.held) & set(np.flatnonzero(nodes.may_go).tolist())
            assert ((chosen.retention >= 0) & (chosen.retention <= 1)).all()

    @given(trees(), CAPS)
    def test_stops_as_soon_as_the_cap_holds_and_not_before(self, nodes: Nodes, caps: dict[str, Any]) -> None:
        def is_over(left: Any) -> bool:
            count = int(nodes.counted.sum())
            most = {"max_nodes": 10**9, "max_tokens": 10**9, **caps}
            share = int(most.get("max_share", 1.0) * count + 1e-9)
            return bool(left.sum() > min(most["max_nodes"], share) or nodes.tokens[left].sum() > most["max_tokens"])

        for policy in policies(caps):
            chosen = choose(nodes, policy, RULE, NOW)
            left = nodes.counted.copy()
            for i in chosen.going:
                assert is_over(left), "it went though no more than the cap was left"
                left[i] = False
            free = nodes.may_go & left
            below = np.bincount(nodes.parent[~nodes.forgotten & (nodes.parent >= 0)], minlength=len(left))
            for i in chosen.going:
                below[nodes.parent[i]] -= nodes.parent[i] >= 0
            if RULES[policy.policy].takes is None and (free & (below == 0)).any():
                assert not is_over(left), "there was more to take"

    @given(trees(1), st.integers(0, 17), st.sampled_from(["importance", "confidence", "uses"]))
    def test_what_matters_more_never_goes_earlier(self, nodes: Nodes, which: int, name: str) -> None:
        """Of leaves: a parent's turn comes when its children are gone, whatever it is worth."""
        which %= len(nodes.parent)
        for policy in policies({"max_nodes": 0}):
            before = choose(nodes, policy, RULE, NOW)
            more = getattr(nodes, name).copy()
            more[which] = 100 if name == "uses" else 1.0
            after = choose(_with(nodes, name, more), policy, RULE, NOW)
            leaf = not (~nodes.forgotten & (nodes.parent == which)).any()
            if leaf and which in before.going and which in after.going:
                assert after.going.index(which) >= before.going.index(which)
            if which not in before.going and leaf and nodes.may_go[which]:
                assert which not in after.going

    @given(trees(), CAPS, st.integers(0, 3))
    def test_is_the_same_for_the_same_seed(self, nodes: Nodes, caps: dict[str, Any], seed: int) -> None:
        policy = Policy(policy="random", seed=seed, **caps)
        assert choose(nodes, policy, RULE, NOW).going == choose(nodes, policy, RULE, NOW).going


class TestWhichGoFirst:
    def test_of_memories_that_matter_alike_what_hangs_under_no_task_goes_first_the_older_before_the_newer(self) -> None:
        #       0 task ── 1, 2; 3, 4 under none; 4 is older
        nodes = plain(5, parent=[-1, 0, 0, -1, -1], is_task=[True, *[False] * 4])
        going = choose(nodes, Policy(policy="least_weight", max_nodes=0), RULE, NOW).going
        assert going == [4, 3, 1, 2, 0], "of the task 1 is newer, but 2 is what it opened with"

    def test_of_memories_that_matter_alike_all_under_no_task_go_before_any_that_a_task_has(self) -> None:
        """However new they are, and however old the others: so it was best on RealMem."""
        n = 40
        nodes = plain(2 * n + 1, parent=[-1] * n + [-1] + [n] * n, is_task=[i == n for i in range(2 * n + 1)])
        going = choose(nodes, Policy(policy="least_weight", max_nodes=n + 1), RULE, NOW).going
        assert sorted(going) == list(range(n))

    @given(st.floats(0.9, 1.0), st.floats(0.0, 0.1), st.integers(0, 900), st.integers(0, 900), st.integers(1, 9))
    def test_an_important_memory_under_no_task_outlives_a_trivial_one_of_a_task(
        self, important: float, trivial: float, age: int, other_age: int, others: int
    ) -> None:
        """Wherever either stands; only what a task opened with is worth more."""
        #   0 loose; 1 task ── 2 the opening, 3 the trivial one, others as trivial
        n = others + 4
        created = NOW - np.array([age, 950, 940, other_age, *range(901, 901 + others)]) * MICROS_PER_DAY
        nodes = plain(
            n, parent=[-1, -1, *[1] * (n - 2)], is_task=[i == 1 for i in range(n)], created_at=created,
            active_at=created, importance=[important, 0.8, 0.5, *[trivial] * (n - 3)],
        )  # fmt: skip
        going = choose(nodes, Policy(policy="least_weight", max_nodes=0), RULE, NOW).going
        assert going.index(3) < going.index(0)

    def test_the_coefficient_of_the_task_decides_whether_it_counts(self) -> None:
        n = 11  # 0 in none and new; 1 task ── nine, the last of which is the oldest
        nodes = plain(n, parent=[-1, -1, *[1] * (n - 2)], is_task=[i == 1 for i in range(n)])
        for task, first in ((1.0, 0), (0.0, n - 1)):
            rule = ForgettingConfig(task=task, opening=0.0)
            assert choose(nodes, Policy(policy="least_weight", max_nodes=n - 1), rule, NOW).going == [first]

    def test_a_task_that_rests_does_not_lose_everything_to_one_that_goes_on(self) -> None:
        n = 20  # two tasks: 10 memories of this week, 10 of a year ago
        ages = np.r_[0:10, 360:370] * MICROS_PER_DAY
        nodes = plain(
            n + 2, parent=[-1] + [0] * 10 + [-1] + [11] * 10, is_task=[i in (0, 11) for i in range(n + 2)],
            created_at=np.insert(NOW - ages, [0, 10], NOW - 400 * MICROS_PER_DAY),
            active_at=np.insert(NOW - ages, [0, 10], NOW),
        )  # fmt: skip
        going = set(choose(nodes, Policy(policy="least_weight", max_nodes=n - 8), RULE, NOW).going)
        assert {len(going & set(range(1, 11))), len(going & set(range(12, 22)))} == {5}
        newest = set(choose(nodes, Policy(policy="newest", max_nodes=n - 8), RULE, NOW).going)
        assert newest == set(range(12, 22))

    @pytest.mark.parametrize("name", ["newest", "least_recently_used", "age", "decay"])
    def test_by_the_calendar_the_oldest_go(self, name: str) -> None:
        kept = (3 * 0.5 + 0.7 + 0.5 ** (6.5 / 20)) / 6.8  # after 6.5 days, with a half-life of 20
        own: dict[str, Any] = {"age": {"days": 6.5}, "decay": {"threshold": kept}}.get(name, {"max_nodes": 7})
        going = choose(plain(10, half_life=np.full(10, 20 * 86_400.0)), Policy(policy=name, **own), RULE, NOW).going
        assert going == [9, 8, 7]

    def test_decay_is_computed_from_the_age_alone(self) -> None:
        policy = Policy(policy="decay")
        nodes = plain(1)
        assert choose(nodes, policy, RULE, NOW + 74 * MICROS_PER_DAY).going == []
        assert choose(nodes, policy, RULE, NOW + 76 * MICROS_PER_DAY).going == [0], "2.5 half-lives of 30 days"

    @pytest.mark.parametrize(
        ("type", "kept"), [("fact", True), ("decision", True), ("preference", True), ("event", False), ("note", False)]
    )
    def test_by_age_alone_decay_takes_events_and_notes_wherever_they_hang(self, type: str, kept: bool) -> None:
        importance = WeightConfig().default_importance[type]
        nodes = plain(
            4, parent=[-1, 0, 0, -1], is_task=[True, *[False] * 3], importance=[0.8, importance, 0.5, importance]
        )  # 2 opens the task
        going = choose(nodes, Policy(policy="decay"), RULE, NOW + 3_000 * MICROS_PER_DAY).going
        assert going == ([] if kept else [3, 1])
        assert THRESHOLD == 0.35

    @pytest.mark.parametrize("name", RULES)
    @pytest.mark.parametrize("ahead", [10, 3_650, 2_900_000])
    def test_a_future_memory_is_kept_no_longer_than_one_of_now(self, name: str, ahead: int) -> None:
        """C040: nothing keeps it for ever, and every number is finite."""
        future = NOW + ahead * MICROS_PER_DAY
        now, later = (plain(3, created_at=[one, NOW, NOW], active_at=[one, NOW, NOW]) for one in (NOW, future))
        own: dict[str, Any] = {"age": {"days": 1e-9}}.get(name, {"max_nodes": 0})
        policy = Policy(policy=name, **own)
        assert choose(now, policy, RULE, NOW).going == choose(later, policy, RULE, NOW).going
        assert np.array_equal(choose(now, policy, RULE, NOW).retention, choose(later, policy, RULE, NOW).retention)
        assert sorted(choose(later, policy, RULE, future + 10**15).going) == [0, 1, 2]

    def test_what_would_have_gone_but_is_protected_is_told(self) -> None:
        nodes = plain(4, may_go=[True, True, False, True])
        assert choose(nodes, Policy(policy="newest", max_nodes=2), RULE, NOW).held == [2]
        assert choose(nodes, Policy(policy="newest", max_nodes=3), RULE, NOW).held == [], "3 was enough"


class TestParameters:
    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ("lest_weight", "policy: "),
            ({"policy": "newest"}, "needs max_nodes, max_tokens or max_share"),
            ({"policy": "age"}, "needs days"),
            ({"policy": "age", "days": 0}, "days: "),
            ({"policy": "age", "days": float("nan")}, "days: "),
            ({"policy": "newest", "max_nodes": 3, "threshold": 0.5}, "threshold is a parameter of the policy 'decay'"),
            ({"policy": "newest", "max_node": 3}, "unknown parameter 'max_node'; did you mean 'max_nodes'?"),
            ({"policy": "newest", "max_nodes": 3, "user": "张三"}, "unknown parameter 'user'"),
            ({"policy": "newest", "max_share": 1.5}, "max_share: "),
            ({"policy": "newest", "max_nodes": 1, "types": []}, "types: "),
            ({}, "policy: "),
            (7, "must be the name of a policy"),
        ],
    )
    def test_a_wrong_one_is_named(self, given: Any, said: str) -> None:
        with pytest.raises(InvalidInput, match=said.replace("?", r"\?")):
            configuration.policy(given)

    def test_the_configuration_takes_a_list_of_them_and_names_what_is_wrong(self) -> None:
        given = {"policies": [{"policy": "age", "days": 90, "types": ["event"]}, {"policy": "decay"}]}
        assert [one.policy for one in configuration.load({"forgetting": given}).forgetting.policies] == ["age", "decay"]
        with pytest.raises(ConfigError, match=r"forgetting\.policies\.0"):
            configuration.load({"forgetting": {"policies": [{"policy": "age"}]}})
        with pytest.raises(ConfigError, match="at least one of forgetting"):
            configuration.load({"forgetting": dict.fromkeys(PARTS, 0)})


def _with(nodes: Nodes, name: str, value: Any) -> Nodes:
    return Nodes(**{one: value if one == name else getattr(nodes, one) for one in Nodes.__dataclass_fields__})

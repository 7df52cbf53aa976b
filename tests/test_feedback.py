"""Feedback moves weights, never beyond their bounds nor the wrong way, and history tells why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hybridmem import Change, InvalidInput, Memory, NotFound
from hybridmem.embed.hashing import HashingEmbedder
from tests.conftest import SteerableClock, configured
from tests.verified import assert_verified

OpenMemory = Callable[..., Memory]
TEXTS = ("发票抬头是甲公司", "The user prefers SMS", "R&D 部门 uses GPU")


class TestWhatItMoves:
    @pytest.mark.parametrize("text", TEXTS)
    def test_each_kind_by_its_formula_and_nothing_else(self, memory: OpenMemory, text: str) -> None:
        m = memory()
        m.add(text, type="fact", importance=0.5, confidence=0.6, id="a")
        for said, importance, confidence, uses in (
            ({"confirmed": True}, 0.5, 0.8, 0),
            ({"confirmed": False}, 0.5, 0.4, 0),
            ({"helpful": True}, 0.55, 0.4, 1),
            ({"helpful": False}, 0.495, 0.4, 1),
            ({"importance": 1}, 1.0, 0.4, 1),
            ({"importance": 0.2, "helpful": True, "confirmed": True}, 0.2, 0.7, 2),
        ):
            node = m.feedback("a", **said)  # type: ignore[arg-type]
            assert (node.importance, node.confidence, node.uses) == (
                pytest.approx(importance), pytest.approx(confidence), uses,
            )  # fmt: skip
            assert (node.content, node.type, node.state) == (text, "fact", "live")
        assert m.get("a").version == 7

    def test_this_is_important_is_one_call_that_counts_at_once(self, memory: OpenMemory) -> None:
        m = memory()
        for n in range(3):
            m.add(f"发票 invoice {n}", type="event", id=f"e{n}")
        before = m.weights(["e0", "e1", "e2"])
        m.feedback("e0", importance=1.0)
        assert m.weights(["e0"])["e0"] > before["e0"] + 0.2
        assert next(iter(m.search("发票 invoice"))).id == "e0"

    def test_what_speaks_for_it_is_activity_and_what_speaks_against_it_is_none(
        self, memory: OpenMemory, clock: SteerableClock
    ) -> None:
        """Else a contradiction would lift an old memory, since recency weighs as much as confidence."""
        m = memory()
        then = m.add("发票 invoice", type="fact", id="a").active_at
        for said in ({"confirmed": False}, {"helpful": False}, {"confirmed": False, "helpful": True}):
            clock.advance(days=200)
            before = m.weights(["a"])["a"]
            node = m.feedback("a", **said)
            assert (node.active_at, node.updated_at, m.root().active_at) == (then, clock.time, then)
            if said != {"confirmed": False, "helpful": True}:
                assert m.weights(["a"])["a"] < before
        for said in ({"confirmed": True}, {"helpful": True}, {"importance": 0.1}):
            clock.advance(days=200)
            assert m.feedback("a", **said).active_at == m.root().active_at == clock.time  # type: ignore[arg-type]
        assert_verified(m, replay=True)

    def test_a_restore_takes_it_back(self, memory: OpenMemory) -> None:
        m = memory()
        before = m.add("发票 invoice", type="fact", id="a")
        sequence = m.operations()[-1].sequence
        m.feedback("a", confirmed=False, helpful=True)
        m.restore(sequence=sequence)
        after = m.get("a")
        assert (after.importance, after.confidence, after.uses) == (before.importance, before.confidence, 0)


class TestWhy:
    def test_history_tells_when_why_and_from_what_to_what(self, memory: OpenMemory, clock: SteerableClock) -> None:
        m, other = memory(agent="bot"), memory(agent="审核")
        m.add("报销限额 500", type="fact", confidence=0.8, importance=0.5, id="limit")
        event = m.add("财务：限额已改为 800 limit raised", type="event")
        clock.advance(days=1)
        other.feedback("limit", contradicted_by=event.id, note="见邮件 see the mail")
        entry = m.history("limit")[-1]
        assert (entry.kind, entry.agent, entry.at, entry.version) == ("feedback", "审核", clock.time, 2)
        assert entry.changes == {"confidence": Change(0.8, 0.4)}
        assert entry.reasons == {"confirmed": False, "contradicted_by": event.id, "note": "见邮件 see the mail"}
        m.feedback("limit", confirmed_by=event.id, helpful=True)
        entry = m.history("limit")[-1]
        assert entry.reasons == {"confirmed": True, "confirmed_by": event.id, "helpful": True}
        assert set(entry.changes) == {"confidence", "importance", "uses"}
        assert entry.to_dict()["reasons"] == entry.reasons
        assert all(one.reasons == {} for one in m.history("limit") if one.kind != "feedback")

    def test_every_verb_that_moves_a_weight_is_in_it(self, memory: OpenMemory) -> None:
        """The values of one entry are where the next one starts, and the last ones are those of the node."""
        m = memory()
        m.add("发票 A", type="fact", id="a", importance=0.3)
        m.update("a", importance=0.4, confidence=0.2)
        m.add("发票 A", type="fact")
        m.feedback("a", confirmed=True)
        m.feedback("a", helpful=True)
        m.restore(sequence=3)
        told: dict[str, Any] = {}
        for entry in m.history("a"):
            for name, change in entry.changes.items():
                assert told.get(name) == change.before
                told[name] = change.after
        node = m.get("a")
        assert [e.kind for e in m.history("a")] == ["add", "update", "confirm", "feedback", "feedback", "restore"]
        assert {name: told[name] for name in ("importance", "confidence", "uses")} == {
            "importance": node.importance, "confidence": node.confidence, "uses": node.uses,
        }  # fmt: skip


class TestRefused:
    @pytest.mark.parametrize(
        ("given", "error", "match"),
        [
            ({}, InvalidInput, "feedback: says nothing; give helpful"),
            ({"note": "只有 note"}, InvalidInput, "says nothing"),
            ({"helpful": 1}, InvalidInput, "helpful: must be True or False"),
            ({"confirmed": "yes"}, InvalidInput, "confirmed: must be True or False"),
            ({"importance": 1.01}, InvalidInput, "importance: must be a number between 0 and 1"),
            ({"importance": float("nan")}, InvalidInput, "importance"),
            ({"confirmed": True, "contradicted_by": "b"}, InvalidInput, "confirmed and contradicted at once"),
            ({"confirmed_by": "b", "contradicted_by": "b"}, InvalidInput, "confirmed and contradicted at once"),
            ({"confirmed_by": "a"}, InvalidInput, "confirmed_by: 'a' cannot be a reason for itself"),
            ({"contradicted_by": "nope"}, NotFound, "contradicted_by: there is no node 'nope'"),
            ({"confirmed_by": 7}, InvalidInput, "confirmed_by: must be the text of an id"),
            ({"helpful": True, "note": "长" * 1001}, InvalidInput, "note: may have up to 1,000 characters"),
            ({"helpful": True, "note": 5}, InvalidInput, "note"),
        ],
    )
    def test_a_wrong_value_changes_nothing(
        self, memory: OpenMemory, refused: Any, given: Any, error: Any, match: str
    ) -> None:
        m = memory()
        m.add("发票 invoice", id="a")
        m.add("收据 receipt", id="b")
        with refused(m, error, match):
            m.feedback("a", **given)

    def test_what_has_no_weight_or_is_gone(self, memory: OpenMemory, refused: Any) -> None:
        m = memory()
        m.add("发票 invoice", id="a")
        m.forget("a")
        with refused(m, InvalidInput, "restore_forgotten"):
            m.feedback("a", helpful=True)
        with refused(m, InvalidInput, "root"):
            m.feedback(m.root().id, helpful=True)
        with refused(m, NotFound, "there is no node"):
            m.feedback("nope", helpful=True)


SAID = st.fixed_dictionaries(
    {"helpful": st.sampled_from([None, True, False]), "confirmed": st.sampled_from([None, True, False])}
).filter(lambda one: set(one.values()) != {None})


@given(said=st.lists(SAID, min_size=1, max_size=12), days=st.lists(st.integers(0, 500), min_size=12, max_size=12))
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
def test_what_speaks_for_it_never_lowers_its_weight_and_what_speaks_against_it_never_raises_it(
    tmp_path_factory: pytest.TempPathFactory, said: list[dict[str, Any]], days: list[int]
) -> None:
    """At the moment of the feedback, by the default coefficients, whatever was said before and however long ago."""
    clock = SteerableClock()
    with Memory.open(tmp_path_factory.mktemp("s"), config=configured({}), embedder=HashingEmbedder(), clock=clock) as m:
        m.add("发票 invoice", type="fact", id="a")
        for one, pause in zip(said, days, strict=False):
            clock.advance(days=pause)
            before = m.weights(["a"])["a"]
            node = m.feedback("a", **one)
            after = m.weights(["a"])["a"]
            assert 0.0 <= node.importance <= 1.0
            assert 0.0 <= node.confidence <= 1.0
            if False not in one.values():
                assert after >= before
            if True not in one.values():
                assert after <= before

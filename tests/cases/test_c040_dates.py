"""C040: a memory dated in the future, or at either end of time, ranks like any other and breaks nothing."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hybridmem import InvalidInput, Memory

OpenMemory = Callable[..., Memory]

NOW = datetime(2026, 7, 2, 8, 0, tzinfo=timezone.utc)
DATES: dict[str, Any] = {
    "now": NOW,
    "in ten days": NOW + timedelta(days=10),
    "in ten years": NOW + timedelta(days=3652),
    "year 1": datetime.min,
    "year 9999": datetime.max,
    "ten days ago": NOW - timedelta(days=10),
    "not said": None,
}
QUERY = "发票退回 invoice returned"


@pytest.fixture(params=["half-life", "everything weighs recency"])
def dated(request: pytest.FixtureRequest, memory: OpenMemory) -> Memory:
    """The same words at every date, each below a branch of its own, so that what encloses it says nothing."""
    m = memory(weights={"recency": 1.0, "importance": 0.0} if "everything" in request.param else {})
    for name, moment in DATES.items():
        m.add(f"{name} 分支", type="summary", parent="root", id=f"branch of {name}", occurred_at=NOW)
        m.add(QUERY, type="event", parent=f"branch of {name}", id=name, occurred_at=moment)
    m.flush()
    return m


def numbers(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [one for part in value.values() for one in numbers(part)]
    if isinstance(value, list):
        return [one for part in value for one in numbers(part)]
    return [value] if isinstance(value, float) else []


class TestRanking:
    def test_the_future_scores_at_most_like_now_and_every_number_is_finite(self, dated: Memory) -> None:
        """C040: no division by zero, nothing above everything else."""
        found = dated.search(QUERY, 50, types=["event"])
        scores = {hit.id: hit.score for hit in found}
        assert scores.keys() == DATES.keys()
        assert all(scores[name] <= scores["now"] + 1e-9 for name in DATES)
        assert scores["ten days ago"] < scores["now"]
        assert scores["year 1"] <= scores["ten days ago"]
        said = json.dumps(found.to_dict(), allow_nan=False)
        assert all(math.isfinite(one) for one in numbers(json.loads(said)))
        assert all(0.0 <= one.score_details.recency <= 1.0 for one in found)
        weights = dated.weights(list(DATES))
        assert all(0.0 <= weights[name] <= weights["now"] + 1e-9 for name in DATES)

    def test_also_in_words_that_name_a_time(self, dated: Memory) -> None:
        """C040: a question about a day or a year compares with every date there is."""
        for question in (
            "昨天的发票",
            "invoice last week",
            "十年后的发票 invoice in 2036",
            "发票 9999-12-31",
            "year 0001",
        ):
            hits = dated.search(f"{question} {QUERY}", 50, types=["event"])
            assert {hit.id for hit in hits} == DATES.keys()
            assert all(math.isfinite(hit.score) for hit in hits)

    def test_contexts_show_all_of_them(self, dated: Memory) -> None:
        for order in ("tree", "time", "score"):
            for query in (QUERY, None):
                shown = dated.context(query, order=order, token_budget=4_000, types=["event"])
                assert {hit.id for hit in shown.hits} == DATES.keys()
        for format in ("text", "markdown", "json"):
            text = dated.context(QUERY, order="time", format=format, token_budget=4_000, types=["event"]).text
            assert text.index("0001-01-01") < text.index("2026-06-22") < text.index("9999-12-31")

    def test_as_of_any_time(self, dated: Memory) -> None:
        for moment in DATES.values():
            if moment is not None:
                found = dated.search(QUERY, 50, types=["event"], as_of=moment)
                aware = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
                assert len(found) == (len(DATES) if aware >= NOW else 0)
                assert all(math.isfinite(hit.score) for hit in found)


class TestTheLife:
    def test_any_of_them_is_forgotten_archived_and_brought_back(self, dated: Memory) -> None:
        """C040: its date neither protects a memory nor loses it."""
        dated.add("别处 elsewhere", parent="root")
        for name in DATES:
            before = dated.get(name)
            for verb, back in (("forget", "restore_forgotten"), ("archive", "unarchive")):
                assert getattr(dated, verb)(name).ids == (name,)
                assert name not in {hit.id for hit in dated.search(QUERY, 50)}
                assert getattr(dated, back)(name).ids == (name,)
            after = dated.get(name)
            assert (after.created_at, after.active_at) == (before.created_at, before.active_at)
            assert name in {hit.id for hit in dated.search(QUERY, 50)}

    @pytest.mark.parametrize("policy", ["age", "decay", "least_weight", "least_recently_used", "newest", "random"])
    def test_no_date_keeps_a_memory_for_ever(self, dated: Memory, clock: Any, policy: str) -> None:
        """C040: what is dated ahead ages from when it was written, and goes before what is newer than that; at once,
        nothing goes as old that is dated now or later."""
        given: dict[str, Any] = {"age": {"days": 90}, "decay": {}}.get(policy, {"max_nodes": 4})
        rule = {"policy": policy, "types": ["event"], **given}
        if policy in ("age", "decay"):
            assert set(dated.forget(policy=rule, dry_run=True).ids) <= {"year 1", "ten days ago"}
        clock.advance(days=400)
        fresh = {dated.add(f"新的 fresh {n}", type="event", parent="branch of now").id for n in range(5)}
        going = set(dated.forget(policy=rule).ids)
        if policy == "random":
            assert len(going) == len(DATES) + 1
        else:
            assert going >= DATES.keys(), "whatever its date, it has been there for 400 days"
            assert len(going & fresh) <= 1
        assert dated.forget(policy=rule).ids == ()

    def test_nor_from_being_purged(self, dated: Memory, clock: Any) -> None:
        """C040: what ends retention is when it was forgotten; no date of its own ends it early, or never."""
        dated.add("末 last", parent="root")
        for name in DATES:
            dated.forget(name)
        clock.advance(days=29)
        assert dated.purge_forgotten().ids == ()
        clock.advance(days=2)
        assert set(dated.purge_forgotten().ids) == DATES.keys()

    def test_it_goes_through_a_file_exactly(self, dated: Memory, memory: OpenMemory, tmp_path: Path) -> None:
        dated.export(tmp_path / "all.jsonl")
        copy = memory("copy")
        copy.import_(tmp_path / "all.jsonl")
        for name in DATES:
            assert copy.get(name).created_at == dated.get(name).created_at
            assert copy.get(name).active_at == dated.get(name).active_at

    def test_a_clock_that_has_gone_back_makes_no_trouble(self, dated: Memory, clock: Any) -> None:
        """C040: everything is in the future then, and counts as of now."""
        clock.time = datetime(1980, 1, 1, tzinfo=timezone.utc)
        new = dated.add(QUERY, type="event", parent="root", id="new")
        found = {hit.id: hit for hit in dated.search(QUERY, 50, types=["event"])}
        assert found.keys() == {*DATES, "new"}
        assert found["in ten years"].score_details.recency == found["new"].score_details.recency == 1.0
        dated.add("之后 after", parent="root")
        dated.forget("now")
        assert dated.get("now").updated_at >= dated.get("now").created_at
        assert new.created_at == clock.time


@pytest.mark.parametrize(
    "wrong",
    [float("nan"), math.inf, np.datetime64("NaT"), "NaN", "not a date", "10000-01-01", "0000-01-01", 1_782_979_200, ""],
    ids=str,
)
def test_what_is_no_date_is_refused_by_name(memory: OpenMemory, refused: Any, wrong: Any) -> None:
    """C040: alone and within a batch; nothing is stored."""
    m = memory()
    with refused(m, InvalidInput, "occurred_at"):
        m.add(QUERY, occurred_at=wrong)
    with refused(m, InvalidInput, "item 1: occurred_at"):
        m.add_many([{"content": QUERY}, {"content": QUERY, "occurred_at": wrong}])

"""Forgetting the least recently used: a delivery by search or context is use, whether it is written yet or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hybridmem import Memory

OpenMemory = Callable[..., Memory]
LEAST = {"policy": "least_recently_used", "max_nodes": 2}


def test_what_was_delivered_last_stays_though_nobody_wrote_to_it(memory: OpenMemory, clock: Any) -> None:
    """A delivery is no activity, so that alone would forget what is asked for every day."""
    m = memory(weights={"count_uses": True})
    for id, text in (("zh", "财务退回发票"), ("en", "the harbour is closed"), ("mixed", "R&D 部门 roadmap")):
        clock.advance(days=1)
        m.add(text, parent="root", id=id)
    m.start_task("别处 elsewhere")
    for words, id in (("harbour", "en"), ("财务 发票", "zh")):
        clock.advance(days=1)
        m.flush()  # the use before is written, at the time of this write; the last one waits
        assert [hit.id for hit in m.search(words, 1)] == [id]
    clock.advance(days=1)
    dry = m.forget(policy=LEAST, dry_run=True)
    report = m.forget(policy=LEAST)
    assert report.ids == ("mixed", "en"), "what was just delivered counts too, though no write took it along yet"
    assert dry.ids == ("mixed", "en")
    last = m.get("en").created_at.date().isoformat()
    assert all(last not in one.reason for one in report.pruned if one.id == "en")


def test_without_any_use_it_is_by_activity(memory: OpenMemory, clock: Any) -> None:
    m = memory(weights={"count_uses": False})
    for id in ("zh", "en"):
        clock.advance(days=1)
        m.add(f"发票 invoice {id}", parent="root", id=id)
    m.start_task("别处 elsewhere")
    m.search("发票 invoice zh", 1)
    assert m.forget(policy=LEAST).ids == ("zh",)

"""Forgetting by policy and summaries: what is archived for a summary is never left without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from summaries import chatter, session

from hybridmem import Memory
from hybridmem.policies import RULES
from hybridmem.prune import Pruning

OpenMemory = Callable[..., Memory]
#: A policy of each name that takes every summary it may.
ALL: dict[str, dict[str, Any]] = {
    name: {
        "policy": name,
        "types": ["summary"],
        **{"decay": {"threshold": 1.0}, "age": {"days": 1}}.get(name, {"max_nodes": 0}),
    }
    for name in RULES
}


@pytest.mark.parametrize("name", RULES)
def test_a_summary_stays_while_what_it_stands_for_is_archived(memory: OpenMemory, clock: Any, name: str) -> None:
    """Else both would be out of sight. It is told why, with the way out, and may go like anything else once its
    sources are forgotten themselves."""
    m, policy = memory(), ALL[name]
    session(m)
    (one,) = m.consolidate().branches
    clock.advance(days=3000)
    said, report = m.forget(policy=policy, dry_run=True), m.forget(policy=policy)
    assert (said.ids, report.ids) == ((), ())
    (held,) = report.held
    assert held.id == one.summary_id
    assert f"summary of {len(one.sources)} archived memories; call unconsolidate({held.id!r})" in held.reason
    for query in ("发票号 INV-20431", "the ticket OPS-7719"):
        assert m.search(query)[0].id == one.summary_id
    for id in one.sources[:-1]:
        m.forget(id)
    assert "summary of 1 archived" in m.forget(policy=policy).held[0].reason
    m.forget(one.sources[-1])
    assert m.forget(policy=policy).ids == (one.summary_id,)


@pytest.mark.parametrize("times", [1, 3])
def test_what_superseded_a_summary_stays_in_its_place(memory: OpenMemory, times: int) -> None:
    """The sources name the old one; what holds now is all of them that is in sight. The old one brings them back."""
    m = memory()
    session(m)
    (one,) = m.consolidate().branches
    newest = str(one.summary_id)
    for number in range(times):
        newest = m.supersede(newest, f"摘要改了 {number}：invoice INV-20431, ticket OPS-7719").id
    m.add("别处 elsewhere", parent="root")  # so that no agent stands at the newest one
    report = m.forget(policy=ALL["random"])
    assert report.ids == ()
    assert f"unconsolidate({one.summary_id!r})" in next(held for held in report.held if held.id == newest).reason
    m.unconsolidate(str(one.summary_id))
    assert {m.get(id).state for id in one.sources} == {"live"}
    assert newest in m.forget(policy=ALL["random"]).ids


def test_a_summary_of_summaries_stays_too(memory: OpenMemory) -> None:
    m = memory(consolidation={"min_tokens": 10})
    task = session(m)
    m.consolidate()
    chatter(m, task, 12, 500)
    (again,) = m.consolidate().branches
    assert "summary" in {m.get(id).type for id in again.sources}
    assert m.forget(policy=ALL["random"]).ids == ()
    assert m.get(str(again.summary_id)).state == "live"


def test_a_summary_whose_sources_are_in_sight_may_go(memory: OpenMemory) -> None:
    m = memory()
    session(m)
    (one,) = m.consolidate().branches
    for id in one.sources:
        m.unarchive(id)
    assert m.forget(policy=ALL["newest"]).ids == (one.summary_id,)


def test_a_batch_looks_again_at_what_was_archived_since_it_was_chosen(memory: OpenMemory, monkeypatch: Any) -> None:
    m = memory()
    session(m)
    (one,) = m.consolidate().branches
    for id in one.sources:
        m.unarchive(id)
    take = Pruning._take

    def late(self: Pruning, *given: Any) -> None:
        m.archive(one.sources[0])
        take(self, *given)

    monkeypatch.setattr(Pruning, "_take", late)
    assert m.forget(policy=ALL["newest"], dry_run=True).ids == (one.summary_id,)
    assert m.forget(policy=ALL["newest"]).ids == ()

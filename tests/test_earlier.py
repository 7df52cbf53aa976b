"""Reading by id and along the tree as it was: what a read said then it says with ``as_of``, whatever came after."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from hybridmem import InvalidInput, Memory, NotFound
from hybridmem.embed.hashing import HashingEmbedder
from tests.conftest import SteerableClock, configured
from tests.life import Life, Step, steps

OpenMemory = Callable[..., Memory]


@given(life=steps("restore", most=30))
@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
def test_every_read_says_what_it_said_then(tmp_path_factory: pytest.TempPathFactory, life: list[Step]) -> None:
    directory, clock = tmp_path_factory.mktemp("life"), SteerableClock()
    settings_: dict[str, Any] = {"config": configured({}), "embedder": HashingEmbedder(), "clock": clock}
    with Memory.open(directory, **settings_) as one, Memory.open(directory, agent="other", **settings_) as other:
        lived, seen = Life(one, other, clock), []
        for step in life:
            if step[0] == "restore":
                one.restore(sequence=1 + step[2] % one.operations()[-1].sequence)
            else:
                lived.act(step)
            nodes = list(one.walk())
            below = {node.id: one.children(node.id, offset=step[3] % 2, limit=2) for node in nodes}
            seen.append((clock.time, step[3] % 2, nodes, below, {node.id: one.ancestors(node.id) for node in nodes}))
            clock.advance(minutes=1)
        for moment, offset, nodes, below, above in seen:
            assert list(one.walk(as_of=moment)) == nodes
            for node in nodes:
                assert one.get(node.id, as_of=moment) == node
                assert one.children(node.id, offset=offset, limit=2, as_of=moment) == below[node.id]
                assert one.ancestors(node.id, as_of=moment) == above[node.id]


def test_what_was_not_there_yet_is_not_found(memory: OpenMemory, clock: SteerableClock) -> None:
    m = memory()
    before = clock.time
    clock.advance(hours=1)
    node = m.add("发票 invoice", parent="root")
    for read in (m.get, m.children, m.ancestors, lambda id, as_of: list(m.walk(id, as_of=as_of))):
        with pytest.raises(NotFound, match="was not there yet"):
            read(node.id, as_of=before)
        with pytest.raises(NotFound, match="there is no node 'nope'"):
            read("nope", as_of=before)
    assert m.children(as_of=before) == []
    assert m.children(as_of=before + timedelta(hours=1)) == [node]
    with pytest.raises(InvalidInput, match="as_of"):
        m.get(node.id, as_of="gestern")


def test_only_live_children_are_children_and_what_was_forgotten_later_was_one(
    memory: OpenMemory, clock: SteerableClock
) -> None:
    m = memory()
    one, two, three = (m.add(f"发票 {n}", parent="root") for n in range(3))
    m.forget(one.id)
    noon = clock.time
    clock.advance(hours=1)
    m.forget(two.id)
    assert [node.id for node in m.children(as_of=noon)] == [two.id, three.id]
    assert [node.id for node in m.children(offset=1, limit=1, as_of=noon)] == [three.id]
    assert m.get(two.id, as_of=noon) == two

"""C029: whatever way a parent is removed, nothing is left pointing to it: its children go first, or it stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hybridmem import InvalidInput, Memory


@pytest.mark.parametrize(
    "policy",
    [
        {"policy": "age", "days": 30}, {"policy": "decay", "threshold": 0.5},
        {"policy": "least_recently_used", "max_nodes": 3}, {"policy": "newest", "max_nodes": 3},
        {"policy": "least_weight", "max_nodes": 3}, {"policy": "random", "max_nodes": 3},
        {"policy": "newest", "max_nodes": 0, "types": ["note"]},
    ],
)  # fmt: skip
def test_an_old_parent_with_fresh_children_stays_as_long_as_one_of_them_does(
    memory: Callable[..., Memory], clock: Any, policy: dict[str, Any]
) -> None:
    m = memory()
    m.add("旧的上级 old parent", parent="root", id="old")
    clock.advance(days=400)
    for i in range(3):
        m.add(f"新的下级 fresh child {i}", type="event", parent="old", id=f"new{i}")
    m.add("末 last", parent="root", type="event")
    with pytest.raises(InvalidInput, match="below it"):
        m.forget("old")  # by id the same rule is an error that says the way out
    m.forget(policy=policy)
    nodes = {node.id: node for node in m.walk()}
    for node in nodes.values():
        if node.state == "live" and node.parent_id is not None:
            assert nodes[node.parent_id].state == "live"
    kept = {id for id in ("new0", "new1", "new2") if nodes[id].state == "live"}
    assert nodes["old"].state == "live" or not kept
    assert {child.id for child in m.children("old")} == kept, "and those are found from the root"

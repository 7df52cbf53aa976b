"""C012: changing the text of a memory, or one name of its metadata, loses nothing else of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hybridmem import Memory, Node

OpenMemory = Callable[..., Memory]

#: Everything that JSON has, under names in two languages.
METADATA: dict[str, Any] = {
    "来源": {"系统": "报销", "id": 17, "deep": [{"a": None}, [1.5, "二"]]},
    "list": [3, 1, 2],
    "none": None,
    "yes": True,
    "no": False,
    "one": 1,
    "real": 1.0,
    "标签": "发票 invoice",
    "": "a name that is empty",
}
#: What only changes in time.
MOVING = ("content", "version", "updated_at", "active_at", "structured")


def rest(node: Node, *without: str) -> dict[str, Any]:
    return {name: value for name, value in node.to_dict().items() if name not in (*MOVING, *without)}


def same_kinds(one: Any, other: Any) -> bool:
    """Equal, and of the same types: 1, 1.0 and True are equal to Python, and not to whoever reads the metadata."""
    if isinstance(one, dict):
        return isinstance(other, dict) and list(one) == list(other) and all(same_kinds(one[k], other[k]) for k in one)
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(same_kinds, one, other))
    return type(one) is type(other) and bool(one == other)


def ordered(metadata: dict[str, Any]) -> dict[str, Any]:
    """By name: JSON objects have no order."""
    return {k: ordered(v) if isinstance(v, dict) else v for k, v in sorted(metadata.items())}


@pytest.fixture
def node(memory: OpenMemory) -> tuple[Memory, Node]:
    m = memory(namespace=("acme", "张三"), agent="claims-bot")
    m.start_task("报销 claims")
    return m, m.add("电话 13800000000 phone", type="fact", importance=0.77, confidence=0.31, metadata=METADATA)


@pytest.mark.parametrize("text", ["电话 13911111111", "phone 139", {"电话": 139}])
def test_another_text_leaves_all_else(node: tuple[Memory, Node], clock: Any, text: Any) -> None:
    """C012: metadata of every kind, created_at, agent, parent and id; updated_at alone moves forward."""
    m, old = node
    clock.advance(hours=5)
    m.update(old.id, content=text)
    new = m.get(old.id)
    assert rest(new) == rest(old)
    assert same_kinds(ordered(new.metadata), ordered(METADATA))
    assert (new.updated_at, new.version, new.value) == (clock.time, 2, text)


def test_another_value_of_one_name_leaves_all_the_others(node: tuple[Memory, Node], clock: Any) -> None:
    """C012: and None takes away the name that is given, not the one that has None already."""
    m, old = node
    clock.advance(hours=5)
    m.update(old.id, metadata={"标签": ["收据", 2]})
    m.update(old.id, metadata={"yes": None})
    new = m.get(old.id)
    expected = {**METADATA, "标签": ["收据", 2]}
    del expected["yes"]
    assert same_kinds(ordered(new.metadata), ordered(expected))
    assert rest(new, "metadata") == rest(old, "metadata")
    assert (new.content, new.updated_at) == (old.content, clock.time)


@pytest.mark.parametrize("change", ["text", "metadata", "supersede"])
def test_it_is_found_by_its_metadata_as_before(node: tuple[Memory, Node], change: str) -> None:
    """C012: a filter that found it still finds it, by every kind of value, also after a restart."""
    m, old = node
    if change == "text":
        m.update(old.id, content="另一段 another text")
    elif change == "metadata":
        m.update(old.id, metadata={"新 new": 1})
    else:
        m.supersede(old.id, "另一段 another text")
    m.add("另一段 another text, of nobody")
    for name, value in METADATA.items():
        if value is not None:
            found = m.search("另一段 another text 电话 phone", metadata={name: value}).hits
            assert len(found) == 1, name


def test_what_supersedes_has_the_metadata_of_the_old_one(node: tuple[Memory, Node], clock: Any) -> None:
    """C012: superseding is no reason to lose any of it either, on either of the two."""
    m, old = node
    clock.advance(hours=5)
    new = m.supersede(old.id, "电话 139 phone")
    assert same_kinds(ordered(m.get(new.id).metadata), ordered(METADATA))
    assert same_kinds(ordered(m.get(old.id).metadata), ordered(METADATA))
    assert (new.parent_id, new.type, new.importance, new.agent) == (
        old.parent_id, old.type, old.importance, old.agent,
    )  # fmt: skip

"""Narrowing by state: what is archived or superseded is found when it is asked for, and only then."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hybridmem import InvalidInput, Memory

OpenMemory = Callable[..., Memory]

STATES = {
    "旧发票 old invoice 2024": "archived",
    "发票抬头是甲公司 the invoice names company A": "superseded",
    "发票抬头是乙公司 the invoice names company B": "live",
    "发票的草稿 draft of an invoice": "forgotten",
}


def contents(found: Any) -> list[str]:
    return sorted(hit.content for hit in found)


def with_states(memory: OpenMemory, folder: Path, states: dict[str, str], **sections: Any) -> Memory:
    """Memories in these states below one task, as an import brings them."""
    source = memory("source")
    source.start_task("报销 expense claim")
    source.add_many([{"content": content, "type": "fact", "metadata": {"标签": "财务"}} for content in states])
    source.export(folder / "all.jsonl")
    lines = [json.loads(line) for line in (folder / "all.jsonl").read_text("utf-8").splitlines()]
    for line in lines:
        if line.get("content") in states:
            line["state"] = states[line["content"]]
    (folder / "states.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    made = memory("target", **sections)
    made.import_(folder / "states.jsonl")
    return made


@pytest.fixture(params=[10_000, 0], ids=["exact", "located"])
def mixed(request: pytest.FixtureRequest, memory: OpenMemory, tmp_path: Path) -> Memory:
    return with_states(memory, tmp_path, STATES, index={"exact_limit": request.param, "background": False})


def test_without_the_filter_only_live_memories_are_found(mixed: Memory) -> None:
    live = [content for content, state in STATES.items() if state == "live"]
    task = "报销 expense claim"
    for found in (mixed.search("发票 invoice"), mixed.search("发票 invoice", states=["live"])):
        assert [one for one in contents(found) if one != task] == live
    assert [hit.content for hit in mixed.context("发票 invoice").hits if hit.content != task] == live


@pytest.mark.parametrize(
    "states", [["archived"], ["superseded"], ["forgotten"], ["archived", "forgotten"], ["live", "superseded"], []]
)
def test_exactly_the_states_that_are_named_are_found(mixed: Memory, states: list[str]) -> None:
    expected = sorted(content for content, state in STATES.items() if state in states)
    found = mixed.search("发票 invoice", states=states, types=["fact"])
    assert contents(found) == expected
    assert {hit.node.state for hit in found} == set(states)
    shown = mixed.context("发票 invoice", states=states, types=["fact"])
    assert contents(shown.hits) == expected
    assert all(content in shown.text for content in expected)
    assert contents(mixed.context(states=states, types=["fact"]).hits) == expected, "without a question as well"


def test_what_is_not_live_is_ranked_in_its_place_in_the_tree(mixed: Memory) -> None:
    hit = mixed.search("旧发票 old invoice", states=["archived"])[0]
    assert hit.path == ("报销 expense claim",)
    assert hit.score_details.tree > 0.0
    assert hit.score_details.lexical > 0.0


def test_it_adds_to_the_other_filters(mixed: Memory) -> None:
    assert contents(mixed.search("发票", states=["archived"], types=["event"])) == []
    assert len(mixed.search("发票", states=["archived"], metadata={"标签": "财务"})) == 1
    assert contents(mixed.search("发票", states=["archived"], metadata={"标签": "人事"})) == []
    assert contents(mixed.search("发票", states=["archived"], until="2001-01-01")) == []


def test_the_filters_of_a_context_are_those_of_a_search(memory: OpenMemory) -> None:
    m = memory()
    m.start_task("报销 claim")
    m.add("发票 invoice of May", type="event", occurred_at="2026-05-01", metadata={"done": True})
    m.add("发票 invoice of June", type="event", occurred_at="2026-06-01")
    m.add("发票 invoice rules", type="fact", occurred_at="2026-06-01")
    for given in ({"types": ["fact"]}, {"since": "2026-06-01"}, {"until": "2026-06-01"}, {"metadata": {"done": True}}):
        found = m.context("发票 invoice", **given)  # type: ignore[arg-type]
        assert contents(found.hits) == contents(m.search("发票 invoice", **given)) != []  # type: ignore[arg-type]
        assert [node.content for node in found.ancestors] == ["报销 claim"]


@pytest.mark.parametrize(
    ("states", "said"),
    [
        (["archive"], r"states: must be among live, archived, superseded, forgotten, not 'archive'; .*'archived'\?"),
        (["live", "Superseeded"], "did you mean 'superseded'"),
        (["active"], "did you mean 'live'"),
        (["open"], "status of a task"),
        (["删除"], "not '删除'$"),
        ([3], "not 3$"),
        ("archived", r"states: must be a list such as \['archived'\]"),
    ],
)
def test_an_unknown_state_is_named_with_the_nearest(memory: OpenMemory, states: Any, said: str) -> None:
    m = memory()
    for call in (m.search, m.context):
        with pytest.raises(InvalidInput, match=said):
            call("发票", states=states)

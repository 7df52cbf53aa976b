"""C031: one parent with 12,000 children, and 6,000 records in one import: whole, in bounded memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from crash.helpers import QUIET, said
from damages import edit
from verified import assert_verified

from hybridmem import InvalidInput, Memory, repair, verify

OpenMemory = Callable[..., Memory]

WIDE = 12_000
#: Far above what any of it takes, far below what holding every content, path or vector several times would.
MEGABYTES = 400


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("wide") / "store"
    with Memory.open(store, config=QUIET) as memory:
        parent = memory.add("很宽 wide", id="parent")
        memory.add_many(
            {"content": f"第{n}个孩子 child number {n}", "parent": parent.id, "id": f"child{n}"} for n in range(WIDE)
        )
        assert memory.flush() == 0
    return store


def test_its_children_come_in_pages_and_the_rest_works_inside_of_it(wide: Path) -> None:
    with Memory.open(wide, config=QUIET) as memory:
        page = memory.children("parent", offset=11_990, limit=100)
        assert [node.id for node in page] == [f"child{n}" for n in range(11_990, WIDE)]
        assert memory.search("第777个孩子 child number 777", 1, scope="parent")[0].id == "child777"
        assert memory.context("第778个孩子", token_budget=200).hits
        assert memory.export(wide.parent / "wide.jsonl") == WIDE + 1
        report = memory.verify(replay=True)
        assert report.ok, report.findings
        assert report.counts["nodes"] == report.counts["embedded"] == report.counts["vectors"] == WIDE + 1


def test_looking_at_it_and_mending_it_takes_bounded_memory(wide: Path) -> None:
    """All of them are damaged at once: more than one statement may name, and more than one finding should tell."""
    edit(
        wide,
        "UPDATE node SET path = '/', content_key = '' WHERE parent_id IS NOT NULL; DELETE FROM lexical;"
        "DELETE FROM embedding WHERE node_id % 2 = 0",
        {},
    )
    *_, kinds, peak = said(
        """
        import resource
        from hybridmem import repair, verify
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        found = {one.kind: one.count for one in verify(sys.argv[1]).findings}
        assert repair(sys.argv[1], config=QUIET).ok
        say(found)
        say((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
        """,
        wide,
    )
    assert kinds == {
        "path": WIDE + 1, "derived": WIDE + 1, "lexical": WIDE + 1, "unembedded": WIDE // 2 + 1,
        "chroma_extra": WIDE // 2 + 1,
    }  # fmt: skip
    assert peak < MEGABYTES
    with Memory.open(wide, config=QUIET) as memory:
        assert memory.search("第4711个孩子 child number 4711", 1)[0].id == "child4711"
        assert_verified(memory)


def test_a_branch_of_12000_is_forgotten_and_comes_back_whole(wide: Path) -> None:
    with Memory.open(wide, config=QUIET) as memory:
        memory.start_task("别处 elsewhere")
        memory.add("在别处 elsewhere", id="elsewhere")
        assert len(memory.forget("parent", subtree=True).ids) == WIDE + 1
        assert memory.flush() == 0
        assert memory.children("parent") == []
        assert_verified(memory)
        assert memory.verify(replay=True).counts["vectors"] == 2
        memory.restore_forgotten("parent", subtree=True)
        assert memory.flush() == 0
        assert len(memory.children("parent")) == WIDE
        assert_verified(memory)


def test_6000_records_are_imported_in_one_call_or_not_at_all(memory: OpenMemory, tmp_path: Path) -> None:
    head = {"kind": "hybridmem", "version": 1, "namespace": ["x"]}
    lines = [head] + [
        {
            "kind": "node", "id": f"r{n}", "parent_id": None if n == 0 else f"r{n // 2}", "type": "event",
            "content": f"第{n}条 record {n}",
        }
        for n in range(6_000)
    ]  # fmt: skip
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    good.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    bad.write_text("\n".join(map(json.dumps, [*lines[:-1], {**lines[-1], "content": " "}])), "utf-8")
    m = memory()
    with pytest.raises(InvalidInput, match="line 6001"):
        m.import_(bad)
    assert m.stats().nodes == 0
    assert m.import_(good).added == 6_000
    assert m.flush() == 0
    report = verify(m.path, replay=True)
    assert report.ok, report.findings
    assert report.counts["nodes"] == report.counts["embedded"] == report.counts["vectors"] == 6_000
    assert repair(m.path, config=QUIET).mended == ()

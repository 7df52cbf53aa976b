"""C028: no move makes a loop, and a loop that raw SQL has made stops nothing from ending and can be broken."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from crash.helpers import QUIET, Child
from damages import edit
from verified import assert_verified

from hybridmem import InvalidInput, Memory
from hybridmem.store import checks, mends, tree

from .looped import read_all

OpenMemory = Callable[..., Memory]

#: Which node gets which parent by raw SQL, among task → a → b → c and, beside it, d.
LOOPS = {
    "its own parent": {"a": "a"},
    "three": {"a": "c"},
    "two loops": {"a": "b", "d": "d"},
    "the task in it": {"task": "c"},
}


def chain(memory: Memory) -> dict[str, str]:
    """task → a → b → c, and d beside a; what everything is called, by letter."""
    task = memory.start_task("记忆的任务 the task of memory")
    a = memory.add("记忆甲 memory a", type="fact")
    b = memory.add("记忆乙 memory b", type="decision", parent=a)
    c = memory.add("记忆丙 memory c", parent=b)
    d = memory.add("记忆丁 memory d")
    return {"task": task.id, "a": a.id, "b": b.id, "c": c.id, "d": d.id}


def test_a_move_below_itself_is_refused_and_changes_nothing(memory: OpenMemory, refused: Callable[..., object]) -> None:
    m = memory()
    ids = chain(m)
    for moved, parent in (("a", "a"), ("a", "b"), ("a", "c"), ("b", "c"), ("task", "d")):
        with refused(m, InvalidInput, "loop"):  # type: ignore[attr-defined]
            m.move(ids[moved], ids[parent])
    m.flush()
    assert_verified(m)


def test_of_two_processes_that_move_each_below_the_other_one_is_refused(tmp_path: Path) -> None:
    """Each move is right by itself; together they would be a loop. Tried until both orders have been seen."""
    store = tmp_path / "store"
    with Memory.open(store, config=QUIET) as memory:
        pairs = [(memory.add(f"甲 {n}").id, memory.add(f"乙 {n}").id) for n in range(40)]
    code = """
        store, pairs, mine = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
        with Memory.open(store, config=QUIET) as memory:
            say("ready")
            wait()
            moved = []
            for pair in pairs:
                try:
                    memory.move(pair[mine], pair[1 - mine])
                    moved.append(True)
                except InvalidInput as error:
                    assert "loop" in str(error)
                    moved.append(False)
            say(moved)
    """
    with Child(code, store, json.dumps(pairs), 0) as one, Child(code, store, json.dumps(pairs), 1) as two:
        for child in (one, two):
            child.hear()
        for child in (one, two):
            child.go()
        results = list(zip(one.hear(), two.hear(), strict=True))
        for child in (one, two):
            child.end()
    assert all(first != second for first, second in results), results
    with Memory.open(store, config=QUIET) as memory:
        for (a, b), (first, _) in zip(pairs, results, strict=True):
            inner, outer = (a, b) if first else (b, a)
            assert memory.get(inner).parent_id == outer
            assert [node.id for node in memory.ancestors(inner)] == [memory.root().id, outer]
        memory.flush()
        assert_verified(memory)


def rows(memory: Memory) -> list[dict[str, object]]:
    """All nodes, but for how often they were found."""
    return [{**node.to_dict(), "uses": 0} for node in memory.walk()]


@pytest.mark.parametrize("parents", LOOPS.values(), ids=LOOPS)
def test_reading_a_looped_table_ends_and_the_loop_is_listed_and_broken(tmp_path: Path, parents: dict[str, str]) -> None:
    store = tmp_path / "store"
    with Memory.open(store, config=QUIET) as memory:
        ids = chain(memory)
        memory.flush()
        before = rows(memory)
    for node, parent in parents.items():
        edit(store, f"UPDATE node SET parent_id = {{{parent}}} WHERE id = {{{node}}}", ids)
    looped = ids[next(iter(parents))]
    assert {"loop", "path"} <= set(read_all(store, looped, ids["d"]))
    with Memory.open(store, config=QUIET) as memory:
        (found,) = [one for one in memory.verify().findings if one.kind == "loop"]
        assert looped in found.ids
        assert memory.repair().ok
        assert rows(memory) == before, "back where the log last had them"
        assert_verified(memory)


def test_whatever_parents_are_put_in_by_hand_every_loop_is_found_and_broken(memory: OpenMemory) -> None:
    """All ways to hang three nodes below each other or the root: 64, most of them no tree."""
    m = memory()
    ids = {name: m.add(f"记忆 memory {name}", parent="root").id for name in "abc"} | {"root": m.root().id}
    for parents in itertools.product(("a", "b", "c", "root"), repeat=3):
        for node, parent in zip("abc", parents, strict=True):
            edit(m.path, f"UPDATE node SET parent_id = {{{parent}}} WHERE id = {{{node}}}", ids)
        with m._workspace.write() as tx:
            names = {key.id: key.uid for key in tree.keys(tx, range(100))}
            found = {names[one.node_id] for one in checks.faults(tx, None) if one.kind == "loop" and one.node_id}
            mends.mend(tx, None, "test", 0)
            assert list(checks.faults(tx, None)) == [], parents
        inside = {node for node in "abc" if leads_back(node, dict(zip("abc", parents, strict=True)))}
        assert found == {ids[node] for node in inside}, parents
        assert len(list(m.walk())) == 4, parents
    m.flush()
    assert_verified(m)


def leads_back(node: str, parents: dict[str, str]) -> bool:
    above = parents[node]
    for _ in range(4):
        if above == node:
            return True
        above = parents.get(above, "root")
    return False

"""The judge of a durability run and the look into a store see each kind of damage; a harness that sees none proves
nothing."""

from __future__ import annotations

import copy
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from eval.durability import agreement
from eval.durability.agent import SHARED, Agent, first_content
from eval.durability.check import QUIET, look
from eval.durability.journal import Journal, read
from eval.durability.server import Server
from eval.durability.trajectories import made
from eval.durability.verdict import Finding, Judge, Shared
from hybridmem import Memory
from hybridmem.store.connect import Connections

NAME = "agent0"
Seen = dict[str, Any]
Entries = list[dict[str, Any]]
STEPS = 1_000


@pytest.fixture(scope="module")
def server() -> Any:
    with Server(None) as running:
        yield running


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory, server: Server) -> tuple[Entries, Seen]:
    """The journal of an agent that was killed in the middle of its life, and what a fresh process saw then."""
    folder = tmp_path_factory.mktemp("lived")
    order = {"store": str(folder / "store"), "errors": str(folder / "errors.txt")}
    server.run({"do": "found", **order})
    life = {"agent": NAME, "run": 1, "tale": 0, "steps": STEPS, "wants": [], "sabotage": None}
    places = {"journal": str(folder / "journal.jsonl"), "scratch": str(folder)}
    # In the middle of a transaction, so that the call that is under way then has left nothing.
    code = server.wait(server.start({"do": "live", **order, **life, **places, "fault": "node.after_row:90"}))
    assert code == -9
    look = {"agents": [NAME], "known": [], "copy": None, "whole": True, "out": str(folder / "seen.json")}
    server.run({"do": "look", **order, **look})
    (seen,) = read(folder / "seen.json")
    return read(folder / "journal.jsonl"), seen


def judge(entries: Entries, seen: Seen) -> Finding:
    one = Judge([NAME])
    one.founded = True
    return one.judge({NAME: entries}, seen)


def test_an_agent_that_lost_nothing_is_found_whole(lived: tuple[Entries, Seen]) -> None:
    finding = judge(*lived)
    assert (finding.problems, finding.whole, finding.absent) == ([], 0, 1)
    assert finding.acknowledged > 20
    assert finding.resumes == 2


def some_node(seen: Seen) -> dict[str, Any]:
    """One that was changed since it was made, and that nothing hangs below."""
    parents = {node["parent"] for node in seen["nodes"].values()}
    return next(
        node
        for id, node in seen["nodes"].items()
        if node["agent"] == NAME and node["version"] > 1 and id not in parents and node["type"] != "root"
    )


def without_a_node(seen: Seen) -> None:
    seen["nodes"] = {id: node for id, node in seen["nodes"].items() if node is not some_node(seen)}


def with_an_older_version(seen: Seen) -> None:
    some_node(seen)["version"] -= 1


def without_the_last_log_row(seen: Seen) -> None:
    seen["log"][NAME].pop()


def without_a_checkpoint(seen: Seen) -> None:
    seen["labels"][NAME].pop()


def without_a_shared_node(seen: Seen) -> None:
    del seen["nodes"][SHARED[0]]


def with_an_older_shared_node(seen: Seen) -> None:
    max((seen["nodes"][id] for id in SHARED), key=lambda node: node["version"])["version"] = 1


def with_a_node_that_nobody_made(seen: Seen) -> None:
    seen["nodes"]["ghost"] = {**some_node(seen), "content": "鬼 ghost"}


def with_a_node_of_a_stranger(seen: Seen) -> None:
    seen["nodes"]["ghost"] = {**some_node(seen), "agent": "stranger"}


def with_a_log_row_too_many(seen: Seen) -> None:
    seen["log"][NAME].append(["add", "ghost"])


def with_another_content(seen: Seen) -> None:
    some_node(seen)["content"] += "?"


def with_another_parent(seen: Seen) -> None:
    some_node(seen)["parent"] = SHARED[1]


def with_another_state(seen: Seen) -> None:
    some_node(seen)["state"] = "superseded"


def with_another_shared_content(seen: Seen) -> None:
    seen["nodes"][SHARED[2]]["content"] = "别人的 of somebody else"


def with_a_shared_version_that_nobody_made(seen: Seen) -> None:
    seen["nodes"][SHARED[2]]["version"] += 2


def with_another_active_node(seen: Seen) -> None:
    seen["resumed"][NAME]["node"] = "ghost"


def with_another_log_row(seen: Seen) -> None:
    seen["log"][NAME][3][0] = "nothing"


def with_another_active_task(seen: Seen) -> None:
    seen["resumed"][NAME]["task"] = "ghost"


def with_another_next_step(seen: Seen) -> None:
    seen["resumed"][NAME]["next_step"] = "回家 go home"


def with_a_decision_less(seen: Seen) -> None:
    seen["resumed"][NAME]["decisions"] = ["ghost"]


def as_if_not_interrupted(seen: Seen) -> None:
    seen["resumed"][NAME]["interrupted"] = False


def with_a_problem_of_the_index(seen: Seen) -> None:
    seen["problems"].append("Chroma has a ghost")


KINDS: dict[str, tuple[Callable[[Seen], None], ...]] = {
    "lost": (
        without_a_node, with_an_older_version, without_the_last_log_row, without_a_checkpoint, without_a_shared_node,
        with_an_older_shared_node,
    ),
    "extra": (with_a_node_that_nobody_made, with_a_node_of_a_stranger, with_a_log_row_too_many),
    "wrong": (
        with_another_content, with_another_parent, with_another_state, with_another_shared_content,
        with_a_shared_version_that_nobody_made, with_another_active_node, with_another_log_row,
    ),
    "astray": (with_another_active_task, with_another_next_step, with_a_decision_less, as_if_not_interrupted),
    "disagree": (with_a_problem_of_the_index,),
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "damage"), [(kind, damage) for kind, damages in KINDS.items() for damage in damages],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)  # fmt: skip
def test_whatever_is_amiss_is_seen(lived: tuple[Entries, Seen], kind: str, damage: Callable[[Seen], None]) -> None:
    entries, seen = copy.deepcopy(lived)
    damage(seen)
    finding = judge(entries, seen)
    assert getattr(finding, kind), finding.problems
    assert finding.problems


def test_what_was_under_way_may_be_there_or_not_and_counts_as_acknowledged_from_then_on(
    lived: tuple[Entries, Seen],
) -> None:
    """The last call that was acknowledged, taken for one that never was."""
    entries, seen = copy.deepcopy(lived)
    last = max(number for number, entry in enumerate(entries) if "made" in entry)
    cut = entries[:last]
    finding = judge(cut, seen)
    assert (finding.problems, finding.whole, finding.absent) == ([], 1, 0)
    call = {
        "verb": "add",
        "given": {"content": "没有写 never written", "id": "never", "type": "event", "parent": "root"},
    }
    call["given"]["metadata"] = {}
    finding = judge([*entries[: last + 1], call], seen)
    assert (finding.problems, finding.whole, finding.absent) == ([], 0, 1)


def test_half_of_a_batch_is_no_batch(lived: tuple[Entries, Seen]) -> None:
    """What was under way is there whole or not at all. Here the first of a batch is there, and nobody was told."""
    entries, seen = copy.deepcopy(lived)
    items = [{"content": f"一批 batch {number}", "id": f"batch-{number}", "type": "event"} for number in range(3)]
    given = {"items": [{**item, "parent": "root", "metadata": {}} for item in items]}
    entries[-1] = {"verb": "add_many", "given": given}
    seen["nodes"]["batch-0"] = {**some_node(seen), "content": "一批 batch 0", "version": 1, "parent": seen["root"]}
    assert judge(entries, seen).problems


def test_a_refused_call_must_have_changed_nothing(lived: tuple[Entries, Seen]) -> None:
    entries, seen = copy.deepcopy(lived)
    last = max(number for number, entry in enumerate(entries) if "made" in entry)
    entries[last] = {"refused": "StoreBusy"}
    assert judge(entries, seen).problems


def test_two_updates_that_both_made_one_version_are_a_lost_update() -> None:
    shared = Shared({1: first_content(SHARED[0]), 2: "甲 one"})
    assert shared.problems(SHARED[0], 2, "甲 one", ()) == ([], [])
    assert shared.problems(SHARED[0], 3, "乙 two", ("乙 two",)) == ([], [])
    assert shared.problems(SHARED[0], 4, "丙 three", ())[1] != []


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A dozen nodes in a small tree, all in Chroma, closed."""
    with Memory.open(tmp_path / "store", config=QUIET) as memory:
        task = memory.start_task("报销 expenses")
        nodes = [memory.add(f"第{number}条 memory {number} marke{number}", type="fact") for number in range(10)]
        memory.move(nodes[1].id, nodes[0].id)
        memory.forget(nodes[9].id)
        memory.update(task.id, importance=0.3)
        assert memory.flush() == 0
    return tmp_path / "store"


def problems(store: Path) -> list[str]:
    with Memory.open(store, config=QUIET) as memory:
        memory.search("memory 3", k=1)  # opens the index, which brings both into agreement where it can
        connections = Connections(store)
        try:
            with connections.read() as tx:
                probes = [
                    row[0] for row in tx.execute("SELECT uid FROM node WHERE state = 'live' AND parent_id").fetchall()
                ]
                found, missed = agreement.of_chroma(memory, tx, probes)
                return [*agreement.of_database(tx, store), *found, *missed]
        finally:
            connections.close()


def test_a_sound_store_agrees_with_itself(store: Path) -> None:
    assert problems(store) == []


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE node SET path = path || '1a/' WHERE id = 4", "the path of 4"),
        ("UPDATE node SET depth = depth + 1 WHERE id = 5", "at depth"),
        ("UPDATE namespace SET nodes = nodes + 1", "are counted as"),
        ("UPDATE operation SET payload = '{}' WHERE sequence = 5", "the log is broken at 5"),
        ("DELETE FROM operation WHERE sequence = (SELECT max(sequence) FROM operation)", "changes of it"),
        ("UPDATE node SET version = version + 1 WHERE id = 6", "the log has 1 births and 0 changes"),
        ("DELETE FROM lexical WHERE rowid = 6", "other words of 6"),
        ("INSERT INTO lexical (rowid, terms) VALUES (99, '1:ghost')", "99, which is no node"),
        ("DELETE FROM embedding WHERE node_id = 7", "7 has no vector"),
        ("UPDATE embedding SET revision_id = revision_id + 1 WHERE node_id = 7", "7 has no vector"),
        (
            "UPDATE embedding SET vector = (SELECT vector FROM embedding WHERE node_id = 6) WHERE node_id = 7",
            "another vector of 7",
        ),
        ("PRAGMA foreign_keys = 0; UPDATE node SET parent_id = 98 WHERE id = 6", "foreign_key_check"),
    ],
)
def test_every_disagreement_in_the_database_is_seen(store: Path, statement: str, said: str) -> None:
    with closing(sqlite3.connect(store / "tree.db")) as raw:
        raw.executescript(statement)
    connections = Connections(store)
    try:
        with connections.read() as tx:
            assert said in "\n".join(agreement.of_database(tx, store))
    finally:
        connections.close()


def test_what_only_the_log_can_tell_is_seen_at_the_end_of_a_life(store: Path, tmp_path: Path) -> None:
    """Nothing else in the store says what the importance of a memory was: its tree is rebuilt from the log."""
    order = {"store": str(store), "agents": ["default"], "known": [], "copy": None, "whole": True}
    order |= {"out": str(tmp_path / "seen.json")}
    look(order)
    assert read(tmp_path / "seen.json")[0]["problems"] == []
    with closing(sqlite3.connect(store / "tree.db")) as raw:
        raw.execute("UPDATE node SET importance = 0.123 WHERE id = 6")
        raw.commit()
    look(order)
    (problem,) = read(tmp_path / "seen.json")[0]["problems"]
    assert problem.startswith("verify() finds")


def test_a_ghost_a_lack_and_a_wrong_vector_in_chroma_are_seen(store: Path) -> None:
    with Memory.open(store, config=QUIET) as memory:
        memory.search("memory 3", k=1)
        (index,) = memory._indexer._shared._indexes.values()  # type: ignore[union-attr]
        vectors = agreement.right_vectors("鬼 ghost")
        index.replace({77: vectors, 6: vectors})
        index.delete([7])
        connections = Connections(store)
        try:
            with connections.read() as tx:
                wrong, missed = agreement.of_chroma(memory, tx, [memory.search("memory 4", k=1)[0].id])
        finally:
            connections.close()
    found = "\n".join(wrong)
    assert "Chroma lacks 1 vectors" in found
    assert "Chroma has 1 ghosts" in found
    assert "another vector of" in found
    assert len(missed) == 1


def test_an_agent_notes_what_it_does_not_find(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads between the writes: what was acknowledged must be found at once."""
    with Memory.open(tmp_path / "store", agent=NAME, config=QUIET) as memory:
        agent = Agent(memory, Journal(tmp_path / "journal.jsonl"), made(0)[0], 1, tmp_path)
        memory.add_many([{"content": first_content(id), "id": id, "parent": "root"} for id in SHARED])
        for _ in range(12):
            agent._call(*agent._decide())
        agent._search()
        assert not [entry for entry in read(tmp_path / "journal.jsonl") if "failed" in entry]
        monkeypatch.setattr(memory, "search", lambda *given, **more: [])
        agent._search()
    assert [entry for entry in read(tmp_path / "journal.jsonl") if "failed" in entry]

"""Restoring: the memory as it was, by new operations, whole or not at all, and undone by another restore."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from hybridmem import Change, Memory
from hybridmem.embed.hashing import HashingEmbedder
from hybridmem.store import log, outbox, tree
from hybridmem.store.rebuild import rebuild
from tests.conftest import SteerableClock, configured
from tests.crash.helpers import QUIET, Child, check_database
from tests.life import Life, Step, covered, steps
from tests.restored import head, indexes_follow, is_as_it_was

OpenMemory = Callable[..., Memory]


@given(life=steps("restore", "flush", most=30))
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
def test_any_moment_of_any_life_can_be_had_back(tmp_path_factory: pytest.TempPathFactory, life: list[Step]) -> None:
    """Restored to every moment, in any order, there and forth again, with other restores in between; and the log with
    all of them replays to the same tree."""
    directory, clock = tmp_path_factory.mktemp("life"), SteerableClock()
    given: dict[str, Any] = {"config": configured({}), "embedder": HashingEmbedder(), "clock": clock}
    with Memory.open(directory, **given) as one, Memory.open(directory, agent="other", **given) as other:
        lived = Life(one, other, clock)
        seen = {head(one): covered(one)}

        def restore(to: int) -> None:
            one.restore(sequence=to)
            is_as_it_was(one, seen[to])
            assert one.restore(sequence=to).is_empty
            seen[head(one)] = covered(one)

        for step in life:
            if step[0] == "restore":
                restore(sorted(seen)[step[2] % len(seen)])
            elif step[0] == "flush":
                one.flush()
            else:
                lived.act(step)
                seen[head(one)] = covered(one)
        newest = head(one)
        for to in random.Random(len(life)).sample(sorted(seen), len(seen)):
            restore(to)
        indexes_follow(one)
        restore(newest)
        indexes_follow(one)
        found = rebuild(directory, None, directory / "again")
        assert (found.problems, found.differences, found.agree) == ((), (), True)


class TestWhatComesBack:
    def test_everything_about_a_memory(self, memory: OpenMemory, clock: SteerableClock) -> None:
        m = memory()
        task = m.start_task("报销 claims", next_step="提交")
        node = m.add("发票 first", type="fact", importance=0.5, metadata={"标签": 1})
        point = m.checkpoint("before 之前")
        clock.advance(days=1)
        m.update(node.id, content="发票 second", importance=0.9, confidence=0.1, metadata={"标签": None}, type="note")
        m.pin(node.id)
        m.move(node.id, "root")
        m.finish_task(outcome="done 完成")
        later = m.start_task("later 后来")
        m.archive(node.id)
        report = m.restore(checkpoint=point)
        back = m.get(node.id)
        for name in ("content", "importance", "confidence", "metadata", "type", "pinned", "parent_id", "state"):
            assert getattr(back, name) == getattr(node, name)
        assert (back.active_at, back.version) == (node.active_at, 6)
        again = m.active_task()
        assert again is not None
        assert (again.id, again.task) == (task.id, task.task)
        assert m.resume().active_node == back
        assert m.get(later.id).state == "forgotten"
        assert {one.id for one in report.removed} >= {later.id}
        assert [one.changes for one in report.moved] == [{"parent_id": Change(m.root().id, task.id)}]
        assert report.active == {"default": Change((later.id, later.id), (task.id, node.id))}

    def test_what_was_forgotten_as_the_undo_of_it(self, memory: OpenMemory) -> None:
        m = memory()
        top = m.add("top 顶", parent="root")
        m.add("archived", parent=top, id="kept")
        m.archive("kept")
        m.add("elsewhere", parent="root")
        done = m.forget(top.id, subtree=True)
        assert done.sequence is not None
        report = m.restore(sequence=done.sequence - 1)
        assert (m.get(top.id).state, m.get("kept").state) == ("live", "archived")
        assert [one.id for one in report.added] == [top.id, "kept"]

    def test_what_a_restore_forgot_has_its_own_state_again(self, memory: OpenMemory) -> None:
        """Both by restore_forgotten and by another restore."""
        m = memory()
        before = head(m)
        m.add("archived 归档", parent="root", id="a")
        m.archive("a")
        m.add("live 活", parent="root", id="b")
        newest = head(m)
        m.restore(sequence=before)
        m.restore_forgotten("a")
        assert (m.get("a").state, m.get("b").state) == ("archived", "forgotten")
        m.restore(sequence=newest)
        assert (m.get("a").state, m.get("b").state) == ("archived", "live")

    def test_the_words_are_found_at_once_and_the_vector_is_made_again(self, memory: OpenMemory) -> None:
        """A content that comes back has lost its vector; a memory that comes back has kept it."""
        m = memory()
        rewritten = m.add("发票 invoice", parent="root")
        kept = m.add("停机 downtime", parent="root")
        m.flush()
        before = head(m)
        m.update(rewritten.id, content="天气 weather")
        m.forget(kept.id)
        m.flush()
        m.restore(sequence=before)
        assert m.pending() == 2  # one to be embedded, one to be taken into the index again
        with m._workspace.read() as tx:
            assert outbox.embedded(tx, m._workspace.id) == 1
        assert m.search("发票 invoice")[0].id == rewritten.id
        assert m.search("天气 weather").hits == () or m.search("天气 weather")[0].content != "天气 weather"
        assert m.search("停机 downtime")[0].id == kept.id
        assert m.flush() == 0
        hit = m.search("发票 invoice")[0]
        assert (hit.id, hit.score_details.vector is not None) == (rewritten.id, True)
        indexes_follow(m)

    def test_a_vector_is_kept_where_only_metadata_comes_back(self, memory: OpenMemory) -> None:
        m = memory()
        node = m.add("发票 invoice", parent="root", metadata={"标签": 1})
        m.flush()
        before = head(m)
        m.update(node.id, metadata={"标签": 2})
        m.restore(sequence=before)
        assert m.get(node.id).metadata == {"标签": 1}
        assert m.pending() == 0
        indexes_follow(m)

    def test_the_activity_of_what_moved_away_is_where_it_was(self, memory: OpenMemory, clock: SteerableClock) -> None:
        m = memory()
        old, new = m.add("old 旧", parent="root"), m.add("new 新", parent="root")
        branch = m.add("branch", parent=old)
        clock.advance(hours=1)
        m.add("leaf 叶", parent=branch)
        active = clock.time
        clock.advance(hours=1)
        m.move(branch.id, new)
        before = head(m)
        clock.advance(hours=1)
        m.update(old.id, importance=0.9)
        m.restore(sequence=before)
        assert m.get(old.id).active_at == active

    def test_other_processes_see_it_at_once(self, memory: OpenMemory) -> None:
        """A subtree that a search keeps in memory follows: nothing forgotten by a restore comes from it."""
        m, other = memory(), memory(agent="other")
        task = m.start_task("任务 task")
        m.add("发票 one")
        before = head(m)
        late = m.add("发票 two")
        m.flush()
        assert late.id in {hit.id for hit in other.search("发票", scope=task.id)}
        m.restore(sequence=before)
        assert late.id not in {hit.id for hit in other.search("发票", scope=task.id)}
        m.restore(sequence=before + 1)
        assert late.id in {hit.id for hit in other.search("发票", scope=task.id)}

    def test_branches_that_changed_places(self, memory: OpenMemory) -> None:
        """No order of single moves leads there: each would hang a node below itself."""
        m = memory()
        a = m.add("a 甲", parent="root")
        b = m.add("b 乙", parent=a)
        c = m.add("c 丙", parent=b)
        before = head(m)
        m.move(c.id, "root")
        m.move(a.id, c.id)
        m.move(b.id, "root")
        m.move(a.id, b.id)
        m.move(b.id, c.id)
        m.restore(sequence=before)
        assert [node.id for node in m.ancestors(c.id)][1:] == [a.id, b.id]
        indexes_follow(m)

    def test_a_namespace_is_restored_alone(self, memory: OpenMemory) -> None:
        m, other = memory(), memory(namespace=("b",))
        before = head(m)
        m.add("发票")
        kept = other.add("invoice")
        m.restore(sequence=before)
        assert other.get(kept.id).state == "live"
        assert [operation.kind for operation in other.operations()] == ["namespace", "add"]

    def test_a_point_after_a_repair(self, memory: OpenMemory, clock: SteerableClock) -> None:
        """What a repair has set is in the log like everything else: from then on a branch is active where it put it."""
        m = memory()
        top = m.add("top 顶", parent="root")
        leaf = m.add("leaf 叶", parent=top)
        with m._workspace.write() as tx:
            key, root = tree.key(tx, m._workspace.id, leaf.id), m._workspace.root(tx)
            tree.move(tx, key, root, m._workspace.now())
            m._workspace.record(tx, log.REPAIR, None, {"nodes": [[leaf.id, {"version": 2, "parent": root.uid}]]})
        clock.advance(hours=1)
        m.add("below", parent=leaf)
        before, then = head(m), covered(m)
        clock.advance(hours=1)
        m.pin(top.id)
        m.move(leaf.id, top)
        m.restore(sequence=before)
        is_as_it_was(m, then)
        assert m.verify().ok


def test_what_a_log_of_an_earlier_version_does_not_say_is_reported(tmp_path: Path, clock: SteerableClock) -> None:
    """It does not say where its agent stood after any operation: only its checkpoints do."""
    (tmp_path / "tree.db").write_bytes(gzip.decompress((Path(__file__).parent / "store/schema_1.db.gz").read_bytes()))
    with Memory.open(tmp_path, config=configured({}), embedder=HashingEmbedder(), clock=clock) as m:
        task = m.active_task()
        assert task is not None
        m.add("后来 later", id="later", parent="person")
        m.update("person", content="李四 changed")
        sequence = next(one.sequence for one in m.operations() if one.node_id == "preference")
        report = m.restore(sequence=sequence)
        assert "where the agent 'default' stood" in report.unsaid[0]
        assert m.get("person").content == "用户张三，部门研发部"
        assert (m.get("later").state, m.get("long").state) == ("forgotten", "forgotten")
        active = m.resume()
        assert active.active_task is not None
        assert active.active_task.id == task.id
        assert active.active_node is None  # it was added since
        point = next(one for one in m.checkpoints() if one.reason == "task.start")
        assert m.restore(checkpoint=point).unsaid == ()
        again = m.resume()
        assert again.active_task is not None
        assert again.active_node is not None
        assert (again.active_task.id, again.active_node.id) == (task.id, task.id)


RESTORING = """
    from hybridmem.store import restoring

    changed = restoring.apply

    def apply(*given):
        changed(*given)
        say("changed")
        wait()

    restoring.apply = apply
    with Memory.open(sys.argv[1], config=QUIET) as memory:
        memory.restore(sequence=1)
"""


def test_a_kill_in_the_middle_of_a_restore_changes_nothing(tmp_path: Path) -> None:
    """Every row is written when the process dies, and none of it has happened."""
    store = tmp_path / "store"
    with Memory.open(store, config=QUIET) as m:
        task = m.start_task("任务 task")
        for number in range(50):
            m.add(f"发票 {number}")
        m.move(m.children(task.id)[0].id, "root")
        before, sequence = covered(m), head(m)
    with Child(RESTORING, store) as child:
        assert child.hear() == "changed"
        child.kill()
    check_database(store)
    with Memory.open(store, config=QUIET) as m:
        assert covered(m) == before
        assert head(m) == sequence
        assert m.restore(sequence=1).sequence == sequence + 1
        indexes_follow(m)

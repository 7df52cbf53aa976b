"""Forgetting by policy: what it promises of any store, what it never takes, what others may do meanwhile."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from life import Life, backup, covered, steps
from verified import assert_verified

from hybridmem import InvalidInput, Memory, NotFound, Policy, PruneReport
from hybridmem.embed.hashing import HashingEmbedder
from hybridmem.policies import RULES
from hybridmem.prune import Pruning
from hybridmem.store import tree
from hybridmem.tokens import token_counter

OpenMemory = Callable[..., Memory]
TEXTS = ("财务退回发票 {0}", "invoice {0} returned by finance", "R&D 部门 invoice {0} 待补")
OWN: dict[str, dict[str, Any]] = {"decay": {"threshold": 0.9}, "age": {"days": 0.001}, "random": {"seed": 3}}


def policy(name: str, **caps: Any) -> dict[str, Any]:
    return {"policy": name, **OWN.get(name, {}), **caps}


def protected(m: Memory) -> set[str]:
    """What must never go, told from what a user can read."""
    nodes = {node.id: node for node in m.walk()}
    found = {node.id for node in nodes.values() if node.pinned}
    found |= {node.id for node in nodes.values() if node.task and node.task.status in ("open", "paused")}
    with m._workspace.read() as tx:
        pointers = tx.execute(
            "SELECT n.uid FROM active a JOIN node n ON n.id IN (a.task_id, a.node_id) WHERE a.namespace_id = ?",
            (m._workspace.id,),
        ).fetchall()
    found |= {row[0] for row in pointers}
    for id in list(found):  # whatever stays holds what it hangs under
        above = nodes[id].parent_id if nodes[id].state != "forgotten" else None
        while above is not None:
            found.add(above)
            above = nodes[above].parent_id
    return {id for id in found if nodes[id].state == "live"}


def check_sound(m: Memory) -> None:
    """No orphan, and the numbers are right."""
    nodes = {node.id: node for node in m.walk()}
    for node in nodes.values():
        if node.state != "forgotten" and node.parent_id is not None:
            assert nodes[node.parent_id].state != "forgotten", "it hangs under something that is forgotten"
    by_state = m.stats().by_state
    for state in ("live", "forgotten", "archived"):
        assert by_state.get(state, 0) == sum(node.state == state and node.depth > 0 for node in nodes.values())


def filled(m: Memory, n: int = 12) -> Memory:
    """A finished task and an open one with half of the memories each, and two that hang nowhere."""
    for half in (0, 1):
        task = m.start_task(f"任务 task {half}", parent="root")
        m.add_many({"content": TEXTS[i % 3].format(i), "id": f"id{i}"} for i in range(half, n, 2))
        if half == 0:
            m.finish_task(task.id)
    m.add_many([{"content": "散 loose 一", "parent": "root", "id": "l0"}, {"content": "散 two", "parent": "root"}])
    return m


class TestAnyStore:
    @settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
    @given(life=steps(most=30), name=st.sampled_from(sorted(RULES)), most=st.integers(0, 12), batch=st.integers(1, 4))
    def test_nothing_protected_goes_and_nothing_is_left_hanging(
        self, tmp_path_factory: Any, clock: Any, life: Any, name: str, most: int, batch: int
    ) -> None:
        """Whatever was done before, with any policy: and the log can tell all of it again."""
        folder, clock = tmp_path_factory.mktemp("life"), type(clock)()
        config = {"index": {"background": False}, "forgetting": {"batch": batch}}
        one, other = (
            Memory.open(folder / "s", agent=agent, embedder=HashingEmbedder(16), clock=clock, config=config)
            for agent in ("一", "b")
        )
        with one, other:
            living = Life(one, other, clock)
            for step in life:
                living.act(step)
            clock.advance(seconds=7200)
            kept, before = protected(one), {node.id: node for node in one.walk()}
            rule = policy(name, **({} if name in ("decay", "age") else {"max_nodes": most}))
            said = one.forget(policy=rule, dry_run=True)
            assert {node.id: node for node in one.walk()} == before, "a dry run changes nothing"
            report = one.forget(policy=rule)
            assert (report.pruned, report.held, report.left) == (said.pruned, said.held, said.left)
            after = {node.id: node for node in one.walk()}
            assert after.keys() == before.keys()
            changed = {id for id in after if after[id].state != before[id].state}
            assert changed == set(report.ids)
            assert {before[id].state for id in changed} <= {"live"}
            assert not changed & kept
            assert report.left == sum(node.state == "live" and node.depth > 0 for node in after.values())
            check_sound(one)
            assert one.forget(policy=rule).pruned == (), "the target holds, or nothing more may go"
            assert_verified(one)
            found = {hit.id for query in ("发票 invoice", "任务 SMS 短信") for hit in one.search(query, 50)}
            found |= {hit.id for hit in one.context(token_budget=3000).hits}
            found |= {child.id for node in after.values() for child in one.children(node.id)}
            assert not found & changed

    @pytest.mark.parametrize("name", sorted(RULES))
    def test_what_went_is_found_nowhere_and_comes_back_as_it_was(
        self, memory: OpenMemory, name: str, tmp_path: Path, clock: Any
    ) -> None:
        """C015, by policy: Chinese, English and mixed."""
        m = filled(memory(forgetting={"batch": 2}))
        m.flush()
        clock.advance(days=2)
        before, head = covered(m), m.operations()[-1].sequence
        report = m.forget(policy=policy(name, max_nodes=9))
        gone = set(report.ids)
        assert len(gone) == 7
        assert report.left == 9
        for i in range(12):
            for text in (TEXTS[i % 3].format(i), str(i)):
                assert not gone & {hit.id for hit in m.search(text, 20)}
        assert not gone & {hit.id for hit in m.context("发票 invoice", token_budget=4000).hits}
        assert not gone & {child.id for node in m.walk() for child in m.children(node.id)}
        m.export(tmp_path / "e.jsonl")
        lines = [json.loads(line) for line in (tmp_path / "e.jsonl").read_text("utf-8").splitlines()]
        assert {line["id"] for line in lines if line.get("state") == "forgotten"} == gone
        assert_verified(m)
        m.restore(sequence=head)
        assert _without_versions(covered(m)) == _without_versions(before)


def _without_versions(rows: dict[str, dict[str, Any]]) -> list[Any]:
    return [{**row, "version": 0, "updated_at": 0} for row in rows.values()]


class TestWhatIsProtected:
    def test_each_of_it_stays_and_is_told_with_the_way_out(self, memory: OpenMemory) -> None:
        m = memory()
        paused = m.start_task("停 paused")
        m.update_task(paused.id, status="paused")
        claimed = m.start_task("占 claimed", parent="root")
        m.claim_task(claimed.id)
        done = m.start_task("完 done", parent="root")
        m.add("里 inside", id="inside")
        m.finish_task(done.id)
        pinned = m.pin(m.add("钉 pinned", parent="inside", id="pin").id)
        other = memory(agent="李四")
        other.start_task("别 elsewhere", parent="root")
        other.add("正在 at work", id="work")
        m.add("自由 free", parent="root", id="free")
        m.add("末 last", parent="root", id="last")
        report = m.forget(policy="decay", dry_run=True)
        report = m.forget(policy={"policy": "newest", "max_nodes": 0})
        assert report.ids == ("free",)
        told = {one.id: one.reason for one in report.held}
        assert "is pinned; call pin('pin', False) first" in told[pinned.id]
        assert "not finished (paused)" in told[paused.id]
        assert "claimed" in told[claimed.id]
        assert "where agent '李四' wrote last" in told["work"]
        assert "where agent 'default' wrote last" in told["last"]
        assert done.id not in told, "it is held by what hangs below it, not by itself"
        assert m.get("inside").state == "live"

    def test_archived_and_superseded_stay_and_hold_what_they_hang_under(self, memory: OpenMemory) -> None:
        m = memory()
        m.add("上 above", parent="root", id="above")
        m.add("下 below", parent="above", id="below")
        m.add("末 last", parent="root")
        m.archive("below")
        assert m.forget(policy={"policy": "newest", "max_nodes": 0}).ids == ()
        assert (m.get("above").state, m.get("below").state) == ("live", "archived")

    def test_what_others_have_changed_since_it_was_chosen_stays(self, memory: OpenMemory, monkeypatch: Any) -> None:
        """Between the choice and the transaction anything may happen; all of it counts."""
        m, other = memory(forgetting={"batch": 3}), memory(agent="李四")
        m.add_many({"content": TEXTS[i % 3].format(i), "parent": "root", "id": f"id{i}"} for i in range(9))
        m.add("末 last", parent="root")
        plan = Pruning._plan

        def stand(who: Memory, id: str) -> None:
            """As a restore lets an agent stand where it stood, which is no change of the node."""
            with who._workspace.write() as tx:
                who._workspace.point(tx, None, tree.key(tx, who._workspace.id, id))

        todo = [
            lambda: other.pin("id0"), lambda: other.pin(other.add("新 new below", parent="id1").id),
            lambda: other.update("id2", content="改 changed"), lambda: other.move("id3", "id8"),
            lambda: other.forget("id4"), lambda: other.archive("id5"),
            lambda: other.add("别处 elsewhere", parent="root"), lambda: stand(memory(agent="王五"), "id6"),
        ]  # fmt: skip

        def then(*given: Any) -> Any:
            found = plan(*given)
            threads = [threading.Thread(target=action) for action in todo]
            for thread in threads:  # another handle's writes, while this one reads
                thread.start()
                thread.join()
            todo.clear()
            return found

        monkeypatch.setattr(Pruning, "_plan", then)
        report = m.forget(policy={"policy": "newest", "max_nodes": 2}, limit=8)
        states = {f"id{i}": m.get(f"id{i}").state for i in range(9)}
        assert states["id0"] == "live"
        assert states["id1"] == "live"
        assert states["id6"] == "live"
        assert "id4" not in report.ids
        assert states["id5"] == "archived"
        check_sound(m)
        assert_verified(m)
        assert m.get("id2").state == "forgotten", "chosen again, as it is now"


class TestTargets:
    @pytest.mark.parametrize("name", ["least_weight", "least_recently_used", "newest", "random"])
    def test_a_share_is_of_what_there_was(self, memory: OpenMemory, name: str) -> None:
        m = filled(memory(), 16)
        report = m.forget(policy=policy(name, max_share=0.6))
        assert (len(report.pruned), report.left) == (8, 12), "of 20; 60 % may be left"

    def test_tokens_are_those_of_the_contents(self, memory: OpenMemory) -> None:
        m = filled(memory(), 16)
        m.forget(policy={"policy": "newest", "max_tokens": 60})
        left = [node for node in m.walk() if node.depth and node.state == "live"]
        assert sum(token_counter().count(node.content) for node in left) <= 60
        assert len(left) > 3

    def test_types_and_subtree_limit_what_goes_and_what_is_counted(self, memory: OpenMemory) -> None:
        m = filled(memory())
        task = m.start_task("第三 third", parent="root")
        for i in range(6):
            m.add(TEXTS[i % 3].format(90 + i), type=("event", "fact")[i % 2], id=f"in{i}")
        m.add("末 last", parent="root")
        rule = {"policy": "newest", "max_nodes": 1, "types": ["event"], "within": task.id}
        assert m.forget(policy=rule).ids == ("in0", "in2")
        assert m.forget(policy={"policy": "newest", "max_nodes": 2}, within=task.id).ids == ("in1", "in3")
        assert m.get(task.id).state == "live"

    def test_a_list_is_done_in_order_and_the_limit_is_for_all_of_it(self, memory: OpenMemory, clock: Any) -> None:
        m = filled(memory())
        clock.advance(days=2)
        m.add("今 today", parent="root")
        rules = [Policy(policy="age", days=1, types=("note",), max_nodes=10), policy("newest", max_nodes=6)]
        dry = m.forget(policy=rules, dry_run=True)
        assert [one.policy for one in dry.pruned] == ["age"] * 5 + ["newest"] * 6
        assert m.forget(policy=rules, limit=7).pruned == dry.pruned[:7]
        assert m.forget(policy=rules, limit=0).pruned == ()

    def test_what_is_configured_is_done_by_that_word(self, memory: OpenMemory, refused: Any) -> None:
        m = filled(memory(forgetting={"policies": [{"policy": "newest", "max_nodes": 9}]}))
        assert m.forget(policy="configured").left == 9
        empty = memory("other")
        with refused(empty, InvalidInput, "forgetting.policies, and there are none"):
            empty.forget(policy="configured")

    def test_nothing_to_do_is_said_and_nothing_is_written(self, memory: OpenMemory, rows: Any) -> None:
        m = filled(memory())
        before = rows(m)
        report = m.forget(policy={"policy": "newest", "max_nodes": 100})
        assert (report.pruned, report.sequences, report.left) == ((), (), 16)
        assert report.note.startswith("nothing changed")
        assert rows(m) == before


class TestTheLog:
    def test_each_transaction_is_bounded_and_one_entry_that_says_the_policy(self, memory: OpenMemory) -> None:
        m = filled(memory(forgetting={"batch": 3}))
        report = m.forget(policy={"policy": "least_weight", "max_nodes": 5})
        entries = [one for one in m.operations() if one.kind == "forget"]
        assert [one.sequence for one in entries] == list(report.sequences)
        assert [len(one.payload["states"]) for one in entries] == [3, 3, 3, 2]
        assert {tuple(one.payload["policy"].items()) for one in entries} == {
            (("max_nodes", 5), ("policy", "least_weight"))
        }
        assert {id for one in entries for id, *_ in one.payload["states"]} == set(report.ids)
        assert m.history(report.ids[0])[-1].changes["state"].after == "forgotten"

    def test_it_names_the_nearest_node_above_all_that_went(self, memory: OpenMemory) -> None:
        """So that whoever keeps another subtree in memory need not read it anew, and whoever keeps this one does."""
        m = filled(memory())
        task = m.tasks(["done"])[0]
        for id in (task.id, m.active_task().id):  # type: ignore[union-attr]
            m.search("发票 invoice", scope=id)
        report = m.forget(policy={"policy": "newest", "max_nodes": 2}, within=task.id)
        assert m.operations()[-1].node_id == task.id
        assert not set(report.ids) & {hit.id for hit in m.search("发票 invoice", 20, scope=task.id)}
        single = m.forget(policy={"policy": "newest", "max_nodes": 1}, within=task.id)
        assert m.operations()[-1].node_id == single.ids[0]

    def test_a_backup_from_before_and_the_log_since_give_the_same(self, memory: OpenMemory, tmp_path: Path) -> None:
        m = filled(memory(forgetting={"batch": 4}))
        backup(m, tmp_path / "b.db")
        m.forget(policy={"policy": "random", "max_nodes": 4})
        assert m.verify(replay=True).ok


class TestWhileOthersWrite:
    def test_they_get_in_between_and_every_search_is_right(self, tmp_path: Path) -> None:
        """2,000 of 4,000 in batches of 100, while another handle adds and searches: no write fails, and nothing that
        was reported gone is found after it was."""
        config = {"index": {"background": False}, "forgetting": {"batch": 100}, "store": {"busy_timeout_seconds": 5.0}}
        m, other = (Memory.open(tmp_path / "s", embedder=HashingEmbedder(8), agent=a, config=config) for a in "mo")
        with m, other:
            m.add_many({"content": TEXTS[i % 3].format(i), "parent": "root", "id": f"id{i}"} for i in range(4000))
            other.start_task("写 writing")
            written: list[str] = []
            stop = threading.Event()
            failed: list[BaseException] = []

            def write() -> None:
                try:
                    while not stop.is_set() or not written:
                        written.append(other.add(f"新 new {len(written)}").id)
                        live = {hit.node.state for hit in other.search("发票 invoice 部门", 5)}
                        assert live <= {"live"}
                except BaseException as error:
                    failed.append(error)

            thread = threading.Thread(target=write)
            thread.start()
            report = m.forget(policy={"policy": "newest", "max_nodes": 2000}, limit=2000)
            stop.set()
            thread.join()
            assert failed == []
            assert len(report.sequences) >= 20
            assert set(report.ids) == {f"id{i}" for i in range(2000)}
            assert all(m.get(id).state == "live" for id in written)
            assert not {hit.id for hit in other.search("发票 invoice", 200)} & set(report.ids)


class TestSelectors:
    def test_a_mix_is_refused_and_nothing_goes(self, memory: OpenMemory, refused: Any) -> None:
        """C017: no id is passed over for a broader selector, and no parameter is dropped."""
        m = filled(memory())
        call: Any = m.forget
        rule = {"policy": "newest", "max_nodes": 0}
        for mix, said in (
            ({"id": "id1", "policy": rule}, "either an id or policy="),
            ({}, "either an id or policy="),
            ({"policy": rule, "subtree": True}, "subtree: belongs to an id"),
            ({"id": "id1", "within": "id2"}, "within: belongs to policy="),
            ({"id": "id1", "limit": 3}, "limit: belongs to policy="),
            ({"policy": {**rule, "within": "id1"}, "within": "id2"}, "within: the policy 'newest' has its own"),
            ({"policy": {**rule, "user": "张三"}}, "unknown parameter 'user'"),
            ({"policy": []}, "the list is empty"),
            ({"policy": 7}, "must be the name of a policy"),
            ({"policy": [rule, "no such"]}, "policy: "),
            ({"policy": rule, "limit": -1}, "limit: "),
            ({"policy": rule, "dry_run": "yes"}, "dry_run: "),
            ({"policy": rule, "within": 7}, "within: "),
        ):
            with refused(m, InvalidInput, said):
                call(**mix)
        with pytest.raises(TypeError):
            call(policy=rule, older_than=3)
        with refused(m, NotFound, "没有"):
            m.forget(policy=rule, within="没有")

    def test_another_namespace_is_not_touched(self, memory: OpenMemory) -> None:
        m, other = filled(memory()), filled(memory(namespace=("李四",)))
        m.forget(policy={"policy": "newest", "max_nodes": 0})
        assert other.stats().by_state.get("forgotten", 0) == 0


def test_the_reply_is_one_value_of_plain_parts(memory: OpenMemory) -> None:
    report = filled(memory()).forget(policy={"policy": "least_weight", "max_nodes": 13}, dry_run=True)
    assert isinstance(report, PruneReport)
    data = json.loads(json.dumps(report.to_dict()))
    assert (data["ids"], data["count"], data["dry_run"]) == (list(report.ids), 3, True)
    first = report.pruned[0]
    assert (first.id, first.policy) == ("l0", "least_weight")
    assert "under no task" in first.reason
    assert 0.0 <= first.retention <= 1.0


def test_what_is_wrong_is_named_by_what_the_caller_calls_it(memory: OpenMemory) -> None:
    m = memory()
    with pytest.raises(NotFound, match=r"^within: there is no node 'nobody'"):
        m.forget(policy={"policy": "newest", "max_nodes": 1}, within="nobody")
    with pytest.raises(NotFound, match=r"^within: there is no node 'nobody'"):
        m.near_duplicates("nobody")
    with pytest.raises(InvalidInput, match=r"^policy: (?!policy:)"):
        m.forget(policy="nothing such")

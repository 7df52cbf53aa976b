"""The log is enough: replayed from nothing or from any backup it gives the very tree that is there."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from hybridmem import Memory, StoreDamaged
from hybridmem.embed.hashing import HashingEmbedder
from hybridmem.store import digest, lexical, outbox
from hybridmem.store.connect import Connections
from hybridmem.store.rebuild import Rebuilt, rebuild
from hybridmem.store.replay import replay
from hybridmem.text import terms
from tests.conftest import SteerableClock, configured
from tests.life import Life, Step, backup, steps

OpenMemory = Callable[..., Memory]
OLD = Path(__file__).with_name("schema_1.db.gz")


def opened(directory: Path, clock: SteerableClock, **given: Any) -> Memory:
    return Memory.open(directory, config=configured({}), embedder=HashingEmbedder(), clock=clock, **given)


def must_agree(found: Rebuilt) -> Rebuilt:
    assert found.problems == ()
    assert found.differences == ()
    assert found.live == found.replayed
    return found


def edit(store: Path, statement: str, *values: Any) -> None:
    with closing(sqlite3.connect(store / "tree.db")) as database, database:
        assert database.execute(statement, values).rowcount > 0


@given(life=steps("back"))
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
def test_whatever_happened_the_log_replayed_is_the_tree(
    tmp_path_factory: pytest.TempPathFactory, life: list[Step]
) -> None:
    """After every step a copy that follows the log entry by entry is the same; and at the end so is one made from
    nothing, and one made from a backup of any moment."""
    directory, clock = tmp_path_factory.mktemp("life"), SteerableClock()
    follower = Connections(directory / "follower", durability="process")
    with opened(directory / "s", clock) as one, opened(directory / "s", clock, agent="other") as other:
        lived = Life(one, other, clock)
        backups = []
        for number, step in enumerate(life):
            lived.act(step)
            if number % 8 == 3:
                backups.append(backup(one, directory / f"backup-{number}"))
            with one._workspace.read() as live:
                with follower.write() as tx:
                    assert replay(live, tx).problems == ()
                with follower.read() as tx:
                    assert digest.differences(live, tx) == []
                    assert digest.digest(live) == digest.digest(tx)
        must_agree(rebuild(one.path, None, directory / "from nothing"))
        for number, file in enumerate(backups):
            must_agree(rebuild(one.path, file, directory / f"from {number}"))
    follower.close()


class TestEveryKind:
    def test_two_namespaces_and_what_was_imported_with_its_past(self, tmp_path: Path, clock: SteerableClock) -> None:
        """An import brings versions, times, agents and everybody's active pointers, and a root of another id."""
        with opened(tmp_path / "s", clock) as one, opened(tmp_path / "s", clock, namespace=("客户", "b")) as two:
            task = one.start_task("报销 claims", next_step="提交")
            one.add("发票 invoice", type="fact", metadata={"标签": 1})
            one.add("发票 invoice", type="fact")
            clock.advance(days=3)
            one.add("退回 returned", type="decision")
            one.update(task.id, importance=0.3)
            one.export(tmp_path / "file.jsonl")
            one.export(tmp_path / "file.json", format="tree")
            file = backup(one, tmp_path / "backup")
            clock.advance(days=3)
            two.import_(tmp_path / "file.jsonl")
            two.finish_task(outcome="done 完成")
            one.add("更多 more")
            with opened(tmp_path / "s", clock, namespace=("c",), agent="某人") as three:
                three.add("自己的 own")
                three.import_(tmp_path / "file.json")
        for start in (None, file):
            found = must_agree(rebuild(tmp_path / "s", start, tmp_path / f"t {start is None}"))
            assert found.operations > 10
        with opened(tmp_path / "t True", clock, namespace=("客户", "b")) as again:
            assert again.get(task.id).version == 3
            assert again.active_task() is None
            assert [node.content for node in again.children(task.id)] == ["发票 invoice", "退回 returned", "done 完成"]

    def test_an_import_of_nothing_but_a_root_is_in_the_log(self, tmp_path: Path, clock: SteerableClock) -> None:
        """It gives the root another id and sets pointers, though it adds no memory."""
        with opened(tmp_path / "s", clock) as one, opened(tmp_path / "s", clock, namespace=("b",)) as two:
            task = one.start_task("任务")
            one.finish_task()
            one.forget(task.id)
            lines = [json.loads(line) for line in _export(one, tmp_path).splitlines()]
            (tmp_path / "root.jsonl").write_text(
                "\n".join(json.dumps(line) for line in lines if line.get("type") != "task"), encoding="utf-8"
            )
            two.import_(tmp_path / "root.jsonl")
            assert two.root().id == one.root().id
        must_agree(rebuild(tmp_path / "s", None, tmp_path / "t"))

    def test_a_branch_moved_below_what_was_added_later(self, tmp_path: Path, clock: SteerableClock) -> None:
        """Replayed together the parent has a higher id than its child, whose whole branch gets other paths."""
        with opened(tmp_path / "s", clock) as one:
            top = one.add("top 顶", parent="root")
            leaf = one.add("leaf 叶", parent=one.add("middle", parent=top))
            file = backup(one, tmp_path / "backup")
            late = one.add("late 晚", parent="root")
            deep = one.add("deep", parent=late)
            one.move(top.id, deep)
            one.add("below the leaf", parent=leaf.id)
            one.move(deep.id, "root")
        for start in (None, file):
            must_agree(rebuild(tmp_path / "s", start, tmp_path / f"t {start is None}"))
            with opened(tmp_path / f"t {start is None}", clock) as again:
                assert [node.content for node in again.ancestors(leaf.id)][1:] == ["deep", "top 顶", "middle"]
                assert len(again.children(leaf.id)) == 1

    def test_what_moved_away_leaves_its_activity_where_it_was(self, tmp_path: Path, clock: SteerableClock) -> None:
        with opened(tmp_path / "s", clock) as one:
            old, new = one.add("old 旧", parent="root"), one.add("new 新", parent="root")
            branch = one.add("branch", parent=old)
            clock.advance(hours=1)
            one.add("leaf 叶", parent=branch)
            active = clock.time
            clock.advance(hours=1)
            one.move(branch.id, new)
            assert (one.get(old.id).active_at, one.get(new.id).active_at) == (active, clock.time)
        must_agree(rebuild(tmp_path / "s", None, tmp_path / "t"))

    def test_a_deep_chain_of_5000(self, tmp_path: Path, clock: SteerableClock) -> None:
        with opened(tmp_path / "s", clock) as one:
            items = [{"content": f"第 {n} step", "parent": n - 1} for n in range(1, 5000)]
            nodes = one.add_many([{"content": "top", "parent": "root"}, *items])
            other = one.add("elsewhere", parent="root")
            one.move(nodes[2].id, other)
            one.restore(sequence=1)
            one.restore(sequence=one.operations()[-2].sequence)
        must_agree(rebuild(tmp_path / "s", None, tmp_path / "t"))


def _export(memory: Memory, directory: Path) -> str:
    memory.export(directory / "whole.jsonl")
    return (directory / "whole.jsonl").read_text(encoding="utf-8")


class TestTheRebuiltStore:
    def test_it_is_searched_as_the_old_one_was_and_written_on(self, tmp_path: Path, clock: SteerableClock) -> None:
        """Lexical index, lengths, speakers, vectors and checkpoints are there: it can take the place of a lost one."""
        with opened(tmp_path / "s", clock) as one:
            one.start_task("报销 claims")
            one.add("user: 发票 invoice 退回", type="event")
            gone = one.add("weather 天气", type="note")
            file = backup(one, tmp_path / "backup")
            one.add("发票 invoice 第二张", type="event")
            one.update(gone.id, content="天晴 sunny")
            one.flush()
            one.checkpoint("named 命名")
            expected = [(hit.id, hit.score) for hit in one.search("发票 invoice")]
            nodes, points = list(one.walk()), one.checkpoints()
        must_agree(rebuild(tmp_path / "s", file, tmp_path / "t", searchable=True))
        with opened(tmp_path / "t", clock) as again:
            assert list(again.walk()) == nodes
            assert again.checkpoints() == points
            with again._workspace.read() as tx:
                assert outbox.embedded(tx, again._workspace.id) == len(nodes) - 1  # none is made again
                for node, number in tx.execute("SELECT uid, id FROM node WHERE depth > 0").fetchall():
                    assert lexical.indexed(tx, number) == terms(again.get(node).content)
            assert again.flush() == 0
            assert [(hit.id, hit.score) for hit in again.search("发票 invoice")] == expected
            assert again.search("weather 天气", k=9).hits[0].content == "天晴 sunny"
            again.add("继续 carry on")
            assert again.operations()[-1].sequence == len(again.operations())

    def test_what_only_the_store_or_only_the_log_has_is_named(self, tmp_path: Path, clock: SteerableClock) -> None:
        """The digests differ as soon as one value in the tree is another one than the log says."""
        edits = {
            "importance is 0.25 in the store and 0.5 by the log": "UPDATE node SET importance = 0.25 WHERE uid = 'a'",
            "content is '假' in the store": "UPDATE revision SET content = '假' WHERE content = '发票 a'",
            "next_step is 'x' in the store": "UPDATE task SET next_step = 'x'",
            "active node": "UPDATE active SET node_id = 1",
            "state is 'forgotten' in the store and 'live'": "UPDATE node SET state = 'forgotten' WHERE uid = 'a'",
            "node b is in the log, but not in the store": "UPDATE node SET uid = 'c' WHERE uid = 'b'",
            "the order of the nodes": "UPDATE node SET id = 99, path = '/x/' WHERE uid = 'a'",
        }
        for number, (expected, statement) in enumerate(edits.items()):
            with opened(tmp_path / f"s{number}", clock) as one:
                one.start_task("任务", next_step="一")
                one.add("发票 a", id="a", importance=0.5)
                one.add("note b", id="b")
                file = backup(one, tmp_path / f"backup{number}")
                one.pin("b")
                before = must_agree(rebuild(one.path, file, tmp_path / f"before{number}"))
            edit(tmp_path / f"s{number}", statement)
            # A content is in the log by reference only: an edited one shows against a backup.
            found = rebuild(tmp_path / f"s{number}", file, tmp_path / f"after{number}")
            assert not found.agree
            assert found.replayed == before.replayed
            assert any(expected in one for one in found.differences), (expected, found.differences)

    def test_a_backup_of_another_history_is_refused(self, tmp_path: Path, clock: SteerableClock) -> None:
        with opened(tmp_path / "s", clock) as one, opened(tmp_path / "other", clock) as other:
            one.add("发票")
            other.add("invoice")
            file = backup(other, tmp_path / "backup")
        with pytest.raises(StoreDamaged, match="not an earlier state of this store"):
            rebuild(tmp_path / "s", file, tmp_path / "t")
        with opened(tmp_path / "s", clock) as one:
            late = backup(one, tmp_path / "late")
            one.add("more")
        with closing(sqlite3.connect(late)) as database, database:
            database.execute("UPDATE operation SET hash = 'sha256:0' WHERE sequence = 2")
        with pytest.raises(StoreDamaged, match="not an earlier state"):
            rebuild(tmp_path / "s", late, tmp_path / "t2")

    def test_a_content_that_is_gone_is_reported(self, tmp_path: Path, clock: SteerableClock) -> None:
        with opened(tmp_path / "s", clock) as one:
            node = one.add("发票")
            one.update(node.id, content="第二 second")
        edit(tmp_path / "s", "DELETE FROM revision WHERE content = '发票'")
        found = rebuild(tmp_path / "s", None, tmp_path / "t")
        assert len(found.problems) == 1
        assert f"the content of {node.id} (revision 2) is not there any more" in found.problems[0]
        assert found.agree  # it is not the current one

    def test_the_source_and_the_backup_are_only_read(self, tmp_path: Path, clock: SteerableClock, rows: Any) -> None:
        with opened(tmp_path / "s", clock) as one:
            one.add("发票")
            file = backup(one, tmp_path / "backup")
            one.add("more")
            before, bytes_before = rows(one), file.read_bytes()
            must_agree(rebuild(one.path, file, tmp_path / "t", searchable=True))
            assert rows(one) == before
            assert file.read_bytes() == bytes_before


class TestLogsOfEarlierVersions:
    def test_what_they_say_is_replayed_and_what_they_do_not_is_reported(self, tmp_path: Path) -> None:
        """An entry used not to say where its agent stands then: that is named, and not made up."""
        (tmp_path / "s").mkdir()
        (tmp_path / "s" / "tree.db").write_bytes(gzip.decompress(OLD.read_bytes()))
        found = rebuild(tmp_path / "s", None, tmp_path / "t")
        assert len(found.problems) == 2
        assert "where the agent 'default' stands is not known" in found.problems[0]
        assert "operations up to 6 were logged by an earlier version, in which the times" in found.problems[1]
        assert all("agent 'default'" in one or "_at is" in one for one in found.differences), found.differences
        assert found.differences

    def test_the_first_new_entry_says_where_its_agent_stands(self, tmp_path: Path, clock: SteerableClock) -> None:
        (tmp_path / "s").mkdir()
        (tmp_path / "s" / "tree.db").write_bytes(gzip.decompress(OLD.read_bytes()))
        with opened(tmp_path / "s", clock) as memory:
            file = backup(memory, tmp_path / "backup")
            memory.add("新的 new")
        found = rebuild(tmp_path / "s", None, tmp_path / "t")
        assert [one for one in found.problems if "stands" in one] == []
        assert [one for one in found.differences if "agent 'default'" in one] == []
        must_agree(rebuild(tmp_path / "s", file, tmp_path / "t2"))

    def test_an_import_that_an_earlier_version_logged_is_reported(self, tmp_path: Path, clock: SteerableClock) -> None:
        with opened(tmp_path / "s", clock) as one, opened(tmp_path / "s", clock, namespace=("b",)) as two:
            node = one.add("发票", type="fact")
            one.add("发票", type="fact")
            one.export(tmp_path / "file.jsonl")
            two.import_(tmp_path / "file.jsonl")
        without = "$.version', '$.active', '$.created_at', '$.updated_at', '$.active_at', '$.agent"
        edit(tmp_path / "s", f"UPDATE operation SET payload = json_remove(payload, '{without}')")
        found = rebuild(tmp_path / "s", None, tmp_path / "t")
        assert any("of the 1 nodes" in one and "(import)" in one for one in found.problems), found.problems
        assert any(f"{node.id}: version is 2 in the store and 1" in one for one in found.differences)

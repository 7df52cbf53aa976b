"""The statements of the store, each on a real database: tree, log, lexical index, outbox, pointers, rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybridmem import Memory
from hybridmem.store import lexical, log, outbox, points, tree
from hybridmem.store.paths import ids_on_paths, path_below, path_ids, path_segment
from hybridmem.store.rows import content_key, dump, from_micros, new_uid, subtree_range, to_micros
from hybridmem.text import terms

OpenMemory = Callable[..., Memory]


class TestRows:
    @given(st.datetimes(timezones=st.just(timezone.utc)))
    def test_every_moment_comes_back_exactly(self, moment: datetime) -> None:
        assert from_micros(to_micros(moment)) == moment

    def test_moments_before_1970_and_the_ends_of_time(self) -> None:
        ends = (datetime.min, datetime.max, datetime(1969, 12, 31, 23, 59, 59, 999_999))
        for moment in ends:
            aware = moment.replace(tzinfo=timezone.utc)
            assert from_micros(to_micros(aware)) == aware
        assert to_micros(datetime(1970, 1, 1, 8, tzinfo=timezone(timedelta(hours=8)))) == 0

    def test_the_same_value_gives_the_same_json(self) -> None:
        assert dump({"b": 1, "a": "中文"}) == dump({"a": "中文", "b": 1}) == '{"a":"中文","b":1}'

    def test_ids_are_16_letters_and_digits_and_never_alike(self) -> None:
        found = {new_uid() for _ in range(5000)}
        assert len(found) == 5000
        assert all(len(one) == 16 and one.isalnum() and one == one.lower() for one in found)

    def test_contents_are_alike_only_byte_for_byte(self) -> None:
        texts = ["发票", "发票 ", "é", "e\u0301", "a", "A"]
        assert len({content_key(text) for text in texts}) == len(texts)
        assert content_key("发票") == content_key("发票")


class TestPaths:
    @given(st.lists(st.integers(1, 2**40), min_size=2, max_size=40, unique=True))
    def test_their_text_order_is_the_order_of_insertion(self, ids: list[int]) -> None:
        paths = [f"/11/{path_segment(one)}" for one in ids]
        assert [path_ids(path)[1] for path in sorted(paths)] == sorted(ids)

    @given(st.lists(st.integers(1, 10**6), min_size=1, max_size=5), st.lists(st.integers(1, 10**6), max_size=5))
    def test_a_range_holds_the_node_and_what_is_below_it(self, above: list[int], below: list[int]) -> None:
        path = "/" + "".join(path_segment(one) for one in above)
        longer = path + "".join(path_segment(one) for one in below)
        low, high = subtree_range(path)
        assert low <= longer < high
        beside = "/" + "".join(path_segment(one) for one in [*above[:-1], above[-1] + 1])
        assert not low <= beside < high
        assert path_ids(longer) == [*above, *below]

    @given(st.lists(st.integers(0, 10**3), max_size=60))
    def test_what_some_paths_name_together_is_what_each_of_them_names(self, above: list[int]) -> None:
        """Of a tree in which each node hangs under one of the earlier ones; the root alone too."""
        paths = ["/" + path_segment(1)]
        for number, parent in enumerate(above, 2):
            paths.append(path_below(paths[parent % len(paths)], number))
        for some in (paths[::2], paths[::-3], paths[:1], []):
            assert ids_on_paths(some) == {one for path in some for one in path_ids(path)}

    @pytest.mark.parametrize(
        ("content", "expected"),
        [
            ("标题\n正文", "标题"),
            ("\n  \n  second 行 \n", "second 行"),
            ("x" * 121, "x" * 119 + "…"),
            ("中" * 120, "中" * 120),
        ],
    )
    def test_a_title_is_the_first_line_that_says_something(self, content: str, expected: str) -> None:
        assert tree.title(content) == expected


class TestTree:
    def test_the_store_itself_refuses_what_the_api_would(self, memory: OpenMemory) -> None:
        m = memory()
        node = m.add("节点")
        with m._workspace.read() as tx:
            key = tree.key(tx, m._workspace.id, node.id)
        for column, value in (("importance", 1.5), ("confidence", float("nan")), ("state", "gone"), ("uses", -1)):
            with pytest.raises(Exception, match=r"constraint|datatype"), m._workspace.write() as tx:
                tree.change(tx, key, 0, **{column: value})
        with pytest.raises(Exception, match="FOREIGN KEY"), m._workspace.write() as tx:
            tree.change(tx, key, 0, parent_id=10**9)
        assert m.get(node.id) == node

    def test_a_loop_made_by_raw_sql_does_not_hang_a_reader(self, memory: OpenMemory) -> None:
        m = memory()
        a = m.add("甲")
        b = m.add("乙", parent=a)
        with sqlite3.connect(m.path / "tree.db") as conn:
            conn.execute("UPDATE node SET parent_id = (SELECT id FROM node WHERE uid = ?) WHERE uid = ?", (b.id, a.id))
            conn.execute("UPDATE node SET parent_id = id WHERE uid = ?", (b.id,))
        conn.close()
        assert len(list(m.walk())) == 3
        assert [node.id for node in m.ancestors(b.id)] == [m.root().id, a.id]
        assert len(m.search("甲 乙")) == 2
        assert m.context("甲").tokens > 0
        assert m.resume().active_node is not None

    def test_touch_never_goes_back(self, memory: OpenMemory, clock: Any) -> None:
        m = memory()
        node = m.add("节点")
        with m._workspace.write() as tx:
            key = tree.key(tx, m._workspace.id, node.id)
            tree.touch(tx, {key.path: 5})
        assert m.get(node.id).active_at == clock.time
        with m._workspace.write() as tx:
            tree.touch(tx, {key.path: to_micros(clock.time) + 7, "/" + key.path.split("/")[1] + "/": 3})
        assert m.get(node.id).active_at == m.root().active_at == clock.time + timedelta(microseconds=7)

    def test_a_walk_in_pages_has_no_gap_and_no_repeat(self, memory: OpenMemory) -> None:
        m = memory()
        m.add_many({"content": f"{i}", **({"parent": i // 3} if i > 2 else {})} for i in range(60))
        whole = [node.id for node in m.walk()]
        with m._workspace.read() as tx:
            root, after, found = tree.root(tx, m._workspace.id), "", []
            while page := tree.walk(tx, root, after=after, limit=7):
                after = page[-1][0]
                found += [node.id for _, node in page]
        assert found == whole
        assert len(set(whole)) == 61

    def test_counting_stops_at_the_limit(self, memory: OpenMemory) -> None:
        m = memory()
        m.add_many({"content": f"{i}"} for i in range(9))
        with m._workspace.read() as tx:
            path = tree.root(tx, m._workspace.id).path
            assert [tree.count_below(tx, path, limit) for limit in (1, 5, 10, 50)] == [1, 5, 10, 10]


class TestLog:
    def filled(self, memory: OpenMemory) -> Memory:
        m = memory()
        for i in range(5):
            m.add(f"第 {i} 条")
        return m

    def broken_at(self, m: Memory) -> int | None:
        with m._workspace.read() as tx:
            return log.broken_at(tx, m._workspace.id)

    @pytest.mark.parametrize(
        ("damage", "place"),
        [
            ("UPDATE operation SET payload = '{}' WHERE sequence = 3", 3),
            ("UPDATE operation SET agent = 'somebody' WHERE sequence = 4", 4),
            ("UPDATE operation SET at = at + 1 WHERE sequence = 2", 2),
            ("UPDATE operation SET kind = 'pin' WHERE sequence = 6", 6),
            ("UPDATE operation SET node_uid = NULL WHERE sequence = 5", 5),
            ("UPDATE operation SET hash = 'sha256:0' WHERE sequence = 1", 1),
            ("DELETE FROM operation WHERE sequence = 3", 3),
            ("DELETE FROM operation WHERE sequence = 1", 1),
            ("UPDATE operation SET sequence = 100 - sequence", 1),
        ],
    )
    def test_any_edit_breaks_the_chain_where_it_was_made(self, memory: OpenMemory, damage: str, place: int) -> None:
        m = self.filled(memory)
        assert self.broken_at(m) is None
        with sqlite3.connect(m.path / "tree.db") as conn:
            conn.execute(damage)
        conn.close()
        assert self.broken_at(m) == place

    def test_an_entry_rewritten_with_its_own_hash_made_right_is_betrayed_by_the_next(self, memory: OpenMemory) -> None:
        """What chaining is for: whoever changes one entry would have to change all that follow."""
        m = self.filled(memory)
        with m._workspace.write() as tx:
            before = tx.execute("SELECT hash FROM operation WHERE sequence = 2").fetchone()[0]
            row = tx.execute("SELECT kind, node_uid, at, payload_hash FROM operation WHERE sequence = 3").fetchone()
            forged = log.chained(before, 3, row[0], row[1], "somebody", row[2], row[3])
            tx.execute("UPDATE operation SET agent = 'somebody', hash = ? WHERE sequence = 3", (forged,))
        assert self.broken_at(m) == 4

    def test_the_head_is_the_hash_of_the_last_entry_and_no_two_are_alike(self, memory: OpenMemory) -> None:
        m = self.filled(memory)
        with m._workspace.read() as tx:
            sequence, head = log.head(tx, m._workspace.id)
        assert sequence == 6
        assert head == m.operations()[-1].hash
        assert head.startswith("sha256:")
        assert len({op.hash for op in m.operations()}) == 6


class TestLexical:
    def test_the_index_holds_exactly_the_terms_of_a_text(self, memory: OpenMemory) -> None:
        m = memory()
        texts = ['发票 "quoted" AND NOT (x) ERR_42', "😀 it's /usr/bin/é 95%", "`a` [b] {c} ^d ~e \\f |g"]
        with m._workspace.write() as tx:
            for number, text in enumerate(texts, 1000):
                lexical.index(tx, m._workspace.id, number, terms(text))
            for number, text in enumerate(texts, 1000):
                assert lexical.indexed(tx, number) == terms(text)
                for term in terms(text):
                    found = dict(lexical.postings(tx, m._workspace.id, [term])[term])
                    assert found[number] == terms(text).count(term)

    def test_indexing_again_replaces_and_removing_removes(self, memory: OpenMemory) -> None:
        m = memory()
        space = m._workspace.id
        with m._workspace.write() as tx:
            lexical.index(tx, space, 1000, ["发票", "发票", "a"])
            assert lexical.postings(tx, space, ["发票"]) == {"发票": [(1000, 2)]}
            lexical.index(tx, space, 1000, ["b"])
            assert lexical.postings(tx, space, ["发票", "a", "b"]) == {"b": [(1000, 1)]}
            lexical.remove(tx, 1000)
            lexical.remove(tx, 1000)
            assert lexical.postings(tx, space, ["b"]) == {}
            assert lexical.indexed(tx, 1000) == []

    def test_a_namespace_looks_up_its_own_terms_only(self, memory: OpenMemory) -> None:
        m = memory()
        with m._workspace.write() as tx:
            lexical.index(tx, 1, 1000, ["x", "1:x"])
            lexical.index(tx, 11, 1001, ["x"])
            assert lexical.postings(tx, 1, ["x"]) == {"x": [(1000, 1)]}
            assert lexical.postings(tx, 11, ["x"]) == {"x": [(1001, 1)]}
            assert lexical.postings(tx, 1, ["1:x"]) == {"1:x": [(1000, 1)]}


class TestOutbox:
    def vector(self, seed: float) -> Any:
        return np.array([[seed, 1.0]], dtype=np.float32)

    def test_an_embedding_of_an_older_content_is_not_kept(self, memory: OpenMemory) -> None:
        m = memory()
        node = m.add("旧的 old")
        with m._workspace.read() as tx:
            [item] = outbox.unembedded(tx, 10)
        m.update(node.id, content="新的 new")
        with m._workspace.write() as tx:
            outbox.save(tx, item, self.vector(1))
            assert outbox.embedded(tx, m._workspace.id) == 0
            [item] = outbox.unembedded(tx, 10)
            assert item.content == "新的 new"
            outbox.save(tx, item, self.vector(2))
            assert outbox.unembedded(tx, 10) == []
            assert [one.node_id for one in outbox.ready(tx, 10)] == [item.node_id]
            assert outbox.vectors_of(tx, [item.node_id, 999])[item.node_id].tolist() == [[2.0, 1.0]]

    def test_the_pieces_of_a_node_come_stay_and_go_together(self, memory: OpenMemory) -> None:
        m = memory()
        node, _ = m.add("长的 long"), m.add("别的 other")
        space = m._workspace.id
        three = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], dtype=np.float32)
        with m._workspace.write() as tx:
            long, short = outbox.unembedded(tx, 10)
            outbox.save(tx, long, three)
            outbox.save(tx, short, self.vector(3))
            assert outbox.unembedded(tx, 10) == []
            assert outbox.vectors_of(tx, [long.node_id])[long.node_id].tolist() == three.tolist()
            assert outbox.embedded(tx, space) == 2, "nodes, not pieces"
            assert outbox.piece_counts(tx, [long.node_id, short.node_id]) == {long.node_id: 3, short.node_id: 1}
            assert outbox.indexed(tx, space) == {}
            outbox.done(tx, [long.entry, short.entry])
            assert outbox.indexed(tx, space) == {long.node_id: 3, short.node_id: 1}
            assert outbox.embedded_since(tx, space, 0) == [*[long.node_id] * 3, short.node_id]
            owners, matrix = outbox.pieces_of(tx, space, np.array([short.node_id, 999, long.node_id]))
            assert owners.tolist() == [*[long.node_id] * 3, short.node_id]
            assert matrix.tolist() == [*three.tolist(), [3.0, 1.0]]
            assert outbox.vector_bytes(tx, space) == 8
            last = outbox.last_embedding(tx, space)
            assert outbox.embedded_since(tx, space, last - 1) == [short.node_id]
        m.update(node.id, metadata={"来源": "mail"})
        with m._workspace.read() as tx:
            assert outbox.vectors_of(tx, [long.node_id])[long.node_id].tolist() == three.tolist()
            assert outbox.embedded_since(tx, space, last) == [long.node_id] * 3
            assert outbox.last_embedding(tx, space) == last + 3
            assert outbox.embedded_since(tx, space, last + 3) == []
            assert outbox.unembedded(tx, 10) == []
        m.update(node.id, content="短的 short")
        with m._workspace.write() as tx:
            assert list(outbox.vectors_of(tx, [long.node_id, short.node_id])) == [short.node_id]
            [item] = outbox.unembedded(tx, 10)
            for vectors in (self.vector(5), three[:2], self.vector(6)):
                outbox.save(tx, item, vectors)
            assert outbox.vectors_of(tx, [long.node_id])[long.node_id].tolist() == [[6.0, 1.0]]
            assert outbox.embedded(tx, space) == 2

    def test_what_failed_waits_with_its_reason_until_it_is_tried_again(self, memory: OpenMemory) -> None:
        m = memory()
        node = m.add("坏的 bad")
        with m._workspace.write() as tx:
            [item] = outbox.unembedded(tx, 10)
            outbox.failed(tx, item, "零向量 zero")
            assert outbox.unembedded(tx, 10) == outbox.ready(tx, 10) == []
            assert outbox.stuck(tx, m._workspace.id) == [(node.id, "零向量 zero")]
            assert outbox.waiting(tx, m._workspace.id) == outbox.waiting(tx) == 1
            outbox.retry(tx)
            assert len(outbox.unembedded(tx, 10)) == 1

    def test_a_new_request_replaces_an_old_one(self, memory: OpenMemory) -> None:
        m = memory()
        node = m.add("甲")
        m.update(node.id, content="乙")
        m.update(node.id, content="丙")
        assert m.stats().pending == 1

    def test_a_lost_index_asks_for_everything_again_once(self, memory: OpenMemory) -> None:
        m, other = memory(), memory(namespace=("other",))
        m.add("甲")
        other.add("乙")
        m.flush()
        m.add("丙")
        with m._workspace.write() as tx:
            outbox.requeue_all(tx)
            outbox.requeue_all(tx)
            assert outbox.waiting(tx) == 3
            assert outbox.waiting(tx, m._workspace.id) == 2


class TestPoints:
    def test_settings_keep_any_json(self, memory: OpenMemory) -> None:
        m = memory()
        with m._workspace.write() as tx:
            for value in ({"键": [1, None]}, "文字", False, None):
                points.set_setting(tx, "k", value)
                assert points.setting(tx, "k") == value
            assert points.setting(tx, "没有") is None

    def test_namespaces_are_matched_whole(self, memory: OpenMemory) -> None:
        m = memory(namespace=("a", "b"))
        with m._workspace.read() as tx:
            assert points.namespace_id(tx, ("a", "b")) == m._workspace.id
            for other in (("a",), ("a/b",), ("a", "b", "c"), ("A", "b")):
                assert points.namespace_id(tx, other) is None

    def test_decisions_and_open_tasks_below_a_node(self, memory: OpenMemory) -> None:
        m = memory()
        top = m.start_task("上")
        one = m.add("决定一", type="decision")
        two = m.add("决定二", type="decision", parent=one)
        m.add("别处的决定", type="decision", parent="root")
        open_ = m.start_task("开", parent=top)
        done = m.start_task("完", parent=top)
        m.finish_task(done.id)
        with m._workspace.read() as tx:
            space, key = m._workspace.id, tree.key(tx, m._workspace.id, top.id)
            assert [node.id for node in points.below(tx, space, key, "decision")] == [two.id, one.id]
            assert [node.id for node in points.below(tx, space, key, "decision", limit=1)] == [two.id]
            assert [node.id for node in points.below(tx, space, key, "task")] == [done.id, open_.id]
            assert [node.id for node in points.below(tx, space, key, "task", open_only=True)] == [open_.id]

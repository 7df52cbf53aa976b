"""The handle: opening, closing, sharing, and trees as deep and as wide as they come."""

from __future__ import annotations

import stat
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hybridmem import Config, InvalidInput, Memory, NotFound, StoreClosed, StoreDamaged
from hybridmem.store import log

OpenMemory = Callable[..., Memory]
DEPTH = 5_000
WIDTH = 12_000
LIMIT_SECONDS = 5.0


class TestOpening:
    def test_a_store_is_made_private_and_found_again(self, memory: OpenMemory, tmp_path: Path) -> None:
        with memory("新 new/store") as m:
            id = m.add("记住 remember").id
            assert m.path == tmp_path / "新 new" / "store"
        assert stat.S_IMODE((tmp_path / "新 new" / "store").stat().st_mode) == 0o700
        with memory("新 new/store") as m:
            assert m.get(id).content == "记住 remember"

    def test_what_a_handle_says_of_itself(self, memory: OpenMemory) -> None:
        m = memory(namespace=("acme", "张三"), agent="claims-bot", retrieval={"k": 3})
        assert (m.namespace, m.agent, m.config.retrieval.k) == (("acme", "张三"), "claims-bot", 3)
        assert "张三" in repr(m)
        assert m.root().content == "acme/张三"
        assert (m.root().type, m.root().depth, m.root().parent_id) == ("root", 0, None)
        assert m.ancestors(m.root().id) == []

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({"namespace": "acme"}, "namespace: must be a tuple"),
            ({"namespace": ()}, "namespace"),
            ({"namespace": ("a", " ")}, "namespace"),
            ({"agent": ""}, "agent"),
            ({"agent": "a\nb"}, "agent"),
            ({"config": {"indx": {}}}, "unknown key 'indx'"),
            ({"embedder": object()}, "embedder: must have identity"),
        ],
    )
    def test_a_wrong_argument_is_named_and_makes_no_store(
        self, tmp_path: Path, given: dict[str, Any], said: str
    ) -> None:
        with pytest.raises(InvalidInput, match=said):
            Memory.open(tmp_path / "store", **given)
        assert not (tmp_path / "store").exists()

    def test_a_file_is_no_store(self, tmp_path: Path) -> None:
        (tmp_path / "文件").write_text("x")
        with pytest.raises(InvalidInput, match="is a file; a store is a directory"):
            Memory.open(tmp_path / "文件")

    @pytest.mark.parametrize(
        "content", [b"this is no database at all, really" * 100, b"SQLite format 3\x00" + b"\xff" * 900]
    )
    def test_foreign_bytes_are_no_store_and_stay_as_they_are(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "tree.db").write_bytes(content)
        with pytest.raises(StoreDamaged, match=r"tree\.db"):
            Memory.open(tmp_path)
        assert (tmp_path / "tree.db").read_bytes() == content

    def test_a_config_object_is_taken_as_it_is(self, tmp_path: Path) -> None:
        settings = Config()
        with Memory.open(tmp_path, config=settings) as m:
            assert m.config == settings


class TestClosing:
    def test_every_call_after_it_is_refused(self, memory: OpenMemory) -> None:
        m = memory()
        id = m.add("x").id
        m.close()
        m.close()
        calls: list[Callable[[], Any]] = [
            lambda: m.add("y"), lambda: m.get(id), m.root, m.children, lambda: list(m.walk()), lambda: m.search("x"),
            m.context, m.checkpoint, m.resume, m.stats, m.flush, lambda: m.start_task("t"), m.active_task,
        ]  # fmt: skip
        for call in calls:
            with pytest.raises(StoreClosed, match="open the store again"):
                call()

    def test_an_error_inside_a_with_block_closes_and_passes(self, memory: OpenMemory) -> None:
        with pytest.raises(RuntimeError, match="怎么了"), memory() as m:  # noqa: PT012 a write and then the error
            m.add("写了 written")
            raise RuntimeError("怎么了")
        assert memory().stats().nodes == 1

    def test_what_waits_is_indexed_when_the_indexer_runs(self, memory: OpenMemory) -> None:
        with memory(index={"background": True}) as m:
            for i in range(30):
                m.add(f"第 {i} 条 memory")
        stats = memory().stats()
        assert (stats.vectors, stats.pending, stats.stuck) == (30, 0, ())


class TestNamespaces:
    def test_they_never_see_each_other(self, memory: OpenMemory) -> None:
        spaces = [("acme",), ("acme", "张三"), ("acme/张三",), ("Acme",)]
        opened = [memory(namespace=space) for space in spaces]
        tasks = [m.start_task(f"任务 {space}", next_step=str(space)) for m, space in zip(opened, spaces, strict=True)]
        nodes = [
            m.add(f"机密 secret of {space}", type="fact", id="same") for m, space in zip(opened, spaces, strict=True)
        ]
        for m in opened:
            m.flush()
        for m, space, task, node in zip(opened, spaces, tasks, nodes, strict=True):
            assert {hit.id for hit in m.search("机密 secret 任务", 50)} == {"same", task.id}
            assert m.search("机密 secret")[0].content == node.content
            assert m.get("same") == node
            assert m.resume().active_task == task
            assert str(space) in m.context("机密 secret", token_budget=500).text
            assert m.context("机密 secret").text.count("secret of") == 1
            stats = m.stats()
            assert (stats.nodes, stats.vectors, stats.operations, stats.open_tasks) == (2, 2, 4, 1)
            assert {one.id for one in m.walk()} == {m.root().id, task.id, "same"}
            for other in tasks:
                if other is not task:
                    with pytest.raises(NotFound):
                        m.get(other.id)
                    with pytest.raises(NotFound):
                        m.search("x", scope=other.id)
                    assert m.weights([other.id]) == {}

    def test_the_ranking_of_one_does_not_depend_on_another(self, memory: OpenMemory) -> None:
        alone = memory("alone")
        beside, other = memory("beside"), memory("beside", namespace=("other",))
        for m in (alone, beside):
            m.add_many({"content": text} for text in ("发票 invoice", "短信 message", "会议 meeting"))
        other.add_many({"content": f"发票 invoice {i}"} for i in range(50))
        first, second = (m.search("发票 invoice") for m in (alone, beside))
        assert [(hit.content, hit.score) for hit in first] == [(hit.content, hit.score) for hit in second]


class TestThreads:
    def test_a_handle_is_shared_by_threads(self, memory: OpenMemory) -> None:
        m = memory(index={"background": True})
        barrier = threading.Barrier(4)

        def work(number: int) -> list[str]:
            barrier.wait()
            ids = []
            for i in range(25):
                ids.append(m.add(f"线程 thread {number} 第 {i} 条").id)
                if i % 10 == 0:
                    m.search("线程 thread", 3)
            return ids

        with ThreadPoolExecutor(4) as pool:
            ids = [id for found in pool.map(work, range(4)) for id in found]
        assert {node.id for node in m.children()} == set(ids)
        with m._workspace.read() as tx:
            assert log.broken_at(tx, m._workspace.id) is None


class TestStats:
    def test_the_numbers_are_those_of_the_namespace(self, memory: OpenMemory) -> None:
        m = memory()
        empty = m.stats()
        assert (empty.nodes, empty.depth, empty.vectors, empty.pending, empty.embedding_model) == (0, 0, 0, 0, None)
        task = m.start_task("任务")
        m.add_many([{"content": "甲", "type": "fact"}, {"content": "乙", "type": "fact", "parent": 0}])
        m.start_task("子", parent=task)
        m.finish_task()
        before = m.stats()
        assert before.by_type == {"fact": 2, "task": 2}
        assert before.by_state == {"live": 4}
        assert (before.nodes, before.depth, before.open_tasks, before.pending) == (4, 3, 1, 4)
        assert before.operations == len(m.operations())
        assert before.checkpoints == len(m.checkpoints()) == 3
        assert m.flush() == 0
        after = m.stats()
        assert (after.vectors, after.pending, after.index) == (4, 0, "ready")
        assert after.embedding_model is not None
        assert "hashing" in after.embedding_model
        assert after.size_bytes > 10_000
        assert after.to_dict()["namespace"] == ["default"]


@contextmanager
def quickly(what: str) -> Iterator[None]:
    """Seconds of the processor, not of the wall: what else the machine does must not fail a test."""
    started = time.process_time()
    yield
    took = time.process_time() - started
    assert took < LIMIT_SECONDS, f"{what} took {took:.1f} s"


class TestExtremes:
    """No call may recurse over the tree or slow down with its shape."""

    def test_a_chain_of_5000(self, memory: OpenMemory, tmp_path: Path) -> None:
        m = memory()
        with quickly("add_many"):
            chain = m.add_many({"content": f"链 link {i}", **({"parent": i - 1} if i else {})} for i in range(DEPTH))
        last = chain[-1]
        assert last.depth == DEPTH
        with quickly("add"):
            m.add("尾巴 tail", parent=last)
        with quickly("walk"):
            assert [node.id for node in m.walk()][1 : DEPTH + 1] == [node.id for node in chain]
        with quickly("ancestors"):
            assert [node.id for node in m.ancestors(last.id)][1:] == [node.id for node in chain[:-1]]
        with quickly("flush"):
            m.flush()
        with quickly("search"):
            hit = m.search("链 link 4321")[0]
        assert hit.content == "链 link 4321"
        assert len(hit.path) == 4321
        with quickly("context"):
            context = m.context("链 link 4321", token_budget=2000)
        assert 0 < context.tokens <= 2000
        assert "链 link 4321" in context.text
        with quickly("update"):
            m.update(last.id, content="最后 the last")
        box = m.add("箱子 box", parent="root")
        with quickly("move"):
            m.move(chain[0].id, box)
        assert m.get(last.id).depth == DEPTH + 1
        with quickly("move below itself"), pytest.raises(InvalidInput, match="loop"):
            m.move(box.id, last)
        with quickly("a task at the end, checkpoint, resume"):
            m.start_task("深处的任务 deep task", parent=last)
            m.checkpoint()
            assert len(m.resume().path) == DEPTH + 3
            assert m.stats().depth == DEPTH + 2
        for format in ("jsonl", "tree"):
            with quickly(f"export {format}"):
                m.export(tmp_path / format, format=format)
            new = memory(f"new {format}")
            with quickly(f"import {format}"):
                assert new.import_(tmp_path / format).added == DEPTH + 3
            assert [node.id for node in new.walk()] == [node.id for node in m.walk()]

    def test_a_node_with_12000_children(self, memory: OpenMemory, tmp_path: Path) -> None:
        m = memory()
        parent = m.start_task("很宽的任务 wide task")
        with quickly("add_many"):
            made = m.add_many({"content": f"子 child {i}", "type": "event"} for i in range(WIDTH))
        started = time.process_time()
        assert len(m.children(parent.id, limit=100)) == 100
        assert time.process_time() - started < 0.5
        with quickly("children in pages"):
            pages = [m.children(parent.id, offset=at, limit=1000) for at in range(0, WIDTH, 1000)]
        assert [node.id for page in pages for node in page] == [node.id for node in made]
        with quickly("walk"):
            assert sum(1 for _ in m.walk()) == WIDTH + 2
        with quickly("search and context without vectors"):
            assert m.search("子 child 7777")[0].content == "子 child 7777"
            assert m.context("子 child 7777").tokens <= 1000
        with quickly("context without a query"):
            assert len(m.context().hits) > 0
        box = m.add("箱子 box", parent="root")
        with quickly("move"):
            m.move(parent.id, box)
        assert m.get(made[-1].id).depth == 3
        with quickly("checkpoint, resume, stats"):
            m.checkpoint()
            assert m.resume().active_task is not None
            assert m.stats().nodes == WIDTH + 2
        with quickly("export"):
            m.export(tmp_path / "f")
        new = memory("new")
        with quickly("import"):
            assert new.import_(tmp_path / "f").added == WIDTH + 2
        assert new.children(parent.id) == m.children(parent.id)

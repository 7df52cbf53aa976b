"""Import and export: round trips that lose nothing, foreign files, and files that are refused whole."""

from __future__ import annotations

import json
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hybridmem import InvalidInput, Memory, Node, NotFound

OpenMemory = Callable[..., Memory]
Refused = Callable[..., Any]
HEADER = {"kind": "hybridmem", "version": 1}
LINE = {"kind": "node", "id": "a", "parent_id": None, "type": "note", "content": "一条 one"}


def filled(memory: Memory, clock: Any) -> Memory:
    """Something of everything."""
    task = memory.start_task("企业报销任务 claim", next_step="提交", metadata={"单号": 7})
    memory.add("用户张三，部门研发部", type="fact", importance=0.9, metadata={"嵌套": {"a": [1, None, True, 1.5]}})
    memory.add("用户张三，部门研发部", type="fact")
    clock.advance(hours=3)
    memory.add({"金额": 3500.0, "items": [1, "二"]}, type="event", occurred_at="2026-06-01T08:00:00+08:00")
    decision = memory.add("改用电子发票 e-invoice", type="decision", confidence=0.31)
    memory.add('```json\n{"kind": "node"}\n```\r\n\ttail  ', parent="decision")
    memory.pin(decision.id)
    memory.update(decision.id, content="改用纸质发票 paper")
    sub = memory.start_task("子任务 sub", parent="active")
    memory.add("行一\u2028行二\x85行三", parent=sub)
    memory.finish_task(status="failed", outcome="没成 did not work")
    memory.start_task("暂停的 paused")
    memory.update_task(status="paused")
    late = memory.add("早于它父亲的 older than its parent", parent="root", id="zzz-1")
    memory.move(memory.add("移动的 moved").id, late)
    clock.advance(hours=1)
    memory.switch_task(task.id)
    return memory


def everything(memory: Memory) -> list[Node]:
    return list(memory.walk())


class TestRoundTrip:
    @pytest.mark.parametrize("format", ["jsonl", "tree"])
    @pytest.mark.parametrize("named", [True, False])
    def test_every_field_of_every_node_comes_back(
        self, memory: OpenMemory, clock: Any, tmp_path: Path, format: str, named: bool
    ) -> None:
        old = filled(memory("old", agent="bot"), clock)
        memory("old", agent="另一个").start_task("另一个代理的任务")
        assert old.export(tmp_path / "f", format=format) == old.stats().nodes
        clock.advance(days=2)
        new = memory("new", agent="bot")
        report = new.import_(tmp_path / "f", format=format if named else "auto")
        assert (report.format, report.added, report.skipped) == (format, old.stats().nodes, 0)
        assert report.root_id == old.root().id
        assert everything(new)[1:] == everything(old)[1:]
        assert new.active_task() == old.active_task()
        assert new.resume().active_node == old.resume().active_node
        assert memory("new", agent="另一个").active_task() == memory("old", agent="另一个").active_task()
        assert new.stats().by_type == old.stats().by_type
        assert new.search("电子发票 paper")[0].content == "改用纸质发票 paper"

    @pytest.mark.parametrize("format", ["jsonl", "tree"])
    def test_the_root_comes_back_whole_as_well(
        self, memory: OpenMemory, clock: Any, tmp_path: Path, format: str
    ) -> None:
        old = filled(memory("old"), clock)
        old.export(tmp_path / "f", format=format)
        clock.advance(days=2)
        new = memory("new", namespace=("another",))
        new.import_(tmp_path / "f")
        assert new.root() == old.root()

    @pytest.mark.parametrize("format", ["jsonl", "tree"])
    def test_a_second_export_is_the_same_file(
        self, memory: OpenMemory, clock: Any, tmp_path: Path, format: str
    ) -> None:
        filled(memory("old"), clock).export(tmp_path / "a", format=format)
        new = memory("new")
        new.import_(tmp_path / "a")
        new.export(tmp_path / "b", format=format)
        assert (tmp_path / "b").read_text("utf-8") == (tmp_path / "a").read_text("utf-8")

    @pytest.mark.parametrize("format", ["jsonl", "tree"])
    def test_importing_twice_adds_nothing(self, memory: OpenMemory, clock: Any, tmp_path: Path, format: str) -> None:
        m = filled(memory(), clock)
        m.export(tmp_path / "f", format=format)
        before, operations = everything(m), len(m.operations())
        report = m.import_(tmp_path / "f")
        assert (report.added, report.skipped) == (0, len(before) - 1)
        assert everything(m) == before
        assert len(m.operations()) == operations

    def test_into_a_namespace_with_memories_nobodys_place_moves(
        self, memory: OpenMemory, clock: Any, tmp_path: Path
    ) -> None:
        old = filled(memory("old"), clock)
        old.export(tmp_path / "f.jsonl")
        new = memory("new")
        mine = new.start_task("我的任务 mine")
        report = new.import_(tmp_path / "f.jsonl")
        assert report.root_id == new.root().id != old.root().id
        assert new.active_task() == new.get(mine.id)
        assert new.get("zzz-1").parent_id == new.root().id
        assert new.stats().nodes == old.stats().nodes + 1

    def test_a_tree_hangs_where_it_is_told(self, memory: OpenMemory, clock: Any, tmp_path: Path) -> None:
        old = filled(memory("old"), clock)
        old.export(tmp_path / "f.json", format="tree")
        new = memory("new")
        box = new.add("箱子 box")
        new.import_(tmp_path / "f.json", parent=box)
        assert [node.content for node in new.children(box.id)] == [node.content for node in old.children()]

    def test_repeats_under_one_parent_are_not_merged_by_an_import(self, memory: OpenMemory, tmp_path: Path) -> None:
        old = memory("old")
        for id in ("a", "b"):
            old.add("同一个事实 same fact", type="fact", id=id)
        old.export(tmp_path / "f")
        new = memory("new")
        assert new.import_(tmp_path / "f").added == 2

    @pytest.mark.parametrize("state", ["archived", "superseded", "forgotten"])
    def test_what_is_not_live_comes_back_so_and_is_not_found(
        self, memory: OpenMemory, tmp_path: Path, state: str
    ) -> None:
        m = memory()
        imported(m, tmp_path, lines({**LINE, "state": state, "content": "从前的 former"}, {**LINE, "id": "b"}))
        m.flush()
        assert m.get("a").state == state
        assert [hit.id for hit in m.search("从前的 former")] in ([], ["b"])
        assert [node.id for node in m.children()] == ["b"]
        m.export(tmp_path / "f")
        new = memory("new")
        new.import_(tmp_path / "f")
        assert new.get("a").state == state

    def test_an_export_appears_whole_or_not_at_all(self, memory: OpenMemory, clock: Any, tmp_path: Path) -> None:
        m = filled(memory(), clock)
        folder = tmp_path / "out"
        folder.mkdir()
        file = folder / "导出.jsonl"
        file.write_text("旧的 old")
        with pytest.raises(InvalidInput, match="format: must be one of jsonl, tree, not 'xml'"):
            m.export(file, format="xml")
        with pytest.raises(InvalidInput, match="没有 does not exist"):
            m.export(folder / "没有" / "f")
        with pytest.raises(InvalidInput, match="not a regular file"):
            m.export(folder)
        assert [path.name for path in folder.iterdir()] == ["导出.jsonl"]
        assert file.read_text() == "旧的 old"
        assert m.export(str(file)) == m.stats().nodes
        assert [path.name for path in folder.iterdir()] == ["导出.jsonl"]
        assert stat.S_IMODE(file.stat().st_mode) & 0o077 == 0

    def test_an_export_to_a_symbolic_link_replaces_what_it_points_to(self, memory: OpenMemory, tmp_path: Path) -> None:
        m = memory()
        m.add("发票 invoice")
        real, link = tmp_path / "real.jsonl", tmp_path / "link.jsonl"
        real.write_text("old")
        link.symlink_to(real)
        m.export(link)
        assert link.is_symlink()
        assert "发票 invoice" in real.read_text(encoding="utf-8")


def lines(*values: Any) -> str:
    return "\n".join(json.dumps(value) for value in (HEADER, *values)) + "\n"


def imported(memory: Memory, folder: Path, text: str, **given: Any) -> Any:
    file = folder / "import.json"
    file.write_text(text, encoding="utf-8")
    return memory.import_(file, **given)


REFUSED_LINES = {
    "blank content": ({**LINE, "content": " "}, "line 3: content"),
    "content of another kind": ({**LINE, "content": 5}, "line 3: 'content' must be text"),
    "no content": ({k: v for k, v in LINE.items() if k != "content"}, "line 3: 'content' must be text"),
    "half a surrogate": ({**LINE, "content": "半\ud800"}, "line 3: content"),
    "no id": ({**LINE, "id": None}, "line 3: 'id' is missing"),
    "blank id": ({**LINE, "id": " "}, "line 3: id"),
    "id twice": ({**LINE, "id": "first"}, "line 3: the id 'first' appears twice"),
    "missing parent": ({**LINE, "parent_id": "没有"}, "line 3: the parent '没有' is not in the file"),
    "own parent": ({**LINE, "parent_id": "a"}, "line 3: its parents form a loop"),
    "type": ({**LINE, "type": "Note!"}, "line 3: type"),
    "importance": ({**LINE, "importance": 2}, "line 3: importance"),
    "confidence": ({**LINE, "confidence": "高"}, "line 3: confidence"),
    "metadata": ({**LINE, "metadata": [1]}, "line 3: metadata"),
    "time": ({**LINE, "created_at": "昨天"}, "line 3: occurred_at|line 3: created_at"),
    "updated": ({**LINE, "updated_at": 5}, "line 3: updated_at"),
    "state": ({**LINE, "state": "gone"}, "line 3: 'state'"),
    "version": ({**LINE, "version": 0}, "line 3: 'version'"),
    "huge version": ({**LINE, "version": 2**70}, "line 3: 'version'"),
    "uses": ({**LINE, "uses": -1}, "line 3: 'uses'"),
    "huge uses": ({**LINE, "uses": 2**70}, "line 3: "),
    "pinned": ({**LINE, "pinned": "x"}, "line 3: 'pinned'"),
    "agent": ({**LINE, "agent": 5}, "line 3: .*agent"),
    "structured": ({**LINE, "structured": True, "content": "{"}, "line 3: "),
    "unknown key": ({**LINE, "colour": 1}, "line 3: unknown key 'colour'"),
    "unknown kind": ({**LINE, "kind": "edge"}, "line 3: 'kind' must be"),
    "task status": ({**LINE, "type": "task", "task": {"status": "x"}}, "line 3: status"),
    "task step": ({**LINE, "type": "task", "task": {"next_step": 5}}, "line 3: .*next_step"),
    "task kind": ({**LINE, "type": "task", "task": [1]}, "line 3: .*task"),
    "active of another kind": ({"kind": "active", "agent": "a", "task_id": ["x"], "node_id": None}, "line 3: "),
    "active task that is none": (
        {"kind": "active", "agent": "a", "task_id": "first", "node_id": None},
        "active task of 'a' is a note",
    ),
    "no object": ([1], "line 3: must be a JSON object"),
    "root with a NUL": ({**LINE, "type": "root", "content": "a\0"}, "line 3: .*content"),
    "root with half a surrogate": ({**LINE, "type": "root", "metadata": {"a": "\ud800"}}, "line 3: .*metadata"),
}


class TestRefusedWhole:
    @pytest.mark.parametrize(("line", "said"), REFUSED_LINES.values(), ids=REFUSED_LINES)
    def test_one_bad_line_stores_nothing_and_is_named(
        self, memory: OpenMemory, tmp_path: Path, rows: Any, line: Any, said: str
    ) -> None:
        m = memory()
        before = rows(m)
        text = lines({**LINE, "id": "first"}, line, {**LINE, "id": "last"})
        with pytest.raises(InvalidInput, match=said) as caught:
            imported(m, tmp_path, text)
        assert "import.json" in str(caught.value)
        assert rows(m) == before
        assert imported(m, tmp_path, lines(LINE)).added == 1

    def test_a_loop_far_from_the_root(self, memory: OpenMemory, tmp_path: Path, rows: Any) -> None:
        m = memory()
        before = rows(m)
        good = [{**LINE, "id": f"n{i}"} for i in range(6000)]
        loop = [{**LINE, "id": a, "parent_id": b} for a, b in (("a", "b"), ("b", "c"), ("c", "a"))]
        started = time.process_time()
        with pytest.raises(InvalidInput, match="line 6002: its parents form a loop"):
            imported(m, tmp_path, lines(*good, *loop))
        assert time.process_time() - started < 3.0
        assert rows(m) == before

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            (" \n", "is empty"),
            ("发票 invoice", "the format is not recognised"),
            ('{"a": 1}', "the format is not recognised"),
            ("5", "the format is not recognised"),
            ("[1, 2]", "message 1: must be a JSON object"),
            ('[{"content": "没有角色"}]', "message 1: 'role' must be text"),
            ('[{"role": "user", "content": {"a": 1}}]', "message 1: 'content' must be text"),
            ('[{"role": "user", "content": "x", "timestamp": "昨天"}]', "message 1"),
            ('[{"role": "user", "content": "x", "timestamp": 1e300}]', "message 1"),
            ('{"messages": {}}', "a chat must be a list"),
            ('{"root_id": "r", "nodes": 5}', "'nodes' must be an object"),
            ('{"root_id": "r", "nodes": []}', "'root_id' is 'r', but there is no such node"),
            ('{"kind": "hybridmem", "version": 99}', "version 99 of the format is not known"),
            ("[" * 200_000, "JSON|nested"),
            (json.dumps(HEADER) + "\n" + '{"a": ' * 200_000, "line 2"),
        ],
    )
    def test_what_is_no_such_file(self, memory: OpenMemory, tmp_path: Path, rows: Any, text: str, said: str) -> None:
        m = memory()
        before = rows(m)
        with pytest.raises(InvalidInput, match=said):
            imported(m, tmp_path, text)
        assert rows(m) == before

    def test_files_that_cannot_be_read(self, memory: OpenMemory, tmp_path: Path, refused: Refused) -> None:
        m = memory()
        (tmp_path / "gbk.json").write_bytes('[{"role": "user", "content": "发票"}]'.encode("gbk"))
        with refused(m, InvalidInput, "is not UTF-8 text"):
            m.import_(tmp_path / "gbk.json")
        with refused(m, NotFound, "there is no such file"):
            m.import_(tmp_path / "没有.json")
        with refused(m, InvalidInput, "cannot be read"):
            m.import_(tmp_path)
        with refused(m, InvalidInput, "format: must be one of auto, jsonl, tree, chat"):
            m.import_(tmp_path / "gbk.json", format="xml")

    def test_an_id_that_is_here_with_another_content(
        self, memory: OpenMemory, tmp_path: Path, refused: Refused
    ) -> None:
        m = memory()
        m.add("本地的 local", id="a")
        with refused(m, InvalidInput, "line 3: the id 'a' is already in this namespace with another content"):
            imported(m, tmp_path, lines({**LINE, "id": "new"}, LINE))

    def test_a_byte_order_mark_and_crlf_are_read_over(self, memory: OpenMemory, tmp_path: Path) -> None:
        m = memory()
        text = "\ufeff" + lines({**LINE, "content": "一\r\n二\u2028三"}).replace("\n", "\r\n")
        assert imported(m, tmp_path, text).added == 1
        assert m.get("a").content == "一\r\n二\u2028三"

"""Every public call leaves exactly its entry in the audit trail, which tells who did what and when, and never what a
memory says."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from surface import BY_ID, NOT_CALLS, READS, WRITES, Own
from test_isolation import NAMESPACES, filled, opened

from hybridmem import InvalidInput, Memory, NotFound, verify
from hybridmem.audit import Rule
from hybridmem.embed.hashing import HashingEmbedder

OpenMemory = Callable[..., Memory]

#: What each call of tests/surface.py is about: the name of a field of Own, "made": a node that it makes; None: no one.
ABOUT: dict[str, Any] = {
    "ancestors": "fact", "children": "task", "history": "fact", "add": "made", "update": "event", "supersede": "fact",
    "feedback": "event", "merge_duplicates": "note", "unmerge": "note", "move": "event", "pin": "event",
    "start_task": "made", "update_task": "task", "switch_task": "task", "claim_task": "task", "release_task": "task",
    "finish_task": "task", "unconsolidate": "summary", "consolidate": "done", "unarchive": "archived",
    "archive": "archived", "restore_forgotten": "forgotten", "share": "task",
    "get": ("fact", "forgotten", "archived"),
    "erase": "note", "forget": ("forgotten", None),
    "context": (None, None, None, "task"),
    "search": (None, None, None, None, "task", "task"),
}  # fmt: skip
#: What the store calls from BY_ID are about when they fail: the id that was given, but for these.
ABOUT_NONE = {"add", "add_many", "start_task"}


@pytest.fixture
def own(tmp_path: Path) -> tuple[Path, Own]:
    store, folder = tmp_path / "store", tmp_path / "files"
    folder.mkdir()
    return store, filled(store, 18, folder)


def entries(store: Path) -> list[tuple[Any, ...]]:
    """(number, agent, verb, node, outcome, detail) as they are in the file."""
    with closing(sqlite3.connect(store / "tree.db")) as conn:
        rows = conn.execute("SELECT sequence, agent, verb, node_uid, outcome, detail FROM audit ORDER BY sequence")
        return [(*row[:5], json.loads(row[5])) for row in rows]


def new(m: Memory, before: int) -> list[tuple[Any, ...]]:
    """Entries after this one, those that wait too; without those of handles."""
    m._workspace.flush_trail()
    return [one for one in entries(m.path)[before:] if one[2] not in ("open", "close")]


class TestEveryMethod:
    def test_has_its_rule(self) -> None:
        """A new method without the decorator fails here."""
        for name in (one for one in dir(Memory) if not one.startswith("_")):
            if name not in NOT_CALLS:
                rule = getattr(getattr(Memory, name), "audited", None)
                assert isinstance(rule, Rule), f"{name} leaves no entry: decorate it with @audited()"
                assert rule.verb == name.strip("_")

    def test_says_what_it_is_about(self) -> None:
        """Every argument that the rule names is there."""
        for name in (one for one in dir(Memory) if not one.startswith("_") and one not in NOT_CALLS):
            rule: Rule = getattr(Memory, name).audited
            known = set(rule.places)
            assert {*rule.node, *rule.keep, *rule.filters, *([rule.query] if rule.query else [])} <= known, name

    def test_leaves_exactly_its_entry(self, own: tuple[Path, Own]) -> None:
        store, mine = own
        with opened(store, NAMESPACES[18]) as m:
            m.root()
            for name, call in {**READS, **WRITES}.items():
                m._workspace.flush_trail()
                before = len(entries(store)) if name != "prune_audit" else 0
                result = call(m, mine)
                found = new(m, before)
                if name == "prune_audit":
                    found = [one for one in found if one[2] == "prune_audit"]
                times = len(result) if name in ("get", "context", "search", "forget") else 1
                assert [one[2] for one in found] == [name.strip("_")] * times, name
                assert {one[1] for one in found} == {"same"}, name
                assert {one[4] for one in found} == {"ok"}, name
                about = ABOUT.get(name)
                for one, field in zip(found, about if isinstance(about, tuple) else [about] * times, strict=True):
                    expected = {None: None, "made": getattr(result, "id", None)}.get(field) or (
                        getattr(mine, field) if field not in (None, "made") else None
                    )
                    assert one[3] == expected, name
        assert verify(store).ok

    def test_that_fails_leaves_exactly_its_entry(self, own: tuple[Path, Own]) -> None:
        store, _ = own
        with opened(store, NAMESPACES[18]) as m:
            m.root()
            for id in ("aaaabbbbccccdddd", "我的秘密 my secret"):
                for name, call in BY_ID.items():
                    m._workspace.flush_trail()
                    before = len(entries(store))
                    with pytest.raises((NotFound, InvalidInput)) as refused:
                        call(m, id)
                    (one,) = new(m, before)
                    assert (one[2], one[4]) == (name.strip("_"), type(refused.value).__name__)
                    is_id = name not in ABOUT_NONE and id == "aaaabbbbccccdddd"
                    assert one[3] == (id if is_id else None), name
                    assert ("unknown_id" in one[5]) == (name not in ABOUT_NONE and not is_id), name
        assert "秘密" not in str(entries(store))
        assert verify(store).ok

    def test_nothing_that_a_memory_says_is_in_it(self, own: tuple[Path, Own]) -> None:
        """Neither contents, metadata, labels, titles, queries nor paths, whatever was called."""
        store, mine = own
        with opened(store, NAMESPACES[18]) as m:
            for call in (*READS.values(), *WRITES.values()):
                call(m, mine)
            said = str(entries(store)) + str(m.audit(limit=None))
        for text in (mine.canary, "secret", "秘密", "下一步", str(mine.folder), "out.jsonl", "标签", "忘"):
            assert text not in said, text

    def test_of_the_store_as_a_whole_too(self, memory: OpenMemory, tmp_path: Path) -> None:
        m = memory()
        m.add("一条 one")
        m.backup(tmp_path / "机密 taken.db")
        m.reembed()
        m.backups()
        assert [one.verb for one in m.audit()] == ["open", "add", "backup", "reembed", "backups"]
        assert "机密" not in str(m.audit())


class TestAnEntry:
    def test_says_who_what_when_and_which_operations(self, memory: OpenMemory, clock: Any) -> None:
        m = memory(agent="助手 bot")
        node = m.add("发票 invoice")
        clock.advance(hours=1)
        m.add_many([{"content": f"第{n}条"} for n in range(3)])
        first, made, many = m.audit()
        assert (first.verb, made.verb, many.verb) == ("open", "add", "add_many")
        assert (made.agent, made.node_id, made.outcome) == ("助手 bot", node.id, "ok")
        assert made.at == node.created_at
        assert (many.at - made.at).total_seconds() == 3600
        assert made.detail == {"operations": [2, 2]}
        assert many.detail == {"operations": [3, 5]}
        assert [one.sequence for one in m.operations(2)] == [3, 4, 5]
        assert made.explain().startswith(f"2. 2026-07-02T08:00:00+00:00 助手 bot: add {node.id}: ok")
        assert made.to_dict()["at"] == "2026-07-02T08:00:00+00:00"

    def test_of_a_composite_call_is_one(self, memory: OpenMemory) -> None:
        m = memory()
        m.add("发票 invoice")
        m.repair()  # which verifies
        m.checkpoint("标签", backup=True)
        assert [one.verb for one in m.audit()] == ["open", "add", "repair", "checkpoint"]

    def test_of_many_transactions_is_one(self, memory: OpenMemory) -> None:
        m = memory(forgetting={"batch": 2})
        m.add_many([{"content": f"旧的 old {n}", "type": "event"} for n in range(9)])
        m.add("末 last")
        assert len(m.forget(policy={"policy": "least_weight", "max_nodes": 2}).sequences) > 2
        assert [one.verb for one in m.audit()] == ["open", "add_many", "add", "forget"]

    def test_of_a_call_that_fails_after_it_has_written_says_both(self, memory: OpenMemory) -> None:
        m = memory()
        (m.path / "checkpoints").write_text("in the way")
        with pytest.raises(Exception, match="checkpoints") as failed:
            m.checkpoint(backup=True)
        done, ended = m.audit(verb="checkpoint")
        assert (done.outcome, ended.outcome) == ("ok", type(failed.value).__name__)
        assert ended.detail == {"backup": True, "began": done.sequence}

    def test_of_what_is_rolled_back_tells_no_operations(self, memory: OpenMemory) -> None:
        m = memory()
        with pytest.raises(InvalidInput):
            m.add_many(
                [
                    {"content": "一 one"},
                    {"content": "二 two", "parent": "root", "id": "x"},
                    {"content": "三", "id": "x"},
                ]
            )
        assert [(one.verb, one.outcome, one.detail) for one in m.audit()][1:] == [("add_many", "InvalidInput", {})]
        assert len(m.operations()) == 1

    def test_of_walking_says_how_far(self, memory: OpenMemory) -> None:
        m = memory()
        m.add_many([{"content": f"第{n}条"} for n in range(5)])
        list(m.walk())
        walking = m.walk()
        next(walking)
        m.pending()  # a call of its own in the middle of it
        walking.close()
        m.walk()  # nothing is read
        assert [(one.verb, one.detail) for one in m.audit()][2:] == [
            ("walk", {"found": 6}), ("pending", {"count": 0 + 5}), ("walk", {"found": 1})
        ]  # fmt: skip

    def test_of_forgetting_by_schedule_is_its_own(self, memory: OpenMemory) -> None:
        m = memory(forgetting={"policies": [{"policy": "least_weight", "max_nodes": 1}], "every_operations": 3})
        for number in range(3):
            m.add(f"第{number}条", type="event", parent="root")
        (entry,) = m.audit(verb="tend")
        assert entry.detail["scheduled"] is True
        assert [one.verb for one in m.audit()].count("add") == 3

    def test_of_opening_and_closing_is_there_if_anything_was_done(self, memory: OpenMemory) -> None:
        memory().close()
        assert memory().audit() == []
        writer = memory(agent="甲")
        writer.add("一条 one")
        writer.close()
        reader = memory(agent="乙")
        reader.root()
        reader.close()
        found = [(one.agent, one.verb) for one in memory().audit()]
        assert found[-6:] == [
            ("甲", "open"),
            ("甲", "add"),
            ("甲", "close"),
            ("乙", "open"),
            ("乙", "root"),
            ("乙", "close"),
        ]


class TestQueries:
    @pytest.mark.parametrize("query", ["发票为什么被退回？", "why was the invoice returned", "张三 works in 研发部"])
    def test_are_hashed_with_a_secret_of_the_store(self, memory: OpenMemory, query: str) -> None:
        one, other = memory("one"), memory("other")
        for m in (one, other):
            m.search(query)
            m.context(query)
            m.search("another 别的")
        (first, second, third), (foreign, *_) = (
            [entry.detail["query"] for entry in m.audit() if "query" in entry.detail] for m in (one, other)
        )
        assert first == second != third
        assert first != foreign
        assert first.startswith("hmac-sha256:")
        assert query not in str(one.audit())

    def test_are_kept_only_if_that_is_configured(self, memory: OpenMemory) -> None:
        plain, none = memory("plain", audit={"queries": "plain"}), memory("none", audit={"queries": "none"})
        for m in (plain, none):
            m.search("发票 invoice", 3)
        assert plain.audit()[-1].detail["query"] == "发票 invoice"
        assert none.audit()[-1].detail == {"k": 3, "hits": 0}


class TestReading:
    def test_waits_for_no_other_writer(self, memory: OpenMemory) -> None:
        """A search beside a transaction of another process ends at once, and its entry is there later."""
        m = memory(store={"busy_timeout_seconds": 30.0})
        node = m.add("发票 invoice")
        m.flush()
        with closing(sqlite3.connect(m.path / "tree.db", isolation_level=None)) as conn:
            conn.execute("BEGIN IMMEDIATE")
            began = time.monotonic()
            m.search("发票")
            m.get(node.id)
            assert time.monotonic() - began < 20
            assert [one[2] for one in entries(m.path)] == ["open", "add", "flush"]
            conn.execute("ROLLBACK")
        m.add("二 two")
        assert [one[2] for one in entries(m.path)] == ["open", "add", "flush", "search", "get", "add"]

    @pytest.mark.parametrize("how", ["flush", "close", "audit"])
    def test_is_written_by(self, memory: OpenMemory, how: str) -> None:
        m = memory()
        m.root()
        assert entries(m.path) == []
        getattr(m, how)()
        assert [one[2] for one in entries(m.path)][:2] == ["open", "root"]

    def test_is_written_by_a_thread_before_long(self, tmp_path: Path) -> None:
        config = {"embedding": {"provider": "hashing"}, "audit": {"flush_seconds": 0.1}}
        with Memory.open(tmp_path / "store", config=config) as m:
            m.root()
            deadline = time.monotonic() + 60
            while not entries(m.path) and time.monotonic() < deadline:
                time.sleep(0.05)
            assert [one[2] for one in entries(m.path)] == ["open", "root"]

    def test_is_written_before_it_returns_if_that_is_configured(self, memory: OpenMemory) -> None:
        m = memory(audit={"flush_seconds": 0.0})
        m.root()
        assert [one[2] for one in entries(m.path)] == ["open", "root"]

    def test_leaves_nothing_if_that_is_configured(self, memory: OpenMemory) -> None:
        m = memory(audit={"reads": False})
        m.root()
        m.add("一条 one")
        assert [one.verb for one in m.audit()] == ["open", "add"]

    def test_that_cannot_be_written_is_counted(self, memory: OpenMemory, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("hybridmem.audit.MOST", 3)
        m = memory()
        for _ in range(5):
            m.root()
        assert [(one.verb, one.detail) for one in m.audit()][-2:] == [("root", {}), ("dropped", {"entries": 3})]
        m.root()
        assert m.audit()[-1].verb == "root"


def test_switched_off_it_leaves_nothing(memory: OpenMemory) -> None:
    m = memory(audit={"enabled": False})
    m.search("x")
    m.add("一条 one")
    assert m.audit() == []
    with pytest.raises(InvalidInput, match=r"audit\.enabled"):
        m.prune_audit(0)
    m.close()
    assert entries(m.path) == []
    assert verify(m.path).ok


def test_filters_and_reading_on(memory: OpenMemory, clock: Any) -> None:
    one, other = memory(agent="甲"), memory(agent="other 乙")
    node = one.add("发票 invoice", id="发票-1")
    clock.advance(days=1)
    with pytest.raises(NotFound):
        other.get("aaaabbbbccccdddd")
    other.get(node.id)
    other.flush()

    def verbs(**filters: Any) -> list[str]:
        return [entry.verb for entry in one.audit(**filters) if entry.verb != "audit"]

    assert verbs() == ["open", "add", "open", "get", "get", "flush"]
    assert verbs(agent="other 乙") == ["open", "get", "get", "flush"]
    assert verbs(verb="get") == ["get", "get"]
    assert verbs(node=node.id) == ["add", "get"]
    assert verbs(outcome="failed") == verbs(outcome="NotFound") == ["get"]
    assert verbs(since=node.created_at.replace(day=3), verb="add") == []
    assert verbs(until=node.created_at.replace(day=3), outcome="ok")[:2] == ["open", "add"]
    assert [entry.sequence for entry in one.audit(limit=2, after=0)] == [1, 2]
    assert [entry.sequence for entry in one.audit(limit=2, after=2)] == [3, 4]
    newest = one.audit(limit=1)
    assert [entry.sequence for entry in newest] == [one.audit(limit=None)[-2].sequence]
    assert one.audit(limit=0) == []
    for wrong in ({"limit": -1}, {"after": -1}, {"since": "昨天"}, {"verb": ""}, {"outcome": 3}):
        with pytest.raises(InvalidInput, match=next(iter(wrong))):
            one.audit(**wrong)  # type: ignore[arg-type]


def test_a_namespace_sees_its_own_and_agents_of_it_each_other(memory: OpenMemory) -> None:
    mine, theirs = memory(namespace=("企业", "张三")), memory(namespace=("企业",), agent="canary 甲")
    theirs.add("别人的 theirs")
    theirs.search("秘密")
    theirs.flush()
    mine.root()
    assert [one.verb for one in mine.audit()] == ["open", "root"]
    assert "canary" not in str(mine.audit())
    assert [one.sequence for one in mine.audit()] == list(range(1, 5))


def test_threads_of_one_handle_leave_one_whole_chain(memory: OpenMemory) -> None:
    m = memory(store={"busy_timeout_seconds": 60.0})

    def work(number: int) -> None:
        for n in range(10):
            m.get(m.add(f"第{number}-{n}条").id)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    verbs = [one.verb for one in m.audit(limit=None)]
    assert (verbs.count("add"), verbs.count("get"), verbs.count("open")) == (40, 40, 1)
    assert m.verify().ok


def test_a_handle_that_nobody_holds_is_gone_at_once(tmp_path: Path) -> None:
    """What waits to be written keeps no handle alive, whose lock on the store would stay."""
    import gc
    import weakref

    gc.disable()
    try:
        m = Memory.open(tmp_path / "store", config={"embedding": {"provider": "hashing"}}, embedder=HashingEmbedder())
        m.root()
        with pytest.raises(NotFound):
            m.get("没有")
        known = weakref.ref(m._workspace)
        del m
        assert known() is None
    finally:
        gc.enable()

"""Forgetting by schedule: when it is due, by whom, how much at most; and that no write fails with it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from crash.helpers import Child
from verified import assert_verified

from hybridmem import Memory, StoreBusy
from hybridmem.embed.hashing import HashingEmbedder
from hybridmem.prune import Pruning

OpenMemory = Callable[..., Memory]
NEWEST = [{"policy": "newest", "max_nodes": 3}]


def live(m: Memory) -> int:
    return m.stats().by_state["live"]


def say(m: Memory, n: int) -> None:
    m.add(("发票 invoice {0}", "会议取消 {0}", "meeting {0}")[n % 3].format(n), parent="root", id=f"i{n}")


class TestWhenItIsDue:
    def test_nothing_goes_by_itself_unless_it_is_asked_for(self, memory: OpenMemory, clock: Any) -> None:
        m = memory(forgetting={"policies": NEWEST})
        for n in range(9):
            say(m, n)
            clock.advance(days=100)
        assert live(m) == 9

    def test_after_so_many_operations_with_a_bound_for_each_run(self, memory: OpenMemory) -> None:
        m = memory(forgetting={"policies": NEWEST, "every_operations": 10, "limit": 4})
        for n in range(8):
            say(m, n)
        assert live(m) == 8
        say(m, 8)  # the tenth: the first made the namespace
        assert live(m) == 5, "nine, of which four go at most"
        for n in range(9, 17):
            say(m, n)
        assert live(m) == 13
        say(m, 17)
        assert live(m) == 14 - 4, "its own entries count, too"
        assert_verified(m)

    def test_after_so_many_seconds_of_the_clock_that_was_given(self, memory: OpenMemory, clock: Any) -> None:
        m = memory(forgetting={"policies": NEWEST, "every_seconds": 60})
        for n in range(9):
            say(m, n)
        clock.advance(seconds=59)
        say(m, 9)
        assert live(m) == 10
        clock.advance(seconds=1)
        say(m, 10)
        assert live(m) == 3
        say(m, 11)
        assert live(m) == 4
        clock.advance(days=-1)  # set back: it does not wait for a day
        say(m, 12)
        assert live(m) == 3

    def test_it_purges_what_cannot_be_brought_back_any_more(self, memory: OpenMemory, clock: Any) -> None:
        m = memory(forgetting={"every_seconds": 60, "limit": 2})
        for n in range(5):
            say(m, n)
        for n in range(4):
            m.forget(f"i{n}")
        clock.advance(days=29)
        say(m, 5)
        assert not any(node.is_purged for node in m.walk())
        clock.advance(days=2)
        say(m, 6)
        assert {node.id for node in m.walk() if node.is_purged} == {"i0", "i1"}, "no more than the bound"
        clock.advance(seconds=60)
        say(m, 7)
        assert {node.id for node in m.walk() if node.is_purged} == {f"i{n}" for n in range(4)}

    def test_reading_does_nothing(self, memory: OpenMemory, clock: Any, rows: Any) -> None:
        m = memory(forgetting={"policies": NEWEST, "every_seconds": 60})
        for n in range(9):
            say(m, n)
        m.flush()
        clock.advance(days=1)
        before = rows(m)
        for _ in range(3):
            m.search("发票 invoice", 5)
            m.context("会议", token_budget=200)
            m.get("i1"), m.children(), m.stats(), m.resume(), list(m.walk())
        assert rows(m) == before

    def test_another_namespace_has_its_own_time(self, memory: OpenMemory) -> None:
        rule = {"policies": NEWEST, "every_operations": 10}
        one, other = memory(forgetting=rule), memory(forgetting=rule, namespace=("别人",))
        for n in range(8):
            say(one, n)
            say(other, n)
        say(one, 8)
        assert (live(one), live(other)) == (3, 8)
        say(other, 8)
        assert (live(one), live(other)) == (3, 3), "what the one has done is nothing to the other"


class TestWhoDoesIt:
    def test_the_thread_behind_the_writes_and_closing(self, tmp_path: Path) -> None:
        """With a thread no write waits for it; a program that ends before the thread comes to it does it then."""
        config = {"forgetting": {"policies": NEWEST, "every_operations": 10}}
        with Memory.open(tmp_path / "long", embedder=HashingEmbedder(), config=config) as m:
            for n in range(9):
                say(m, n)
            end = time.monotonic() + 60
            while live(m) > 3 and time.monotonic() < end:
                time.sleep(0.02)
            assert live(m) == 3
        for n in range(9):  # as commands do
            with Memory.open(tmp_path / "short", embedder=HashingEmbedder(), config=config) as m:
                say(m, n)
        with Memory.open(tmp_path / "short", embedder=HashingEmbedder(), config=config) as m:
            assert live(m) == 3

    def test_of_two_that_find_it_due_one_does_it(self, memory: OpenMemory, monkeypatch: Any, clock: Any) -> None:
        """Whoever comes second finds it noted, whatever it had read before."""
        rule = {"policies": NEWEST, "every_seconds": 60, "limit": 2}
        m, other = memory(forgetting=rule), memory(forgetting=rule, agent="李四")
        for n in range(9):
            say(m, n)
        clock.advance(seconds=60)
        claim, met = type(m._tending)._claim, list[bool]()

        def both(self: Any) -> bool:
            monkeypatch.undo()
            met.extend((claim(other._tending), claim(self)))
            return met[1]

        monkeypatch.setattr(type(m._tending), "_claim", both)
        say(m, 9)
        assert met == [True, False]
        assert live(m) == 10

    def test_processes_that_write_at_once_forget_it_once(self, tmp_path: Path) -> None:
        code = """
            config = {**QUIET, "forgetting": {"policies": [{"policy": "newest", "max_nodes": 5}],
                "every_operations": 20, "limit": 3}}
            memory = Memory.open(sys.argv[1], agent=sys.argv[2], config=config)
            say(0); wait()
            for n in range(30):
                memory.add(f"条 item {sys.argv[2]} {n}", parent="root")
            say(memory.stats().forgetting_failures)
            memory.close()
        """
        with Child(code, tmp_path, "一") as one, Child(code, tmp_path, "b") as other:
            for child in (one, other):
                child.hear()
            for child in (one, other):
                child.go()
            assert [child.hear() for child in (one, other)] == [0, 0]
        with Memory.open(tmp_path, config={"index": {"background": False}}) as m:
            runs = [one for one in m.operations() if one.kind == "forget"]
            forgotten = sum(len(one.payload["states"]) for one in runs)
            due = m.operations()[-1].sequence // 20
            assert 0 < forgotten <= 3 * due, "three at most, each time it was due, whoever found it so"
            assert m.verify(replay=True).ok


class TestWhatFails:
    @pytest.mark.parametrize("error", [StoreBusy("忙 busy"), RuntimeError("a fault of ours")])
    def test_the_write_it_follows_does_not(
        self, memory: OpenMemory, monkeypatch: Any, caplog: Any, error: Exception
    ) -> None:
        m = memory(forgetting={"policies": NEWEST, "every_operations": 10})

        def fail(*_: Any, **__: Any) -> Any:
            raise error

        monkeypatch.setattr(Pruning, "forget", fail)
        with caplog.at_level(logging.WARNING, "hybridmem"):
            for n in range(10):
                say(m, n)
        assert (live(m), m.stats().forgetting_failures, m.stats().forgetting_problem) == (10, 1, str(error))
        assert "forgetting by schedule failed" in caplog.text
        monkeypatch.undo()
        for n in range(10, 19):
            say(m, n)
        assert live(m) == 3, "and the next time it is done"

    def test_a_policy_for_a_branch_that_is_not_here_is_told(self, memory: OpenMemory) -> None:
        m = memory(forgetting={"policies": [{**NEWEST[0], "within": "没有"}], "every_operations": 5})
        for n in range(6):
            say(m, n)
        assert m.stats().forgetting_failures == 1
        assert "没有" in (m.stats().forgetting_problem or "")

"""What is delivered is counted, without a write on the read path, and nothing that counts can fail what it counts."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hybridmem import Change, Memory, StoreBusy, uses
from hybridmem.embed.hashing import HashingEmbedder
from hybridmem.store import uses as stored
from hybridmem.store.rows import to_micros
from hybridmem.uses import Uses
from tests.conftest import SteerableClock
from tests.verified import assert_verified

OpenMemory = Callable[..., Memory]
ROOT = Path(__file__).resolve().parents[1]
COUNTING = {"count_uses": True}
TEXTS = {"zh": "财务退回发票", "en": "invoice returned", "mixed": "R&D 部门 invoice"}


def filled(memory: OpenMemory, **given: Any) -> Memory:
    """Three memories, each with a topic of its own."""
    m = memory(weights=COUNTING, retrieval={"tree": 0.0, "neighbour": 0.0, "vector": 0.0}, **given)
    if not m.children():
        for id, text in TEXTS.items():
            m.add(text, type="event", id=id)
    return m


def counts(m: Memory) -> dict[str, int]:
    return {id: m.get(id).uses for id in TEXTS}


class TestWhatCounts:
    def test_what_a_search_returns_and_a_context_shows(self, memory: OpenMemory) -> None:
        """Not what was looked at and left out, nor what a context had no room for."""
        m = filled(memory)
        assert [hit.id for hit in m.search("财务")] == ["zh"]
        assert {hit.id for hit in m.search("invoice", 1)} < {"en", "mixed"}
        m.flush()
        assert sum(counts(m).values()) == 2
        m.context("returned", token_budget=200)
        shown = {hit.id for hit in m.context("invoice", token_budget=20).hits}
        assert len(shown) == 1
        m.flush()
        assert counts(m)["zh"] == 1
        assert sum(counts(m).values()) == 3 + len(shown)

    def test_not_what_was_nor_what_is_forgotten_nor_reading_by_id(self, memory: OpenMemory, clock: Any) -> None:
        m = filled(memory)
        then = clock.time
        clock.advance(days=1)
        m.forget("zh")
        m.search("发票 invoice", as_of=then)
        m.context("发票 invoice", as_of=then)
        assert m.search("发票", states=["forgotten"]).hits
        m.get("en")
        list(m.walk())
        m.flush()
        assert counts(m) == dict.fromkeys(TEXTS, 0)

    def test_nothing_if_it_is_switched_off(self, memory: OpenMemory, rows: Any) -> None:
        m = memory(weights={"count_uses": False})
        m.add("发票 invoice")
        m.flush()
        before = rows(m)
        m.search("发票 invoice")
        m.flush()
        assert rows(m) == before

    def test_it_is_on_unless_it_is_switched_off(self) -> None:
        from hybridmem.config import Config

        assert Config().weights.count_uses is True

    def test_more_uses_more_weight(self, memory: OpenMemory) -> None:
        m = filled(memory)
        before = m.weights(["en"])["en"]
        for _ in range(3):
            m.search("returned")
        m.flush()
        assert m.weights(["en"])["en"] == pytest.approx(before + 0.1 * 0.5)


class TestReadingNeverWrites:
    def test_no_row_changes_before_the_next_write(self, memory: OpenMemory, rows: Any) -> None:
        m = filled(memory)
        m.flush()
        before = rows(m)
        for _ in range(5):
            m.search("发票 invoice")
            m.context("发票 invoice")
        assert rows(m) == before

    @pytest.mark.parametrize("way", ["write", "flush", "close", "thread"])
    def test_each_way_to_the_store(self, memory: OpenMemory, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
        m = filled(memory)
        m.flush()
        m.search("财务")
        if way == "write":
            m.add("别的 other")
        elif way == "flush":
            m.flush()
        elif way == "close":
            m.close()
        else:
            m._indexer.chore(lambda: False)
            assert counts(m)["zh"] == 0  # not yet: a search after it has to read the weights again
            monkeypatch.setattr(uses, "PATIENCE_SECONDS", 0.0)
            m._indexer.chore(lambda: False)
        assert counts(filled(memory)) == {"zh": 1, "en": 0, "mixed": 0}

    def test_a_handle_that_only_reads_begins_no_run(self, memory: OpenMemory, rows: Any) -> None:
        """Else a reader that is killed would look like an agent that was interrupted."""
        filled(memory).close()
        reader = filled(memory)
        sessions = rows(reader)["session"]
        reader.search("财务")
        reader.close()
        reader = filled(memory)
        assert (rows(reader)["session"], counts(reader)["zh"]) == (sessions, 1)


class TestTheEntry:
    def test_is_one_for_many_and_changes_neither_version_nor_times(
        self, memory: OpenMemory, clock: SteerableClock
    ) -> None:
        m = filled(memory)
        before = {id: m.get(id) for id in TEXTS}
        last = m.operations()[-1].sequence
        m.search("发票 invoice returned")
        m.search("invoice")
        clock.advance(days=3)
        m.flush()
        [entry] = m.operations(last)
        assert (entry.kind, entry.node_id, entry.at) == ("use", None, clock.time)
        assert dict(entry.payload["nodes"]) == {
            "zh": {"uses": 1, "version": 1}, "en": {"uses": 2, "version": 1}, "mixed": {"uses": 2, "version": 1},
        }  # fmt: skip
        for id, old in before.items():
            new = m.get(id)
            assert (new.version, new.updated_at, new.active_at) == (old.version, old.updated_at, old.active_at)
        told = m.history("en")[-1]
        assert (told.kind, told.changes, told.version) == ("use", {"uses": Change(0, 2)}, 1)

    def test_comes_before_the_write_that_takes_it_along(self, memory: OpenMemory) -> None:
        """So a checkpoint has it, a restore takes it back, and an optimistic lock does not see it."""
        m = filled(memory)
        version = m.get("zh").version
        m.search("财务")
        assert m.update("zh", importance=0.9, expected_version=version).uses == 1
        assert [one.kind for one in m.operations()[-2:]] == ["use", "update"]
        m.search("财务")
        m.restore(sequence=m.operations()[-1].sequence)
        assert m.get("zh").uses == 1

    def test_says_when_each_was_used_last(self, memory: OpenMemory, clock: SteerableClock) -> None:
        """For forgetting what was used least recently: recency counts from the last activity, which a use is not."""
        m = filled(memory)
        times = {}
        for words, id in (("财务", "zh"), ("returned", "en"), ("财务", "zh")):
            clock.advance(days=1)
            m.search(words)
            m.flush()
            times[id] = to_micros(clock.time)
        with m._workspace.read() as tx:
            assert stored.last_used(tx, m._workspace.id) == times

    def test_the_log_says_it_all(self, memory: OpenMemory, clock: SteerableClock) -> None:
        m = filled(memory)
        m.search("财务")
        m.flush()
        then = clock.time
        clock.advance(days=1)
        for _ in range(4):
            m.search("发票 invoice")
        m.flush()
        assert (m.get("zh", as_of=then).uses, m.get("en", as_of=then).uses) == (1, 0)
        assert m.get("zh").uses == 5
        assert_verified(m, replay=True)
        m.restore(sequence=next(one.sequence for one in m.operations() if one.kind == "use"))
        assert counts(m) == {"zh": 1, "en": 0, "mixed": 0}
        assert_verified(m, replay=True)


class TestWhatCannotBeCounted:
    def test_a_count_that_cannot_be_written_fails_no_write(
        self, memory: OpenMemory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The write is done, whole, and the counts go with the next one."""
        m = filled(memory)
        m.search("财务")
        add = stored.add

        def fails(tx: sqlite3.Connection, *given: Any) -> Any:
            add(tx, *given)  # half done when it happens
            raise sqlite3.OperationalError("for the test")

        with monkeypatch.context() as patch:
            patch.setattr(stored, "add", fails)
            node = m.add("还在 still here")
            m.flush()
        assert (m.get(node.id).content, counts(m)["zh"]) == ("还在 still here", 0)
        assert_verified(m, replay=True)
        m.flush()
        assert counts(m)["zh"] == 1
        assert_verified(m, replay=True)

    def test_a_write_that_fails_loses_no_count(self, memory: OpenMemory, refused: Any) -> None:
        m = filled(memory)
        m.search("财务")
        for _ in range(3):
            with pytest.raises(Exception, match="there is no node"):
                m.update("nope", importance=0.1)
        assert counts(m)["zh"] == 0
        m.add("下一个 next")
        m.flush()
        assert counts(m)["zh"] == 1

    def test_a_busy_store_fails_neither_flush_of_counts_nor_close(self, memory: OpenMemory) -> None:
        m = filled(memory, store={"busy_timeout_seconds": 0.05})
        m.search("财务")
        with closing(sqlite3.connect(m.path / "tree.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            m._workspace.flush_uses()
            assert len(m._workspace.uses) == 1
            with pytest.raises(StoreBusy):
                m.add("x")
            other.execute("ROLLBACK")
            m.add("y")
            assert counts(m)["zh"] == 1
            reader = filled(memory, store={"busy_timeout_seconds": 0.05})
            reader.search("财务")
            other.execute("BEGIN IMMEDIATE")
            reader.close()
            other.execute("ROLLBACK")
        assert counts(m)["zh"] == 1  # lost with the handle that could not say it

    def test_what_is_gone_or_renamed_meanwhile_is_left_out(self, memory: OpenMemory) -> None:
        m = filled(memory)
        m._workspace.uses.count(["zh", "nobody", "en"])
        m.flush()
        assert counts(m) == {"zh": 1, "en": 1, "mixed": 0}

    def test_the_buffer_is_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(uses, "MOST", 3)
        buffer = Uses()
        for _ in range(2):
            buffer.count(str(n) for n in range(100))
        assert buffer.take() == {"0": 2, "1": 2, "2": 2}
        assert buffer.take() == {}


class TestManyAtOnce:
    def test_two_handles_and_their_threads_add_up(self, memory: OpenMemory) -> None:
        """Each counts on top of what the row has when it writes, not of what it has read."""
        handles = [filled(memory, agent=f"agent {n}") for n in range(2)]

        def work(m: Memory) -> None:
            for n in range(10):
                m.search("财务")
                if n % 3 == 0:
                    m.add(f"写 write {n}", type="event")

        threads = [threading.Thread(target=work, args=(m,)) for m in handles for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for m in handles:
            m.flush()
        assert counts(handles[0])["zh"] == 40
        assert_verified(handles[0], replay=True)

    def test_processes_add_up_and_one_that_is_killed_loses_its_own_only(self, memory: OpenMemory) -> None:
        m = filled(memory)
        m.close()
        code = (
            "import os, signal, sys\nfrom hybridmem import Memory\n"
            "config = {'embedding': {'provider': 'hashing'}, 'index': {'background': False}, 'retrieval': "
            "{'tree': 0.0, 'neighbour': 0.0, 'vector': 0.0}}\n"
            "with Memory.open(sys.argv[1], config=config) as m:\n"
            "    for n in range(5):\n"
            "        m.search('财务')\n"
            "        if n == 2 and sys.argv[2] == 'dies': m.flush()\n"
            "    if sys.argv[2] == 'dies': os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        started = [
            subprocess.Popen([sys.executable, "-c", code, str(m.path), how], env=dict(os.environ), cwd=ROOT)
            for how in ("ends", "dies", "ends")
        ]
        assert [one.wait(120) for one in started] == [0, -signal.SIGKILL, 0]
        m = filled(memory)
        assert counts(m) == {"zh": 5 + 3 + 5, "en": 0, "mixed": 0}
        assert_verified(m, replay=True)


ACTS = st.lists(
    st.tuples(st.sampled_from(["search", "context", "write", "fail", "flush", "reopen"]), st.integers(0, 2)),
    max_size=25,
)


@given(acts=ACTS)
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
def test_whatever_happens_every_delivery_counts_once(
    tmp_path_factory: pytest.TempPathFactory, acts: list[tuple[str, int]]
) -> None:
    directory = tmp_path_factory.mktemp("s")
    config = {
        "index": {"background": False}, "retrieval": {"tree": 0.0, "neighbour": 0.0, "vector": 0.0},
    }  # fmt: skip

    def opened() -> Memory:
        return Memory.open(directory, config=config, embedder=HashingEmbedder(), clock=SteerableClock())

    m = opened()
    for id, text in TEXTS.items():
        m.add(text, type="event", id=id)
    expected = dict.fromkeys(TEXTS, 0)
    for act, n in acts:
        words = ["财务", "returned", "invoice"][n]
        if act == "search":
            found = [hit.id for hit in m.search(words)]
        elif act == "context":
            found = [hit.id for hit in m.context(words).hits]
        else:
            found = []
        for id in found:
            expected[id] += 1
        if act == "write":
            m.pin(list(TEXTS)[n])
        elif act == "fail":
            with pytest.raises(Exception, match="there is no node"):
                m.pin("nope")
        elif act == "flush":
            m.flush()
        elif act == "reopen":
            m.close()
            m = opened()
    m.flush()
    assert counts(m) == expected
    assert m.verify(replay=True).ok
    m.close()

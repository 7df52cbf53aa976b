"""C042: what is stored within one moment comes back in the order in which it was stored, on every path."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hybridmem import Memory

OpenMemory = Callable[..., Memory]
COUNT = 100
#: Alike for every signal but the number, which no question names: only the order of insertion is left.
TEXTS = ("发票 invoice {0:03}号", "报销 claim {0:03}号", "短信 SMS {0:03}号")


def text(number: int) -> str:
    return TEXTS[number % 3].format(number)


@pytest.fixture(params=range(2), ids=lambda round: f"round {round}")
def frozen(request: pytest.FixtureRequest, memory: OpenMemory) -> Memory:
    """100 memories below one, the clock standing still: one by one and in batches, with ids in no order, made anew in
    each round, in other batches."""
    m = memory()
    top = m.add("全部 all", type="summary", id="top")
    number = 0
    while number < COUNT:
        size = 1 if (number + request.param) % 2 else 5
        batch = [
            {"content": text(n), "parent": top.id, "type": "event" if n % 2 else "decision"}
            for n in range(number, min(number + size, COUNT))
        ]
        if size == 1:
            m.add(**batch[0])
        else:
            m.add_many(batch)
        number += len(batch)
    return m


ALL = [text(number) for number in range(COUNT)]


class TestInsertionOrder:
    @pytest.mark.parametrize("frozen", range(20), indirect=True)
    def test_lists_pages_and_the_last_ones(self, frozen: Memory) -> None:
        """C042: the whole list, pages of 7 without a gap or a repeat, the last five."""
        assert [node.content for node in frozen.children("top")] == ALL
        pages = [frozen.children("top", offset=start, limit=7) for start in range(0, COUNT + 7, 7)]
        assert [node.content for page in pages for node in page] == ALL
        assert [node.content for node in frozen.children("top", offset=COUNT - 5)] == ALL[-5:]
        assert [node.content for node in frozen.walk("top")][1:] == ALL
        assert [node.content for node in frozen.resume().decisions] == ALL[::2][-10:]
        assert [op.sequence for op in frozen.operations()] == list(range(1, len(frozen.operations()) + 1))
        added = [op.node_id for op in frozen.operations() if op.kind == "add"]
        assert [frozen.get(str(id)).content for id in added][1:] == ALL

    def test_ties_of_a_search_and_a_context(self, frozen: Memory) -> None:
        """C042: what scores the same, and what happened at the same time."""
        weighed = frozen.context(token_budget=8_000, order="time", types=["event"])
        shown = [line for line in weighed.text.splitlines() if "号" in line]
        assert [line.split("] ")[-1] for line in shown] == [one for one in ALL if one in weighed.text]
        for order in ("tree", "score"):
            found = frozen.context(token_budget=8_000, order=order, types=["event"])
            lines = [line.split("] ")[-1] for line in found.text.splitlines() if "号" in line]
            assert lines == sorted(lines, key=ALL.index)
            assert len(lines) > 10
        alike = [frozen.add("同一句话 the very same words", type="event", parent="top").id for _ in range(30)]
        frozen.flush()
        hits = frozen.search("同一句话 the very same words", COUNT, scope="namespace").hits
        found = [(round(-hit.score, 9), alike.index(hit.id)) for hit in hits if hit.id in alike]
        assert found == sorted(found), "best first, and of those alike the one that was stored first"
        assert len({score for score, _ in found}) < 5
        again = frozen.search("同一句话 the very same words", COUNT, scope="namespace").hits
        assert [hit.id for hit in hits] == [hit.id for hit in again]

    def test_files_and_a_new_store(self, frozen: Memory, memory: OpenMemory, tmp_path: Path) -> None:
        """C042: an export, and what is made of it."""
        frozen.export(tmp_path / "all.jsonl")
        lines = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text("utf-8").splitlines()]
        assert [line["content"] for line in lines if "号" in line.get("content", "")] == ALL
        copy = memory("copy")
        copy.import_(tmp_path / "all.jsonl")
        assert [node.content for node in copy.children("top")] == ALL

    def test_a_reopened_store(self, frozen: Memory, memory: OpenMemory) -> None:
        """C042: the order survives a checkpoint and a new run."""
        point = frozen.checkpoint("现在 now")
        decided = point.decision_path
        frozen.close()
        m = memory()
        assert [node.content for node in m.children("top")] == ALL
        assert [node.content for node in m.resume().decisions] == ALL[::2][-10:]
        assert m.checkpoint().decision_path == decided

    def test_what_is_forgotten_and_brought_back(self, frozen: Memory) -> None:
        """C042: the reply, the log, and the list afterwards, whatever came back first."""
        order = [node.id for node in frozen.walk("top")]
        frozen.start_task("别处 elsewhere")
        assert list(frozen.forget("top", subtree=True).ids) == order
        assert [row[0] for row in frozen.operations()[-1].payload["states"]] == order
        frozen.restore_forgotten("top")
        for id in reversed(order[50:]):
            frozen.restore_forgotten(id)
        assert [node.content for node in frozen.children("top")] == ALL[49:]
        assert list(frozen.restore_forgotten("top", subtree=True).ids) == order[1:50]
        assert [node.content for node in frozen.children("top")] == ALL
        assert list(frozen.archive("top").ids) == order
        assert list(frozen.unarchive("top").ids) == order


def test_tasks_started_at_the_same_moment_and_the_moment_itself_asked_for(memory: OpenMemory, clock: Any) -> None:
    m = memory()
    titles = [f"任务 task {number:03}" for number in range(30)]
    for title in titles:
        m.start_task(title)
    assert [node.content for node in m.tasks()] == titles
    then = m.context(as_of=clock.time, token_budget=8_000, order="time")
    shown = [line.split("] ", 1)[1] for line in then.text.splitlines() if line.startswith("- [task")]
    assert shown == [title for title in titles if title in shown]
    assert len(shown) > 10

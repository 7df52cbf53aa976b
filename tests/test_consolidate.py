"""Consolidation: which branches become summaries, what is left alone, what comes back, and that the log knows all."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from summaries import Saying, chatter

from hybridmem import InvalidInput, Memory, NotFound

OpenMemory = Callable[..., Memory]
SHORT = {"min_tokens": 20}


def finished(m: Memory, title: str = "报销 claim", marks: str = "INV-20431") -> str:
    """A finished task with a fact, a finished sub-task with a decision, and chatter; the agent is at work elsewhere."""
    task = m.start_task(title)
    m.add(f"发票号 {marks}。", type="fact")
    sub = m.start_task("审核 review", parent="active")
    m.add("决定：split it in two and hand it in again.", type="decision")
    chatter(m, sub.id, 8)
    m.finish_task(sub.id)
    m.finish_task(task.id)
    m.start_task("别处 elsewhere")
    return task.id


def live(m: Memory, id: str | None = None) -> set[str]:
    return {node.id for node in m.walk(id) if node.state == "live"}


class TestWhatBecomesASummary:
    def test_a_finished_task_keeps_its_place_and_its_summary_hangs_below_it(self, memory: OpenMemory) -> None:
        m = memory(consolidation=SHORT)
        task = finished(m)
        below = live(m, task) - {task}
        report = m.consolidate()
        (one,) = report.branches
        assert (one.id, set(one.sources), one.left) == (task, below, ())
        assert 0 < report.tokens_after == one.tokens_after < one.tokens_before == report.tokens_before
        assert one.summary_id is not None
        summary = m.get(one.summary_id)
        assert (summary.type, summary.parent_id, summary.content) == ("summary", task, one.summary)
        assert "INV-20431" in summary.content
        assert "审核 review:\n决定：split it in two" in summary.content, "below the title of its sub-task"
        assert live(m, task) == {task, summary.id}
        sources = [m.get(id_) for id_ in one.sources]
        assert {(node.state, node.replaced_by) for node in sources} == {("archived", summary.id)}

    def test_the_summary_is_found_and_its_sources_only_if_archived_ones_are_asked_for(self, memory: OpenMemory) -> None:
        m = memory(consolidation=SHORT)
        finished(m)
        (one,) = m.consolidate().branches
        assert m.search("发票号 INV-20431")[0].id == one.summary_id
        assert {hit.id for hit in m.search("发票号 split", 50)}.isdisjoint(one.sources)
        assert {hit.id for hit in m.search("发票号 split", 50, states=["archived"])} <= set(one.sources)
        assert m.search("INV-20431", states=["archived"])[0].content == "发票号 INV-20431。"

    def test_it_is_no_news(self, memory: OpenMemory, clock: Any) -> None:
        """Recency counts from what happened, not from when it was summarised."""
        m = memory(consolidation=SHORT)
        task = finished(m)
        before = m.get(task).active_at
        clock.advance(days=40)
        (one,) = m.consolidate().branches
        assert one.summary_id is not None
        assert m.get(task).active_at == before == m.get(one.summary_id).active_at

    def test_a_task_with_a_summary_and_new_memories_gets_one_of_both(self, memory: OpenMemory) -> None:
        m = memory(consolidation=SHORT)
        task = finished(m)
        first = m.consolidate().branches[0]
        assert m.consolidate().skipped == ((task, "there is nothing new beside its summary"),)
        chatter(m, task, 8, 100)
        second = m.consolidate().branches[0]
        assert first.summary_id in second.sources
        assert m.get(str(first.summary_id)).replaced_by == second.summary_id
        assert m.get(first.sources[0]).replaced_by == first.summary_id, "the way to the originals"
        assert all(line in second.summary for line in first.summary.splitlines())
        with pytest.raises(InvalidInput, match=f"part of '{second.summary_id}'"):
            m.unconsolidate(str(first.summary_id))

    def test_old_memories_of_open_tasks_too_if_that_is_asked_for(self, memory: OpenMemory, clock: Any) -> None:
        m = memory(consolidation=SHORT)
        task = m.start_task("长期任务 long-running")
        old = m.add("超时时间 is 30 seconds, order OPS-7719", type="fact")
        chatter(m, task.id, 10)
        clock.advance(days=10)
        new = m.add("新的 new OPS-1")
        assert m.consolidate().note.startswith("nothing to consolidate")
        (one,) = m.consolidate(older_than=timedelta(days=5)).branches
        assert one.id == task.id
        assert old.id in one.sources
        assert new.id in live(m, task.id)
        assert "OPS-7719" in one.summary

    def test_a_memory_with_all_below_it_becomes_a_summary_in_its_place(self, memory: OpenMemory) -> None:
        m = memory(consolidation=SHORT)
        top = m.add("材料 papers INV-7", type="note", parent="root")
        chatter(m, top.id, 10)
        m.start_task("别处")
        (one,) = m.consolidate(top.id).branches
        assert top.id in one.sources
        assert m.get(str(one.summary_id)).parent_id == m.root().id

    def test_small_branches_are_not_worth_it(self, memory: OpenMemory) -> None:
        m = memory(consolidation={"min_tokens": 10_000})
        task = finished(m)
        ((id_, why),) = m.consolidate().skipped
        assert id_ == task
        assert "fewer than consolidation.min_tokens (10000)" in why

    def test_a_dry_run_says_it_and_writes_nothing(self, memory: OpenMemory, rows: Any) -> None:
        m = memory(consolidation=SHORT)
        finished(m)
        before = rows(m)
        said = m.consolidate(dry_run=True)
        assert rows(m) == before
        real = m.consolidate()
        assert said.dry_run
        assert said.branches[0].summary_id is None
        assert (said.branches[0].sources, said.branches[0].summary) == (
            real.branches[0].sources,
            real.branches[0].summary,
        )


class TestWhatIsLeftAlone:
    def test_pinned_unfinished_claimed_and_where_others_work_with_what_encloses_it(self, memory: OpenMemory) -> None:
        """C029: what stays is still found from the root, since what encloses it stays too."""
        m = memory(consolidation=SHORT)
        task = m.start_task("大任务 big")
        m.add("发票号 INV-20431。", type="fact")
        chatter(m, task.id, 10)
        pinned_parent = m.add("文件夹 folder", parent=task.id)
        pinned = m.add("钉住 pinned", parent=pinned_parent.id)
        m.pin(pinned.id)
        sub = m.start_task("还开着 still open", parent=task.id)
        inside = m.add("里面 inside", parent=sub.id)
        work = m.add("别人 other's place", parent=task.id)
        m.claim_task(sub.id)
        m.finish_task(task.id)
        other = memory(agent="other", consolidation=SHORT)
        there = other.add("在这里 here", parent=work.id)
        m.start_task("别处 elsewhere")
        (one,) = m.consolidate().branches
        kept = {pinned_parent.id, pinned.id, sub.id, inside.id, work.id, there.id}
        assert kept.isdisjoint(one.sources)
        assert kept <= live(m, task.id)
        why = dict(one.left)
        assert why[pinned.id] == "is pinned"
        assert "not finished (open, claimed by agent 'default')" in why[sub.id]
        assert why[there.id] == "is where agent 'other' is at work"
        for id_ in kept:
            assert {node.state for node in m.ancestors(id_)} == {"live"}

    @pytest.mark.parametrize("what", ["root", "open"])
    def test_the_root_and_an_open_task_are_refused(self, memory: OpenMemory, refused: Any, what: str) -> None:
        m = memory(consolidation=SHORT)
        task = m.start_task("开着 open")
        with refused(m, InvalidInput, "give older_than"):
            m.consolidate(task.id if what == "open" else m.root().id)

    @pytest.mark.parametrize("age", [-1, float("nan"), "3", True, 1e300])
    def test_an_age_that_is_none_is_refused(self, memory: OpenMemory, refused: Any, age: Any) -> None:
        m = memory()
        m.add("x")
        with refused(m, InvalidInput, "older_than"):
            m.consolidate(older_than=age)

    def test_a_branch_that_changes_meanwhile_is_skipped(self, memory: OpenMemory) -> None:
        """The summariser works outside of the transaction; what others write then is not to be archived unread."""
        other = memory(agent="other")
        added: list[str] = []

        def meanwhile() -> str:
            added.append(other.add("同时写的 written meanwhile", parent=task).id)
            return "短 short"

        m = memory(summarizer=Saying(meanwhile), consolidation=SHORT)
        task = finished(m)
        before = live(m)
        report = m.consolidate()
        assert report.skipped == ((task, "it has changed while it was summarised"),)
        assert live(m) == before | set(added)

    def test_one_branch_that_fails_keeps_no_other_from_being_summarised(self, memory: OpenMemory) -> None:
        m = memory(summarizer=Saying(OSError("坏了 down"), "第二 second"), consolidation=SHORT)
        first, second = finished(m), finished(m, "报销二 second")
        report = m.consolidate()
        assert [one.id for one in report.branches] == [second]
        assert report.skipped == ((first, "the summariser failed: OSError: 坏了 down"),)


class TestUndoing:
    def test_unconsolidate_brings_everything_back(self, memory: OpenMemory) -> None:
        m = memory(consolidation=SHORT)
        finished(m)
        before = live(m)
        contents = {id_: m.get(id_).content for id_ in before}
        (one,) = m.consolidate().branches
        assert m.unconsolidate(str(one.summary_id), dry_run=True).ids == m.unconsolidate(str(one.summary_id)).ids
        assert live(m) == before
        assert {id_: m.get(id_).content for id_ in before} == contents
        assert {m.get(id_).replaced_by for id_ in before} == {None}
        assert m.get(str(one.summary_id)).state == "forgotten"
        assert m.verify(replay=True).ok
        assert len(m.consolidate().branches) == 1, "and may be done again"

    def test_what_is_no_summary_or_has_something_below_it_is_refused(self, memory: OpenMemory, refused: Any) -> None:
        m = memory(consolidation=SHORT)
        task = finished(m)
        (one,) = m.consolidate().branches
        with refused(m, InvalidInput, "is no summary"):
            m.unconsolidate(task)
        with pytest.raises(NotFound):
            m.unconsolidate("nowhere")
        m.add("说明 remark", parent=str(one.summary_id))
        m.add("别处 elsewhere", parent="root")
        with refused(m, InvalidInput, "has live memories below it"):
            m.unconsolidate(str(one.summary_id))

    def test_restore_as_of_history_and_replay_agree(self, memory: OpenMemory, clock: Any) -> None:
        m = memory(consolidation=SHORT)
        task = finished(m)
        before, then = live(m), clock.now()
        sequence = m.operations()[-1].sequence
        clock.advance(hours=1)
        (one,) = m.consolidate().branches
        source = one.sources[0]
        assert m.verify(replay=True).ok
        assert m.get(source, as_of=then).state == "live"
        assert m.get(source, as_of=then).replaced_by is None
        assert [node.id for node in m.children(task, as_of=then)] != [node.id for node in m.children(task)]
        assert m.history(source)[-1].changes["replaced_by"].after == one.summary_id
        m.restore(sequence=sequence)
        assert live(m) == before
        assert m.verify(replay=True).ok

    def test_export_and_import_keep_the_link(self, memory: OpenMemory, tmp_path: Any) -> None:
        m = memory(consolidation=SHORT)
        finished(m)
        (one,) = m.consolidate().branches
        m.export(tmp_path / "all.jsonl")
        copy = memory("copy")
        copy.import_(tmp_path / "all.jsonl")
        assert copy.get(one.sources[0]).replaced_by == one.summary_id
        assert set(copy.unconsolidate(str(one.summary_id)).ids) == set(one.sources)

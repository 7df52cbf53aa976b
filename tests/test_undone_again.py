"""What was forgotten, merged or summarised comes back as it was, also when other verbs came in between.

Found by tests/stateful/test_life.py, or while it was written: each verb alone was right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from verified import assert_verified

from hybridmem import InvalidInput, Memory
from hybridmem.ports import Passage

OpenMemory = Callable[..., Memory]
SAID = [
    ("发票不清晰", "发票看不清", "发票模糊"),
    ("the invoice is blurred", "the invoice is unclear", "blurred invoice"),
    ("invoice 不清晰", "发票 unclear", "invoice 模糊"),
]


class Short:
    def summarize(self, passages: Sequence[Passage], budget: int) -> str:
        return "汇总 S"


def alike(memory: Memory, said: Sequence[str]) -> tuple[str, str, str]:
    """Three facts, and a note where the agent is."""
    kept, one, other = (memory.add(text, type="fact").id for text in said)
    memory.add("接着做 next", type="note")
    return kept, one, other


@pytest.mark.parametrize("said", SAID)
class TestUnmergeUndoesWhatIsMergedStill:
    def test_when_what_the_last_merge_took_in_was_forgotten(self, memory: OpenMemory, said: Sequence[str]) -> None:
        m = memory()
        kept, one, other = alike(m, said)
        m.merge_duplicates(kept, [one])
        m.merge_duplicates(kept, [other])
        m.forget(other)
        assert m.unmerge(kept).ids == (one,)
        assert_verified(m, replay=True)

    def test_when_a_restore_undid_the_last_merge(self, memory: OpenMemory, said: Sequence[str]) -> None:
        m = memory()
        kept, one, other = alike(m, said)
        before = m.get(kept)
        m.merge_duplicates(kept, [one])
        point = m.checkpoint()
        m.merge_duplicates(kept, [other])
        m.restore(checkpoint=point)
        assert m.unmerge(kept).ids == (one,)
        assert (m.get(kept).confidence, m.get(kept).uses) == (pytest.approx(before.confidence), before.uses)
        assert_verified(m, replay=True)

    def test_when_a_restore_undid_an_unmerge(self, memory: OpenMemory, said: Sequence[str]) -> None:
        m = memory()
        kept, one, _ = alike(m, said)
        before = m.get(kept)
        m.merge_duplicates(kept, [one])
        point = m.checkpoint()
        m.unmerge(kept)
        m.restore(checkpoint=point)
        assert m.unmerge(kept).ids == (one,)
        assert (m.get(kept).confidence, m.get(kept).uses) == (pytest.approx(before.confidence), before.uses)
        with pytest.raises(InvalidInput, match="no memory is merged"):
            m.unmerge(kept)

    def test_also_when_the_restore_found_the_kept_one_as_it_had_been(
        self, memory: OpenMemory, said: Sequence[str]
    ) -> None:
        """Another merge gave it the same again, so that the restore changed nothing of it and does not name it."""
        m = memory()
        kept, one, other = alike(m, said)
        before = m.get(kept)
        m.merge_duplicates(kept, [one])
        point = m.checkpoint()
        m.unmerge(kept)
        m.merge_duplicates(kept, [other])
        m.restore(checkpoint=point)
        assert m.unmerge(kept).ids == (one,)
        assert (m.get(kept).confidence, m.get(kept).uses) == (pytest.approx(before.confidence), before.uses)
        assert_verified(m, replay=True)

    def test_when_part_of_it_was_forgotten_at_the_first_unmerge(self, memory: OpenMemory, said: Sequence[str]) -> None:
        """What the merge gave is taken back once."""
        m = memory()
        kept, one, other = alike(m, said)
        m.merge_duplicates(kept, [one, other])
        m.forget(other)
        first = m.unmerge(kept)
        m.restore_forgotten(other)
        second = m.unmerge(kept)
        assert (first.ids, second.ids) == ((one,), (other,))
        assert (second.keep.confidence, second.keep.uses) == (first.keep.confidence, first.keep.uses)

    def test_but_not_what_was_superseded_since(self, memory: OpenMemory, said: Sequence[str]) -> None:
        m = memory()
        kept, one, _ = alike(m, said)
        m.merge_duplicates(kept, [one])
        m.unmerge(kept)
        assert m.supersede(one, said[0]).id == kept
        with pytest.raises(InvalidInput, match="no memory is merged"):
            m.unmerge(kept)


@pytest.mark.parametrize("said", SAID)
class TestComesBackAsItWas:
    def test_an_archived_summary_that_was_undone(self, memory: OpenMemory, said: Sequence[str]) -> None:
        m, summary = self.summarised(memory, said)
        m.archive(summary)
        m.unconsolidate(summary)
        m.restore_forgotten(summary)
        assert m.get(summary).state == "archived"

    def test_also_when_it_was_forgotten_before_that(self, memory: OpenMemory, said: Sequence[str]) -> None:
        m, summary = self.summarised(memory, said)
        m.archive(summary)
        m.forget(summary)
        m.unconsolidate(summary)
        m.restore_forgotten(summary)
        assert m.get(summary).state == "archived"

    def test_what_a_restore_made_forgotten_again(self, memory: OpenMemory, said: Sequence[str]) -> None:
        m = memory()
        kept, one, _ = alike(m, said)
        m.merge_duplicates(kept, [one])
        m.forget(one)
        point = m.checkpoint()
        m.restore_forgotten(one)
        m.unmerge(kept)
        m.restore(checkpoint=point)
        m.restore_forgotten(one)
        assert (m.get(one).state, m.get(one).replaced_by) == ("superseded", kept)
        assert_verified(m, replay=True)

    def test_what_a_summary_only_contradicts_stays_archived(self, memory: OpenMemory, said: Sequence[str]) -> None:
        m, summary = self.summarised(memory, said)
        fact = m.add("另一件事 another", type="fact", parent="root").id
        m.add("接着做 next", parent="root")
        m.feedback(fact, contradicted_by=summary)
        m.archive(fact)
        assert fact not in m.unconsolidate(summary).ids
        assert m.get(fact).state == "archived"

    def test_a_summary_that_superseded_another_has_nothing_to_undo(
        self, memory: OpenMemory, said: Sequence[str]
    ) -> None:
        m, summary = self.summarised(memory, said)
        better = m.supersede(summary, "更好的汇总 a better one").id
        m.start_task("再下一个 next")
        with pytest.raises(InvalidInput, match="no summary"):
            m.unconsolidate(better)
        assert m.get(better).state == "live"

    def summarised(self, memory: OpenMemory, said: Sequence[str]) -> tuple[Memory, str]:
        m = memory(consolidation={"min_tokens": 1}, summarizer=Short())
        task = m.start_task(said[0])
        for text in said:
            m.add(f"{text}，{text}", type="event")
        m.finish_task()
        m.start_task("下一个 next")
        [branch] = m.consolidate(task.id).branches
        assert branch.summary_id is not None
        return m, branch.summary_id

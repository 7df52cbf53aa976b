"""What was merged or summarised comes back whatever was said of the kept one, or of the summary, in between."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from verified import assert_verified

from hybridmem import Memory
from hybridmem.inputs import MAX_COUNT
from hybridmem.ports import Passage

OpenMemory = Callable[..., Memory]
TEXTS = ("发票看不清", "the invoice is blurred", "invoice 不清晰")


class Short:
    def summarize(self, passages: Sequence[Passage], budget: int) -> str:
        return "汇总 S"


@pytest.mark.parametrize("said", TEXTS)
@pytest.mark.parametrize("others", [1, 4, 60])  # of 60 the confidence is 1.0, and no doubt is left to divide by
@pytest.mark.parametrize(("confirmed", "left"), [(None, 0.7), (True, 0.85), (False, 0.35)])
def test_a_verdict_on_a_kept_memory_is_the_same_without_the_merge(
    memory: OpenMemory, said: str, others: int, confirmed: bool | None, left: float
) -> None:
    m = memory()
    kept, *rest = (m.add(f"{said} {number}", type="note", confidence=0.7).id for number in range(others + 1))
    m.merge_duplicates(kept, rest)
    full = m.get(kept).confidence == 1.0
    if confirmed is not None:
        m.feedback(kept, confirmed=confirmed)
    confidence = m.unmerge(kept).keep.confidence
    # Of a confidence of 1.0 a confirmation cannot be seen any more.
    assert confidence == pytest.approx(0.7 if full and confirmed else left)


@pytest.mark.parametrize("said", TEXTS)
@pytest.mark.parametrize("become", ["contradicted", "superseded", "merged"])
def test_the_sources_of_a_summary_come_back_whatever_became_of_it(memory: OpenMemory, said: str, become: str) -> None:
    m = memory(summarizer=Short(), consolidation={"min_tokens": 1})
    task = m.start_task("报销 claim")
    sources = {m.add(f"{said} {number}, and more of it 还有更多", type="event").id for number in range(9)}
    m.finish_task(task.id)
    m.start_task("别处 elsewhere")
    other = m.add("另一个 other", type="summary")
    summary = str(m.consolidate(task.id).branches[0].summary_id)
    if become == "contradicted":
        m.feedback(summary, contradicted_by=other.id)
    elif become == "superseded":
        m.supersede(summary, "更好的 better")
    else:
        m.merge_duplicates(other.id, [summary])
    before = m.get(summary)
    assert set(m.unconsolidate(summary).ids) == sources
    assert {m.get(id_).state for id_ in sources} == {"live"}
    m.restore_forgotten(summary)
    assert (m.get(summary).state, m.get(summary).replaced_by) == (before.state, before.replaced_by)
    assert_verified(m)


@pytest.mark.parametrize("said", TEXTS)
def test_uses_that_an_import_has_set_to_the_most_stay_the_most(memory: OpenMemory, tmp_path: Path, said: str) -> None:
    m = memory()
    first, second = (m.add(f"{said} {number}", type="fact", parent="root").id for number in range(2))
    m.export(tmp_path / "all.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text(encoding="utf-8").splitlines()]
    for line in lines:
        if line.get("id") in (first, second):
            line["uses"] = MAX_COUNT
    text = "\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
    (tmp_path / "most.jsonl").write_text(text, encoding="utf-8")
    copy = memory("copy")
    copy.import_(tmp_path / "most.jsonl")
    assert copy.feedback(first, helpful=True).uses == MAX_COUNT
    assert copy.add(f"{said} 0", type="fact", parent="root").uses == MAX_COUNT
    assert copy.merge_duplicates(first, [second]).keep.uses == MAX_COUNT
    assert copy.unmerge(first).keep.uses == MAX_COUNT
    assert_verified(copy)


@pytest.mark.parametrize("said", TEXTS)
@pytest.mark.parametrize("how", ["consolidated", "merged"])
def test_what_contradicts_a_memory_is_known_again_when_it_comes_back(memory: OpenMemory, said: str, how: str) -> None:
    m = memory(summarizer=Short(), consolidation={"min_tokens": 1})
    task = m.start_task("报销 claim")
    first, second, third = (m.add(f"{said} {number}, and more of it 还有更多", type="event").id for number in range(3))
    against = m.add("不对 not so", type="fact", parent="root").id
    m.feedback(first, contradicted_by=against)
    if how == "consolidated":
        m.finish_task(task.id)
        m.start_task("别处 elsewhere")
        summary = str(m.consolidate(task.id).branches[0].summary_id)
        assert m.get(first).replaced_by == summary
        m.unconsolidate(summary)
    else:
        m.merge_duplicates(third, [first, second])
        assert m.get(first).replaced_by == third
        m.unmerge(third)
    assert [m.get(one).replaced_by for one in (first, second)] == [against, None]
    assert_verified(m)


@pytest.mark.parametrize("said", TEXTS)
def test_unarchiving_a_task_leaves_what_its_summary_stands_for_archived(memory: OpenMemory, said: str) -> None:
    """Both beside each other would say everything twice."""
    m = memory(summarizer=Short(), consolidation={"min_tokens": 1})
    task = m.start_task("报销 claim")
    sources = [m.add(f"{said} {number}, and more of it 还有更多", type="event").id for number in range(9)]
    m.finish_task(task.id)
    m.start_task("别处 elsewhere")
    summary = str(m.consolidate(task.id).branches[0].summary_id)
    m.archive(task.id, subtree=True)
    back = m.unarchive(task.id, subtree=True)
    assert (set(back.ids), "9 memories stay archived" in back.note) == ({task.id, summary}, True)
    assert {m.get(one).state for one in sources} == {"archived"}
    assert m.unarchive(sources[0]).ids == (sources[0],)  # named, it comes back
    assert set(m.unconsolidate(summary).ids) == set(sources[1:])
    assert_verified(m)


def test_without_its_summary_a_branch_comes_back_whole(memory: OpenMemory) -> None:
    m = memory(summarizer=Short(), consolidation={"min_tokens": 1})
    task = m.start_task("报销 claim")
    sources = {m.add(f"发票 {number}, and more of it 还有更多", type="event").id for number in range(9)}
    m.finish_task(task.id)
    m.start_task("别处 elsewhere")
    m.forget(str(m.consolidate(task.id).branches[0].summary_id))
    assert sources <= set(m.unarchive(task.id, subtree=True).ids)
    assert_verified(m)

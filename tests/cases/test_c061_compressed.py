"""C061: compression keeps conclusions but almost none of the numbers, paths and commands they rest on."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from summaries import PLANTED, Saying, chatter, lost, session

from hybridmem import Memory

OpenMemory = Callable[..., Memory]
#: The project's own target.
RECALL = 0.95


def test_thirty_planted_facts_survive_three_passes(memory: OpenMemory) -> None:
    """Each pass reads the summary of the one before, with new chatter beside it."""
    m = memory()
    task = session(m)
    originals = {node.id: node.content for node in m.walk(task) if node.type != "task"}
    missing: list[str] = []
    for number in range(3):
        report = m.consolidate(task)
        assert [one.id for one in report.branches] == [task], report.skipped
        if number == 0:
            assert report.tokens_after <= 0.5 * report.tokens_before, "facts are a third of it"
            missing = lost(m)
            assert len(missing) <= (1 - RECALL) * len(PLANTED), missing
        assert lost(m) == missing, "not falling"
        assert report.branches[0].details_before >= report.branches[0].details_kept > 0
        chatter(m, task, 12, 1000 * (number + 1))
    assert {id_: m.get(id_).content for id_ in originals} == originals, "every original by its id"
    assert {m.get(id_).state for id_ in originals} == {"archived"}
    assert m.verify(replay=True).ok


@pytest.mark.parametrize("language", ["zh", "en"])
def test_in_chinese_and_in_english_alike(memory: OpenMemory, language: str) -> None:
    m = memory()
    task = m.start_task("任务 task")
    mine = PLANTED[:15] if language == "zh" else PLANTED[15:]
    for number, (text, kind, _) in enumerate(mine):
        m.add(text, type=kind)
        chatter(m, task.id, 3, 3 * number)
    m.finish_task(task.id)
    summary = m.consolidate(task.id).branches[0].summary
    assert [fact for _, _, fact in mine if fact not in summary] == []


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("", "has nothing that is shorter"),
        (" \n\u3000", "has nothing that is shorter"),
        (RuntimeError("模型 overloaded"), "failed: RuntimeError: 模型 overloaded"),
        (None, "failed: InvalidInput: summary: must be a text"),
        ("说得比原来还长 much longer. " * 2000, "the summary has .* tokens, its sources have"),
        ("a\0b", "failed: InvalidInput: summary contains a NUL"),
    ],
)
def test_a_summariser_that_fails_changes_nothing(memory: OpenMemory, rows: Any, answer: object, reason: str) -> None:
    m = memory(summarizer=Saying(answer))
    session(m)
    before = rows(m)
    report = m.consolidate()
    assert report.branches == ()
    ((_, why),) = report.skipped
    assert re.search(reason, why), why
    assert rows(m) == before
    assert lost(m) == []

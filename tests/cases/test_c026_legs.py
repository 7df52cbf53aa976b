"""C026: neither signal of the hybrid search dilutes what the other one finds, on eighty questions in two languages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from eval.systems.ablations import CHANGES
from hybridmem import Memory, SearchResult, config
from hybridmem.text import query_terms, terms

from .bilingual import Asked, memories, questions

pytestmark = pytest.mark.model

FLAT = {"retrieval.tree": 0.0, "retrieval.neighbour": 0.0}
#: The defaults, and one signal alone: also for locating subtrees, and once more without any help from the tree.
SYSTEMS: dict[str, Mapping[str, Any]] = {
    "hybrid": {},
    "vector": CHANGES["no-lexical"],
    "lexical": CHANGES["no-vector"],
    "vector, flat": {**CHANGES["no-lexical"], **FLAT},
    "lexical, flat": {**CHANGES["no-vector"], **FLAT},
}
LEGS = tuple(name for name in SYSTEMS if name != "hybrid")
#: A leg is sure of its first hit when that is so far above the second, in score.
WIDE = 0.1
ASKED = questions()

QUIET = {"index": {"background": False}}

Results = dict[str, list[SearchResult]]


class Still:
    """It is always the same time, so that two runs give the same scores."""

    def now(self) -> datetime:
        return datetime(2026, 7, 2, 8, tzinfo=timezone.utc)


def fill(memory: Memory) -> None:
    for task, texts in memories().items():
        memory.start_task(task)
        memory.add_many({"content": text, "type": "event"} for text in texts)
        memory.finish_task()
    assert memory.flush() == 0


@pytest.fixture(scope="module")
def results(bundled: Any, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """What each system answers to each question; all read the same store, and no configuration but its own differs."""
    store = tmp_path_factory.mktemp("legs") / "store"
    with Memory.open(store, embedder=bundled, config=QUIET, clock=Still()) as m:
        fill(m)
    found: Results = {}
    for name, changes in SYSTEMS.items():
        with Memory.open(store, embedder=bundled, config=config.load(QUIET, overrides=changes), clock=Still()) as m:
            found[name] = [m.search(one.question, 10, types=["event"]) for one in ASKED]
            assert not any(result.warnings for result in found[name])
    return found


def right(found: Sequence[SearchResult], k: int, kinds: str = "pk") -> int:
    """How many of the questions of these kinds have their answer among the first ``k`` hits."""
    return sum(
        one.answer in [hit.content for hit in result.hits[:k]]
        for one, result in zip(ASKED, found, strict=True)
        if one.kind in kinds
    )


class TestTheQuestions:
    """C026: that the questions are what they claim to be, or the rest says nothing."""

    def test_there_are_eighty_over_160_different_memories(self) -> None:
        texts = [text for below in memories().values() for text in below]
        assert [one.kind for one in ASKED].count("p") == [one.kind for one in ASKED].count("k") == 40
        assert len(texts) == len(set(texts)) == 160

    @pytest.mark.parametrize("one", ASKED, ids=lambda one: one.question)
    def test_a_paraphrase_shares_no_term_with_its_answer_and_every_distractor_shares_one(self, one: Asked) -> None:
        asked = set(query_terms(one.question))
        assert bool(asked & set(terms(one.answer))) == (one.kind == "k")
        assert asked & set(terms(one.distractor))

    def test_each_leg_has_questions_that_only_it_can_answer(self, results: Results) -> None:
        assert right(results["lexical, flat"], 5, "p") == 0
        assert right(results["vector, flat"], 5, "p") >= 20
        assert right(results["lexical, flat"], 1, "k") > right(results["vector, flat"], 1, "k")


@pytest.mark.parametrize("k", [1, 5])
@pytest.mark.parametrize("leg", LEGS)
def test_hybrid_is_at_most_one_question_behind_a_leg(results: Results, leg: str, k: int) -> None:
    """C026: hit@1 and hit@5 over all eighty."""
    assert right(results["hybrid"], k) >= right(results[leg], k) - 1


def test_hybrid_answers_every_question_by_a_code_or_a_name_at_once(results: Results) -> None:
    """C026: codes that differ from another memory by two swapped digits; vectors alone miss some."""
    assert right(results["hybrid"], 1, "k") == 40


@pytest.mark.parametrize("leg", LEGS)
def test_what_a_leg_is_sure_of_stays_among_the_first_five(results: Results, leg: str) -> None:
    """C026: a wide margin of one signal is not outvoted by the other."""
    sure = [
        (alone[0], hybrid)
        for alone, hybrid in zip(results[leg], results["hybrid"], strict=True)
        if len(alone) > 0 and (len(alone) == 1 or alone[0].score - alone[1].score >= WIDE)
    ]
    assert len(sure) >= 30, "so few say nothing"
    lost = [best.content for best, hybrid in sure if best.id not in [hit.id for hit in hybrid.hits[:5]]]
    assert lost == []


def test_the_same_questions_get_the_same_answers_again(results: Results, bundled: Any, tmp_path: Path) -> None:
    """C026: in another store the figures are the same to the last question."""
    with Memory.open(tmp_path / "store", embedder=bundled, config=QUIET, clock=Still()) as m:
        fill(m)
        again = [m.search(one.question, 10, types=["event"]) for one in ASKED]
    assert [[(hit.content, hit.score) for hit in result] for result in again] == [
        [(hit.content, hit.score) for hit in result] for result in results["hybrid"]
    ]

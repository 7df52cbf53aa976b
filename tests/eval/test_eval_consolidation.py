"""The evaluation of consolidation, small: the promise holds in both languages, and the figures are what they say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from eval import kinds, results
from eval.consolidation import plan, run
from eval.consolidation.life import Life, chatter, planted
from eval.datasets import synthetic
from eval.datasets.synthetic_run import Run
from eval.experiment import CONFIGS
from hybridmem.config import load
from hybridmem.errors import ConfigError
from hybridmem.ports import Passage
from hybridmem.tokens import token_counter

pytestmark = pytest.mark.filterwarnings("ignore:open_binary is deprecated:DeprecationWarning")


def test_tokens_fall_by_sixty_percent_and_the_planted_facts_stay(tmp_path: Path) -> None:
    """The promise, on the size of the data set: one run in each language, three passes."""
    what, settings = plan.load(CONFIGS / "experiments" / "consolidation.yaml")
    result = run.Consolidating(what.model_copy(update={"seeds": {"one": (0,)}}), settings).run()
    for language, passes in result["consolidation"]["seeds"]["one"].items():
        assert passes[0]["down"] >= 60.0, language
        assert passes[0]["recall"] >= 95.0, language
        assert [one["recall"] for one in passes] == [passes[0]["recall"]] * 3, "not falling"
        assert all(one["recoverable"] == one["originals"] for one in passes)
        assert all(one["summaries"] == (27 if language == "all" else 9) for one in passes), "each pass did something"
    file = tmp_path / results.study_file_name(result)
    results.write(file, result)
    assert "recall" in next(iter(kinds.sheets(results.read(file)))).markdown()


class Forgetful:
    """Keeps the first memory of a branch."""

    def summarize(self, passages: Sequence[Passage], budget: int) -> str:
        return passages[0].text


def test_a_summariser_that_loses_facts_is_seen(tmp_path: Path) -> None:
    """Else the figures could not be trusted when they are good."""
    made = Run(Random("0/run-1-zh"), "zh", 5, 110)
    config = load({"index": {"background": False}})
    with Life(tmp_path / "store", made, config, token_counter(), Forgetful()) as life:
        found = life.consolidate()
    assert found["summaries"] == 5
    assert found["facts_kept"] <= 10 < found["facts"] == len(found["lost"]) + found["facts_kept"]
    assert found["tokens_after"] < 0.2 * found["tokens_before"]
    assert found["recoverable"] == found["originals"]


def test_nothing_consolidated_is_nothing_saved() -> None:
    small = plan.Plan(kind="consolidation", name="x", seeds={"0": (0,)}, runs=1, tasks=5, nodes=110, passes=1)
    settings = load({"index": {"background": False}, "consolidation": {"min_tokens": 100_000}})
    figures = run.Consolidating(small, settings).run()["consolidation"]["seeds"]["0"]["all"][0]
    assert (figures["down"], figures["recall"], figures["summaries"]) == (0.0, 100.0, 0)


def test_the_facts_are_the_answers_of_the_data_set() -> None:
    corpus = synthetic.generate(0, synthetic.Size(1, 9, 300, 60)).corpora[0]
    made = Run(Random("0/run-1-zh"), "zh", 9, 300)
    assert made.items == corpus.items, "the runs are those of the data set"
    texts = {item.id: item.text for item in made.items}
    facts = planted(made)
    assert len(facts) == len(made.answers) == 72
    for question in corpus.questions:
        assert all(any(fact.words in texts[gold] for fact in facts) for gold in question.gold)
    assert not any(text in texts[answer.item] for answer in made.answers for text in chatter(made))


def test_an_unknown_key_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("kind: consolidation\nname: x\nseeds: {a: [0]}\npassess: 3\n")
    with pytest.raises(ConfigError, match="passess"):
        plan.load(file)

"""The synthetic runs: the same everywhere, deep enough, full of look-alikes, and answerable."""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
from collections import Counter
from itertools import pairwise

import pytest

from eval import metrics, results
from eval.datasets import BUILT_IN, DATASETS, synthetic, synthetic_questions
from eval.datasets.synthetic import Size
from eval.datasets.synthetic_run import DOMAINS
from eval.datasets.synthetic_words import VALUES, WHOM
from eval.embedding import SharedEmbedder
from eval.systems.base import Setup
from eval.systems.bm25 import BM25
from eval.types import Corpus, Dataset, Item, Question
from hybridmem import embed
from hybridmem.config import Config, EmbeddingConfig
from hybridmem.errors import InvalidInput
from hybridmem.text import terms
from hybridmem.tokens import token_counter

# bpe_openai opens its own data in an old way when it is imported first.
pytestmark = pytest.mark.filterwarnings("ignore:open_binary is deprecated:DeprecationWarning")

_HAN = re.compile(r"[\u4e00-\u9fff]")


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return synthetic.generate(0)


def _items(corpus: Corpus) -> dict[str, Item]:
    return {item.id: item for item in corpus.items}


def _task(corpus: Corpus, item: str) -> str:
    """The title of the task at the top of an item."""
    groups = {group.id: group for group in corpus.groups}
    group = groups[_items(corpus)[item].group]
    while group.parent:
        group = groups[group.parent]
    return group.title


def test_the_same_seed_gives_the_same_data_in_another_process(dataset: Dataset) -> None:
    code = "from eval.datasets import synthetic\nprint(synthetic.generate(0).sha256)"
    for hash_seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True, text=True, check=True, cwd=results.ROOT, timeout=60,
            env={"PYTHONHASHSEED": hash_seed, "PATH": ""},
        )  # fmt: skip
        assert done.stdout.strip() == dataset.sha256
    assert synthetic.generate(1).sha256 != dataset.sha256


def test_sizes_are_kept_to_the_node(dataset: Dataset) -> None:
    assert [corpus.id for corpus in dataset.corpora] == ["run-1-zh", "run-2-en", "run-3-mixed", "run-4-zh"]
    for corpus in dataset.corpora:
        assert len(corpus.groups) + len(corpus.items) == 300
        assert len(corpus.questions) == 60
    assert synthetic.load_smoke().counts()["questions"] == 60
    own = synthetic.generate(3, Size(runs=1, tasks=6, nodes=200, questions=9))
    assert len(own.corpora[0].groups) + len(own.corpora[0].items) == 200


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (Size(1, 3, 20, 5), "3 tasks need at least .* nodes, not 20"),
        (Size(1, 1, 100, 500), r"the tasks of run-1-zh give \d+ questions, not 500"),
        (Size(1, 200, 9000, 5), "not enough different tasks for 200"),
        (Size(0, 3, 100, 5), "at least 1"),
    ],
)
def test_a_size_without_room_is_refused(size: Size, message: str) -> None:
    with pytest.raises(InvalidInput, match=f"size: .*{message}"):
        synthetic.generate(0, size)


def test_both_names_are_built_in_and_read_no_file() -> None:
    assert {"synthetic", "synthetic-smoke"} == BUILT_IN <= set(DATASETS)


def test_trees_are_three_deep_and_in_time_order_with_tasks_taken_in_turn(dataset: Dataset) -> None:
    for corpus in dataset.corpora:
        seen: set[str] = set()
        for group in corpus.groups:
            assert group.parent == "" or group.parent in seen
            seen.add(group.id)
        assert {item.group for item in corpus.items} <= seen
        assert max(group.id.count(".") for group in corpus.groups) == 2
        times = [item.time for item in corpus.items if item.time]
        assert times == sorted(times)
        assert len(times) == len(corpus.items)
        assert all(question.time and question.time > times[-1] for question in corpus.questions)
        owners = [item.group.partition(".")[0] for item in corpus.items]
        changes = sum(one != other for one, other in pairwise(owners))
        assert changes > 2 * len(set(owners))
        assert {item.type for item in corpus.items} == {"fact", "event", "decision", "preference"}


def test_languages_are_what_the_name_of_the_run_says(dataset: Dataset) -> None:
    for corpus in dataset.corpora:
        shares = [
            statistics.fmean(bool(_HAN.search(text)) for text in texts)
            for texts in ([item.text for item in corpus.items], [question.text for question in corpus.questions])
        ]
        if corpus.id.endswith("zh"):
            assert min(shares) > 0.85
        elif corpus.id.endswith("en"):
            assert max(shares) == 0.0
        else:
            assert all(0.25 < share < 0.85 for share in shares)


def test_every_kind_is_asked_and_every_answer_is_there_once(dataset: Dataset) -> None:
    for corpus in dataset.corpora:
        kinds = Counter(question.category for question in corpus.questions)
        assert set(kinds) == set(synthetic_questions.KINDS)
        assert min(kinds.values()) >= 5
        assert len({question.id for question in corpus.questions}) == len(corpus.questions)
        alone = [question.gold[0] for question in corpus.questions if question.category != "multi"]
        assert len(set(alone)) == len(alone)
        for question in corpus.questions:
            assert len(question.gold) == (2 if question.category == "multi" else 1)
            assert set(question.gold) <= set(_items(corpus))
    assert len({question.text for corpus in dataset.corpora for question in corpus.questions}) > 200


def test_a_question_names_the_task_that_its_answer_hangs_under(dataset: Dataset) -> None:
    names = {name for names in WHOM.values() for name in (*names.zh, *names.en)}
    for corpus in dataset.corpora:
        for question in corpus.questions:
            for item in question.gold:
                about = [name for name in names if name in question.text]
                if about:
                    assert any(name in _task(corpus, item) for name in about)
                else:
                    assert question.category in ("identifier", "date")


def test_an_identifier_or_a_day_asked_by_value_is_in_one_note_alone(dataset: Dataset) -> None:
    code = re.compile(r"(?:/[a-z]+)*[/A-Za-z_-]*\d[\w./-]*\d[\w.]*")
    for corpus in dataset.corpora:
        for question in corpus.questions:
            named = code.search(question.text)
            if question.category == "identifier" and named and named.group() in _text(corpus, question):
                holding = [item.id for item in corpus.items if named.group() in item.text]
                assert holding == list(question.gold)


def _text(corpus: Corpus, question: Question) -> str:
    return " ".join(_items(corpus)[item].text for item in question.gold)


def test_an_update_asks_for_the_later_of_two_values(dataset: Dataset) -> None:
    seen = 0
    for corpus in dataset.corpora:
        for question in corpus.questions:
            if question.category == "update":
                gold = _items(corpus)[question.gold[0]]
                earlier = [
                    item
                    for item in corpus.items[: corpus.items.index(gold)]
                    if item.type == gold.type and _task(corpus, item.id) == _task(corpus, gold.id)
                ]
                assert earlier
                seen += 1
    assert seen > 20


def test_values_of_one_form_differ_from_another_by_one_digit(dataset: Dataset) -> None:
    form = re.compile(r"INV-\d{5}|ERR_NET_\d{4}|HT-2026-\d{4}|TCK-\d{5}|CHG-\d{6}|KX\d{4}")
    compared = 0
    for corpus in dataset.corpora:
        found: dict[str, list[str]] = {}
        for value in {value for item in corpus.items for value in form.findall(item.text)}:
            found.setdefault(re.sub(r"\d", "", value), []).append(value)
        for values in found.values():
            for value in values if len(values) > 1 else []:
                near = min(_differing(value, other) for other in values if other != value)
                assert near == 1
                compared += 1
    assert compared > 20


def _differing(one: str, other: str) -> int:
    return sum(a != b for a, b in zip(one, other, strict=True))


def test_notes_about_the_same_thing_come_from_several_tasks_and_half_of_them_name_no_one(dataset: Dataset) -> None:
    names = {name for names in WHOM.values() for name in (*names.zh, *names.en)}
    for corpus in dataset.corpora:
        gold = {item for question in corpus.questions for item in question.gold}
        named = [any(name in _items(corpus)[item].text for name in names) for item in gold]
        assert 0.2 < statistics.fmean(named) < 0.7
        openings = Counter(group.title for group in corpus.groups if group.id.count(".") == 1)
        assert max(openings.values()) >= 2


def test_at_least_half_of_the_questions_share_no_word_with_their_note(dataset: Dataset) -> None:
    """Words of the task itself aside; a word is a term of two letters or more."""
    for corpus in dataset.corpora:
        different = []
        for question in corpus.questions:
            own = {term for item in question.gold for term in terms(_task(corpus, item))}
            asked = {term for term in terms(question.text) if len(term) > 1} - own
            different.append(not asked & set(terms(_text(corpus, question))))
        assert statistics.fmean(different) >= 0.5, corpus.id


def test_words_alone_do_not_solve_it_and_do_not_fail_either(dataset: Dataset) -> None:
    counter = token_counter()
    setup = Setup(results.ROOT, Config(), SharedEmbedder(embed.create(EmbeddingConfig(provider="hashing"))), counter)
    system = BM25(setup)
    values = []
    for corpus in dataset.corpora:
        system.load(corpus)
        values += [metrics.recall(system.search(question.text, 5), question.gold, 5) for question in corpus.questions]
    assert 0.25 < statistics.fmean(values) < 0.6


def test_every_table_has_both_languages_and_nothing_twice() -> None:
    for names in WHOM.values():
        assert len(names.zh) == len(names.en) == len(set(names.zh)) == len(set(names.en))
    for values in VALUES.values():
        assert len(set(values)) == len(values) >= 5
    for domain in DOMAINS:
        assert domain.whom in WHOM
        for attribute in domain.attributes:
            assert attribute.kind in synthetic_questions.KINDS
            assert attribute.value in {*VALUES, "money", "count", "date", "person"} or attribute.value.startswith("id:")
            for wordings in filter(None, (attribute.tell, attribute.ask, attribute.correct)):
                assert len(wordings.zh) == len(wordings.en) >= 2
                assert all(_HAN.search(text) for text in wordings.zh)
                assert not any(_HAN.search(text) for text in wordings.en)

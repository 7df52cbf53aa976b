"""The evaluation of forgetting: an agent's life is what an agent would meet, and the figures are what they say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eval import kinds, results, significance, studies
from eval.datasets import realmem
from eval.embedding import SharedEmbedder
from eval.forgetting import plan, run, sheets
from eval.forgetting.online import Asked, Life, unnamed
from eval.types import Corpus, Question
from hybridmem import Memory
from hybridmem.config import load
from hybridmem.embed.hashing import HashingEmbedder
from hybridmem.errors import ConfigError, InvalidInput

pytestmark = pytest.mark.filterwarnings("ignore:open_binary is deprecated:DeprecationWarning")

CONFIG = load({"embedding": {"provider": "hashing"}, "index": {"background": False}})
DISTRACTORS = "Enhanced"
TEXTS = (
    "跑步时膝盖疼",
    "Plan the trip to 杭州",
    "The invoice of March",
    "学小提琴 violin",
    "Water the plants",
    "预算开会 budget",
)
FILE = """
kind: forgetting
name: tiny
dataset: realmem
policies:
  least_weight: {policy: least_weight}
  newest: {policy: newest}
  random: {policy: random}
variants:
  without task: {forgetting: {task: 0.0}}
shares: [0.25, 0.5]
random_seeds: [0, 1]
loose: [Enhanced]
k: 3
memory:
  embedding: {provider: hashing}
  index: {background: false}
  weights: {count_uses: true}
"""


def session(name: str, uuid: str, day: int, text: str, query: tuple[str, list[str]] | None = None) -> dict[str, Any]:
    turns: list[dict[str, Any]] = [
        {"speaker": "User", "content": text, "is_query": False, "query_id": None},
        {"speaker": "Assistant", "content": f"好的 ok {uuid}", "is_query": False, "query_id": None},
    ]
    if query is not None:
        asked, needed = query
        turns += [
            {"speaker": "User", "content": asked, "is_query": True, "query_id": uuid, "category_name": "x"},
            {"speaker": "Assistant", "content": "…", "is_query": False, "memory_session_uuids": needed},
        ]
    time = f"2025-12-{day:02} (Monday)"
    return {"session_identifier": name, "session_uuid": uuid, "current_time": time, "dialogue_turns": turns}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two people: a project asks for its first session again and again, with a distractor after each of its own."""
    for person in ("Ann", "小王"):
        sessions = []
        for place, text in enumerate(TEXTS):
            query = (f"{TEXTS[0]}?", [f"s0{person}"]) if place else None
            sessions.append(session("Fitness_3:S1", f"s{place}{person}", 2 * place + 1, text, query))
            sessions.append(session(f"{DISTRACTORS}:S{place}", f"d{place}{person}", 2 * place + 2, f"{text} 闲聊"))
        data = {"_metadata": {"person_name": person}, "dialogues": sessions}
        below = tmp_path / "realmem"
        below.mkdir(exist_ok=True)
        (below / f"{person}_dialogues_1.json").write_text(json.dumps(data, ensure_ascii=False), encoding="utf-8")
    return tmp_path


@pytest.fixture
def corpus(folder: Path) -> Corpus:
    return unnamed(realmem.load(folder).corpora[0], [DISTRACTORS])


def lived(corpus: Corpus, tmp_path: Path, policy: dict[str, Any] | None, share: float, k: int = 3) -> list[Asked]:
    embedder = SharedEmbedder(HashingEmbedder())
    return list(Life(corpus, tmp_path / "store", CONFIG, embedder, policy=policy, share=share, k=k).live())


def stored(corpus: Corpus, directory: Path) -> list[Any]:
    with Memory.open(directory, namespace=("eval", corpus.id), config=CONFIG, embedder=HashingEmbedder()) as memory:
        return list(memory.walk())


class TestWhatAnAgentMeets:
    def test_distractors_have_no_name_and_hang_under_the_person(self, corpus: Corpus, tmp_path: Path) -> None:
        """Nothing that the memory holds, and so nothing that a policy reads, tells them by what the data calls them."""
        lived(corpus, tmp_path, {"policy": "least_weight", "max_nodes": 0}, 0.25)
        nodes = stored(corpus, tmp_path / "store")
        said = json.dumps([node.to_dict() for node in nodes], ensure_ascii=False, default=str)
        assert DISTRACTORS.casefold() not in said.casefold()
        assert [node.content for node in nodes if node.type == "task"] == ["Fitness 3"]
        root = next(node.id for node in nodes if node.type == "root")
        loose = [node for node in nodes if node.parent_id == root and node.type == "event"]
        assert len(loose) == len(TEXTS)
        assert all("闲聊" in node.content for node in loose)
        owned = [node for node in nodes if node.type == "event" and node not in loose]
        own = {(node.type, node.importance, node.confidence, str(node.metadata)) for node in owned}
        assert own == {(node.type, node.importance, node.confidence, str(node.metadata)) for node in loose}, "but place"

    def test_only_the_named_groups_lose_their_name(self, folder: Path) -> None:
        named = realmem.load(folder).corpora[0]
        assert unnamed(named, []) == named
        asked_there = Question("q", "?", (), asked_in=DISTRACTORS, gold_groups=("x",), after=0)
        hidden = unnamed(Corpus("c", named.groups, named.items, (asked_there,)), [DISTRACTORS])
        assert hidden.questions[0].asked_in == ""
        assert {group.id for group in named.groups} - {group.id for group in hidden.groups} == {DISTRACTORS}
        assert {group.title for group in hidden.groups if not group.parent} == {"Fitness 3", ""}
        assert hidden.items == named.items

    def test_no_vector_goes_to_chroma_and_yet_vectors_rank(self, corpus: Corpus, tmp_path: Path) -> None:
        lived(corpus, tmp_path, None, 0.0)
        assert not list((tmp_path / "store").rglob("chroma*.sqlite3"))

    def test_a_search_that_is_not_whole_ends_the_run(self, corpus: Corpus, tmp_path: Path) -> None:
        """Else what has no vector would be counted as not found."""
        settings = CONFIG.model_copy(update={"embedding": CONFIG.embedding.model_copy(update={"batch_size": 1})})
        life = Life(corpus, tmp_path / "s", settings, SharedEmbedder(HashingEmbedder()), policy=None, share=0.0)
        with pytest.raises(Exception, match=r"answered degraded: .* no vector yet"):
            list(life.live())


class TestTheFigures:
    def test_the_newest_are_kept_and_the_first_session_is_missed(self, corpus: Corpus, tmp_path: Path) -> None:
        """By hand: before question i there are 2·i sessions, half of which are gone, oldest first."""
        asked = lived(corpus, tmp_path, {"policy": "newest", "max_nodes": 0}, 0.5)
        assert [(one.in_memory, one.gone) for one in asked] == [(2 * place, place) for place in range(1, 6)]
        assert [one.needed for one in asked] == [("s0Ann",)] * 5
        assert [one.forgotten for one in asked] == [("s0Ann",)] * 5
        assert [one.found for one in asked] == [()] * 5, "what is forgotten is not found"

    def test_nothing_forgotten_is_nothing_missed(self, corpus: Corpus, tmp_path: Path) -> None:
        asked = lived(corpus, tmp_path, None, 0.0)
        assert [(one.gone, one.forgotten) for one in asked] == [(0, ())] * 5
        assert all(one.found == one.needed for one in asked)

    def test_mis_forgetting_is_of_needs_and_recall_of_questions(self) -> None:
        """Needs 1 and 3, of which 1 and 0 are forgotten: 1 of 4, and recall is the mean of 0 and 2/3."""
        lives = [
            [
                Asked("a", ("x",), ("x",), (), 4, 2),
                Asked("b", ("x", "y", "z"), (), ("y", "z"), 4, 2),
            ]
        ]
        found = run._figures(run._counted(lives), 0)
        assert (found["needed"], found["forgotten"]) == (4, 1.0)
        assert found["mis_forgetting"]["mean"] == 0.25
        assert found["recall"]["mean"] == pytest.approx(1 / 3)
        assert run._share_gone(lives) == 0.5
        twice = [lives[0], [Asked("a", ("x",), (), ("x",), 4, 2), lives[0][1]]]
        assert run._figures(run._counted(twice), 0)["mis_forgetting"]["mean"] == 0.125, "the mean of both lives"

    def test_the_interval_of_a_ratio_covers_it_and_narrows_with_more_questions(self) -> None:
        random = np.random.default_rng(0)
        below = random.integers(1, 4, 50).astype(float)
        above = random.binomial(below.astype(int), 0.3).astype(float)
        low, high = significance.ratio_interval(above, below, seed=0)
        assert low < above.sum() / below.sum() < high
        narrow = significance.ratio_interval(np.tile(above, 9), np.tile(below, 9), seed=0)
        assert narrow[1] - narrow[0] < 0.5 * (high - low)
        assert significance.ratio_interval(below, below, seed=0) == (1.0, 1.0)
        with pytest.raises(InvalidInput, match="at least one"):
            significance.ratio_interval(below[:0], below[:0], seed=0)


class TestTheExperiment:
    def test_is_one_result_with_every_policy_at_every_share(self, tmp_path: Path, folder: Path) -> None:
        file = tmp_path / "tiny.yaml"
        file.write_text(FILE, encoding="utf-8")
        made = studies.load(file, folder)
        assert isinstance(made, run.Forgetting)
        told: list[int] = []
        result = made.run(lambda what, done: told.append(done))
        assert sum(told) == made.steps == 10 * (1 + 2 * (1 + 1 + 2 + 1))
        found = sheets.rows(result)
        assert list(found) == ["least_weight", "newest", "random", "without task"]
        assert [found["random"][share]["lives"] for share in (0.25, 0.5)] == [2, 2]
        assert found["newest"][0.5]["mis_forgetting"]["mean"] == 1.0
        assert found["least_weight"][0.25]["mis_forgetting"]["mean"] == 0.0, "it opened the task"
        assert found["newest"][0.5]["histories"] == {"Ann": [5.0, 5.0], "小王": [5.0, 5.0]}
        lost = found["newest"][0.5]["recall_lost"]["mean"]
        kept = result["forgetting"]["nothing_forgotten"]["recall"]["mean"]
        assert lost == pytest.approx(kept - found["newest"][0.5]["recall"]["mean"])
        written = tmp_path / results.study_file_name(result)
        results.write(written, result)
        shown = "\n".join(sheet.markdown() for sheet in kinds.sheets(results.read(written)))
        assert "100.0 (100.0–100.0)" in shown

    def test_in_several_processes_it_is_the_same(self, tmp_path: Path, folder: Path) -> None:
        file = tmp_path / "tiny.yaml"
        file.write_text(FILE, encoding="utf-8")
        alone, spread = studies.load(file, folder), studies.load(file, folder, tmp_path / "vectors.db")
        assert alone is not None
        assert spread is not None
        first, second = (one.run(lambda what, done: None) for one in (alone, spread))
        assert first["forgetting"] == second["forgetting"]
        assert first["questions"] == second["questions"]

    def test_left_out_is_measured_by_what_was_best_on_the_others(self) -> None:
        """Of two histories each is best served by another variant: left out, each gets the wrong one."""

        def cell(label: str, first: int, second: int) -> dict[str, Any]:
            return {"policy": label, "share": 0.5, "histories": {"Ann": [first, 10], "小王": [second, 10]}}

        result = {
            "forgetting": {
                "plan": {"policies": {"default": {}}, "variants": {"other": {}}},
                "policies": [cell("default", 1, 4), cell("other", 3, 2)],
            }
        }
        rows = [[one.text for one in row] for row in sheets._left_out(result).rows]
        assert rows == [["Ann", "other", "30.0"], ["小王", "default", "40.0"], ["all", "", "35.0"]]

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("shares: [0.25, 0.5]", "shares: [0.5, 0.25]", "shares: .*must rise"),
            ("  newest: {policy: newest}", "  nothing: {policy: newest}", "a label stands twice, or is 'nothing'"),
            ("  without task:", "  newest:", "a label stands twice"),
            ("{policy: newest}", "{policy: newset}", "policies: .*newset"),
            ("{policy: newest}", "{policy: newest, days: 3}", "policies: .*days"),
            ("task: 0.0", "tsak: 0.0", "tsak"),
            ("loose:", "lose:", "lose"),
        ],
    )
    def test_a_wrong_key_or_value_is_refused(self, tmp_path: Path, old: str, new: str, message: str) -> None:
        file = tmp_path / "tiny.yaml"
        file.write_text(FILE.replace(old, new), encoding="utf-8")
        with pytest.raises(ConfigError, match=rf"tiny\.yaml: .*{message}"):
            plan.load(file)

    def test_questions_that_are_not_asked_online_are_refused(self, tmp_path: Path) -> None:
        file = tmp_path / "tiny.yaml"
        file.write_text(FILE.replace("dataset: realmem", "dataset: synthetic-smoke"), encoding="utf-8")
        with pytest.raises(InvalidInput, match="not asked while its history grows"):
            studies.load(file, tmp_path)

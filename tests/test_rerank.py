"""A reranker as the last stage: it decides the order, every part is open, and a search is never lost with it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hybridmem import ConfigError, InvalidInput, Memory, RerankerUnavailable
from hybridmem.config import load
from hybridmem.embed.hashing import HashingEmbedder

OpenMemory = Callable[..., Memory]


class Shortest:
    """Deterministic: the shorter a content, the better; remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, list[str]]] = []

    def scores(self, query: str, contents: Sequence[str]) -> list[float]:
        self.asked.append((query, list(contents)))
        return [1.0 / len(content) for content in contents]


class Broken:
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def scores(self, query: str, contents: Sequence[str]) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer(len(contents))


def filled(m: Memory, count: int = 12) -> Memory:
    m.start_task("报销 expense claim")
    m.add_many([{"content": "发票 invoice " + "很 very " * n, "type": "event"} for n in range(count, 0, -1)])
    return m


class TestOrder:
    def test_what_the_reranker_says_decides_and_every_part_is_shown(self, memory: OpenMemory) -> None:
        judge, omega = Shortest(), 0.2
        m = filled(memory(reranker=judge, retrieval={"omega": omega}))
        found = m.search("发票 invoice", k=5, types=["event"])
        assert [hit.content for hit in found] == ["发票 invoice " + "很 very " * n for n in range(1, 6)]
        for hit in found:
            d = hit.score_details
            assert d.reranked == pytest.approx(1.0 / len(hit.content))
            near = max(1 - 9 * (1.0 / len(found[0].content) - d.reranked), 0)
            assert d.share == pytest.approx((1 - omega) / 9 * (1 - near) + omega * near)
            assert hit.score == pytest.approx((1 - omega) * d.reranked + d.share * d.weight)
            assert 0.0 < d.relevance <= 1.0
            assert f"reranked {d.reranked:.3f} in place of relevance {d.relevance:.3f}" in hit.explain()
        assert [query for query, _ in judge.asked] == ["发票 invoice"]

    def test_it_reads_the_best_and_everything_that_is_returned(self, memory: OpenMemory) -> None:
        judge = Shortest()
        m = filled(memory(reranker=judge, retrieval={"rerank_candidates": 3}))
        best = [hit.id for hit in m.search("发票 invoice", k=2, types=["event"])]
        assert len(judge.asked[-1][1]) == 3
        plain = filled(memory("plain")).search("发票 invoice", k=3, types=["event"])
        assert judge.asked[-1][1] == [hit.content for hit in plain]
        assert len(best) == 2
        found = m.search("发票 invoice", k=8, types=["event"])
        assert len(judge.asked[-1][1]) == len(found) == 8
        assert all(hit.score_details.reranked is not None for hit in found)
        assert m.search("发票 invoice", k=0).hits == ()
        assert len(judge.asked) == 2

    def test_nothing_to_read_is_not_read(self, memory: OpenMemory) -> None:
        judge = Shortest()
        m = filled(memory(reranker=judge))
        assert m.context(token_budget=200).hits, "without a question the weights alone rank"
        assert len(m.search("发票", types=["preference"])) == 0
        assert judge.asked == []

    def test_a_context_shows_what_it_prefers(self, memory: OpenMemory) -> None:
        m = filled(memory(reranker=Shortest(), context={"relevance_floor": 0.5}))
        found = m.context("发票 invoice", order="score", token_budget=400)
        scores = [hit.score_details.reranked or 0.0 for hit in found.hits]
        assert scores == sorted(scores, reverse=True)
        assert min(scores) >= 0.5 * scores[0]

    def test_diversity_comes_after_it(self, memory: OpenMemory) -> None:
        m = memory(reranker=Shortest(), retrieval={"diversity": 0.9})
        m.add_many([{"content": "发票 invoice", "type": "event"} for _ in range(3)])
        m.add("发票要重开 a new one, please ask for it", type="event")
        found = m.search("发票 invoice", k=2)
        assert [hit.content for hit in found] == ["发票 invoice", "发票要重开 a new one, please ask for it"]
        assert found[0].score_details.reranked == pytest.approx(1 / len("发票 invoice"))

    def test_off_by_default(self, memory: OpenMemory) -> None:
        m = filled(memory())
        assert (m.config.retrieval.reranker, m.config.retrieval.rerank_candidates) == (None, 50)
        hit = m.search("发票")[0]
        assert hit.score_details.reranked is None
        assert "reranked" not in hit.explain()


class TestFailure:
    @pytest.mark.parametrize(
        ("answer", "said"),
        [
            (RuntimeError("内存不足 out of memory"), "内存不足"),
            (lambda n: [0.5] * (n - 1), "one number"),
            (lambda n: [1.5] * n, "one number"),
            (lambda n: np.full(n, np.nan), "one number"),
            (lambda n: np.zeros((n, 2)), "one number"),
            (lambda n: ["good"] * n, "good"),
            (lambda n: None, "NoneType|one number"),
        ],
    )
    def test_the_search_goes_on_without_it_and_says_so(self, memory: OpenMemory, answer: Any, said: str) -> None:
        plain = filled(memory("plain")).search("发票 invoice", k=4)
        m = filled(memory(reranker=Broken(answer)))
        found = m.search("发票 invoice", k=4)
        assert [hit.content for hit in found] == [hit.content for hit in plain]
        assert all(hit.score_details.reranked is None for hit in found)
        (warning,) = found.warnings
        assert "not reranked" in warning
        assert any(part in warning for part in said.split("|"))
        assert "not reranked" in m.context("发票 invoice").warnings[0]

    def test_an_object_that_cannot_rerank_is_refused_at_once(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput, match=r"reranker: must have scores\(\)"):
            Memory.open(tmp_path / "s", reranker=object())  # type: ignore[arg-type]
        assert not (tmp_path / "s").exists()


class TestConfigured:
    def test_without_the_package_opening_says_what_to_install(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "sentence_transformers", None)
        config = {"retrieval": {"reranker": "BAAI/bge-reranker-v2-m3"}}
        with pytest.raises(RerankerUnavailable, match="pip install sentence-transformers") as caught:
            Memory.open(tmp_path / "s", config=config)
        assert caught.value.exit_code == 12
        assert not (tmp_path / "s").exists()
        given = Memory.open(tmp_path / "s", config=config, reranker=Shortest(), embedder=HashingEmbedder())
        with given:
            given.add("发票 invoice")
            assert given.search("发票")[0].score_details.reranked is not None, "an object wins over the configuration"

    @pytest.mark.parametrize("path", ["/no/such/模型", "./nothing", "~/nothing"])
    def test_a_path_without_a_model_is_an_error_at_once(self, tmp_path: Path, path: str) -> None:
        for name in (path, str(tmp_path)):
            with pytest.raises(RerankerUnavailable, match=r"is not the directory of a model; set retrieval\.reranker"):
                Memory.open(tmp_path / "s", config={"retrieval": {"reranker": name}})
        assert not (tmp_path / "s").exists()

    @pytest.mark.parametrize("given", [{"reranker": ""}, {"rerank_candidates": 0}, {"reranker": 5}])
    def test_wrong_values_are_named(self, given: dict[str, Any]) -> None:
        with pytest.raises(ConfigError, match=rf"retrieval\.{next(iter(given))}"):
            load({"retrieval": given})

"""What a search ranks: every node's best piece, compared as plain arithmetic would, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hybridmem import Memory
from hybridmem.index import view
from hybridmem.index.view import Pool, Views
from hybridmem.ports import Vectors
from hybridmem.store import outbox

OpenMemory = Callable[..., Memory]
DIMENSION = 8
PRIOR = 20.0
random = np.random.default_rng(5)


def units(count: int) -> Vectors:
    rows = random.normal(size=(count, DIMENSION)).astype(np.float32) + 1.0  # in a cone, as real ones are
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


MEAN = units(50).mean(axis=0)


class Filled:
    """A memory whose embeddings are made by hand: content → its vectors, (p, d)."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.vectors: dict[int, Vectors] = {}

    def add(self, *counts: int, parent: str = "root") -> list[str]:
        """One node for each number of pieces; 0: it waits for its embedding."""
        items = [{"content": f"记忆 memory {random.random()}", "parent": parent} for _ in counts]
        nodes = self.memory.add_many(items)
        self.embed(*counts)
        return [node.id for node in nodes]

    def embed(self, *counts: int) -> None:
        """Gives the nodes that wait, oldest first, so many pieces each."""
        with self.memory._workspace.write() as tx:
            for item, count in zip(outbox.unembedded(tx, 10_000), counts, strict=True):
                if count:
                    self.vectors[item.node_id] = units(count)
                    outbox.save(tx, item, self.vectors[item.node_id])

    def pool(self, views: Views, id: str | None = None) -> Pool:
        with self.memory._workspace.read() as tx:
            return views.subtree(tx, self.path(id))

    def path(self, id: str | None = None) -> str:
        node = self.memory.root() if id is None else self.memory.get(id)
        with self.memory._workspace.read() as tx:
            found = tx.execute("SELECT path FROM node WHERE uid = ?", (node.id,)).fetchone()[0]
        return str(found)

    def expected(self, pool: Pool, query: Vectors) -> tuple[list[float], list[float]]:
        """By the plain formula, node by node."""
        known = {
            node_id: self.vectors[node_id].astype(np.float64)
            for node_id in pool.ids.tolist()
            if node_id in self.vectors
        }
        total = sum((rows.mean(axis=0) for rows in known.values()), PRIOR * MEAN.astype(np.float64))
        mean = total / (len(known) + PRIOR)
        raw, centred = [], []
        for node_id in pool.ids.tolist():
            rows = known.get(node_id)
            raw.append(0.0 if rows is None else max(float(row @ query) for row in rows))
            centred.append(0.0 if rows is None else max(cosine(row - mean, query - mean) for row in rows))
        return raw, centred

    def check(self, pool: Pool) -> None:
        for query in units(3):
            raw, centred = pool.similarity(query, MEAN, PRIOR)
            expected_raw, expected_centred = self.expected(pool, query)
            np.testing.assert_allclose(raw, expected_raw, atol=1e-5)
            np.testing.assert_allclose(centred, expected_centred, atol=1e-5)
        assert pool.embedded.tolist() == [node_id in self.vectors for node_id in pool.ids.tolist()]


def cosine(a: Any, b: Any) -> float:
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


@pytest.fixture
def filled(memory: OpenMemory) -> Filled:
    return Filled(memory())


def views_of(filled: Filled, **limits: Any) -> Views:
    return Views(filled.memory._workspace.id, **limits)


def test_every_node_counts_by_its_best_piece(filled: Filled) -> None:
    filled.add(1, 3, 0, 1, 40, 2, 0)
    filled.check(filled.pool(views_of(filled)))


def test_with_one_piece_each_and_with_none_at_all(filled: Filled) -> None:
    views = views_of(filled)
    raw, centred = filled.pool(views).similarity(units(1)[0], MEAN, PRIOR)
    assert raw.tolist() == centred.tolist() == [0.0], "the root alone"
    filled.add(0, 0)
    filled.check(filled.pool(views))
    filled.embed(1, 1)
    filled.check(filled.pool(views))


def test_a_query_like_the_mean_says_nothing(filled: Filled) -> None:
    filled.add(2)
    [vectors] = filled.vectors.values()
    mean = vectors.mean(axis=0)
    raw, centred = filled.pool(views_of(filled)).similarity(mean, mean, PRIOR)
    assert np.isfinite(raw).all()
    assert np.abs(centred).max() < 1.0


def test_another_prior_is_not_answered_from_the_last_one(filled: Filled) -> None:
    filled.add(1, 2)
    pool, query = filled.pool(views_of(filled)), units(1)[0]
    first = pool.similarity(query, MEAN, PRIOR)[1]
    assert not np.allclose(pool.similarity(query, -MEAN, PRIOR)[1], first)
    assert not np.allclose(pool.similarity(query, MEAN, 5 * PRIOR)[1], first)
    assert np.array_equal(pool.similarity(query, MEAN, PRIOR)[1], first)


def test_the_mean_is_of_the_subtree_and_a_long_memory_counts_once_in_it(filled: Filled) -> None:
    [branch] = filled.add(1)
    filled.add(1, 1, 1)
    filled.add(30, 1, parent=branch)
    views = views_of(filled)
    inside = filled.pool(views, branch)
    assert len(inside) == 3
    filled.check(inside)
    filled.check(filled.pool(views))


def test_a_view_follows_new_embeddings_and_new_contents(filled: Filled) -> None:
    views = views_of(filled)
    ids = filled.add(1, 4, 2)
    before = filled.pool(views)
    assert filled.pool(views) is before, "nothing has changed"
    filled.check(before)
    kept = before.similarity(units(1)[0], MEAN, PRIOR)[1].copy()
    assert kept.shape == (4,)

    filled.memory.update(ids[1], content="新的 new")
    node_id = next(one for one, rows in filled.vectors.items() if len(rows) == 4)
    del filled.vectors[node_id]
    filled.check(filled.pool(views))
    filled.embed(2)
    filled.check(filled.pool(views))
    filled.memory.update(ids[1], metadata={"来源": "mail"})
    filled.check(filled.pool(views))
    filled.add(1, 1, 3)
    filled.check(filled.pool(views))
    filled.embed()


def test_an_old_pool_stays_right_while_the_view_goes_on(filled: Filled) -> None:
    views = views_of(filled)
    filled.add(2, 1)
    pool, query = filled.pool(views), units(1)[0]
    expected = filled.expected(pool, query)[1]
    for _ in range(5):
        filled.add(1, 2, 1)
        filled.pool(views)
    np.testing.assert_allclose(pool.similarity(query, MEAN, PRIOR)[1], expected, atol=1e-5)


def test_replaced_rows_are_given_back(filled: Filled) -> None:
    views = views_of(filled)
    ids = filled.add(*[5] * 10)
    filled.pool(views)
    for round in range(10):
        for id in ids:
            filled.memory.update(id, content=f"第{round}版 {id}")
        filled.embed(*[5] * 10)
        filled.check(filled.pool(views))
        assert views._used <= 2 * 50 + 50
        assert len(views._matrix) <= 4 * 50


@pytest.mark.parametrize("page", [1, 3, 10_000])
def test_pieces_that_come_on_two_pages_stay_together(
    filled: Filled, page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "PAGE", page)
    filled.add(2, 5, 1, 4)
    filled.check(filled.pool(views_of(filled)))


class TestTheLimit:
    @pytest.fixture(autouse=True)
    def small_unit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(view, "MEGABYTE", 1_000)

    def test_above_it_nothing_is_kept_and_the_answers_are_the_same(self, filled: Filled) -> None:
        views = views_of(filled, cache_mb=1)  # 15 rows of 8 numbers, each twice
        filled.add(1, 4, 1)
        filled.check(filled.pool(views))
        assert views._used == 6
        filled.add(*[1] * 9)
        filled.check(filled.pool(views))
        assert views._used == 15
        assert len(views._matrix) * DIMENSION * 4 * 2 <= 1_000
        filled.add(3)
        filled.check(filled.pool(views))
        assert views._used == 0
        assert views._matrix.nbytes == 0
        assert filled.pool(views) is not filled.pool(views)

    def test_replaced_rows_do_not_count(self, filled: Filled) -> None:
        views = views_of(filled, cache_mb=1)
        [id] = filled.add(10)
        for round in range(4):
            filled.check(filled.pool(views))
            assert views._used == 10
            filled.memory.update(id, content=f"第{round}版 version")
            filled.embed(10)

    def test_zero_keeps_nothing(self, filled: Filled) -> None:
        views = views_of(filled, cache_mb=0)
        filled.add(1, 2)
        filled.check(filled.pool(views))
        assert views._used == 0


def test_a_selection_has_the_same_numbers(filled: Filled) -> None:
    [branch] = filled.add(2)
    filled.add(1, 1)
    filled.add(3, 1, 0, parent=branch)
    views = views_of(filled)
    with filled.memory._workspace.read() as tx:
        loose = sorted(filled.vectors)[1]
        pool = views.selection(tx, [filled.path(branch)], [loose])
        nothing = views.selection(tx, [], [])
    assert len(pool) == 5
    filled.check(pool)
    assert len(nothing) == 0
    assert nothing.similarity(units(1)[0], MEAN, PRIOR)[0].tolist() == []
    assert views._used == 0


def test_a_second_search_costs_one_product_with_the_matrix(filled: Filled) -> None:
    filled.add(1, 2, 3)
    pool = filled.pool(views_of(filled))
    pool.similarity(units(1)[0], MEAN, PRIOR)
    prepared = pool.pieces._centred
    pool.similarity(units(1)[0], MEAN, PRIOR)
    assert pool.pieces._centred is prepared

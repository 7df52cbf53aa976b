"""What a search ranks: every node's best piece, compared as plain arithmetic would, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from hybridmem import Memory
from hybridmem.index import pool as pool_module
from hybridmem.index import view
from hybridmem.index.pool import Pool
from hybridmem.index.words import Words
from hybridmem.store import lexical, outbox
from hybridmem.text import query_terms
from index.filled import MEAN, PRIOR, Filled, units, views_of

OpenMemory = Callable[..., Memory]


@pytest.fixture
def filled(memory: OpenMemory) -> Filled:
    return Filled(memory())


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
    before = views.size
    for round in range(5):
        for id in ids:
            filled.memory.update(id, content=f"第{round}版 {id}")
        filled.embed(*[5] * 10)
        filled.check(filled.pool(views))
        assert views.size == before


def test_a_write_reads_no_vector_again_that_is_known(filled: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    views = views_of(filled)
    ids = filled.add(1, 4, 2)
    filled.pool(views)
    read: list[int] = []
    of_store = outbox.pieces_of

    def noted(tx: Any, namespace: int, wanted: Any) -> Any:
        read.extend(wanted.tolist())
        return of_store(tx, namespace, wanted)

    monkeypatch.setattr(outbox, "pieces_of", noted)
    filled.memory.pin(ids[0])
    filled.add(3)
    filled.check(filled.pool(views))
    assert len(read) == 2, "the root, which has none, and the new one"
    filled.memory.update(ids[1], metadata={"来源": "mail"})
    filled.check(filled.pool(views))
    assert len(read) == 4, "its vectors were written again, so they count as new"


class TestTheLimit:
    @pytest.fixture(autouse=True)
    def small_unit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(view, "MEGABYTE", 1_000)

    def branches(self, filled: Filled, count: int = 6) -> list[str]:
        found = filled.add(*[1] * count)
        for branch in found:
            filled.add(1, 2, 1, parent=branch)
        return found

    def test_a_pool_that_is_bigger_is_not_kept_and_is_right(self, filled: Filled) -> None:
        views = views_of(filled, cache_mb=1)
        filled.add(1, 40, 1)
        filled.check(filled.pool(views))
        assert views.size == 0
        assert filled.pool(views) is not filled.pool(views)

    def test_over_many_subtrees_no_more_is_kept_than_allowed(self, filled: Filled) -> None:
        views = views_of(filled, cache_mb=4)
        branches = self.branches(filled)
        most = 0
        for branch in [*branches, None, *reversed(branches)]:
            filled.check(filled.pool(views, branch))
            assert views.size <= 4_000
            assert views.size >= in_memory(kept.pool for kept in views._kept.values())
            most = max(most, len(views._kept))
        assert 1 < most < len(branches)

    def test_what_was_used_least_recently_goes(self, filled: Filled) -> None:
        views = views_of(filled, cache_mb=1_000)
        first, second, third = self.branches(filled, 3)
        pools = [filled.pool(views, id) for id in (first, second)]
        views._most_bytes = views.size
        assert filled.pool(views, first) is pools[0]
        filled.pool(views, third)
        assert filled.pool(views, first) is pools[0]
        assert filled.pool(views, second) is not pools[1]

    def test_zero_keeps_nothing(self, filled: Filled) -> None:
        views = views_of(filled, cache_mb=0)
        filled.add(1, 2)
        filled.check(filled.pool(views))
        assert views.size == 0


def in_memory(pools: Iterable[Pool]) -> int:
    """Bytes of all arrays that hang on these pools."""

    def arrays(value: Any) -> list[Any]:
        if isinstance(value, np.ndarray):
            return [value]
        if isinstance(value, (tuple, list)):
            return [one for part in value for one in arrays(part)]
        if isinstance(value, (Pool, pool_module.Pieces)):
            return arrays(list(vars(value).values()))
        if isinstance(value, pool_module._Centred):
            return arrays([value.rows, value.norms, value.offsets])
        return []

    return sum(array.nbytes for pool in pools for array in arrays(pool))


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
    assert views.size == 0


def test_a_second_search_costs_one_product_with_the_matrix(filled: Filled) -> None:
    filled.add(1, 2, 3)
    pool = filled.pool(views_of(filled))
    pool.similarity(units(1)[0], MEAN, PRIOR)
    prepared = pool.pieces._centred
    pool.similarity(units(1)[0], MEAN, PRIOR)
    assert pool.pieces._centred is prepared


class TestWords:
    TEXTS = ("发票 invoice invoice", '引号 " quote', "退回 invoice 发票 发票", "别的 other")

    def test_postings_are_those_of_the_store_by_every_way(self, filled: Filled) -> None:
        memory, views = filled.memory, views_of(filled)
        branch = memory.add("发票 branch 分支")
        for text in self.TEXTS:
            memory.add(text, parent=branch)
        memory.add("发票 invoice elsewhere")
        path, namespace = filled.path(branch.id), memory._workspace.id
        asked = [*query_terms(" ".join(self.TEXTS)), "absent", '"', 'a" OR "b', "*", "发*", "NEAR", "7:发票"]
        with memory._workspace.read() as tx:
            pool = views.subtree(tx, path)
            ids = pool.ids.tolist()
            everywhere = lexical.postings(tx, namespace, asked)
            between = lexical.postings_between(tx, namespace, asked, min(ids), max(ids))
            kept = Words(tx, namespace, pool).postings(asked)
        expected = {term: [row for row in rows if row[0] in ids] for term, rows in everywhere.items()}
        expected = {term: rows for term, rows in expected.items() if rows}
        assert between == expected
        assert {"invoic", "发票"} <= expected.keys()
        assert {
            term: sorted(zip(pool.ids[places].tolist(), counts.tolist(), strict=True))
            for term, (places, counts) in kept.items()
        } == expected

    def test_they_are_kept_once_a_subtree_is_searched_often_and_forgotten_with_it(self, filled: Filled) -> None:
        views = views_of(filled)
        [branch] = filled.add(1)
        filled.add(1, 1, parent=branch)

        def words() -> Words | None:
            pool = filled.pool(views, branch)
            assert len(pool)
            with filled.memory._workspace.read() as tx:
                return views.words(tx, filled.path(branch))

        assert [words() for _ in range(view.OFTEN - 1)] == [None] * (view.OFTEN - 1)
        before = views.size
        kept = words()
        assert kept is not None
        assert views.size == before + kept.size
        assert words() is kept
        filled.add(1, parent=branch)
        assert words() is None

    def test_without_room_for_them_the_pool_stays(self, filled: Filled) -> None:
        views = views_of(filled)
        filled.add(1, 1)
        pool = filled.pool(views)
        views._most_bytes = views.size
        path = filled.path(None)
        for _ in range(2 * view.OFTEN):
            assert filled.pool(views) is pool
            with filled.memory._workspace.read() as tx:
                views.words(tx, path)
            assert views.size == views._most_bytes

"""The shape of trees that may be none: where they loop, and where what is cut off goes."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from hybridmem.store.shape import homes, levels, loops

Parents = dict[int, "int | None"]
ROOT = 0


def test_loops_are_found_wherever_they_are() -> None:
    assert loops({1: None, 2: 1, 3: 2}) == []
    assert loops({1: 1}) == [[1]]
    assert loops({1: None, 2: 4, 3: 2, 4: 3, 5: 4, 6: 5}) == [[2, 3, 4]]
    assert loops({1: 2, 2: 1, 3: 4, 4: 3, 5: 1}) == [[1, 2], [3, 4]]
    assert loops({1: 99}) == []
    deep = {number: number - 1 for number in range(1, 50_000)}
    assert loops(deep) == []
    assert loops({**deep, 0: 49_999})[0][:2] == [0, 1]


def test_going_down_past_a_loop_ends() -> None:
    looped: Parents = {1: None, 2: 3, 3: 2, 4: 3, 5: 1}
    assert [sorted(level) for level in levels(looped, 1)] == [[1], [5]]


class TestHomes:
    def test_each_goes_where_it_is_wanted_and_one_whose_place_leads_nowhere_under_the_root(self) -> None:
        parents: Parents = {ROOT: None, 1: None, 2: None, 3: None, 4: 3, 5: None, 6: None}
        wanted = {1: 2, 2: ROOT, 3: 4, 5: 6}  # 3 wants to hang below itself, of 6 nothing is known
        assert dict(homes(parents, ROOT, [1, 2, 3, 5, 6], wanted)) == {
            2: ROOT, 1: 2, 3: None, 5: None, 6: None,
        }  # fmt: skip

    def test_a_chain_of_50000_in_pieces_is_put_together(self) -> None:
        """Upside down, so that going through all of them again for each would take hours."""
        parents: Parents = dict.fromkeys(range(50_000))
        wanted = {number: number - 1 for number in range(1, 50_000)}
        assert list(homes(parents, ROOT, range(49_999, 0, -1), wanted)) == sorted(wanted.items())

    @given(st.data())
    def test_it_is_what_going_round_by_round_gives(self, data: st.DataObject) -> None:
        count = data.draw(st.integers(1, 12))
        parents: Parents = {ROOT: None}
        for number in range(1, count + 1):
            parents[number] = data.draw(st.one_of(st.none(), st.integers(0, number - 1)))
        astray = data.draw(st.permutations([one for one in parents if one != ROOT and parents[one] is None]))
        wanted = {one: data.draw(st.one_of(st.none(), st.integers(0, count))) for one in astray}
        found = list(homes(parents, ROOT, astray, wanted))
        assert dict(found) == dict(_round_by_round(dict(parents), astray, wanted))
        for node, parent in found:
            assert _leads_to_root(parents, ROOT if parent is None else parent), "the order must be one that can be gone"
            parents[node] = ROOT if parent is None else parent


def _round_by_round(parents: Parents, astray: list[int], wanted: Parents) -> Iterator[tuple[int, int | None]]:
    """All that can go home goes; if none can, the first goes under the root."""
    left = list(astray)
    while left:
        able = [one for one in left if (to := wanted[one]) is not None and _leads_to_root(parents, to)]
        for one in able or left[:1]:
            left.remove(one)
            yield one, wanted[one] if able else None
            parents[one] = wanted[one] if able else ROOT


def _leads_to_root(parents: Parents, start: int) -> bool:
    node = start
    while (above := parents[node]) is not None:
        node = above
    return node == ROOT

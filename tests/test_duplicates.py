"""Duplicates are reported, never merged by themselves; a merge is one operation and can be undone whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hybridmem import InvalidInput, Memory, Node, NotFound
from hybridmem.embed.hashing import HashingEmbedder

OpenMemory = Callable[..., Memory]

LONG = "每次部署到生产环境 production 之前都要在本地跑完整的测试 the whole test suite"


def facts(m: Memory, *contents: str, **given: Any) -> list[Node]:
    nodes = [m.add(content, type="fact", **given) for content in contents]
    m.flush()
    return nodes


def ids(found: Any) -> list[list[str]]:
    return [[group.keep.id, *(node.id for node in group.others)] for group in found.groups]


class TestReport:
    def test_what_says_the_same_is_one_group_with_the_oldest_first(
        self, memory: OpenMemory, rows: Callable[[Memory], Any]
    ) -> None:
        m = memory()
        m.start_task("发布 release")
        a, other, b, c = facts(m, LONG, "发票丢了 lost invoice", LONG + " 必须", LONG + "。")
        before = rows(m)
        found = m.near_duplicates()
        assert ids(found) == [[a.id, b.id, c.id]]
        assert 0.8 <= found.groups[0].likeness <= 1.0
        assert (found.compared, found.without_vector, found.groups_found) == (4, 0, 1)
        assert rows(m) == before, "a report changes nothing"
        assert other.id not in str(found.to_dict()["groups"])

    @pytest.mark.parametrize(
        ("one", "other", "kind"),
        [
            (LONG + " 4711", LONG + " 4712", "number"),
            (LONG + "，周期三天", LONG + "，周期五天", "number"),
            (LONG + " in src/a.py", LONG + " in src/b.py", "code"),
            (LONG + " with Alice", LONG + " with Bob", "name"),
            (LONG + " 由张三负责", LONG + " 由李四负责", "n"),
            (LONG + "，不要跳过", LONG + "，要跳过", "negation"),
            (LONG + " and do not skip", LONG + " and do skip", "negation"),
            (LONG + "，申请批准", LONG + "，申请驳回", "opposite"),
        ],
    )
    def test_one_digit_name_or_negation_is_told_and_never_grouped(
        self, memory: OpenMemory, one: str, other: str, kind: str
    ) -> None:
        m = memory()
        a, b = facts(m, one, other)
        found = m.near_duplicates(threshold=0.6)
        assert found.groups == ()
        assert [(pair.first.id, pair.second.id) for pair in found.different] == [(a.id, b.id)]
        assert any(what.startswith(kind) for what in found.different[0].differs)

    def test_yesterday_is_another_day_in_another_memory(self, memory: OpenMemory, clock: Any) -> None:
        m = memory()
        text = LONG + "，昨天失败 failed"
        a = m.add(text, type="note")
        clock.advance(days=3)
        b = m.add(text, type="note")
        m.flush()
        found = m.near_duplicates()
        assert found.groups == ()
        assert found.different[0].differs == ("date: they name different times",)
        assert {a.id, b.id} == {found.different[0].first.id, found.different[0].second.id}

    def test_events_of_different_hours_and_words_of_different_speakers_are_two(
        self, memory: OpenMemory, clock: Any
    ) -> None:
        m = memory()
        m.add(LONG, type="event")
        clock.advance(hours=5)
        m.add(LONG, type="event")
        m.add(LONG, metadata={"role": "user"})
        m.add(LONG, metadata={"role": "assistant"})
        m.flush()
        found = m.near_duplicates()
        assert found.groups == ()
        assert sorted(pair.differs[0].split(":")[0] for pair in found.different) == ["speaker", "time"]

    def test_other_types_tasks_states_and_namespaces_are_not_compared(self, memory: OpenMemory) -> None:
        m = memory()
        facts(m, LONG)
        m.add(LONG, type="preference")
        task = m.start_task("另一个 another")
        facts(m, LONG)
        gone = m.add(LONG + "！", type="fact")
        m.forget(gone.id)
        memory(namespace=("other",)).add(LONG, type="fact")
        m.flush()
        assert m.near_duplicates().groups == ()
        again = m.add(LONG + "！", type="fact")
        m.flush()
        assert len(m.near_duplicates(task.id).groups) == 1
        assert m.near_duplicates(again.id).groups == ()

    def test_without_vectors_the_very_same_words_are_found_and_the_rest_is_said(self, memory: OpenMemory) -> None:
        m = memory()
        m.add("发票丢了，invoice lost", type="note")
        m.add("发票丢了 Invoice lost!", type="note")
        found = m.near_duplicates()
        assert (len(found.groups), found.without_vector) == (1, 2)

    def test_a_group_is_like_its_first_not_like_a_chain(self, memory: OpenMemory) -> None:
        """Of a chain of small changes the ends have nothing in common; each member must be like what would be kept."""
        m = memory()
        words = [f"wort{chr(97 + n)}" for n in range(26)]
        facts(m, *(" ".join(words[start : start + 12]) for start in range(14)))
        found = m.near_duplicates(threshold=0.8)
        assert found.groups_found >= 2
        assert all(group.likeness >= 0.8 for group in found.groups)
        assert all(len(group.others) <= 2 for group in found.groups)

    def test_the_limit_cuts_the_lists_and_not_the_counts(self, memory: OpenMemory) -> None:
        m = memory()
        for n in range(6):
            m.start_task(f"任务 {n}")
            facts(m, LONG, LONG + "。", f"{LONG} {n}1")
        found = m.near_duplicates(limit=2)
        assert (len(found.groups), found.groups_found) == (2, 6)
        assert (len(found.different), found.different_found) == (2, 6)
        assert m.near_duplicates(limit=0).groups == ()

    @pytest.mark.parametrize(
        ("given", "said"),
        [({"threshold": 1.5}, "threshold"), ({"threshold": float("nan")}, "threshold"), ({"limit": -1}, "limit")],
    )
    def test_wrong_values_are_named(self, memory: OpenMemory, given: dict[str, Any], said: str) -> None:
        m = memory()
        with pytest.raises(InvalidInput, match=said):
            m.near_duplicates(**given)
        with pytest.raises(NotFound, match="nowhere"):
            m.near_duplicates("nowhere")


class TestMerge:
    def test_the_others_leave_every_search_and_the_kept_one_gains(self, memory: OpenMemory) -> None:
        m = memory()
        a, b, c = facts(m, LONG, LONG + "。", LONG + "！", confidence=0.6)
        done = m.merge_duplicates(a.id, [b.id, c.id])
        assert done.keep.confidence == pytest.approx(1.0 - 0.4 / 4)
        assert done.keep.uses == 2
        assert [hit.id for hit in m.search(LONG)] == [a.id]
        assert [node.id for node in m.children()] == [a.id]
        assert (m.get(b.id).state, m.get(b.id).replaced_by) == ("superseded", a.id)
        assert m.history(b.id)[-1].changes["replaced_by"].after == a.id
        assert m.operations()[-1].kind == "merge"
        assert m.verify(replay=True).ok
        m.flush()
        assert m.verify(replay=True).ok

    def test_unmerge_brings_all_of_it_back(self, memory: OpenMemory) -> None:
        m = memory()
        a, b, c = before = facts(m, LONG, LONG + "。", LONG + "！", confidence=0.6)
        m.merge_duplicates(a.id, [b.id])
        m.merge_duplicates(a.id, [c.id])
        assert m.unmerge(a.id).ids == (c.id,)
        assert m.get(b.id).state == "superseded"
        assert m.unmerge(a.id).ids == (b.id,)
        for node in before:
            now = m.get(node.id)
            assert (now.state, now.replaced_by, now.uses) == ("live", None, 0)
            assert now.confidence == pytest.approx(0.6)
        assert {hit.id for hit in m.search(LONG)} == {a.id, b.id, c.id}
        with pytest.raises(InvalidInput, match="no memory is merged into"):
            m.unmerge(a.id)
        m.flush()
        assert m.verify(replay=True).ok

    def test_what_came_since_stays_when_it_is_undone(self, memory: OpenMemory) -> None:
        m = memory()
        a, b = facts(m, LONG, LONG + "。", confidence=0.6)
        m.merge_duplicates(a.id, [b.id])
        m.add(LONG, type="fact")  # confirms it: half of the doubt goes, one use comes
        kept = m.unmerge(a.id).keep
        assert kept.confidence == pytest.approx(1.0 - 0.4 / 2)
        assert kept.uses == 1

    def test_restore_undoes_it_too_and_as_of_sees_both(self, memory: OpenMemory, clock: Any) -> None:
        m = memory()
        a, b = facts(m, LONG, LONG + "。")
        point = m.checkpoint("之前 before")
        then = clock.now()
        clock.advance(hours=1)
        m.merge_duplicates(a.id, [b.id])
        assert m.get(b.id, as_of=then).state == "live"
        m.restore(checkpoint=point)
        assert (m.get(b.id).state, m.get(b.id).replaced_by, m.get(a.id).uses) == ("live", None, 0)
        with pytest.raises(InvalidInput, match="no memory is merged into"):
            m.unmerge(a.id)
        assert m.verify(replay=True).ok

    def test_an_agent_that_stood_at_a_merged_memory_stands_at_the_kept_one(self, memory: OpenMemory) -> None:
        m = memory()
        a, b = facts(m, LONG, LONG + "。")
        m.merge_duplicates(a.id, [b.id])
        active = m.resume().active_node
        assert active is not None
        assert active.id == a.id

    def test_what_must_not_be_merged_is_refused_by_name(self, memory: OpenMemory, refused: Callable[..., Any]) -> None:
        m = memory()
        a, b = facts(m, LONG, LONG + "。")
        note = m.add(LONG, type="note")
        pinned = m.add(LONG + "！！", type="fact")
        m.pin(pinned.id)
        holds = m.add(LONG + "？", type="fact")
        m.add("下面 below", parent=holds)
        gone = m.add(LONG + "…", type="fact")
        m.archive(gone.id)
        task = m.start_task("任务")
        for keep, others, error, said in (
            (a.id, [], InvalidInput, "others: must be a list of ids"),
            (a.id, b.id, InvalidInput, "others: must be a list of ids"),
            (a.id, [a.id], InvalidInput, "names a memory twice"),
            (a.id, [b.id, b.id], InvalidInput, "names a memory twice"),
            (a.id, [note.id], InvalidInput, "is a note, but"),
            (a.id, [b.id, pinned.id], InvalidInput, "is pinned"),
            (a.id, [holds.id], InvalidInput, "has 1 live memories below it"),
            (a.id, [gone.id], InvalidInput, "is archived; only live"),
            (task.id, [b.id], InvalidInput, "is of type task"),
            (m.root().id, [b.id], InvalidInput, "is of type root"),
            (a.id, [b.id, "nowhere"], NotFound, "nowhere"),
        ):
            with refused(m, error, said):
                m.merge_duplicates(keep, others)
        with refused(m, InvalidInput, "no memory is merged into"):
            m.unmerge(b.id)


def test_among_thousands_that_differ_in_a_number_the_one_double_is_found(memory: OpenMemory) -> None:
    """Bounded work: of each only a few partners are looked at word by word, whatever the number of memories."""
    m = memory(embedder=HashingEmbedder())
    items = [{"content": f"客户 customer number {n} has paid", "type": "fact"} for n in range(3000)]
    m.add_many([*items, {"content": "客户 customer number 7 has paid!", "type": "fact"}])
    m.flush()
    found = m.near_duplicates(limit=5)
    assert (found.compared, found.groups_found) == (3001, 1)
    assert found.groups[0].others[0].content.endswith("paid!")
    assert found.different_found <= 3001 * 4

"""C010: a preference and its reversal do not come back side by side as if both held."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from hybridmem import Memory

OpenMemory = Callable[..., Memory]

#: (before, after, a question about now), in Chinese, English and both.
REVERSALS = {
    "zh": ("用户喜欢喝咖啡", "用户不再喝咖啡，现在喝绿茶", "用户现在喜欢喝什么？"),
    "en": (
        "The user prefers coffee",
        "The user no longer drinks coffee and now prefers green tea",
        "What does the user prefer to drink now?",
    ),
    "mixed": (
        "用户偏好 SMS 通知",
        "用户不再要 SMS 通知，改用 email",
        "用户现在偏好哪种通知方式 SMS or email?",
    ),
}
#: The same sentence with another value: nothing but time tells the two apart.
EQUAL_MATCHES = {
    "zh": ("用户偏好通知方式为短信", "用户偏好通知方式为邮件", "用户偏好通知方式"),
    "en": ("the user prefers to be told by phone", "the user prefers to be told by email", "user prefers to be told"),
    "mixed": ("用户 Ann 偏好 SMS 通知", "用户 Ann 偏好 FAX 通知", "用户 Ann 偏好 通知"),
}
WAYS = {"vector": {"lexical": 0.0}, "lexical": {"vector": 0.0}, "both": {}}


def contents(found: Any) -> list[str]:
    return [hit.content for hit in found]


@pytest.mark.parametrize("language", REVERSALS)
class TestAnUpdate:
    @pytest.mark.parametrize("way", WAYS)
    def test_only_what_holds_now_is_found(self, memory: OpenMemory, language: str, way: str) -> None:
        """C010: neither question brings the old text back, by whichever signal it is asked."""
        before, after, now = REVERSALS[language]
        m = memory(retrieval=WAYS[way])
        m.update(m.add(before, type="preference").id, content=after)
        for question in (now, before):
            assert contents(m.search(question)) == [after]
            assert before not in m.context(question).text

    def test_the_old_text_is_kept_beside_the_new_one(self, memory: OpenMemory, rows: Any, language: str) -> None:
        """C010: nothing is lost: the store keeps both revisions, with their versions, in order."""
        before, after, _ = REVERSALS[language]
        m = memory()
        node = m.add(before, type="preference", metadata={"来源": "chat"})
        m.update(node.id, content=after)
        kept = [row for row in rows(m)["revision"] if before in row or after in row]
        assert [before in row for row in kept] == [True, False]
        assert m.get(node.id).version == 2

    def test_the_log_says_when_it_turned(self, memory: OpenMemory, clock: Any, language: str) -> None:
        """C010: the time of the reversal can be asked for; the time of the first statement stays."""
        before, after, _ = REVERSALS[language]
        m = memory()
        node = m.add(before, type="preference")
        said = clock.time
        clock.advance(days=3)
        m.update(node.id, content=after)
        turned = m.get(node.id)
        assert (turned.created_at, turned.updated_at) == (said, said + timedelta(days=3))
        [operation] = [one for one in m.operations() if one.kind == "update"]
        assert (operation.node_id, operation.at) == (node.id, said + timedelta(days=3))


@pytest.mark.parametrize("language", REVERSALS)
class TestSuperseding:
    @pytest.mark.parametrize("way", WAYS)
    def test_only_what_holds_now_is_found_at_once_and_after_a_restart(
        self, memory: OpenMemory, language: str, way: str
    ) -> None:
        """C010: by whichever signal one asks, about now or in the words of before."""
        before, after, now = REVERSALS[language]
        m = memory(retrieval=WAYS[way])
        old = m.add(before, type="preference")
        m.flush()
        assert contents(m.search(before)) == [before]
        m.supersede(old.id, after)
        for _ in range(2):
            for question in (now, before):
                assert contents(m.search(question)) == [after]
                assert before not in m.context(question).text
            m.flush()
            m.close()
            m = memory(retrieval=WAYS[way])
        assert contents(m.children()) == [after]

    def test_what_it_was_before_can_be_asked_in_every_way(self, memory: OpenMemory, clock: Any, language: str) -> None:
        """C010: the old one is marked, linked, in history, found by its state, and by the time at which it held."""
        before, after, now = REVERSALS[language]
        m = memory()
        old = m.add(before, type="preference")
        then = clock.time
        clock.advance(days=30)
        new = m.supersede(old.id, after)
        assert (m.get(old.id).state, m.get(old.id).replaced_by) == ("superseded", new.id)
        [hit] = m.search(now, states=["superseded"])
        assert (hit.id, hit.content) == (old.id, before)
        assert contents(m.search(now, as_of=then)) == [before]
        assert m.get(old.id, as_of=then).state == "live"
        assert contents(m.children(as_of=then)) == [before]
        turned = m.history(old.id)[-1]
        assert (turned.kind, turned.at, turned.changes["replaced_by"].after) == ("supersede", clock.time, new.id)


class TestTwoPlainWrites:
    @pytest.mark.parametrize("language", EQUAL_MATCHES)
    @pytest.mark.parametrize("days", [1, 30, 365])
    def test_of_two_that_match_alike_the_newer_is_first(
        self, memory: OpenMemory, clock: Any, language: str, days: int
    ) -> None:
        """C010: where the words of the question are in both, the newer one comes first, a day later already."""
        before, after, question = EQUAL_MATCHES[language]
        m = memory(retrieval={"vector": 0.0})
        m.add(before, type="preference")
        clock.advance(days=days)
        m.add(after, type="preference")
        assert contents(m.search(question, 2)) == [after, before]

    @pytest.mark.parametrize("language", EQUAL_MATCHES)
    def test_an_older_one_that_is_written_later_stays_behind(
        self, memory: OpenMemory, clock: Any, language: str
    ) -> None:
        """C010: newer is what happened later, not what was stored later."""
        before, after, question = EQUAL_MATCHES[language]
        m = memory(retrieval={"vector": 0.0})
        m.add(after, type="preference")
        m.add(before, type="preference", occurred_at=clock.time - timedelta(days=100))
        assert contents(m.search(question, 2)) == [after, before]

    @pytest.mark.model
    @pytest.mark.parametrize("language", REVERSALS)
    def test_a_reversal_in_its_own_words_comes_before_what_it_reverses(
        self, memory: OpenMemory, clock: Any, bundled: Any, language: str
    ) -> None:
        """C010: "no longer A, now B", written a month later, is before "A", by the real model and the defaults."""
        before, after, now = REVERSALS[language]
        m = memory(embedder=bundled)
        m.add("会议改到周三 the meeting moved", type="event")
        m.add(before, type="preference")
        clock.advance(days=30)
        m.add("发票已上传 invoice uploaded", type="event")
        m.add(after, type="preference")
        found = contents(m.search(now))
        assert found.index(after) < found.index(before)

    @pytest.mark.parametrize("language", REVERSALS)
    def test_both_carry_their_times(self, memory: OpenMemory, clock: Any, language: str) -> None:
        """C010: a caller, and a model that reads the context, can tell which is newer."""
        before, after, now = REVERSALS[language]
        m = memory()
        m.add(before, type="preference")
        said = clock.time
        clock.advance(days=40)
        m.add(after, type="preference")
        times = {hit.content: hit.node.created_at for hit in m.search(now)}
        assert times == {before: said, after: said + timedelta(days=40)}
        text = m.context(now, order="time").text
        assert "2026-07-02" in text
        assert "2026-08-11" in text
        assert text.index(before) < text.index(after)

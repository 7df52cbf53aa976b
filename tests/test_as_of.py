"""Searching the memory as it was: what a search said then is what it says with ``as_of``, whatever came after."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from hybridmem import Context, InvalidInput, Memory, Node, NotFound
from hybridmem.embed.hashing import HashingEmbedder
from hybridmem.ports import Vectors

OpenMemory = Callable[..., Memory]

WORDS = [
    "发票",
    "退回",
    "报销",
    "部门",
    "停机",
    "短信",
    "张三",
    "invoice",
    "returned",
    "claim",
    "R&D",
    "downtime",
    "SMS",
]
QUESTIONS = ("发票 invoice returned", "停机 downtime 张三", "R&D 部门")


class WordsOnly(HashingEmbedder):
    """Has vectors for contents and none for questions, so that words, tree and weights alone rank."""

    def embed_query(self, text: str) -> Vectors:
        if text in QUESTIONS:
            raise RuntimeError("no vector for a question")
        return super().embed_query(text)


def contents(found: Any) -> list[str]:
    return [hit.content for hit in found]


class Agent:
    """Does anything that can be done to a memory, at random."""

    def __init__(self, memory: Memory, seed: int, *, moves: bool = True, updates: bool = True) -> None:
        self.memory = memory
        self.random = random.Random(seed)
        self.actions = [self.add, self.add, self.add, self.past, self.repeat, self.weigh, self.pin, self.start]
        self.actions += [self.finish, self.switch, self.plan, self.rename, self.move] if moves else []
        self.actions += [self.rewrite, self.tag] if updates else []
        self.actions += [self.forget, self.bring_back, self.archive, self.unarchive]

    def act(self) -> None:
        self.random.choice(self.actions)()

    def text(self) -> str:
        return " ".join(self.random.choices(WORDS, k=self.random.randint(2, 6)))

    def any(self, *kinds: str) -> Node | None:
        return self.some("live", "archived", kinds=kinds)

    def some(self, *states: str, kinds: tuple[str, ...] = ()) -> Node | None:
        found = [node for node in self.memory.walk() if node.depth and (not kinds or node.type in kinds)]
        found = [node for node in found if node.state in states]
        return self.random.choice(found) if found else None

    def forget(self) -> None:
        if (node := self.some("live", "archived")) is not None:
            with contextlib.suppress(InvalidInput):  # protected
                self.memory.forget(node.id, subtree=True)

    def bring_back(self) -> None:
        if (node := self.some("forgotten")) is not None:
            with contextlib.suppress(InvalidInput):  # below what is still forgotten
                self.memory.restore_forgotten(node.id, subtree=self.random.random() < 0.5)

    def archive(self) -> None:
        if (node := self.some("live")) is not None:
            with contextlib.suppress(InvalidInput):  # protected
                self.memory.archive(node.id)

    def unarchive(self) -> None:
        if (node := self.some("archived")) is not None:
            self.memory.unarchive(node.id, subtree=self.random.random() < 0.5)

    def add(self) -> None:
        parent = self.any()
        self.memory.add(self.text(), type="event", parent=self.random.choice(["task", "node", parent or "root"]))

    def past(self) -> None:
        self.memory.add(self.text(), type="note", occurred_at="2026-03-01", importance=self.random.random())

    def repeat(self) -> None:
        self.memory.add(self.random.choice(WORDS), type="fact", parent="root")

    def weigh(self) -> None:
        if (node := self.any()) is not None:
            self.memory.update(node.id, importance=self.random.random(), confidence=self.random.random())

    def pin(self) -> None:
        if (node := self.any()) is not None:
            self.memory.pin(node.id, not node.pinned)

    def start(self) -> None:
        parent = self.random.choice([None, "active"])
        self.memory.start_task(self.text(), next_step=self.text(), parent=parent)

    def finish(self) -> None:
        if self.memory.active_task() is not None:
            status = self.random.choice(["done", "failed"])
            self.memory.finish_task(status=status, outcome=self.random.choice([None, self.text()]))

    def switch(self) -> None:
        if tasks := self.memory.tasks(["open", "paused"]):
            self.memory.switch_task(self.random.choice(tasks).id)

    def plan(self) -> None:
        if tasks := self.memory.tasks():  # live ones
            step = self.random.choice(["", self.text()])
            self.memory.update_task(self.random.choice(tasks).id, next_step=step, status="paused")

    def rename(self) -> None:
        if tasks := self.memory.tasks():
            self.memory.update_task(self.random.choice(tasks).id, title=self.text())

    def move(self) -> None:
        node, parent = self.any(), self.any()
        if node is None or parent is None:
            return
        if node.id not in {one.id for one in [*self.memory.ancestors(parent.id), parent]}:
            self.memory.move(node.id, parent)

    def rewrite(self) -> None:
        if (node := self.any("event", "note")) is not None:
            self.memory.update(node.id, content=self.text(), type=self.random.choice(["event", "note"]))

    def tag(self) -> None:
        if (node := self.any("event", "note")) is not None:
            tags = {"role": self.random.choice(["user", "张三", None]), "标签": self.random.randint(0, 2)}
            self.memory.update(node.id, metadata=tags)


def looked_up(memory: Memory, as_of: Any = None) -> list[Any]:
    """Everything that can be asked, as values that can be compared."""
    found: list[Any] = []
    for question in QUESTIONS:
        for scope in ("auto", "namespace"):
            result = memory.search(question, 100, scope=scope, as_of=as_of, trace=True)
            found += [result.to_dict()]
        found += [[hit.id for hit in memory.search(question, 100, metadata={"标签": 1}, as_of=as_of)]]
        found += [memory.search(question, 100, states=["forgotten", "archived"], as_of=as_of).to_dict()]
        found += [memory.context(question, token_budget=600, as_of=as_of).to_dict()]
    found += [memory.context(token_budget=600, as_of=as_of).to_dict()]
    return found


def close(now: Any, then: Any, *, activity: bool) -> None:
    """The same, numbers within rounding; without ``activity`` also in what the last activity decides."""
    if isinstance(now, dict):
        left_out = () if activity else ("active_at", "recency", "recent", "weight", "score")
        assert now.keys() == then.keys()
        for key in now.keys() - set(left_out):
            close(now[key], then[key], activity=activity)
    elif isinstance(now, list):
        assert len(now) == len(then)
        for one, other in zip(now, then, strict=True):
            close(one, other, activity=activity)
    elif isinstance(now, float):
        assert now == pytest.approx(then, abs=1e-6)
    else:
        assert now == then


@pytest.mark.parametrize("seed", range(4))
def test_whatever_came_after_a_search_says_what_it_said_then(memory: OpenMemory, clock: Any, seed: int) -> None:
    m = memory(embedder=WordsOnly())
    agent = Agent(m, seed, moves=False)
    seen: dict[datetime, list[Any]] = {}
    for step in range(60):
        clock.advance(hours=7)
        agent.act()
        if step % 12 == 5:
            m.flush()
            seen[clock.time] = looked_up(m)
    for moment, then in seen.items():
        close(looked_up(m, moment), then, activity=True)


@pytest.mark.parametrize("seed", range(4))
def test_also_when_tasks_ended_and_branches_were_moved(memory: OpenMemory, clock: Any, seed: int) -> None:
    # Importance alone weighs here: of the activity in a branch only what still hangs in it is known later.
    m = memory(embedder=WordsOnly(), weights={"recency": 0.0}, retrieval={"recent": 0.0})
    agent = Agent(m, 100 + seed)
    seen: dict[datetime, list[Any]] = {}
    for step in range(80):
        clock.advance(hours=7)
        agent.act()
        if step % 16 == 5:
            m.flush()
            seen[clock.time] = looked_up(m)
    for moment, then in seen.items():
        now = looked_up(m, moment)
        close(now, then, activity=False)
        nodes = [hit["node"] for part in now if isinstance(part, dict) for hit in part["hits"]]
        assert all(datetime.fromisoformat(node["active_at"]) <= moment for node in nodes)


def test_vectors_of_contents_that_stayed_count_as_they_did(memory: OpenMemory, clock: Any) -> None:
    m = memory()
    agent = Agent(m, 7, moves=False, updates=False)
    for _ in range(30):
        clock.advance(hours=1)
        agent.act()
    then, moment = looked_up(m), clock.time
    for _ in range(30):
        clock.advance(hours=1)
        agent.act()
    close(looked_up(m, moment), then, activity=True)
    assert m.search(QUESTIONS[0], as_of=moment)[0].score_details.vector is not None


@pytest.fixture
def claim(memory: OpenMemory, clock: Any) -> tuple[Memory, dict[str, datetime]]:
    """A claim over four days; the moments by a short name."""
    m, at = memory(), {}
    first = m.start_task("企业报销任务 claim", next_step="提交报销单 submit")
    event = m.add("发票抬头是甲公司 the invoice names company A", type="event", id="invoice")
    at["submitted"] = clock.time
    clock.advance(days=1)
    m.update(event.id, content="发票抬头是乙公司 the invoice names company B", importance=0.9)
    m.update_task(next_step="重新提交 submit again")
    at["corrected"] = clock.time
    clock.advance(days=1)
    m.add("财务退回了发票 finance returned the invoice", type="event", id="returned")
    m.finish_task(outcome="报销完成 paid")
    m.start_task("数据库迁移 migration", next_step="停机 downtime")
    m.move("returned", m.active_task().id)  # type: ignore[union-attr]
    clock.advance(days=1)
    assert first.id != m.active_task().id  # type: ignore[union-attr]
    return m, at


def test_nothing_written_later_is_in_results_paths_or_contexts(claim: tuple[Memory, dict[str, datetime]]) -> None:
    m, at = claim
    found = m.search("发票 invoice", as_of=at["submitted"])
    assert contents(found)[0] == "发票抬头是甲公司 the invoice names company A"
    shown = m.context("发票 invoice", as_of=at["submitted"])
    told = json.dumps([found.to_dict(), shown.to_dict()], ensure_ascii=False)
    for later in ("乙公司", "company B", "退回", "returned", "submit again", "migration", "停机", "paid", "done"):
        assert later not in told
    assert "提交报销单 submit" in shown.text
    hit = found[0]
    assert (hit.node.version, hit.node.importance, hit.path) == (1, 0.5, ("企业报销任务 claim",))
    assert hit.node.updated_at == at["submitted"]
    assert m.search("发票 invoice")[0].content != hit.content, "today it says something else"


def test_a_replaced_content_is_found_by_its_words_of_then_only(claim: tuple[Memory, dict[str, datetime]]) -> None:
    m, at = claim
    then = m.search("甲公司 company A", as_of=at["submitted"])[0]
    assert then.id == "invoice"
    assert then.score_details.vector is None
    assert then.score_details.lexical > 0.5
    assert {"甲", "甲公"} <= set(then.matched_terms)
    assert "乙" not in {term for hit in m.search("乙公司", as_of=at["submitted"]) for term in hit.matched_terms}
    after = m.search("乙公司 company B", as_of=at["corrected"])[0]
    assert after.id == "invoice"
    assert after.score_details.vector is not None, "that is the content of today"


def test_a_moment_is_given_like_since(claim: tuple[Memory, dict[str, datetime]]) -> None:
    m, at = claim
    shanghai = at["submitted"].astimezone(timezone(timedelta(hours=8)))
    expected = m.search("发票", as_of=at["submitted"])
    for given in (shanghai, shanghai.isoformat(), at["submitted"].replace(tzinfo=None), "2026-07-03"):
        assert contents(m.search("发票", as_of=given)) == contents(expected)
    for wrong in ("gestern", 5, "2026-13-01"):
        with pytest.raises(InvalidInput, match="as_of"):
            m.search("发票", as_of=wrong)
        with pytest.raises(InvalidInput, match="as_of"):
            m.context("发票", as_of=wrong)


def test_the_future_is_the_present_and_before_the_beginning_there_was_nothing(
    claim: tuple[Memory, dict[str, datetime]],
) -> None:
    m, _ = claim
    m.flush()
    assert m.search("发票 invoice", as_of="2099-01-01") == m.search("发票 invoice")
    assert m.context("发票", as_of="2099-01-01") == m.context("发票")
    for moment in ("2026-07-01", datetime.min.replace(tzinfo=timezone.utc)):
        assert len(m.search("发票", as_of=moment)) == 0
        empty: Context = m.context("发票", as_of=moment)
        assert (empty.hits, [node.type for node in empty.ancestors]) == ((), ["root"])


def test_scopes_are_those_of_then(claim: tuple[Memory, dict[str, datetime]]) -> None:
    m, at = claim
    assert m.search("发票", scope="task")[0].id == "returned"
    assert m.search("发票", scope="task", as_of=at["submitted"])[0].id == "invoice"
    with pytest.raises(NotFound, match=r"scope: .*at that time there was no node 'returned'"):
        m.search("发票", scope="returned", as_of=at["corrected"])
    with pytest.raises(NotFound, match="at that time"):
        m.search("发票", 0, scope="task", as_of="2026-07-01")


def test_what_happened_long_ago_is_known_from_when_it_was_written(memory: OpenMemory, clock: Any) -> None:
    m = memory()
    m.add("旧发票 old invoice", type="event", occurred_at="2026-01-01")
    before = clock.time - timedelta(seconds=1)
    assert contents(m.search("发票", as_of=clock.time)) == ["旧发票 old invoice"]
    assert contents(m.search("发票", as_of=before)) == []


def test_what_was_imported_is_there_as_the_file_told_it(memory: OpenMemory, clock: Any, tmp_path: Path) -> None:
    source = memory("source")
    source.start_task("报销 claim", next_step="提交 submit")
    source.add("发票 invoice", type="event", id="invoice", importance=0.3)
    source.update("invoice", confidence=0.2)
    source.export(tmp_path / "all.jsonl")
    clock.advance(days=3)
    m = memory("target")
    m.import_(tmp_path / "all.jsonl")
    imported, as_it_was = clock.time, m.get("invoice")
    clock.advance(days=1)
    m.update("invoice", content="发票已付 invoice paid", importance=0.9)
    m.finish_task()
    hit = m.search("发票 invoice", as_of=imported, types=["event"])[0]
    assert replace(hit.node, active_at=as_it_was.active_at, updated_at=as_it_was.updated_at) == as_it_was
    assert m.context("发票", as_of=imported).ancestors[-1].task.next_step == "提交 submit"  # type: ignore[union-attr]
    assert contents(m.search("发票", as_of=imported - timedelta(hours=1))) == []


def test_states_and_times_named_in_words_are_those_of_then(memory: OpenMemory, clock: Any) -> None:
    m = memory()
    m.add("开会讨论预算 budget meeting", type="event", occurred_at=clock.time - timedelta(days=1))
    m.add("开会讨论预算 budget meeting", type="event", occurred_at=clock.time - timedelta(days=9))
    moment = clock.time
    clock.advance(days=100)
    best = m.search("昨天的预算会 budget meeting yesterday", as_of=moment)[0]
    assert best.node.created_at == moment - timedelta(days=1)
    assert best.score_details.date == 1.0
    assert best.score_details.recency == pytest.approx(0.5 ** (1 / 30))
    assert len(m.search("预算", as_of=moment, states=["archived"])) == 0


def test_another_namespace_and_another_agent_are_left_out(memory: OpenMemory, clock: Any) -> None:
    mine, other = memory(namespace=("acme", "张三")), memory(namespace=("acme", "李四"))
    mate = memory(namespace=("acme", "张三"), agent="同事 mate")
    mine.start_task("报销 claim")
    mine.add("发票 invoice of 张三")
    other.add("发票 invoice of 李四")
    moment = clock.time
    clock.advance(days=1)
    mate.start_task("迁移 migration")
    mate.add("发票 invoice of the mate")
    assert contents(mine.search("发票", as_of=moment, types=["note"])) == ["发票 invoice of 张三"]
    assert contents(other.search("发票", as_of=moment, types=["note"])) == ["发票 invoice of 李四"]
    assert [node.content for node in mine.context(as_of=moment).ancestors][-1] == "报销 claim"
    assert [node.type for node in mate.context(as_of=moment).ancestors] in ([], ["root"])


def test_a_clock_that_goes_back_shows_nothing_written_later(memory: OpenMemory, clock: Any) -> None:
    m = memory()
    m.add("第一 first 发票")
    moment = clock.time
    clock.advance(days=2)
    m.add("第二 second 发票")
    clock.advance(days=-3)
    m.add("第三 third 发票")  # its clock says that it was before the first
    assert contents(m.search("发票", as_of=moment)) == ["第一 first 发票"]


def test_a_write_is_there_as_a_whole_from_the_time_it_carries(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "s", config={"index": {"background": False}}, embedder=HashingEmbedder()) as m:
        task = m.start_task("报销 claim", next_step="提交 submit")  # by the clock of the machine
        for moment in (task.created_at, task.updated_at, m.operations()[-1].at, m.checkpoints()[0].at):
            shown = m.context("报销", as_of=moment)
            assert [node.content for node in shown.ancestors] == ["报销 claim"]
        before = task.created_at - timedelta(microseconds=1)
        assert [node.type for node in m.context("报销", as_of=before).ancestors] == ["root"]

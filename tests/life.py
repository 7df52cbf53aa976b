"""A memory that anything may happen to: every verb that writes, told by names and numbers, so that hypothesis can make
a whole life of them and shrink it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from hybridmem import HybridMemError, Memory, Node
from hybridmem.store import digest

#: The verb, and four numbers that choose what it is done to and with.
Step = tuple[str, int, int, int, int]
TEXTS = (
    "用户张三，部门研发部", "财务退回，原因是发票信息不清晰", "invoice returned", "R&D 部门 invoice", "短信 SMS 优先",
    "停机 downtime 4 h", "decided: 重新提交", "发票",
)  # fmt: skip
VERBS = (
    "add", "add_many", "repeat", "past", "update", "rewrite", "tag", "pin", "move", "start", "switch", "plan",
    "finish", "claim", "release", "checkpoint", "forget", "bring_back", "archive", "unarchive", "wait",
    "supersede", "feedback", "use", "read",
)  # fmt: skip


def steps(*more: str, most: int = 25) -> st.SearchStrategy[list[Step]]:
    """Lives of up to ``most`` steps; ``more`` are verbs that a test does itself."""
    number = st.integers(0, 40)
    return st.lists(st.tuples(st.sampled_from([*VERBS, *more]), number, number, number, number), max_size=most)


class Life:
    """Does the steps to the memories of two agents in one namespace. What a verb refuses is not done."""

    def __init__(self, one: Memory, other: Memory, clock: Any) -> None:
        self.memories = (one, other)
        self.clock = clock
        self.memory = one

    def act(self, step: Step) -> None:
        verb, who, *numbers = step
        self.memory = self.memories[who % 4 == 3]
        self.clock.advance(seconds=numbers[0] % 3)
        try:
            action: Callable[..., Any] = getattr(self, verb)
            action(*numbers)
        except HybridMemError:
            pass

    def node(self, which: int, *types: str) -> Node:
        """Any node but the root, in whatever state."""
        found = [node for node in self.memory.walk() if node.depth and (not types or node.type in types)]
        if not found:
            raise HybridMemError("there is none")
        return found[which % len(found)]

    def place(self, which: int) -> Any:
        return ["task", "node", "root", "decision", "task"][which] if which < 5 else self.node(which)

    def wait(self, a: int, b: int, c: int) -> None:
        self.clock.advance(seconds=[0, 1, 100, 7200][a % 4])

    def add(self, a: int, b: int, c: int) -> None:
        self.memory.add(
            TEXTS[a % len(TEXTS)], type=["event", "note", "decision"][b % 3], parent=self.place(c), importance=a / 40
        )

    def add_many(self, a: int, b: int, c: int) -> None:
        self.memory.add_many([{"content": TEXTS[a % 8]}, {"content": {"n": b}, "parent": 0}, {"content": TEXTS[c % 8]}])

    def repeat(self, a: int, b: int, c: int) -> None:
        when = [None, None, f"2026-0{1 + c % 6}-03", "2026-12-03"][b % 4]
        self.memory.add(TEXTS[a % 2], type="fact", parent="root", occurred_at=when)

    def past(self, a: int, b: int, c: int) -> None:
        self.memory.add(TEXTS[a % 8], occurred_at=f"2026-0{1 + b % 6}-03", parent=self.place(c))

    def update(self, a: int, b: int, c: int) -> None:
        self.memory.update(self.node(a).id, importance=b / 40, confidence=c / 40)

    def rewrite(self, a: int, b: int, c: int) -> None:
        node = self.node(a, "event", "note", "fact", "decision")
        self.memory.update(node.id, content=TEXTS[b % 8], type=["event", "note", None][c % 3])

    def tag(self, a: int, b: int, c: int) -> None:
        self.memory.update(self.node(a).id, metadata={"标签": [None, b % 3][c % 2], "role": "user"})

    def pin(self, a: int, b: int, c: int) -> None:
        self.memory.pin(self.node(a).id, b % 2 == 0)

    def move(self, a: int, b: int, c: int) -> None:
        self.memory.move(self.node(a).id, self.place(b))

    def start(self, a: int, b: int, c: int) -> None:
        self.memory.start_task(
            f"任务 {TEXTS[a % 8]}", next_step=[None, TEXTS[b % 8]][b % 2], parent="active" if c % 2 else None
        )

    def switch(self, a: int, b: int, c: int) -> None:
        self.memory.switch_task(self.node(a, "task").id)

    def plan(self, a: int, b: int, c: int) -> None:
        title = None if c % 3 else TEXTS[c % 8]
        status = [None, "open", "paused"][b % 3]
        self.memory.update_task(
            self.node(a, "task").id, next_step=["", TEXTS[b % 8]][c % 2], status=status, title=title
        )

    def finish(self, a: int, b: int, c: int) -> None:
        id = None if a % 2 else self.node(a, "task").id
        self.memory.finish_task(id, status=["done", "failed"][b % 2], outcome=[None, TEXTS[c % 8]][c % 2])

    def supersede(self, a: int, b: int, c: int) -> None:
        types = (None, "fact", "note")
        self.memory.supersede(self.node(a).id, TEXTS[b % 8], type=types[c % 3], confidence=[None, c / 40][c % 2])

    def feedback(self, a: int, b: int, c: int) -> None:
        said = (None, True, False)
        reason = self.node(c).id if c % 2 else None
        self.memory.feedback(
            self.node(a).id, helpful=said[b % 3], confirmed=None if reason else said[c % 3], confirmed_by=reason,
            importance=[None, b / 40][b % 2], note=[None, TEXTS[c % 8]][b % 2],
        )  # fmt: skip

    def use(self, a: int, b: int, c: int) -> None:
        """Delivered, and written with whatever this handle writes next."""
        self.memory._workspace.uses.count([self.node(a).id, self.node(b).id])

    def read(self, a: int, b: int, c: int) -> None:
        self.use(a, b, c)
        self.memory._workspace.flush_uses()

    def claim(self, a: int, b: int, c: int) -> None:
        self.memory.claim_task(self.node(a, "task").id, seconds=[1, 3600][b % 2], outlives=c % 2 == 0)

    def release(self, a: int, b: int, c: int) -> None:
        self.memory.release_task(self.node(a, "task").id)

    def back(self, a: int, b: int, c: int) -> None:
        """The clock is set back. Not among VERBS: a time means two moments then."""
        self.clock.advance(seconds=-[1, 100, 7200][a % 3])

    def checkpoint(self, a: int, b: int, c: int) -> None:
        self.memory.checkpoint(["a", "b", None][a % 3])

    def forget(self, a: int, b: int, c: int) -> None:
        self.memory.forget(self.node(a).id, subtree=b % 2 == 0)

    def bring_back(self, a: int, b: int, c: int) -> None:
        forgotten = [node for node in self.memory.walk() if node.state == "forgotten"]
        if forgotten:
            self.memory.restore_forgotten(forgotten[a % len(forgotten)].id, subtree=b % 2 == 0)

    def archive(self, a: int, b: int, c: int) -> None:
        self.memory.archive(self.node(a).id)

    def unarchive(self, a: int, b: int, c: int) -> None:
        self.memory.unarchive(self.node(a).id)


def covered(memory: Memory) -> dict[str, dict[str, Any]]:
    """Every field of every node and every pointer of a memory's namespace, by node and by agent."""
    with memory._workspace.read() as tx:
        return digest.covered(tx)[memory.namespace]


def backup(memory: Memory, file: Path) -> Path:
    """A copy of the database as it is at this moment."""
    with closing(sqlite3.connect(memory.path / "tree.db")) as here, closing(sqlite3.connect(file)) as there:
        here.backup(there)
    return file

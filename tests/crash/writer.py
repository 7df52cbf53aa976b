"""The children of test_kill: each writes without end, noting every operation before and after it, until it is killed.

Run as a script. It imports everything once, opens nothing, and forks a writer for each line on stdin, a JSON list of
the store, the file of the notes and the seed: twenty imports of Chroma would take longer than the test.
"""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from crash.model import Expected
from hybridmem import Memory
from hybridmem.index import chroma

WORDS = (
    "发票",
    "报销单",
    "财务",
    "退回",
    "invoice",
    "refund",
    "李经理",
    "PostgreSQL 15",
    "order-{}",
    "短信",
    "停机",
    "budget",
)
#: Chroma writes its files every 50 vectors instead of every 1,000: that is when a kill can tear them.
HNSW = {**chroma.HNSW, "batch_size": 25, "sync_threshold": 50}
CONFIG = {
    "embedding": {"provider": "hashing", "dimension": 32},
    "index": {"exact_limit": 0, "batch_size": 10},
    "checkpoint": {"every_operations": 25},
}


KINDS = ("event", "fact", "note", "decision", "preference")


class Writer:
    def __init__(self, memory: Memory, notes: int, seed: int) -> None:
        self.memory = memory
        self.notes = notes
        self.seed = seed
        self.random = random.Random(seed)
        self.expected = Expected.read(memory)
        self.number = 0

    def step(self) -> None:
        kinds = {
            "add": 40, "add_many": 14, "update": 12, "move": 8, "pin": 2, "confirm": 4, "start_task": 6,
            "update_task": 7, "switch_task": 3, "finish_task": 4, "checkpoint": 2, "search": 2, "forget": 6,
            "archive": 2, "restore_forgotten": 4, "unarchive": 1,
        }  # fmt: skip
        operation = self.random.choices(list(kinds), list(kinds.values()))[0]
        given = getattr(self, f"_{operation}")()
        if given is None:
            return
        self.note({"operation": operation, "given": given})
        made, version = self.run(operation, given)
        self.note({"made": made, "version": version})
        self.expected.apply(operation, given, made)

    def run(self, operation: str, given: dict[str, Any]) -> tuple[str | None, int | None]:
        if operation == "add_many":
            nodes = self.memory.add_many(given["items"])
            assert [node.id for node in nodes] == [item["id"] for item in given["items"]]
            return None, None
        if operation == "checkpoint":
            self.memory.checkpoint(given["label"])
            return None, None
        if operation in ("forget", "archive", "restore_forgotten", "unarchive"):
            change = getattr(self.memory, operation)(**given)
            assert sorted(change.ids) == sorted(self.expected.changing(operation, **given))
            return None, None
        if operation == "confirm":
            node = self.memory.add(**given, type="preference")
            assert not node.created
        else:
            node = getattr(self.memory, operation)(**given)
        return node.id, node.version

    def note(self, value: dict[str, Any]) -> None:
        os.write(self.notes, (json.dumps(value) + "\n").encode())

    # What to do next: the arguments, or None if it cannot be done now

    def _text(self) -> str:
        self.number += 1
        words = " ".join(self.random.choices(WORDS, k=self.random.randint(1, 8)))
        return f"{words.replace('{}', str(self.number))} marke{self.seed}n{self.number}"

    def _id(self) -> str:
        return f"id-{self.seed}-{self.number}"

    def _one(self, *types: str, state: str = "live") -> str | None:
        nodes = self.expected.nodes
        found = [one for one, node in nodes.items() if node["type"] in types and node["state"] == state]
        return self.random.choice(found[-60:]) if found else None

    def _add(self) -> dict[str, Any]:
        content = self._text()
        kind = self.random.choice(KINDS)
        parent = self.random.choice(("task", "node", "root", self._one("note", "event", "fact") or "task"))
        return {"content": content, "id": self._id(), "type": kind, "parent": parent}

    def _add_many(self) -> dict[str, Any]:
        items: list[dict[str, Any]] = []
        for position in range(self.random.randint(2, 20)):
            item = {"content": self._text(), "id": self._id(), "type": "event"}
            if position and self.random.random() < 0.4:
                item["parent"] = self.random.randrange(position)  # type: ignore[assignment]
            items.append(item)
        return {"items": items}

    def _update(self) -> dict[str, Any] | None:
        one = self._one("event", "fact", "note", "decision")
        return one and {"id": one, "content": self._text()}  # type: ignore[return-value]

    def _move(self) -> dict[str, Any] | None:
        one, target = self._one("event", "fact", "note"), self._one("event", "note", "task", "root")
        if one is None or target is None or self.expected.below(target, one):
            return None
        return {"id": one, "parent": target}

    def _pin(self) -> dict[str, Any] | None:
        one = self._one("fact", "decision")
        return one and {"id": one, "pinned": self.random.random() < 0.7}  # type: ignore[return-value]

    def _confirm(self) -> dict[str, Any] | None:
        one = self._one("preference")
        if one is None:
            return None
        node = self.expected.nodes[one]
        return {"content": node["content"], "parent": node["parent"]}

    def _task(self, *, active: bool) -> str | None:
        if active:
            return self.expected.task
        nodes = self.expected.nodes.items()
        found = [one for one, node in nodes if (node["status"], node["state"]) == ("open", "live")]
        return self.random.choice(found) if found else None

    def _start_task(self) -> dict[str, Any]:
        step = self.random.choice((None, f"先联系财务 then retry {self.number}"))
        return {"title": f"任务 {self._text()}", "next_step": step, "parent": self.random.choice((None, "active"))}

    def _update_task(self) -> dict[str, Any] | None:
        one = self._task(active=self.random.random() < 0.8)
        return one and {"id": one, "next_step": f"下一步 {self._text()}"}  # type: ignore[return-value]

    def _switch_task(self) -> dict[str, Any] | None:
        one = self._task(active=False)
        return one and {"id": one}  # type: ignore[return-value]

    def _finish_task(self) -> dict[str, Any] | None:
        one = self._task(active=self.random.random() < 0.7)
        return one and {"id": one, "status": self.random.choice(("done", "failed"))}  # type: ignore[return-value]

    def _checkpoint(self) -> dict[str, Any]:
        return {"label": f"检查点 {self._text()}"}

    def _forget(self) -> dict[str, Any] | None:
        one = self._one(*KINDS)
        return {"id": one, "subtree": True} if one and self.expected.may_go(one) else None

    def _archive(self) -> dict[str, Any] | None:
        return self._forget()

    def _restore_forgotten(self) -> dict[str, Any] | None:
        one = self._one(*KINDS, state="forgotten")
        if one is None or self.expected.nodes[self.expected.nodes[one]["parent"]]["state"] == "forgotten":
            return None
        return {"id": one, "subtree": self.random.random() < 0.5}

    def _unarchive(self) -> dict[str, Any] | None:
        one = self._one(*KINDS, state="archived")
        return one and {"id": one, "subtree": self.random.random() < 0.5}  # type: ignore[return-value]

    def _search(self) -> None:
        self.memory.search(self.random.choice(WORDS), k=3)


def write(store: str, notes: str, seed: str) -> None:
    descriptor = os.open(notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    memory = Memory.open(store, config=CONFIG)
    say("open")
    writer = Writer(memory, descriptor, int(seed))
    while True:
        writer.step()


def say(word: str) -> None:
    """One line in one write: two processes share this stdout, and print() may write the end of a line by itself."""
    os.write(1, (word + "\n").encode())


def main() -> None:
    chroma.import_chromadb()
    chroma.HNSW = HNSW  # type: ignore[assignment]
    for line in sys.stdin:
        child = os.fork()
        if not child:
            write(*json.loads(line))
        say(str(child))
        os.waitpid(child, 0)
        say("gone")


if __name__ == "__main__":
    main()

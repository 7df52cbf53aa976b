"""An owner, a guest and somebody else, for the tests of sharing."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from hybridmem import Memory
from hybridmem.embed.hashing import HashingEmbedder

CONFIG = {"index": {"background": False}}
OWNER, GUEST, OTHER = ("acme", "张三"), ("acme", "li-si"), ("acme", "王五")
START = datetime(2026, 12, 2, 12, tzinfo=timezone.utc)


class SetClock:
    """A clock that stands where it is put."""

    def __init__(self) -> None:
        self.at = START

    def now(self) -> datetime:
        return self.at


class Three:
    """An owner, a guest and somebody else in one store, with one clock."""

    def __init__(self, store: Path) -> None:
        self.store, self.clock = store, SetClock()
        self.owner, self.guest, self.other = self.open(OWNER), self.open(GUEST), self.open(OTHER)
        self.beside = self.owner.add("秘密工资 secret salary beside", type="fact", parent="root")
        self.above = self.owner.add("上面的秘密 secret above", parent="root")
        self.top = self.owner.add("报销项目 claims project", parent=self.above)
        self.fact = self.owner.add("发票被财务退回 the invoice was returned", type="fact", parent=self.top)
        self.leaf = self.owner.add("发票号码 INV-7 invoice number", type="event", parent=self.fact)
        self.archived = self.owner.add("旧发票 old invoice", type="event", parent=self.top)
        self.owner.archive(self.archived.id)

    def open(self, names: tuple[str, ...], agent: str = "bot", **sections: Any) -> Memory:
        return Memory.open(
            self.store, namespace=names, agent=agent, config={**CONFIG, **sections}, embedder=HashingEmbedder(),
            clock=self.clock,
        )  # fmt: skip


def ids(nodes: Any) -> list[str]:
    return [one.id for one in nodes]

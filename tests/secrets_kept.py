"""A rich history in an encrypted store, with words that nobody else uses, for the tests that look for them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridmem import Memory
from hybridmem.embed.hashing import HashingEmbedder
from hybridmem.ports import Vectors

KEY = bytes(range(32))
OTHER_KEY = bytes(range(32, 64))
CONFIG: dict[str, Any] = {"index": {"background": False}, "weights": {"count_uses": False}}
#: In contents, of which some are overwritten, forgotten, purged, merged or summarised.
CONTENTS = ("蓝鲸计划", "zyxquartz", "紫藤花 wisteriabloom", "鹦鹉螺", "heliotropic", "旧址在松花江", "formerlyemerald")
#: In metadata, next steps, labels, notes, outcomes, and what speakers are called.
BESIDE = (
    "金库抽屉",
    "vaultdrawer",
    "打电话给欧阳锋",
    "callouyang",
    "标签琥珀",
    "amberlabel",
    "笔记翡翠",
    "jadenote",
    "慕容复",
)
WORDS = (*(word for content in CONTENTS for word in content.split()), *BESIDE)
NAMESPACES = (("acme", "张三"), ("acme", "li-si"))


class Clock:
    """Goes on by a second with each look."""

    def __init__(self) -> None:
        self.time = datetime(2026, 7, 2, 8, 0, tzinfo=timezone.utc)

    def now(self) -> datetime:
        self.time += timedelta(seconds=1)
        return self.time


class Remembering(HashingEmbedder):
    """Keeps what it gave."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[NDArray[np.float32]] = []

    def embed_documents(self, texts: Any) -> Vectors:
        found = super().embed_documents(texts)
        self.given += list(found)
        return found


def opened(store: Path, namespace: tuple[str, ...] = NAMESPACES[0], **named: Any) -> Memory:
    settings = {"embedder": HashingEmbedder(), "clock": Clock(), "master_key": KEY, "config": CONFIG, **named}
    return Memory.open(store, namespace=namespace, **settings)


def live(store: Path, **named: Any) -> dict[str, str]:
    """Lives a life in both namespaces; returns the ids of some memories of the first."""
    ids: dict[str, str] = {}
    for namespace in reversed(NAMESPACES):
        with opened(store, namespace, **named) as memory:
            task = memory.start_task(f"{CONTENTS[0]} 的任务", next_step=f"{BESIDE[2]} {BESIDE[3]}")
            fact = memory.add(f"慕容复: {CONTENTS[1]} {CONTENTS[2]}", type="fact", metadata={"place": list(BESIDE[:2])})
            memory.feedback(fact.id, confirmed=True, note=f"{BESIDE[6]} {BESIDE[7]}")
            old = memory.add(f"{CONTENTS[5]} {CONTENTS[6]}", type="note")
            memory.update(old.id, content=f"新址 {CONTENTS[3]}", metadata={"vaultdrawer": "慕容复"})
            purged = memory.add(f"{CONTENTS[4]} to be purged", type="event")
            memory.forget(purged.id)
            memory.purge_forgotten(0)
            gone = memory.add(f"{CONTENTS[4]} to be forgotten 忘掉", type="event")
            memory.forget(gone.id)
            memory.checkpoint(f"{BESIDE[4]} {BESIDE[5]}")
            many = memory.add_many([{"content": f"{CONTENTS[3]} {n} zyxquartz drawer"} for n in range(20)])
            memory.move(many[0].id, fact.id)
            memory.supersede(fact.id, f"{CONTENTS[2]} now 现在")
            memory.flush()
            memory.update_task(task.id, next_step="打电话给欧阳锋")
            memory.finish_task(outcome=f"{CONTENTS[0]} done")
            memory.restore(checkpoint=1)
            memory.add_many([{"content": f"{CONTENTS[0]} {n} zyxquartz 又一次"} for n in range(20)])
            memory.checkpoint()
            memory.flush()
            ids = {"task": task.id, "fact": fact.id, "old": old.id, "gone": gone.id}
    return ids

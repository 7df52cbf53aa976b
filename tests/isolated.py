"""Namespaces with hostile names, each filled with a bit of everything, for the tests of isolation."""

from __future__ import annotations

import re
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from surface import Own

from hybridmem import Memory
from hybridmem.embed.hashing import HashingEmbedder
from hybridmem.ports import Clock

#: Prefixes of each other, wildcards of SQL, GLOB, FTS and regular expressions, separators inside, cases, look-alikes.
NAMESPACES: tuple[tuple[str, ...], ...] = (
    ("acme",), ("acme", "zhang"), ("acme", "zhang-san"), ("acme", "zhang", "san"), ("acme/zhang",), ("acme/zhang/san",),
    ("Acme",), ("ACME",), ("acm",), ("acme%",), ("acm_",), ("acme*",), ("acme?",), ("%",), ("_",), ("*",), (".*",),
    ("张",), ("张三",), ("张三", "李四"), ("张三李四",), ("張三",), ("аcme",), ("ａｃｍｅ",), ("ac\u200bme",),
    ("é",), ("e\u0301",), ("'; DROP TABLE node; --",), ('"acme" OR "张三"',), ("1:acme",), ("..", ".."), ('["acme"]',),
)  # fmt: skip
CONFIG: dict[str, Any] = {
    "index": {"background": False},
    "consolidation": {"min_tokens": 20},
    "forgetting": {"retention_days": 30},
}
CANARY = re.compile(r"机密secret\d\dq")


def opened(
    store: Path, names: tuple[str, ...], agent: str = "same", /, *, clock: Clock | None = None, **sections: Any
) -> Memory:
    """A handle that does nothing behind the back of a test."""
    return Memory.open(
        store, namespace=names, agent=agent, config={**CONFIG, **sections}, embedder=HashingEmbedder(), clock=clock
    )


def filled(store: Path, number: int, folder: Path, /, **options: Any) -> Own:
    """Fills one namespace: live, forgotten, archived, purged and merged memories, a summary, a checkpoint, a place."""
    own = f"机密secret{number:02d}q"
    with opened(store, NAMESPACES[number], **options) as m:
        done = m.start_task(f"办完 done {own}")
        m.add_many([{"content": f"发票 INV-{n} 没人接 nobody {own}", "type": "event"} for n in range(6)])
        m.add(f"决定 decided {own}", type="decision")
        m.finish_task()
        task = m.start_task(f"任务 task {own}", next_step=f"下一步 next {own}")
        fact, event = m.add(f"事实 fact {own}", type="fact"), m.add(f"事件 event {own}", type="event")
        note, twin = (m.add(f"{text} {own}", type="note") for text in ("发票要盖章", "发票要盖章。"))
        forgotten, archived, purged = (m.add(f"{text} {own}", type="event") for text in ("忘", "archived 存", "清"))
        m.forget(purged.id)
        m.purge_forgotten(0)
        m.forget(forgotten.id)
        m.archive(archived.id)
        (branch,) = m.consolidate(done.id).branches
        assert branch.summary_id is not None
        checkpoint = m.checkpoint(f"标签 label {own}").label
        assert checkpoint is not None
        assert m.flush() == 0
    place = folder / f"{number:02d}"
    place.mkdir()
    return Own(
        own, task.id, done.id, fact.id, event.id, note.id, twin.id, forgotten.id, archived.id, purged.id,
        branch.summary_id, checkpoint, place,
    )  # fmt: skip


def told(value: Any) -> str:
    """All that an answer says, as one text."""
    if is_dataclass(value) and not isinstance(value, type):
        return told(asdict(value))
    if isinstance(value, dict):
        return told([*value, *value.values()])
    if isinstance(value, (list, tuple, set, frozenset)):
        return "\n".join(map(told, value))
    return f"{value}\n{value!r}"

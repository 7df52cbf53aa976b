"""A root that an import took over was another one before: as_of and restore have that, and a restore can be undone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hybridmem import Change, Memory

OpenMemory = Callable[..., Memory]


def test_the_root_before_an_import_is_read_and_restored(memory: OpenMemory, clock: Any, tmp_path: Path) -> None:
    one, two = memory(namespace=("甲 一",)), memory(namespace=("乙 two",))
    one.add("发票 invoice")
    one.export(tmp_path / "file.jsonl")
    before, then = two.operations()[-1].sequence, clock.now()
    clock.advance(hours=1)
    two.import_(tmp_path / "file.jsonl")
    after, id = two.operations()[-1].sequence, two.root().id
    assert two.root().content == "甲 一"
    assert two.get(id, as_of=then).content == "乙 two"
    report = two.restore(sequence=before)
    assert [(change.id, change.changes["content"]) for change in report.changed] == [(id, Change("甲 一", "乙 two"))]
    assert (two.root().id, two.root().content) == (id, "乙 two")
    assert two.restore(sequence=before).is_empty
    assert two.verify(replay=True).findings == ()
    two.restore(sequence=after)
    assert two.root().content == "甲 一"
    assert two.verify(replay=True).findings == ()

"""Forgetting and archiving a wide node and a deep chain, each in one operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from forgetting import HIDING

from hybridmem import InvalidInput, Memory

OpenMemory = Callable[..., Memory]


class TestScale:
    def test_a_node_with_12000_children(self, memory: OpenMemory) -> None:
        m = memory()
        top = m.add("宽 wide", id="wide").id
        m.add_many({"content": f"第{number}条 item", "parent": top} for number in range(12_000))
        m.start_task("别处 elsewhere")
        before = len(m.operations())
        for hide, back, state in HIDING:
            assert len(getattr(m, hide)(top, subtree=True).ids) == 12_001
            assert m.children(top, limit=1) == []
            assert m.stats().by_state[state] == 12_001
            assert m.search("第11999条 item", 5, types=["note"]).hits == ()
            assert len(getattr(m, back)(top, subtree=True).ids) == 12_001
        assert len(m.operations(before)) == 4
        assert m.children(top, offset=11_999)[0].content == "第11999条 item"

    def test_a_chain_of_5000(self, memory: OpenMemory) -> None:
        m = memory()
        items: list[dict[str, Any]] = [{"content": "链 chain 0", "id": "0"}]
        items += [{"content": f"链 chain {n}", "id": str(n), "parent": n - 1} for n in range(1, 5_000)]
        m.add_many(items)
        m.start_task("别处 elsewhere")
        for hide, back, state in HIDING:
            assert getattr(m, hide)("0", subtree=True).ids == tuple(str(n) for n in range(5_000))
            assert m.get("4999").state == state
            assert len(getattr(m, back)("0", subtree=True).ids) == 5_000
        m.forget("2500", subtree=True)
        with pytest.raises(InvalidInput, match="'4999' hangs below '2500'"):
            m.restore_forgotten("4999")
        m.forget("2499")
        assert [len(m.restore_forgotten(str(n)).ids) for n in range(2_499, 2_600)] == [1] * 101
        assert m.children("2599") == []

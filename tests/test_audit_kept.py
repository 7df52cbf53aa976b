"""The audit trail as it is kept: written to a file, and removed when it is old, so that it holds all the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from hybridmem import AuditEntry, InvalidInput, Memory

OpenMemory = Callable[..., Memory]


class TestExport:
    def test_has_all_that_is_needed_to_check_it(self, memory: OpenMemory, tmp_path: Path) -> None:
        m = memory(namespace=("企业", "张三"))
        m.add("发票 invoice")
        m.search("发票")
        count = m.export_audit(tmp_path / "审计.jsonl")
        header, *lines = map(json.loads, (tmp_path / "审计.jsonl").read_text("utf-8").splitlines())
        assert (header["entries"], header["namespace"]) == (count, ["企业", "张三"]) == (len(lines), ["企业", "张三"])
        assert header["newest"] == [lines[-1]["sequence"], lines[-1]["hash"]]
        assert [one["verb"] for one in lines] == ["open", "add", "search"]
        assert set(lines[0]) == set(asdict(AuditEntry(1, None, "", "", None, "", {}, "")))  # type: ignore[arg-type]

    def test_is_whole_or_not_there(self, memory: OpenMemory, tmp_path: Path) -> None:
        m = memory()
        m.add("一条 one")
        for file in (m.path / "tree.db", tmp_path / "没有" / "x.jsonl"):
            with pytest.raises(InvalidInput):
                m.export_audit(file)
        assert [one.outcome for one in m.audit(verb="export_audit")] == ["InvalidInput"] * 2
        assert not list(tmp_path.rglob("*.jsonl"))
        assert m.verify().ok


class TestRetention:
    def test_removes_the_oldest_and_the_chain_goes_on(self, memory: OpenMemory, clock: Any) -> None:
        m = memory(audit={"retention_days": 30.0})
        m.add("旧的 old")
        clock.advance(days=31)
        m.add("新的 new")
        dry = m.prune_audit(dry_run=True)
        assert (dry.removed, dry.to) == (2, 2)
        assert m.audit(verb="add")[0].sequence == 2
        found = m.prune_audit()
        assert (found.removed, found.to) == (2, 2)
        kept = m.audit(limit=None)
        assert kept[0].sequence == 3
        (told,) = (one for one in kept if one.verb == "prune_audit" and "removed" in one.detail and "to" in one.detail)
        assert (told.detail["removed"], told.detail["to"]) == (2, 2)
        assert m.verify().ok
        clock.advance(days=31)
        assert m.prune_audit().removed == len(kept) + 2  # audit() and verify()
        assert m.verify().ok
        assert m.prune_audit().removed == 0
        m.add("还在 still")
        assert m.verify().ok

    def test_is_kept_for_ever_unless_something_is_said(self, memory: OpenMemory) -> None:
        m = memory()
        with pytest.raises(InvalidInput, match="older_than"):
            m.prune_audit()
        with pytest.raises(InvalidInput, match="older_than"):
            m.prune_audit(-1)

    def test_what_waited_is_kept_with_what_was_written_before_it(self, memory: OpenMemory, clock: Any) -> None:
        """The oldest go as far as all before them do: none is taken out of the middle."""
        m = memory()
        m.add("一 one")
        clock.advance(days=10)
        m.add("二 two")
        clock.advance(days=-10)
        m.add("三 three")  # a clock that was set back
        clock.advance(days=12)
        assert m.prune_audit(5).removed == 2
        assert [one.verb for one in m.audit(verb="add")] == ["add", "add"]
        assert m.verify().ok

    def test_happens_by_itself(self, memory: OpenMemory, clock: Any) -> None:
        m = memory()
        m.add("旧的 old")
        m.close()
        clock.advance(days=40)
        m = memory(audit={"retention_days": 30.0})
        m.add("新的 new")
        m.close()
        m = memory()
        assert "旧" not in str(m.audit())
        found = m.audit(limit=None)
        assert found[0].sequence == 4
        (told,) = (one for one in found if one.verb == "prune_audit")
        assert told.detail["scheduled"] is True
        assert m.verify().ok

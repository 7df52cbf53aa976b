"""What others do while the embedding model of a store is changed: write, search, index, change it themselves."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from crash.helpers import Child
from reembedding import SEARCHED, TEXTS, Turned, check, fill, interrupt_at, vectors

from hybridmem import HybridMemError, Memory
from hybridmem.embed.hashing import HashingEmbedder
from hybridmem.ports import Vectors
from hybridmem.store import models

OpenMemory = Callable[..., Memory]


class TestMeanwhile:
    def test_what_is_written_during_the_change_is_not_left_behind(
        self, memory: OpenMemory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        old, new = HashingEmbedder(32), Turned(32)
        other = memory(embedder=old, agent="other", index=SEARCHED)
        fill(other)
        written: list[str] = []

        def write(texts: Sequence[str]) -> None:
            if len(written) < 8 and new.calls > 5:
                number = len(written)
                written.append(other.add(f"其间写的第{number}条 written meanwhile").id)
                other.update(f"n{number}", content=f"其间改的第{number}条 changed meanwhile")
                other.update(f"n{50 + number}", metadata={"其间": number})
                assert other.search("written meanwhile", k=1)[0].score_details.vector is not None

        changed = memory(embedder=new, index=SEARCHED)
        new.hook = write
        at_switch: list[tuple[int, int]] = []
        switch = models.switch

        def noted(tx: Any, failed: Any) -> None:
            at_switch.append(models.progress(tx))
            switch(tx, failed)

        monkeypatch.setattr(models, "switch", noted)
        changed.reembed(batch_size=3)
        new.hook = lambda texts: None
        assert len(written) == 8
        assert at_switch == [(69, 69)], "also what was changed or written when it had gone past"
        assert changed.flush() == 0
        check(changed, new)

    def test_a_handle_with_the_old_model_stops_using_its_vectors(self, memory: OpenMemory) -> None:
        """Same width: nothing but the record tells the two apart, and a mixture would go unnoticed."""
        old, new = HashingEmbedder(32), Turned(32)
        other = memory(embedder=old, agent="other", index=SEARCHED)
        fill(other)
        other.search("refund", k=3)
        memory(embedder=new, index=SEARCHED).reembed()
        found = other.search(TEXTS[1].format(31), k=3)
        assert found[0].id == "n31"
        assert found[0].score_details.vector is None
        assert "was built with" in found.warnings[0]
        added = other.add("之后写的 written after it", id="after")
        other.flush()
        assert "after" not in vectors(other)
        assert other.search("written after it", k=1)[0].id == added.id
        with memory(embedder=new, agent="third", index=SEARCHED) as third:
            assert third.flush() == 0
            check(third, new)

    def test_a_search_that_the_change_overtakes_compares_nothing(self, memory: OpenMemory) -> None:
        old, new = Turned(32, "old"), HashingEmbedder(32)
        other = memory(embedder=old, agent="other")
        fill(other)
        changed = memory(embedder=new)
        embed_query = old.embed_query

        def overtaken(text: str) -> Vectors:
            found = embed_query(text)
            changed.reembed()
            return found

        old.embed_query = overtaken  # type: ignore[method-assign]
        found = other.search(TEXTS[1].format(31), k=3)
        assert found[0].id == "n31"
        assert all(hit.score_details.vector is None for hit in found)
        assert any("changed during this search" in warning for warning in found.warnings)

    def test_vectors_that_were_made_before_the_change_are_not_kept_after_it(self, memory: OpenMemory) -> None:
        old, new = Turned(32, "old"), HashingEmbedder(32)
        other = memory(embedder=old, agent="other")
        fill(other)
        changed = memory(embedder=new)
        other.add("正在嵌入 being embedded", id="late")
        done: list[int] = []

        def overtaken(texts: Sequence[str]) -> None:
            if not done:
                done.append(1)
                changed.reembed()

        old.hook = overtaken
        other.flush()
        check(changed, new)

    def test_what_was_kept_in_memory_of_a_branch_that_cannot_be_embedded_any_more_is_not_compared(
        self, memory: OpenMemory
    ) -> None:
        """Nothing below it has a new vector, so nothing there says by itself that it has changed."""
        new = Turned(32)
        with memory(embedder=HashingEmbedder(32)) as first:
            branch = first.add("分支 branch", id="branch", parent="root").id
            first.add("分支里的发票 an invoice in the branch", id="leaf", parent=branch)
            first.add("别的 elsewhere", parent="root")
            assert first.flush() == 0

        def refuse(texts: Sequence[str]) -> None:
            if any("分支" in text for text in texts):
                raise ValueError("这个不行 not this one")

        with memory(embedder=new) as changed:
            assert len(changed.search("发票 invoice", scope=branch)) > 0
            new.hook = refuse
            assert changed.reembed().failed == 2
            found = changed.search("发票 invoice", scope=branch)
            assert {hit.id for hit in found} == {"leaf"}
            assert found[0].score_details.vector is None

    def test_whoever_still_thinks_of_the_old_model_takes_nothing_to_its_index(self, memory: OpenMemory) -> None:
        """It would take new vectors to the old collection, and out of the outbox."""
        with memory(embedder=HashingEmbedder(32)) as first:
            fill(first, 10)
            old_key = first._model.recorded().key
        with memory(embedder=Turned(32)) as changed:
            changed.reembed()
            changed.add("还在等 waits", id="waits")
            changed.search("waits")
            assert changed.pending() == 1
            shared, connections = changed._indexer._shared, changed._workspace.connections
            assert not shared.push(connections, old_key, 32, 100)
            assert changed.pending() == 1
            assert changed.flush() == 0
            check(changed, Turned(32))

    def test_two_processes_at_once_share_the_work(self, tmp_path: Path) -> None:
        config = {"embedding": {"provider": "hashing", "dimension": 32}, "index": {"background": False}}
        with Memory.open(tmp_path, config=config) as memory:
            fill(memory)
        config["embedding"] = {"provider": "hashing", "dimension": 48}
        code = """
            memory = Memory.open(sys.argv[1], config=json.loads(sys.argv[2]))
            say("open")
            wait()
            say(memory.reembed(batch_size=1).to_dict())
            memory.close()
        """
        with (
            Child(code, tmp_path, json.dumps(config)) as one,
            Child(code, tmp_path, json.dumps(config)) as two,
        ):
            assert (one.hear(), two.hear()) == ("open", "open")
            one.go()
            two.go()
            one.end()
            two.end()
        with Memory.open(tmp_path, config=config) as memory:
            memory.flush()
            check(memory, HashingEmbedder(48))

    def test_one_that_begins_with_yet_another_model_stops_the_first(self, memory: OpenMemory) -> None:
        fill(memory(embedder=HashingEmbedder(32), agent="old"))
        first, second = memory(embedder=HashingEmbedder(48)), memory(embedder=HashingEmbedder(40), agent="b")

        def overtake(done: int, total: int) -> None:
            if done == 10:
                with pytest.raises(KeyboardInterrupt):
                    second.reembed(batch_size=5, progress=interrupt_at(5))

        with pytest.raises(HybridMemError, match="another process"):
            first.reembed(batch_size=5, progress=overtake)
        second.reembed()
        check(second, HashingEmbedder(40))

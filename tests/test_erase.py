"""What erasing means for what is left: summaries, pointers, other places, and a receipt that tells nothing."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from crash.helpers import QUIET
from erasing import MARKERS, TEXT, found

from hybridmem import InvalidInput, Memory, NotFound, verify_erasure
from hybridmem.embed.hashing import HashingEmbedder

OpenMemory = Callable[..., Memory]
SHORT = {"min_tokens": 10}


def summarised(m: Memory, *, sources: int = 6) -> str:
    """The id of a summary that quotes ``secret``, among other sources."""
    task = m.start_task("办完 done", parent="root")
    for n in range(sources):
        m.add(f"发票 INV-{n} 没人接电话 nobody answered the phone at {n} o'clock", type="event", id=f"s{n}")
    m.add(f"决定：decision {TEXT}", type="decision", id="secret")
    m.add("决定：INV-3 要补开 has to be issued again", type="decision", id="s6")
    m.finish_task(task.id)
    (branch,) = m.consolidate(task.id).branches
    assert branch.summary_id is not None
    assert any(marker in branch.summary for marker in MARKERS)
    return branch.summary_id


class TestSummaries:
    def test_one_that_quotes_it_is_made_again_from_the_rest(self, memory: OpenMemory) -> None:
        m = memory(consolidation=SHORT)
        old = summarised(m)
        receipt = m.erase("secret")
        assert receipt.summaries == {"erased": 1, "remade": 1}
        assert m.get(old).is_purged
        (new,) = [node for node in m.walk() if node.type == "summary" and node.state == "live"]
        assert "INV-3 要补开" in new.content
        assert not any(marker in new.content for marker in MARKERS)
        assert {m.get(f"s{n}").replaced_by for n in range(7)} == {new.id}
        assert m.verify(replay=True).findings == ()
        m.unconsolidate(new.id)
        assert m.get("s0").state == "live"

    def test_a_summary_of_a_summary_too(self, memory: OpenMemory) -> None:
        m = memory(consolidation=SHORT)
        first = summarised(m)
        task = m.get(first).parent_id
        assert task is not None
        m.add_many({"content": f"后来 later INV-{n} 又没人接 nobody again", "type": "event", "parent": task}
                   for n in range(9))  # fmt: skip
        (branch,) = m.consolidate(task).branches
        second = branch.summary_id
        assert second is not None
        m.erase("secret")
        assert m.get(first).is_purged
        assert m.get(second).is_purged
        assert found(m.path) == []
        assert m.verify(replay=True).findings == ()

    def test_without_any_source_left_it_goes_too(self, memory: OpenMemory) -> None:
        m = memory(consolidation=SHORT)
        old = summarised(m)
        task = m.get(old).parent_id
        assert task is not None
        receipt = m.erase(task, subtree=True)
        assert receipt.summaries in ({}, {"erased": 1})
        assert [node.id for node in m.walk() if node.state != "forgotten"] == [m.root().id]
        assert found(m.path) == []

    def test_what_cannot_be_summarised_again_comes_back(self, memory: OpenMemory) -> None:
        class Failing:
            calls = 0

            def summarize(self, passages: object, budget: int) -> str:
                self.calls += 1
                if self.calls == 1:
                    return f"quotes {MARKERS[1]}"
                raise RuntimeError("no model")

        m = memory(summarizer=Failing(), consolidation=SHORT)
        old = summarised(m)
        assert m.erase("secret").summaries == {"erased": 1, "undone": 1}
        assert m.get(old).is_purged
        assert {m.get(f"s{n}").state for n in range(6)} == {"live"}
        assert m.verify(replay=True).findings == ()

    def test_flagged_it_stays_and_can_be_found(self, memory: OpenMemory) -> None:
        m = memory(consolidation=SHORT, erasure={"summaries": "flag"})
        old = summarised(m)
        assert m.erase("secret").summaries == {"flagged": 1}
        assert m.get(old).metadata["quotes_erased"] is True
        assert m.get("secret").is_purged
        assert m.verify(replay=True).findings == ()


class TestWhatIsRefused:
    def test_the_root_and_what_is_not_here(self, memory: OpenMemory) -> None:
        m = memory()
        with pytest.raises(InvalidInput, match="root"):
            m.erase(m.root().id, subtree=True)
        with pytest.raises(NotFound):
            m.erase("没有")
        other = memory(namespace=("别人",)).add("x", id="theirs", parent="root")
        with pytest.raises(NotFound):
            m.erase(other.id)

    def test_a_dry_run_changes_no_row(self, memory: OpenMemory, rows: Callable[[Memory], object]) -> None:
        m = memory(consolidation=SHORT)
        summarised(m)
        m.flush()
        before = rows(m)
        dry = m.erase("secret", dry_run=True)
        assert dry.dry_run
        m.erase_namespace(everything=True, dry_run=True)
        assert rows(m) == before
        real = m.erase("secret")
        assert (dry.counts, dry.summaries) == (real.counts, real.summaries)


class TestTheReceipt:
    def test_it_has_no_word_and_no_id_of_what_is_gone(self, memory: OpenMemory) -> None:
        m = memory()
        m.add(TEXT, id="secret-zqid", parent="root")
        receipt = m.erase("secret-zqid")
        text = json.dumps(receipt.to_dict(), ensure_ascii=False)
        assert "zq" not in text
        assert receipt.ids == (receipt.hashed("secret-zqid"),)
        assert receipt.digest == receipt.right_digest()
        assert replace(receipt, related=7).right_digest() != receipt.digest

    def test_the_check_sees_what_is_back(self, memory: OpenMemory) -> None:
        """Each kind of row that could hold it."""
        m = memory()
        m.add(TEXT, id="secret", parent="root")
        m.flush()
        receipt = m.erase("secret")
        assert verify_erasure(m.path, [receipt]).ok
        node = "(SELECT id FROM node WHERE uid = 'secret')"
        vector = "embedding (namespace_id, node_id, piece, revision_id, vector)"
        here = "WHERE uid = 'secret'"
        for sql, undo in {
            f"UPDATE revision SET content = 'x' WHERE node_id = {node}": "UPDATE revision SET content = ''",
            f"INSERT INTO lexical (rowid, terms) SELECT id, '1:x' FROM node {here}": "DELETE FROM lexical",
            f"UPDATE node SET state = 'live' {here}": f"UPDATE node SET state = 'forgotten' {here}",
            f"UPDATE node SET speaker = 'x' {here}": "UPDATE node SET speaker = ''",
            f"INSERT INTO {vector} SELECT 1, id, 0, 1, x'00' FROM node {here}": "DELETE FROM embedding",
        }.items():
            with closing(sqlite3.connect(m.path / "tree.db")) as conn:
                conn.execute(sql)
                conn.commit()
                assert not verify_erasure(m.path, [receipt]).ok, sql
                conn.execute(undo)
                conn.commit()
            assert verify_erasure(m.path, [receipt]).ok

    def test_a_changed_receipt_is_told(self, memory: OpenMemory) -> None:
        m = memory()
        m.add(TEXT, id="secret", parent="root")
        receipt = m.erase("secret")
        check = verify_erasure(m.path, [replace(receipt, ids=())])
        assert "digest" in check.found[0]

    @pytest.mark.parametrize("wrong", [5, "receipt", ["receipt"], [None], [{"salt": "x"}]])
    def test_what_is_no_receipt_is_refused(self, memory: OpenMemory, wrong: Any) -> None:
        m = memory()
        m.add(TEXT, id="secret", parent="root")
        with pytest.raises(InvalidInput, match="wanted: must be"):
            verify_erasure(m.path, wrong)
        with pytest.raises(InvalidInput, match="ids must be a string"):
            verify_erasure(m.path, [replace(m.erase("secret"), ids=([],))])


def test_search_is_exact_until_the_new_index_is_filled(tmp_path: Path) -> None:
    """The index is thrown away; a search in a big namespace right after it must find what Chroma does not have yet."""
    config = {**QUIET, "index": {**QUIET["index"], "batch_size": 50}}
    with Memory.open(tmp_path / "store", config=config) as m:
        m.add_many({"content": f"第 {n} 条 item number {n}", "parent": "root", "id": f"i{n}"} for n in range(300))
        m.flush()
        m.erase("i7")
        m._indexer._push()  # one batch of the new index: not all
        for n in (3, 150, 299):
            assert m.search(f"第 {n} 条 item number {n}", 1)[0].id == f"i{n}"
        with pytest.raises(Exception, match="made anew"):
            m._indexer.query(m._workspace.id, __import__("numpy").ones(32, dtype="float32"), 3)
        m.flush()
        assert m._indexer.query(m._workspace.id, __import__("numpy").ones(32, dtype="float32"), 3)


def test_a_vector_that_was_being_made_meanwhile_is_not_kept(memory: OpenMemory) -> None:
    """The text was read before it was erased; its vector is ready only after."""

    class Slow(HashingEmbedder):
        meanwhile: Callable[[], object] | None = None

        def embed_documents(self, texts: Sequence[str]) -> Any:
            found = super().embed_documents(texts)
            if self.meanwhile is not None:
                self.meanwhile()
                self.meanwhile = None
            return found

    embedder = Slow()
    m = memory(embedder=embedder)
    m.add(TEXT, id="secret", parent="root")
    other = memory()
    embedder.meanwhile = lambda: other.erase("secret")
    m.flush()
    with closing(sqlite3.connect(m.path / "tree.db")) as conn:
        assert conn.execute("SELECT count(*) FROM embedding").fetchone() == (0,)
    assert verify_erasure(m.path).ok


def test_what_others_wrote_below_moves_up(memory: OpenMemory) -> None:
    from hybridmem import erase_user

    m = memory(namespace=("team",))
    m.add(TEXT, id="hers", parent="root", metadata={"speaker": "Alice"})
    m.add("答复 reply", id="reply", parent="hers", metadata={"speaker": "Bob"})
    m.flush()
    receipt = erase_user(m.path, "Alice", config=QUIET)
    assert receipt.counts["moved"] == 1
    assert m.get("reply").parent_id == m.root().id
    assert m.get("reply").state == "live"
    assert m.get("hers").is_purged
    assert m.verify(replay=True).findings == ()

"""Changing the embedding model of a store: all at once, at any moment interruptible, and never two models in one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chroma_server import ChromaServer
from crash.helpers import Child, said
from reembedding import SEARCHED, TEXTS, Turned, check, fill, interrupt_at, vectors

from hybridmem import EmbeddingMismatch, EmbeddingUnavailable, InvalidInput, Memory
from hybridmem.config import EmbeddingConfig
from hybridmem.embed.hashing import HashingEmbedder
from hybridmem.embed.model import choose
from hybridmem.index.projection import DIRECTORY
from hybridmem.ports import EmbedderIdentity
from hybridmem.store.rebuild import rebuild

OpenMemory = Callable[..., Memory]


@pytest.mark.parametrize("new", [HashingEmbedder(48), Turned(32)], ids=["another width", "the same width"])
def test_every_memory_of_every_namespace_gets_the_new_vectors_and_keeps_its_id(
    memory: OpenMemory, new: Any, rows: Callable[[Memory], Any]
) -> None:
    """Archived ones too: they are found by vector when they are asked for."""
    old = HashingEmbedder(32)
    with memory(embedder=old, index=SEARCHED) as first, memory(embedder=old, namespace=("别的",)) as second:
        fill(first)
        second.add("另一个空间 another namespace", id="there")
        assert second.flush() == 0
        first.move("n5", "n4")
        first.update("n6", metadata={"来源": "mail"})
        first.flush()
        with first._workspace.write() as tx:
            tx.execute("UPDATE node SET state = 'archived' WHERE uid = 'n8'")
    before = rows(first)
    with memory(embedder=new, index=SEARCHED) as changed:
        steps: list[tuple[int, int]] = []
        report = changed.reembed(progress=lambda done, total: steps.append((done, total)))
        assert (report.embedded, report.resumed, report.failed, report.waiting) == (62, 0, 0, 0)
        assert "32 dimensions" in report.before
        assert changed.stats().embedding_model == report.model == new.identity.describe()
        assert steps == sorted(steps)
        assert steps[-1] == (62, 62)
        assert len(steps) > 5
        check(changed, new)
        [archived] = changed.search(TEXTS[2].format(8), k=1, states=["archived"])
        assert (archived.id, round(archived.score_details.cosine or 0.0, 4)) == ("n8", 1.0)
        after = rows(changed)
        for table in ("node", "revision", "task", "operation", "checkpoint", "lexical"):
            assert after[table] == before[table], table
    with memory(embedder=new, namespace=("别的",), index=SEARCHED) as second:
        check(second, new)


@pytest.mark.parametrize("is_open", [True, False], ids=["while the index is open", "after it was closed"])
def test_the_old_vectors_leave_the_database_and_the_old_index_the_disk(memory: OpenMemory, is_open: bool) -> None:
    first = memory(embedder=HashingEmbedder(32), index=SEARCHED)
    fill(first)
    old = vectors(first)["n7"][0].tobytes()
    segments = {file.name for file in (first.path / DIRECTORY).iterdir() if file.is_dir()}
    assert segments
    if not is_open:
        first.close()
    with memory(embedder=Turned(32), index=SEARCHED) as changed:
        changed.reembed()
    first.close()
    assert not segments & {file.name for file in (changed.path / DIRECTORY).iterdir()}
    assert [file.name for file in changed.path.iterdir() if file.is_file() and old in file.read_bytes()] == []


def test_another_model_under_the_same_name_replaces_every_vector_too(memory: OpenMemory) -> None:
    """As when a service changes what it serves: nothing in the name tells which of them a vector is of."""
    with memory(embedder=Turned(32, seed=7), index=SEARCHED) as first:
        fill(first)
    new = Turned(32, seed=8)
    with memory(embedder=new, index=SEARCHED) as changed:
        report = changed.reembed()
        assert (report.before, report.embedded) == (report.model, 61)
        check(changed, new)
        for one in range(0, 60, 7):
            found = changed._indexer.query(changed._workspace.id, new.embed_query(TEXTS[one % 3].format(one)), 1)
            with changed._workspace.read() as tx:
                assert tx.execute("SELECT uid FROM node WHERE id = ?", (found[0],)).fetchone()[0] == f"n{one}"


def test_the_same_model_changes_nothing_and_a_fresh_store_takes_the_configured_one(
    memory: OpenMemory, rows: Callable[[Memory], Any]
) -> None:
    with memory(embedder=HashingEmbedder(32)) as first:
        fill(first, 10)
        before = rows(first)
        report = first.reembed()
        assert (report.embedded, report.before) == (0, report.model)
        assert rows(first) == before
    with memory("fresh", embedder=HashingEmbedder(32)) as fresh:
        fresh.add("第一条 the first")
        assert fresh.reembed().embedded == 0
        check(fresh, HashingEmbedder(32))


def test_a_model_under_another_name_is_adopted_with_its_vectors(memory: OpenMemory) -> None:
    with memory(embedder=Turned(32)) as first:
        fill(first, 10)
        before = vectors(first)
    renamed = Turned(32, "moved to another path")
    with memory(embedder=renamed) as second:
        report = second.reembed()
        assert report.embedded == 0
        assert second.stats().embedding_model == renamed.identity.describe()
        assert {id: np.stack(rows).tolist() for id, rows in vectors(second).items()} == {
            id: np.stack(rows).tolist() for id, rows in before.items()
        }
        check(second, renamed)


class TestCutOff:
    def test_a_failing_model_keeps_what_is_done_and_the_next_run_goes_on(self, memory: OpenMemory) -> None:
        with memory(embedder=HashingEmbedder(32), index=SEARCHED) as first:
            fill(first)
        new = Turned(32)

        def fail(texts: Sequence[str]) -> None:
            if any("41" in text for text in texts):
                raise EmbeddingUnavailable("它走了 it has gone")

        with memory(embedder=new, index=SEARCHED) as changed:
            new.hook = fail
            with pytest.raises(EmbeddingUnavailable, match="gone"):
                changed.reembed(batch_size=1)
            assert "was built with" in changed.search("refund", k=3).warnings[0]
            kept = HashingEmbedder(32).embed_documents([TEXTS[1].format(1)])
            np.testing.assert_allclose(np.stack(vectors(changed)["n1"]), kept, atol=1e-6)
        with memory(embedder=HashingEmbedder(32), index=SEARCHED) as old:
            assert old.search(TEXTS[1].format(31), k=1).warnings == (), "whoever still has the old one goes on with it"
            check(old, HashingEmbedder(32), has_begun=True)
        with memory(embedder=new, index=SEARCHED) as changed:
            new.hook = lambda texts: None
            report = changed.reembed()
            assert report.resumed >= 40
            assert report.resumed + report.embedded == 61
            check(changed, new)

    @pytest.mark.parametrize("where", [3, 20, "switch"])
    def test_killed_in_the_middle_it_goes_on_where_it_stopped(self, tmp_path: Path, where: int | str) -> None:
        config = {"embedding": {"provider": "hashing", "dimension": 32}, "index": {**SEARCHED, "background": False}}
        with Memory.open(tmp_path, config=config) as memory:
            fill(memory)
        config["embedding"] = {"provider": "hashing", "dimension": 48}
        code = """
            from hybridmem.store import models
            config, where = json.loads(sys.argv[2]), json.loads(sys.argv[3])
            memory = Memory.open(sys.argv[1], config=config)
            steps = []
            def progress(done, total):
                steps.append(done)
                if len(steps) == where:
                    say(done)
                    os.kill(os.getpid(), signal.SIGKILL)
            if where == "switch":
                switch = models.switch
                def killed(tx, failed):
                    switch(tx, failed)
                    say(61)
                    os.kill(os.getpid(), signal.SIGKILL)
                models.switch = killed
            memory.reembed(batch_size=3, progress=progress)
        """
        with Child(code, tmp_path, json.dumps(config), json.dumps(where)) as child:
            done = child.hear()
            assert child.process.wait(60) == -9
        old = dict(config, embedding={"provider": "hashing", "dimension": 32})
        with Memory.open(tmp_path, config=old) as memory:
            check(memory, HashingEmbedder(32), has_begun=True)
            memory.update("n2", content="中断以后改的 changed after it was cut off")
            memory.add("中断以后写的 written after it was cut off", id="later")
            assert memory.flush() == 0
        with Memory.open(tmp_path, config=config) as memory:
            report = memory.reembed()
            assert report.resumed == done - (done > 3), "all but the one that was changed, if that was done"
            assert report.resumed + report.embedded == 62
            check(memory, HashingEmbedder(48))

    def test_a_third_model_begins_from_nothing(self, memory: OpenMemory) -> None:
        with memory(embedder=HashingEmbedder(32)) as first:
            fill(first, 20)
        with memory(embedder=HashingEmbedder(48)) as second, pytest.raises(KeyboardInterrupt):
            second.reembed(batch_size=5, progress=interrupt_at(10))
        third = Turned(48)
        with memory(embedder=third) as last:
            report = last.reembed()
            assert (report.resumed, report.embedded) == (0, 21)
            check(last, third)

    def test_what_is_changed_before_it_goes_on_loses_its_new_vector_at_once_and_metadata_costs_none(
        self, memory: OpenMemory
    ) -> None:
        """A content that somebody corrected or has erased must not live on in a vector that waits for its day."""
        with memory(embedder=HashingEmbedder(32)) as first:
            fill(first, 20)
        new = HashingEmbedder(48)
        changed = memory(embedder=new)
        with pytest.raises(KeyboardInterrupt):
            changed.reembed(batch_size=5, progress=interrupt_at(10))
        changed.update("n3", content="改过了 changed")
        changed.update("n4", metadata={"来源": "mail"})
        with changed._workspace.read() as tx:
            left = tx.execute("SELECT n.uid FROM embedding_next x JOIN node n ON n.id = x.node_id").fetchall()
        assert sorted(row[0] for row in left) == ["n0", "n1", "n2", "n4", "n5", "n6", "n7", "n8", "n9"]
        report = changed.reembed()
        assert (report.resumed, report.embedded) == (9, 12)
        check(changed, new)

    def test_going_back_to_the_old_model_forgets_what_was_begun(self, memory: OpenMemory) -> None:
        with memory(embedder=HashingEmbedder(32)) as first:
            fill(first, 20)
        with memory(embedder=HashingEmbedder(48)) as second, pytest.raises(KeyboardInterrupt):
            second.reembed(batch_size=5, progress=interrupt_at(10))
        with memory(embedder=HashingEmbedder(32)) as back:
            assert back.reembed().embedded == 0
            check(back, HashingEmbedder(32))


def test_a_content_that_the_new_model_cannot_embed_waits_with_its_reason(memory: OpenMemory) -> None:
    new = Turned(32)

    def refuse(texts: Sequence[str]) -> None:
        if any("第33号" in text for text in texts):
            raise ValueError("这个不行 not this one")

    with memory(embedder=HashingEmbedder(32), index=SEARCHED) as first:
        fill(first)
    with memory(embedder=new, index=SEARCHED) as changed:
        new.hook = refuse
        report = changed.reembed()
        assert (report.failed, report.embedded, report.waiting) == (1, 60, 1)
        assert [id for id, _ in changed.stats().stuck] == ["n33"]
        assert "not this one" in changed.stats().stuck[0][1]
        assert changed.search("财务退回第33号报销单", k=1)[0].id == "n33", "by its words"
        new.hook = lambda texts: None
        assert changed.flush() == 0
        check(changed, new)


def test_a_store_rebuilt_from_a_backup_of_before_the_change_has_one_model(memory: OpenMemory, tmp_path: Path) -> None:
    """The backup has the old vectors, the store whose log is replayed the new ones."""
    old = HashingEmbedder(32)
    with memory(embedder=old) as first:
        fill(first, 20)
        first.checkpoint("备份 backup")
    shutil.copyfile(first.path / "tree.db", tmp_path / "backup.db")
    with memory(embedder=Turned(32)) as changed:
        changed.reembed()
        changed.update("n3", content="备份以后改的 changed after the backup")
        changed.add("备份以后写的 written after the backup", id="later")
        assert changed.flush() == 0
    assert rebuild(first.path, tmp_path / "backup.db", tmp_path / "rebuilt", searchable=True).agree
    with memory("rebuilt", embedder=old) as rebuilt:
        assert rebuilt.flush() == 0
        check(rebuilt, old)


def test_a_wrong_batch_size_is_refused(memory: OpenMemory, refused: Any) -> None:
    one = memory()
    for size in (0, -1):
        with refused(one, InvalidInput, "batch_size"):
            one.reembed(batch_size=size)


def test_on_a_server_the_old_collection_is_replaced(memory: OpenMemory, chroma_server: ChromaServer) -> None:
    index = {**SEARCHED, "url": chroma_server.url, "timeout_seconds": 60.0}
    with memory(embedder=HashingEmbedder(32), index=index) as first:
        fill(first)
    new = Turned(32)
    with memory(embedder=new, index=index) as changed:
        assert changed.reembed().waiting == 0
        check(changed, new)
        stem = changed._indexer._shared._opened[changed._workspace.id].name.rsplit("-", 2)[0]
        names = [one.name for one in changed._indexer._shared._client._api.list_collections()]
        assert len([name for name in names if name.startswith(stem)]) == 1


def test_another_model_of_the_same_provider_is_compared_and_not_passed_over_either() -> None:
    known = EmbedderIdentity("openai", "recorded", "", 12)
    settings = EmbeddingConfig(provider="openai", model="named", base_url="http://127.0.0.1:9/v1", dimension=12)
    assert choose(known, settings, None).identity.model == "named"
    assert choose(known, settings.model_copy(update={"model": "recorded"}), None).identity.model == "recorded"


def test_a_model_that_is_named_in_the_configuration_is_not_passed_over_for_the_recorded_one(tmp_path: Path) -> None:
    config: dict[str, Any] = {"embedding": {"provider": "hashing", "dimension": 32}, "index": {"background": False}}
    with Memory.open(tmp_path, config=config) as memory:
        fill(memory, 5)
    config["embedding"]["dimension"] = 48
    with Memory.open(tmp_path, config=config) as memory:
        with pytest.raises(EmbeddingMismatch, match=r"32 dimensions.*48 dimensions.*reembed"):
            memory._model.get()
        memory.reembed()
        check(memory, HashingEmbedder(48))
    assert said(
        "memory = Memory.open(sys.argv[1], config=json.loads(sys.argv[2])); say(memory.stats().embedding_model)",
        tmp_path,
        json.dumps(config),
    ) == ["character-1-3-grams (hashing, 48 dimensions)"]

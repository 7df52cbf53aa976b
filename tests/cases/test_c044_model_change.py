"""C044: another embedding model with another vector size stops nothing, deletes nothing, and there is a way out.

The issue: after a change of model every call failed, and the advice was to wipe the memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from crash.helpers import Child

from hybridmem import EmbeddingMismatch, Memory
from hybridmem.embed.hashing import HashingEmbedder

OpenMemory = Callable[..., Memory]
Rows = Callable[[Memory], dict[str, Any]]
CONTENTS = {
    "person": "用户张三，部门研发部",
    "returned": "财务退回，原因是发票信息不清晰",
    "channel": "The user prefers a text message over e-mail",
    "window": "数据库 migration 的停机窗口是 Saturday 凌晨",
}


@pytest.fixture(params=[0, 10_000], ids=["located", "exact"])
def index(request: pytest.FixtureRequest) -> dict[str, int]:
    """Everything scored exactly, or Chroma and the lexical index asked first."""
    return {"exact_limit": request.param}


@pytest.fixture
def changed(memory: OpenMemory, index: dict[str, int]) -> Memory:
    """Filled with 384 numbers a vector, opened with 768."""
    with memory(embedder=HashingEmbedder(384), index=index) as old:
        old.start_task("企业报销任务 expense claims", next_step="提交报销单 submit")
        for id, content in CONTENTS.items():
            old.add(content, id=id, type="fact")
        old.checkpoint("换模型之前 before the change")
        assert old.flush() == 0
    return memory(embedder=HashingEmbedder(768), index=index)


def test_reading_goes_on_and_the_warning_names_both_models_both_sizes_and_the_way_out(changed: Memory) -> None:
    for id, content in CONTENTS.items():
        assert changed.get(id).content == content
    for query, id in (("发票为什么被退回", "returned"), ("text message", "channel"), ("停机窗口 migration", "window")):
        found = changed.search(query, k=1)
        assert found[0].id == id
        assert found[0].score_details.vector is None
        [warning] = found.warnings
        for said in ("384 dimensions", "768 dimensions", "reembed()", "hybridmem reembed"):
            assert said in warning
        assert "wipe" not in warning
        assert "delete" not in warning
    assert "财务退回" in changed.context("发票").text
    task = changed.active_task()
    assert task is not None
    assert len(changed.children(task.id)) == len(CONTENTS)
    with pytest.raises(EmbeddingMismatch, match=r"384 dimensions.*768 dimensions.*reembed"):
        changed._model.get()


def test_writing_and_recovery_go_on_and_nothing_is_lost_or_half_done(changed: Memory, rows: Rows) -> None:
    before = rows(changed)
    assert changed.resume().next_step == "提交报销单 submit"
    new = changed.add("换了模型以后写的 written after the change", id="new")
    changed.update("person", content="用户张三，部门市场部")
    changed.move("window", "returned")
    changed.checkpoint("之后 after")
    assert changed.flush() == 2, "they wait for a model that fits"
    assert changed.search("written after the change", k=1)[0].id == new.id
    assert changed.search("市场部", k=1)[0].id == "person"
    after = rows(changed)
    gone = {row[0] for row in before["embedding"]} - {row[0] for row in after["embedding"]}
    assert len(gone) == 1, "only the old vector of the content that was changed"
    assert "384" in str(changed.stats().embedding_model)


def test_the_old_model_still_finds_everything(changed: Memory, memory: OpenMemory, index: dict[str, int]) -> None:
    changed.add("换了模型以后写的 written after the change", id="new")
    changed.search("发票")
    changed.flush()
    with memory(embedder=HashingEmbedder(384), index=index, agent="other") as old:
        assert old.flush() == 0
        found = old.search("written after the change 发票", k=10)
        assert {hit.id for hit in found} >= {"new", "returned"}
        assert all(hit.score_details.vector is not None for hit in found if hit.id in (*CONTENTS, "new"))
        assert found.warnings == ()


def test_the_way_out_works_and_keeps_every_id(changed: Memory, rows: Rows) -> None:
    changed.add("换了模型以后写的 written after the change", id="new")
    before = rows(changed)
    report = changed.reembed()
    assert (report.embedded, report.failed, report.waiting) == (len(CONTENTS) + 2, 0, 0)
    after = rows(changed)
    for table in ("node", "revision", "task", "active", "operation", "checkpoint"):
        assert after[table] == before[table], table
    for id, content in [*CONTENTS.items(), ("new", "换了模型以后写的 written after the change")]:
        found = changed.search(content, k=1)
        assert (found[0].id, found.warnings) == (id, ())
        assert found[0].score_details.cosine == pytest.approx(1.0, abs=1e-3)
    assert "768" in str(changed.stats().embedding_model)
    assert changed.resume().next_step == "提交报销单 submit"


def test_killed_on_the_way_out_it_can_be_taken_again(tmp_path: Path) -> None:
    config: dict[str, Any] = {
        "embedding": {"provider": "hashing", "dimension": 384},
        "index": {"background": False, "exact_limit": 0},
    }
    with Memory.open(tmp_path, config=config) as memory:
        for id, content in CONTENTS.items():
            memory.add(content, id=id, parent="root")
        memory.flush()
    config["embedding"]["dimension"] = 768
    code = """
        memory = Memory.open(sys.argv[1], config=json.loads(sys.argv[2]))
        def progress(done, total):
            if done == 2:
                os.kill(os.getpid(), signal.SIGKILL)
        memory.reembed(batch_size=1, progress=progress)
    """
    with Child(code, tmp_path, json.dumps(config)) as child:
        assert child.process.wait(60) == -9
    with Memory.open(tmp_path, config=config) as memory:
        found = memory.search("发票 退回", k=1)
        assert (found[0].id, found[0].score_details.vector) == ("returned", None)
        report = memory.reembed()
        assert (report.resumed, report.embedded) == (2, 2)
        assert [node.id for node in memory.children(memory.root().id)] == list(CONTENTS)
        assert memory.search("发票 退回", k=1)[0].score_details.vector is not None

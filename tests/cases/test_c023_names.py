"""C023: any name of a user or an agent keeps its data to itself, in SQLite and in Chroma."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import pytest

from hybridmem import InvalidInput, Memory
from hybridmem.embed.hashing import HashingEmbedder
from hybridmem.index.chroma import collection_name
from hybridmem.inputs import MAX_NAME

OpenMemory = Callable[..., Memory]

#: Alike once odd characters are replaced, dropped, folded, normalised or cut.
NAMES = (
    "张三", "李四", "😀", "👨‍👩‍👧", "A/B", "A.B", "A B", "A_B", "a_b", "AB", "x", "é", "e\u0301", "__", "..", "-",
    "%2F", "张" * MAX_NAME, "张" * (MAX_NAME - 1) + "三",
)  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One store with one secret for each name, all under the same id, in Chroma too; to be read only."""
    path = tmp_path_factory.mktemp("names") / "store"
    for number, name in enumerate(NAMES):
        with opened(path, name) as m:
            m.add(f"机密 secret 编号{number}", id="same")
    with opened(path, NAMES[0]) as m:
        assert m.flush() == 0
    return path


def opened(path: Path, name: str, **retrieval: float) -> Memory:
    config = {"index": {"background": False, "exact_limit": 0}, "retrieval": retrieval}
    return Memory.open(path, namespace=(name,), config=config, embedder=HashingEmbedder())


def test_every_name_is_taken_and_comes_back_as_it_was(store: Path) -> None:
    """C023: two-character Chinese, emoji, slashes and dots, one character, 512 characters."""
    for number, name in enumerate(NAMES):
        with opened(store, name) as m:
            assert m.namespace == m.stats().namespace == (name,)
            assert m.get("same").content == f"机密 secret 编号{number}"


@pytest.mark.parametrize("way", [{"lexical": 0.0}, {"vector": 0.0}, {}], ids=["vector", "lexical", "both"])
def test_no_two_names_share_data(store: Path, way: dict[str, float]) -> None:
    """C023: a search in one namespace gives its own memory and no other, by either index, with Chroma in use."""
    for number, name in enumerate(NAMES):
        with opened(store, name, **way) as m:
            assert [hit.content for hit in m.search("机密 secret", 50)] == [f"机密 secret 编号{number}"]
            assert m.stats().index == "ready"
            assert (m.stats().nodes, m.stats().vectors) == (1, 1)


def test_no_two_names_share_a_collection() -> None:
    """C023: what Chroma is asked for is valid and different for each, also for namespaces of several segments."""
    namespaces = [(name,) for name in NAMES] + list(combinations(NAMES[:8], 2))
    assert len({collection_name(namespace, "模型 model") for namespace in namespaces}) == len(namespaces)


@pytest.mark.parametrize("name", ["张" * 600, "x" * (MAX_NAME + 1)])
def test_a_name_that_is_too_long_is_refused_by_one_rule(memory: OpenMemory, name: str) -> None:
    """C023: the same limit in characters for a namespace and an agent, whatever the script, before anything is made."""
    with pytest.raises(InvalidInput, match=f"namespace: may have up to {MAX_NAME} characters, not {len(name)}"):
        memory(namespace=(name,))
    with pytest.raises(InvalidInput, match=f"agent: may have up to {MAX_NAME} characters, not {len(name)}"):
        memory(agent=name)


def test_each_agent_has_its_own_place_whatever_it_is_called(memory: OpenMemory) -> None:
    """C023: the active task of one is nobody else's."""
    opened = {name: memory(agent=name) for name in NAMES}
    tasks = {name: m.start_task(f"任务 task {number}") for number, (name, m) in enumerate(opened.items())}
    for name, m in opened.items():
        active = m.active_task()
        assert active is not None
        assert (active.id, active.agent) == (tasks[name].id, name)

"""C013: after a memory was edited, search finds what it says now and no longer what it said."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from hybridmem import Memory

OpenMemory = Callable[..., Memory]

#: Two topics with no word, no character pair and (in the first two) no letter run in common.
TOPICS = {
    "zh": ("财务退回发票原因不清", "机房周五停机维护"),
    "en": ("zyx wvu zyxwvu", "maintenance begins on friday"),
    "mixed": ("GPU 集群扩容", "会议室 booking 三楼"),
}
WAYS = {"vector": {"lexical": 0.0}, "keyword": {"vector": 0.0}, "hybrid": {}}
#: What a search may rest on: nothing that surrounds a memory.
ALONE = {"tree": 0.0, "neighbour": 0.0, "speaker": 0.0, "date": 0.0, "recent": 0.0}


def best(m: Memory, question: str) -> Any:
    return next(iter(m.search(question)), None)


@pytest.mark.parametrize("edit", ["update", "supersede"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("topics", TOPICS)
@pytest.mark.parametrize("indexed", [True, False], ids=["index up to date", "index behind"])
def test_the_new_topic_is_found_at_once_and_the_old_one_never(
    memory: OpenMemory, topics: str, way: str, edit: str, indexed: bool
) -> None:
    """C013: by vectors alone, by words alone and by both; before the index has caught up, after it, and reopened."""
    one, two = TOPICS[topics]
    m = memory(retrieval={**ALONE, **WAYS[way]})
    node = m.add(one, type="fact")
    if indexed:
        m.flush()
    assert best(m, one).score_details.relevance > 0.3
    id = m.update(node.id, content=two).id if edit == "update" else m.supersede(node.id, two).id
    for turn in range(3):
        found = best(m, two)
        assert (found.id, found.content) == (id, two)
        assert found.score_details.relevance > 0.3
        stale = m.search(one)
        assert all(hit.content == two and hit.score_details.relevance < 0.3 for hit in stale)
        if way == "keyword":
            assert stale.hits == ()
        if turn == 0:
            assert m.flush() == 0
        else:
            m.close()
            m = memory(retrieval={**ALONE, **WAYS[way]})


@pytest.mark.parametrize("edit", ["update", "supersede"])
@pytest.mark.parametrize("topics", TOPICS)
def test_a_live_memory_has_one_vector_and_one_entry_for_each_of_its_words(
    memory: OpenMemory, topics: str, edit: str
) -> None:
    """C013: nothing of the old text is left in the vector index, nor twice in any."""
    one, two = TOPICS[topics]
    m = memory()
    node = m.add(one, type="fact")
    m.flush()
    for text in (two, one, two):
        node = m.update(node.id, content=text) if edit == "update" else m.supersede(node.id, text)
        assert m.flush() == 0
    assert m._indexer.query(m._workspace.id, m._model.get()[0].embed_query(one), 10) == [_internal(m, node.id)]
    with closing(sqlite3.connect(m.path / "tree.db")) as database:
        rows = database.execute(
            "SELECT e.node_id, count(*) FROM embedding e JOIN node n ON n.id = e.node_id "
            "WHERE n.state = 'live' GROUP BY e.node_id"
        ).fetchall()
    assert rows == [(_internal(m, node.id), 1)]
    assert m.verify(replay=True).ok


def _internal(m: Memory, id: str) -> int:
    with closing(sqlite3.connect(m.path / "tree.db")) as database:
        return int(database.execute("SELECT id FROM node WHERE uid = ?", (id,)).fetchone()[0])

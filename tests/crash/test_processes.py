"""Several processes on one store at once: nothing is lost, nothing is torn, nobody waits for ever."""

from __future__ import annotations

import json
import sqlite3
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from hybridmem import InvalidInput, Memory, StoreBusy
from hybridmem.index import OwnerLock

from .helpers import CONFIG, QUIET, Child, check_database, check_vectors, fill, said, until

#: A process that adds memories with a token of its own each: store, name, how many.
ADDER = """
    from hybridmem.index import chroma
    path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    config = CONFIG if count > 1 else QUIET
    say("ready")
    wait()
    with Memory.open(path, config=config) as memory:
        for number in range(count):
            memory.add(f"发票 invoice von {name} zeta{name}x{number}", type="event")
    say("done")
"""


def start_at_once(*children: Child) -> None:
    for child in children:
        assert child.hear() == "ready"
    for child in children:
        child.go()


def test_two_processes_add_200_each_to_a_new_store_and_a_third_finds_all_400(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with Child(ADDER, store, "a", 200) as one, Child(ADDER, store, "b", 200) as two:
        start_at_once(one, two)
        assert one.end() == two.end() == ["done"]
    tokens = [f"zeta{name}x{number}" for name in "ab" for number in range(200)]
    contents, first = said(
        """
        with Memory.open(sys.argv[1], config={"embedding": {"provider": "hashing", "dimension": 32}}) as memory:
            say([hit.content for hit in memory.search("发票 invoice", k=1000)])
            say([memory.search(token, k=1)[0].content for token in json.loads(sys.argv[2])])
        """,
        store,
        json.dumps(tokens),
    )
    assert sorted(content.split()[-1] for content in contents) == sorted(tokens)
    assert [content.split()[-1] for content in first] == tokens
    assert len(check_database(store)) == 400
    with Memory.open(store, config=QUIET) as memory:
        assert memory.flush() == 0
    check_vectors(store)


def test_four_processes_may_create_the_same_store_at_once(tmp_path: Path) -> None:
    store = tmp_path / "new" / "store"
    with ExitStack() as stack:
        children = [stack.enter_context(Child(ADDER, store, name, 1)) for name in "abcd"]
        start_at_once(*children)
        for child in children:
            assert child.end() == ["done"]
    assert len(check_database(store)) == 4
    with closing(sqlite3.connect(store / "tree.db")) as raw:
        assert raw.execute("SELECT count(*) FROM node WHERE parent_id IS NULL").fetchone() == (1,)


def test_a_writer_that_stays_too_long_gives_store_busy_and_nothing_is_written(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with (
        Memory.open(store, config={**QUIET, "store": {"busy_timeout_seconds": 0.2}}) as memory,
        Child(
            """
            import sqlite3
            raw = sqlite3.connect(sys.argv[1] + "/tree.db", isolation_level=None)
            raw.execute("BEGIN IMMEDIATE")
            say("holding")
            wait()
            raw.execute("ROLLBACK")
            say("free")
            """,
            store,
        ) as holder,
    ):
        before = memory.add("已经写入 written before", type="fact")
        operations = len(memory.operations())
        assert holder.hear() == "holding"
        with pytest.raises(StoreBusy, match="busy_timeout_seconds"):
            memory.add("太忙了 too busy")
        with pytest.raises(StoreBusy):
            memory.add_many([{"content": "一"}, {"content": "two"}])
        with pytest.raises(StoreBusy):
            memory.start_task("任务 task")
        # Reading goes on.
        assert memory.get(before.id).content == before.content
        assert [hit.id for hit in memory.search("written before", k=5)] == [before.id]
        assert memory.resume().active_node == before
        assert len(memory.operations()) == operations
        holder.go()
        assert holder.hear() == "free"
        after = memory.add("又可以写了 free again")
        assert memory.flush() == 0
        assert {hit.id for hit in memory.search("again 写了", k=5)} >= {after.id}
    assert set(check_database(store)) == {before.id, after.id}
    check_vectors(store)


def test_a_search_that_cannot_write_still_uses_the_vectors_there_are(tmp_path: Path) -> None:
    with Memory.open(tmp_path, config={**QUIET, "store": {"busy_timeout_seconds": 0.1}}) as memory:
        known = memory.add("invoice rejected by finance")
        memory.flush()
        pending = memory.add("发票 pending")
        with closing(sqlite3.connect(tmp_path / "tree.db", isolation_level=None)) as raw:
            raw.execute("BEGIN IMMEDIATE")
            result = memory.search("invoices rejecting finances 发票")
            raw.execute("ROLLBACK")
    assert {hit.id for hit in result} == {known.id, pending.id}
    assert {hit.id: hit.score_details.vector is not None for hit in result} == {known.id: True, pending.id: False}
    assert not any("embedder failed" in warning for warning in result.warnings)


def test_the_first_search_of_a_process_works_while_another_one_writes(tmp_path: Path) -> None:
    """Opening the index notes that in SQLite; a search must not fail since that has to wait."""
    with Memory.open(tmp_path, config=QUIET) as memory:
        known = memory.add("invoice rejected 发票退回")
        memory.flush()
    with (
        Memory.open(tmp_path, config={**QUIET, "store": {"busy_timeout_seconds": 0.1}}) as memory,
        closing(sqlite3.connect(tmp_path / "tree.db", isolation_level=None)) as raw,
    ):
        raw.execute("BEGIN IMMEDIATE")
        assert [hit.id for hit in memory.search("发票 invoice")] == [known.id]
        raw.execute("ROLLBACK")


def test_two_processes_that_move_two_nodes_below_each_other_make_no_loop(tmp_path: Path) -> None:
    mover = """
        with Memory.open(sys.argv[1], config=QUIET) as memory:
            say("ready")
            for one, other in json.loads(sys.argv[2]):
                wait()
                try:
                    memory.move(one, other)
                    say("moved")
                except InvalidInput as error:
                    say(str(error))
    """
    with Memory.open(tmp_path, config=QUIET) as memory:
        pairs = [(memory.add(f"甲 A{i}", parent="root").id, memory.add(f"乙 B{i}", parent="root").id) for i in range(5)]
    turned = [(b, a) for a, b in pairs]
    with Child(mover, tmp_path, json.dumps(pairs)) as one, Child(mover, tmp_path, json.dumps(turned)) as two:
        start_at_once(one, two)
        for number in range(len(pairs)):
            answers = [one.hear(), two.hear()]
            assert "moved" in answers
            assert sum("loop" in answer for answer in answers) == 1
            if number < len(pairs) - 1:
                one.go()
                two.go()
        assert one.end() == two.end() == []
    check_database(tmp_path)
    with Memory.open(tmp_path, config=QUIET) as memory:
        a, b = pairs[0]
        top, below = (a, b) if memory.get(b).parent_id == a else (b, a)
        with pytest.raises(InvalidInput, match="loop"):
            memory.move(top, below)
        assert len(list(memory.walk())) == 11


OWNER = """
    from hybridmem.index import chroma
    memory = Memory.open(sys.argv[1], config=CONFIG)
    memory.add("企业报销任务 owner", type="event")
    assert memory.flush() == 0
    say(memory.stats().index)
    while True:
        request = json.loads(sys.stdin.readline())
        say(getattr(memory, request[0])(*request[1:]).id)
"""


def ask(child: Child, *request: object) -> str:
    assert child.process.stdin is not None
    child.process.stdin.write(json.dumps(request) + "\n")
    child.process.stdin.flush()
    return str(child.hear())


@pytest.mark.parametrize("config", [QUIET, {**QUIET, "index": {"exact_limit": 10_000, "background": False}}])
def test_what_another_process_writes_is_found_at_once(tmp_path: Path, config: dict[str, object]) -> None:
    """In words and by its vector, whoever of the two owns the index; and the old text of an update no longer."""
    with Child(OWNER, tmp_path) as owner:
        assert owner.hear() == "ready"
        with Memory.open(tmp_path, config=config) as memory:
            for number in range(5):
                one = ask(owner, "add", f"database migration {number} 停机窗口周六")
                best = memory.search(f"migrations {number} 停机窗口", k=3)[0]
                assert best.id == one
                assert best.score_details.vector is not None
                # "migrating databases" shares no term with the text, so only the vector can find it.
                assert one in {hit.id for hit in memory.search("databasemigrate", k=10)}
            changed = memory.search("migration 3")[0].id
            assert ask(owner, "move", one, changed) == one
            assert memory.get(one).parent_id == changed
            memory.update(changed, content="quarterly budget 预算")
            mine = memory.add("written by the one that does not own the index 非所有者")
            hits = {hit.id: hit for hit in memory.search("停机窗口 migration 3", k=50)}
            assert "停机" not in hits.get(changed, mine).content
            found = memory.search("quarterly budgets 预算", k=3)[0]
            assert (found.id, found.content) == (changed, "quarterly budget 预算")
            assert found.score_details.vector is not None
            assert memory.search("非所有者", k=1)[0].id == mine.id


def test_when_the_owner_of_the_index_dies_another_process_takes_over(tmp_path: Path) -> None:
    with Child(OWNER, tmp_path) as owner:
        assert owner.hear() == "ready"
        with Memory.open(tmp_path, config=CONFIG) as memory:
            memory.add("第二个进程 second process")
            assert memory.stats().index != "ready"
            owner.kill()
            memory.add("没有主人了 the owner is gone")
            # Found at once, whoever owns the index.
            assert memory.search("owner is gone", k=1)[0].content.endswith("gone")
            until(lambda: memory.stats().pending == 0)
            assert memory.stats().index == "ready"
    check_database(tmp_path)
    check_vectors(tmp_path)


def test_the_checker_of_a_killed_owner_does_not_outlive_its_lock(tmp_path: Path) -> None:
    """It has the index open in a process of its own; whoever takes the lock next must be alone with the files."""
    with Child(OWNER, tmp_path) as owner:
        assert owner.hear() == "ready"
        owner.kill()
    with Child(
        """
        from hybridmem.index import chroma
        chroma.import_chromadb()
        memory = Memory.open(sys.argv[1], config=QUIET)
        say("flushing")
        memory.flush()
        """,
        tmp_path,
    ) as second:
        assert second.hear() == "flushing"
        until(lambda: children_of(second.process.pid))
        checkers = children_of(second.process.pid)
        second.kill()
    lock = OwnerLock(tmp_path / "vectors.lock")
    try:
        until(lock.acquire)
        assert [one for one in checkers if is_alive(one)] == []
    finally:
        lock.release()
        until(lambda: not any(is_alive(one) for one in checkers))


def children_of(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text(encoding="utf-8", errors="replace").rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[1]) == pid and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def is_alive(pid: int) -> bool:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rsplit(")", 1)[1].split()
    except OSError:
        return False
    return fields[0] != "Z"


class TestForgettingInAnotherProcess:
    """What one process forgets never comes back from another's search, whoever of them owns the index."""

    @pytest.mark.parametrize("config", [QUIET, {**QUIET, "index": {"exact_limit": 10_000, "background": False}}])
    @pytest.mark.parametrize("owner_forgets", [True, False])
    def test_it_is_gone_at_once_and_back_at_once(
        self, tmp_path: Path, config: dict[str, object], owner_forgets: bool
    ) -> None:
        """By its words and by its vector; the searching process has all of it in memory and in its index."""
        contents = fill(tmp_path, 30)
        with Child(OWNER if owner_forgets else FORGETTER, tmp_path) as other, Memory.open(tmp_path, config=config) as m:
            assert other.hear() == "ready"
            ids = {node.content: node.id for node in m.children()}
            for number, content in enumerate(contents[:12]):
                # Its own text is nearest to it by its vector, and the token is in no other.
                for query in (content, f"marke{number}"):
                    assert m.search(query, k=1)[0].id == ids[content]
                assert ask(other, "forget", ids[content]) == ids[content]
                for query in (content, f"marke{number}"):
                    found = m.search(query, k=30)
                    assert ids[content] not in {hit.id for hit in found}
                    assert ids[content] not in {hit.id for hit in m.context(query).hits}
                assert len(m.search(content, k=5)) == 5, "its place is taken by what is live"
                if number % 3 == 0:
                    ask(other, "restore_forgotten", ids[content])
                    best = m.search(content, k=1)[0]
                    assert best.id == ids[content]
                    assert best.score_details.vector is not None
        with Memory.open(tmp_path, config=QUIET) as m:
            assert m.flush() == 0
        kept = set(ids.values()) - {ids[one] for number, one in enumerate(contents[:12]) if number % 3}
        assert kept == check_database(tmp_path).keys() & set(ids.values())
        check_vectors(tmp_path)

    def test_while_others_forget_and_bring_back_nothing_forgotten_is_ever_found(self, tmp_path: Path) -> None:
        """Three processes at once: two that forget for good, one that searches all the time. A search that begins after
        somebody has said that a memory is forgotten does not find it."""
        contents = fill(tmp_path, 60)
        with Memory.open(tmp_path, config=CONFIG) as m:
            ids = [node.id for node in m.children() if node.content in contents]
            with (
                Child(FORGET_ALL, tmp_path, json.dumps(ids[0:40:2])) as one,
                Child(FORGET_ALL, tmp_path, json.dumps(ids[1:40:2])) as two,
            ):
                start_at_once(one, two)
                gone: set[str] = set()
                for number in range(20):
                    gone |= {one.hear(), two.hear()}
                    for query in (contents[number], "发票 invoice refund 停机窗口", f"marke{number}"):
                        assert gone.isdisjoint(hit.id for hit in m.search(query, k=60))
                assert one.end() == two.end() == []
            assert len(gone) == 40
            assert {hit.id for hit in m.search("发票 order refund migration 停机窗口 marke", k=60)} == set(ids[40:])
            until(lambda: m.flush() == 0)
        assert len(check_database(tmp_path)) == 20
        check_vectors(tmp_path)


FORGETTER = """
    memory = Memory.open(sys.argv[1], config=QUIET)
    say("ready")
    while True:
        request = json.loads(sys.stdin.readline())
        say(getattr(memory, request[0])(*request[1:]).id)
"""

FORGET_ALL = """
    with Memory.open(sys.argv[1], config=QUIET) as memory:
        say("ready")
        wait()
        for id in json.loads(sys.argv[2]):
            memory.forget(id)
            say(id)
            memory.search("发票", k=3)
"""

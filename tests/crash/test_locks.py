"""A process never drops its own locks on the database.

POSIX locks belong to a process, not to a descriptor: whoever opens ``tree.db`` a second time beside SQLite and closes
it again drops all that SQLite holds there. Another process that closes the store then believes to be the last one, and
takes the write-ahead log away; what is written to it afterwards is acknowledged and lost.
"""

from __future__ import annotations

from pathlib import Path

from hybridmem import Memory

from .helpers import QUIET, check_database, said

READER = """
    with Memory.open(sys.argv[1], config=QUIET) as memory:
        say([node.content for node in memory.walk()][1:])
"""


def test_writes_after_a_second_handle_was_opened_and_another_process_has_left_are_not_lost(tmp_path: Path) -> None:
    with Memory.open(tmp_path, config=QUIET) as memory:
        memory.add("第一条 first")
        with Memory.open(tmp_path, config=QUIET, agent="另一个 another"):
            assert said(READER, tmp_path) == [["第一条 first"]]
            memory.add("第二条 second")
        assert said(READER, tmp_path) == [["第一条 first", "第二条 second"]]
        memory.add("第三条 third")
        assert said(READER, tmp_path) == [["第一条 first", "第二条 second", "第三条 third"]]
    assert sorted(check_database(tmp_path).values()) == ["第一条 first", "第三条 third", "第二条 second"]


def test_nothing_but_sqlite_ever_opens_the_database(tmp_path: Path) -> None:
    """The whole kind, as the auditing of Python sees it: it is told of every open(), and not of SQLite's own."""
    assert said(
        """
        opened = []
        def audit(event, arguments):
            if event == "open" and isinstance(arguments[0], str) and Path(arguments[0]).name.startswith("tree.db"):
                opened.append(arguments[0])
        sys.addaudithook(audit)
        store = Path(sys.argv[1]) / "store"
        with Memory.open(store, config=QUIET) as memory:
            memory.start_task("任务 task")
            memory.add_many([{"content": f"记忆 memory {number}"} for number in range(30)])
            memory.flush()
            memory.search("memory 7"), memory.context("记忆"), memory.resume(), memory.checkpoint("点"), memory.stats()
            memory.export(store / "out.jsonl")
            with Memory.open(store, config=QUIET, namespace=("other",)) as second:
                second.import_(store / "out.jsonl")
        say(opened)
        open(store / "tree.db").close()
        say(len(opened))
        """,
        tmp_path,
    ) == [[], 1]

"""C007: several processes write to one store at once; a fresh process finds every memory, under an id of its own."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import pytest
from crash.helpers import QUIET, Child, check_database, check_vectors, said

from .processes import document, indexed, program

EACH = 25
#: Tells every id that it was given; a busy store is asked again, as the error says.
WRITER = """
    path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    say("ready")
    wait()
    ids = []
    with Memory.open(path, config=CONFIG, agent=name) as memory:
        for number in range(count):
            while True:
                try:
                    ids.append(memory.add(f"报销 claim {name} 第{number}号 token{name}x{number}", type="event").id)
                    break
                except StoreBusy:
                    pass
    say(ids)
"""
FIND = """
    with Memory.open(sys.argv[1], config=CONFIG) as memory:
        say([[hit.content for hit in memory.search(token, k=1)] for token in json.loads(sys.argv[2])])
"""


def assert_all_found(store: Path, tokens: list[str]) -> None:
    (found,) = said(FIND, store, json.dumps(tokens))
    assert [content[0].split()[-1] for content in found] == tokens
    assert sorted(content.split()[-1] for content in check_database(store).values()) == sorted(tokens)
    indexed(store, QUIET)
    check_vectors(store)


@pytest.mark.parametrize("processes", [2, 4])
def test_all_that_were_written_at_once_are_found(tmp_path: Path, processes: int) -> None:
    """C007"""
    names = "abcd"[:processes]
    with ExitStack() as stack:
        children = [stack.enter_context(Child(WRITER, tmp_path, name, EACH)) for name in names]
        for child in children:
            assert child.hear() == "ready"
        for child in children:
            child.go()
        ids = [one for child in children for one in child.end()[0]]
    assert len(set(ids)) == processes * EACH
    assert_all_found(tmp_path, [f"token{name}x{number}" for name in names for number in range(EACH)])


def test_the_program_and_a_process_that_stays_write_to_one_store(tmp_path: Path) -> None:
    """C007: one keeps the store open, the other opens it anew for every memory."""
    with Child(WRITER, tmp_path, "a", EACH) as child:
        assert child.hear() == "ready"
        child.go()
        for number in range(3):
            code, answer = document(program(tmp_path, "add", f"来自命令行 from the program tokencli{number}", "--json"))
            assert (code, answer["ok"]) == (0, True)
        child.end()
    assert_all_found(tmp_path, [f"tokenax{n}" for n in range(EACH)] + [f"tokencli{n}" for n in range(3)])

"""Four processes write to one store and read between their writes: nothing is lost and nothing is stale.

What one of them forgets is told to the others through a file, right after it was acknowledged. A search that begins
later, in whichever process, must not return it: not by its words, not by its vector.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from hybridmem import Memory

from .helpers import CONFIG, QUIET, Child, check_database, check_vectors

WRITES = 500
PROCESSES = 4

WRITER = """
    import random
    path, told, name, writes = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    chance = random.Random(name)
    notes = os.open(told, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    mine, gone, busy, stale = {}, [], 0, []

    def surely(call, *given, **more):
        # The one error there may be; the call may be repeated then.
        global busy
        while True:
            try:
                return call(*given, **more)
            except StoreBusy:
                busy += 1

    def forgotten():
        return dict(line.split("|", 1) for line in told.read_text(encoding="utf-8").splitlines())

    def look():
        known = forgotten()
        for content in [*chance.sample(sorted(known.values()), min(2, len(known))), "财务 退回 invoice refund"]:
            found = surely(memory.search, content, k=20)
            stale.extend(hit.id for hit in found if hit.id in known)
        if mine:
            one = chance.choice(list(mine))
            if one not in [hit.id for hit in surely(memory.search, mine[one], k=20)]:
                stale.append("not found: " + one)

    say("ready")
    wait()
    memory = surely(Memory.open, path, config=CONFIG, agent=name)
    for number in range(writes):
        kind = chance.random()
        if kind < 0.15 and len(mine) > 5:
            one = chance.choice(list(mine)[:-1])
            content = mine.pop(one)
            surely(memory.forget, one)
            os.write(notes, f"{one}|{content}\\n".encode())
            gone.append(one)
        elif kind < 0.3 and mine:
            one = chance.choice(list(mine))
            mine[one] = f"更正 corrected marke{name}u{number}"
            surely(memory.update, one, content=mine[one])
        else:
            content = f"财务退回 invoice refund marke{name}n{number}"
            mine[surely(memory.add, content, type="event").id] = content
        if number % 20 == 19:
            look()
    look()
    say([mine, gone, busy, stale])
    memory.close()
"""


def test_four_processes_of_500_writes_with_reads_between_lose_nothing_and_see_nothing_stale(tmp_path: Path) -> None:
    store, told = tmp_path / "store", tmp_path / "forgotten.txt"
    told.touch()
    with ExitStack() as stack:
        children = [stack.enter_context(Child(WRITER, store, told, name, WRITES)) for name in "abcd"[:PROCESSES]]
        for child in children:
            assert child.hear() == "ready"
        for child in children:
            child.go()
        said = [child.hear() for child in children]
        for child in children:
            child.end()
    assert [stale for _, _, _, stale in said] == [[]] * PROCESSES
    there = {one: content for mine, _, _, _ in said for one, content in mine.items()}
    gone = [one for _, forgotten, _, _ in said for one in forgotten]
    assert len(gone) > 100
    contents = check_database(store)
    assert contents == there
    with Memory.open(store, config=QUIET) as memory:
        assert memory.flush() == 0
        assert {memory.get(one).state for one in gone} == {"forgotten"}
        # Beside the writes there are the uses of what was found, which go along with any of them.
        assert sum(one.kind != "use" for one in memory.operations()) == 1 + PROCESSES * WRITES
    check_vectors(store)
    with Memory.open(store, config=CONFIG) as memory:
        for one in gone[:40]:
            assert one not in [hit.id for hit in memory.search(memory.get(one).content, k=50)]

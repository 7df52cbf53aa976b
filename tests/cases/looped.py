"""Every verb that reads, on a tree that raw SQL has made into none. In a process of its own, since the fault would be
that it never ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crash.helpers import said

#: Far longer than all of it takes, also on a busy machine: only what never ends reaches it.
SECONDS = 300.0

#: ``sys.argv``: the store, an id in the loop, an id elsewhere. Says the name of every verb that ended.
READ_ALL = """
store, looped, elsewhere = sys.argv[1:4]
def refused_or_done(call):
    try:
        call()
    except InvalidInput as error:  # e.g. an agent is at work there
        assert "nothing was forgotten" in str(error)
with Memory.open(store, config=QUIET) as memory:
    moment = memory.get(looped).created_at
    verbs = {
        "get": lambda: memory.get(looped),
        "children": lambda: (memory.children(looped), memory.children()),
        "ancestors": lambda: memory.ancestors(looped),
        "walk": lambda: (list(memory.walk()), list(memory.walk(looped))),
        "search": lambda: (memory.search("记忆 memory"), memory.search("记忆 memory", scope=looped)),
        "search as_of": lambda: memory.search("记忆 memory", as_of=moment),
        "search task": lambda: memory.search("记忆 memory", scope="task"),
        "context": lambda: (memory.context("记忆 memory"), memory.context()),
        "context as_of": lambda: memory.context("记忆 memory", as_of=moment),
        "weights": lambda: memory.weights([looped, elsewhere]),
        "resume": lambda: memory.resume(),
        "tasks": lambda: (memory.tasks(), memory.active_task()),
        "export": lambda: (memory.export(store + "/a.jsonl"), memory.export(store + "/b.json", format="tree")),
        "stats": lambda: memory.stats(),
        "checkpoint": lambda: memory.checkpoint("here"),
        "forget": lambda: refused_or_done(lambda: memory.forget(looped, subtree=True, dry_run=True)),
        "flush": lambda: memory.flush(),
        "verify": lambda: memory.verify(),
    }
    for name, verb in verbs.items():
        verb()
        say(name)
    say([one.kind for one in memory.verify().findings])
"""


def read_all(store: Path, looped: str, elsewhere: str) -> Any:
    """Runs every verb; returns the kinds of what verify finds. Fails if one does not end or raises."""
    *_, kinds = said(READ_ALL, store, looped, elsewhere, timeout=SECONDS)
    return kinds

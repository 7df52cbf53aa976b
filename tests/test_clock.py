"""Time comes from the clock port alone: who opens a store with a clock of their own meets no other time anywhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "hybridmem"
FILES = sorted(PACKAGE.rglob("*.py"))

#: What reads the clock on the wall. time.monotonic and time.perf_counter measure how long something takes, and may.
WALL = {
    *(f"time.{name}" for name in ("time", "time_ns", "localtime", "gmtime", "ctime", "asctime", "strftime")),
    *(f"time.{name}" for name in ("clock_gettime", "clock_gettime_ns")),
    *(f"datetime.datetime.{name}" for name in ("now", "utcnow", "today")),
    "datetime.date.today",
    "uuid.uuid1",
}
#: SQLite's own clock, in any text of the source.
IN_SQL = re.compile(
    r"\bCURRENT_(?:TIMESTAMP|TIME|DATE)\b|\bunixepoch\(|\b(?:datetime|date|time|julianday|strftime)\([^)]*'now'", re.I
)
#: The one place that reads it.
PORT = ("ports.py", "SystemClock", "datetime.datetime.now")
#: Who takes the machine's clock where a caller gave none: Memory.open by default, those that work on a whole store,
#: for which nobody has given them one, and the agent of the demo, which opens a store with it.
TAKE_THE_MACHINES = {
    "memory.py",
    "doctor.py",
    "backup_restore.py",
    "cli/demo_agent.py",
    "reencrypt.py",
    "rotation.py",
    "store/audit.py",
    "users.py",
    "whole_store.py",
}


def readings(source: str) -> Iterator[tuple[str, str]]:
    """(class or function at the top, what is named there) of everything in WALL, however it was imported; also what is
    only handed on (``default_factory=time.time``)."""
    tree = ast.parse(source)
    names: dict[str, str] = {}
    for item in ast.walk(tree):
        if isinstance(item, ast.Import):
            names.update({one.asname or one.name.split(".")[0]: one.name for one in item.names})
        elif isinstance(item, ast.ImportFrom) and item.level == 0:
            names.update({one.asname or one.name: f"{item.module}.{one.name}" for one in item.names})
            yield from (("import", f"{item.module}.*") for one in item.names if one.name == "*")
    for top in tree.body:
        if isinstance(top, ast.Import | ast.ImportFrom):
            continue
        for item in ast.walk(top):
            if isinstance(item, ast.Attribute | ast.Name) and (found := dotted(item, names)) in WALL:
                yield getattr(top, "name", ""), found


def dotted(item: ast.expr, names: dict[str, str]) -> str:
    """``datetime.datetime.now`` for whatever that is called here; "" for what is no name of a module."""
    if isinstance(item, ast.Name):
        return names.get(item.id, "")
    if isinstance(item, ast.Attribute):
        before = dotted(item.value, names)
        return f"{before}.{item.attr}" if before else ""
    return ""


def texts(source: str) -> Iterator[str]:
    for item in ast.walk(ast.parse(source)):
        if isinstance(item, ast.Constant) and isinstance(item.value, str):
            yield item.value


def test_only_the_port_reads_the_clock_on_the_wall() -> None:
    found = [
        (file.relative_to(PACKAGE).as_posix(), *reading)
        for file in FILES
        for reading in readings(file.read_text(encoding="utf-8"))
    ]
    assert found == [PORT]


def test_no_statement_asks_sqlite_for_the_time() -> None:
    found = [
        (file.name, text) for file in FILES for text in texts(file.read_text(encoding="utf-8")) if IN_SQL.search(text)
    ]
    assert found == []


def test_the_machines_clock_is_taken_only_where_nobody_can_give_one() -> None:
    found = {
        file.relative_to(PACKAGE).as_posix()
        for file in FILES
        for item in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(item, ast.Name) and item.id == "SystemClock"
    }
    assert found == TAKE_THE_MACHINES


@pytest.mark.parametrize(
    "source",
    [
        "import time\ndef f(): return time.time()",
        "import time as t\nclass A:\n    x = t.time_ns()",
        "from time import time_ns as ticks\nticks()",
        "def f():\n    from time import time\n    return time()",
        "import datetime\ndatetime.datetime.now()",
        "import datetime as d\nd.date.today()",
        "from datetime import datetime as moment\nmoment.utcnow()",
        "from datetime import date\nfield(default_factory=date.today)",
        "import uuid\nuuid.uuid1()",
        "from time import *",
    ],
)
def test_the_search_finds_every_way_to_read_it(source: str) -> None:
    assert list(readings(source))


@pytest.mark.parametrize(
    "source",
    [
        "import time\ntime.monotonic(), time.perf_counter(), time.sleep(1)",
        "from datetime import datetime, time\ndatetime.fromtimestamp(0), datetime.combine(day, time())",
        "def f(self): return self.clock.now(), workspace.now()",
    ],
)
def test_what_measures_or_converts_is_none(source: str) -> None:
    assert not list(readings(source))


@pytest.mark.parametrize("text", ["SELECT unixepoch()", "VALUES (datetime('now'))", "DEFAULT current_timestamp"])
def test_the_search_finds_the_clock_of_sqlite(text: str) -> None:
    assert IN_SQL.search(text)

"""C041: the time zone of the machine changes nothing: what is found by time, what is said of time, what naive means."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from hybridmem import InvalidInput, Memory

ROOT = Path(__file__).parents[2]
ZONES = ("UTC", "Asia/Shanghai", "America/New_York")
#: Run in a process of its own under a time zone: writes, imports, asks by time, and prints all of it.
LIFE = r"""
import json, sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from hybridmem import Memory

folder = Path(sys.argv[1])
class Clock:
    time = datetime(2026, 7, 2, 0, 30, tzinfo=timezone.utc)  # in New York it is still the 1st
    def now(self):
        return self.time

clock = Clock()
settings = {"embedding": {"provider": "hashing"}, "index": {"background": False}}
with Memory.open(folder / "store", config=settings, clock=clock) as memory:
    memory.add("刚刚 just now", type="event", id="now")
    for name, when in {
        "offset": "2026-07-02T08:10:00+08:00", "zulu": "2026-07-02T00:10:00Z", "west": "2026-07-01T20:10:00-04:00",
        "naive": "2026-07-02T00:10:00", "date": "2026-07-02", "before": "2026-07-01T23:00:00+00:00",
    }.items():
        memory.add(f"{name} 时间 time", type="event", id=name, occurred_at=when)
    chat = folder / "chat.json"
    chat.write_text(json.dumps([
        {"role": "user", "content": "聊天 chat +08:00", "created_at": "2026-07-02T08:20:00+08:00"},
        {"role": "user", "content": "聊天 chat naive", "created_at": "2026-07-02T00:20:00"},
    ]), encoding="utf-8")
    memory.import_(chat, parent="root")
    hour = clock.time - timedelta(hours=1)
    windows = {
        "aware": hour, "naive": hour.replace(tzinfo=None), "text": hour.isoformat(),
        "text naive": hour.isoformat()[:19],
        "shanghai": hour.astimezone(timezone(timedelta(hours=8))),
        "new york": hour.astimezone(timezone(timedelta(hours=-4))),
    }
    def found(question, **filters):
        return sorted(hit.content for hit in memory.search(question, 50, **filters))
    said = {
        "nodes": {node.content: [node.created_at.isoformat(), node.updated_at.isoformat()] for node in memory.walk()},
        "since": {name: found("时间 time 刚刚 聊天 chat", since=moment) for name, moment in windows.items()},
        "until": {name: found("时间 time 刚刚 聊天 chat", until=moment) for name, moment in windows.items()},
        "as_of": found("时间 time 刚刚", as_of="2026-07-02T00:30:00"),
        "today": [hit.content for hit in memory.search("今天 today 时间 time", 50)],
        "yesterday": [hit.content for hit in memory.search("昨天 yesterday 时间 time", 50)],
        "context": memory.context("时间 time", order="time").text,
        "operations": sorted({operation.at.isoformat() for operation in memory.operations()}),
        "checkpoint": memory.checkpoint("点 point").at.isoformat(),
    }
print(json.dumps(said, ensure_ascii=True))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Zone → what the process under it said."""
    found = {}
    for zone in ZONES:
        folder = tmp_path_factory.mktemp("zone")
        done = subprocess.run(
            [sys.executable, "-c", LIFE, str(folder)],
            env={**os.environ, "TZ": zone, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        )
        found[zone] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("zone", ZONES[1:])
def test_every_zone_says_the_same(told: dict[str, dict[str, Any]], zone: str) -> None:
    """C041: searches by time, "today", contexts, the log: nothing depends on where the machine stands."""
    assert told[zone] == told["UTC"]


def test_an_hour_is_the_same_hour_however_it_is_written(told: dict[str, dict[str, Any]]) -> None:
    """C041: offsets are converted, not relabelled; a naive time means UTC."""
    said = told["Asia/Shanghai"]
    within = [
        "date 时间 time",
        "naive 时间 time",
        "offset 时间 time",
        "west 时间 time",
        "zulu 时间 time",
        "刚刚 just now",
    ]
    for name, found in said["since"].items():
        assert [one for one in found if not one.startswith(("聊天", "user"))] == within, name
        assert sum("chat" in one for one in found) == 2, name
    assert all(found == ["before 时间 time"] for found in said["until"].values()), said["until"]
    assert {said["nodes"][f"{name} 时间 time"][0] for name in ("offset", "zulu", "west", "naive")} == {
        "2026-07-02T00:10:00+00:00"
    }
    assert said["nodes"]["date 时间 time"][0] == "2026-07-02T00:00:00+00:00"


def test_every_time_that_comes_out_carries_its_offset(told: dict[str, dict[str, Any]]) -> None:
    """C041: nobody has to guess."""
    said = told["America/New_York"]
    times = [time for pair in said["nodes"].values() for time in pair] + said["operations"] + [said["checkpoint"]]
    assert times
    for time in times:
        assert datetime.fromisoformat(time).utcoffset() == timedelta(0), time


def test_a_time_that_cannot_be_read_is_an_error_and_no_empty_result(memory: Any) -> None:
    """C041: mixing naive and aware times raises nothing, nonsense does, naming the field."""
    m: Memory = memory()
    m.add("发票 invoice")
    aware, naive = datetime(2026, 7, 1, tzinfo=timezone(timedelta(hours=8))), datetime(2026, 7, 3)
    assert len(m.search("发票 invoice", since=aware, until=naive)) == 1
    for field in ("since", "until", "as_of"):
        with pytest.raises(InvalidInput, match=f"^{field}: "):
            m.search("发票 invoice", **{field: "昨天 yesterday"})

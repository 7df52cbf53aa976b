"""Another process is running all the time: its next call obeys what was shared, revoked, or has ended since."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

from hybridmem import Memory
from hybridmem.embed.hashing import HashingEmbedder

GUEST = """
import sys
from datetime import datetime
from pathlib import Path
from hybridmem import Memory, HybridMemError
from hybridmem.embed.hashing import HashingEmbedder

class FileClock:
    def now(self):
        return datetime.fromisoformat(Path(sys.argv[2]).read_text())

m = Memory.open(sys.argv[1], namespace=("acme", "li-si"), config={"index": {"background": False}},
                embedder=HashingEmbedder(), clock=FileClock())
for line in sys.stdin:
    verb, id = line.split()
    try:
        found = {
            "get": lambda: m.get(id).id,
            "search": lambda: " ".join(hit.id for hit in m.search("发票 invoice")) or "nothing",
            "context": lambda: "发票" in m.context("发票 invoice").text,
            "shared": lambda: len(m.shared()),
            "add": lambda: m.add("新的 new", parent=id).parent_id,
        }[verb]()
    except HybridMemError as error:
        found = type(error).__name__
    print(found, flush=True)
"""


class Other:
    """The guest's process."""

    def __init__(self, store: Path, clock: Path) -> None:
        self._run = subprocess.Popen(
            [sys.executable, "-c", GUEST, str(store), str(clock)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8",
        )  # fmt: skip

    def says(self, id: str) -> list[str]:
        """What it says to each call, one after the other."""
        found = []
        for verb in ("search", "get", "context", "shared", "add"):
            assert self._run.stdin is not None
            assert self._run.stdout is not None
            self._run.stdin.write(f"{verb} {id}\n")
            self._run.stdin.flush()
            found.append(self._run.stdout.readline().strip())
        return found

    def close(self) -> None:
        self._run.communicate(timeout=60)


NOTHING = ["nothing", "NotFound", "False", "0", "NotFound"]


def test_the_next_call_of_a_running_process_obeys(tmp_path: Path) -> None:
    """Given, raised, revoked, given again with an end, over: each seen by the very next call of a process that has the
    subtree in memory."""
    clock, now = tmp_path / "clock", datetime(2026, 12, 2, 12, tzinfo=timezone.utc)
    clock.write_text(now.isoformat())
    owner = Memory.open(
        tmp_path / "store", namespace=("acme", "张三"), config={"index": {"background": False}},
        embedder=HashingEmbedder(),
    )  # fmt: skip
    fact = owner.add("发票 invoice", type="fact", parent="root").id
    other = Other(tmp_path / "store", clock)
    try:
        assert other.says(fact) == NOTHING
        first = owner.share(fact, "user:acme/li-si")
        assert other.says(fact) == [fact, fact, "True", "1", "AccessDenied"]
        second = owner.share(fact, "user:acme/li-si", "write")
        assert other.says(fact)[1:] == [fact, "True", "1", fact]
        owner.unshare(second.id)
        assert other.says(fact) == NOTHING
        owner.set_group("组", ["agent:acme/li-si:default"])
        owner.share(fact, "group:组")
        assert other.says(fact)[1:] == [fact, "True", "1", "AccessDenied"]
        owner.set_group("组", [])
        assert other.says(fact) == NOTHING
        end = datetime.now(timezone.utc) + timedelta(hours=1)
        owner.share(fact, "user:acme/li-si", expires=end)
        assert other.says(fact)[1:] == [fact, "True", "1", "AccessDenied"]
        clock.write_text(end.isoformat())
        assert other.says(fact) == NOTHING
        assert first.id != second.id
    finally:
        other.close()
        owner.close()

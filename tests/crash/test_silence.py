"""No network, no telemetry, nothing on stderr, and the program's logging left as it was (C064)."""

from __future__ import annotations

from pathlib import Path

import pytest

from .helpers import run

QUIET_RUN = """
    import socket
    import logging
    calls = []

    def refuse(name):
        def call(*arguments, **named):
            calls.append([name, str(arguments[-1])])
            raise OSError("no network in this test")
        return call

    socket.socket.connect = refuse("connect")
    socket.socket.connect_ex = refuse("connect_ex")
    socket.socket.sendto = refuse("sendto")
    for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex", "create_connection"):
        setattr(socket, name, refuse(name))
    root = logging.getLogger()
    before = (root.level, list(root.handlers), list(root.filters), logging.root.manager.disable)

    memory = Memory.open(sys.argv[1], config=CONFIG)
    memory.add("没有网络 no network", type="fact")
    memory.start_task("任务 task", next_step="下一步")
    memory.search("network")
    assert memory.flush() == 0
    assert memory.stats().index == "ready"
    memory.search("没有网络")
    memory.context("network")
    memory.checkpoint("名字")
    memory.resume()
    memory.close()
    with Memory.open(sys.argv[1], config=CONFIG) as again:
        again.search("任务")

    assert (root.level, list(root.handlers), list(root.filters), logging.root.manager.disable) == before
    assert not logging.getLogger("hybridmem").handlers
    say(calls)
"""


def test_a_whole_run_contacts_nobody_and_says_nothing(tmp_path: Path) -> None:
    done = run(QUIET_RUN, tmp_path)
    assert done.stderr == ""
    assert done.stdout == "[]\n"
    assert done.returncode == 0


def test_the_process_never_opens_an_internet_socket(tmp_path: Path) -> None:
    """Below Python too: while Chroma is open, the process has no descriptor of the internet families."""
    if not Path("/proc/self/net/tcp").exists():
        pytest.skip("needs /proc")
    done = run(
        """
        with Memory.open(sys.argv[1], config=CONFIG) as memory:
            memory.add("没有网络 no network")
            memory.flush()
            memory.search("network")
            links = [os.readlink(f"/proc/self/fd/{one}") for one in os.listdir("/proc/self/fd")
                     if os.path.exists(f"/proc/self/fd/{one}") or os.path.islink(f"/proc/self/fd/{one}")]
            mine = {link[8:-1] for link in links if link.startswith("socket:")}
            rows = [line.split() for kind in ("tcp", "tcp6", "udp", "udp6")
                    for line in Path(f"/proc/self/net/{kind}").read_text().splitlines()[1:]]
            say([row[2] for row in rows if row[9] in mine])
        """,
        tmp_path,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("[]\n", "", 0)


def test_chroma_in_a_hostile_directory_stays_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A .env file or a variable of another program must not redirect the index to a server."""
    (tmp_path / ".env").write_text("CHROMA_API_IMPL=chromadb.api.fastapi.FastAPI\nNONSENSE=1\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CHROMA_SERVER_HOST", "chroma.invalid")
    monkeypatch.setenv("IS_PERSISTENT", "False")
    monkeypatch.setenv("ANONYMIZED_TELEMETRY", "True")
    done = run(QUIET_RUN, tmp_path / "store")
    assert (done.stdout, done.stderr, done.returncode) == ("[]\n", "", 0)
    assert (tmp_path / "store" / "vectors" / "chroma.sqlite3").exists()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [".env", "store"]
